"""Processes killed at random moments, many writers at once, full and read-only disks."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import threading
import time

import pytest

from campaign.workers import CONTEXT, PARTS, begin, play, play_round, shared_campaign, tell_many, tell_together
from campaign.worlds import Clock, answers, small_campaign
from store.content import told as responses
from tensorucb.campaign import load_campaign
from tensorucb.errors import InputError, StoreError
from tensorucb.store import open_store


def start(target, *arguments):
    receive, send = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=target, args=(*arguments, send))
    process.start()
    send.close()
    return process, receive


def heard(pipe):
    """What a process had acknowledged before it died."""
    messages = []
    try:
        while True:
            messages.append(pipe.recv())
    except (EOFError, OSError):
        return messages


def check(campaign, acknowledged):
    """Every acknowledged step is there, and once."""
    rounds = {ask.number: ask for ask in campaign.rounds()}
    with campaign.store.read() as session:
        for kind, number, detail in acknowledged:
            if kind == "ask":
                assert rounds[number].id == detail
            elif kind == "close":
                assert rounds[number].status == "closed"
            elif kind == "tell":
                told = responses(session, 1, number).by_edge
                expected = len(answers(campaign, rounds[number])[detail::PARTS])
                assert sum(str(e).startswith(f"{number}/{detail}/") for e in told.event_ids) == expected
            elif kind == "node":
                assert responses(session, 1, number).actions.event_ids.tolist().count(f"node-{number}") == 1
        seqs = [event.seq for event in session.events(1)]
    assert seqs == list(range(1, len(seqs) + 1))


def killed_often(url, kills, seed=0, strike=lambda process: os.kill(process.pid, signal.SIGKILL)):
    rng = random.Random(seed)
    begin(url).disconnect()
    first, everything = 1, []
    for _ in range(kills):
        process, pipe = start(play, url, first, 10**6)
        # After a few steps, however slow the machine is; anywhere between two of them, or within one.
        acknowledged = [pipe.recv() for _ in range(rng.randint(1, 8))]
        threading.Event().wait(rng.uniform(0.0, 0.05))
        strike(process)
        acknowledged += heard(pipe)
        process.join()
        everything += acknowledged
        with load_campaign("spring", storage=url, clock=Clock()) as campaign:
            check(campaign, acknowledged)
            first = max(1, max((r.number for r in campaign.rounds()), default=1))
    last = first + 2
    process, pipe = start(play, url, first, last)
    assert heard(pipe)[-1] == ("done", last, "")
    process.join()

    smooth = begin("memory://")
    for number in range(1, last + 1):
        play_round(smooth, number, lambda message: None)
    with load_campaign("spring", storage=url, clock=Clock()) as campaign:
        check(campaign, everything)
        assert campaign.model_hash() == campaign.replay_hash() == smooth.model_hash()
        assert campaign.rounds() == smooth.rounds()
        with campaign.store.read() as session, smooth.store.read() as other:
            assert len(session.events(1)) == len(other.events(1))
            for number in range(1, last + 1):
                ours, theirs = responses(session, 1, number), responses(other, 1, number)
                assert ours.event_ids.tolist() == theirs.event_ids.tolist()
                assert ours.contents == theirs.contents
    assert last >= 3
    print(f"{kills} kills, {len(everything)} calls acknowledged, 0 lost")


@pytest.mark.parametrize("kills", [8, pytest.param(200, marks=pytest.mark.slow)])
def test_kill_9_loses_nothing_and_the_model_is_that_of_an_uninterrupted_run(tmp_path, kills):
    killed_often(f"sqlite:///{tmp_path}/c.db", kills)


@pytest.mark.parametrize("kills", [2, pytest.param(50, marks=pytest.mark.slow)])
def test_kill_9_on_postgresql(fresh_postgres_url, kills):
    killed_often(fresh_postgres_url, kills)


@pytest.mark.parametrize("kills", [1, pytest.param(12, marks=pytest.mark.slow)])
def test_kill_9_of_the_postgresql_server(postgres_server, fresh_postgres_url, kills):
    def strike(process):
        postgres_server.kill()
        process.join()
        postgres_server.start()

    killed_often(fresh_postgres_url, kills, strike=strike)


def many_tellers(url, processes, count):
    campaign, ask = shared_campaign(url)
    shared = answers(campaign, ask)
    done, polls, failures = threading.Event(), [0], []

    def poll():
        try:
            with load_campaign("spring", storage=url, clock=Clock()) as reader:
                while not done.wait(0.1):
                    reader.status()
                    reader.model_hash()
                    polls[0] += 1
        except BaseException as error:
            failures.append(error)

    watcher = threading.Thread(target=poll)
    watcher.start()
    began = time.monotonic()
    workers = [start(tell_many, url, ask.id, i, count, shared) for i in range(processes)]
    results = [pipe.recv() for _, pipe in workers]
    for process, _ in workers:
        process.join()
    lasted = time.monotonic() - began
    done.set()
    watcher.join()
    assert failures == []
    # Ten a second are tried; a busy machine may manage fewer, but a reader that never got through proves nothing.
    assert polls[0] >= max(1, int(lasted))
    assert [result for result in results if isinstance(result, str)] == []
    told = min(count, len(shared))
    assert sum(accepted for accepted, _ in results) == processes * count + told
    assert sum(duplicates for _, duplicates in results) == processes * count - told
    with campaign.store.read() as session:
        rows = responses(session, 1, 1)
    assert sorted(rows.actions.event_ids) == sorted(f"{p}/{i}" for p in range(processes) for i in range(count))
    assert rows.by_edge.size == told
    campaign.close(ask.id)
    assert campaign.model_hash() == campaign.replay_hash()
    campaign.disconnect()


@pytest.mark.parametrize(("processes", "count"), [(4, 8), pytest.param(32, 100, marks=pytest.mark.slow)])
def test_many_processes_tell_at_once(tmp_path, processes, count):
    many_tellers(f"sqlite:///{tmp_path}/c.db", processes, count)


def test_many_processes_tell_at_once_on_postgresql(fresh_postgres_url):
    many_tellers(fresh_postgres_url, 4, 8)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.parametrize("named", [True, False], ids=["with event ids", "without"])
def test_two_processes_that_tell_the_same_rows_at_once_double_nothing(tmp_path, request, kind, named):
    """Nothing in the tables forbids a second answer of an edge: the check in the write transaction has to."""
    url = f"sqlite:///{tmp_path}/c.db" if kind == "sqlite" else request.getfixturevalue("fresh_postgres_url")
    with small_campaign(url) as campaign:
        asks = [campaign.ask("tea", 4) for _ in range(6)]
        batches = [(ask.id, answers(campaign, ask)) for ask in asks]
        if named:
            batches = [(at, [{**row, "event_id": f"{at}/{i}"} for i, row in enumerate(rows)]) for at, rows in batches]
        barrier = CONTEXT.Barrier(2)
        tellers = [start(tell_together, url, batches, barrier) for _ in range(2)]
        (first, second) = (pipe.recv() for _, pipe in tellers)
        for process, _ in tellers:
            process.join()
        assert not isinstance(first, str), first
        assert not isinstance(second, str), second
        for ask, (_, rows), ours, theirs in zip(asks, batches, first, second, strict=True):
            assert sorted([ours, theirs]) == [(0, len(rows)), (len(rows), 0)]
            with campaign.store.read() as session:
                told = responses(session, 1, ask.number).by_edge
            edges = list(zip(told.sources.tolist(), told.targets.tolist(), strict=True))
            assert len(edges) == len(set(edges)) == len(rows)


def test_a_refused_batch_leaves_nothing_in_the_file(tmp_path):
    path = tmp_path / "c.db"
    campaign = small_campaign(f"sqlite:///{path}")
    ask = campaign.ask("tea", 4)
    rows = answers(campaign, ask)

    def dump():
        connection = sqlite3.connect(path)
        try:
            return list(connection.iterdump())
        finally:
            connection.close()

    before = dump()
    for bad in ({**rows[2], "outcome": 3}, {**rows[2], "source": "nobody"}, {**rows[2], "target": rows[2]["source"]}):
        with pytest.raises(InputError):
            campaign.tell(ask.id, [*rows[:2], bad, *rows[3:]], strict=True)
        assert dump() == before
    with pytest.raises(InputError):
        campaign.tell("another", rows)
    with pytest.raises(InputError):
        campaign.ask("tea", 10**6)
    assert dump() == before
    campaign.tell(ask.id, rows)
    assert dump() != before
    told = dump()
    campaign.tell(ask.id, rows)
    assert dump() == told


def test_a_full_disk_is_a_clear_error_and_the_next_start_is_clean(tmp_path):
    url = f"sqlite:///{tmp_path}/c.db"
    campaign = small_campaign(url)
    ask = campaign.ask("tea", 4)
    first = answers(campaign, ask)[:2]
    campaign.tell(ask.id, first)
    with campaign.store._engine.connect() as connection:  # the pool hands this connection out again
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages + 2}")
    many = [{"user": f"person-{i % 30:03d}", "time": 1000.0 + i, "event_id": f"{i}" * 20} for i in range(5000)]
    with pytest.raises(StoreError, match="no space left"):
        campaign.tell(ask.id, many)
    campaign.disconnect()
    with load_campaign("spring", storage=url, clock=Clock()) as again:
        assert again.tell(ask.id, first).duplicates == 2
        assert again.tell(ask.id, many).accepted == 5000
        again.close(ask.id)
        assert again.model_hash() == again.replay_hash()


def test_a_store_that_cannot_be_written_still_answers_questions(tmp_path):
    url = f"sqlite:///{tmp_path}/c.db"
    campaign = small_campaign(url)
    ask = campaign.ask("tea", 4)
    campaign.tell(ask.id, answers(campaign, ask))
    campaign.close(ask.id)
    expected = campaign.model_hash()
    campaign.disconnect()
    store = open_store(url)
    with store._engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA query_only=ON")
    again = load_campaign("spring", storage=store, clock=Clock())
    assert again.model_hash() == expected
    with pytest.raises(StoreError):
        again.tell(ask.id, [{"user": "person-001", "time": 1.0}])
    with pytest.raises(StoreError):
        again.ask("tea", 2)
    store.close()
    with load_campaign("spring", storage=url, clock=Clock()) as once_more:
        assert once_more.model_hash() == expected
        assert once_more.ask("tea", 2).number == 2
