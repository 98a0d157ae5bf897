"""`Environment`: the world that experiments play against. It knows the truth; policies never see it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.errors import InputError, ShapeError
from tensorucb.features import UserProfile
from tensorucb.graph import Graph

if TYPE_CHECKING:
    from tensorucb.data import Sandbox
    from tensorucb.diffusion import LiveEdgePool
    from tensorucb.oracle import SeedOracle

__all__ = ["Environment", "Optimum", "WorldSettings"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_PROBABILITY_BYTES = 512 * 2**20
_POOL_BITS = 8 * 512 * 2**20
# Purposes of derived random streams: (seed, purpose, ...) never collide.
_OPTIMUM, _WORLDS, _COINS = 11, 12, 13


@dataclass(frozen=True)
class WorldSettings:
    """What a round looks like.

    Parameters
    ----------
    k
        Seeds a round.
    objective
        ``"direct"``: users activated by the seeds themselves; ``"cascade"``: the whole spread.
    feedback
        ``"one_hop"``: the seeds' out-edges are observed (the paper); ``"cascade"``: those of every active user.
    epsilon, algorithm
        The oracle's; the direct objective is maximised by exact lazy greedy instead.
    worlds
        Frozen live-edge worlds on which the cascade objective is evaluated.
    seed
        Sets the worlds, the optimum's oracle and nothing else.
    """

    k: int = 10
    objective: Literal["direct", "cascade"] = "direct"
    feedback: Literal["one_hop", "cascade"] = "one_hop"
    epsilon: float = 0.1
    algorithm: Literal["opim", "tim", "imm"] = "opim"
    worlds: int = 256
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what no world can be."""
        if self.k < 1 or self.worlds < 1 or self.seed < 0:
            raise InputError(f"k and worlds must be positive, seed not negative; got {self!r}.")
        if self.objective not in ("direct", "cascade"):
            raise InputError(f"objective must be 'direct' or 'cascade'; got {self.objective!r}.")
        if self.feedback not in ("one_hop", "cascade"):
            raise InputError(f"feedback must be 'one_hop' or 'cascade'; got {self.feedback!r}.")


@dataclass(frozen=True)
class Optimum:
    """What the oracle reaches when it knows the truth: S* and f(S*)."""

    rows: Ints
    spread: float


