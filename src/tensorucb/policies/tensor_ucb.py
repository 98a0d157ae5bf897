"""`TensorUCB`: our default policy, a logistic tensor with node effects and optimism about sources."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.checks import check_choice, check_count, check_number
from tensorucb.errors import ShapeError
from tensorucb.features import UserProfile
from tensorucb.graph import Graph
from tensorucb.learner import blocks
from tensorucb.policies._base import BasePolicy, Floats, Ints, Product
from tensorucb.policies.online_tensor_ucb import OnlineTensorUCB
from tensorucb.rng import RngLike
from tensorucb.threads import single_threaded_blas

__all__ = ["TensorUCB"]

_KINDS = ("ucb", "thompson", "greedy")
# exp of more would leave the range of numbers; the probability is 1 long before.
_LARGEST_BONUS = 30.0
# A source differs from others of its features less than it differs between products.
_CONSTANT = 0.6


class TensorUCB(BasePolicy):
    """Contextual influence maximisation by a logistic tensor with node effects, fitted by blocks.

    ``logit p_ij(z) = Σ_r (A_r·s_i)(B_r·t_j) Π_l (C^l_r·(z_l, 1)) + zᵀM s_i + d_i·(z, 1) + b_j + g·m_j(z)``: the paper's
    tensor on features with a constant, the response ``M s_i`` to products that a source's features let expect, a vector
    ``d_i`` of its own response beyond that, an offset ``b_j`` of each target and its past taste ``m_j(z)``. Prior
    variances of main effects, of M and of d_i are learned. All parameters are refitted to all rounds from time to time
    (each block by Newton's method, exact given the others); between refits ``d_i`` of the sources seen follow by a
    Kalman step.

    Whom to seed depends on the total response of a source to the product, so that exploration is about sources: the
    deviation of a source's logit, times ``exploration``, is added to the logits of its out-edges.

    Users are an (n, d) array, or a `UserProfile` with the past by topic, whose k must be the size of the product's
    first vector: past influence and taste for the product then count from the first round on. Degrees are added. A
    profile's coordinates in the network are left out.

    The other choices of the paper's family live in `OnlineTensorUCB`, which `TensorUCB.paper` returns: ``projection``
    (sigmoid or clip), the kind of variance explored, likelihood, posterior, second moments and forgetting.

    Parameters
    ----------
    rank
        R. Three ranks hold the base rate and main effects of products, sources and targets; more hold interactions.
    exploration
        c, the number of standard deviations added.
    exploration_kind
        ``"ucb"``. ``"thompson"``: c deviations times a normal draw for each source, anew for each round told and each
        product. ``"greedy"``: no exploration.
    base_logit
        Logit of every edge at the start; −3 is a probability of 4.7 %.
    effect_deviation
        Prior standard deviation τ of d_i for each product feature; for its constant 0.6 times that. Both are learned
        on the way, and bound the deviations that are explored.
    max_rows
        Observed edges kept for refits. Older ones are absorbed into Gaussian priors, so that work and memory stay.
    """

    name = "TensorUCB"
    needs_users = True
    uses_product = True
    shares_parameters = True
    tunable = ("exploration", "rank")

    _state: blocks.BlockState | None = None
    _topics: int | None = None

    def __init__(
        self,
        rank: int = 5,
        exploration: float = 1.0,
        *,
        exploration_kind: str = "ucb",
        base_logit: float = -3.0,
        effect_deviation: float = 0.25,
        max_rows: int = 400_000,
    ) -> None:
        self.rank = check_count("rank", rank, 1, 1000)
        self.exploration = check_number("exploration", exploration)
        self.exploration_kind = check_choice("exploration_kind", exploration_kind, _KINDS)
        self.base_logit = check_number("base_logit", base_logit, low=-30.0, high=30.0)
        self.effect_deviation = check_number("effect_deviation", effect_deviation, strict=True, high=100.0)
        self.max_rows = check_count("max_rows", max_rows, 1)

    @classmethod
    def paper(
        cls, *, rank: int = 10, exploration: float = 0.1, noise_variance: float = 0.1, start: str = "ones"
    ) -> OnlineTensorUCB:
        """The paper to the letter: Gaussian, factorised, mean field, w̄ = ones and Σ = I at the start, sigmoid, UCB.

        Algorithm 1 initialises Σ and w̄ and leaves b open. ``start="ones"`` takes the b that Eq. muOnline ties to them,
        σ²Σ⁻¹w̄: the ones are the prior mean. ``start="paper"`` takes b = 0, the zero-mean prior of Eq. obs_prior; then
        the fixed point of a first outcome of 0 is w̄ = 0, where every later update and the bonus vanish, and all edges
        stay at 0.5 for good.
        """
        return OnlineTensorUCB(
            rank,
            exploration,
            likelihood="gaussian",
            noise_variance=noise_variance,
            prior_variance=1.0,
            start=start,
            constants=False,
            node_intercepts=False,
            user_scaling="none",
        )

    def bind(self, graph: Graph, users: ArrayLike | None, rng: RngLike = None) -> None:
        """Start anew on this graph, with (n, d) user features or a `UserProfile`, and a seed."""
        super().bind(graph, users, rng)
        profile = users if isinstance(users, UserProfile) else UserProfile(self.users)
        degrees = np.log1p(np.column_stack([graph.out_degree, graph.in_degree]).astype(np.float64))
        columns = np.hstack([degrees, profile.features])
        self._nodes = blocks.node_features(columns, profile.taste, profile.credit, profile.exposure)
        self._topics, self._state = profile.k, None

    def mean(self, product: Product) -> Floats:
        """The believed probability of every edge, without exploration."""
        modes = self._modes(product)
        return self._scores(modes, deviations=False).probabilities

    # -- the model --

    def _model(self) -> blocks.BlockSettings:
        deviation = self.effect_deviation
        return blocks.BlockSettings(
            rank=self.rank,
            base_logit=self.base_logit,
            product_deviation=deviation,
            source_deviation=_CONSTANT * deviation,
            max_rows=self.max_rows,
        )

    def _begin(self, key: int, vectors: tuple[Floats, ...]) -> blocks.BlockState:
        generator = np.random.default_rng([key, zlib.crc32(b"start")])
        return blocks.start(self._model(), self._nodes, vectors, generator)

    def _modes(self, product: Product) -> tuple[Floats, ...]:
        modes = super()._modes(product)
        if self._topics is not None and modes[0].size != self._topics:
            raise ShapeError(
                f"the users' profile knows {self._topics} topics, so a product (or its first vector) must have "
                f"{self._topics} features; got {modes[0].size}. Describe past items and products alike."
            )
        return modes

    def _knowledge(self, modes: tuple[Floats, ...]) -> blocks.BlockState:
        """What is known now; before the first round, the start for products like this one."""
        return self._begin(self._key, modes) if self._state is None else self._state

    def _learn(self, modes: tuple[Floats, ...], edges: Ints, outcomes: Floats) -> None:
        state = self._knowledge(modes)
        product = blocks.scaled_product(state.scales, modes)
        sources, targets = self.graph.sources[edges].astype(np.int64), self.graph.targets[edges]
        record = blocks.make_round(product, sources, targets, outcomes)
        with single_threaded_blas():
            self._state = blocks.learn(self._model(), self._nodes, state, record)

    def _scores(self, modes: tuple[Floats, ...], *, deviations: bool) -> blocks.Scores:
        state = self._knowledge(modes)
        product = blocks.scaled_product(state.scales, modes)
        edges = self.graph.out_offsets, self.graph.targets
        with single_threaded_blas():
            return blocks.score(self._nodes, state, product, *edges, deviations=deviations)

    def _score(self, modes: tuple[Floats, ...]) -> Floats:
        explores = self.exploration_kind != "greedy" and self.exploration > 0.0
        scores = self._scores(modes, deviations=explores)
        if scores.deviations is None:
            return scores.probabilities
        bonus = self.exploration * scores.deviations
        if self.exploration_kind == "thompson":
            bonus = bonus * self._generator("thompson", modes).normal(size=bonus.size)
        bonus = np.clip(bonus, -_LARGEST_BONUS, _LARGEST_BONUS)
        return blocks.raised(scores.probabilities, self.graph.out_offsets, bonus)

    # -- state --

    def _saved(self) -> Mapping[str, NDArray[Any]]:
        return {} if self._state is None else blocks.state_to_arrays(self._state)

    def _load(self, key: int, dims: tuple[int, ...] | None, arrays: Mapping[str, NDArray[Any]]) -> None:
        if dims is None or not arrays:
            self._state = None
            return
        fresh = self._begin(key, tuple(np.zeros(size) for size in dims))
        self._state = blocks.state_from_arrays(fresh, arrays)
