"""A round of TensorUCB (score, learn) against the logistic tensor, and its pass over the rows against NumPy.

``python -m benchmarks.bench_tensor_ucb --split`` shows where the time of a round goes, up to 1M / 10M.
"""

from __future__ import annotations

import os
import statistics
import sys
import time

import numpy as np

from benchmarks.hot_paths import measurement
from tensorucb.features import UserProfile
from tensorucb.graph import Graph
from tensorucb.learner.response._fit import dose_of, rows_at
from tensorucb.learner.response._log import design_of
from tensorucb.oracle import SeedOracle
from tensorucb.policies.tensor_ucb import TensorUCB

SIZES = {"2,500 / 76,000": (2_500, 76_000), "29,000 / 372,000": (29_000, 372_000)}
TOPICS = 10


def _network(rng, nodes, edges):
    weights = (np.arange(nodes) + 3.0) ** -0.9
    weights /= weights.sum()
    ring = np.arange(nodes)
    sources = np.concatenate([ring, rng.choice(nodes, edges, p=weights)])
    targets = np.concatenate([(ring + 1) % nodes, rng.permutation(nodes)[rng.choice(nodes, edges, p=weights)]])
    keep = sources != targets
    return Graph.from_edges(sources[keep], targets[keep])


def _profile(rng, n):
    past = [rng.gamma(0.5, 2.0, (n, TOPICS)) for _ in range(2)]
    return UserProfile(rng.normal(size=(n, 1)), past[0], past[1], 20.0 * rng.random((n, TOPICS)))


def _sums(data, point, redundancy):
    """Log-likelihood, curvature and slope by pull: NumPy, array by array over all rows."""
    q, c = np.repeat(np.arange(data.pulls.place.size), np.diff(data.ptr)), data.cell
    pulls = data.pulls.X @ point.weights + np.einsum("qk,qk->q", point.effects[data.pulls.place], data.pulls.Z)
    pulls += point.rounds[data.pulls.round]
    features, more = data.T.shape[1], redundancy * (data.dose - 1.0)
    cells = (data.T @ point.target_weights[:features] + point.offsets + data.readiness)[data.cell_place]
    cells += point.target_weights[features:] @ np.atleast_2d(data.taste) + np.log1p((1.0 - point.saturation) * more)
    u, weight = pulls[q] + cells[c], data.weight / (1.0 + more)[c]
    outcome = np.zeros(u.size)
    outcome[data.hit_row] = data.hits / data.weight[data.hit_row]
    p = 1.0 / (1.0 + np.exp(-u))
    value = float(np.sum(weight * (outcome * u - np.logaddexp(0.0, u))))
    parts = weight * p * (1.0 - p), weight * (outcome - p)
    return value, *(np.add.reduceat(part, data.ptr[:-1]) for part in parts)


def _last_fit(policy):
    """The rows of the policy's last fit, where it ended, and its redundancy."""
    state, fitted = policy._state, policy._state.fitted
    count = len(state.log) - (state.rounds - state.fitted_rounds)
    data = design_of(policy._nodes, fitted.context, state.log[:count])
    return data, fitted.point, fitted.redundancy


def _median(function, repeats):
    function()
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        function()
        times.append((time.process_time() - begin) * 1e3)
    return statistics.median(times)


def _play(policy, graph, users, rounds, k=10):
    """CPU milliseconds a round of scoring and of learning (mean and largest), and edges observed a round."""
    rng = np.random.default_rng(1)
    policy.bind(graph, users, 0)
    warm = rng.dirichlet(np.ones(TOPICS))
    # Kernels are compiled outside the clock.
    for _ in range(9):
        policy.update(warm, np.arange(50), np.zeros(50))
    policy.score(warm)
    policy.bind(graph, users, 0)
    hubs = np.argsort(-graph.out_degree)[: 4 * k]
    scoring = 0.0
    learning = []
    rows = 0
    for _ in range(rounds):
        product = rng.dirichlet(np.full(TOPICS, 0.3))
        begin = time.process_time()
        p = policy.score(product)
        scoring += time.process_time() - begin
        seeds = rng.choice(hubs, k, replace=False)
        edges = np.flatnonzero(np.isin(graph.sources, seeds))[:20_000]
        outcomes = rng.random(edges.size) < p[edges]
        begin = time.process_time()
        policy.update(product, edges, outcomes)
        learning.append(time.process_time() - begin)
        rows += edges.size
    return scoring / rounds * 1e3, statistics.mean(learning) * 1e3, rows / rounds, max(learning) * 1e3


