"""`TensorUCB`: our default policy, a hierarchical logistic model with optimism about sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.arrays import F64, I64, Arrays, Vectors
from tensorucb.checks import check_choice, check_count, check_number
from tensorucb.features import UserProfile, degree_features
from tensorucb.graph import Graph
from tensorucb.learner import response
from tensorucb.policies._base import EXPLORATION_KINDS, BasePolicy, Product
from tensorucb.policies.beliefs import Beliefs
from tensorucb.policies.paper_tensor_ucb import PaperTensorUCB
from tensorucb.rng import RngLike
from tensorucb.threads import single_threaded_blas

# exp of more would leave the range of numbers; the probability is 1 long before.
_LARGEST_BONUS = 30.0


class TensorUCB(BasePolicy):
    """Our default policy: a hierarchical logistic model of who responds to which user, in which context.

    ``logit p_ij(x) = β·c(x) + α·s_i(x) + xᵀM s_i + d_i·(1, x) + γ·t_j + b_j + g·m_j(x)``: how the context x (product,
    strategy, …) changes the base rate; what a source's features predict, also in this context; each source's own effect
    and own response beyond that; the target's features, its own readiness and its past taste. ``docs/model.md``
    explains the whole model, and how it is learned, on one page.

    Seeds are chosen by the total response of a source to the context, so exploration is about sources: the deviation of
    a source's logit, times ``exploration``, is added to the logits of its out-edges.

    Users are an (n, d) array, or a `UserProfile` with the past by topic, whose k must be the size of the context's
    first vector: past influence and taste for the product then count from the first round on. Degrees are added. A
    profile's coordinates in the network are left out.

    `TensorUCB.paper` returns the paper's own model, `PaperTensorUCB`.

    Parameters
    ----------
    rank
        Largest number of weights of an interaction between two modes of the context; a larger interaction is learned
        in a basis of the first ``rank`` contexts told.
    exploration
        c, the number of standard deviations added.
    exploration_kind
        ``"ucb"``. ``"thompson"``: c deviations times a normal draw for each source, drawn again for each round told and
        each product. ``"greedy"``: no exploration.
    base_logit
        Logit of every edge at the start; −3 is a probability of 4.7 %.
    max_rows
        Observed edges kept for refits. Older ones are absorbed into Gaussian priors, so that time and memory per round
        stay bounded.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorucb as tu
    >>> from tensorucb.data import make_sandbox
    >>> box = make_sandbox(100, 800, 5, rng=0)
    >>> policy = tu.TensorUCB()
    >>> policy.bind(box.graph, box.users, rng=0)
    >>> edges = box.graph.out_edges(np.array([3, 7]))
    >>> policy.update(box.products[0], edges, np.zeros(edges.size))
    >>> policy.score(box.products[0]).shape
    (800,)
    """

    name = "TensorUCB"
    needs_users = True
    uses_product = True
    shares_parameters = True

    _state: response.ResponseState | None = None

    def __init__(
        self,
        rank: int = 100,
        exploration: float = 0.5,
        *,
        exploration_kind: str = "ucb",
        base_logit: float = -3.0,
        max_rows: int = 400_000,
    ) -> None:
        self.rank = check_count("rank", rank, 1, 1000)
        self.exploration = check_number("exploration", exploration)
        self.exploration_kind = check_choice("exploration_kind", exploration_kind, EXPLORATION_KINDS)
        self.base_logit = check_number("base_logit", base_logit, low=-30.0, high=30.0)
        self.max_rows = check_count("max_rows", max_rows, 1)

    @classmethod
    def paper(
        cls, *, rank: int = 10, exploration: float = 0.1, noise_variance: float = 0.1, start: str = "ones"
    ) -> PaperTensorUCB:
        """The paper's Algorithm 1; `PaperTensorUCB` lists where it departs from the text."""
        return PaperTensorUCB(rank, exploration, noise_variance=noise_variance, start=start)

    def bind(self, graph: Graph, users: ArrayLike | None, rng: RngLike = None) -> None:
        """Start again on this graph, with (n, d) user features or a `UserProfile`, and a seed."""
        super().bind(graph, users, rng)
        profile = users if isinstance(users, UserProfile) else UserProfile(self.users)
        columns = np.hstack([degree_features(graph), profile.features])
        self._nodes = response.node_features(columns, profile.taste, profile.credit, profile.exposure)
        self._profile, self._state = (None if profile.k is None else profile), None

    def mean(self, product: Product) -> F64:
        """The believed probability of every edge, without exploration."""
        return self._probabilities(self._modes(product), mean=True, optimistic=False)[0]

    def beliefs(self, product: Product) -> Beliefs:
        """The believed probability of every edge without and with exploration, from one pass over the edges."""
        found = self._probabilities(self._modes(product), mean=True, optimistic=True)
        return Beliefs(found[0], found[-1])

    # -- the model --

    def _model(self) -> response.ResponseSettings:
        return response.ResponseSettings(rank=self.rank, base_logit=self.base_logit, max_rows=self.max_rows)

    def _knowledge(self, modes: Vectors) -> response.ResponseState:
        """What is known now; before the first round, the start for contexts like this one."""
        return response.start(self._model(), self._nodes, modes) if self._state is None else self._state

    def _learn(self, modes: Vectors, edges: I64, outcomes: F64) -> None:
        state = self._knowledge(modes)
        sources, targets = self.graph.sources[edges].astype(np.int64), self.graph.targets[edges]
        record = response.make_told(state.context.scaled(modes), sources, targets, outcomes)
        with single_threaded_blas():
            self._state = response.learn(self._model(), self._nodes, state, record)

    def _score(self, modes: Vectors) -> F64:
        return self._probabilities(modes, mean=False, optimistic=True)[0]

    def _probabilities(self, modes: Vectors, *, mean: bool, optimistic: bool) -> list[F64]:
        """The probabilities without and with the bonus of each source, of these what is wanted; one without a bonus."""
        state, graph = self._knowledge(modes), self.graph
        explore = optimistic and self.exploration_kind != "greedy" and self.exploration > 0.0
        with single_threaded_blas():
            own = state.context.scaled(modes)
            sources, targets, deviations = response.score(self._nodes, state, own, deviations=explore)
        wanted = [sources] if mean or not explore else []
        if deviations is not None:
            bonus = self.exploration * deviations
            if self.exploration_kind == "thompson":
                bonus = bonus * self._generator("thompson", modes).normal(size=bonus.size)
            wanted.append(sources + np.clip(bonus, -_LARGEST_BONUS, _LARGEST_BONUS))
        return response.edge_probabilities(graph.out_offsets, graph.targets, wanted, targets)

    # -- state --

    def _saved(self) -> Arrays:
        return {} if self._state is None else response.state_to_arrays(self._state)

    def _load(self, dims: tuple[int, ...] | None, arrays: Mapping[str, NDArray[Any]]) -> None:
        if dims is None or not arrays:
            self._state = None
            return
        fresh = response.start(self._model(), self._nodes, tuple(np.zeros(size) for size in dims))
        self._state = response.state_from_arrays(fresh, arrays)
