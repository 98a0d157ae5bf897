"""What a process holds of one campaign between calls (`Handle`), and the campaign as one session shows it (`View`)."""

from __future__ import annotations

import copy
import logging
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tensorucb.campaign._catalogue import PLURAL, Catalogue
from tensorucb.campaign._documents import Kept
from tensorucb.campaign._ledger import LEARNED, Ledger, Pair
from tensorucb.campaign._model import (
    SNAPSHOTS,
    Caller,
    Model,
    build_policy,
    count_of,
    learns_again,
    prunable,
    snapshot_name,
)
from tensorucb.campaign._network import Network, network_from_blob, network_to_blob
from tensorucb.campaign._round import Round
from tensorucb.campaign._segments import UserColumns
from tensorucb.campaign._told import each_once
from tensorucb.checks import check_callable, check_text, shown
from tensorucb.errors import FileFormatError, StoreError, UnknownIdError, call
from tensorucb.files import unpack_state
from tensorucb.policies import Policy
from tensorucb.store._protocol import CampaignRecord, Responses, Status
from tensorucb.work import Engine, check_engine

if TYPE_CHECKING:
    from tensorucb.store import SQLStore as Store
    from tensorucb.store._session import Session

_log = logging.getLogger("tensorucb.campaign")
T = TypeVar("T")
_Kept = TypeVar("_Kept", bound=Kept)

ERASING = "purge-pending-"
"""Blobs of this name are marks: somebody was forgotten, but the store's files are not rewritten yet."""

TALLY = "tally"
"""The blob with what `progress` has counted of rounds that have ended."""

_MOST_AHEAD, _GAP = 256, 16  # rounds whose responses are read at once, and that may be left out between two
_REMEMBERED = 32  # rounds of which a process remembers what they were told
_PATIENCE = 1.0  # seconds that opening a campaign may wait for readers in order to finish an erasure


def find_campaign(session: Session, store: Store, name: str) -> CampaignRecord:
    """The campaign of that name; an error that lists the others if there is none."""
    record = session.campaign(name)
    if record is None:
        names = ", ".join(shown(other.name) for other in session.campaigns()[:10])
        raise UnknownIdError(f"there is no campaign {shown(name)} in {store.masked_url}; it holds {names or 'none'}.")
    return record


class Memory:
    """What a process has read or counted of a campaign lately, so that the next call need not.

    A value has a kind, perhaps a key, and the state of the campaign that it was made of: for another state it is made
    again. Of each kind the last ``most`` keys stay. Values never change, they are only replaced, so that threads share
    them without waiting.
    """

    def __init__(self) -> None:
        self._kinds: dict[str, dict[Any, tuple[Any, Any]]] = {}

    def keep(self, kind: str, state: Any, value: Any, key: Any = None, most: int = 1) -> None:
        """Remember a value, as the newest of its kind."""
        others = [(other, held) for other, held in self._kinds.get(kind, {}).items() if other != key]
        self._kinds[kind] = dict([*others, (key, (state, value))][-most:])

    def get(self, kind: str, state: Any, key: Any = None) -> Any:
        """The value for this state; None if it is not known."""
        held = self._kinds.get(kind, {}).get(key)
        return held[1] if held is not None and held[0] == state else None

    def cached(self, kind: str, state: Any, make: Callable[[], T], key: Any = None, most: int = 1) -> T:
        """The value for this state, made only if it is not known."""
        held = self._kinds.get(kind, {}).get(key)
        if held is None or held[0] != state:
            held = state, make()
            self.keep(kind, *held, key, most)
        value: T = held[1]
        return value

    def clear(self) -> None:
        """Forget everything."""
        self._kinds = {}


