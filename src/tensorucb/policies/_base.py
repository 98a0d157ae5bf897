"""The policy protocol, and `BasePolicy`: what all policies of this package share.

A policy is a pure function of its settings, its seed and what it was told by `update`. Random draws come from
``(key, rounds told, purpose)``, so asking twice gives the same answer, and a policy that was saved and
restored goes on bit for bit.
"""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.arrays import F64, I64
from tensorucb.checks import array_of, check_callable, check_count, check_instance, check_mapping, check_rows, shown
from tensorucb.errors import InputError, ShapeError, StateError
from tensorucb.graph import Graph
from tensorucb.graph._arguments import check_graph
from tensorucb.policies._inputs import as_modes, as_observations, as_users
from tensorucb.rng import RngLike, as_generator, stream_key

Product = ArrayLike | Sequence[ArrayLike]
"""A product's features; or one vector each for the product and whatever else describes a round: strategy, season …

Policies that are not made for more than one vector ignore those after the product, or put all of them together.
"""
Grid = Mapping[str, Sequence[Any]]
"""Argument -> candidates."""

EXPLORATIONS = (1e-3, 1e-2, 1e-1, 1.0)
"""The paper's candidates for c."""


@dataclass(frozen=True)
class PolicyState:
    """Everything a policy has learned: JSON ``settings`` and plain ``arrays``, for `tensorucb.files`."""

    settings: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]


class Oracle(Protocol):
    """Picks ``k`` rows for the given edge probabilities.

    An oracle that may not use every node says so in an attribute ``candidates`` (rows), which policies that
    pick seeds on their own respect.
    """

    def __call__(
        self,
        probabilities: F64,
        k: int,
        *,
        candidates: I64 | None = None,
        must_include: I64 | None = None,
    ) -> I64:
        """The chosen rows, in the order of choice."""
        ...


@runtime_checkable
class Policy(Protocol):
    """What experiments, campaigns and third parties rely on."""

    name: str

    def bind(self, graph: Graph, users: ArrayLike | None, rng: RngLike = None) -> None:
        """Start again on this graph, with (n, d) user features (or None) and a seed."""

    def score(self, product: Product) -> F64:
        """The believed probability of every edge for this product, exploration included, in [0, 1]."""

    def choose(self, product: Product, k: int, oracle: Oracle) -> I64:
        """The rows of ``k`` seeds."""

    def update(self, product: Product, edges: ArrayLike, outcomes: ArrayLike) -> None:
        """Learn one round: edge numbers in the order observed, and outcomes in [0, 1]."""

    def state(self) -> PolicyState:
        """A copy of everything learned; NaN or infinity in an array tells a campaign that a round was not learned."""

    def restore(self, state: PolicyState) -> None:
        """Go on from ``state``; the policy must be bound to the same graph and have the same settings."""


def check_policy_object(name: str, policy: Any) -> Policy:
    """A policy: an object that follows the protocol, not its class."""
    if isinstance(policy, type) or not isinstance(policy, Policy):
        raise InputError(
            f"{name} must be a policy object such as tensorucb.TensorUCB(); got {shown(policy)}. "
            "See docs/add-a-policy.md for one of your own."
        )
    return policy


