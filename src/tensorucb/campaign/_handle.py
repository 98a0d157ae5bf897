"""What a process holds of one campaign between calls (`Handle`), and the campaign as one session shows it (`View`)."""

from __future__ import annotations

import copy
import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tensorucb.campaign._catalogue import PLURAL, Catalogue
from tensorucb.campaign._fold import Fold, build_policy
from tensorucb.campaign._ledger import Ledger
from tensorucb.campaign._model import IN_CLOSE, SERVED, SNAPSHOTS, Model, Snapshot, prunable, served_name
from tensorucb.campaign._network import Network, network_from_blob, network_to_blob, seal
from tensorucb.campaign._reach import TrackRecord
from tensorucb.campaign._told import Told
from tensorucb.checks import check_callable, check_text, shown
from tensorucb.errors import FileFormatError, StateError, StoreError, UnknownIdError
from tensorucb.policies import Policy
from tensorucb.store._protocol import CampaignRecord, RoundRecord, Status
from tensorucb.work import Engine, check_engine

if TYPE_CHECKING:
    from tensorucb.store import SQLStore as Store
    from tensorucb.store._session import Session

_log = logging.getLogger("tensorucb.campaign")

ERASING = "purge-pending-"
"""Blobs of this name are marks: somebody was forgotten, but the store's files are not rewritten yet."""

TALLY = "tally"
"""The blob with what `progress` has counted of rounds that have ended."""

_MOST_AHEAD, _GAP = 256, 16  # rounds whose responses are read at once, and that may be left out between two
_PATIENCE = 1.0  # seconds that opening a campaign may wait for readers in order to finish an erasure


def find_campaign(session: Session, store: Store, name: str) -> CampaignRecord:
    """The campaign of that name; an error that lists the others if there is none."""
    record = session.campaign(name)
    if record is None:
        names = ", ".join(shown(other.name) for other in session.campaigns()[:10])
        raise UnknownIdError(f"there is no campaign {shown(name)} in {store.masked_url}; it holds {names or 'none'}.")
    return record


class View:
    """A campaign as one session of its store shows it, from the beginning of the session to its end.

    ``session`` takes ``number``, the campaign's in the store, wherever it wants to know the campaign; ``ledger`` has
    all rounds as the session shows them. ``expired`` are the ids of rounds that this session has closed because their
    deadline had passed.
    """

    def __init__(self, handle: Handle, session: Session, ledger: Ledger) -> None:
        self._handle = handle
        self.session = session
        self.number = handle.record.campaign
        self.ledger = ledger
        self.expired: list[str] = []
        self._ahead: dict[int, Told] = {}
        self._next, self._span = 0, 1

    @cached_property
    def network(self) -> Network:
        """The network and all that is known of its users; read only if it has changed."""
        network, revision = self._handle.network, self.ledger.revision
        if network is None or network.revision != revision:
            data = self.session.blob(self.number, f"world-{revision:08d}")
            if data is None:
                raise FileFormatError(
                    f"campaign {self._handle.record.name!r} has lost its network. "
                    f"Use a backup of {self._handle.store.masked_url}."
                )
            network = self._handle.network = network_from_blob(data, *self.session.users(self.number))
        return network

    def catalogue(self, kind: str) -> Catalogue:
        """The catalogue of a kind, ``product`` or ``strategy``; read only if it has changed."""
        held = self._handle.catalogues
        seen, known = held.get(kind, (-1, Catalogue(kind)))
        if seen != self.ledger.catalogue:
            known = Catalogue.from_blob(kind, self.session.blob(self.number, PLURAL[kind]))
            held[kind] = self.ledger.catalogue, known
        return known

    def catalogues(self) -> tuple[Catalogue, Catalogue]:
        """The catalogues of products and of strategies."""
        return self.catalogue("product"), self.catalogue("strategy")

    def round(self, round_id: str | int) -> RoundRecord:
        """The round of that id or number."""
        if type(round_id) is int or (isinstance(round_id, str) and re.fullmatch("[0-9]{1,18}", round_id)):
            record = self.ledger.rounds.get(int(round_id))
        else:
            record = self.session.round(self.number, check_text("round_id", round_id))
        if record is None:
            raise UnknownIdError(
                f"campaign {shown(self._handle.record.name)} has no round {shown(round_id)}. "
                "Use the id that ask returned, or its number; rounds() lists them."
            )
        return record

    def rounds(self) -> list[RoundRecord]:
        """All rounds by number."""
        return [record for _, record in sorted(self.ledger.rounds.items())]

    def told(self, number: int) -> Told:
        """What a round was told, by edge number; not read again if this process told it last."""
        last = self._handle.last_told
        if last is not None and last[:2] == (number, self.ledger.told_tag(number)):
            return last[2]
        if number not in self._ahead:
            # Whoever goes through rounds in their order reads more and more of them at once.
            follows = self._next <= number < self._next + _GAP
            self._span = min(2 * self._span, _MOST_AHEAD) if follows else 1
            end = max(number, min(number + self._span - 1, self.ledger.last))
            self._ahead = Told.read(self.session, self.number, number, end, self.network)
            self._next = end + 1
        return self._ahead[number]

    def leave_out(self, record: RoundRecord, reason: str) -> None:
        """A round cannot be learned: models of this process go on without it."""
        self.ledger = self.ledger.without(record, reason)
        self._handle.ledger = self._handle.ledger.without(record, reason)

    def append(self, kind: str, round_number: int | None, payload: Mapping[str, Any], now: float) -> int:
        """Append an event to the log; returns its number. From here on, methods need a write transaction."""
        return self.session.append_event(self.number, kind, round_number, payload, now)

    def close_due(self, now: float) -> None:
        """Close the rounds whose deadline has passed."""
        self.expired = [self.finish(record, "expired", now).id for record in self.ledger.due(now)]
        if self.expired:
            self.ledger = self.ledger.followed(self.session)

    def finish(self, record: RoundRecord, kind: str, now: float) -> RoundRecord:
        """End a round; ``kind`` is ``closed``, ``expired`` or ``cancelled``."""
        seq = self.append(kind, record.number, {"id": record.id}, now)
        status: Status = "cancelled" if kind == "cancelled" else "closed"
        moment = record.deadline if kind == "expired" else now
        ended = replace(record, status=status, closed=moment, revision=seq)
        self.session.put_round(self.number, ended)
        return ended

    def put_network(self, network: Network) -> None:
        """Replace the network; the model is learned again on the new one."""
        self._handle.tallied = 0
        old = self.session.blobs(self.number, "world-")
        self.session.put_blob(self.number, f"world-{network.revision:08d}", network_to_blob(network))
        self.session.delete_blobs(self.number, [*old, *self.session.blobs(self.number, SNAPSHOTS), SERVED, TALLY])


