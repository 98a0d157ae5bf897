"""At least so many users of a group: kept whenever that is possible, through every door, with what it costs."""

from __future__ import annotations

import re
from itertools import combinations

import numpy as np
import pytest

from campaign.worlds import small_campaign, small_graph
from tensorucb import Constraints, select_seeds
from tensorucb.errors import InputError, StateError
from tensorucb.graph import Graph
from tensorucb.policies import HighDegree, TensorUCB

GROUPS = np.array(["a"] * 24 + ["b"] * 4 + ["c"] * 2)
STRATEGIES = {"call": [1.0, 0.0], "visit": [0.0, 1.0]}


def counted(users):
    labels = GROUPS[[int(user[-3:]) for user in users]]
    return {label: int((labels == label).sum()) for label in "abc"}


def proven(explanation):
    """How far the certificate says that the choice is from the best without minima, and that bound."""
    pattern = r"minima cost at most ([\d.e-]+): without them no choice is worth more than ([\d.]*\d)"
    said = re.search(pattern, str(explanation))
    return None if said is None else tuple(map(float, said.groups()))


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"objective": "cascade"},
        {"budget": 9.0},
        {"k": None, "budget": 9.0},
        {"strategies": "all", "per_user": True},
        {"strategies": "all", "per_user": True, "budget": 12.0},
        {"strategies": ["visit"]},
        {"quotas": {"a": 2}},
        {"must_include": ["person-029"]},
        {"holdout": 0.34},
    ],
)
def test_minima_are_kept_together_with_everything_else(more):
    offered = {"strategies": STRATEGIES} if "strategies" in more else {}
    campaign = small_campaign(groups=GROUPS, costs=np.linspace(1.0, 3.0, 30), **offered)
    asked = {"k": 6, "minima": {"b": 2, "c": 1}, **more}
    preview = campaign.preview("tea", **asked)
    ask = campaign.ask("tea", **asked)
    chosen = [*ask.seeds, *ask.held_out]
    assert sorted([*preview.seeds, *preview.held_out]) == sorted(chosen)
    assert counted(chosen)["b"] >= 2
    assert counted(chosen)["c"] >= 1
    assert ask.cost is None or "budget" not in more or ask.cost <= more["budget"]


def test_one_number_is_for_every_group_and_zero_for_none():
    campaign = small_campaign(groups=GROUPS)
    assert min(counted(campaign.ask("tea", 6, minima=2).seeds).values()) == 2
    assert campaign.ask("tea", 6, minima=0).seeds == campaign.ask("tea", 6).seeds


def test_the_certificate_says_what_minima_cost_at_most():
    campaign = small_campaign(groups=GROUPS, policy=TensorUCB())
    free = campaign.preview("tea", 4)
    kept = campaign.preview("tea", 4, minima={"b": 1, "c": 2})
    assert proven(free.explanation) is None
    most, upper = proven(kept.explanation)
    assert 0.0 < most < upper
    assert kept.reach.mean < free.reach.mean


def test_who_was_passed_over_for_a_minimum_is_told_so():
    campaign = small_campaign(groups=GROUPS, policy=TensorUCB())
    left = set(campaign.ask("tea", 4).seeds)
    ask = campaign.ask("tea", 4, minima={"b": 1, "c": 2})
    told = [ask.explain(user) for user in sorted(left - set(ask.seeds))]
    assert {each.status for each in told} == {"group_minimum"}
    assert "places were kept for groups with a minimum" in told[0].text


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("strategies", [False, True])
def test_a_choice_is_found_exactly_if_there_is_one(seed, strategies):
    """Every set of a small network is tried: where one keeps all constraints, the choice does too; else a refusal."""
    rng = np.random.default_rng(seed)
    n, found, refused = 8, 0, 0
    graph = small_graph(n, 24, seed=seed)
    groups = rng.choice(["a", "b", "c"], n)
    labels = sorted(set(groups.tolist()))
    prices = rng.integers(1, 5, n).astype(float)
    more = {"strategies": STRATEGIES, "strategy_costs": {"visit": 1.0}} if strategies else {}
    campaign = small_campaign(graph=graph, groups=groups, costs=prices, **more)
    for _ in range(12):
        k = int(rng.integers(1, 6))
        asked = {
            "minima": {label: int(rng.integers(0, 3)) for label in labels},
            "quotas": {label: int(rng.integers(1, 4)) for label in labels},
            "exclude": [f"person-{i:03d}" for i in rng.choice(n, int(rng.integers(0, 3)), replace=False)],
            "budget": float(rng.integers(2, 14)) if rng.random() < 0.5 else None,
            **({"strategies": "all", "per_user": True} if strategies else {}),
        }
        barred = {int(user[-3:]) for user in asked["exclude"]}
        sizes = [k] if asked["budget"] is None else range(1, k + 1)
        possible = any(
            all(
                asked["minima"][label] <= int((groups[list(rows)] == label).sum()) <= asked["quotas"][label]
                for label in labels
            )
            and (asked["budget"] is None or prices[list(rows)].sum() <= asked["budget"])
            for size in sizes
            for rows in combinations([row for row in range(n) if row not in barred], size)
        )
        if not possible:
            with pytest.raises(InputError):
                campaign.preview("tea", k, **asked)
            refused += 1
            continue
        seeds = campaign.preview("tea", k, **asked).seeds
        chosen = groups[[int(user[-3:]) for user in seeds]]
        counts = {label: int((chosen == label).sum()) for label in labels}
        assert all(asked["minima"][label] <= counts[label] <= asked["quotas"][label] for label in labels)
        found += 1
    assert found
    assert refused


