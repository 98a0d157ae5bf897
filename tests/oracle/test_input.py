"""Requests that cannot be met, and what the messages say."""

from __future__ import annotations

import numpy as np
import pytest

from reference.oracle import select_seeds
from tensorucb.errors import InputError, ShapeError, UnknownIdError
from tensorucb.graph import Graph
from tensorucb.oracle import SeedOracle

GRAPH = Graph.from_edges([0, 0, 1, 2], [1, 2, 3, 3])
P = np.full(4, 0.5)
ONES = np.ones(4)


@pytest.mark.parametrize("gathered", [True, False])
@pytest.mark.parametrize("bad", [np.nan, -np.nan, -0.1, -1e-60, 1.0 + 1e-12, 1.5, np.inf])
@pytest.mark.parametrize("objective", ["cascade", "direct"])
def test_a_bad_probability_names_its_edge(bad, objective, gathered, monkeypatch):
    monkeypatch.setattr("tensorucb.oracle.rr._sampler._GATHERED", 10**6 if gathered else 0)
    p = P.copy()
    p[2] = bad
    with pytest.raises(InputError, match=r"edge 2 \(1 -> 3\)"):
        select_seeds(GRAPH, p, 1, objective=objective)


@pytest.mark.parametrize("bad", ["a", list("abcd"), [[1.0], 2.0, 3.0, 4.0], [None] * 4, {}, object()])
def test_probabilities_must_be_numbers(bad):
    # NumPy reads None as NaN, which the range check names by its edge.
    with pytest.raises(InputError, match="probabilities must be"):
        select_seeds(GRAPH, bad, 1)
    with pytest.raises(InputError, match="probabilities must be"):
        SeedOracle(GRAPH)(bad, 1)


@pytest.mark.parametrize("call", [lambda: select_seeds("g", P, 1), lambda: SeedOracle(None)])
def test_the_graph_must_be_one(call):
    with pytest.raises(InputError, match="graph must be"):
        call()


@pytest.mark.parametrize("gathered", [True, False])
def test_minus_zero_is_zero(gathered, monkeypatch):
    monkeypatch.setattr("tensorucb.oracle.rr._sampler._GATHERED", 10**6 if gathered else 0)
    assert select_seeds(GRAPH, [-0.0] * 4, 1, rng=0).spread == pytest.approx(1.0, rel=0.3)


