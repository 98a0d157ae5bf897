"""The demo's world and contestants."""

from __future__ import annotations

import numpy as np

from tensorucb.experiments import Environment, SeedReason, WorldSettings, explain_seeds
from tensorucb.policies import Policy


def demo_environment(seed: int, *, quick: bool = False) -> Environment:
    """A generated network of a size that fits into a minute; the direct objective, the seeds' out-edges observed."""
    from tensorucb.data import make_sandbox

    users, edges, products = (300, 3_000, 20) if quick else (1_000, 12_000, 60)
    sandbox = make_sandbox(users, edges, products, n_topics=8, rng=seed)
    return Environment.from_sandbox(sandbox, settings=WorldSettings(k=10, seed=seed), name="sandbox")


def demo_policies() -> dict[str, Policy]:
    """Ours, the paper's, and two that do not learn."""
    from tensorucb.policies.registry import make_policy

    return {label: make_policy(label) for label in ("TensorUCB", "TensorUCB (paper)", "HighDegree", "Random")}


def explained_round(environment: Environment, policy: Policy) -> tuple[str, list[SeedReason]]:
    """What ``policy`` would do next for one product, and why; it has learned from the last run."""
    number = int(environment.product_rows[0])
    product = environment.products[number]
    rows = policy.choose(product, environment.settings.k, environment.oracle(np.random.default_rng(0)))
    return f"product {number + 1}", explain_seeds(environment.graph, policy, product, rows)