class View:
    """A campaign as one session of its store shows it, from the beginning of the session to its end.

    ``session`` takes ``number``, the campaign's in the store, wherever it wants to know the campaign; ``ledger`` has
    all rounds as the session shows them. ``expired`` are the ids of rounds that this session has closed because their
    deadline had passed, ``told_here`` is what rounds were told when it has told them more, and by which event.
    """

    def __init__(self, handle: Handle, session: Session, ledger: Ledger) -> None:
        self.handle = handle
        self.session = session
        self.number = handle.record.campaign
        self.memory = handle.memory
        self.ledger = ledger
        self.expired: list[str] = []
        self.told_here: dict[int, tuple[int, Responses]] = {}
        self._ahead: dict[int, Responses] = {}

    @cached_property
    def network(self) -> Network:
        """The network and all that is known of its users; read only if it has changed."""
        return self.memory.cached("network", self.ledger.revision, self._read_network)

    def _read_network(self) -> Network:
        data = self.session.blob(self.number, f"world-{self.ledger.revision:08d}")
        if data is None:
            raise FileFormatError(
                f"campaign {self.handle.record.name!r} has lost its network. "
                f"Use a backup of {self.handle.store.masked_url}."
            )
        return network_from_blob(data, self.session.users(self.number))

    def kept(self, name: str, kind: type[_Kept]) -> _Kept | None:
        """What the campaign keeps in the blob of this name; None if that is nothing."""
        data = self.session.blob(self.number, name)
        if data is None:
            return None
        return kind.from_arrays(*unpack_state(data, name, f"the campaign's {name.replace('_', ' ')}"))

    @property
    def user_columns(self) -> UserColumns | None:
        """Names of users and the columns that split them; None if the campaign keeps none; read only if changed."""
        return self.memory.cached("columns", self.ledger.revision, lambda: self.kept("user_columns", UserColumns))

    def name(self, row: int) -> str | None:
        """What a user is called; None if that is not known."""
        return None if self.user_columns is None else self.user_columns.names[row]

    def catalogue(self, kind: str) -> Catalogue:
        """The catalogue of a kind, ``product`` or ``strategy``; read only if it has changed."""
        return self.memory.cached(
            "catalogue", self.ledger.catalogue, lambda: self.kept(PLURAL[kind], Catalogue) or Catalogue(kind), kind, 2
        )

    def catalogues(self) -> tuple[Catalogue, Catalogue]:
        """The catalogues of products and of strategies."""
        return self.catalogue("product"), self.catalogue("strategy")

    def round(self, round_id: str | int) -> Round:
        """The round of that id or number."""
        text = str(round_id) if type(round_id) is int else check_text("round_id", round_id)
        digits = text.partition("-")[0]  # an id begins with the round's number
        record = self.ledger.rounds.get(int(digits)) if re.fullmatch("[0-9]{1,18}", digits) else None
        if record is None or text not in (digits, record.id):
            raise UnknownIdError(
                f"campaign {shown(self.handle.record.name)} has no round {shown(round_id)}.",
                advice=("Use the id that ", call("ask"), " gave, or its number; ", call("rounds"), " lists them."),
            )
        return record

    def rounds(self) -> list[Round]:
        """All rounds by number."""
        return self.ledger.by_number

    def told(self, number: int, revision: int | None = None) -> Responses:
        """What a round was told, each response once, up to a revision of it or until now.

        It is not read again as long as nobody else tells the round something.
        """
        if revision is not None and revision != self.ledger.rounds[number].revision:
            return each_once(self.session.responses(self.number, number, number, revision)[number])
        if number in self.told_here:
            return self.told_here[number][1]
        told: Responses | None = self.memory.get("told", self.ledger.told_tag(number), key=number)
        if told is not None:
            return told
        if number not in self._ahead:
            # Whoever goes through rounds in their order reads more and more of them at once.
            last = max(self._ahead, default=0)
            more = min(2 * len(self._ahead), _MOST_AHEAD) if last < number <= last + _GAP else 0
            end = max(number, min(number + more, self.ledger.next_number() - 1))
            rounds = self.session.responses(self.number, number, end)
            self._ahead = {at: each_once(rows) for at, rows in rounds.items()}
        return self._ahead[number]

    def leave_out(self, pair: Pair, reason: str) -> None:
        """A round cannot be learned: models of this process go on without it, until there is more to learn from it."""
        for place in (self, self.handle):
            place.ledger = replace(place.ledger, unlearned={**place.ledger.unlearned, pair: reason})

    def append(self, kind: str, round_number: int | None, payload: Mapping[str, Any], now: float) -> int:
        """Append an event to the log; returns its number. From here on, methods need a write transaction."""
        return self.session.append_event(self.number, kind, round_number, payload, now)

    def put_round(self, record: Round) -> None:
        """Store a round, or another state of it."""
        self.session.put_round(self.number, record.to_row())

    def close_due(self, now: float) -> None:
        """Close the rounds whose deadline has passed."""
        self.expired = [self.finish(record, "expired", now).id for record in self.ledger.due(now)]
        if self.expired:
            self.follow()

    def follow(self) -> None:
        """Take in what this session itself has written."""
        self.ledger = self.ledger.followed(self.session)

    def remember(self, number: int, seq: int, told: Responses) -> None:
        """What a round has been told now; ``seq`` is the event, 0 if nothing was new."""
        self.told_here[number] = seq, told

    def finish(self, record: Round, kind: str, now: float) -> Round:
        """End a round; ``kind`` is ``closed``, ``expired`` or ``cancelled``."""
        seq = self.append(kind, record.number, {"id": record.id}, now)
        status: Status = "cancelled" if kind == "cancelled" else "closed"
        moment = record.deadline if kind == "expired" else now
        ended = replace(record, status=status, closed=moment, revision=seq)
        self.put_round(ended)
        return ended

    def put_network(self, network: Network) -> None:
        """Replace the network; the model is learned again on the new one."""
        old = self.session.blobs(self.number, "world-")
        self.session.put_blob(self.number, f"world-{network.revision:08d}", network_to_blob(network))
        self.session.delete_blobs(self.number, [*old, *self.session.blobs(self.number, SNAPSHOTS), TALLY])