def test_wrong_number_of_probabilities():
    with pytest.raises(ShapeError, match="One number per edge"):
        select_seeds(GRAPH, P[:3], 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 0}, "k must be"),
        ({"k": True}, "k must be"),
        ({"k": None}, "k must be"),
        ({"k": 5}, "only 4 nodes"),
        ({"k": 2, "candidates": [1]}, "only 1 nodes"),
        ({"k": 3, "exclude": [1, 2]}, "only 2 nodes"),
        ({"k": 1, "must_include": [1], "exclude": [1]}, "excluded"),
        ({"k": 1, "must_include": [1], "candidates": [2]}, "not among the candidates"),
        ({"k": 1, "must_include": [1, 2]}, "must_include names 2 nodes but k is 1"),
        ({"k": 2, "must_include": [1, 1]}, "twice"),
        ({"k": 1, "epsilon": 0.0}, "epsilon"),
        ({"k": 1, "delta": 1.0}, "delta"),
        ({"k": 1, "quality": -1.0}, "quality"),
        ({"k": 1, "max_memory": 10}, "max_memory"),
        ({"k": 1, "objective": "reach"}, "objective must be 'cascade' or 'direct'"),
        ({"k": 1, "algorithm": "celf"}, "algorithm must be 'opim' or 'tim'"),
        ({"k": 1, "values": -ONES}, "values must be numbers of at least 0; got -1.0 at"),
        ({"k": 1, "values": 0 * ONES}, "all zero"),
        ({"k": 1, "costs": ONES}, "go together"),
        ({"k": 1, "groups": ONES}, "go together"),
        ({"k": 1, "costs": ONES, "budget": 0.5}, "no candidate costs"),
        ({"k": 1, "costs": ONES, "budget": -1.0}, "budget must be"),
        ({"k": 1, "costs": 0 * ONES, "budget": 1.0}, "must be positive"),
        ({"k": 2, "costs": ONES, "budget": 1.0, "must_include": [0, 1]}, "more than the budget"),
        ({"k": 3, "groups": [0, 0, 0, 0], "quotas": 2}, "admit only 2"),
        ({"k": 3, "groups": [0, 0, 0, 1], "quotas": {0: 3, 2: 1}}, "quotas must be for groups that somebody is in"),
        ({"k": 2, "groups": [0, 0, 1, 1], "quotas": {0: -1}}, "quota of group 0"),
        ({"k": 2, "groups": [0, 0, 1, 1], "quotas": {0: 1}, "must_include": [0, 1]}, "more nodes of group 0"),
        ({"k": 1, "groups": ONES, "quotas": 1, "costs": ONES, "budget": 0.5}, "no candidate costs"),
        ({"k": 1, "groups": ONES, "quotas": 1, "algorithm": "tim"}, "neither quotas or minima nor a budget"),
        ({"k": 2, "groups": [0, 0, 1, 1], "minima": {0: 2, 1: 1}}, "minima must be at most 2 together"),
        (
            {"k": 2, "groups": [0, 0, 0, 1], "minima": {1: 2}},
            "minima must be at most 1 for group 1, which has no more candidates; got 2",
        ),
        (
            {"k": 2, "groups": [0, 0, 1, 1], "minima": {0: 2}, "quotas": {0: 1}},
            "minima must be at most the quota of 1 for group 0; got 2",
        ),
        (
            {"k": 2, "groups": [0, 0, 1, 1], "minima": {7: 1}},
            "minima must be for groups that somebody is in, .*; got group 7",
        ),
        ({"k": 2, "groups": [0, 0, 1, 1], "minima": {0: -1}}, "minimum of group 0"),
        ({"k": 2, "minima": 1}, "go together"),
        (
            {"k": 2, "groups": [0, 0, 1, 1], "minima": 1, "costs": [1.0, 2.0, 3.0, 4.0], "budget": 3.5},
            "budget must be at least 4 to keep minima; got 3.5",
        ),
        ({"k": 1, "threads": 0}, "threads"),
        ({"k": "a"}, "k must be"),
        ({"k": 1, "epsilon": "a"}, "epsilon must be a finite number"),
        ({"k": 1, "epsilon": None}, "epsilon must be a finite number"),
        ({"k": 1, "delta": "a"}, "delta must be a number"),
        ({"k": 1, "quality": [1.0]}, "quality must be a finite number"),
        ({"k": 1, "max_memory": "a"}, "max_memory must be a finite number"),
        ({"k": 1, "values": "a"}, "values must be an array of numbers"),
        ({"k": 1, "values": list("abcd")}, "values must be an array of numbers"),
        ({"k": 1, "costs": list("abcd"), "budget": 1.0}, "costs must be an array of numbers"),
        ({"k": 1, "costs": [[1.0], 2.0, 3.0, 4.0], "budget": 1.0}, "costs must be an array of numbers"),
        ({"k": 1, "costs": ONES, "budget": "a"}, "budget must be a finite number"),
        ({"k": 1, "costs": ONES, "budget": True}, "budget must be a finite number"),
        ({"k": 1, "groups": [0, 0, 1, 1], "quotas": "a"}, "quota of group 0"),
        ({"k": 1, "objective": ["cascade"]}, "objective must be 'cascade' or 'direct'"),
    ],
)
def test_impossible_requests_are_refused(arguments, message):
    k = arguments.pop("k")
    with pytest.raises(InputError, match=message):
        select_seeds(GRAPH, P, k, **arguments)


def test_shapes_and_ids():
    with pytest.raises(ShapeError, match="costs"):
        select_seeds(GRAPH, P, 1, costs=[1.0], budget=1.0)
    with pytest.raises(ShapeError, match="groups"):
        select_seeds(GRAPH, P, 1, groups=[1], quotas=1)
    with pytest.raises(UnknownIdError):
        select_seeds(GRAPH, P, 1, exclude=[77])
    with pytest.raises(InputError, match="candidates must lie in"):
        SeedOracle(GRAPH)(P, 1, candidates=[9])


def test_everything_forced_leaves_nothing_to_choose():
    pick = select_seeds(GRAPH, P, 2, must_include=[3, 0], rng=0)
    assert pick.seeds.tolist() == [3, 0]
    assert pick.lower <= pick.spread <= pick.upper
    assert select_seeds(GRAPH, P, 2, must_include=[3, 0], objective="direct").ratio == 1.0
