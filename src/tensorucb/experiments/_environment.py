"""`Environment`: the world that experiments play against, and one with newcomers; policies never see its truth."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.arrays import F64, I64
from tensorucb.checks import (
    check_array,
    check_callable,
    check_choice,
    check_count,
    check_instance,
    check_rows,
    check_share,
    check_text,
)
from tensorucb.choices import Algorithm, Objective
from tensorucb.diffusion import LiveEdgePool, direct_spread, observe
from tensorucb.errors import InputError, ShapeError
from tensorucb.experiments._results import Measure
from tensorucb.features import UserProfile
from tensorucb.graph import Graph
from tensorucb.graph._arguments import check_graph, check_probabilities, check_seeds

if TYPE_CHECKING:
    from tensorucb.data import Sandbox
    from tensorucb.oracle import SeedOracle

_PROBABILITY_BYTES = 512 * 2**20
_POOL_BITS = 8 * 512 * 2**20
# Purposes of derived random streams: (seed, purpose, ...) never collide.
_PRODUCTS = 1
_OPTIMUM = 11
_WORLDS = 12
_COINS = 13
_NEW = 51
_BEFORE = 52
_AFTER = 53
# For S* of the cascade objective: choices that must agree on a seed, and TIM+'s precision for the other seeds.
_CHOICES, _EPSILON = 3, 0.15
# Products whose truth is part of the checksum.
_HASHED = 8


@dataclass(frozen=True)
class WorldSettings:
    """What a round looks like.

    Parameters
    ----------
    objective
        ``"direct"``: users activated by the seeds themselves; ``"cascade"``: the whole spread.
    feedback
        ``"one_hop"``: the seeds' out-edges are observed (the paper); ``"cascade"``: those of every active user.
    epsilon, algorithm
        The oracle's; the direct objective is maximised by exact lazy greedy instead.
    worlds, seed
        Frozen live-edge worlds on which cascades are evaluated; the seed sets these and the optimum's oracle.

    Examples
    --------
    >>> WorldSettings(k=5, objective="cascade").feedback
    'one_hop'
    """

    k: int = 10
    objective: Objective = "direct"
    feedback: Literal["one_hop", "cascade"] = "one_hop"
    epsilon: float = 0.1
    algorithm: Algorithm = "opim"
    worlds: int = 256
    seed: int = 0

    def __post_init__(self) -> None:
        check_count("k", self.k)
        check_choice("objective", self.objective, get_args(Objective))
        check_choice("feedback", self.feedback, ("one_hop", "cascade"))
        check_share("epsilon", self.epsilon, zero=False, one=False)
        check_choice("algorithm", self.algorithm, get_args(Algorithm))
        check_count("worlds", self.worlds, 1, 10_000_000)
        check_count("seed", self.seed, 0, 2**63 - 1)


@dataclass(frozen=True)
class Optimum:
    """The seeds that a careful oracle finds when it knows the truth, and what they reach: S* and f(S*).

    In a world with strategies, ``strategies`` holds the number of the best one for each of them.
    """

    rows: I64
    spread: float
    strategies: I64 | None = None


class Environment:
    """A network, its users, its products, and the true probability of every edge for each product.

    A world may have strategies: ways to contact a user, such as channels and offers. A round then says for each seed
    which one is used, and the seed's out-edges have the probabilities of the product with that strategy.

    Parameters
    ----------
    graph, users, products
        The network, (n, d) user features, a `UserProfile` or None, and (P, d3) product features.
    probabilities
        ``probabilities(product) -> (n_edges,)``, the truth for product number ``product``; in a world with strategies
        ``probabilities(product, strategy)``, if every user is contacted with this one.
    strategies
        (S, d4) features of the strategies; or several such arrays, one per further mode of the context (a channel and
        an offer, say). Worlds with strategies have the direct objective and one-hop feedback.
    settings, name
        What a round looks like; and the name in tables and manifests.
    product_rows
        Numbers of the products from which rounds draw; leave out those on which features were fitted. By default all.

    Examples
    --------
    >>> import tensorucb as tu
    >>> world = Environment.from_sandbox(tu.data.make_sandbox(60, 400, 8, rng=0), settings=WorldSettings(k=3))
    >>> best = world.optimum(0)
    >>> world.evaluate(0, best.rows) == best.spread >= world.evaluate(0, [0, 1, 2])
    True
    """

    # What tables compare policies by.
    measure: ClassVar[Measure] = "regret"
    # Rows of the users who may be seeded; None: everybody.
    candidates: I64 | None = None

    def __init__(
        self,
        graph: Graph,
        users: ArrayLike | None,
        products: ArrayLike,
        probabilities: Callable[..., F64],
        *,
        strategies: ArrayLike | Sequence[ArrayLike] | None = None,
        settings: WorldSettings | None = None,
        product_rows: ArrayLike | None = None,
        name: str = "environment",
    ) -> None:
        self.graph = check_graph(graph)
        rules = WorldSettings() if settings is None else settings
        self.settings = check_instance("settings", rules, WorldSettings, "WorldSettings")
        self.name = check_text("name", name)
        self.products: F64 = check_array("products", products, ("P", "d3"), hint="One row per product.")
        self.users: UserProfile | F64 | None = _check_users(graph, users)
        self.strategies: tuple[F64, ...] = _check_strategies(strategies, self.settings)
        if self.settings.k > graph.n_nodes:
            raise InputError(f"= {self.settings.k} seeds cannot be chosen from {graph.n_nodes} users.", argument="k")
        every = np.arange(self.products.shape[0]) if product_rows is None else product_rows
        self.product_rows: I64 = self._check_products(every)
        self._truth = check_callable("probabilities", probabilities, "a function of a product's number")
        self._make_caches()

    def _make_caches(self) -> None:
        # Instance-level caches, so that they die with the environment.
        edges = max(1, self.graph.n_edges)
        held, pools = _PROBABILITY_BYTES // (8 * edges), _POOL_BITS // (self.settings.worlds * edges)
        self.probabilities: Callable[..., F64] = lru_cache(maxsize=max(2, held))(self._compute_probabilities)
        self.optimum: Callable[[int], Optimum] = lru_cache(maxsize=None)(self._compute_optimum)
        self.frozen_worlds: Callable[[int], LiveEdgePool] = lru_cache(maxsize=max(2, pools))(self._compute_pool)

    def __getstate__(self) -> dict[str, Any]:
        # To another machine goes the truth, not what was computed of it.
        caches = ("probabilities", "optimum", "frozen_worlds")
        return {name: value for name, value in vars(self).items() if name not in caches}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._make_caches()

    def __copy__(self) -> Environment:
        # The truth and S* do not depend on what a copy changes, so what was computed of them is shared.
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        return other

    @classmethod
    def from_sandbox(cls, sandbox: Sandbox, *, name: str = "sandbox", **options: Any) -> Environment:
        """An environment on a generated network, with its strategies if it has any; ``options`` as in the class."""
        parts = (sandbox.graph, sandbox.users, sandbox.products, sandbox.probabilities)
        return cls(*parts, strategies=sandbox.strategies if len(sandbox.strategies) else None, name=name, **options)

    def with_users(self, users: ArrayLike | None) -> Environment:
        """The same world, whose users are described in another way."""
        other = copy.copy(self)
        other.users = _check_users(self.graph, users)
        return other

    def with_product_rows(self, products: ArrayLike, name: str | None = None) -> Environment:
        """The same world, whose rounds draw from other products."""
        other = copy.copy(self)
        other.product_rows, other.name = self._check_products(products), name or self.name
        return other

    @property
    def n_strategies(self) -> int:
        """Number of strategies; 0 if the world has none."""
        return len(self.strategies[0]) if self.strategies else 0

    def contexts(self, product: int) -> list[tuple[F64, ...]]:
        """What a policy is told of this product with each strategy: the product's vector and those of the strategy."""
        vector = self.products[self._number(product)]
        return [(vector, *(mode[s] for mode in self.strategies)) for s in range(self.n_strategies)]

    def oracle(self, rng: np.random.Generator) -> SeedOracle:
        """The oracle that every policy is given."""
        from tensorucb.oracle import Sampling, SeedOracle

        settings = self.settings
        sampling = Sampling(algorithm=settings.algorithm, epsilon=settings.epsilon)
        return SeedOracle(
            self.graph, objective=settings.objective, candidates=self.candidates, sampling=sampling, rng=rng
        )

    def pair_oracle(self, probabilities: F64, k: int) -> tuple[I64, I64]:
        """Users and the strategy of each, for ``(S, n_edges)`` probabilities; every policy is given the same one."""
        from tensorucb.oracle import select_pairs

        selection = select_pairs(self.graph, probabilities, k, objective="direct")
        return selection.rows, selection.strategies

    def draw_products(self, rounds: int, *, seed: int, run: int) -> I64:
        """The products of the rounds of a run; more rounds begin with those of fewer."""
        rng = np.random.default_rng([seed, _PRODUCTS, run])
        return self.product_rows[rng.integers(0, self.product_rows.size, size=rounds)]

    def in_round(self, round_number: int, *, seed: int, run: int) -> Environment:
        """The world as it is in this round: itself, unless it is one that changes in the course of a run."""
        return self

    def evaluate(self, product: int, rows: ArrayLike, strategies: ArrayLike | None = None) -> float:
        """What the seeds reach, f(S), under the truth: exact for the direct objective, on frozen worlds for cascades.

        ``strategies`` are the numbers of the strategies with which the seeds are contacted, one per seed.
        """
        seeds, product = check_seeds(self.graph, "rows", rows), self._number(product)
        truth = self._played(product, seeds, strategies)
        if self.settings.objective == "direct":
            return float(direct_spread(self.graph, truth, seeds))
        return float(self.frozen_worlds(product).spread(seeds))

    def observe(
        self,
        product: int,
        rows: ArrayLike,
        strategies: ArrayLike | None = None,
        *,
        seed: int,
        run: int,
        round_number: int,
    ) -> tuple[I64, F64]:
        """What the round shows: edge numbers and outcomes.

        The coin of an edge depends on (seed, run, round, edge) alone: policies that seed the same user in the same
        round (with the same strategy) see the same responses, and a strategy that works better only adds responses.
        """
        numbers = {"seed": seed, "run": run, "round_number": round_number}
        first, *others = (check_count(name, value, 0, 2**63 - 1) for name, value in numbers.items())
        rng = np.random.default_rng([first, _COINS, *others])
        seeds = check_seeds(self.graph, "rows", rows)
        truth = self._played(self._number(product), seeds, strategies)
        return observe(self.graph, truth, seeds, self.settings.feedback, rng)

    def describe(self) -> dict[str, Any]:
        """Sizes, settings and a checksum, for manifests and resume keys.

        The checksum is of the network, the features, and the truth of eight of the products that rounds draw
        from (with one strategy each, in turn).
        """
        digest = hashlib.sha256()
        users = self.users.parts().values() if isinstance(self.users, UserProfile) else (self.users,)
        arrays = (self.graph.sources, self.graph.targets, *users, self.products, *self.strategies, self.product_rows)
        for array in arrays:
            digest.update(b"-" if array is None else np.ascontiguousarray(array).tobytes())
        for number, product in enumerate(self.product_rows[:: -(-self.product_rows.size // _HASHED)].tolist()):
            strategy = (number % self.n_strategies,) if self.strategies else ()
            digest.update(self.probabilities(product, *strategy).tobytes())
        products, features = self.products.shape
        return {
            "name": self.name,
            "n_nodes": self.graph.n_nodes,
            "n_edges": self.graph.n_edges,
            "user_features": 0 if self.users is None else int(self.users.shape[1]),
            "products": products,
            "product_features": features,
            "campaign_products": int(self.product_rows.size),
            "strategies": self.n_strategies,
            "sha256": digest.hexdigest(),
            **asdict(self.settings),
        }

    def _number(self, product: Any) -> int:
        return check_count("product", product, 0, self.products.shape[0] - 1)

    def _check_products(self, products: ArrayLike) -> I64:
        rows = check_rows("product_rows", products, self.products.shape[0], hint="It names products.")
        if rows.size == 0:
            raise InputError("must name at least one product; got none.", argument="product_rows")
        return rows

    def _played(self, product: int, seeds: I64, strategies: ArrayLike | None) -> F64:
        """The truth of a round: the out-edges of each seed have the probabilities of its strategy."""
        if not self.strategies:
            if strategies is not None:
                raise InputError("this world has no strategies. Leave strategies= out.")
            return self.probabilities(product)
        if strategies is None:
            raise InputError("this world has strategies. Say in strategies= which one each of the seeds gets.")
        chosen = check_rows("strategies", strategies, self.n_strategies, hint="One number per seed.")
        if chosen.size != seeds.size:
            raise ShapeError(
                f"must hold one number per seed; got {chosen.size} for {seeds.size} seeds.", argument="strategies"
            )
        p = np.zeros(self.graph.n_edges)
        for strategy in np.unique(chosen).tolist():
            edges = self.graph.out_edges(seeds[chosen == strategy])
            p[edges] = self.probabilities(product, strategy)[edges]
        return p

    def _compute_probabilities(self, product: int, *strategy: int) -> F64:
        values = check_probabilities(self.graph, self._truth(product, *strategy)).copy()
        values.setflags(write=False)
        return values

    def _compute_optimum(self, product: int) -> Optimum:
        """S*, chosen on samples of its own: on the frozen worlds it would look better than it is.

        For cascades several choices are made by OPIM-C, whatever the policies' oracle is. Seeds that all of them agree
        on are kept, and the others are chosen again by TIM+, on far more samples; its walks stop at the seeds kept,
        which makes that cheap. A policy that knows the truth would otherwise beat S* whenever its samples are luckier.
        """
        from tensorucb.oracle import Sampling, SeedOracle

        k = self.settings.k
        if self.strategies:
            truth = np.stack([self.probabilities(product, s) for s in range(self.n_strategies)])
            rows, chosen = self.pair_oracle(truth, k)
            return Optimum(rows, self.evaluate(product, rows, chosen), chosen)
        p = self.probabilities(product)
        oracle = SeedOracle(
            self.graph,
            objective=self.settings.objective,
            sampling=Sampling(epsilon=self.settings.epsilon),
            candidates=self.candidates,
            rng=np.random.default_rng([self.settings.seed, _OPTIMUM, product]),
        )
        rows = oracle(p, k)
        if self.settings.objective == "cascade":
            agreed = reduce(np.intersect1d, [rows, *(oracle(p, k) for _ in range(_CHOICES - 1))])
            rng = np.random.default_rng([self.settings.seed, _OPTIMUM, product, 1])
            careful = SeedOracle(self.graph, sampling=Sampling(algorithm="tim", epsilon=_EPSILON), rng=rng)
            rows = careful(p, k, must_include=agreed) if agreed.size < k else agreed
        return Optimum(rows, self.evaluate(product, rows))

    def _compute_pool(self, product: int) -> LiveEdgePool:
        # One stream for all products: a world's uniform number on an edge is common to them.
        rng = np.random.default_rng([self.settings.seed, _WORLDS])
        return LiveEdgePool(self.graph, self.probabilities(product), self.settings.worlds, rng)


class WorldWithNewcomers(Environment):
    """A world in which a ``share`` of users and products arrive after ``arrival`` rounds, known by features alone.

    Before, new users cannot be seeded and new products are not promoted; after, every round promotes a new product.
    Who is new follows from the seed and the run.

    Examples
    --------
    >>> import tensorucb as tu
    >>> world = tu.experiments.Environment.from_sandbox(tu.data.make_sandbox(60, 400, 5, rng=0))
    >>> late = WorldWithNewcomers(world, share=0.5, arrival=3)
    >>> tu.experiments.run_policy(late, tu.policies.HighDegree(), rounds=5)["spread"].len()
    5
    """

    def __init__(self, environment: Environment, *, share: float = 0.5, arrival: int = 50) -> None:
        check_instance("environment", environment, Environment, "an Environment")
        vars(self).update(vars(environment))
        self.share = check_share("share", share, zero=False, one=False)
        self.arrival = check_count("arrival", arrival, 1)
        self.name = f"{environment.name}, {share:.0%} arrive after {arrival} rounds"
        self._make_caches()

    def draw_products(self, rounds: int, *, seed: int, run: int) -> I64:
        """Old products before the arrival, new ones after it."""
        _, new, old = self._newcomers(seed, run)
        before, after = (np.random.default_rng([seed, purpose, run]) for purpose in (_BEFORE, _AFTER))
        late = max(0, rounds - self.arrival)
        return np.concatenate([before.choice(old, rounds - late), after.choice(new, late)])

    def in_round(self, round_number: int, *, seed: int, run: int) -> Environment:
        """The world without new users, or with them."""
        if round_number == 0:
            self._veterans = copy.copy(self)
            self._veterans.candidates = np.flatnonzero(~self._newcomers(seed, run)[0])
            self._veterans.optimum = lru_cache(maxsize=None)(self._veterans._compute_optimum)
        return self._veterans if round_number < self.arrival else self

    def _newcomers(self, seed: int, run: int) -> tuple[NDArray[np.bool_], I64, I64]:
        """Which users are new, the new products, and the others."""
        rng = np.random.default_rng([seed, _NEW, run])
        is_new = rng.random(self.graph.n_nodes) < self.share
        order = rng.permutation(self.product_rows)
        cut = max(1, min(order.size - 1, round(self.share * order.size)))
        return is_new, order[:cut], order[cut:]


def _check_users(graph: Graph, users: ArrayLike | None) -> UserProfile | F64 | None:
    """One row per node: an array or a profile, or None."""
    if users is not None and not isinstance(users, UserProfile):
        return check_array("users", users, (graph.n_nodes, "d"), hint="One row per node.")
    if users is not None and users.shape[0] != graph.n_nodes:
        raise ShapeError(f"must have {graph.n_nodes} rows, one per node; got {users.shape}.", argument="users")
    return users


def _check_strategies(strategies: Any, settings: WorldSettings) -> tuple[F64, ...]:
    """One array per further mode of the context, each with one row per strategy."""
    if strategies is None:
        return ()
    several = isinstance(strategies, list | tuple) and all(isinstance(part, np.ndarray) for part in strategies)
    modes: list[F64] = []
    for part in strategies if several and strategies else [strategies]:
        rows: int | str = len(modes[0]) if modes else "S"
        modes.append(check_array("strategies", part, (rows, "d4"), hint="One row per strategy."))
    if (settings.objective, settings.feedback) != ("direct", "one_hop"):
        raise InputError(
            "a world with strategies has the direct objective and one-hop feedback; "
            f"got {settings.objective} and {settings.feedback}."
        )
    return tuple(modes)
