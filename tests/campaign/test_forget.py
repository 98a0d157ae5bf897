from __future__ import annotations

import threading

import numpy as np
import psycopg
import pytest

from campaign import moments
from campaign.worlds import Clock, answers, out_pairs, small_campaign, small_graph
from tensorucb.campaign import load_campaign
from tensorucb.errors import InputError, StoreError, UnknownIdError
from tensorucb.graph import Graph
from tensorucb.policies import LinUCB, TensorUCB, Thompson
from tensorucb.store import open_store


def used(storage, victim, **settings):
    """A campaign in which the victim was contacted, followed others, acted, and contradicted themselves."""
    campaign = small_campaign(storage, **settings)
    for i in range(5):
        ask = campaign.ask("tea", 4, must_include=[victim], holdout=0.25 if i == 3 else 0.0)
        rows = answers(campaign, ask)
        campaign.tell(ask.id, [{**row, "event_id": f"{i}:{row['source']}>{row['target']}"} for row in rows])
        own = next(row for row in rows if row["source"] == victim)
        campaign.tell(ask.id, [{**own, "outcome": 1 - own["outcome"]}])
        campaign.tell(ask.id, [{"user": victim, "time": 1001.0 + i}, {"user": "person-009", "time": 1002.0}])
        if i < 4:
            campaign.close(ask.id)
    campaign.ask("soap", 3, exclude=[victim])
    return campaign


