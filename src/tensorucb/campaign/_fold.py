"""A policy of a campaign: how it is stored, and a fold, which is a policy and the rounds that it has learned."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorucb import policies
from tensorucb.arrays import F64, I64
from tensorucb.campaign._catalogue import contexts_of, strategies_of
from tensorucb.campaign._ledger import Ledger, Pair, link, place
from tensorucb.campaign._network import Network, seal, unseal
from tensorucb.campaign._reach import of_sources
from tensorucb.campaign._told import Told, learned
from tensorucb.errors import FileFormatError, InputError, StateError
from tensorucb.policies import Policy, PolicyState
from tensorucb.policies._base import check_policy_object
from tensorucb.store._protocol import RoundRecord

if TYPE_CHECKING:
    from tensorucb.campaign._handle import View


def policy_spec(policy: Policy) -> dict[str, Any]:
    """The policy's type and arguments as JSON; a policy among the arguments is described in the same way.

    A policy of this package can be built again from it. One of another package, or around one of another package, can
    only be recognised by it.
    """
    check_policy_object("policy", policy)
    kind, settings = type(policy), getattr(policy, "settings", None)
    name, arguments = kind.__name__, dict(settings()) if callable(settings) else {}
    if name not in policies.__all__ or getattr(policies, name) is not kind:
        return {"type": f"{kind.__module__}:{kind.__qualname__}", "own": False, "arguments": arguments}
    inner = {key: policy_spec(value) for key in arguments if isinstance(value := getattr(policy, key, None), Policy)}
    foreign = [spec["type"] for spec in inner.values() if not spec["own"]]
    title = f"{name} around {', '.join(foreign)}" if foreign else name
    return {"type": title, "own": not foreign, "arguments": {**arguments, **inner}}


def build_policy(spec: Mapping[str, Any], given: Policy | None) -> Policy:
    """The policy of a spec; one of another package must be ``given`` and fit."""
    if given is not None:
        found = policy_spec(given)
        if json.dumps(found, sort_keys=True) != json.dumps(dict(spec), sort_keys=True):
            raise InputError(
                f"the campaign was created with policy {spec['type']} and arguments {spec['arguments']}; "
                f"got {found['type']} with {found['arguments']}. Pass the same, or none for one of this package."
            )
        if not spec["own"]:
            return given
    if not spec["own"]:
        raise StateError(
            f"the campaign's policy {spec['type']} is not of this package. "
            "Load it in Python, with load_campaign(…, policy=…)."
        )
    arguments = dict(spec["arguments"])
    for name, value in arguments.items():
        if isinstance(value, Mapping) and set(value) == {"type", "own", "arguments"}:  # a policy inside the policy
            arguments[name] = build_policy(value, None)
    built: Policy = getattr(policies, spec["type"])(**arguments)
    return built


def state_hash(state: PolicyState) -> str:
    """SHA-256 of a policy's state in canonical form."""
    digest = hashlib.sha256(json.dumps(dict(state.settings), sort_keys=True).encode())
    for name in sorted(state.arrays):
        array = np.ascontiguousarray(state.arrays[name])
        digest.update(f"|{name}:{array.dtype.str}:{array.shape}|".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


_REASON = 300  # characters of an error that the log keeps


class UnlearnableRoundWarning(RuntimeWarning):
    """A round could not be learned; the model goes on without it, and ``status()`` names it.

    Examples
    --------
    >>> import warnings
    >>> from tensorucb.campaign import UnlearnableRoundWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", UnlearnableRoundWarning)  # stop instead of going on without the round
    """


class _UnlearnableError(Exception):
    """The policy refused a round, or was left with something that is not a number."""


@dataclass(frozen=True)
class _Mark:
    """A state that was looked at and found sound, and how many rounds it had learned."""

    count: int
    hash: str
    state: PolicyState


class Fold:
    """A policy and the rounds that it has learned, one after the other.

    ``network`` is the network that the policy is bound to; None if it holds nothing that can be built on. ``pairs`` are
    the rounds learned, in order, and ``hash`` is what the policy's state depends on (see `link`). ``complete`` says
    whether it has once learned every closed round that the log held.
    """

    def __init__(self, policy: Policy, seed: int) -> None:
        self.policy = policy
        self._seed = seed
        self.network: Network | None = None
        self.pairs: list[Pair] = []
        self.hash = ""
        self.complete = False
        self._mark = _Mark(0, "", PolicyState({}, {}))

    def bound(self, network: Network) -> bool:
        """Whether the policy is bound to this revision of the network."""
        return self.network is not None and self.network.revision == network.revision

    def current(self, network: Network, wanted: Sequence[str]) -> bool:
        """Whether it has learned the first rounds of the log as they are now; ``wanted`` are the log's hashes."""
        count = len(self.pairs)
        return self.bound(network) and count < len(wanted) and wanted[count] == self.hash

    def following(self, ledger: Ledger) -> list[RoundRecord]:
        """The rounds that come after those that it has learned, whatever has changed before."""
        return ledger.to_learn(ledger.position(place(ledger.rounds[self.pairs[-1][0]])) if self.pairs else 0)

    def begin(self, network: Network, first: str) -> None:
        """Bind again, with nothing learned; ``first`` is the hash of that."""
        self.complete = False
        with self._unsafe(network):
            self.policy.bind(network.graph, network.users, np.random.default_rng([self._seed, 0]))
            self.pairs, self.hash = [], first
            self._mark = _Mark(0, first, self.policy.state())

    def take_over(self, other: Fold) -> None:
        """Take over everything that another fold of the same policy has learned."""
        with self._unsafe(other.network):
            self.policy.restore(other.policy.state())
            self.pairs, self.hash, self._mark = other.pairs, other.hash, other._mark
        self.complete = True

    def learn(self, view: View, records: Sequence[RoundRecord]) -> None:
        """Learn some more rounds; those that cannot be learned are left out, and the ledger is told.

        Whether the policy still gives numbers is looked at once, at the end.
        """
        if not records:
            return
        with self._unsafe(self.network):
            try:
                for record in records:
                    self._take(view, record)
                self._check_scores(records[-1])
                self._count(records)
            except _UnlearnableError:
                self._one_by_one(view, records)

    def lesson(self, network: Network, record: RoundRecord, told: Told) -> tuple[I64, F64]:
        """Edges and outcomes that a closed round teaches a policy that has learned the rounds before it."""

        def believed() -> F64:
            products, places = contexts_of(record.payload), strategies_of(network, record.payload)
            means = np.stack([self.policy.prediction(product).expected() for product in products])
            return of_sources(network.graph, means, places)

        return learned(network, record, told, believed)

    def to_blob(self, view: View) -> bytes:
        """The fold as bytes. This looks at the policy's state too, and leaves out rounds which spoiled that."""
        with self._unsafe(self.network):
            try:
                self._mark = _Mark(len(self.pairs), self.hash, self._checked_state())
            except _UnlearnableError:
                self._one_by_one(view, [])
        state = self._mark.state
        learned = {"basis": self.hash, "world": view.network.revision, "rounds": self.pairs}
        return seal("snapshot", {**learned, "state": dict(state.settings)}, state.arrays, compressed=True)

    def from_blob(self, network: Network, data: bytes, name: str) -> None:
        """Go on from the bytes of `to_blob`, stored under ``name``, which ends with a hash; its policy is bound."""
        settings, arrays = unseal(data, "snapshot", f"snapshot {name}")
        basis = str(settings["basis"])
        if not basis.startswith(name.rsplit("-", 1)[1]) or settings["world"] != network.revision:
            raise FileFormatError(f"snapshot {name} holds another state than its name says.")
        pairs = _pairs(settings)
        state = PolicyState(settings["state"], arrays)
        with self._unsafe(network):
            self.policy.restore(state)
            self.pairs, self.hash = pairs, basis
            self._mark = _Mark(len(pairs), basis, state)

    @contextmanager
    def _unsafe(self, network: Network | None) -> Iterator[None]:
        """While this block runs, the fold counts as empty: an interrupted policy must not be built on."""
        self.network = None
        yield
        self.network = network

    def _count(self, records: Sequence[RoundRecord]) -> None:
        pairs = [(record.number, record.revision) for record in records]
        for pair in pairs:
            self.hash = link(self.hash, pair)
        self.pairs = [*self.pairs, *pairs]

    def _one_by_one(self, view: View, records: Sequence[RoundRecord]) -> None:
        """Learn again from the last sound state, to find out which round it was that cannot be learned."""
        since = [view.ledger.rounds[number] for number, _ in self.pairs[self._mark.count :]]
        self.pairs, self.hash = self.pairs[: self._mark.count], self._mark.hash
        self.policy.restore(self._mark.state)
        for record in [*since, *records]:
            try:
                self._take(view, record)
                self._check_scores(record)
                state = self._checked_state()
            except _UnlearnableError as error:
                self.policy.restore(self._mark.state)
                view.ledger.leave_out(record.number, str(error))
                warnings.warn(
                    f"round {record.id} could not be learned and is left out of the model ({error}). The campaign "
                    "goes on; cancel the round if nobody needs it.",
                    UnlearnableRoundWarning,
                    stacklevel=2,
                )
                continue
            self._count([record])
            self._mark = _Mark(len(self.pairs), self.hash, state)

    def _take(self, view: View, record: RoundRecord) -> None:
        """Let the policy learn one round."""
        network = view.network
        with _blamed():
            products, places = contexts_of(record.payload), strategies_of(network, record.payload)
            # Credit is a matter of the whole round; then each strategy teaches what was done with it, in a fixed order.
            edges, outcomes = self.lesson(network, record, view.told(record.number))
            used = sorted(set(places[network.rows(record.payload["contacted"])].tolist())) or [0]
            for at in used:
                own = slice(None) if len(products) == 1 else places[network.graph.sources[edges]] == at
                history: dict[str, Any] = {}
                if record.payload["kind"] == "history" and getattr(self.policy, "weighs_history", False):
                    history = {"passive": True}
                self.policy.update(products[at], edges[own], outcomes[own], **history)

    def _check_scores(self, record: RoundRecord) -> None:
        # A policy whose scoring changes what it knows must not be asked more often than by its caller.
        if not getattr(self.policy, "pure", False):
            return
        with _blamed():
            scores = np.asarray(self.policy.score(contexts_of(record.payload)[0]))
        if not np.isfinite(scores).all():
            raise _UnlearnableError("afterwards the policy's scores were not all numbers")

    def _checked_state(self) -> PolicyState:
        with _blamed():
            state = self.policy.state()
        for name, array in state.arrays.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise _UnlearnableError(f"afterwards the policy's state had NaN or infinity in {name!r}")
        return state


@contextmanager
def _blamed() -> Iterator[None]:
    """Whatever a policy raises, of this package or another, means that the round cannot be learned."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        raise _UnlearnableError(f"{type(error).__name__}: {error}"[:_REASON]) from error


def _pairs(settings: Mapping[str, Any]) -> list[Pair]:
    return [(int(number), int(revision)) for number, revision in settings["rounds"]]


def pairs_of(data: bytes) -> list[Pair]:
    """The rounds that the fold of `Fold.to_blob`'s bytes has learned; none if they are damaged."""
    try:
        return _pairs(unseal(data, "snapshot", "the snapshot")[0])
    except (FileFormatError, KeyError, TypeError, ValueError):
        return []
