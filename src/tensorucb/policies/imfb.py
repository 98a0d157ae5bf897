"""`IMFB`: factorisation bandits (Wu, Li, Wang, Wang 2019)."""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import ClassVar

import numpy as np

from tensorucb.arrays import F64, I64, Arrays, Vectors
from tensorucb.checks import check_count, check_number, check_share
from tensorucb.policies._base import EXPLORATIONS, Grid, UCBPolicy
from tensorucb.policies._kernels import add_node_bounds, edge_dots, learn_factors
from tensorucb.policies.prediction import Prediction


class IMFB(UCBPolicy):
    """Each user has an influence vector θ_i and a susceptibility vector β_j, both learned, no features used.

    For every observed edge in order: ``A_i += β_j β_jᵀ, b_i += y β_j, θ_i = A_i⁻¹ b_i``, then
    ``C_j += θ_i θ_iᵀ, d_j += y θ_i, β_j = C_j⁻¹ d_j``. The score is
    ``clip(θ_i·β_j + α‖β_j‖_{A_i⁻¹} + α‖θ_i‖_{C_j⁻¹} + κ qᵗ)`` with t = 1 in the first round.

    Published: θ and β start uniform on [0, 1/√dim], so that every edge starts near ¼. Added: the start is scaled to a
    base rate. dim and the base rate are tuned beside α.

    Parameters
    ----------
    dim
        Length of both vectors.
    exploration, ridge
        α, the factor of both confidence bounds, and λ: ``A_i`` and ``C_j`` start at λI.
    warmup, decay
        κ, the bonus that all edges share, and q, by which it shrinks each round.
    base_rate
        Mean of θ_i·β_j at the start, s²/4; ¼ is the published form.

    Examples
    --------
    >>> from tensorucb import Graph
    >>> from tensorucb.policies import IMFB
    >>> policy = IMFB()
    >>> policy.bind(Graph.from_edges([0, 0, 1], [1, 2, 2]), None, rng=0)
    >>> policy.update([1.0, 0.0], edges=[0, 1], outcomes=[1.0, 0.0])
    >>> policy.score([1.0, 0.0]).shape
    (3,)
    """

    name = "IMFB"
    tunable: ClassVar[Grid] = {"exploration": EXPLORATIONS, "dim": (2, 5, 10, 20), "base_rate": (0.01, 0.03, 0.1)}

    def __init__(
        self,
        *,
        dim: int = 10,
        exploration: float = 0.1,
        ridge: float = 0.4,
        warmup: float = 4.0,
        decay: float = 0.25,
        base_rate: float = 0.03,
    ) -> None:
        self.dim = check_count("dim", dim, 1, 1000)
        self.exploration = check_number("exploration", exploration)
        self.ridge = check_number("ridge", ridge, strict=True)
        self.warmup = check_number("warmup", warmup)
        self.decay = check_share("decay", decay)
        self.base_rate = check_share("base_rate", base_rate, zero=False, one=False)

    def initial(self, dims: tuple[int, ...]) -> Arrays:
        """θ, β and the inverses of A and C."""
        n, widest = self.graph.n_nodes, 2.0 * (self.base_rate / self.dim) ** 0.5
        generator = np.random.default_rng([self._key, zlib.crc32(b"start")])
        theta, beta = generator.uniform(0.0, widest, size=(2, n, self.dim))
        inverse = np.broadcast_to(np.eye(self.dim) / self.ridge, (n, self.dim, self.dim))
        return {"theta": theta, "beta": beta, "A_inverse": inverse.copy(), "C_inverse": inverse.copy()}

    def learn(self, state: Arrays, modes: Vectors, edges: I64, outcomes: F64) -> Arrays:
        """Both factors, edge by edge."""
        factors = (state[name] for name in ("A_inverse", "theta", "C_inverse", "beta"))
        learn_factors(self.graph.sources, self.graph.targets, edges, outcomes, *factors)
        return state

    def predict(self, state: Arrays, modes: Vectors) -> Prediction:
        """θ_i·β_j, and the sum of both norms."""
        graph = self.graph
        theta = state["theta"]
        beta = state["beta"]
        mean, deviation = np.empty(graph.n_edges), np.zeros(graph.n_edges)
        edge_dots(graph.sources, graph.targets, theta, beta, mean)
        by_source = np.arange(graph.n_edges, dtype=np.int64)
        add_node_bounds(by_source, graph.sources, graph.targets, beta, state["A_inverse"], deviation)
        add_node_bounds(graph.in_edges, graph.targets, graph.sources, theta, state["C_inverse"], deviation)
        return Prediction(graph, mean, deviation)

    def optimistic(self, prediction: Prediction, modes: Vectors) -> F64:
        """With the bonus that all edges share in the first rounds."""
        warm = prediction.mean + self.warmup * self.decay ** (self._rounds + 1)
        return replace(prediction, mean=warm).probabilities(self.exploration)
