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
        self.graph = graph
        self.candidates = candidates

    def __call__(
        self, probabilities: F64, k: int, *, candidates: I64 | None = None, must_include: I64 | None = None
    ) -> I64:
        """The chosen rows, those that must be included first."""
        allowed = self.candidates if candidates is None else candidates
        reach = np.bincount(self.graph.sources, weights=probabilities, minlength=self.graph.n_nodes)
        first = np.empty(0, dtype=np.int64) if must_include is None else np.asarray(must_include)
        rows = np.setdiff1d(np.arange(self.graph.n_nodes) if allowed is None else allowed, first)
        return np.concatenate([first, rows[np.argsort(-reach[rows], kind="stable")]])[:k]


@dataclass
class World:
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

    @property
    def n_products(self) -> int:
        """Number of products, which take turns."""
        return int(self.products.shape[0])

    def product(self, t: int) -> Any:
        """The product of round ``t``: a vector, or ``modes`` of them."""
        vector = self.products[t % self.n_products]
        return vector if self.modes == 1 else [vector, *([self.products[t % 2]] * (self.modes - 1))]

    def _outcomes(self, t: int, edges: I64) -> F64:
        # One coin per edge and round, so that equal seeds get equal outcomes.
        coins = np.random.default_rng([self.seed, t]).random(self.graph.n_edges)
        live: NDArray[np.bool_] = coins < self.truth[t % self.n_products]
        return live[edges].astype(np.float64)

    def feedback(self, t: int, seeds: I64) -> tuple[I64, F64]:
        """Out-edges of the seeds in the order of the seeds, and their coins."""
        offsets = self.graph.out_offsets
        edges = np.concatenate([np.arange(offsets[s], offsets[s + 1]) for s in seeds]).astype(np.int64)
        outcomes = self._outcomes(t, edges)
        _freeze(edges, outcomes)
        self.last_feedback[t] = edges, outcomes
        return edges, outcomes

    def whole_feedback(self, t: int) -> tuple[I64, F64]:
        """The coins of all edges."""
        edges = np.arange(self.graph.n_edges, dtype=np.int64)
        return edges, self._outcomes(t, edges)


def _freeze(*arrays: NDArray[Any]) -> None:
    for array in arrays:
        array.setflags(write=False)


def make_world(*, modes: int, k: int, seed: int, nodes: int = 40, degree: int = 6) -> World:
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
    truth = np.clip(rng.beta(1.0, 6.0, size=(3, bare.n_edges)), 0.0, 1.0)
    truth = products @ truth
    baited = Graph.from_edges(bare.sources, bare.targets, attributes={"probability": truth[0]})
    _freeze(users, products, truth)
    return World(bare, baited, users, products, truth, modes, k, seed)
