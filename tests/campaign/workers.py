"""Processes that run a campaign: children, so that they can be killed."""

from __future__ import annotations

import multiprocessing

from campaign.worlds import Clock, answers, small_campaign
from tensorucb.campaign import load_campaign
from tensorucb.errors import InputError
from tensorucb.policies import LinUCB, Thompson

# A server process forks the children: quick, and free of the threads of whatever ran before.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["campaign.workers", "tensorucb.store._sql", "tensorucb.store._sqlite"])
PARTS = 3


def begin(url):
    """A campaign whose every step is set by the script below, whoever plays it."""
    return small_campaign(url, policy=LinUCB(), snapshot_every=4)


def play_round(campaign, number, acknowledge):
    """Ask, tell in parts, close; each step may have been done before."""
    ask = campaign.ask("tea" if number % 2 else "soap", 3, request_id=f"request-{number}")
    acknowledge(("ask", number, ask.id))
    rows = answers(campaign, ask)
    for part in range(PARTS):
        told = [{**row, "event_id": f"{number}/{part}/{i}"} for i, row in enumerate(rows[part::PARTS])]
        report = campaign.tell(ask.id, told)
        assert report.accepted + report.duplicates == len(told), report
        acknowledge(("tell", number, part))
    campaign.tell(ask.id, [{"user": f"person-{number % 30:03d}", "time": 1001.0, "event_id": f"node-{number}"}])
    acknowledge(("node", number, 0))
    campaign.close(ask.id)
    acknowledge(("close", number, ask.id))


def play(url, first, last, pipe):
    """Rounds ``first`` to ``last``, each step acknowledged through the pipe once it has returned."""
    with load_campaign("spring", storage=url, clock=Clock()) as campaign:
        for number in range(first, last + 1):
            play_round(campaign, number, pipe.send)
    pipe.send(("done", last, ""))


def tell_many(url, round_id, name, count, shared, pipe):
    """``count`` tells: an event of one's own each, and a row that every process tells."""
    try:
        accepted = duplicates = 0
        with load_campaign("spring", storage=url, clock=Clock()) as campaign:
            for i in range(count):
                own = {"user": f"person-{i % 30:03d}", "time": 1000.0 + name + i / 1000, "event_id": f"{name}/{i}"}
                report = campaign.tell(round_id, [own, shared[i % len(shared)]])
                assert not report.contradictions
                accepted += report.accepted
                duplicates += report.duplicates
        pipe.send((accepted, duplicates))
    except Exception as error:
        pipe.send(repr(error))


def tell_together(url, batches, barrier, pipe):
    """Tell batches at the same moment as another process; accepted rows and duplicates of each."""
    try:
        told = []
        with load_campaign("spring", storage=url, clock=Clock()) as campaign:
            for round_id, rows in batches:
                barrier.wait(60.0)
                report = campaign.tell(round_id, rows)
                told.append((report.accepted, report.duplicates))
        pipe.send(told)
    except Exception as error:
        barrier.abort()
        pipe.send(repr(error))


def shared_campaign(url):
    """A campaign with one open round for many tellers."""
    campaign = small_campaign(url, policy=Thompson())
    return campaign, campaign.ask("tea", 6)


def play_round_with_strategies(campaign, number):
    """A round in which each user gets a strategy of their own."""
    ask = campaign.ask("tea", 5, strategies="all", per_user=True, request_id=f"request-{number}")
    campaign.tell(ask.id, answers(campaign, ask, 2 + number % 3))
    campaign.close(ask.id)


def play_with_strategies(url, first, last, pipe):
    """Such rounds ``first`` to ``last``; at the end the hashes of the model."""
    with load_campaign("spring", storage=url, clock=Clock()) as campaign:
        for number in range(first, last + 1):
            play_round_with_strategies(campaign, number)
        pipe.send([campaign.model_hash(), campaign.replay_hash()])


def ask_under_a_cap(url, name, rounds, pipe):
    """Rounds of one campaign of a group, one after another; who was contacted in each, or that nobody was left."""
    asked = []
    try:
        with load_campaign(name, storage=url, clock=Clock()) as campaign:
            for _ in range(rounds):
                try:
                    asked.append(campaign.ask("tea", 3).contacted)
                except InputError as error:
                    if "over the contact cap" not in str(error):
                        raise
        pipe.send(asked)
    except Exception as error:
        pipe.send(repr(error))