class Handle:
    """What a process holds of one campaign between calls. Everything in it can be read or learned again from the log.

    All work on a campaign goes through a `View`, which `read` and `change` give for the length of one session. Threads
    share all of it. ``ledger``, ``network``, ``catalogues``, ``last_told`` and ``counted`` are what was read last: each
    is one reference to something that never changes, and a `View` knows whether it is up to date, so that nobody has to
    wait. Only ``model`` changes as it learns: whoever learns or chooses with it holds ``lock``. A thread that holds it
    may begin a write transaction, never the other way round.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        policy: Policy | None,
        clock: Callable[[], float],
        engine: Engine | None = None,
    ) -> None:
        self.store, self.engine = store, check_engine(engine)
        self.clock = check_callable("clock", clock, "a function that gives unix seconds")
        with store.read() as session:
            self.record = find_campaign(session, store, name)
        self._policy = policy
        self.lock = threading.RLock()
        self.ledger = Ledger(self.record.campaign)
        self.network: Network | None = None
        self.catalogues: dict[str, tuple[int, Catalogue]] = {}
        self.last_told: tuple[int, tuple[int, int], Told] | None = None
        self.track = TrackRecord()
        self.counted: Any = None  # what `progress` has counted of rounds that have ended
        self.tallied = 0  # of how many rounds the store has the counts
        self.reported: Any = None  # the last event of the log, and the progress up to there
        self.model = self.fresh_model()
        self._here = threading.local()
        # If somebody reads the store, status() says what is left to do, and the next one who opens it tries again.
        with suppress(StoreError):
            self.purge(_PATIENCE)

    @contextmanager
    def read(self) -> Iterator[View]:
        """The campaign as it is now; within the block, all that this thread reads is of the same moment."""
        view: View | None = getattr(self._here, "view", None)
        if view is not None:
            yield view
            return
        before = self.ledger  # taken first, so that the session shows at least what it has
        with self.store.read() as session:
            self._here.view = view = View(self, session, self._follow(session, before))
            try:
                yield view
            finally:
                self._here.view = None

    def _follow(self, session: Session, before: Ledger) -> Ledger:
        """The rounds as a session shows them, when it has changed nothing yet; the next call goes on from there."""
        ledger = before.followed(session)
        if ledger.seq > self.ledger.seq:
            self.ledger = ledger
        return ledger

    @contextmanager
    def write(self, now: float | None = None) -> Iterator[View]:
        """The same in a write transaction; with a time, rounds due then are closed at its beginning.

        A change that is refused takes this back too: whoever comes next closes them.
        """
        before = self.ledger
        with self.store.write() as session:
            view = View(self, session, self._follow(session, before))
            if now is not None:
                view.close_due(now)
            yield view
        if view.expired:
            _log.info("campaign %r: %d rounds closed by their deadline", self.record.name, len(view.expired))

    @contextmanager
    def change(self, now: float) -> Iterator[View]:
        """A write transaction that closes due rounds, and does not read the network while others wait."""
        with self.read() as view:
            _ = view.network
        with self.write(now) as view:
            yield view

    @contextmanager
    def learned(self) -> Iterator[View]:
        """The campaign as it is now, with a model that has learned all of it; who else needs the model waits."""
        with self.lock, self.read() as view:
            self.model.sync(view)
            yield view

    def close(self, round_id: str | int) -> tuple[Network, RoundRecord]:
        """Close a round and learn it; closing again changes nothing."""
        now = self.clock()
        with self.change(now) as view:
            network, record = view.network, view.round(round_id)
            if record.status == "cancelled":
                raise StateError(f"round {round_id} was cancelled; there is nothing to close.")
            was_open = record.status == "open"
            if was_open:
                record = view.finish(record, "closed", now)
        if was_open:
            _log.info("campaign %r: round %d closed", self.record.name, record.number)
        self.learn(IN_CLOSE)
        return network, record

    def cancel(self, round_id: str | int) -> tuple[Network, RoundRecord]:
        """Cancel a round that is open or could not be learned; cancelling again changes nothing."""
        now = self.clock()
        with self.change(now) as view:
            record = view.round(round_id)
            left_out = record.id in view.ledger.quarantined()
            if record.status == "closed" and not left_out:
                raise StateError(
                    f"round {round_id} is closed, or its deadline has passed: its responses are learned, and it cannot "
                    "be cancelled."
                )
            if record.status == "open" or left_out:
                record = view.finish(record, "cancelled", now)
            return view.network, record

    def close_due(self, now: float) -> list[str]:
        """Close the rounds whose deadline has passed; returns their ids."""
        with self.read() as view:
            due = view.ledger.due(now)
        if not due:
            return []
        with self.write(now) as view:
            return view.expired

    def fresh_model(self, *, apart: bool = False) -> Model:
        """A model that has learned nothing, with the caller's policy object if there is one; ``apart`` with a copy."""
        settings = self.record.settings
        spec = settings["policy"]

        def another() -> Policy:
            return build_policy(spec, None) if spec["own"] else copy.deepcopy(self._policy)  # type: ignore[return-value]

        policy = another() if apart else build_policy(spec, self._policy)
        return Model(policy, another, spec, settings["seed"], settings["snapshot_every"])

    def fresh_fold(self) -> Fold:
        """A fold that has learned nothing, with a policy of its own, for looking at the past."""
        return Fold(self.fresh_model(apart=True).policy, int(self.record.settings["seed"]))

    def learn(self, budget: int | None = None) -> int:
        """Bring the model up to date with the log, at most ``budget`` of work at a time, and store due snapshots.

        Returns how many rounds it learned.
        """
        with self.lock:
            with self.read() as view:
                due = self.model.sync(view, budget=budget)
            if self.model.replayed:
                _log.info("campaign %r: %d rounds learned", self.record.name, self.model.replayed)
            self.keep(due, view.ledger)
            return self.model.replayed

    def keep(self, due: Sequence[Snapshot], learned: Ledger) -> None:
        """Store snapshots, and which rounds of a ledger could not be learned; the caller holds the lock."""
        model, number = self.model, self.record.campaign
        if not due and not model.damaged and not learned.unlearned:
            return
        now = self.clock()
        with self.write() as view:
            session = view.session
            # Every other process has to leave out the rounds that could not be learned here.
            for at, reason in sorted(learned.unlearned.items()):
                record = learned.rounds[at]
                if view.ledger.rounds.get(at) != record:
                    continue  # it has changed since, and is tried again
                seq = view.append("quarantined", at, {"id": record.id, "reason": reason}, now)
                marked = {**record.payload, "quarantined": reason}
                session.put_round(number, replace(record, revision=seq, payload=marked))
            session.delete_blobs(number, model.damaged)
            if model.serves(view.network):
                for name, data in due:
                    session.put_blob(number, name, data)
                if model.served in dict(due):
                    session.put_blob(number, SERVED, seal(SERVED, {"name": model.served}, {}))
            names, served = session.blobs(number, SNAPSHOTS), served_name(session, number)
            session.delete_blobs(number, prunable(names, model.hashes(view), served))
        model.damaged.clear()

    def model_hash(self) -> str:
        """SHA-256 of everything the policy has learned from the log as it is now."""
        with self.learned():
            return self.model.state_hash()

    def replay_hash(self) -> str:
        """The same, learned again from the whole log without snapshots, by a policy of its own."""
        model = self.fresh_model(apart=True)
        with self.lock, self.read() as view:
            self.last_told = None  # nothing that this process remembers takes part
            model.sync(view, snapshots=False)
        return model.state_hash()

    def purge(self, timeout: float | None = None) -> None:
        """Rewrite the store's files if somebody who was forgotten may still be in them."""
        with self.store.read() as session:
            # Only these: somebody else may forget while this purge runs, and their mark must outlive it.
            marks = session.blobs(self.record.campaign, ERASING)
        if marks:
            self.store.purge(timeout)
            with self.store.write() as session:
                session.delete_blobs(self.record.campaign, marks)
