"""The small generated campaign in which `check_policy` tries a policy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.graph import Graph


class TopK:
    """A deterministic oracle: the k rows of largest expected direct reach ``Σ_j p_ij``, ties by row."""

    def __init__(self, graph: Graph, candidates: I64 | None = None) -> None:
        self.graph, self.candidates = graph, candidates

    def __call__(
        self,
        probabilities: F64,
        k: int,
        *,
        candidates: I64 | None = None,
        must_include: I64 | None = None,
        redundancy: float | None = None,
    ) -> I64:
        """The chosen rows, those that must be included first."""
        allowed = self.candidates if candidates is None else candidates
        reach = np.bincount(self.graph.sources, weights=probabilities, minlength=self.graph.n_nodes)
        first = np.empty(0, dtype=np.int64) if must_include is None else np.asarray(must_include)
        rows = np.setdiff1d(np.arange(self.graph.n_nodes) if allowed is None else allowed, first)
        return np.concatenate([first, rows[np.argsort(-reach[rows], kind="stable")]])[:k]


@dataclass
class Playground:
    """A network with a hidden truth; policies get `graph`, `users`, a product and feedback, nothing else."""

    graph: Graph
    baited_graph: Graph
    users: F64
    products: F64
    truth: F64
    modes: int
    k: int
    seed: int
    last_feedback: dict[int, tuple[I64, F64]] = field(default_factory=dict)

    def product(self, t: int) -> Any:
        """The product of round ``t``, which take turns: a vector, or ``modes`` of them."""
        vector = self.products[t % len(self.products)]
        return vector if self.modes == 1 else [vector, *([self.products[t % 2]] * (self.modes - 1))]

    def feedback(self, t: int, seeds: I64) -> tuple[I64, F64]:
        """Out-edges of the seeds in the order of the seeds, and their coins."""
        offsets = self.graph.out_offsets
        edges = np.concatenate([np.arange(offsets[s], offsets[s + 1]) for s in seeds]).astype(np.int64)
        outcomes = self.whole_feedback(t)[1][edges]
        _freeze(edges, outcomes)
        self.last_feedback[t] = edges, outcomes
        return edges, outcomes

    def whole_feedback(self, t: int) -> tuple[I64, F64]:
        """The coins of all edges."""
        # One coin per edge and round, so that equal seeds get equal outcomes.
        coins = np.random.default_rng([self.seed, t]).random(self.graph.n_edges)
        live: NDArray[np.bool_] = coins < self.truth[t % len(self.products)]
        return np.arange(self.graph.n_edges, dtype=np.int64), live.astype(np.float64)


def _freeze(*arrays: NDArray[Any]) -> None:
    for array in arrays:
        array.setflags(write=False)


def make_playground(*, modes: int, k: int, seed: int, nodes: int = 40, degree: int = 6) -> Playground:
    """A ring with random chords, users with 4 features, 4 products over 3 topics."""
    rng = np.random.default_rng([seed, 1])
    ring = np.arange(nodes)
    hops = rng.integers(2, nodes, size=(nodes, degree))
    sources = np.concatenate([ring, np.repeat(ring, degree)])
    targets = np.concatenate([(ring + 1) % nodes, ((ring[:, None] + hops) % nodes).ravel()])
    bare = Graph.from_edges(sources, targets, self_loops="drop")
    users = rng.normal(size=(nodes, 4)) / 2.0
    # Products 0 and 1 have different main topics, and so different cells.
    products = rng.dirichlet(np.ones(3), size=4) * 0.5 + 0.5 * np.eye(3)[[0, 1, 2, 0]]
    truth = products @ np.clip(rng.beta(1.0, 6.0, size=(3, bare.n_edges)), 0.0, 1.0)
    baited = Graph.from_edges(bare.sources, bare.targets, attributes={"probability": truth[0]})
    _freeze(users, products, truth)
    return Playground(bare, baited, users, products, truth, modes, k, seed)
