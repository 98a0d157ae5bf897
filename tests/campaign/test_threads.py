"""One campaign object for all threads of a process: nothing is lost, and whoever reads or tells waits for nobody."""

import sqlite3
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from campaign import moments
from campaign.worlds import out_pairs, small_campaign
from tensorucb.campaign import delete_campaign, load_campaign
from tensorucb.errors import StateError, StoreError, TensorUCBError, UnknownIdError
from tensorucb.store import open_store


@pytest.fixture
def hasty():
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("storage", ["memory://", "file"])
def test_many_threads_share_one_campaign(tmp_path, hasty, storage):
    url = f"sqlite:///{tmp_path}/c.db" if storage == "file" else storage
    campaign = small_campaign(url, clock=time.time)
    asked = []
    told = []
    closed = []
    wrong = []
    stop = threading.Event()

    def operate(thread):
        for i in range(6):
            ask = campaign.ask(("tea", "soap")[i % 2], 2, request_id=f"{thread}-{i}")
            assert campaign.ask(("tea", "soap")[i % 2], 2, request_id=f"{thread}-{i}").id == ask.id
            asked.append(ask)
            if i % 2:
                assert campaign.close(ask.id).status == "closed"
                closed.append(ask.number)

    def tell(thread):
        # Several threads tell the same rounds the same edges: each is new to one of them, known to the others.
        done = set()
        while len(done) < 12 and not wrong:
            for ask in list(asked):
                if ask.number in done:
                    continue
                pairs = out_pairs(campaign, ask.contacted)
                rows = [{"source": s, "target": t, "outcome": i % 2} for i, (s, t) in enumerate(pairs)]
                for half in (rows[::2], rows[1::2]):
                    report = campaign.tell(ask.id, half)
                    assert report.accepted + report.duplicates == len(half)
                    assert not report.contradictions
                    told.append((ask.number, report.accepted))
                done.add(ask.number)

    def read(thread):
        seen = {}
        while not stop.is_set():
            before = len(asked)
            status, progress, rounds = campaign.status(), campaign.progress(), campaign.rounds()
            assert status.rounds == status.open + status.closed <= len(progress.rounds) <= len(rounds)
            assert before <= status.rounds
            assert [entry.number for entry in rounds] == list(range(1, len(rounds) + 1))
            for entry in progress.rounds:
                was = seen.get(entry.number, ("open", 0))
                assert not (was[0] == "closed" and entry.status == "open")
                assert entry.responders >= was[1]
                seen[entry.number] = entry.status, entry.responders
            campaign.preview("tea", 2)

    def guarded(work, thread):
        try:
            work(thread)
        except BaseException as error:
            wrong.append(error)
            raise

    with ThreadPoolExecutor(8) as pool:
        readers = [pool.submit(guarded, read, i) for i in range(2)]
        others = [pool.submit(guarded, work, i) for work in (operate, tell) for i in range(2)]
        for future in others:
            future.result(timeout=120)
        stop.set()
        for future in readers:
            future.result(timeout=60)
    status = campaign.status()
    assert (status.rounds, status.closed) == (12, len(closed))
    assert sorted(ask.number for ask in asked) == list(range(1, 13))
    edges = {ask.number: len(out_pairs(campaign, ask.contacted)) for ask in asked}
    accepted = {number: sum(count for at, count in told if at == number) for number in edges}
    assert accepted == edges
    assert campaign.model_hash() == campaign.replay_hash()


def test_who_reads_or_tells_does_not_wait_for_a_choice():
    begun, go_on, chooser = threading.Event(), threading.Event(), []

    def clock():
        # An ask looks at the clock while it holds the model.
        if threading.get_ident() in chooser:
            begun.set()
            assert go_on.wait(60)
        return time.time()

    campaign = small_campaign(clock=clock)
    first = campaign.ask("tea", 2)
    source, target = out_pairs(campaign, first.contacted)[0]

    def choose():
        chooser.append(threading.get_ident())
        return campaign.ask("tea", 2)

    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(choose)
        try:
            assert begun.wait(60)
            assert campaign.tell(first.id, [{"source": source, "target": target, "outcome": 1}]).accepted == 1
            assert campaign.progress().rounds[0].responders == 1
            assert (campaign.status().rounds, campaign.round(1).status) == (1, "open")
            assert campaign.cancel(first.id).status == "cancelled"
        finally:
            go_on.set()
        assert asking.result(60).number == 2


def test_a_reader_sees_one_moment(tmp_path):
    campaign = small_campaign(f"sqlite:///{tmp_path}/c.db", clock=time.time)
    with campaign._handle.read() as view, ThreadPoolExecutor(1) as pool:
        pool.submit(campaign.ask, "tea", 2).result(60)
        pool.submit(campaign.add_users, ["new"], [[0.0] * 3], ["new"], ["person-001"]).result(60)
        assert (campaign.status().rounds, campaign.status().users, view.network.graph.n_nodes) == (0, 30, 30)
    assert (campaign.status().rounds, campaign.status().users) == (1, 31)