class Progress(NamedTuple):
    """What a model has learned that the log may not say yet.

    ``before`` are the rounds as the model saw them, ``pairs`` is what it knows. ``snapshot`` is a copy of it, if one is
    due, and ``damaged`` names copies that cannot be read.
    """

    before: Ledger
    pairs: list[Pair]
    snapshot: bytes | None
    damaged: frozenset[str]


_Job = tuple[Callable[[View, float], Any], Future[Any]]
"""Work that waits for its turn to write; its result is there once it is durable."""


class Handle:
    """What a process holds of one campaign between calls. Everything in it can be read or learned again from the log.

    All work on a campaign goes through a `View`, which `read` and `change` give for the length of one session. Threads
    share all of it. ``ledger`` and what is in ``memory`` were read last: each is one reference to something that never
    changes, and a `View` knows whether it is up to date, so that nobody has to wait. Who counts rounds for a report
    holds ``counting``, within a session, so that several who ask at once count once. Only ``model`` changes as it
    learns: whoever learns or chooses with it holds ``lock``. A thread that holds it may begin a write transaction,
    never the other way round. A long past is learned again in a model apart, which then takes the place of ``model``.
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
        self._relearning = threading.Lock()
        self._turn = threading.Lock()
        self._jobs: deque[_Job] = deque()  # of those who wait for the turn
        self.ledger = Ledger(self.record.campaign)
        self.memory = Memory()
        self.counting = threading.RLock()
        self.model = self.fresh_model()
        self._relearned: Model | None = None  # what was learned apart, until it takes the place of ``model``
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
        for number, (seq, told) in view.told_here.items():
            # On the next call the log says whether anybody else has told the round something since.
            loads, last = view.ledger.told_tag(number)
            self.memory.keep("told", (loads, seq or last), told, number, _REMEMBERED)
        if view.expired:
            _log.info("campaign %r: %d rounds closed by their deadline", self.record.name, len(view.expired))

    def write_together(self, work: Callable[[View, float], T]) -> T:
        """Do some work, given a view and the time, in a write transaction shared with the threads that wait meanwhile.

        They wait for the disk once. Each gets its answer when all is durable. If one is refused, nothing is written,
        and each goes on by itself.
        """
        job: Future[T] = Future()
        self._jobs.append((work, job))
        with self._turn:
            if not job.done():
                waiting = [self._jobs.popleft() for _ in range(len(self._jobs))]
                jobs = [(work, job), *(other for other in waiting if other[1] is not job)]
                try:
                    self._do(jobs)
                except Exception:
                    if len(jobs) == 1:
                        raise
                    self._do(jobs[:1])
        return job.result()

    def _do(self, jobs: Sequence[_Job]) -> None:
        """Do the work of all in one transaction; where the store itself fails, it fails for all of them."""
        now = self.clock()
        results: list[Any] = []
        try:
            with self.write(now) as view:
                for work, _ in jobs:
                    if results:
                        view.follow()
                    results.append(work(view, now))
        except StoreError as error:
            for _, job in jobs:
                job.set_exception(error)
            return
        for (_, job), result in zip(jobs, results, strict=True):
            job.set_result(result)

    @contextmanager
    def change(self, now: float) -> Iterator[View]:
        """A write transaction that closes due rounds, and does not read the network while others wait."""
        with self.read() as view:
            _ = view.network
        with self.write(now) as view:
            yield view

    @contextmanager
    def learned(self) -> Iterator[View]:
        """The campaign as it is now, with the model that the next ask chooses by; who else needs the model waits."""
        with self.lock, self.read() as view:
            self.follow(view)
            yield view

    def follow(self, view: View) -> None:
        """Bring the model to what the next ask chooses by; the caller holds the lock."""
        known, other = view.ledger.known, self._relearned
        # One that was learned again takes over when the log says that it was.
        if other is not None and other.leads_to(view.network, known) and not self.model.leads_to(view.network, known):
            self.model = other
        self.model.follow(view, known)

    def fresh_model(self, *, apart: bool = False, snapshots: bool = True) -> Model:
        """A model that has learned nothing, with the caller's policy object if there is one; ``apart`` with a copy."""
        spec = self.record.settings["policy"]
        policy = self._policy
        if apart and not spec["own"]:
            policy = copy.deepcopy(policy)
        return Model(build_policy(spec, policy), int(self.record.settings["seed"]), snapshots)

    def learn(self, caller: Caller) -> int:
        """Bring the model up to date with the log, and say so there; returns how many rounds it learned.

        The lock comes before the session in which it is held: a session that waits for it would keep `forget` from the
        store's files.
        """
        with self._relearning:
            with self.read() as view:
                again = learns_again(view, caller)
                if again:
                    model = self.fresh_model(apart=True)
                    model.follow(view, view.ledger.in_order)
                    learned, progress = model.replayed, self.progress(view, model)
                    self._relearned = model
            if not again:
                if caller == "tell":
                    return 0
                with self.lock, self.read() as view:
                    self.follow(view)
                    learned, progress = self.model.replayed, self.progress(view, self.model)
            if learned:
                _log.info("campaign %r: %d rounds learned", self.record.name, learned)
            self.keep(progress)
            return learned

    def progress(self, view: View, model: Model) -> Progress:
        """What a model has learned by now; nobody else may use it meanwhile."""
        every = int(self.record.settings["snapshot_every"])
        names = view.session.blobs(view.number, SNAPSHOTS)
        newest = max((count_of(name) for name in names if name not in model.damaged), default=0)
        snapshot = None
        if len(model.pairs) // every > newest // every or (model.slow and len(model.pairs) != newest):
            snapshot = model.to_blob(view)
        damaged = frozenset(model.damaged)
        model.damaged.clear()
        return Progress(view.ledger, model.pairs, snapshot, damaged)

    def keep(self, progress: Progress) -> None:
        """Write down what a model has learned, and which rounds could not be learned."""
        before, pairs, snapshot, damaged = progress
        unreported = before.unreported()
        if pairs == before.learned and snapshot is None and not damaged and not unreported:
            return
        now = self.clock()
        with self.write() as view:
            session, number, ledger = view.session, view.number, view.ledger
            session.delete_blobs(number, damaged)
            same_network = ledger.revision == before.revision
            # Every other process has to leave out the rounds that could not be learned here. One that has changed
            # since, or whose users have other rows now, is tried again.
            for pair, reason in unreported.items() if same_network else ():
                record = ledger.rounds[pair[0]]
                if record.pair == pair:
                    seq = view.append("quarantined", record.number, {"id": record.id, "reason": reason}, now)
                    view.put_round(replace(record, revision=seq, quarantined=reason))
            event = ledger.learned_at
            if pairs != before.learned:
                if event != before.learned_at and replace(ledger, learned=pairs).behind >= ledger.behind:
                    return  # another process was quicker
                old = ledger.learned
                same = 0
                while same < min(len(old), len(pairs)) and old[same] == pairs[same]:
                    same += 1
                rounds: dict[str, Any] = {"rounds": pairs[same:]}
                if same < len(old):
                    rounds["kept"] = same
                    # Copies of what is not known any more are of no use.
                    stale = [name for name in session.blobs(number, SNAPSHOTS) if count_of(name) > same]
                    session.delete_blobs(number, stale)
                event = view.append(LEARNED, None, rounds, now)
            if same_network:
                if snapshot is not None:
                    session.put_blob(number, snapshot_name(event, len(pairs)), snapshot)
                session.delete_blobs(number, prunable(session.blobs(number, SNAPSHOTS)))

    def model_hash(self) -> str:
        """SHA-256 of everything that the model knows: what the log says, and new rounds."""
        with self.learned():
            return self.model.state_hash()

    def replay_hash(self) -> str:
        """The same, learned again from the log without snapshots, by a policy of its own."""
        model = self.fresh_model(apart=True, snapshots=False)
        with self.lock, self.read() as view:
            self.memory.clear()  # nothing that this process remembers takes part
            model.follow(view, view.ledger.known)
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
