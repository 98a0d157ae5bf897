from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

from campaign.worlds import Clock, answers, small_campaign
from tensorucb.errors import InputError, StateError, UnknownIdError
from tensorucb.policies import COIN, HighDegree, Random, TensorUCB


def test_exclude_candidates_and_must_include():
    campaign = small_campaign()
    best = campaign.ask("tea", 5).seeds
    other = campaign.ask("tea", 5, exclude=best[:2]).seeds
    assert not set(best[:2]) & set(other)
    pool = campaign.graph.ids.tolist()[:6]
    assert set(campaign.ask("tea", 4, candidates=pool).seeds) <= set(pool)
    weakest = campaign.graph.ids.tolist()[int(np.argmin(campaign.graph.out_degree))]
    assert weakest in campaign.ask("tea", 3, must_include=[weakest]).seeds
    with pytest.raises(InputError, match="who is excluded"):
        campaign.ask("tea", 3, must_include=[weakest], exclude=[weakest])
    with pytest.raises(InputError, match="not a candidate"):
        campaign.ask("tea", 3, must_include=["person-029"], candidates=pool)
    with pytest.raises(UnknownIdError, match="'nobody'"):
        campaign.ask("tea", 3, exclude=["nobody"])
    with pytest.raises(InputError, match="only 6 may be chosen"):
        campaign.ask("tea", 7, candidates=pool)
    with pytest.raises(InputError, match="only with a budget"):
        campaign.ask("tea")
    for k in (0, -1, True, 2.5):
        with pytest.raises(InputError, match="k must be"):
            campaign.ask("tea", k)


def test_cooldown_counts_contacts_in_rounds_not_cancelled():
    clock = Clock()
    campaign = small_campaign(clock=clock)
    first = campaign.ask("tea", 3)
    gone = campaign.ask("tea", 3, exclude=first.seeds)
    campaign.cancel(gone.id)
    clock.now = 1050.0
    rested = campaign.ask("tea", 3, cooldown=timedelta(seconds=60))
    assert not set(rested.seeds) & set(first.seeds)
    assert set(rested.seeds) == set(gone.seeds)
    campaign.cancel(rested.id)
    assert campaign.explain(rested.id, first.seeds[0]).status == "cooldown"
    clock.now = 1060.0
    assert set(campaign.ask("tea", 3, cooldown="60s").seeds) == set(first.seeds)
    with pytest.raises(InputError, match="within the cooldown"):
        campaign.ask("tea", 3, cooldown="60s", must_include=first.seeds[:1])
    with pytest.raises(InputError, match="cooldown must be a duration of at least 0"):
        campaign.ask("tea", 3, cooldown=-1)


def test_quotas_by_mapping_and_by_number():
    labels = np.array(["north", "south", "west"] * 10)
    campaign = small_campaign(groups=labels)
    group = dict(zip(campaign.graph.ids.tolist(), labels.tolist(), strict=True))
    seeds = [group[user] for user in campaign.ask("tea", 6, quotas=2).seeds]
    assert sorted(seeds) == ["north"] * 2 + ["south"] * 2 + ["west"] * 2
    ask = campaign.ask("tea", 5, quotas={"north": 0, "south": 1})
    seeds = [group[user] for user in ask.seeds]
    assert (seeds.count("north"), seeds.count("south") <= 1) == (0, True)
    reasons = {campaign.explain(ask.id, u).status for u in campaign.graph.ids.tolist() if group[u] == "north"}
    assert reasons == {"group_quota"}
    own = campaign.ask("tea", 2, quotas={"x": 1}, groups=["x"] * 15 + ["y"] * 15)
    assert sum(user < "person-015" for user in own.seeds) <= 1
    with pytest.raises(InputError, match="quotas need groups"):
        small_campaign().ask("tea", 2, quotas=1)


def test_budget_with_and_without_k():
    costs = np.random.default_rng(0).uniform(1, 3, 30)
    campaign = small_campaign(costs=costs)
    price = dict(zip(campaign.graph.ids.tolist(), costs.tolist(), strict=True))
    for k in (None, 4):
        ask = campaign.ask("tea", k, budget=6.0)
        assert 0 < sum(price[user] for user in ask.seeds) <= 6.0
        assert k is None or len(ask.seeds) <= k
    spent = sum(price[user] for user in ask.seeds)
    dear = [u for u in campaign.graph.ids.tolist() if u not in ask.seeds and price[u] > 6.0 - spent]
    assert campaign.explain(ask.id, dear[0]).status == "budget"
    assert len(campaign.ask("tea", None, budget=2.0, costs=np.ones(30)).seeds) == 2
    with pytest.raises(InputError, match="budget needs costs"):
        small_campaign().ask("tea", 2, budget=3.0)


