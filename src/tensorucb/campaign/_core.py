"""What every call on a campaign needs: the log followed, the world and the model up to date, rounds ended."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from tensorucb.campaign._catalogue import PLURAL, Catalogue
from tensorucb.campaign._ledger import Ledger
from tensorucb.campaign._model import SERVED, SNAPSHOTS, Model, Snapshot, prunable, served_name
from tensorucb.campaign._policy import build_policy
from tensorucb.campaign._tell import Told
from tensorucb.campaign._track import TrackRecord
from tensorucb.campaign._world import World, seal, world_from_blob, world_to_blob
from tensorucb.checks import check_callable, check_text, shown
from tensorucb.errors import FileFormatError, StoreError, UnknownIdError
from tensorucb.moments import check_moment
from tensorucb.policies import Policy
from tensorucb.store._protocol import CampaignRecord, RoundRecord, Session, Status, Store

if TYPE_CHECKING:
    from tensorucb.graph import Graph

__all__ = ["CampaignCore", "CampaignStatus"]

ERASING = "purge-pending-"
"""Blobs of this name are marks: somebody was forgotten, but the store's files are not rewritten yet."""

_PATIENCE = 1.0  # seconds that opening a campaign may wait for readers in order to finish an erasure


@dataclass(frozen=True)
class CampaignStatus:
    """A campaign in numbers.

    Attributes
    ----------
    name, policy
        Its name, and the type of its policy.
    users, edges, products, strategies
        How many there are.
    rounds, open, closed, cancelled
        How many rounds there are, and how many of each kind.
    events
        The number of the log's last event.
    behind
        Of how many closed rounds the next ask would not have learned the newest responses; see :attr:`Ask.behind`.
    quarantined
        Closed rounds that could not be learned: their ids, and why. The model goes on without them.
    erasing
        How many times somebody was forgotten whose traces are not out of the store's files yet.
    """

    name: str
    policy: str
    users: int
    edges: int
    products: int
    strategies: int
    rounds: int
    open: int
    closed: int
    cancelled: int
    events: int
    behind: int
    quarantined: Mapping[str, str]
    erasing: int