class BasePolicy:
    """Binding, validation, state and restore; a subclass adds ``_initial``, ``_score`` and ``_learn``.

    A subclass stores each constructor argument under its own name (as JSON values) and keeps what it learns
    in ``self._arrays``, which ``_initial`` creates and ``_learn`` changes in place.

    Attributes
    ----------
    name
        How tables and files call the policy.
    needs_users
        Whether `bind` demands user features.
    uses_product
        Whether `score` may depend on the product.
    pure
        Whether `score` and `choose` leave the state as it is.
    shares_parameters
        Whether what is learned of some edges moves the scores of others; True lets `check_policy` demand it.
    tunable
        Constructor arguments that experiments may tune, and the candidates of each, in increasing order if they are
        numbers; the first argument plays the role of the paper's c. If the best of three numbers or more is the first
        or the last, `tensorucb.experiments.tune` goes on in that direction.
    """

    name: str = "policy"
    needs_users: ClassVar[bool] = False
    uses_product: bool = False
    pure: ClassVar[bool] = True
    shares_parameters: bool = False
    tunable: ClassVar[Grid] = {"exploration": EXPLORATIONS}

    _graph: Graph | None = None
    _users: F64 | None = None
    _key: int = 0
    _rounds: int = 0
    _dims: tuple[int, ...] | None = None
    _arrays: dict[str, NDArray[Any]]

    # -- what a subclass writes --

    def _initial(self, dims: tuple[int, ...] | None) -> dict[str, NDArray[Any]]:
        """The arrays at the start; ``dims``: the product's dimensions, None before the first update."""
        return {}

    def _score(self, modes: tuple[F64, ...]) -> F64:
        raise NotImplementedError

    def _choose(self, modes: tuple[F64, ...], k: int, oracle: Oracle) -> I64:
        return oracle(self._score(modes), k)

    def _learn(self, modes: tuple[F64, ...], edges: I64, outcomes: F64) -> None:
        raise NotImplementedError

    def _saved(self) -> Mapping[str, NDArray[Any]]:
        """What was learned, as arrays."""
        return self._arrays

    def _load(self, key: int, dims: tuple[int, ...] | None, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `_saved` gave, checked, or raise and change nothing."""
        self._arrays = self._matching(self._initial(dims), arrays)

    # -- the protocol --

    def bind(self, graph: Graph, users: ArrayLike | None, rng: RngLike = None) -> None:
        """Start again on this graph, with (n, d) user features (or None) and a seed."""
        check_graph(graph)
        self._users = as_users(graph, users, needed=self.needs_users, name=self.name)
        self._graph = graph
        self._key = int(stream_key(as_generator(rng)))
        self._rounds = 0
        self._dims = None
        self._arrays = self._initial(None)

    def score(self, product: Product) -> F64:
        """The believed probability of every edge for this product, exploration included, in [0, 1]."""
        return self._score(self._modes(product))

    def choose(self, product: Product, k: int, oracle: Oracle) -> I64:
        """The rows of ``k`` seeds; by default the oracle's for `score`."""
        modes = self._modes(product)
        count = check_count("k", k, 1, self.graph.n_nodes)
        check_callable("oracle", oracle, "an oracle, such as tensorucb.SeedOracle(graph)")
        return np.asarray(self._choose(modes, count, oracle), dtype=np.int64)

    def update(self, product: Product, edges: ArrayLike, outcomes: ArrayLike) -> None:
        """Learn one round: edge numbers in the order observed, and outcomes in [0, 1]."""
        modes = self._modes(product)
        rows, values = as_observations(self.graph.n_edges, edges, outcomes)
        if self._dims is None:
            self._dims = tuple(mode.size for mode in modes)
            self._arrays = self._initial(self._dims)
        if rows.size:
            self._learn(modes, rows, values)
        self._rounds += 1

    def state(self) -> PolicyState:
        """A copy of everything learned."""
        graph = self.graph
        settings = {
            "policy": self.name,
            "arguments": self.settings(),
            "key": f"{self._key:016x}",
            "rounds": self._rounds,
            "product_dims": None if self._dims is None else list(self._dims),
            "n_nodes": graph.n_nodes,
            "n_edges": graph.n_edges,
        }
        return PolicyState(settings, {name: array.copy() for name, array in self._saved().items()})

    def restore(self, state: PolicyState) -> None:
        """Go on from ``state``; the policy must be bound to the same graph and have the same settings."""
        graph = self.graph
        check_instance("state", state, PolicyState, "a PolicyState", "Take policy.state().")
        saved = check_mapping("state.settings", state.settings, "a mapping, as policy.state() gives it")
        check_mapping("state.arrays", state.arrays, "a mapping, as policy.state() gives it")
        expected = {
            "policy": self.name,
            "arguments": self.settings(),
            "n_nodes": graph.n_nodes,
            "n_edges": graph.n_edges,
        }
        for field, value in expected.items():
            if saved.get(field) != value:
                raise InputError(
                    f"the state is not this policy's: its {field} is {shown(saved.get(field))}, here {shown(value)}. "
                    "Build and bind the policy as it was when the state was saved."
                )
        try:
            key, rounds = int(saved["key"], 16), int(saved["rounds"])
            dims = None if saved["product_dims"] is None else tuple(int(d) for d in saved["product_dims"])
            sound = 0 <= key < 2**64 and rounds >= 0 and (dims is None or all(0 < d < 2**20 for d in dims))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InputError(f"the state of {self.name} is incomplete or malformed ({shown(error)}).") from error
        if not sound:
            raise InputError(f"the state of {self.name} has impossible values: {shown(saved)}.")
        for name, array in state.arrays.items():
            if np.asarray(array).dtype.kind == "f" and not np.isfinite(array).all():
                raise InputError(f"array {name!r} of {self.name}'s state holds NaN or infinity. Take an earlier state.")
        self._load(key, dims, state.arrays)
        self._key, self._rounds, self._dims = key, rounds, dims

    # -- helpers --

    @property
    def graph(self) -> Graph:
        """The graph given to `bind`."""
        if self._graph is None:
            raise StateError(f"{self.name} is not bound to a graph yet. Call bind(graph, users, rng) first.")
        return self._graph

    @property
    def users(self) -> F64:
        """The user features given to `bind`."""
        if self._users is None:
            raise StateError(f"{self.name} has no user features. Call bind(graph, users, rng) with them first.")
        return self._users

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments by name."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def _modes(self, product: Product) -> tuple[F64, ...]:
        _ = self.graph
        modes = as_modes(product)
        dims = tuple(mode.size for mode in modes)
        if self._dims is not None and dims != self._dims:
            raise ShapeError(
                f"{self.name} has learned from products with dimensions {self._dims}; got {dims}. "
                "Every product of a campaign has the same features."
            )
        return modes

    def _generator(self, purpose: str, modes: tuple[F64, ...] = ()) -> np.random.Generator:
        """A generator set by the seed, the rounds told, the purpose and (if given) the product alone."""
        words = [zlib.crc32(purpose.encode()), *(zlib.crc32(mode.tobytes()) for mode in modes)]
        return np.random.default_rng([self._key, self._rounds, *words])

    def _allowed(self, oracle: Oracle, k: int) -> I64:
        """The rows from which this oracle may choose, at least ``k``."""
        candidates = getattr(oracle, "candidates", None)
        if candidates is None:
            return np.arange(self.graph.n_nodes, dtype=np.int64)
        rows = np.unique(check_rows("the oracle's candidates", candidates, self.graph.n_nodes))
        if rows.size < k:
            raise InputError(
                f"k = {k} seeds cannot be chosen from {rows.size} candidates. Lower k or allow more users."
            )
        return rows

    def _matching(
        self, expected: Mapping[str, NDArray[Any]], arrays: Mapping[str, NDArray[Any]]
    ) -> dict[str, NDArray[Any]]:
        """Copies of ``arrays``, which must have the names, shapes and types expected."""
        if set(expected) != set(arrays):
            raise InputError(
                f"the state of {self.name} must hold arrays {sorted(expected)}; got {shown(list(arrays))}."
            )
        for name, array in expected.items():
            given = array_of(f"array {name!r} of the state", arrays[name], "an array")
            if given.dtype.kind == "f" and not np.isfinite(given).all():
                raise InputError(f"array {name!r} of {self.name}'s state holds NaN or infinity. Use another copy.")
            if given.shape != array.shape or given.dtype != array.dtype:
                raise ShapeError(
                    f"array {name!r} of {self.name}'s state must be {array.dtype} {array.shape}; "
                    f"got {given.dtype} {given.shape}."
                )
        return {name: np.array(arrays[name], order="C") for name in expected}
