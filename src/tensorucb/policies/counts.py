"""Policies that know no features.

They count successes and trials (per source, per edge, per edge and product cell, of all edges), or learn factors of
users (`IMFB`). Some learn nothing about who to seed: by degree, by distinct followers, by chance.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from tensorucb.arrays import F64, I64, Arrays, Vectors
from tensorucb.checks import check_choice, check_count, check_number, check_share
from tensorucb.policies._base import EXPLORATIONS, Grid, Oracle, UCBPolicy, setting
from tensorucb.policies._kernels import add_node_bounds, edge_dots, learn_factors
from tensorucb.policies.prediction import Prediction

_KINDS = ("ucb", "thompson")
# Variant -> name in tables, and the factor of D(t) in the authors' code.
_VARIANTS = {"coin": ("COIN", 0.1), "hd": ("COIN-HD", 0.01), "plus": ("COIN+", 0.01)}
_POWER = 0.4
# One success in twenty trials, as if seen before the start: a plausible influence rate, soon outweighed.
_PRIOR_SUCCESSES = 1.0
_PRIOR_TRIALS = 20.0


@dataclass(eq=False, repr=False, kw_only=True)
class GammaCounts(UCBPolicy):
    """A Gamma–Poisson rate of responses per out-edge for each source; blind to products, targets and features.

    ``λ_i ~ Gamma(A_i, B_i)`` with ``A_i = a + Σy`` and ``B_i = b + N`` over the source's out-edges observed so far, and
    every out-edge has ``p_ij = min(1, λ_i)``: the mean ``A_i/B_i`` plus c deviations ``√A_i/B_i``, or a draw.

    Published: nowhere in this form; it is the smallest policy that learns who to seed.

    Parameters
    ----------
    exploration
        c. With draws, the factor on the posterior's variance; 1 is plain Thompson sampling.
    exploration_kind
        ``"ucb"``: the mean plus c deviations. ``"thompson"``: a draw per source, again after every update.
    base_rate, prior_trials
        ``a/b`` and ``b``: the rate of every source before the start, and how many trials it counts for.

    Examples
    --------
    >>> from tensorucb import Graph
    >>> from tensorucb.policies import GammaCounts
    >>> policy = GammaCounts()
    >>> policy.bind(Graph.from_edges([0, 0, 1], [1, 2, 2]), None, rng=0)
    >>> policy.update([1.0, 0.0], edges=[0, 1], outcomes=[1.0, 0.0])
    >>> scores = policy.score([1.0, 0.0])
    >>> bool(scores[0] == scores[1] > scores[2])  # edges of one source are alike; user 0 was heard of
    True
    """

    name = "GammaCounts"
    tunable: ClassVar[Grid] = {
        "exploration": EXPLORATIONS,
        "exploration_kind": _KINDS,
        "base_rate": (0.01, 0.03, 0.1),
        "prior_trials": (3.0, 10.0, 30.0),
    }

    exploration: float = setting(0.1, check_number)
    exploration_kind: str = setting("ucb", check_choice, _KINDS)
    base_rate: float = setting(0.03, check_share, zero=False, one=False)
    prior_trials: float = setting(10.0, check_number, strict=True)

    def initial(self, dims: tuple[int, ...]) -> Arrays:
        """A and B of each source."""
        n = self.graph.n_nodes
        return {"shape": np.full(n, self.base_rate * self.prior_trials), "trials": np.full(n, self.prior_trials)}

    def learn(self, state: Arrays, modes: Vectors, edges: I64, outcomes: F64) -> Arrays:
        """Responses add to A, trials to B."""
        np.add.at(state["shape"], self.graph.sources[edges], outcomes)
        np.add.at(state["trials"], self.graph.sources[edges], 1.0)
        return state

    def predict(self, state: Arrays, modes: Vectors) -> Prediction:
        """The rate of the edge's source."""
        rate = state["shape"] / state["trials"]
        deviation = np.sqrt(state["shape"]) / state["trials"]
        return Prediction(self.graph, rate[self.graph.sources], deviation[self.graph.sources])

    def optimistic(self, prediction: Prediction, modes: Vectors) -> F64:
        """The mean plus c deviations, or a draw for each source."""
        if self.exploration_kind == "ucb" or self.exploration == 0.0:
            return prediction.probabilities(self.exploration)
        state, c = self._known(modes), self.exploration
        rates = self._generator("score").gamma(state["shape"] / c) * c / state["trials"]
        return np.asarray(np.minimum(rates, 1.0)[self.graph.sources])


