"""Late responses to a long past: asks go on from the model that there is, and the past is learned beside it."""

from __future__ import annotations

import numpy as np
import pytest

from campaign.worlds import Clock, answers, out_pairs, small_campaign, small_graph
from tensorucb.campaign import _ask, _handle, _model, load_campaign
from tensorucb.policies import Policy, TensorUCB, Thompson
from tensorucb.store import open_store


@pytest.fixture
def small_steps(monkeypatch):
    """Nothing is little, and every call learns one round of a changed past."""
    monkeypatch.setattr(_model, "_AT_ONCE", 0)
    monkeypatch.setattr(_ask, "IN_ASK", 0)
    monkeypatch.setattr(_handle, "IN_CLOSE", 0)


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


@pytest.mark.parametrize("policy", [Thompson(), TensorUCB(rank=2)])
def test_asks_go_on_and_say_how_far_behind_they_are(small_steps, policy):
    campaign = grown("memory://", policy=policy)
    first = campaign.rounds()[0]
    assert campaign.status().behind == 0
    before = campaign.model_hash()
    assert late(campaign, first).late == 1
    assert campaign.status().behind == 1
    ask = campaign.ask("tea", 2)
    # One of twelve rounds is learned again; the answer came from the model without the late response.
    assert (ask.behind, campaign._handle.model.replayed) == (1, 1)
    assert campaign._handle.model.state_hash() == before
    assert campaign.round(ask.id).behind == 1
    learned = [campaign.ask("tea", 2).behind for _ in range(10)]
    assert learned == [1] * 9 + [0]
    assert campaign.status().behind == 0
    assert campaign._handle.model.state_hash() == campaign.replay_hash() != before


def test_late_responses_that_keep_coming_keep_nobody_from_learning(small_steps):
    campaign = grown("memory://", rounds=8)
    first, second = campaign.rounds()[:2]
    late(campaign, first)
    behind = []
    for i in range(20):
        # Round 2 changes before every ask, and so before the past is learned to its end.
        campaign.tell(second.id, [{"user": "person-003", "time": 1001.0 + i}])
        behind.append(campaign.ask("tea", 2).behind)
    # Each pass over the eight rounds ends all the same: after the first, only round 2 is not up to date.
    assert behind == [2] * 7 + [1] * 13
    assert (1, campaign._handle.ledger.rounds[1].revision) in campaign._handle.model._serving.pairs


def test_rounds_that_close_meanwhile_are_learned_at_once(small_steps):
    campaign = grown("memory://", rounds=10)
    late(campaign, campaign.rounds()[0])
    newest = lived(campaign)
    assert newest.number in [number for number, _ in campaign._handle.model._serving.pairs]
    assert campaign.ask("tea", 2).behind == 1


def test_sync_learns_to_the_end(small_steps):
    campaign = grown("memory://", rounds=10)
    late(campaign, campaign.rounds()[0])
    assert campaign.ask("tea", 2).behind == 1
    assert campaign.sync() == 9
    assert campaign.ask("tea", 2).behind == 0
    assert campaign.model_hash() == campaign.replay_hash()


def test_a_new_process_answers_from_what_others_left(small_steps, tmp_path):
    url = f"sqlite:///{tmp_path}/c.db"
    with grown(url) as campaign:
        expected = campaign.model_hash()
        late(campaign, campaign.rounds()[0])
    calls = 0
    behind = 1
    while behind:
        with load_campaign("spring", storage=url, clock=Clock()) as again:
            announced = again.status().behind
            behind, calls = again.ask("tea", 2).behind, calls + 1
            assert announced == behind
            # Each of them learns a slice, and leaves it to the next one.
            assert behind == 0 or again._handle.model.state_hash() == expected
        assert calls < 20
    assert calls > 3
    with load_campaign("spring", storage=url, clock=Clock()) as again:
        assert again.model_hash() == again.replay_hash() != expected


def test_ordinary_late_responses_are_learned_by_the_next_ask():
    """Nothing is patched here: a short past is learned again at once, as if the response had come in time."""
    campaign = grown("memory://", rounds=40)
    late(campaign, campaign.rounds()[0])
    assert campaign.status().behind == 0
    assert campaign.ask("tea", 2).behind == 0
    assert campaign._handle.model.state_hash() == campaign.replay_hash()


class Foreign(Thompson):
    """A policy of another package, which has no name here."""


def test_a_policy_of_another_package_stays_the_callers_object(small_steps):
    policy: Policy = Foreign()
    campaign = grown("memory://", policy=policy)
    late(campaign, campaign.rounds()[0])
    while campaign.ask("tea", 2).behind:
        pass
    assert campaign._handle.model.policy is policy
    assert campaign._handle.model.state_hash() == campaign.replay_hash()


def test_an_ask_is_not_repeated_because_somebody_closed_a_round(monkeypatch):
    """Whoever closes while the choice is made is not waited for: the round says that it is one behind."""
    store = open_store("memory://")
    campaign = grown(store, rounds=3)
    other = load_campaign("spring", storage=store, clock=Clock())
    waiting = other.ask("tea", 2)
    propose, proposals = _ask.propose, []

    def overtaken(*given):
        proposals.append(propose(*given))
        if len(proposals) == 1:
            other.close(waiting.id)
        return proposals[-1]

    monkeypatch.setattr(_ask, "propose", overtaken)
    assert campaign.ask("tea", 2).behind == 1
    assert len(proposals) == 1
    assert campaign.ask("tea", 2).behind == 0


@pytest.mark.slow
def test_two_hundred_and_fifty_rounds_without_a_patch():
    campaign = grown("memory://", rounds=250)
    late(campaign, campaign.rounds()[0])
    behind = [campaign.ask("tea", 2).behind]
    assert behind == [1]
    while behind[-1]:
        behind.append(campaign.ask("tea", 2).behind)
        assert len(behind) < 300
    assert campaign._handle.model.state_hash() == campaign.replay_hash()


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
