"""The policy protocol, and `UCBPolicy`: what all policies of this package share.

A policy is a pure function of its settings, its seed and what it was told by `update`. Random draws come from
``(key, rounds told, purpose)``, so asking twice gives the same answer, and a policy that was saved and
restored goes on bit for bit.
"""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Protocol, Self, TypedDict, TypeVar, Unpack, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.arrays import F64, I64, Arrays, Vectors
from tensorucb.checks import (
    array_of,
    check_array,
    check_callable,
    check_count,
    check_flag,
    check_instance,
    check_mapping,
    check_rows,
    refusal,
    shown,
)
from tensorucb.errors import InputError, ShapeError, StateError
from tensorucb.features import UserProfile
from tensorucb.graph import Graph
from tensorucb.graph._arguments import check_graph
from tensorucb.memory import binding, check_memory
from tensorucb.policies._dose import no_doses, redundancy_of, with_doses
from tensorucb.policies.prediction import ROUNDS, Prediction
from tensorucb.rng import RngLike, as_generator, stream_key

# A product's features; or one vector each for the product and whatever else describes a round: strategy, season …
# Policies that are not made for more than one vector ignore those after the product, or put all of them together.
Product = ArrayLike | Sequence[ArrayLike]
"""The features of a product, alone or followed by the vectors of the other modes, such as a strategy."""
Grid = Mapping[str, Sequence[Any]]
"""Arguments of a policy, and the candidates that tuning tries for each."""
# The paper's candidates for c.
EXPLORATIONS = (1e-3, 1e-2, 1e-1, 1.0)
# What the tensor policies can do about uncertainty.
EXPLORATION_KINDS = ("ucb", "thompson", "greedy")
# Predictions kept until something is told: a round's strategies.
_KEPT = 4
_VECTOR = "a product must be a vector (d,), or a sequence of vectors for several modes."


@dataclass(frozen=True)
class PolicyState:
    """Everything a policy has learned: JSON ``settings`` and plain ``arrays``, for `tensorucb.files`."""

    settings: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]