@pytest.mark.parametrize("policy", [HighDegree(), Random()])
def test_policies_that_pick_on_their_own_obey_candidates_or_fail_loudly(policy):
    campaign = small_campaign(policy=policy, groups=["a", "b"] * 15, costs=np.full(30, 2.0))
    pool = campaign.graph.ids.tolist()[10:20]
    assert set(campaign.ask("tea", 3, candidates=pool).seeds) <= set(pool)
    weakest = campaign.graph.ids.tolist()[int(np.argmin(campaign.graph.out_degree))]
    asked = campaign.status().rounds
    for k, constraint, message in (
        (2, {"must_include": [weakest]}, "must_include names"),
        (8, {"quotas": {"a": 0, "b": 8}}, "quota"),
        (5, {"budget": 3.0}, "budget"),
    ):
        with pytest.raises((StateError, InputError), match=message):
            campaign.ask("tea", k, **constraint)
    assert campaign.status().rounds == asked


def test_coin_explores_within_the_constraints():
    campaign = small_campaign(policy=COIN())
    for _ in range(4):
        ask = campaign.ask("tea", 6, exclude=["person-001"])
        assert "person-001" not in ask.seeds
        campaign.close(ask.id)


def test_hold_out_is_random_recorded_and_never_contacted():
    campaign = small_campaign()
    asks = [campaign.ask("tea", 10, holdout=0.2, must_include=["person-004"]) for _ in range(6)]
    assert {len(ask.held_out) for ask in asks} == {2}
    assert len({ask.held_out for ask in asks}) > 1
    for ask in asks:
        assert len(ask.seeds) == 8
        assert ask.contacted == ask.seeds
        assert not set(ask.held_out) & set(ask.seeds)
        assert "person-004" in ask.seeds
        assert campaign.explain(ask.id, ask.held_out[0]).status == "held_out"
    held = asks[0].held_out[0]
    target = campaign.graph.ids[campaign.graph.targets[campaign.graph.out_edges(campaign.graph.rows([held]))[0]]].item()
    with pytest.raises(InputError, match="was not contacted"):
        campaign.tell(asks[0].id, [{"source": held, "target": target, "outcome": 1}])
    for share in (-0.1, 1.0, 0.01):
        with pytest.raises(InputError, match="holdout"):
            campaign.ask("tea", 10, holdout=share)


def test_a_shadow_round_records_both_and_learns_from_what_was_done():
    campaign = small_campaign()
    ours = campaign.ask("tea", 3)
    campaign.cancel(ours.id)
    done = ["person-010", "person-011"]
    ask = campaign.ask("tea", 3, shadow=done)
    assert (ask.kind, ask.contacted, len(ask.seeds)) == ("shadow", tuple(done), 3)
    before = campaign.model_hash()
    assert campaign.tell(ask.id, answers(campaign, ask)).accepted > 0
    campaign.close(ask.id)
    assert campaign.model_hash() != before
    assert campaign.explain(ask.id, ask.seeds[0]).status == "chosen"
    with pytest.raises(InputError, match="shadow contacts nobody"):
        campaign.ask("tea", 3, shadow=done, holdout=0.5)


def test_explanations_name_rank_gain_followers_and_both_numbers():
    campaign = small_campaign(policy=TensorUCB())
    opted_out = ["person-003"]
    ask = campaign.ask("tea", 3, exclude=opted_out, candidates=campaign.graph.ids.tolist()[:25])
    whole = ask.explain()
    assert [seed.rank for seed in whole.seeds] == [1, 2, 3]
    assert whole.left_out == {"excluded": 1, "outside_candidates": 5}
    assert "Left out beforehand: excluded 1" in str(whole)
    for seed in whole.seeds:
        assert seed.followers[0].probability == max(each.probability for each in seed.followers)
        assert 0 < seed.gain <= seed.score
    assert ask.explain("person-003").status == "excluded"
    assert ask.explain("person-027").status == "outside_candidates"
    passed = next(u for u in campaign.graph.ids.tolist()[:25] if u not in ask.seeds and u not in opted_out)
    reason = ask.explain(passed)
    assert reason.status == "not_enough"
    assert f"{reason.gain:.2f}" in reason.text
    assert f"{reason.threshold:.2f}" in reason.text
    with pytest.raises(UnknownIdError):
        ask.explain("nobody")
