"""A fold: a policy and the rounds that it has learned, one after the other."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.campaign._credit import credits
from tensorucb.campaign._ledger import Ledger, Pair, link, place
from tensorucb.campaign._store import EdgeResponses, NodeEvents, RoundRecord, Session
from tensorucb.campaign._world import World, seal, unseal
from tensorucb.errors import FileFormatError
from tensorucb.policies import Policy, PolicyState, Product
from tensorucb.policies.beliefs import expected_probabilities

__all__ = ["Fold", "UnlearnableRoundWarning", "as_product", "learned", "pairs_of"]

_REASON = 300  # characters of an error that the log keeps


class UnlearnableRoundWarning(RuntimeWarning):
    """A round could not be learned; the model goes on without it, and ``status()`` names it."""


class _UnlearnableError(Exception):
    """The policy refused a round, or was left with something that is not a number."""


def as_product(payload: Mapping[str, Any]) -> Product:
    """The product's feature vectors, as policies take them."""
    vectors = [np.array(vector, dtype=np.float64) for vector in payload["product"]["vectors"]]
    return vectors[0] if len(vectors) == 1 else vectors


def learned(
    world: World,
    record: RoundRecord,
    told: EdgeResponses,
    acted: NodeEvents,
    probabilities: Callable[[], NDArray[np.float64]],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Edges and outcomes that a closed round teaches, in graph order.

    All out-edges of the contacted users, silence being 0; of an imported round only the edges that were told. What
    was told of an edge and the credit from node events combine by maximum.
    """
    graph, payload = world.graph, record.payload
    told_edges, told_outcomes = _told(world, told)
    if payload["learn"] == "told":
        order = np.argsort(told_edges, kind="stable")
        return told_edges[order], told_outcomes[order]
    edges = graph.out_edges(np.sort(world.rows(payload["contacted"])))
    # An edge that joined later was not silent in this round, but may have been told.
    edges = edges[(world.born[edges] <= record.number) | np.isin(edges, told_edges)]
    outcomes = np.zeros(edges.size)
    if acted.users.size:
        known = np.isin(acted.users, world.keys)
        users = world.rows(acted.users)
        window = payload["window"]
        outcomes = credits(
            payload["credit"], graph, edges, users, acted.times[known], record.opened, window, probabilities
        )
    if told_edges.size:
        at = np.searchsorted(edges, told_edges)
        at[at == edges.size] = 0
        held = edges[at] == told_edges if edges.size else np.zeros(told_edges.size, dtype=np.bool_)
        outcomes[at[held]] = np.maximum(outcomes[at[held]], told_outcomes[held])
    return edges, outcomes


def _told(world: World, told: EdgeResponses) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    if told.sources.size == 0:
        return np.empty(0, dtype=np.int64), np.empty(0)
    known = np.isin(told.sources, world.keys) & np.isin(told.targets, world.keys)
    edges = world.graph.edge_between(world.rows(told.sources[known]), world.rows(told.targets[known]))
    outcomes = told.outcomes[known]
    return edges[edges >= 0], outcomes[edges >= 0]


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
        self._sound: PolicyState | None = None

    def begin(self, world: World, first: str) -> None:
        """Bind again, with nothing learned; ``first`` is the hash of that."""
        self.world, self.complete = None, False
        self.policy.bind(world.graph, world.users, np.random.default_rng([self._seed, 0]))
        self._reach(world, [], first, self.policy.state())

    def _reach(self, world: World, pairs: list[Pair], reached: str, state: PolicyState) -> None:
        self.world, self.pairs, self.hash, self._sound = world, pairs, reached, state

    def take_over(self, other: Fold) -> None:
        """Become what another fold of the same policy is."""
        assert other.world is not None
        assert other._sound is not None
        self.world = None
        self.policy.restore(other._sound)
        self._reach(other.world, other.pairs, other.hash, other._sound)
        self.complete = True

    def last_place(self, ledger: Ledger) -> Pair | None:
        """Where the last round learned stands in the order of learning."""
        return place(ledger.rounds[self.pairs[-1][0]]) if self.pairs else None

    def learn(self, session: Session, ledger: Ledger, records: Sequence[RoundRecord]) -> None:
        """Learn some more rounds; those that cannot be learned are left out, and the ledger is told.

        That the policy is sound is looked at once, at the end. Only if it is not, the rounds are learned again from
        the last sound state, one by one, to find out which of them did it.
        """
        if not records:
            return
        world, before = self.world, self._sound
        assert world is not None
        assert before is not None
        # Interrupted half-way, the policy holds nobody knows what, and nothing must be built on it.
        self.world = None
        try:
            for record in records:
                self._take(session, ledger.campaign, world, record)
            state, kept = self._checked(records[-1]), list(records)
        except _UnlearnableError:
            state, kept = self._one_by_one(session, ledger, world, records, before)
        reached, pairs = self.hash, [(record.number, record.revision) for record in kept]
        for pair in pairs:
            reached = link(reached, pair)
        self._reach(world, [*self.pairs, *pairs], reached, state)

    def _one_by_one(
        self, session: Session, ledger: Ledger, world: World, records: Sequence[RoundRecord], state: PolicyState
    ) -> tuple[PolicyState, list[RoundRecord]]:
        kept = []
        self.policy.restore(state)
        for record in records:
            try:
                self._take(session, ledger.campaign, world, record)
                state = self._checked(record)
                kept.append(record)
            except _UnlearnableError as error:
                self.policy.restore(state)
                ledger.leave_out(record.number, str(error))
                warnings.warn(
                    f"round {record.id} could not be learned and is left out of the model ({error}). The campaign "
                    "goes on; cancel the round if nobody needs it.",
                    UnlearnableRoundWarning,
                    stacklevel=2,
                )
        return state, kept

    def _take(self, session: Session, campaign: int, world: World, record: RoundRecord) -> None:
        told, acted = session.edge_responses(campaign, record.number), session.node_events(campaign, record.number)
        try:
            product = as_product(record.payload)
            believed = lambda: expected_probabilities(self.policy, product)  # noqa: E731
            self.policy.update(product, *learned(world, record, told, acted, believed))
        except MemoryError:
            raise
        except Exception as error:  # a policy of another package may raise anything
            raise _UnlearnableError(f"{type(error).__name__}: {error}"[:_REASON]) from error

    def _checked(self, record: RoundRecord) -> PolicyState:
        """The policy's state after this round, if state and scores are numbers."""
        try:
            state = self.policy.state()
            # A policy whose scoring changes what it knows must not be asked more often than by its caller.
            pure = bool(getattr(self.policy, "pure", False))
            scores = np.asarray(self.policy.score(as_product(record.payload))) if pure else np.zeros(1)
        except MemoryError:
            raise
        except Exception as error:
            raise _UnlearnableError(f"{type(error).__name__}: {error}"[:_REASON]) from error
        arrays = {"its scores": scores, **{f"its state {name!r}": array for name, array in state.arrays.items()}}
        for name, array in arrays.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise _UnlearnableError(f"afterwards the policy had NaN or infinity in {name}")
        return state

    def to_blob(self) -> bytes:
        """The fold as bytes."""
        assert self._sound is not None
        assert self.world is not None
        learned = {"basis": self.hash, "world": self.world.revision, "rounds": self.pairs}
        settings = {**learned, "state": dict(self._sound.settings)}
        return seal("snapshot", settings, self._sound.arrays)

    def from_blob(self, world: World, data: bytes, name: str, wanted: str, pairs: list[Pair] | None = None) -> None:
        """Go on from the bytes of `to_blob`, which must be of hash ``wanted``; the policy is bound already.

        Snapshots of earlier versions do not list their rounds: these must be given.
        """
        settings, arrays = unseal(data, "snapshot", f"snapshot {name}")
        if not str(settings["basis"]).startswith(wanted) or settings.get("world", world.revision) != world.revision:
            raise FileFormatError(f"snapshot {name} holds another state than its name says.")
        if pairs is None:
            pairs = [(int(number), int(revision)) for number, revision in settings["rounds"]]
        self.world = None
        self.policy.restore(PolicyState(settings["state"], arrays))
        self._reach(world, pairs, settings["basis"], self.policy.state())


def pairs_of(data: bytes) -> list[Pair]:
    """The rounds that the fold of `Fold.to_blob`'s bytes has learned; none if they are damaged."""
    try:
        settings, _ = unseal(data, "snapshot", "the snapshot")
        return [(int(number), int(revision)) for number, revision in settings["rounds"]]
    except (FileFormatError, KeyError, TypeError, ValueError):
        return []
