"""Confidence bounds: coverage by simulation, and limits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tensorucb import Graph, select_seeds

# private: the bounds of the certificates alone, against simulation
from tensorucb.oracle._kernels import log_binomial, sets_for_lower, share_lower, share_upper


@pytest.mark.parametrize("share", [0.003, 0.1, 0.6, 0.97])
def test_bounds_fail_no_more_often_than_they_say(share):
    rng = np.random.default_rng(0)
    sets, a, runs = 400, math.log(20.0), 4000
    hits, times = np.unique(rng.binomial(sets, share, runs), return_counts=True)
    low = sum(t for h, t in zip(hits.tolist(), times.tolist(), strict=True) if share_lower(h, sets, a) > share)
    high = sum(t for h, t in zip(hits.tolist(), times.tolist(), strict=True) if share_upper(h, sets, a) < share)
    assert low <= 0.05 * runs
    assert high <= 0.05 * runs


def test_bounds_at_the_ends():
    assert share_lower(0, 100, 3.0) == 0.0
    assert share_upper(100, 100, 3.0) == 1.0
    assert share_lower(100, 100, 3.0) == pytest.approx(math.exp(-0.03), rel=1e-6)
    assert share_upper(0, 100, 3.0) == pytest.approx(1.0 - math.exp(-0.03), rel=1e-6)


def test_predicted_size_reaches_the_wanted_bound():
    size = sets_for_lower(0.2, 0.15, 10.0)
    assert share_lower(0.2 * math.ceil(size), math.ceil(size), 10.0) == pytest.approx(0.15, rel=1e-3)
    assert math.isinf(sets_for_lower(0.1, 0.2, 10.0))
    assert sets_for_lower(-0.1, 0.0, 10.0) == 1.0  # nothing is wanted


def test_log_binomial():
    assert log_binomial(10, 3) == pytest.approx(math.log(120))
    assert log_binomial(5, 9) == log_binomial(5, 0) == 0.0


def test_direct_bounds_of_a_large_network_are_those_of_all_nodes():
    """Nodes of small gains are looked at once; the certificate is that of looking at every node again."""
    rng = np.random.default_rng(5)
    n, m, k = 4000, 20_000, 5
    sources = rng.integers(0, n, m)
    graph = Graph.from_edges(sources, (sources + rng.integers(1, n, m)) % n, nodes=np.arange(n))
    p = rng.random(graph.n_edges) * 0.3
    worth = np.ones(n)

    def gains():
        each = worth.copy()
        np.add.at(each, graph.sources, p * worth[graph.targets])
        return each

    before = np.sort(gains())[-k:].sum()
    for _ in range(k):
        best = int(np.argmax(gains()))
        edges = slice(graph.out_offsets[best], graph.out_offsets[best + 1])
        worth[graph.targets[edges]] *= 1.0 - p[edges]
        worth[best] = 0.0
    spread = n - worth.sum()
    pick = select_seeds(graph, p, k, objective="direct")
    assert pick.spread == pytest.approx(spread, rel=1e-12)
    assert pick.upper == pytest.approx(min(before, spread + np.sort(gains())[-k:].sum()), rel=1e-12)
