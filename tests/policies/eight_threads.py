"""Every policy asked by eight threads at the same time: ``python eight_threads.py`` fails if one differs."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from typing import Any

import numpy as np

from tensorucb import SeedOracle
from tensorucb.data import make_sandbox
from tensorucb.diffusion import observe
from tensorucb.policies import ForgetOnDrift, LinUCB
from tensorucb.policies.registry import REGISTRY, make_policy

THREADS = 8
CALLS = 16
SEEDS = 4


# The registered policies, and the one that wraps another.
POLICIES: dict[str, Callable[[], Any]] = {label: partial(make_policy, label) for label in REGISTRY}
POLICIES |= {"ForgetOnDrift": partial(ForgetOnDrift, LinUCB())}


def taught(label: str, sandbox: Any, rounds: int = 3) -> tuple[Any, Any]:
    """A policy that has learned some rounds, and one of the same state that has computed nothing from it yet."""
    policy, fresh = POLICIES[label](), POLICIES[label]()
    for one in (policy, fresh):
        one.bind(sandbox.graph, sandbox.users, 0)
    oracle = SeedOracle(sandbox.graph, objective="direct")
    for t in range(rounds):
        rows = policy.choose(sandbox.products[t], SEEDS, oracle)
        policy.update(sandbox.products[t], *observe(sandbox.graph, sandbox.probabilities(t), rows, rng=t))
    fresh.restore(policy.state())
    return policy, fresh


def check(label: str, sandbox: Any) -> None:
    """Scores and choices of eight threads must be those of one."""
    one, shared = taught(label, sandbox)
    oracle = SeedOracle(sandbox.graph, objective="direct")

    def answers(policy: Any, i: int) -> tuple[np.ndarray, np.ndarray]:
        product = sandbox.products[i % 5]
        return policy.score(product), policy.choose(product, SEEDS, oracle)

    expected = [answers(one, i) for i in range(CALLS)]
    together = Barrier(THREADS, timeout=120)
    with ThreadPoolExecutor(THREADS, initializer=together.wait) as pool:
        found = list(pool.map(lambda i: answers(shared, i), range(CALLS)))
    for (scores, rows), (expected_scores, expected_rows) in zip(found, expected, strict=True):
        np.testing.assert_array_equal(scores, expected_scores, err_msg=label)
        np.testing.assert_array_equal(rows, expected_rows, err_msg=label)


if __name__ == "__main__":
    world = make_sandbox(120, 900, 5, rng=0)
    for name in POLICIES:
        print(name, flush=True)
        check(name, world)