def _whole_rounds(graph, users, rounds, k=10, *, again=True):
    """CPU milliseconds of each round: scoring, selecting by cascades, learning from the seeds' out-edges.

    Without ``again`` nobody is chosen twice, so that many sources are seen; seeds are then chosen for direct responses.
    """
    rng, policy = np.random.default_rng(2), TensorUCB()
    policy.bind(graph, users, 0)
    oracle = SeedOracle(graph, objective="cascade" if again else "direct", threads=1, rng=0)
    free, spent = np.ones(graph.n_nodes, dtype=np.bool_), []
    for _ in range(rounds):
        product = rng.dirichlet(np.full(TOPICS, 0.3))
        begin = time.process_time()
        prediction = policy.prediction(product)
        expected, optimistic = prediction.expected(), prediction.probabilities(policy.exploration)
        scored = time.process_time()
        allowed = None if again else np.flatnonzero(free)
        rows = oracle(optimistic, k, candidates=allowed, redundancy=prediction.redundancy)
        chosen = time.process_time()
        free[rows] = False
        edges = graph.out_edges(rows)
        outcomes = rng.random(edges.size) < expected[edges]
        told = time.process_time()
        policy.update(product, edges, outcomes)
        spent.append((scored - begin, chosen - scored, time.process_time() - told))
    # The first rounds compile kernels.
    return np.array(spent[3:]) * 1e3


def split_rows():
    """Where the time of a round goes, on three worlds, as rows of a table."""
    yield "| world | score | select | learn: median, largest | round: median, mean, largest |\n" + "| --- " * 5 + "|"
    worlds = {
        "29,000 / 372,000, K = 10": (29_000, 372_000, 63, 10, True),
        "29,000 / 372,000, K = 50, direct, nobody twice": (29_000, 372_000, 103, 50, False),
        "1,000,000 / 10,000,000, K = 10, 14 features": (1_000_000, 10_000_000, 13, 10, True),
    }
    for name, (nodes, edges, rounds, k, again) in worlds.items():
        rng = np.random.default_rng(0)
        graph = _network(rng, nodes, edges)
        users = _profile(rng, nodes) if nodes < 1_000_000 else rng.normal(size=(nodes, 12))
        spent = _whole_rounds(graph, users, rounds, k, again=again)
        (score, select, learn), whole = np.median(spent, axis=0), spent.sum(axis=1)
        yield (
            f"| {name} | {score:.0f} | {select:.0f} | {learn:.0f}, {spent[:, 2].max():.0f} "
            f"| {np.median(whole):.0f}, {whole.mean():.0f}, {whole.max():.0f} |"
        )


def run(quick: bool = False) -> list[dict[str, object]]:
    os.environ["TENSORUCB_THREADS"] = "1"
    rows: list[dict[str, object]] = []
    for size, (nodes, edges) in SIZES.items():
        if quick and nodes > 10_000:
            continue
        rng = np.random.default_rng(0)
        graph = _network(rng, nodes, edges)
        users = _profile(rng, graph.n_nodes)
        rounds = 20 if quick else 100
        policy = TensorUCB()
        scoring, learning, observed, largest = _play(policy, graph, users, rounds)
        peer = _play(TensorUCB.paper(5, likelihood="logistic"), graph, users, 10)
        last = _last_fit(policy)
        reference = _median(lambda x=last: _sums(*x), 5)
        data, point, redundancy = last
        dose = dose_of(data, redundancy)  # of all passes with the same redundancy
        ours = _median(lambda x=(data, point, dose): rows_at(*x), 5)
        gap = float(abs(rows_at(data, point, dose).slope - _sums(*last)[2]).max())
        assert gap < 1e-6, gap
        what = f"pass over {last[0].cell.size:,} rows, {size}; gap {gap:.0e}"
        rows.append(measurement("tensor_ucb", what, ours, reference, "ms CPU"))
        what = f"score + learn against the logistic tensor, mean of {rounds} rounds of {observed:,.0f} edges, {size}"
        kept = sum(array.nbytes for array in policy.state().arrays.values()) / 2**20
        parts = f"scoring {scoring:.1f}, learning {learning:.1f}, at most {largest:.0f}; state {kept:.0f} MiB"
        rows.append(measurement("tensor_ucb", f"{what}: {parts}", scoring + learning, peer[0] + peer[1], "ms CPU"))
        whole = _whole_rounds(graph, users, 13 if quick else 63).sum(axis=1)
        what = f"a whole round (score, select by cascades, learn), mean of {whole.size} rounds, {size}"
        spread = f"median {np.median(whole):.0f}, at most {whole.max():.0f}"
        rows.append(measurement("tensor_ucb", f"{what}; {spread}", float(whole.mean()), None, "ms CPU"))
    del os.environ["TENSORUCB_THREADS"]
    return rows


if __name__ == "__main__" and "--split" in sys.argv:
    os.environ["TENSORUCB_THREADS"] = "1"
    for row in split_rows():
        print(row, flush=True)