def test_neither_bytes_nor_model_hold_the_user(tmp_path):
    victim = "person-004"
    path = tmp_path / "c.db"
    campaign = used(f"sqlite:///{path}", victim)
    holding = [p for p in tmp_path.iterdir() if victim.encode() in p.read_bytes()]
    assert holding
    report = campaign.forget(victim)
    assert report.proven
    assert report.bytes_absent is True
    assert report.responses > 5
    assert report.rounds == 5
    assert report.model_before != report.model_after == report.replay
    for file in tmp_path.iterdir():
        assert victim.encode() not in file.read_bytes(), file
    campaign.disconnect()
    again = load_campaign("spring", storage=f"sqlite:///{path}", clock=Clock())
    assert again.model_hash() == report.model_after
    assert again.graph.n_nodes == 29
    with pytest.raises(UnknownIdError):
        again.ask("tea", 2, must_include=[victim])
    for ask in again.rounds():
        assert victim not in (*ask.seeds, *ask.contacted, *ask.held_out)
        assert victim not in str(ask.explain())
    again.export(tmp_path / "out")
    for file in (tmp_path / "out").iterdir():
        assert victim.encode() not in file.read_bytes(), file
    graph = again.graph
    with again.store.read() as session:
        assert session.users(1) == graph.ids.tolist()
        rounds = session.responses(1, 1, len(again.rounds()))
    batches = [rows.by_edge for rows in rounds.values()]
    told = [pair for rows in batches for pair in zip(rows.sources.tolist(), rows.targets.tolist(), strict=True)]
    assert len(told) > 5
    assert set(told) <= set(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
    with pytest.raises(UnknownIdError):
        again.forget(victim)


def test_the_model_afterwards_is_that_of_a_network_without_the_user():
    """Thompson counts trials by edge, so that the counts of the others must stay and the user's must go."""
    victim = "person-004"
    campaign = used("memory://", victim, policy=Thompson())
    campaign.model_hash()
    before = campaign._handle.model.policy.state().arrays
    old = campaign.graph
    campaign.forget(victim)
    arrays, graph = campaign._handle.model.policy.state().arrays, campaign.graph
    edges = old.edge_rows(graph.ids[graph.sources], graph.ids[graph.targets])
    for name in ("successes", "failures"):
        np.testing.assert_array_equal(arrays[name], before[name][edges])
    assert graph.n_edges < old.n_edges
    assert victim not in graph.ids


def test_life_goes_on_after_forgetting():
    campaign = used("memory://", "person-004")
    campaign.forget("person-004")
    campaign.add_users(["person-900"], np.zeros((1, 3)), ["person-900"], ["person-001"])
    ask = campaign.ask("tea", 3, must_include=["person-900"])
    assert campaign.tell(ask.id, answers(campaign, ask)).accepted > 0
    campaign.close(ask.id)
    assert campaign.graph.n_nodes == 30
    assert campaign.graph.ids[-1] == "person-900"
    campaign.forget("person-900")
    assert campaign.model_hash() == campaign.replay_hash()
    assert len(out_pairs(campaign, ask.seeds[:1] if ask.seeds[0] != "person-900" else ask.seeds[1:2])) > 0


def test_the_lists_of_others_stay_theirs_when_somebody_before_them_goes():
    """Users are rows, which move up: no list, request, contradiction or past round may end up with a neighbour."""
    store = open_store("memory://")
    listed = ["person-006", "person-011"]
    campaign = small_campaign(store, ask={"exclude": listed}, clock=Clock())
    other = load_campaign("spring", storage=store, clock=Clock())
    first = campaign.ask("tea", 3, must_include=["person-008"], request_id="monday")
    own, *_ = answers(campaign, first)
    campaign.tell(first.id, [own])
    campaign.tell(first.id, [{**own, "outcome": 1 - own["outcome"]}])
    before = {user: campaign.explain(first.id, user).status for user in campaign.graph.ids.tolist()}
    graph = campaign.graph
    edges = set(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
    pair = next((s, t) for s, t in sorted(edges) if min(s, t) > 8 and (s + 1, t + 1) in edges)
    past, next_to_it = (
        [{"source": graph.ids[s].item(), "target": graph.ids[t].item(), "outcome": 1}]
        for s, t in (pair, (pair[0] + 1, pair[1] + 1))
    )
    campaign.import_history(past, "soap")
    gone = next(user for user in graph.ids.tolist()[:8] if user not in (*own.values(), *first.seeds, *listed))
    campaign.forget(gone)
    for one in (campaign, other):
        assert one.settings["ask"]["exclude"] == listed
        assert one.ask("tea", 3, must_include=["person-008"], request_id="monday").seeds == first.seeds
        assert not set(listed) & set(one.preview("tea", 20).seeds)
        now = {user: one.explain(first.id, user).status for user in one.graph.ids.tolist()}
        assert now == {user: status for user, status in before.items() if user != gone}
        assert one.import_history(past, "soap").known_rounds == 1
        report = one.tell(first.id, [{**own, "outcome": 1 - own["outcome"]}])
        assert [(clash.source, clash.target) for clash in report.contradictions] == [(own["source"], own["target"])]
    # These have the rows now that the past round had when it was imported.
    assert campaign.import_history(next_to_it, "soap").rounds == 1


def test_other_objects_notice_that_somebody_was_forgotten():
    store = open_store("memory://")
    campaign = used(store, "person-004")
    other = load_campaign("spring", storage=store, clock=Clock())
    other.model_hash()
    campaign.forget("person-004")
    assert other.model_hash() == campaign.model_hash()
    assert "person-004" not in other.graph.ids


def test_what_cannot_be_told_is_not_claimed(tmp_path):
    campaign = small_campaign(f"sqlite:///{tmp_path}/c.db", graph=small_graph(strings=False))
    assert campaign.forget(3).bytes_absent is None
    prefix = small_campaign(
        f"sqlite:///{tmp_path}/d.db", graph=Graph.from_edges(["ann", "anna", "bob"], ["bob", "bob", "anna"])
    )
    assert prefix.forget("ann").bytes_absent is None
    # A copy of the person elsewhere in the file is not hidden from the report.
    small_campaign(f"sqlite:///{tmp_path}/e.db", name="other")
    campaign = small_campaign(f"sqlite:///{tmp_path}/e.db")
    report = campaign.forget("person-003")
    assert (report.bytes_absent, report.proven) == (False, False)


def star():
    leaves = [f"leaf-{i:03d}" for i in range(6)]
    return Graph.from_edges(["hub-user"] * 6 + leaves, leaves + ["hub-user"] * 6)


@pytest.mark.parametrize(
    "policy", [LinUCB(), TensorUCB(), TensorUCB.paper(likelihood="logistic"), Thompson()], ids=lambda p: p.name
)
def test_a_hub_with_every_edge_of_the_network_can_be_forgotten(policy):
    campaign = small_campaign(graph=star(), policy=policy)
    for i in range(5):
        ask = campaign.ask("tea", 1, must_include=["hub-user"])
        campaign.tell(ask.id, answers(campaign, ask))
        if i < 4:
            campaign.close(ask.id)
    report = campaign.forget("hub-user")
    assert report.proven
    assert report.rounds == 5
    assert campaign.graph.n_edges == 0
    assert campaign.round(ask.id).contacted == ()
    campaign.close(ask.id)
    # Life goes on: new edges bring it back.
    campaign.add_users([], None, ["leaf-001", "leaf-001"], ["leaf-002", "leaf-003"])
    ask = campaign.ask("tea", 1, must_include=["leaf-001"])
    assert campaign.tell(ask.id, answers(campaign, ask)).accepted > 0
    campaign.close(ask.id)
    assert campaign.model_hash() == campaign.replay_hash()


def test_the_last_user_cannot_be_forgotten():
    campaign = small_campaign(graph=Graph.from_edges(["a"], ["b"]))
    assert campaign.forget("a").proven
    before = campaign.model_hash()
    with pytest.raises(InputError, match="last user of the campaign"):
        campaign.forget("b")
    assert campaign.model_hash() == before


def test_a_purge_that_a_reader_stopped_is_finished_by_the_next_call(tmp_path):
    victim, path = "person-004", tmp_path / "c.db"
    with open_store(f"sqlite:///{path}", timeout=0.3) as store:
        campaign = used(store, victim)
        with store.read() as reader:
            reader.campaigns()
            with pytest.raises(StoreError, match=r"person-004.*forget the same id again"):
                campaign.forget(victim)
            # Whoever opens the campaign cannot finish it now, but sees that there is something to finish.
            assert load_campaign("spring", storage=store, clock=Clock()).status().erasing == 1
        assert any(victim.encode() in file.read_bytes() for file in tmp_path.iterdir())
        report = campaign.forget(victim)
        assert (report.completed, report.proven, report.bytes_absent, report.responses) == (True, True, True, 0)
        assert report.model_before == report.model_after == report.replay
        for file in tmp_path.iterdir():
            assert victim.encode() not in file.read_bytes(), file
        with pytest.raises(UnknownIdError):
            campaign.forget(victim)
        assert not campaign.forget("person-005").completed


def test_a_process_that_died_before_the_purge_is_completed(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/c.db"
    with used(url, "person-004") as campaign:
        monkeypatch.setattr(campaign.store, "purge", lambda timeout=None: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            campaign.forget("person-004")
        assert campaign.status().erasing == 1
        assert any(b"person-004" in file.read_bytes() for file in tmp_path.iterdir())
    # Opening the campaign is enough.
    with load_campaign("spring", storage=url, clock=Clock()) as again:
        assert again.status().erasing == 0
        for file in tmp_path.iterdir():
            assert b"person-004" not in file.read_bytes(), file
        with pytest.raises(UnknownIdError):
            again.forget("person-004")


def test_a_purge_leaves_the_mark_of_one_that_came_after_it(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/c.db"
    with used(url, "person-004") as campaign, load_campaign("spring", storage=url, clock=Clock()) as other:
        monkeypatch.setattr(other.store, "purge", lambda timeout=None: 1 / 0)
        rewrite = campaign.store.purge

        def overtaken(timeout=None):
            rewrite()
            with pytest.raises(ZeroDivisionError):
                other.forget("person-005")

        monkeypatch.setattr(campaign.store, "purge", overtaken)
        campaign.forget("person-004")
        monkeypatch.setattr(campaign.store, "purge", rewrite)
        assert campaign.forget("person-005").completed
        with pytest.raises(UnknownIdError):
            campaign.forget("person-005")


@pytest.mark.parametrize("strings", [True, False])
@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
def test_other_campaigns_that_know_the_person_are_named(tmp_path, request, kind, strings):
    url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/c.db"}.get(kind)
    victim = "person-003" if strings else 3
    with open_store(url or request.getfixturevalue("fresh_postgres_url")) as store:
        for name in ("autumn", "winter"):
            small_campaign(store, name=name, graph=small_graph(strings=strings))
        campaign = small_campaign(store, graph=small_graph(strings=strings))
        load_campaign("winter", storage=store).forget(victim)
        assert campaign.forget(victim).elsewhere == ("autumn",)


def test_postgresql_claims_nothing_of_its_files_and_its_statistics_are_renewed(fresh_postgres_url):
    victim = "person-004"

    def quoted():
        query = "SELECT count(*) FROM pg_stats WHERE schemaname = current_schema() AND tablename = 'tensorucb_blob'"
        listed = " AND (most_common_vals::text LIKE %s OR histogram_bounds::text LIKE %s)"
        with psycopg.connect(fresh_postgres_url) as connection:
            return connection.execute(query + listed, [f"%{victim.encode().hex()}%"] * 2).fetchone()[0]

    with open_store(fresh_postgres_url, timeout=1.0) as store:
        campaign = used(store, victim)
        with psycopg.connect(fresh_postgres_url, autocommit=True) as connection:
            connection.execute("ANALYZE tensorucb_blob")
        assert quoted()
        # A session that reads the tables keeps them from being rewritten; it must not be waited for without end.
        with store.read() as reader:
            reader.users(campaign._handle.record.campaign)
            with pytest.raises(StoreError, match="forget the same id again"):
                campaign.forget(victim)
        report = campaign.forget(victim)
        assert (report.completed, report.proven, report.bytes_absent, report.files) == (True, True, None, ())
        assert not quoted()


def test_a_round_that_closes_meanwhile_keeps_nobody_from_being_forgotten(tmp_path, monkeypatch):
    """Whoever learns waits for the model without a session, which would keep the store's files from being rewritten."""
    erase = moments.forget._erase
    erasing, waiting = threading.Event(), threading.Event()

    def slow(*arguments):
        erasing.set()
        assert waiting.wait(60.0)
        return erase(*arguments)

    monkeypatch.setattr(moments.forget, "_erase", slow)
    with small_campaign(f"sqlite:///{tmp_path}/c.db") as campaign:
        ask = campaign.ask("tea", 2)

        def close():
            assert erasing.wait(60.0)
            threading.Timer(0.5, waiting.set).start()  # time enough to come to the lock
            campaign.close(ask.id)

        other = threading.Thread(target=close)
        other.start()
        report = campaign.forget("person-007")
        other.join(60.0)
        assert report.proven
        assert campaign.round(ask.id).status == "closed"


def test_the_proof_is_of_one_moment(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/c.db"
    replay_hash = moments.Handle.replay_hash
    with small_campaign(url) as campaign, load_campaign("spring", storage=url, clock=Clock()) as other:
        ask = campaign.ask("tea", 2)

        def later(handle):
            other.close(ask.id)
            return replay_hash(handle)

        monkeypatch.setattr(moments.Handle, "replay_hash", later)
        assert campaign.forget("person-007").proven
