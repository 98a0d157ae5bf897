"""Update time of an edge: the kernels against the literal NumPy loop, CPU time in one run."""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

import numpy as np

from tensorucb.learner import TensorRegression

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from reference.learner import Reference

DIMS, RANK = (10, 10, 10), 10


def _data(n):
    rng = np.random.default_rng(0)
    features = [rng.normal(size=(n, d)) / np.sqrt(d) for d in DIMS]
    truth = [rng.normal(size=(2, d)) for d in DIMS]
    u = np.prod([x @ w.T for x, w in zip(features, truth, strict=True)], axis=0).sum(axis=1)
    return features, (rng.random(n) < 1 / (1 + np.exp(1 - u))).astype(float)


def _ours(n, repeats, **options):
    features, y = _data(n)
    TensorRegression(DIMS, RANK, rng=0, **options).update([x[:2] for x in features], y[:2])
    times = []
    for _ in range(repeats):
        learner = TensorRegression(DIMS, RANK, rng=0, **options)
        begin = time.process_time()
        learner.update(features, y)
        times.append((time.process_time() - begin) / n * 1e6)
    return statistics.median(times), learner.state.n_sweeps / n


def _reference(n, sweeps, **options):
    features, y = _data(n)
    start = TensorRegression(DIMS, RANK, rng=0).state.means
    reference = Reference(start, start, sweeps=sweeps, tolerance=1e-8, **options)
    begin = time.process_time()
    reference.update(features, y)
    return (time.process_time() - begin) / n * 1e6


def run(quick: bool = False) -> list[dict[str, object]]:
    n, repeats = (2_000, 3) if quick else (20_000, 5)
    cases = [
        ("update, gaussian", {}, {}),
        ("update, logistic", {"likelihood": "logistic"}, {"logistic": True}),
    ]
    rows: list[dict[str, object]] = []
    for what, options, literal in cases:
        ours, sweeps = _ours(n, repeats, **options)
        reference = _reference(10 if quick else 40, sweeps=100, **literal)
        rows.append(
            {
                "room": "learner",
                "what": f"{what}, R=10, D=3, d=10 ({sweeps:.1f} sweeps)",
                "ours": ours,
                "reference": reference,
                "ratio": reference / ours,
                "unit": "µs CPU an edge",
            }
        )
    return rows