@dataclass(eq=False, repr=False, kw_only=True)
class CUCB(UCBPolicy):
    """``p = min(1, n/N + c√(3 ln t / 2N))`` per edge, 1 where untried; t counts rounds from 1.

    Published: c = 1. Added: c, which is tuned. It has no prior: an untried edge counts as certain.

    Parameters
    ----------
    exploration
        c, the factor of the confidence bound; 1 is the original.

    Examples
    --------
    >>> from tensorucb import Graph
    >>> from tensorucb.policies import CUCB
    >>> policy = CUCB()
    >>> policy.bind(Graph.from_edges([0, 0, 1], [1, 2, 2]), None, rng=0)
    >>> policy.update([1.0, 0.0], edges=[0, 1], outcomes=[1.0, 0.0])
    >>> policy.score([1.0, 0.0]).tolist()  # edge 2 was never tried
    [1.0, 1.0, 1.0]
    """

    name = "CUCB"

    exploration: float = setting(1.0, check_number)

    def initial(self, dims: tuple[int, ...]) -> Arrays:
        """Successes and trials of each edge."""
        edges = self.graph.n_edges
        return {"successes": np.zeros(edges), "trials": np.zeros(edges, dtype=np.int64)}

    def learn(self, state: Arrays, modes: Vectors, edges: I64, outcomes: F64) -> Arrays:
        """Both counts grow."""
        np.add.at(state["trials"], edges, 1)
        np.add.at(state["successes"], edges, outcomes)
        return state

    def predict(self, state: Arrays, modes: Vectors) -> Prediction:
        """The rate of each edge, 0 where untried, and the width of its bound."""
        trials = np.maximum(state["trials"], 1)
        return Prediction(self.graph, state["successes"] / trials, np.sqrt(1.5 * math.log(self._rounds + 1) / trials))

    def optimistic(self, prediction: Prediction, modes: Vectors) -> F64:
        """1 where untried, whatever c is."""
        tried = self._known(modes)["trials"] > 0
        return np.where(tried, prediction.probabilities(self.exploration), 1.0)


@dataclass(eq=False, repr=False, kw_only=True)
class Thompson(UCBPolicy):
    """``p_e ~ Beta((a + Σy)/c, (b + Σ(1 − y))/c)``, again after every update.

    Published: Beta(1, 1), a prior mean of ½, from which rare responses take many trials per edge to recover. Added: a
    prior around a base rate, and c.

    Parameters
    ----------
    exploration
        c, which multiplies the posterior's variance and keeps its mean; 1 is plain Thompson sampling.
    base_rate, prior_trials
        ``a/(a + b)`` and ``a + b``: the rate of every edge before the start, and how many trials it counts for;
        ½ and 2 are the published form.

    Examples
    --------
    The draw depends on the seed and the number of rounds told, so `score` repeats itself until the next `update`.

    >>> from tensorucb import Graph
    >>> from tensorucb.policies import Thompson
    >>> policy = Thompson()
    >>> policy.bind(Graph.from_edges([0, 0], [1, 2]), None, rng=0)
    >>> bool((policy.score([1.0]) == policy.score([1.0])).all())
    True
    """

    name = "Thompson"
    tunable: ClassVar[Grid] = {
        "exploration": EXPLORATIONS,
        "base_rate": (0.01, 0.03, 0.1),
        "prior_trials": (1.0, 4.0, 16.0),
    }

    exploration: float = setting(1.0, check_number, strict=True)
    base_rate: float = setting(0.03, check_share, zero=False, one=False)
    prior_trials: float = setting(4.0, check_number, strict=True)

    def initial(self, dims: tuple[int, ...]) -> Arrays:
        """Successes and failures of each edge."""
        return {"successes": np.zeros(self.graph.n_edges), "failures": np.zeros(self.graph.n_edges)}

    def learn(self, state: Arrays, modes: Vectors, edges: I64, outcomes: F64) -> Arrays:
        """Both counts grow."""
        np.add.at(state["successes"], edges, outcomes)
        np.add.at(state["failures"], edges, 1.0 - outcomes)
        return state

    def predict(self, state: Arrays, modes: Vectors) -> Prediction:
        """The posterior's mean."""
        a, b = self._posterior(state)
        return Prediction(self.graph, a / (a + b))

    def optimistic(self, prediction: Prediction, modes: Vectors) -> F64:
        """A draw for each edge."""
        a, b = self._posterior(self._known(modes))
        return self._generator("score").beta(a / self.exploration, b / self.exploration, size=self.graph.n_edges)

    def _posterior(self, state: Arrays) -> tuple[F64, F64]:
        a = self.base_rate * self.prior_trials + state["successes"]
        return a, (1.0 - self.base_rate) * self.prior_trials + state["failures"]


