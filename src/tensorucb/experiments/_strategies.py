"""How a policy chooses strategies in a world that has them: for each user, for the round, or not at all."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from tensorucb.arrays import F64, I64
from tensorucb.checks import check_choice, check_count, check_flag
from tensorucb.diffusion import direct_spread
from tensorucb.errors import InputError
from tensorucb.graph import Graph
from tensorucb.policies import Grid, Oracle, Policy, PolicyState, Prediction, Product
from tensorucb.policies._base import arguments_of, check_policy_object
from tensorucb.rng import RngLike, as_generator

Context = tuple[F64, ...]
PairOracle = Callable[[F64, int], tuple[I64, I64]]

_NOT_KEPT = "a StrategyPolicy is for experiments, which do not save what was learned. Save or restore its policy."


class StrategyPolicy:
    """A policy together with the way in which it chooses the strategy for its seeds.

    A policy that chooses strategies scores every edge for the product with each of them, and is told which one each
    response belongs to. Seeds of one round that got different strategies are learned one strategy after the other.

    Parameters
    ----------
    policy
        Any policy. Its context is (product, strategy …), or the product alone if it does not choose.
    way, strategy
        ``"user"``: the best strategy for each seed. ``"round"``: the best one for all seeds of a round. ``"turn"``: all
        strategies in turn; the policy is not told of them. ``"fixed"``: the same, always with number ``strategy``.
    separate
        Whether each strategy has its own copy of the policy, which knows the product alone and learns from the
        responses to its strategy only. A model of main effects can then prefer different strategies for some users.

    Examples
    --------
    >>> import tensorucb as tu
    >>> world = tu.experiments.Environment.from_sandbox(tu.data.make_sandbox(60, 400, 5, n_strategies=3, rng=0))
    >>> policy = StrategyPolicy(tu.policies.GammaCounts(), "round")
    >>> tu.experiments.run_policy(world, policy, rounds=5)["regret"].len()
    5
    """

    def __init__(
        self,
        policy: Policy,
        way: Literal["user", "round", "turn", "fixed"] = "user",
        *,
        strategy: int | None = None,
        separate: bool = False,
    ) -> None:
        self.policy = check_policy_object("policy", policy)
        check_choice("way", way, ("user", "round", "turn", "fixed"))
        self.way = way
        self.separate = check_flag("separate", separate)
        self.strategy = None if strategy is None else check_count("strategy", strategy, 0)
        if (way == "fixed") != (strategy is not None):
            raise InputError('strategy is for way="fixed", and needed there.')
        self.name = policy.name
        self.tunable: Grid = getattr(policy, "tunable", {})
        self._copies: dict[int, Policy] = {}
        self._rounds = 0

    def settings(self) -> dict[str, Any]:
        """How strategies are chosen, and the arguments of the policy."""
        own = {"policy": self.policy.name, "way": self.way, "strategy": self.strategy, "separate": self.separate}
        return {**own, **arguments_of(self.policy)}

    def around(self, policy: Policy) -> StrategyPolicy:
        """Another policy that chooses strategies in the same way."""
        return StrategyPolicy(policy, self.way, strategy=self.strategy, separate=self.separate)

    def bind(self, graph: Graph, users: ArrayLike | None, rng: RngLike = None) -> None:
        """Start again on this graph, with (n, d) user features (or None) and a seed."""
        self._graph = graph
        self._users = users
        self._rounds = 0
        self._copies = {}
        self._seed = int(as_generator(rng).integers(2**62))
        self.policy.bind(graph, users, np.random.default_rng(self._seed))

    def choose_pairs(self, contexts: Sequence[Context], k: int, oracle: Oracle, pairs: PairOracle) -> tuple[I64, I64]:
        """The rows of ``k`` seeds and the number of each one's strategy.

        ``contexts`` holds (product, strategy …) for each strategy; ``oracle`` chooses users, ``pairs`` users with
        strategies.
        """
        if self.way in ("turn", "fixed"):
            rows = self.policy.choose(contexts[0][0], k, oracle)
            turn = self._rounds % len(contexts) if self.strategy is None else self.strategy
            return rows, np.full(rows.size, turn)
        scores = np.stack([self._of(s).score(self._told(context)) for s, context in enumerate(contexts)])
        if self.way == "user":
            return pairs(scores, k)
        choices = [oracle(score, k) for score in scores]
        reached = [direct_spread(self._graph, score, rows) for score, rows in zip(scores, choices, strict=True)]
        best = int(np.argmax(reached))
        return choices[best], np.full(choices[best].size, best)

    def update_pairs(self, contexts: Sequence[Context], strategies: I64, edges: I64, outcomes: F64) -> None:
        """Learn one round; ``strategies`` holds the number of the strategy of each edge's source."""
        self._rounds += 1
        if self.way in ("turn", "fixed"):
            self.policy.update(contexts[0][0], edges, outcomes)
            return
        for s in np.unique(strategies).tolist():
            here = strategies == s
            self._of(s).update(self._told(contexts[s]), edges[here], outcomes[here])

    def _told(self, context: Context) -> Product:
        return context[0] if self.separate else context

    def _of(self, strategy: int) -> Policy:
        """The policy that scores and learns this strategy."""
        if not self.separate:
            return self.policy
        if strategy not in self._copies:
            fresh = copy.copy(self.policy)
            fresh.bind(self._graph, self._users, np.random.default_rng([self._seed, strategy]))
            self._copies[strategy] = fresh
        return self._copies[strategy]

    # -- without a strategy: the policy itself --

    def prediction(self, product: Product) -> Prediction:
        """The policy's own."""
        return self.policy.prediction(product)

    def score(self, product: Product) -> F64:
        """The policy's own scores."""
        return self.policy.score(product)

    def choose(self, product: Product, k: int, oracle: Oracle) -> I64:
        """The policy's own choice."""
        return self.policy.choose(product, k, oracle)

    def update(self, product: Product, edges: ArrayLike, outcomes: ArrayLike) -> None:
        """Told to the policy."""
        self.policy.update(product, edges, outcomes)

    def state(self) -> PolicyState:
        """Refused: experiments start each run again."""
        raise InputError(_NOT_KEPT)

    def restore(self, state: PolicyState) -> None:
        """Refused: experiments start each run again."""
        raise InputError(_NOT_KEPT)


def of_edges(graph: Graph, rows: I64, strategies: I64, edges: I64) -> I64:
    """The strategy of each edge's source, for seeds ``rows`` with ``strategies``."""
    strategy_of_user = np.full(graph.n_nodes, -1, dtype=np.int64)
    strategy_of_user[rows] = strategies
    return np.asarray(strategy_of_user[graph.sources[edges]])
