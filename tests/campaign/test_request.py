"""One ``request_id``, one question: all arguments of an ask count, by what they mean."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from campaign.worlds import Clock, small_campaign
from tensorucb.errors import InputError

PEOPLE = ["person-001", "person-002", "person-003", "person-004", "person-005"]
GROUPS = ["a", "b"] * 15

ORIGINAL = {"k": 2, "exclude": PEOPLE[:2]}
DIFFERENT = {
    "product": {"product": "soap"},
    "k": {"k": 3},
    "exclude": {"exclude": PEOPLE[:3]},
    "candidates": {"candidates": PEOPLE},
    "must_include": {"must_include": PEOPLE[2:3]},
    "cooldown": {"cooldown": "60s"},
    "budget": {"budget": 20.0},
    "costs": {"costs": np.full(30, 2.0)},
    "groups": {"groups": GROUPS[::-1]},
    "quotas": {"quotas": {"a": 1, "b": 1}},
    "minima": {"minima": {"a": 1, "b": 1}},
    "holdout": {"holdout": 0.5},
    "shadow": {"shadow": PEOPLE[2:]},
    "window": {"window": "50s"},
    "deadline": {"deadline": 2000.0},
    "credit": {"credit": "last"},
    "objective": {"objective": "cascade"},
    "epsilon": {"epsilon": 0.2},
}


def asked(campaign, **changes):
    arguments = {"product": "tea", **ORIGINAL, "request_id": "monday", **changes}
    return campaign.ask(arguments.pop("product"), **arguments)


@pytest.mark.parametrize("name", DIFFERENT)
def test_another_value_of_any_argument_is_refused_by_name(name):
    campaign = small_campaign(costs=np.ones(30), groups=GROUPS, window="100s", clock=Clock())
    asked(campaign)
    with pytest.raises(InputError, match=f"'monday' has opened round .* with other values of {name}[.]"):
        asked(campaign, **DIFFERENT[name])
    assert len(campaign.rounds()) == 1


def test_an_excluded_person_is_never_in_the_answer_to_a_repeated_request():
    campaign = small_campaign()
    first = campaign.ask("tea", 2, request_id="monday")
    with pytest.raises(InputError, match="other values of exclude"):
        campaign.ask("tea", 2, exclude=[first.seeds[0]], request_id="monday")


def test_what_means_the_same_is_the_same():
    clock = Clock()
    campaign = small_campaign(costs=np.ones(30), groups=GROUPS, window="100s", clock=clock)
    first = asked(campaign, quotas={"a": 1, "b": 2}, candidates=PEOPLE, deadline=timedelta(minutes=5))
    clock.now += 7.0
    again = asked(
        campaign,
        product=np.array([1.0, 0.0]),
        k=np.int64(2),
        exclude=np.array([PEOPLE[1], PEOPLE[0], PEOPLE[0]]),
        candidates=tuple(PEOPLE[::-1]),
        must_include=[],
        quotas={"b": 2, "a": np.int64(1)},
        costs=[1] * 30,
        groups=np.array(GROUPS),
        holdout=0,
        window=timedelta(seconds=100),
        deadline=timedelta(seconds=300),
        credit="any",
        objective="direct",
        epsilon=0.1,
    )
    assert again == first
    absolute = campaign.ask("tea", 1, deadline=1500.0, request_id="tuesday")
    assert campaign.ask("tea", 1, deadline=datetime.fromtimestamp(1500, UTC), request_id="tuesday") == absolute
    assert len(campaign.rounds()) == 2


def test_a_request_that_comes_again_after_its_deadline_finds_its_round():
    clock = Clock()
    campaign = small_campaign(clock=clock)
    first = campaign.ask("tea", 2, deadline=1500.0, request_id="monday")
    clock.now = 2000.0
    assert campaign.ask("tea", 2, deadline=1500.0, request_id="monday").id == first.id
    with pytest.raises(InputError, match="deadline must be in the future; got '1970-01-01T00:25:00"):
        campaign.ask("tea", 2, deadline=1500.0, request_id="tuesday")


def test_the_digest_survives_new_users_and_forgetting():
    campaign = small_campaign()
    first = campaign.ask("tea", 2, exclude=PEOPLE[:2], request_id="monday")
    campaign.add_users(["person-900"], np.zeros((1, 3)))
    assert campaign.ask("tea", 2, exclude=PEOPLE[:2], request_id="monday").id == first.id
    other = next(p for p in PEOPLE[2:] if p not in first.seeds)
    campaign.forget(other)
    assert campaign.ask("tea", 2, exclude=PEOPLE[:2], request_id="monday").id == first.id