class COIN(UCBPolicy):
    """Success rates ``n/N`` per (product cell, edge), and exploration until every edge has been tried often enough.

    The cell is the product's dominant entry (its main topic), so there are as many cells as product features. What
    else the context holds, such as a strategy, is ignored. A user is under-explored if an out-edge has
    ``N < D(t) = c·t^0.4`` trials in the cell, t counting rounds from 1. With at least K such users, K of them are
    seeded; with fewer, all of them, and the oracle adds the rest from the other users on ``n/N`` (0 where untried).

    Published: c as below, and as many cells as the authors' partition has. Added: c is tuned.

    Parameters
    ----------
    variant
        How K under-explored users are picked: ``"coin"`` uniformly, ``"hd"`` (COIN-HD) by out-degree, ``"plus"``
        (COIN+) by the oracle restricted to them.
    exploration
        c of the control function D(t); by default the authors' 1/10 for COIN, 1/100 for COIN-HD and COIN+.
    """

    uses_product = True
    # Trials are whole numbers: up to 0.1, every c asks for one trial of each edge for 300 rounds. 0 never explores.
    tunable: ClassVar[Grid] = {"exploration": (0.0, 0.1, 0.3, 1.0)}

    def __init__(self, *, variant: str = "coin", exploration: float | None = None) -> None:
        self.variant = check_choice("variant", variant, _VARIANTS)
        self.name, factor = _VARIANTS[variant]
        self.exploration = factor if exploration is None else check_number("exploration", exploration)

    def initial(self, dims: tuple[int, ...]) -> Arrays:
        """``n`` and ``N`` of each cell and edge."""
        shape = (dims[0], self.graph.n_edges)
        return {"successes": np.zeros(shape), "trials": np.zeros(shape, dtype=np.int32)}

    def learn(self, state: Arrays, modes: Vectors, edges: I64, outcomes: F64) -> Arrays:
        """Both counts of the product's cell grow."""
        cell = int(np.argmax(modes[0]))
        np.add.at(state["trials"][cell], edges, 1)
        np.add.at(state["successes"][cell], edges, outcomes)
        return state

    def predict(self, state: Arrays, modes: Vectors) -> Prediction:
        """The rate of each edge in the product's cell, 0 where untried."""
        cell = int(np.argmax(modes[0]))
        return Prediction(self.graph, state["successes"][cell] / np.maximum(state["trials"][cell], 1))

    def pick(self, prediction: Prediction, modes: Vectors, k: int, oracle: Oracle) -> I64:
        """Under-explored users first."""
        allowed = self._allowed(oracle, k)
        under = np.intersect1d(self._under_explored(modes), allowed)
        p, redundancy = prediction.probabilities(), prediction.redundancy
        if under.size < k:
            others = np.setdiff1d(allowed, under)
            best = oracle(p, k - under.size, candidates=others, redundancy=redundancy)
            return np.concatenate([under, best])
        if self.variant == "plus":
            return oracle(p, k, candidates=under, redundancy=redundancy)
        if self.variant == "hd":
            return under[np.argsort(-self.graph.out_degree[under], kind="stable")[:k]]
        return np.asarray(self._generator("explore", modes).choice(under, size=k, replace=False))

    def _under_explored(self, modes: Vectors) -> I64:
        """Rows of users with an out-edge tried fewer than D(t) times."""
        control = self.exploration * (self._rounds + 1) ** _POWER
        short = self._known(modes)["trials"][int(np.argmax(modes[0]))] < control
        return np.flatnonzero(np.bincount(self.graph.sources[short], minlength=self.graph.n_nodes))