def test_a_deleted_campaign_says_so(tmp_path):
    url = f"sqlite:///{tmp_path}/c.db"
    campaign = small_campaign(url, clock=time.time)
    ask = campaign.ask("tea", 2)
    delete_campaign("spring", storage=url)
    for call in (campaign.status, campaign.rounds, lambda: campaign.ask("tea", 2), lambda: campaign.close(ask.id)):
        with pytest.raises(UnknownIdError, match="deleted"):
            call()
    small_campaign(url, clock=time.time)
    with pytest.raises(TensorUCBError, match="deleted"):
        campaign.progress()


def _until(condition):
    over = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < over
        time.sleep(0.01)


def _tell_at_once(campaign, tells, meanwhile=lambda view: None):
    """Tell from one thread each while nobody else can write; what each got, and how many transactions that took."""
    handle, commits = campaign._handle, []
    with ThreadPoolExecutor(len(tells)) as pool:
        with handle.write() as view:
            first = pool.submit(campaign.tell, *tells[0])
            _until(lambda: handle._turn.locked() and not handle._jobs)
            others = [pool.submit(campaign.tell, *each) for each in tells[1:]]
            _until(lambda: len(handle._jobs) == len(others))
            meanwhile(view)
            sa.event.listen(campaign.store._engine, "commit", commits.append)
        answers = [future.exception() or future.result() for future in (first, *others)]
    return answers, len(commits)


def _pieces(campaign, ask, count):
    rows = [{"source": s, "target": t, "outcome": 1} for s, t in out_pairs(campaign, ask.contacted)]
    return [(ask.id, rows[at::count]) for at in range(count)]


def _rows(tells):
    return sum(len(rows) for _, rows in tells)


def test_tells_that_wait_share_a_transaction(tmp_path):
    url = f"sqlite:///{tmp_path}/c.db"
    campaign = small_campaign(url)
    ask = campaign.ask("tea", 8)
    tells = _pieces(campaign, ask, 8)
    answers, commits = _tell_at_once(campaign, [*tells, tells[-1]])
    assert sum(report.accepted for report in answers) == _rows(tells)
    assert sum(report.duplicates for report in answers) == len(tells[-1][1])
    assert commits == 3  # that for which all waited, the first thread's, and that of all others
    with load_campaign("spring", storage=url, clock=campaign.clock) as again, again.store.read() as session:
        assert session.responses(1, ask.number, ask.number)[ask.number].by_edge.size == _rows(tells)
        assert len([event for event in session.events(1) if event.kind == "told"]) == 8
    campaign.close(ask.id)
    assert campaign.model_hash() == campaign.replay_hash()


def test_a_tell_that_is_refused_undoes_no_other(tmp_path):
    campaign = small_campaign(f"sqlite:///{tmp_path}/c.db")
    kept, gone = campaign.ask("tea", 4), campaign.ask("soap", 4)
    tells = [*_pieces(campaign, kept, 4), *_pieces(campaign, gone, 2)]
    answers, _ = _tell_at_once(
        campaign, tells, lambda view: view.finish(view.round(gone.id), "cancelled", campaign.clock())
    )
    assert [isinstance(answer, StateError) for answer in answers] == [False] * 4 + [True] * 2
    assert sum(report.accepted for report in answers[:4]) == _rows(tells[:4])
    assert [campaign.tell(*each).duplicates for each in tells[:4]] == [len(rows) for _, rows in tells[:4]]


def test_no_tell_is_acknowledged_where_the_commit_fails(tmp_path, monkeypatch):
    campaign = small_campaign(f"sqlite:///{tmp_path}/c.db")
    ask = campaign.ask("tea", 8)
    tells = _pieces(campaign, ask, 5)
    commit = sa.Connection.commit

    def fail(connection):
        if threading.current_thread() is threading.main_thread():
            return commit(connection)
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(sa.Connection, "commit", fail)
        answers, _ = _tell_at_once(campaign, tells)
    assert [type(answer) for answer in answers] == [StoreError] * 5
    assert sum(campaign.tell(*each).accepted for each in tells) == _rows(tells)
    campaign.close(ask.id)
    assert campaign.model_hash() == campaign.replay_hash()


def test_two_who_ask_at_once_on_postgresql_choose_one_after_the_other(fresh_postgres_url, monkeypatch):
    """As two workers of a service: a choice that the other has overtaken would be made again."""
    small_campaign(fresh_postgres_url).disconnect()
    choices = []

    def propose(draft):
        choices.append(draft)
        time.sleep(0.05)  # long enough for the other one to come
        return chosen(draft)

    chosen = moments.ask.propose
    monkeypatch.setattr(moments.ask, "propose", propose)

    def ask(rounds):
        with load_campaign("spring", storage=fresh_postgres_url) as campaign:
            return [campaign.ask("tea", 2).number for _ in range(rounds)]

    with ThreadPoolExecutor(2) as pool:
        numbers = [number for asked in pool.map(ask, [3, 3]) for number in asked]
    assert sorted(numbers) == [1, 2, 3, 4, 5, 6]
    assert len(choices) == 6


def test_nobody_waits_long_for_one_who_chooses_and_does_not_end(fresh_postgres_url):
    with open_store(fresh_postgres_url) as stuck, open_store(fresh_postgres_url, timeout=0.2) as other:
        with stuck.turn_to_choose(1), other.turn_to_choose(1), other.write() as session:
            assert session.campaigns() == []
        with other.turn_to_choose(1), stuck.turn_to_choose(2):  # of another campaign
            pass