@pytest.mark.parametrize("seed", range(8))
def test_the_bound_without_minima_is_never_below_the_best(seed):
    """What the certificate says, against the best of all sets with and without the minima, counted by hand."""
    rng = np.random.default_rng(seed)
    n, k = 9, 3
    graph = small_graph(n, 20, seed=seed)
    groups = rng.choice(["a", "b"], n, p=[0.7, 0.3])
    groups[:2] = ["a", "b"]
    p = rng.random(graph.n_edges)

    def worth(rows):
        silent = np.ones(n)
        for edge in graph.out_edges(np.array(rows)):
            silent[graph.targets[edge]] *= 1.0 - p[edge]
        silent[list(rows)] = 0.0
        return n - silent.sum()

    values = {rows: worth(rows) for rows in combinations(range(n), k)}
    keeps = {rows: value for rows, value in values.items() if {"a", "b"} <= set(groups[list(rows)].tolist())}
    pick = select_seeds(graph, p, k, objective="direct", constraints=Constraints(groups=groups, minima=1))
    value = keeps[tuple(sorted(pick.rows.tolist()))]
    most, upper = proven(pick.guarantee)
    assert value == pytest.approx(pick.spread)
    assert value >= 0.5 * max(keeps.values())
    # They are printed with three and four digits.
    assert upper >= max(values.values()) * (1 - 1e-3)
    assert most >= (max(values.values()) - value) * (1 - 1e-2)
    assert most == pytest.approx(pick.upper - value, rel=1e-2, abs=1e-9)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"minima": {"z": 1}}, "minima must be for groups .*; got group 'z'"),
        ({"minima": {"a": -1}}, "the minimum of group 'a' must be a whole number"),
        ({"minima": "a"}, "minima must be a whole number"),
        ({"minima": {"c": 3}}, "minima must be at most 2 for group 'c', which has no more candidates; got 3"),
        (
            {"minima": {"b": 2, "c": 2}, "k": 3},
            "minima must be at most 3 together, since no more are to be chosen; got 4",
        ),
        ({"minima": {"b": 2}, "quotas": {"b": 1}}, "minima must be at most the quota of 1 for group 'b'; got 2"),
        ({"minima": {"b": 3}, "k": 2}, "minima must be at most 2 together"),
        ({"minima": {"b": 2}, "users": ["person-001", "person-025"]}, "below its minimum of 2"),
    ],
)
def test_minima_that_are_refused(asked, said):
    campaign = small_campaign(groups=GROUPS)
    arguments = {"k": 4, **asked} if "users" not in asked else asked
    with pytest.raises(InputError, match=said):
        campaign.ask("tea", **arguments)
    with pytest.raises(InputError, match="minima need groups"):
        small_campaign().ask("tea", 3, minima=1)


def test_a_policy_that_does_not_keep_minima_opens_no_round():
    campaign = small_campaign(groups=GROUPS, policy=HighDegree())
    with pytest.raises(StateError, match="below its minimum"):
        campaign.ask("tea", 2, minima={"c": 2})
    assert campaign.rounds() == ()


def test_minima_may_be_a_default():
    campaign = small_campaign(groups=GROUPS, ask={"k": 4, "minima": {"c": 2}})
    assert campaign.settings["ask"] == {"k": 4, "minima": {"c": 2}}
    assert counted(campaign.ask("tea").seeds)["c"] == 2
    assert counted(campaign.ask("tea", minima={"b": 3}).seeds)["b"] >= 3


@pytest.mark.parametrize("objective", ["direct", "cascade"])
@pytest.mark.parametrize("forced", [None, ["a"]])
def test_money_that_is_just_enough_keeps_a_minimum(objective, forced):
    graph = Graph.from_edges(["a", "a", "c", "c"], ["x", "y", "z", "b"])
    ids = graph.ids.tolist()
    costs = [{"a": 0.5, "b": 0.1}.get(user, 9.0) for user in ids]
    groups = ["m" if user in "ab" else "o" for user in ids]
    campaign = small_campaign(graph=graph, objective=objective, costs=costs, groups=groups)
    # 0.6 - 0.5 < 0.1 in floats.
    ask = campaign.ask("tea", k=2, budget=0.6, minima={"m": 2}, must_include=forced)
    assert sorted(ask.seeds) == ["a", "b"]