def parts_of_state(state: Any, here: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Settings and arrays of a state, which must be that of a policy with the settings ``here``."""
    check_instance("state", state, PolicyState, "a PolicyState", "Take policy.state().")
    saved = check_mapping("state.settings", state.settings, "a mapping, as policy.state() gives it")
    for name, value in here.items():
        if saved.get(name) != value:
            raise InputError(
                f"the state is not this policy's: its {name} is {shown(saved.get(name))}, here {shown(value)}. "
                "Build and bind the policy as it was when the state was saved."
            )
    return saved, check_mapping("state.arrays", state.arrays, "a mapping, as policy.state() gives it")


AnyPolicy = TypeVar("AnyPolicy", bound="Policy")


class OracleOptions(TypedDict, total=False):
    """What a call of an oracle may add."""

    candidates: I64 | None  # rows to choose from
    must_include: I64 | None  # rows that are chosen in any case
    redundancy: float | None  # as in `Prediction`; by default the oracle's own


class Oracle(Protocol):
    """Picks ``k`` rows for the given edge probabilities, in the order of choice.

    A call may name ``candidates``, ``must_include`` (rows) and ``redundancy`` (as in `Prediction`). An oracle that may
    not use every node has an attribute ``candidates`` (rows), which policies that pick seeds on their own respect.
    """

    def __call__(self, probabilities: F64, k: int, **options: Unpack[OracleOptions]) -> I64:
        """The chosen rows."""
        ...


@runtime_checkable
class Policy(Protocol):
    """What experiments, campaigns and third parties rely on."""

    name: str

    def bind(self, graph: Graph, users: ArrayLike | None, rng: RngLike = None) -> None:
        """Start again on this graph, with (n, d) user features (or None) and a seed."""

    def prediction(self, product: Product) -> Prediction:
        """What is believed of every edge for this product, exploration left out."""

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
        raise refusal(
            name,
            "a policy object such as tensorucb.TensorUCB()",
            policy,
            "See docs/howto/own-policy.md for one of your own.",
        )
    missing = unwritten(policy)
    if missing:
        raise InputError(
            f"is a {type(policy).__name__}, which lacks {missing}. See docs/howto/own-policy.md.", argument=name
        )
    return policy


def arguments_of(policy: Policy) -> dict[str, Any]:
    """The arguments that a policy was made with, as far as it tells them."""
    settings = getattr(policy, "settings", None)
    return settings() if callable(settings) else {}


def with_arguments(policy: AnyPolicy, arguments: Mapping[str, Any]) -> AnyPolicy:
    """A new policy of the same kind, some arguments of its constructor replaced."""
    made_with = getattr(policy, "made_with", getattr(policy, "settings", None))
    if not callable(made_with):
        raise InputError(f"{policy.name} cannot be tuned: it has no settings(). Leave it out of the grid.")
    own = made_with()
    unknown = [name for name in arguments if name not in own]
    if unknown:
        raise InputError(f"{policy.name} has no argument {shown(unknown[0])}; it has {sorted(own)}.")
    return type(policy)(**{**own, **arguments})


def unwritten(policy: Any) -> str:
    """The methods that a class derived from `UCBPolicy` still has to write, or nothing."""
    kind = type(policy)
    if not isinstance(policy, UCBPolicy):
        return ""
    needed = {"predict": "(state, modes)", "learn": "(state, modes, edges, outcomes)"}
    missing = [name for name in needed if getattr(kind, name) is getattr(UCBPolicy, name)]
    return " and ".join(f"{name}{needed[name]}" for name in missing)


# -- what every policy is given, checked once --


def as_modes(product: Any) -> Vectors:
    """``product`` as a tuple of vectors: one (d3,) vector, or a sequence of them for more modes."""
    several = (
        isinstance(product, list | tuple)
        and len(product) > 0
        and all(isinstance(part, np.ndarray | list | tuple) for part in product)
    )
    return tuple(check_array("product", part, ("d",), hint=_VECTOR) for part in (product if several else (product,)))


def as_user_features(graph: Graph, users: ArrayLike | None, *, needed: bool, name: str) -> F64 | None:
    """``users`` as a finite (n, d) array; None passes only where the policy needs none."""
    if users is None:
        if needed:
            raise InputError(
                f"{name} needs user features; got users=None. "
                "Pass an (n, d) array, e.g. tensorucb.features.laplacian_eigenmap(graph, dim=10)."
            )
        return None
    return check_array("users", users, (graph.n_nodes, "d"), hint="One row per node; rows follow graph.ids.")


def feature_columns(users: Any) -> int:
    """Numbers per user in a matrix of features or in all parts of a profile; 0 for what is neither."""
    parts = users.parts().values() if isinstance(users, UserProfile) else (users,)
    return sum(np.shape(part)[1] for part in parts if getattr(part, "ndim", 0) == 2)


def as_observations(n_edges: int, edges: ArrayLike, outcomes: ArrayLike) -> tuple[I64, F64]:
    """Edge numbers and outcomes of one length, in range; both may be empty."""
    values = check_array("outcomes", outcomes, ("N?",), low=0.0, high=1.0)
    rows = check_rows("edges", edges, n_edges, hint="graph.edge_rows gives the number of an edge.")
    if rows.size != values.size:
        raise ShapeError(f"edges and outcomes must be of one length; got {rows.size} and {values.size}.")
    return rows, values


def setting(default: Any, check: Callable[..., Any], *bounds: Any, **more: Any) -> Any:
    """An argument of a policy that is a dataclass: its default, and the check of any other value, with its bounds."""

    def checked(name: str, value: Any) -> Any:
        return default if value is default else check(name, value, *bounds, **more)

    return field(default=default, metadata={"check": checked})


class UCBPolicy:
    """A model of the edges, and everything around it: binding, exploration, beliefs, choice, state and restore.

    A subclass writes the model as three functions of a *state*, a dict of arrays:

    - ``initial(dims)``: the state before the first round; ``dims`` are the sizes of the context's vectors;
    - ``learn(state, modes, edges, outcomes)``: the state after one more round. It may change the arrays in place;
    - ``predict(state, modes)``: a `Prediction` for the context ``modes``.

    They read the settings, which the constructor stores under its arguments' names (as JSON values), ``self.graph`` and
    ``self.users``, and change nothing else. The policies of this package are dataclasses, whose fields are the settings
    (``setting``). A context goes its way as in the paper's Algorithm 1: prediction, upper
    confidence bound, oracle, feedback, posterior.

    Attributes
    ----------
    name
        How tables and files call the policy.
    exploration, exploration_kind
        c, the number of deviations added to a mean; and ``"ucb"``, ``"thompson"`` (a normal number times the
        deviations, drawn again for each round told and each product) or ``"greedy"``.
    needs_users, uses_product, uses_strategies
        Whether `bind` demands user features, and whether predictions may depend on the product, and on further vectors
        of the context.
    pure
        Whether `score` and `choose` leave the state as it is.
    shares_parameters
        Whether what is learned of some edges moves the scores of others; True lets `check_policy` demand it.
    knows_redundancy
        Whether predictions say how far a second contact brings nothing new. If not, it is estimated from residuals.
    weighs_history
        Whether `learn` takes ``passive=True`` for rounds that nobody arranged, so that they may count less.
    tunable
        Constructor arguments that experiments may tune, and the candidates of each, in increasing order if they are
        numbers; the first argument plays the role of the paper's c. If the best of three numbers or more is the first
        or the last, `tensorucb.experiments.tune` goes on in that direction.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorucb.policies import Prediction, UCBPolicy, check_policy
    >>> class Counts(UCBPolicy):
    ...     name = "Counts"
    ...     def initial(self, dims):
    ...         return {"trials": np.zeros(self.graph.n_edges), "responses": np.zeros(self.graph.n_edges)}
    ...     def learn(self, state, modes, edges, outcomes):
    ...         np.add.at(state["trials"], edges, 1.0)
    ...         np.add.at(state["responses"], edges, outcomes)
    ...         return state
    ...     def predict(self, state, modes):
    ...         return Prediction(self.graph, mean=(state["responses"] + 1.0) / (state["trials"] + 20.0))
    >>> check_policy(Counts)
    """

    name: str = "policy"
    exploration: float = 0.0
    exploration_kind: str = "ucb"
    needs_users: ClassVar[bool] = False
    uses_product: bool = False
    uses_strategies: ClassVar[bool] = False
    pure: ClassVar[bool] = True
    shares_parameters: bool = False
    knows_redundancy: ClassVar[bool] = False
    weighs_history: ClassVar[bool] = False
    tunable: ClassVar[Grid] = {"exploration": EXPLORATIONS}

    _graph: Graph | None = None
    _users: F64 | None = None
    _profile: UserProfile | None = None  # for a policy that uses the past by topic
    _key: int = 0
    _rounds: int = 0
    _dims: tuple[int, ...] | None = None
    _state: Any = None  # None before the first update
    _doses: Arrays
    _redundancy: float = 0.0  # what the doses say
    _kept: Mapping[bytes, Prediction] = {}  # the last predictions, replaced and never changed

    def __post_init__(self) -> None:
        for each in fields(self):  # type: ignore[arg-type]
            setattr(self, each.name, each.metadata["check"](each.name, getattr(self, each.name)))

    # -- the model, which a subclass writes --

    def initial(self, dims: tuple[int, ...]) -> Any:
        """The state before the first round, for contexts whose vectors have these sizes."""
        return {}

    def learn(self, state: Any, modes: Vectors, edges: I64, outcomes: F64) -> Any:
        """The state after one more round; the one given is used up."""
        raise NotImplementedError

    def predict(self, state: Any, modes: Vectors) -> Prediction:
        """What the state says of every edge in this context."""
        raise NotImplementedError

    def to_arrays(self, state: Any) -> Arrays:
        """A state as arrays."""
        return dict(state)

    def from_arrays(self, dims: tuple[int, ...], arrays: Mapping[str, NDArray[Any]]) -> Any:
        """The state of `to_arrays`, checked: by default arrays must have the names, shapes and types of the start."""
        return self._matching(self.initial(dims), arrays)

    # -- exploration and choice --

    def optimistic(self, prediction: Prediction, modes: Vectors) -> F64:
        """The probability of every edge that seeds are chosen by."""
        if self.exploration_kind == "greedy" or prediction.deviation is None:
            return prediction.probabilities()
        draw = None
        if self.exploration_kind == "thompson":
            draw = self._generator("thompson", modes).normal(size=prediction.deviation.size)
        return prediction.probabilities(self.exploration, draw)

    def pick(self, prediction: Prediction, modes: Vectors, k: int, oracle: Oracle) -> I64:
        """The rows of ``k`` seeds; by default the oracle's."""
        return oracle(self.optimistic(prediction, modes), k, redundancy=prediction.redundancy)

    # -- the protocol --

    def bind(self, graph: Graph, users: ArrayLike | None, rng: RngLike = None) -> None:
        """Start again on this graph, with (n, d) user features (or None) and a seed."""
        check_graph(graph)
        what = f"{self.name} on a network of {graph.n_nodes:,} users and {graph.n_edges:,} edges"
        needed = binding(graph.n_nodes, graph.n_edges, feature_columns(users))
        check_memory(what, needed, "Fewer features of users help, too.")
        self._users = as_user_features(graph, users, needed=self.needs_users, name=self.name)
        self._graph = graph
        self._key = int(stream_key(as_generator(rng)))
        self._rounds = 0
        self._dims = None
        self._state = None
        self._kept = {}
        self._take(no_doses())

    def prediction(self, product: Product) -> Prediction:
        """What is believed of every edge for this product, exploration left out."""
        return self._predicted(self._modes(product))

    def score(self, product: Product) -> F64:
        """The believed probability of every edge for this product, exploration included, in [0, 1]."""
        modes = self._modes(product)
        return self.optimistic(self._predicted(modes), modes)

    def choose(self, product: Product, k: int, oracle: Oracle) -> I64:
        """The rows of ``k`` seeds; by default the oracle's for `score`."""
        modes = self._modes(product)
        count = check_count("k", k, 1, self.graph.n_nodes)
        check_callable("oracle", oracle, "an oracle, such as tensorucb.SeedOracle(graph)")
        return np.asarray(self.pick(self._predicted(modes), modes, count, oracle), dtype=np.int64)

    def update(self, product: Product, edges: ArrayLike, outcomes: ArrayLike, *, passive: bool = False) -> None:
        """Learn one round: edge numbers in the order observed, and outcomes in [0, 1].

        ``passive``: the round is history, exposures that nobody arranged. Most policies learn it as any other.
        """
        modes = self._modes(product)
        rows, values = as_observations(self.graph.n_edges, edges, outcomes)
        check_flag("passive", passive)
        state, doses = self._known(modes), self._doses
        if rows.size and not self.knows_redundancy:
            distinct, place, trials = np.unique(rows, return_inverse=True, return_counts=True)
            expected = ROUNDS @ self._predicted(modes).rounds(distinct)
            means = np.bincount(place, values) / trials
            doses = with_doses(doses, self.graph.targets[distinct], expected, means)
        history: dict[str, Any] = {"passive": True} if passive and self.weighs_history else {}
        self._state = self.learn(state, modes, rows, values, **history) if rows.size else state
        self._take(doses)
        self._dims = tuple(mode.size for mode in modes)
        self._kept = {}
        self._rounds += 1

    def _known(self, modes: Vectors) -> Any:
        """What is known now; before the first update, the start for contexts like this one."""
        if self._state is not None:
            return self._state
        return self.initial(tuple(mode.size for mode in modes))

    def _predicted(self, modes: Vectors) -> Prediction:
        """The prediction for a context; the last few are kept until something is told."""
        key = b"".join(mode.tobytes() for mode in modes)
        kept = self._kept
        if key not in kept:
            prediction = self.predict(self._known(modes), modes)
            if not self.knows_redundancy:
                prediction = prediction.with_redundancy(self._redundancy)
            # Replaced, never changed, so that several threads may ask.
            kept = self._kept = {**dict([*kept.items()][1 - _KEPT :]), key: prediction}
        return kept[key]

    def _take(self, doses: Arrays) -> None:
        self._doses, self._redundancy = doses, redundancy_of(doses)

    def state(self) -> PolicyState:
        """A copy of everything learned."""
        arrays = {} if self._state is None else self.to_arrays(self._state)
        if not self.knows_redundancy:
            arrays = arrays | self._doses
        return PolicyState(self._header(), {name: np.array(array) for name, array in arrays.items()})

    def _header(self) -> dict[str, Any]:
        """What a state says about the policy beside its arrays."""
        return {
            "policy": self.name,
            "arguments": self.settings(),
            "key": f"{self._key:016x}",
            "rounds": self._rounds,
            "product_dims": None if self._dims is None else list(self._dims),
            "n_nodes": self.graph.n_nodes,
            "n_edges": self.graph.n_edges,
        }

    def restore(self, state: PolicyState) -> None:
        """Go on from ``state``; the policy must be bound to the same graph and have the same settings."""
        here = self._header()
        must_match = {field: here[field] for field in ("policy", "arguments", "n_nodes", "n_edges")}
        saved, arrays = parts_of_state(state, must_match)
        try:
            key, rounds = int(saved["key"], 16), int(saved["rounds"])
            dims = None if saved["product_dims"] is None else tuple(int(d) for d in saved["product_dims"])
            sound = 0 <= key < 2**64 and rounds >= 0 and (dims is None or all(0 < d < 2**20 for d in dims))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InputError(f"the state of {self.name} is incomplete or malformed ({shown(error)}).") from error
        if not sound:
            raise InputError(f"the state of {self.name} has impossible values: {shown(saved)}.")
        for name, array in arrays.items():
            if np.asarray(array).dtype.kind == "f" and not np.isfinite(array).all():
                raise InputError(f"array {name!r} of {self.name}'s state holds NaN or infinity. Take an earlier state.")
        counted = {name: arrays.pop(name) for name in no_doses() if name in arrays and not self.knows_redundancy}
        doses = no_doses() if self.knows_redundancy else self._matching(no_doses(), counted)
        self._state = self._matching({}, arrays) or None if dims is None else self.from_arrays(dims, arrays)
        self._take(doses)
        self._key = key
        self._rounds = rounds
        self._dims = dims
        self._kept = {}

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

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments by name, for scikit-learn and tools that tune as it does."""
        return self.settings()

    def made_with(self) -> dict[str, Any]:
        """The constructor's arguments as they were passed: None where a default depends on another argument."""
        return self.settings()

    def set_params(self, **params: Any) -> Self:
        """Change arguments of the constructor; what was learned is dropped, so bind the policy again.

        Examples
        --------
        >>> from tensorucb.policies import LinUCB
        >>> LinUCB().set_params(exploration=0.5).get_params()["exploration"]
        0.5
        """
        fresh = with_arguments(self, params)
        vars(self).clear()
        vars(self).update(vars(fresh))
        return self

    def __repr__(self) -> str:
        said = []
        for name, parameter in inspect.signature(type(self)).parameters.items():
            value = getattr(self, name, parameter.default)
            if repr(value) != repr(parameter.default):  # arrays have no single answer to !=
                said.append(f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(said)})"

    def __sklearn_clone__(self) -> Self:
        """A policy with the same settings that has learned nothing, for ``sklearn.base.clone``."""
        return with_arguments(self, {})

    def _modes(self, product: Product) -> Vectors:
        _ = self.graph  # unbound: the error that says so comes first
        modes = as_modes(product)
        dims = tuple(mode.size for mode in modes)
        if self._dims is not None and dims != self._dims:
            raise ShapeError(
                f"{self.name} has learned from products with dimensions {self._dims}; got {dims}. "
                "Every product of a campaign has the same features."
            )
        if self._profile is not None:
            # Refuses a product with another number of topics before anything is learned.
            self._profile.topic_weights(modes[0])
        return modes

    def _generator(self, purpose: str, modes: Vectors = ()) -> np.random.Generator:
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
                f"= {k} seeds cannot be chosen from {rows.size} candidates. Lower k or allow more users.", argument="k"
            )
        return rows

    def _matching(self, expected: Arrays, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
        """Copies of ``arrays``, which must have the names, shapes and types expected."""
        if set(expected) != set(arrays):
            raise InputError(
                f"the state of {self.name} must hold arrays {sorted(expected)}; got {shown(list(arrays))}."
            )
        for name, array in expected.items():
            saved = array_of(f"array {name!r} of the state", arrays[name], "an array")
            if saved.shape != array.shape or saved.dtype != array.dtype:
                raise ShapeError(
                    f"array {name!r} of {self.name}'s state must be {array.dtype} {array.shape}; "
                    f"got {saved.dtype} {saved.shape}."
                )
        return {name: np.array(arrays[name], order="C") for name in expected}