@dataclass(eq=False, repr=False, kw_only=True)
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
    """

    name = "IMFB"
    tunable: ClassVar[Grid] = {"exploration": EXPLORATIONS, "dim": (2, 5, 10, 20), "base_rate": (0.01, 0.03, 0.1)}

    dim: int = setting(10, check_count, 1, 1000)
    exploration: float = setting(0.1, check_number)
    ridge: float = setting(0.4, check_number, strict=True)
    warmup: float = setting(4.0, check_number)
    decay: float = setting(0.25, check_share)
    base_rate: float = setting(0.03, check_share, zero=False, one=False)

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


# -- one rate for all edges: who to seed is not learned --


class PooledRatePolicy(UCBPolicy):
    """Scores every edge with the success rate of all edges seen so far: ``(1 + Σy) / (20 + N)``."""

    tunable: ClassVar[Grid] = {}

    def initial(self, dims: tuple[int, ...]) -> Arrays:
        """Successes and trials."""
        return {"totals": np.array([_PRIOR_SUCCESSES, _PRIOR_TRIALS])}

    def learn(self, state: Arrays, modes: Vectors, edges: I64, outcomes: F64) -> Arrays:
        """Both counts grow."""
        return {"totals": state["totals"] + (outcomes.sum(), outcomes.size)}

    def predict(self, state: Arrays, modes: Vectors) -> Prediction:
        """The same for every edge."""
        successes, trials = state["totals"]
        return Prediction(self.graph, np.full(self.graph.n_edges, successes / trials))


class DegreeCover(PooledRatePolicy):
    """K users chosen one after the other, each with the most followers that nobody before has; it learns nothing.

    Greedy maximum coverage: the users and their distinct followers are at least 1 − 1/e of those of any K users.

    Examples
    --------
    >>> from tensorucb import Graph, SeedOracle
    >>> from tensorucb.policies import DegreeCover
    >>> graph, policy = Graph.from_edges([0, 0, 0, 1, 1, 2], [3, 4, 5, 3, 4, 6]), DegreeCover()
    >>> policy.bind(graph, None, rng=0)
    >>> policy.choose([1.0], 2, SeedOracle(graph)).tolist()  # user 1 has more followers than user 2, but no new ones
    [0, 2]
    """

    name = "DegreeCover"

    def pick(self, prediction: Prediction, modes: Vectors, k: int, oracle: Oracle) -> I64:
        """By distinct followers."""
        from tensorucb.oracle import SeedOracle  # brings kernels that the others do without

        # If every edge fires, the users activated by the seeds themselves are their distinct followers.
        cover = SeedOracle(self.graph, objective="direct", candidates=self._allowed(oracle, k), rng=self._key)
        return cover(np.ones(self.graph.n_edges), k)


class HighDegree(PooledRatePolicy):
    """The K users with the most out-edges, ties by row: simple, and hard to beat early on.

    Examples
    --------
    >>> from tensorucb import Graph, SeedOracle
    >>> from tensorucb.policies import HighDegree
    >>> graph, policy = Graph.from_edges([0, 1, 1], [1, 0, 2]), HighDegree()
    >>> policy.bind(graph, None, rng=0)
    >>> policy.choose([1.0], 1, SeedOracle(graph)).tolist()
    [1]
    """

    name = "HighDegree"

    def pick(self, prediction: Prediction, modes: Vectors, k: int, oracle: Oracle) -> I64:
        """By degree."""
        rows = self._allowed(oracle, k)
        return rows[np.argsort(-self.graph.out_degree[rows], kind="stable")[:k]]


class Random(PooledRatePolicy):
    """K users drawn uniformly without replacement, the floor of every comparison.

    The draw depends on the seed, the product and the number of rounds told: asking again before the next
    `update` repeats the answer.
    """

    name = "Random"

    def pick(self, prediction: Prediction, modes: Vectors, k: int, oracle: Oracle) -> I64:
        """By chance."""
        rows = self._allowed(oracle, k)
        return np.asarray(self._generator("choose", modes).choice(rows, size=k, replace=False), dtype=np.int64)
