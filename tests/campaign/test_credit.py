from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from campaign.reference import credit as reference_credit
from campaign.worlds import small_graph

# private: each rule against its plain reference over many random rounds, in arrays as in the reference
from tensorucb.campaign._told import credits
from tensorucb.errors import InputError

GRAPH = small_graph(12, 60, strings=False)
P = np.random.default_rng(3).uniform(0, 1, GRAPH.n_edges)
P[::7] = 0.0


@pytest.mark.parametrize("rule", ["any", "last", "shared"])
@settings(deadline=None, max_examples=150)
@given(
    contacted=st.sets(st.integers(0, 11), min_size=1, max_size=6),
    acted=st.lists(st.tuples(st.integers(0, 11), st.integers(0, 12)), max_size=25),
    window=st.one_of(st.none(), st.integers(1, 8)),
)
def test_each_rule_equals_its_plain_reference(rule, contacted, acted, window):
    opened = 3.0
    edges = GRAPH.out_edges(np.array(sorted(contacted)))
    pairs = [(int(GRAPH.sources[e]), int(GRAPH.targets[e])) for e in edges]
    p = {(int(s), int(t)): float(x) for s, t, x in zip(GRAPH.sources, GRAPH.targets, P, strict=True)}
    expected = reference_credit(rule, pairs, acted, opened, window, p)
    inside = [(user, time) for user, time in acted if opened <= time <= opened + (window or np.inf)]
    users = np.array([user for user, _ in inside], dtype=np.int64)
    times = np.array([time for _, time in inside], dtype=np.float64)
    got = credits(rule, GRAPH, edges, users, times, opened, lambda: P)
    np.testing.assert_allclose(got, [expected[pair] for pair in pairs], rtol=1e-12, atol=0)


def test_probabilities_are_asked_for_only_when_credit_is_shared():
    def never():
        raise AssertionError("not needed")

    edges = GRAPH.out_edges(np.arange(4))
    users, times = GRAPH.targets[edges[:3]].astype(np.int64), np.full(3, 5.0)
    assert credits("any", GRAPH, edges, users, times, 0.0, never).sum() >= 3
    with pytest.raises(AssertionError):
        credits("shared", GRAPH, edges, users, times, 0.0, never)


def test_shares_of_small_probabilities_and_of_none():
    """The smaller a probability, the smaller its share, however small; where all are 0, all share alike."""
    edges = GRAPH.out_edges(np.arange(12))
    target = int(np.bincount(GRAPH.targets).argmax())
    mine = np.flatnonzero(GRAPH.targets[edges] == target)
    p = np.zeros(GRAPH.n_edges)
    acted = np.array([target]), np.array([5.0])
    got = credits("shared", GRAPH, edges, *acted, 0.0, lambda: p)
    np.testing.assert_allclose(got[mine], 1.0 / mine.size, rtol=1e-12)
    p[edges[mine[:2]]] = 1e-3, 3e-3
    got = credits("shared", GRAPH, edges, *acted, 0.0, lambda: p)
    reached = 1.0 - (1.0 - 1e-3) * (1.0 - 3e-3)
    np.testing.assert_allclose(got[mine], [1e-3 / reached, 3e-3 / reached, *[0.0] * (mine.size - 2)], rtol=1e-9)


def test_unknown_rule_is_refused():
    from campaign.worlds import small_campaign

    with pytest.raises(InputError, match="'any', 'last' or 'shared'"):
        small_campaign(credit="first")