class CampaignCore:
    """The part of a `Campaign` that asks nothing and tells nothing."""

    def __init__(
        self, store: Store, name: str, *, policy: Policy | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self.store = store
        self.clock = check_callable("clock", clock, "a function that gives unix seconds")
        with store.read() as session:
            record = session.campaign(name)
            known = [other.name for other in session.campaigns()] if record is None else []
        if record is None:
            raise UnknownIdError(f"there is no campaign {name!r} in {store.masked_url}; it holds {known or 'none'}.")
        self._record: CampaignRecord = record
        self._given = policy
        self._lock = threading.RLock()
        self._ledger = Ledger(record.campaign)
        self._world: World | None = None
        self._told: tuple[int, tuple[int, int], Told] | None = None
        self._track = TrackRecord()
        self._catalogues: dict[str, tuple[int, Catalogue]] = {}
        self._model = self._fresh_model()
        self._finish_erasing()

    def _fresh_model(self, *, apart: bool = False) -> Model:
        """A model that has learned nothing; ``apart``: not even a policy of another package, the caller's object."""
        spec, settings = self.settings["policy"], self.settings

        def another() -> Policy:
            return build_policy(spec, None) if spec["own"] else copy.deepcopy(self._given)  # type: ignore[return-value]

        policy = another() if apart else build_policy(spec, self._given)
        return Model(policy, another, spec, settings["seed"], settings["snapshot_every"])

    def _finish_erasing(self) -> None:
        """Rewrite the store's files if somebody who was forgotten may still be in them, and nobody is in the way."""
        with self.store.read() as session:
            marks = session.blobs(self._record.campaign, ERASING)
        if not marks:
            return
        try:
            self.store.purge(_PATIENCE)
            with self.store.write() as session:
                session.delete_blobs(self._record.campaign, marks)
        except StoreError:
            return  # status() says so, and the next one who opens the campaign tries again

    @property
    def name(self) -> str:
        """The campaign's name."""
        return self._record.name

    @property
    def settings(self) -> Mapping[str, Any]:
        """Settings made at the creation."""
        return self._record.settings

    @property
    def graph(self) -> Graph:
        """The network as it is now."""
        with self._lock, self.store.read() as session:
            return self._current(session).graph

    def status(self) -> CampaignStatus:
        """Numbers of users, products and rounds."""
        with self._lock, self.store.read() as session:
            world = self._current(session)
            states = [record.status for record in self._ledger.rounds.values()]
            return CampaignStatus(
                self.name,
                self.settings["policy"]["type"],
                world.graph.n_nodes,
                world.graph.n_edges,
                len(self._catalogue(session, "product").ids),
                len(self._catalogue(session, "strategy").ids),
                len(states),
                states.count("open"),
                states.count("closed"),
                states.count("cancelled"),
                self._ledger.seq,
                self._model.lag(session, self._ledger, world),
                self._ledger.quarantined(),
                len(session.blobs(self._record.campaign, ERASING)),
            )

    def _current(self, session: Session) -> World:
        """The world as this session sees it; the ledger follows."""
        self._ledger.refresh(session)
        if self._world is None or self._world.revision != self._ledger.revision:
            number = self._record.campaign
            data = session.blob(number, f"world-{self._ledger.revision:08d}")
            if data is None:
                raise FileFormatError(
                    f"campaign {self.name!r} has lost its network. Use a backup of {self.store.masked_url}."
                )
            self._world = world_from_blob(data, *session.users(number))
        return self._world

    def _prepared(self, now: float) -> Store:
        """The store, with the world loaded already: no writer shall wait for that. Due rounds are closed.

        In a transaction of their own, so that they stay closed if the call that follows is refused.
        """
        with self.store.read() as session:
            self._current(session)
        if self._ledger.due(now):
            self.expire(now)
        return self.store

    def _catalogue(self, session: Session, kind: str) -> Catalogue:
        """The catalogue of products or of strategies; the ledger must be up to date."""
        seen, known = self._catalogues.get(kind, (-1, Catalogue(kind)))
        if seen != self._ledger.catalogue:
            known = Catalogue.from_blob(kind, session.blob(self._record.campaign, PLURAL[kind]))
            self._catalogues[kind] = self._ledger.catalogue, known
        return known

    def _found(self, session: Session, round_id: str) -> RoundRecord:
        record = session.round(self._record.campaign, check_text("round_id", round_id))
        if record is None:
            raise UnknownIdError(
                f"campaign {shown(self.name)} has no round {shown(round_id)}. "
                "Use the id that ask returned; rounds() lists them."
            )
        return record

    def _told_before(self, session: Session, number: int, world: World) -> Told:
        """What this round was told; remembered for the last one, so that many small tells stay quick."""
        tag = self._ledger.told_tag(number)
        if self._told is None or self._told[:2] != (number, tag):
            self._told = (number, tag, Told.read(session, self._record.campaign, number, world))
        return self._told[2]

    def expire(self, now: float | None = None) -> list[str]:
        """Close the rounds whose deadline has passed; returns their ids. Other calls do so by themselves."""
        moment = self.clock() if now is None else check_moment("now", now)
        with self._lock:
            with self.store.read() as session:
                self._ledger.refresh(session)
            if not self._ledger.due(moment):
                return []
            with self.store.write() as session:
                self._ledger.refresh(session)
                return self._close_due(session, moment)

    def _close_due(self, session: Session, now: float) -> list[str]:
        due = self._ledger.due(now)
        for record in due:
            self._finish(session, record, "expired", now)
        return [record.id for record in due]

    def _finish(self, session: Session, record: RoundRecord, kind: str, now: float) -> RoundRecord:
        campaign = self._record.campaign
        seq = session.append_event(campaign, kind, record.number, {"id": record.id}, now)
        status: Status = "cancelled" if kind == "cancelled" else "closed"
        moment = record.deadline if kind == "expired" else now
        ended = replace(record, status=status, closed=moment, revision=seq)
        session.put_round(campaign, ended)
        return ended

    def sync(self) -> int:
        """Bring the model up to date with the log and store due snapshots; returns how many rounds it learned.

        :meth:`ask` and :meth:`close` do so too, but learn a slice at a time when late responses have changed a long
        past; this call learns to the end.
        """
        with self._lock:
            self._advance(None)
            return self._model.replayed

    def _advance(self, budget: int | None) -> None:
        with self.store.read() as session:
            _, due = self._synced(session, budget)
        self._keep(due)

    def _synced(self, session: Session, budget: int | None = None) -> tuple[World, list[Snapshot]]:
        world = self._current(session)
        return world, self._model.sync(session, self._ledger, world, budget=budget)

    def _keep(self, due: Sequence[Snapshot]) -> None:
        """Store snapshots, and what was found out about rounds that cannot be learned."""
        model, number = self._model, self._record.campaign
        if not due and not model.damaged and not self._ledger.unlearned:
            return
        with self.store.write() as session:
            world = self._current(session)
            self._quarantine(session)
            session.delete_blobs(number, model.damaged)
            if model.serves(world):
                for snapshot in due:
                    session.put_blob(number, snapshot.name, snapshot.data)
                if model.served in [snapshot.name for snapshot in due]:
                    session.put_blob(number, SERVED, seal(SERVED, {"name": model.served}, {}))
            served = served_name(session, number)
            names = session.blobs(number, SNAPSHOTS)
            session.delete_blobs(number, prunable(names, model.hashes(world, self._ledger), served))
        model.damaged.clear()

    def _quarantine(self, session: Session) -> None:
        """Write down which rounds could not be learned, so that every other process leaves them out as well."""
        now = self.clock()
        for number, reason in sorted(self._ledger.unlearned.items()):
            record = self._ledger.rounds[number]
            payload = {"id": record.id, "reason": reason}
            seq = session.append_event(self._record.campaign, "quarantined", number, payload, now)
            marked = {**record.payload, "quarantined": reason}
            session.put_round(self._record.campaign, replace(record, revision=seq, payload=marked))

    def model_hash(self) -> str:
        """SHA-256 of everything the policy has learned from the log as it is now."""
        with self._lock, self.store.read() as session:
            self._synced(session)
            return self._model.state_hash()

    def replay_hash(self) -> str:
        """The same, learned again from the whole log without snapshots, by a policy of its own."""
        model = self._fresh_model(apart=True)
        with self._lock, self.store.read() as session:
            world = self._current(session)
            model.sync(session, self._ledger, world, snapshots=False)
        return model.state_hash()

    def _put_world(self, session: Session, world: World) -> None:
        campaign = self._record.campaign
        old = session.blobs(campaign, "world-")
        session.put_blob(campaign, f"world-{world.revision:08d}", world_to_blob(world))
        session.delete_blobs(campaign, [*old, *session.blobs(campaign, SNAPSHOTS), SERVED])

    def disconnect(self) -> None:
        """Release the store's connections and files."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect()

    def __repr__(self) -> str:
        return f"Campaign({self.name!r}, {self.store.masked_url})"