class Environment:
    """A network, its users, its products, and the true probability of every edge for each product.

    Parameters
    ----------
    graph, users, products
        The network, (n, d) user features, a `UserProfile` or None, and (P, d3) product features.
    probabilities
        ``probabilities(product) -> (n_edges,)``, the truth for product number ``product``.
    settings
        Seeds a round, objective, feedback, oracle.
    campaign
        Product numbers from which rounds draw; all by default. Products on which features were fitted
        belong outside.
    name
        For tables and manifests.
    """

    def __init__(
        self,
        graph: Graph,
        users: ArrayLike | None,
        products: ArrayLike,
        probabilities: Callable[[int], Floats],
        *,
        settings: WorldSettings | None = None,
        campaign: ArrayLike | None = None,
        name: str = "environment",
        threads: int | None = None,
    ) -> None:
        self.graph = graph
        self.settings = settings or WorldSettings()
        self.name = name
        self.threads = threads
        self.products: Floats = np.ascontiguousarray(products, dtype=np.float64)
        self.users: UserProfile | Floats | None = None
        if users is not None:
            self.users = users if isinstance(users, UserProfile) else np.ascontiguousarray(users, dtype=np.float64)
        if self.products.ndim != 2:
            raise ShapeError(f"products must be (P, d3), one row a product; got {self.products.shape}.")
        if self.users is not None and self.users.shape[0] != graph.n_nodes:
            raise ShapeError(f"users must have {graph.n_nodes} rows, one a node; got {self.users.shape}.")
        if self.settings.k > graph.n_nodes:
            raise InputError(f"k = {self.settings.k} seeds cannot be chosen from {graph.n_nodes} users.")
        everything = np.arange(self.products.shape[0])
        self.campaign: Ints = np.asarray(everything if campaign is None else campaign, dtype=np.int64)
        if self.campaign.size == 0 or not np.isin(self.campaign, everything).all():
            raise InputError(f"campaign must name products in 0..{everything.size - 1}; got {campaign!r}.")
        self._truth = probabilities
        held = max(2, _PROBABILITY_BYTES // (8 * max(1, graph.n_edges)))
        pools = max(2, _POOL_BITS // (self.settings.worlds * max(1, graph.n_edges)))
        # Instance-level caches, so that they die with the environment.
        self.probabilities: Callable[[int], Floats] = lru_cache(maxsize=int(held))(self._compute_probabilities)
        self.optimum: Callable[[int], Optimum] = lru_cache(maxsize=None)(self._compute_optimum)
        self._pool: Callable[[int], LiveEdgePool] = lru_cache(maxsize=int(pools))(self._compute_pool)

    @classmethod
    def from_sandbox(
        cls, sandbox: Sandbox, *, settings: WorldSettings | None = None, name: str = "sandbox", **options: Any
    ) -> Environment:
        """An environment on a generated network."""
        return cls(
            sandbox.graph,
            sandbox.users,
            sandbox.products,
            sandbox.probabilities,
            settings=settings,
            name=name,
            **options,
        )

    def with_users(self, users: ArrayLike | None) -> Environment:
        """The same world, whose users are described in another way."""
        return Environment(
            self.graph,
            users,
            self.products,
            self.probabilities,
            settings=self.settings,
            campaign=self.campaign,
            name=self.name,
            threads=self.threads,
        )

    def with_campaign(self, products: ArrayLike, name: str | None = None) -> Environment:
        """The same world, whose rounds draw from other products."""
        return Environment(
            self.graph,
            self.users,
            self.products,
            self.probabilities,
            settings=self.settings,
            campaign=products,
            name=name or self.name,
            threads=self.threads,
        )

    def oracle(self, rng: np.random.Generator) -> SeedOracle:
        """The oracle that every policy is given."""
        from tensorucb.oracle import SeedOracle

        world = self.settings
        return SeedOracle(
            self.graph,
            objective=world.objective,
            epsilon=world.epsilon,
            algorithm=world.algorithm,
            threads=self.threads,
            rng=rng,
        )

    def evaluate(self, product: int, rows: ArrayLike) -> float:
        """f(S) under the truth: exact for the direct objective, on the frozen worlds for cascades."""
        seeds = np.asarray(rows, dtype=np.int64)
        if self.settings.objective == "direct":
            from tensorucb.diffusion import direct_spread

            return float(direct_spread(self.graph, self.probabilities(product), seeds))
        return float(self._pool(product).spread(seeds))

    def observe(self, product: int, rows: ArrayLike, *, seed: int, run: int, round_number: int) -> tuple[Ints, Floats]:
        """What the round shows: edge numbers and outcomes.

        The coin of an edge depends on (seed, run, round, edge) alone, so policies that seed the same user in
        the same round see the same responses.
        """
        from tensorucb.diffusion import observe

        rng = np.random.default_rng([seed, _COINS, run, round_number])
        edges, outcomes = observe(
            self.graph,
            self.probabilities(product),
            np.asarray(rows, dtype=np.int64),
            feedback=self.settings.feedback,
            rng=rng,
        )
        return np.asarray(edges, dtype=np.int64), np.asarray(outcomes, dtype=np.float64)

    def describe(self) -> dict[str, Any]:
        """Sizes, settings and a checksum of the network and the features, for manifests and resume keys."""
        digest = hashlib.sha256()
        users = self.users.parts().values() if isinstance(self.users, UserProfile) else (self.users,)
        arrays = (self.graph.sources, self.graph.targets, *users, self.products, self.campaign)
        for array in arrays:
            digest.update(b"-" if array is None else np.ascontiguousarray(array).tobytes())
        digest.update(np.ascontiguousarray(self.probabilities(int(self.campaign[0]))).tobytes())
        return {
            "name": self.name,
            "n_nodes": self.graph.n_nodes,
            "n_edges": self.graph.n_edges,
            "user_features": 0 if self.users is None else int(self.users.shape[1]),
            "products": int(self.products.shape[0]),
            "product_features": int(self.products.shape[1]),
            "campaign_products": int(self.campaign.size),
            "sha256": digest.hexdigest(),
            **asdict(self.settings),
        }

    def _compute_probabilities(self, product: int) -> Floats:
        values = np.ascontiguousarray(self._truth(product), dtype=np.float64)
        if values.shape != (self.graph.n_edges,):
            raise ShapeError(
                f"the truth of product {product} must have {self.graph.n_edges} entries; got {values.shape}."
            )
        values.setflags(write=False)
        return values

    def _compute_optimum(self, product: int) -> Optimum:
        rng = np.random.default_rng([self.settings.seed, _OPTIMUM, product])
        rows = self.oracle(rng)(self.probabilities(product), self.settings.k)
        return Optimum(np.asarray(rows, dtype=np.int64), self.evaluate(product, rows))

    def _compute_pool(self, product: int) -> LiveEdgePool:
        from tensorucb.diffusion import LiveEdgePool

        # One stream for all products: a world's uniform number on an edge is common to them.
        rng = np.random.default_rng([self.settings.seed, _WORLDS])
        return LiveEdgePool(self.graph, self.probabilities(product), self.settings.worlds, rng, threads=self.threads)
