"""Does the model learn a fourth and a fifth mode of the context, and that products differ in popularity: two tables.

    python -m studies.modes

First a generated network with products and strategies (and seasons): the logit of an edge has a base rate, effects of
the source, of the target, of the product, of product × strategy, and of product × strategy × season. Random users are
seeded until 70,000 outcomes are told. The table holds the correlation of believed and true logits over all edges of
the sources seen, for contexts drawn at random, and that of their averages per context.

Then three products whose true rates are 5.4, 15.3 and 2.5 %, told on some users: what is believed of users who were
never seeded.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from tensorucb.data import make_sandbox
from tensorucb.policies import Policy, TensorUCB

Floats = NDArray[np.float64]

RATES = (0.054, 0.153, 0.025)
_TESTED = 60


@dataclass(frozen=True)
class Correlation:
    """How well the logits of sources seen are known: over edges, and over the contexts' averages."""

    edges: float
    contexts: float
    sources: int


class ManyModes:
    """A network and the true logits of its edges in the context of a product, a strategy and, if D = 5, a season."""

    def __init__(self, modes: int, seed: int, users: int = 600, edges: int = 12_000) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.box = make_sandbox(users, edges, 40, rng=rng)
        strategies, seasons = _unit(rng.normal(size=(6, 4))), _unit(rng.normal(size=(5, 3)))
        self.others = (strategies, seasons)[: modes - 3]
        k = self.box.products.shape[1]
        self._main, self._pair = 0.7 * rng.normal(size=k), 2.0 * rng.normal(size=(k, 4))
        self._triple = 2.0 * rng.normal(size=(k, 4, 3))
        graph = self.box.graph
        n = graph.n_nodes
        self._ends = 0.4 * rng.normal(size=n)[graph.sources] + 0.3 * rng.normal(size=n)[graph.targets]

    def draw(self) -> list[Floats]:
        """The vectors of a context."""
        return [table[self.rng.integers(len(table))] for table in (self.box.products, *self.others)]

    def logits(self, context: list[Floats]) -> Floats:
        """The truth of every edge."""
        shift = context[0] @ self._main + context[0] @ self._pair @ context[1]
        if len(context) > 2:
            shift += np.einsum("a,b,c,abc", *context, self._triple)
        return np.asarray(self._ends - 2.2 + shift)


def _unit(rows: Floats) -> Floats:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def correlation(policy: Policy, modes: int, *, outcomes: int = 70_000, seed: int = 0, **size: Any) -> Correlation:
    """Teach a policy with random seeds, then compare its logits with the truth."""
    world = ManyModes(modes, seed, **size)
    graph, rng = world.box.graph, world.rng
    policy.bind(graph, world.box.users, 0)
    seen, told = np.zeros(graph.n_nodes, dtype=np.bool_), 0
    while told < outcomes:
        context, seeds = world.draw(), np.sort(rng.choice(graph.n_nodes, 5, replace=False))
        edges = graph.out_edges(seeds)
        policy.update(context, edges, rng.random(edges.size) < expit(world.logits(context)[edges]))
        seen[seeds], told = True, told + edges.size
    known = seen[graph.sources]
    found, truth = [], []
    for context in [world.draw() for _ in range(_TESTED)]:
        found.append(logit(np.clip(policy.score(context), 1e-9, 1.0 - 1e-9))[known])
        truth.append(world.logits(context)[known])
    means = [np.array([logits.mean() for logits in side]) for side in (found, truth)]
    together = np.corrcoef(np.concatenate(found), np.concatenate(truth))[0, 1]
    return Correlation(float(together), float(np.corrcoef(*means)[0, 1]), int(seen.sum()))


def believed(policy: Policy, *, rounds: int = 60, seed: int = 0) -> list[float]:
    """Mean probability, for each product, of the out-edges of users who were never seeded."""
    rng = np.random.default_rng(seed)
    box = make_sandbox(600, 12_000, 3, n_topics=3, rng=rng)
    graph, products = box.graph, np.eye(3)
    half = rng.permutation(graph.n_nodes)[: graph.n_nodes // 2]
    policy.bind(graph, box.users, 0)
    for t in range(rounds):
        edges = graph.out_edges(np.sort(rng.choice(half, 10, replace=False)))
        policy.update(products[t % 3], edges, rng.random(edges.size) < RATES[t % 3])
    fresh = ~np.isin(graph.sources, half)
    return [float(policy.score(product)[fresh].mean()) for product in products]


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="networks of each row")
    seeds = range(parser.parse_args().seeds)
    policies = {
        "TensorUCB": lambda: TensorUCB(exploration=0.0),
        "TensorUCB(rank=30)": lambda: TensorUCB(rank=30, exploration=0.0),
        "TensorUCB (paper, logistic)": lambda: TensorUCB.paper(likelihood="logistic", exploration_kind="greedy"),
    }
    print("| policy | D | edges | averages per context | sources |\n| --- | ---: | ---: | ---: | ---: |")
    for label, make in policies.items():
        for modes in (4, 5):
            rows = [correlation(make(), modes, seed=seed) for seed in seeds]
            edges, contexts = (np.mean([getattr(row, name) for row in rows]) for name in ("edges", "contexts"))
            print(f"| {label} | {modes} | {edges:.3f} | {contexts:.3f} | {rows[0].sources} |", flush=True)
    print(f"\nTrue rates {', '.join(f'{rate:.1%}' for rate in RATES)}; believed of users never seeded:")
    for seed in seeds:
        print(", ".join(f"{rate:.1%}" for rate in believed(TensorUCB(exploration=0.0), seed=seed)))


if __name__ == "__main__":
    main()
