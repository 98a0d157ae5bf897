"""Compensated coverage: its mean in all worlds of small graphs, its count on walks, and choices that are made by it."""

from __future__ import annotations

import numpy as np
import pytest

from oracle.test_guarantees import FEW, check, tiny
from reference.oracle import (
    ExactSpread,
    Judge,
    check_probabilities,
    compensated_score,
    direct_value,
    reachability,
    reverse_walk,
    select_seeds,
    world_chances,
)
from tensorucb.graph import Graph

# private: the score of walks is held against its definition, which no public door shows
from tensorucb.oracle import Constraints, _compensated, _constraints, _greedy
from tensorucb.oracle.rr import Sampler

NO_ROWS = np.empty(0, dtype=np.int64)


@pytest.fixture
def always(monkeypatch):
    """Choose by compensated coverage wherever it is possible."""
    monkeypatch.setattr(_compensated, "_MOST_VARIANCE", np.inf)


def coauthors(groups: int, size: int, papers: int, seed: int) -> Graph:
    """Papers of two to four authors, mostly of one group, each edge in both directions."""
    rng = np.random.default_rng(seed)
    pairs = set()
    for _ in range(papers):
        group = rng.integers(groups)
        authors = group * size + (size * rng.random(rng.integers(2, 5)) ** 2).astype(int)
        if rng.random() < 0.3:
            authors[0] = rng.integers(groups * size)
        pairs |= {(int(a), int(b)) for a in authors for b in authors if a != b}
    s, t = np.array(sorted(pairs)).T
    return Graph.from_edges(s, t, nodes=np.arange(groups * size))


@pytest.mark.parametrize("first", [0, 1])
def test_the_mean_score_is_the_spread_for_every_seed_set(first):
    # With the first step counted, walks alone give the spread of S; without it, what lies beyond direct activation.
    for seed in (0, 3):
        graph, p, rng = tiny(seed)
        values = rng.random(graph.n_nodes)
        exact = ExactSpread(graph, p, values)
        live, _ = reachability(graph.n_nodes, graph.sources, graph.targets)
        chance = world_chances(live, p, graph.targets)
        walks = [[reverse_walk(graph, world, root) for world in live] for root in range(graph.n_nodes)]
        for rows in [(0,), (1, 3), (0, 2, 4), (1, 2), (2, 4)]:
            mean = 0.0
            for root in range(graph.n_nodes):
                scores = [compensated_score(graph, p, *walk, rows, first) for walk in walks[root]]
                if root not in rows:
                    mean += values[root] * float(chance @ scores)
            known = values[list(rows)].sum() if first == 0 else direct_value(graph, p, rows, values)
            assert known + mean == pytest.approx(exact(rows), abs=1e-9)


def test_greedy_counts_what_the_definition_says(always, monkeypatch):
    monkeypatch.setattr(_compensated, "_LEAST_VARIANCE", 0.0)
    for seed in range(3):
        graph, p, rng = tiny(seed)
        values = rng.random(graph.n_nodes) + 0.1
        sampler = Sampler(graph, 1)
        sampler.load(check_probabilities(graph, p), values)
        sampler.mark(NO_ROWS)
        collection = sampler.collect(np.uint64(seed), 2**20)
        collection.traced = True
        collection.extend(1000)
        problem = _constraints.make_problem(graph, 3, Constraints(), values)
        cover = _greedy.greedy_cover(collection, problem)
        compensated = _compensated.compensated_cover(collection, problem, cover, NO_ROWS)
        scale = collection.sets / sampler.total
        members, sizes, lengths = collection.walks()
        starts = np.cumsum(lengths) - lengths
        for count in (1, compensated.rows.size):
            rows = compensated.rows[:count].tolist()
            scores = []
            for start, length in zip(starts, lengths, strict=True):
                ends = sizes[start : start + length]
                joined = [-1, *(int(np.searchsorted(ends, m, side="right")) for m in range(1, length))]
                walk = members[start : start + length].tolist()
                scores.append(0.0 if walk[0] in rows else compensated_score(graph, p, walk, joined, rows, 1))
            covered = scale * direct_value(graph, p, rows, values) + sum(scores)
            assert compensated.gains[:count].sum() == pytest.approx(covered, rel=1e-5)
        assert compensated.deviation**2 == pytest.approx(np.square(scores).sum(), rel=1e-4)
        assert covered / scale == pytest.approx(ExactSpread(graph, p, values)(rows), rel=0.1)
        assert compensated.bound == cover.bound


@pytest.mark.parametrize("name", ["plain", "candidates", "values"])
def test_certificates_hold_wherever_it_is_possible(name, always, monkeypatch):
    monkeypatch.setattr("tensorucb.oracle.rr._sampler._SHORT", 0.0)
    check("opim", name, FEW)


def test_fewer_sets_the_same_seeds_on_any_number_of_threads_and_no_poorer_ones(monkeypatch):
    graph = coauthors(150, 20, 6000, 1)
    p = check_probabilities(graph, 1.0 / graph.in_degree[graph.targets])
    picks = [select_seeds(graph, p, 10, threads=threads, rng=7) for threads in (1, 2, 4)]
    assert len({(*pick.rows, pick.upper, pick.lower, pick.rr_sets) for pick in picks}) == 1
    monkeypatch.setattr(_compensated, "_MOST_VARIANCE", 0.0)
    counted = select_seeds(graph, p, 10, rng=7)
    assert counted.rr_sets > 2 * picks[0].rr_sets
    ratio, error = Judge(graph, p, 2**20).ratio([picks[0].rows], [counted.rows])
    assert error < 0.005
    assert ratio > 0.985
