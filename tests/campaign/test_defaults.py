"""Defaults of ``ask`` that a campaign keeps, and durations as people write them."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

from campaign.worlds import Clock, small_campaign, small_graph
from tensorucb.campaign import copy_campaign, load_campaign
from tensorucb.errors import InputError, UnknownIdError

PEOPLE = [f"person-{number:03d}" for number in range(30)]
GROUPS = ["a", "b"] * 15
STRATEGIES = {"call": [1.0, 0.0], "visit": [0.0, 1.0]}


def test_what_is_left_out_is_the_default(tmp_path):
    storage, clock = f"sqlite:///{tmp_path / 'c.db'}", Clock()
    kept = {"k": 3, "exclude": PEOPLE[:3], "cooldown": "1h", "holdout": 0.34, "deadline": "2h", "quotas": {"a": 2}}
    made = small_campaign(storage, ask=kept, groups=GROUPS, clock=clock)
    for campaign in (made, load_campaign("spring", storage=storage, clock=clock)):
        first = campaign.ask("tea")
        assert (len(first.seeds), len(first.held_out)) == (2, 1)
        assert first.deadline == clock.now + 7200
        chosen = {*first.seeds, *first.held_out}
        assert not chosen & set(PEOPLE[:3])
        assert sum(int(user[-3:]) % 2 == 0 for user in chosen) <= 2
        clock.now += 3599
        assert not set(campaign.ask("tea").seeds) & set(first.seeds)
        clock.now += 10_000


def test_what_is_given_counts_more():
    clock = Clock()
    kept = {"k": 3, "exclude": PEOPLE[:25], "cooldown": "1d", "holdout": 0.34, "budget": 2, "window": "60s"}
    campaign = small_campaign(ask=kept, costs=np.ones(30), clock=clock)
    assert len(campaign.ask("tea").seeds) == 1  # of the two that the budget allows
    free = campaign.ask("tea", 12, exclude=[], cooldown=0, holdout=0.0, budget=30, window="2h")
    assert (len(free.seeds), free.held_out, free.deadline) == (12, (), clock.now + 7200)


def test_settings_show_the_defaults_and_never_a_person_who_is_forgotten(tmp_path):
    path = tmp_path / "c.db"
    kept = {"k": 2, "exclude": PEOPLE[3:5], "cooldown": timedelta(days=7), "deadline": "36h", "strategies": ["visit"]}
    campaign = small_campaign(f"sqlite:///{path}", ask={**kept, "budget": None}, strategies=STRATEGIES)
    shown = {"k": 2, "exclude": PEOPLE[3:5], "cooldown": "7d", "deadline": "36h", "strategies": ["visit"]}
    assert campaign.settings["ask"] == shown
    assert campaign.forget(PEOPLE[4]).bytes_absent
    assert campaign.settings["ask"]["exclude"] == [PEOPLE[3]]
    assert PEOPLE[3] not in campaign.ask("tea").seeds
    copy_campaign("spring", "summer", storage=f"sqlite:///{path}")
    assert load_campaign("summer", storage=f"sqlite:///{path}").settings["ask"]["exclude"] == [PEOPLE[3]]
    assert "ask" not in small_campaign().settings


def test_quotas_find_groups_that_are_numbers():
    campaign = small_campaign(groups=[1, 2] * 15, ask={"k": 4, "quotas": {"1": 1}})
    assert sum(int(user[-3:]) % 2 == 0 for user in campaign.ask("tea").seeds) == 1
    assert sum(int(user[-3:]) % 2 == 0 for user in campaign.ask("tea", groups=[2, 1] * 15).seeds) == 3


def test_a_request_is_the_same_with_the_default_given():
    clock = Clock()
    campaign = small_campaign(ask={"k": 2, "exclude": PEOPLE[:2], "cooldown": "1m", "deadline": "3d"}, clock=clock)
    first = campaign.ask("tea", request_id="monday")
    clock.now += 5
    given = {"k": 2, "exclude": PEOPLE[1::-1], "cooldown": "60s", "deadline": timedelta(days=3)}
    assert campaign.ask("tea", **given, request_id="monday").id == first.id
    for name, value in {"cooldown": 0, "exclude": [], "deadline": "4d"}.items():
        with pytest.raises(InputError, match=f"other values of {name}[.]"):
            campaign.ask("tea", **{name: value}, request_id="monday")


def test_defaults_give_way_to_what_contradicts_them():
    campaign = small_campaign(
        strategies=STRATEGIES, ask={"k": 4, "strategies": "all", "per_user": True, "holdout": 0.25}
    )
    assert set(campaign.ask("tea").strategies) <= set(STRATEGIES)
    assert set(campaign.ask(("tea", "visit")).strategies) == {"visit"}
    assert set(campaign.ask("tea", strategies=["call"]).strategies) == {"call"}
    shadow = campaign.ask(("tea", "call"), shadow=PEOPLE[:2])
    assert (shadow.contacted, shadow.held_out) == (tuple(PEOPLE[:2]), ())
    given = campaign.ask("tea", shadow={PEOPLE[0]: "call", PEOPLE[1]: "visit"})
    assert given.contacted == tuple(PEOPLE[:2])


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        ({"cooldwon": "7d"}, InputError, "ask has no default 'cooldwon'. Did you mean cooldown?"),
        ({"product": "tea"}, InputError, "ask has no default 'product'. There are k, "),
        ({"cooldown": "7 days"}, InputError, "ask: cooldown must be a duration of at least 0: a text such as '7d'"),
        ({"k": 0}, InputError, "ask: k must be a whole number"),
        ({"exclude": ["nobody"]}, UnknownIdError, "nobody"),
        ({"budget": 5}, InputError, "ask: budget needs costs"),
        ({"quotas": 5}, InputError, "ask: quotas need groups"),
        ({"holdout": 2}, InputError, "ask: holdout must be"),
        ({"strategies": "all"}, InputError, "the campaign has none"),
        ({"per_user": True}, InputError, "ask: per_user needs strategies"),
        ({"deadline": 2e9}, InputError, "the deadline in ask must be a span from now such as '3d'"),
        ({"must_include": PEOPLE[:1], "exclude": PEOPLE[:1]}, InputError, "ask: must_include names"),
        (["k"], InputError, "ask must be a mapping"),
    ],
)
def test_wrong_defaults_are_refused_at_the_creation(tmp_path, ask, error, message):
    path = tmp_path / "c.db"
    with pytest.raises(error) as refused:
        small_campaign(f"sqlite:///{path}", ask=ask)
    assert message in str(refused.value)
    assert not path.exists()


@pytest.mark.parametrize("deadline", ["soon", "0d", "3days", "99999-01-01", [1]])
def test_what_is_no_deadline_says_what_one_is(deadline):
    with pytest.raises(InputError, match="deadline must be a span from now such as '3d', a datetime, a time such as"):
        small_campaign().ask("tea", 1, deadline=deadline)


@pytest.mark.parametrize("deadline", ["1970-01-01", "3", 5.0])
def test_a_deadline_in_the_past_is_refused(deadline):
    with pytest.raises(InputError, match="deadline must be in the future"):
        small_campaign().ask("tea", 1, deadline=deadline)


def test_a_deadline_may_be_a_time_as_text():
    assert small_campaign().ask("tea", 1, deadline="2030-01-31T12:00").deadline == 1_896_091_200.0


def test_durations_are_texts_everywhere():
    clock = Clock()
    campaign = small_campaign(window="1w", clock=clock, graph=small_graph())
    assert campaign.settings["window"] == 604_800.0
    assert campaign.ask("tea", 1).deadline == clock.now + 604_800
    assert campaign.ask("tea", 1, window="90s").deadline == clock.now + 90
    assert campaign.ask("tea", 1, deadline="1.5h").deadline == clock.now + 5400
    with pytest.raises(InputError, match="window must be a duration above 0: a text such as '7d'"):
        small_campaign(window="7 days")
