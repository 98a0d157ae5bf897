"""Late responses to a long past: asks go on from what the log says is known, and the past is learned beside it."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from campaign import moments
from campaign.blobs import SNAPSHOTS
from campaign.worlds import Clock, answers, out_pairs, small_campaign, small_graph
from tensorucb.campaign import load_campaign
from tensorucb.policies import TensorUCB, Thompson
from tensorucb.store import open_store


@pytest.fixture
def long_past(monkeypatch):
    """No past is short; a third of the rounds must have changed before a close learns all of them again."""
    monkeypatch.setattr(moments.model, "_SHORT", 0)
    monkeypatch.setattr(moments.model, "_SHARE", 1 / 3)


def grown(store, rounds=12, policy=None):
    # With snapshots after every round, up to two rounds are learned at once.
    campaign = small_campaign(store, graph=small_graph(12, 40), policy=policy or Thompson(), snapshot_every=1)
    for i in range(rounds):
        lived(campaign, "tea" if i % 2 else "soap")
    return campaign


def lived(campaign, product="tea"):
    ask = campaign.ask(product, 2)
    campaign.tell(ask.id, answers(campaign, ask)[:-2])
    campaign.close(ask.id)
    return ask


def late(campaign, ask, at=0):
    """One response that was not told yet."""
    known = {(row["source"], row["target"]) for row in answers(campaign, ask)[:-2]}
    s, t = [pair for pair in out_pairs(campaign, ask.contacted) if pair not in known][at]
    return campaign.tell(ask.id, [{"source": s, "target": t, "outcome": 1}])


def learned_events(campaign):
    """How many rounds each event adds to what the model knows, and how many of those before stay, if not all."""
    with campaign.store.read() as session:
        payloads = [event.payload for event in session.events(1, kinds=["learned"])]
    return [(said.get("kept", "all"), len(said["rounds"])) for said in payloads]


@pytest.mark.parametrize("policy", [Thompson(), TensorUCB(rank=2)])
def test_asks_go_on_from_what_the_log_says_is_known(long_past, policy):
    campaign = grown("memory://", policy=policy)
    assert learned_events(campaign) == [("all", 1)] * 12
    first = campaign.rounds()[0]
    before = campaign.model_hash()
    assert campaign.status().behind == 0
    assert late(campaign, first).late == 1
    assert campaign.status().behind == 1
    campaign.ask("tea", 2)
    assert campaign.model_hash() == campaign.replay_hash() == before
    assert campaign.sync() == 12
    assert learned_events(campaign)[-1] == (0, 12)
    assert campaign.status().behind == 0
    assert campaign.model_hash() == campaign.replay_hash() != before


def test_a_new_process_knows_what_the_others_know(long_past, tmp_path):
    """Also without a snapshot: a round is learned as it was told when the log said that it was learned."""
    url = f"sqlite:///{tmp_path}/c.db"
    with grown(url) as campaign:
        late(campaign, campaign.rounds()[0])
        lived(campaign)
        expected = campaign.model_hash()
    for _ in range(2):
        with load_campaign("spring", storage=url, clock=Clock()) as again:
            assert again.status().behind == 1
            assert again.model_hash() == expected
        with open_store(url) as store, store.write() as session:
            session.delete_blobs(1, session.blobs(1, SNAPSHOTS))
    with load_campaign("spring", storage=url, clock=Clock()) as again:
        again.sync()
        assert again.model_hash() == again.replay_hash() != expected


def test_a_close_learns_the_past_again_once_enough_of_it_has_changed(long_past):
    campaign = grown("memory://", rounds=8)
    behind = []
    for ask in campaign.rounds()[:4]:
        late(campaign, ask)
        lived(campaign)
        behind.append(campaign.status().behind)
    # New rounds are learned at once; 4 of 12 is a third.
    assert behind == [1, 2, 3, 0]
    assert learned_events(campaign)[8:] == [("all", 1)] * 3 + [(0, 12)]
    assert campaign.model_hash() == campaign.replay_hash()


def test_late_responses_that_keep_coming_cost_little(long_past):
    campaign = grown("memory://", rounds=8)
    first = campaign.rounds()[0]
    for i in range(20):
        campaign.tell(first.id, [{"user": "person-003", "time": 1001.0 + i}])
        lived(campaign)
    # The same round changes again and again: it counts once.
    assert learned_events(campaign) == [("all", 1)] * 28
    assert campaign.status().behind == 1
    assert campaign.sync() == 28
    assert campaign.model_hash() == campaign.replay_hash()


class Slow(Thompson):
    """A policy of another package, which waits while it learns, if the test says so."""

    waits: threading.Event | None = None
    began = threading.Event()

    def learn(self, *arguments):
        if Slow.waits is not None:
            Slow.began.set()
            assert Slow.waits.wait(60.0)
        return super().learn(*arguments)


def test_nobody_waits_for_a_past_that_is_learned_again(long_past, monkeypatch):
    campaign = grown("memory://", policy=Slow())
    late(campaign, campaign.rounds()[0])
    waits = threading.Event()
    monkeypatch.setattr(Slow, "waits", waits)
    other = threading.Thread(target=campaign.sync)
    other.start()
    try:
        assert Slow.began.wait(60.0)
        ask = campaign.ask("tea", 2)
        assert campaign.tell(ask.id, answers(campaign, ask)[:1]).accepted == 1
        assert campaign.status().behind == 1
    finally:
        waits.set()
        other.join(60.0)
    assert campaign.status().behind == 0
    assert campaign.model_hash() == campaign.replay_hash()


def test_ordinary_late_responses_are_learned_by_the_tell_that_brings_them():
    """Nothing is patched here: a short past is learned again at once, as if the response had come in time."""
    campaign = grown("memory://", rounds=40)
    late(campaign, campaign.rounds()[0])
    assert learned_events(campaign)[-1] == (0, 40)
    assert campaign.status().behind == 0
    before = campaign.replay_hash()
    campaign.ask("tea", 2)
    assert len(learned_events(campaign)) == 41
    assert campaign.model_hash() == before


@pytest.mark.parametrize("bring", ["close", "sync", "tell"])
def test_no_ask_learns_a_late_response(bring, monkeypatch):
    """As after a tell that was killed between its commit and its learning; whoever closes, syncs or tells makes up."""
    campaign = grown("memory://", rounds=6)
    first, *_ = campaign.rounds()
    before = campaign.model_hash()
    with monkeypatch.context() as killed:
        killed.setattr(moments.Handle, "learn", lambda handle, caller: 0)
        late(campaign, first)
    ask = campaign.ask("tea", 2)
    assert campaign.status().behind == 1
    assert learned_events(campaign) == [("all", 1)] * 6
    assert campaign.model_hash() == campaign.replay_hash() == before
    {"close": lambda: campaign.close(ask.id), "sync": campaign.sync, "tell": lambda: late(campaign, first, 1)}[bring]()
    assert campaign.status().behind == 0
    assert learned_events(campaign)[-1][0] == 0
    assert campaign.model_hash() == campaign.replay_hash() != before


def test_a_late_response_waits_for_nobody_who_chooses(monkeypatch):
    """Not even to be learned: the ask goes on with the model that it began with."""
    campaign = grown("memory://", rounds=6)
    first, *_ = campaign.rounds()
    propose, teller = moments.ask.propose, threading.Thread(target=late, args=(campaign, first))

    def told_meanwhile(draft):
        if not teller.ident:
            teller.start()
            teller.join(60.0)
            assert not teller.is_alive()
        return propose(draft)

    monkeypatch.setattr(moments.ask, "propose", told_meanwhile)
    campaign.ask("tea", 2)
    assert campaign.status().behind == 0
    assert learned_events(campaign)[-1] == (0, 6)
    assert campaign.model_hash() == campaign.replay_hash()


def test_what_another_process_has_learned_since_stands(monkeypatch):
    """Two learn the past again at once, and the one who knows less writes it down last."""
    store, keep = open_store("memory://"), moments.Handle.keep
    campaign = grown(store, rounds=6)
    other = load_campaign("spring", storage=store, clock=Clock())
    first, second, *_ = campaign.rounds()

    def overtaken(handle, progress):
        monkeypatch.setattr(moments.Handle, "keep", keep)
        late(other, second)
        keep(handle, progress)

    monkeypatch.setattr(moments.Handle, "keep", overtaken)
    late(campaign, first)
    assert campaign.status().behind == 0
    assert campaign.model_hash() == other.model_hash() == campaign.replay_hash()


def test_an_ask_is_not_repeated_because_somebody_closed_a_round(monkeypatch):
    """Whoever closes while the choice is made is not waited for."""
    store = open_store("memory://")
    campaign = grown(store, rounds=3)
    other = load_campaign("spring", storage=store, clock=Clock())
    waiting = other.ask("tea", 2)
    propose, proposals = moments.ask.propose, []

    def overtaken(*given):
        proposals.append(propose(*given))
        if len(proposals) == 1:
            other.close(waiting.id)
        return proposals[-1]

    monkeypatch.setattr(moments.ask, "propose", overtaken)
    campaign.ask("tea", 2)
    assert len(proposals) == 1
    assert campaign.model_hash() == campaign.replay_hash()


@pytest.mark.slow
def test_two_hundred_and_fifty_rounds_without_a_patch():
    campaign = grown("memory://", rounds=250)
    learned = 0
    for ask in campaign.rounds()[:60]:
        late(campaign, ask)
        before = len(learned_events(campaign))
        lived(campaign)
        learned += sum(count for _, count in learned_events(campaign)[before:])
    # A twentieth of the rounds is a dozen: about five times in sixty all of them are learned again.
    assert learned < 8 * 310
    campaign.sync()
    assert campaign.model_hash() == campaign.replay_hash()


def test_what_a_campaign_keeps_is_what_a_new_one_reads():
    store, rng = open_store("memory://"), np.random.default_rng(3)
    clock = Clock()
    campaign = small_campaign(store, graph=small_graph(12, 40), policy=Thompson(), clock=clock)
    asks = []
    for i in range(60):
        clock.now += 1.0
        what, number = rng.integers(6), int(rng.integers(max(len(asks), 1)))
        if what < 2 or not asks:
            asks.append(campaign.ask("tea", 1, deadline=clock.now + 20 if what else None))
        elif what == 2 and campaign.round(asks[number].id).status == "open":
            campaign.cancel(asks[number].id)
        elif what == 3 and campaign.round(asks[number].id).status == "open":
            campaign.close(asks[number].id)
        elif what == 4 and campaign.round(asks[number].id).status != "cancelled":
            campaign.tell(asks[number].id, [{"user": "person-003", "time": 1001.0 + i}])
        elif i % 3 == 0:
            pairs = out_pairs(campaign, campaign.graph.ids.tolist())
            s, t = pairs[i % len(pairs)]
            campaign.import_history([{"source": s, "target": t, "outcome": 1, "round": i}], product="soap")
        fresh = load_campaign("spring", storage=store, clock=clock)
        assert campaign.rounds() == fresh.rounds()
        assert campaign.progress() == fresh.progress()
        if i % 10 == 9:
            assert campaign.model_hash() == fresh.model_hash() == campaign.replay_hash()
    assert campaign.status().closed > 10
    due = [ask.id for ask in fresh.rounds() if ask.deadline is not None and ask.status == "open"]
    assert campaign.expire(clock.now + 100) == due != []
