"""Processes that write to a store: run in children, so that they can be killed."""

from __future__ import annotations

import multiprocessing
import time
from dataclasses import replace

from store.content import ROUND, edges, told
from tensorucb.store import open_store

# A server process forks the children: quick, and free of the threads of whatever ran before.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["pytest", "tensorucb.store._sql", "tensorucb.store._sqlite", "tensorucb.store._postgres"]
)

ROWS = 5


def write_one(store, number, label):
    """One transaction as a campaign makes it: an event, a round of its own, and its responses."""
    with store.write() as session:
        seq = session.append_event(number, "tell", None, {"label": label}, 0.0)
        session.put_round(number, replace(ROUND, number=seq, id=label, revision=seq))
        session.add_responses(number, seq, edges(*((i, seq, 1, 0, f"{label}/{i}") for i in range(ROWS))), seq)


def labels(store, number):
    """The labels that were written, each checked to be whole."""
    with store.read() as view:
        events, rounds = view.events(number), view.rounds(number)
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert [at.number for at in rounds] == [event.seq for event in events]
        for event in events:
            assert told(view, number, event.seq).sources.tolist() == list(range(ROWS))
        return [event.payload["label"] for event in events]


def write_many(url, number, name, count, report):
    """Write ``count`` times; report the error, or None."""
    try:
        with open_store(url) as store:
            for i in range(count):
                write_one(store, number, f"{name}-{i}")
        report.send(None)
    except Exception as error:
        report.send(repr(error))


def write_until_killed(url, number, start, acknowledged):
    """Write without end, and say so after each write that is done."""
    with open_store(url) as store:
        for i in range(start, start + 1_000_000):
            write_one(store, number, f"w-{i}")
            acknowledged.send(i)


def write_until_refused(url, number, name, report):
    """Write until the store fails; the label of each write that is done, and then the error."""
    try:
        with open_store(url) as store:
            for i in range(1_000_000):
                write_one(store, number, f"{name}{i}")
                report.send(f"{name}{i}")
    except Exception as error:
        report.send(f"{type(error).__name__}: {error}")


def open_at(url, moment, report):
    """Open a store together with others."""
    time.sleep(max(0.0, moment - time.time()))
    try:
        with open_store(url) as store, store.write() as session:
            found = session.campaign("shared") or session.insert_campaign("shared", {}, 0.0)
            session.append_event(found.campaign, "opened", None, {}, 0.0)
        report.send(None)
    except Exception as error:
        report.send(repr(error))
