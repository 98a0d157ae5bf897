"""A fold: a policy and the rounds that it has learned, one after the other."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tensorucb.campaign._catalogue import contexts_of, strategies_of
from tensorucb.campaign._choice import of_sources
from tensorucb.campaign._ledger import Ledger, Pair, link, place
from tensorucb.campaign._told import learned
from tensorucb.campaign._world import World, seal, unseal
from tensorucb.errors import FileFormatError
from tensorucb.policies import Policy, PolicyState
from tensorucb.policies.beliefs import expected_probabilities
from tensorucb.store._protocol import RoundRecord

if TYPE_CHECKING:
    from tensorucb.campaign._handle import View

_REASON = 300  # characters of an error that the log keeps


class UnlearnableRoundWarning(RuntimeWarning):
    """A round could not be learned; the model goes on without it, and ``status()`` names it."""


class _UnlearnableError(Exception):
    """The policy refused a round, or was left with something that is not a number."""


@dataclass(frozen=True)
class _Mark:
    """A state that was looked at and found sound, and how many rounds it had learned."""

    count: int
    hash: str
    state: PolicyState


class Fold:
    """A policy and the rounds that it has learned.

    Attributes
    ----------
    policy
        The policy.
    world
        The network that the policy is bound to; None if it holds nothing that can be built on.
    pairs
        The rounds learned, in order.
    hash
        What the policy's state depends on, see :func:`~tensorucb.campaign._ledger.link`.
    complete
        Whether it has once learned every closed round that the log held.
    """

    def __init__(self, policy: Policy, seed: int) -> None:
        self.policy = policy
        self._seed = seed
        self.world: World | None = None
        self.pairs: list[Pair] = []
        self.hash = ""
        self.complete = False
        self._mark = _Mark(0, "", PolicyState({}, {}))

    def begin(self, world: World, first: str) -> None:
        """Bind again, with nothing learned; ``first`` is the hash of that."""
        self.world, self.complete = None, False
        self.policy.bind(world.graph, world.users, np.random.default_rng([self._seed, 0]))
        self.world, self.pairs, self.hash = world, [], first
        self._mark = _Mark(0, first, self.policy.state())

    def take_over(self, other: Fold) -> None:
        """Take over everything that another fold of the same policy has learned."""
        self.world = None
        self.policy.restore(other.policy.state())
        self.world, self.pairs, self.hash, self._mark = other.world, other.pairs, other.hash, other._mark
        self.complete = True

    def last_place(self, ledger: Ledger) -> Pair | None:
        """Where the last round learned stands in the order of learning."""
        return place(ledger.rounds[self.pairs[-1][0]]) if self.pairs else None

    def learn(self, view: View, records: Sequence[RoundRecord]) -> None:
        """Learn some more rounds; those that cannot be learned are left out, and the ledger is told.

        Whether the policy still gives numbers is looked at once, at the end.
        """
        if not records:
            return
        with self._unsafe() as world:
            try:
                for record in records:
                    self._take(view, world, record)
                self._check_scores(records[-1])
                self._count(records)
            except _UnlearnableError:
                self._one_by_one(view, world, records)

    def to_blob(self, view: View) -> bytes:
        """The fold as bytes. This looks at the policy's state too, and leaves out rounds which spoiled that."""
        with self._unsafe() as world:
            try:
                self._mark = _Mark(len(self.pairs), self.hash, self._checked_state())
            except _UnlearnableError:
                self._one_by_one(view, world, [])
        state = self._mark.state
        learned = {"basis": self.hash, "world": world.revision, "rounds": self.pairs}
        return seal("snapshot", {**learned, "state": dict(state.settings)}, state.arrays)

    @contextmanager
    def _unsafe(self) -> Iterator[World]:
        """While this block runs, the fold counts as empty: an interrupted policy must not be built on."""
        world, self.world = self.world, None
        assert world is not None
        yield world
        self.world = world

    def _count(self, records: Sequence[RoundRecord]) -> None:
        pairs = [(record.number, record.revision) for record in records]
        for pair in pairs:
            self.hash = link(self.hash, pair)
        self.pairs = [*self.pairs, *pairs]

    def _one_by_one(self, view: View, world: World, records: Sequence[RoundRecord]) -> None:
        """Learn again from the last sound state, to find out which round it was that cannot be learned."""
        since = [view.ledger.rounds[number] for number, _ in self.pairs[self._mark.count :]]
        self.pairs, self.hash = self.pairs[: self._mark.count], self._mark.hash
        self.policy.restore(self._mark.state)
        for record in [*since, *records]:
            try:
                self._take(view, world, record)
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

    def _take(self, view: View, world: World, record: RoundRecord) -> None:
        told = view.told(record.number)
        with _blamed():
            products, places = contexts_of(record.payload), strategies_of(world, record.payload)

            def believed() -> NDArray[np.float64]:
                means = np.stack([expected_probabilities(self.policy, product) for product in products])
                return of_sources(world.graph, means, places)

            # Credit is a matter of the whole round; then each strategy teaches what was done with it, in a fixed order.
            edges, outcomes = learned(world, record, told, believed)
            used = sorted(set(places[world.rows(record.payload["contacted"])].tolist())) or [0]
            for place in used:
                own = slice(None) if len(products) == 1 else places[world.graph.sources[edges]] == place
                self.policy.update(products[place], edges[own], outcomes[own])

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

    def from_blob(self, world: World, data: bytes, name: str, wanted: str, pairs: list[Pair] | None = None) -> None:
        """Go on from the bytes of `to_blob`, which must be of hash ``wanted``; the policy is bound already.

        Snapshots of earlier versions do not list their rounds: these must be given.
        """
        settings, arrays = unseal(data, "snapshot", f"snapshot {name}")
        basis, revision = str(settings["basis"]), settings.get("world", world.revision)
        if not basis.startswith(wanted) or revision != world.revision:
            raise FileFormatError(f"snapshot {name} holds another state than its name says.")
        if pairs is None:
            pairs = [(int(number), int(revision)) for number, revision in settings["rounds"]]
        state = PolicyState(settings["state"], arrays)
        self.world = None
        self.policy.restore(state)
        self.world, self.pairs, self.hash = world, pairs, basis
        self._mark = _Mark(len(pairs), basis, state)


@contextmanager
def _blamed() -> Iterator[None]:
    """Whatever a policy raises, of this package or another, means that the round cannot be learned."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        raise _UnlearnableError(f"{type(error).__name__}: {error}"[:_REASON]) from error


def pairs_of(data: bytes) -> list[Pair]:
    """The rounds that the fold of `Fold.to_blob`'s bytes has learned; none if they are damaged."""
    try:
        settings, _ = unseal(data, "snapshot", "the snapshot")
        return [(int(number), int(revision)) for number, revision in settings["rounds"]]
    except (FileFormatError, KeyError, TypeError, ValueError):
        return []
