"""A round is one record: whoever reads it again, from the store, gets what the one who asked got."""

from __future__ import annotations

import pytest

from campaign.worlds import Clock, answers, out_pairs, small_campaign
from tensorucb.campaign import load_campaign
from tensorucb.errors import EarlyCloseError

STRATEGIES = {"email": [1.0, 0.0], "letter": [0.0, 1.0]}
QUESTIONS = [
    {"k": 5, "strategies": "all", "per_user": True, "holdout": 0.4, "must_include": ["person-004"]},
    {"budget": 7.0, "strategies": "all", "window": "2d", "deadline": "3d", "credit": "last", "request_id": "spring-1"},
    {"k": 2, "strategies": "all", "per_user": True, "shadow": {"person-001": "letter", "person-009": "email"}},
    {"users": ["person-007", "person-002"], "strategies": ["letter"], "objective": "cascade"},
    {"product": ("soap", "email"), "k": 3, "exclude": ["person-000"], "quotas": 1},
]


@pytest.fixture
def campaign(tmp_path):
    costs, groups = [1.0 + i % 3 for i in range(30)], [f"group {i % 4}" for i in range(30)]
    terms = {"strategies": STRATEGIES, "strategy_costs": {"letter": 2.0}, "costs": costs, "groups": groups}
    made = small_campaign(f"sqlite:///{tmp_path}/c.db", clock=Clock(), **terms)
    yield made
    made.disconnect()


def again(campaign):
    """The same campaign, read by somebody who knows nothing of it yet."""
    return load_campaign("spring", storage=campaign.store.url, clock=campaign.clock)


def test_a_round_that_is_read_again_is_the_one_that_was_asked(campaign):
    history = [{"source": s, "target": t, "outcome": 1} for s, t in out_pairs(campaign, ["person-011"])]
    campaign.import_history(history, ("soap", "email"))
    for number, question in enumerate(QUESTIONS, start=2):
        ask = campaign.ask(**{"product": "tea", **question})
        with again(campaign) as other:
            assert other.round(ask.id) == campaign.round(number) == ask
            assert other.explain(ask.id) == ask.explain()
            if "request_id" in question:
                assert other.ask(**{"product": "tea", **question}) == ask
        campaign.tell(ask.id, answers(campaign, ask))
        assert campaign.close(ask.id, early=True) == campaign.round(ask.id)
        with again(campaign) as other:
            assert other.rounds() == campaign.rounds()
            assert other.progress() == campaign.progress()
            assert other.model_hash() == campaign.replay_hash()


def test_gains_are_those_of_the_seeds_and_sum_to_the_reach(campaign):
    for question in QUESTIONS:
        ask = campaign.ask(**{"product": "tea", **question})
        reasons = {reason.user: reason for reason in ask.explain().seeds}
        assert [reasons[user].gain for user in ask.seeds] == list(ask.gains)
        assert [reasons[user].strategy for user in ask.seeds] == list(ask.strategies)
        assert sum(ask.gains) == pytest.approx(ask.reach.mean)


def test_a_round_without_somebody_who_is_forgotten(campaign):
    asks = [campaign.ask(**{"product": "tea", **question}) for question in QUESTIONS]
    gone = asks[0].seeds[1]
    kept = {user: (strategy, gain) for user, strategy, gain in zip(*_columns(asks[0]), strict=True) if user != gone}
    assert campaign.forget(gone).proven
    with again(campaign) as other:
        for ask in other.rounds():
            assert gone not in {*ask.seeds, *ask.contacted, *ask.held_out}
        assert {user: (strategy, gain) for user, strategy, gain in zip(*_columns(other.round(1)), strict=True)} == kept
        assert other.round(1).held_out == asks[0].held_out


def _columns(ask):
    return ask.seeds, ask.strategies, ask.gains


def test_a_round_is_not_closed_by_mistake_long_before_its_responses_are_in():
    clock = Clock()
    campaign = small_campaign(window="14d", clock=clock)
    ask = campaign.ask("tea", 2)
    clock.now += 300
    with pytest.raises(EarlyCloseError, match=r"responses to round 1 may come for another 14 days.* early=True"):
        campaign.close(ask)
    assert campaign.round(ask).status == "open"
    assert campaign.close(ask, early=True).status == "closed"
    # Again changes nothing, and needs no permission.
    assert campaign.close(ask).status == "closed"
    # With half of the time over, or less than a day to go, it may be closed.
    later = campaign.ask("tea", 2)
    clock.now += 7 * 86400
    assert campaign.close(later).status == "closed"
    assert campaign.close(campaign.ask("tea", 2, window="1d")).status == "closed"
    assert campaign.close(campaign.ask("tea", 2, window="14d", deadline="20h")).status == "closed"


def test_an_ask_stands_for_its_round():
    campaign = small_campaign()
    ask = campaign.ask("tea", 2)
    assert campaign.tell(ask, answers(campaign, ask)).accepted > 0
    assert campaign.tell(ask.id, answers(campaign, ask)).accepted == 0
    assert campaign.explain(ask) == ask.explain()
    assert campaign.cancel(campaign.ask("tea", 1)).status == "cancelled"
    assert campaign.close(ask) == campaign.round(ask) == campaign.round(ask.number)
