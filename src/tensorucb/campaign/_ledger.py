"""What a campaign object remembers of the store between calls, brought up to date from the log alone.

Everything that a call needs of all rounds (what the model knows of them, the open ones, the next number) is kept as
rounds come and change, so that a call costs what is new and not what is there. A ledger never changes once it is made,
so threads share it: what has changed since makes a new one.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tensorucb.campaign._round import Round
from tensorucb.errors import UnknownIdError
from tensorucb.store._protocol import EventRecord

if TYPE_CHECKING:
    from tensorucb.store._session import Session

Pair = tuple[int, int]
"""A round's number and its revision, the event up to which it was told: what the round taught at that moment."""

# Events of these kinds change a catalogue, or what people said about contacts.
_CATALOGUE = frozenset({"products_added", "strategies_added", "costs_set"})
_PEOPLE = frozenset({"opted_out", "opted_in"})
# Events of these kinds leave every round as it was.
_WITHOUT_ROUND = frozenset({"created", "contradiction"}) | _CATALOGUE | _PEOPLE
# These say what the model knows: it has learned some more rounds, or these alone.
LEARNED, RELEARNED = "learned", "relearned"
# After events of these kinds everything is read again.
_LOADING = frozenset({"users_added", "forgotten", "history_imported"})


def place(record: Round) -> Pair:
    """Where a round stands in the order of learning: imported history first, then by number."""
    return int(record.kind != "history"), record.number


@dataclass(eq=False)
class Ledger:
    """Rounds by number, the log's last event seen, the revision of the network, and who was told what last.

    ``changed``, ``catalogue`` and ``people`` are the last events that changed a round or the network, a catalogue, or
    what people said about contacts.

    ``loaded`` is the event up to which everything was read at once. ``learned`` is what the model knows, in order, and
    ``learned_at`` the event that says so. ``unlearned`` holds the rounds that this object could not learn and has yet
    to report to the log, with the reason.
    """

    campaign: int
    seq: int = 0
    revision: int = 0
    changed: int = 0
    catalogue: int = 0
    people: int = 0
    rounds: dict[int, Round] = field(default_factory=dict)
    loaded: int = 0
    told: dict[int, int] = field(default_factory=dict)
    learned: list[Pair] = field(default_factory=list)
    learned_at: int = 0
    unlearned: dict[int, str] = field(default_factory=dict)
    last: int = 0
    _open: set[int] = field(default_factory=set)
    _requests: dict[str, int] = field(default_factory=dict)
    _order: list[Pair] = field(default_factory=list)

    def followed(self, session: Session) -> Ledger:
        """The ledger of the campaign as a session shows it; this one if the log has not grown since."""
        # The last event that was seen comes again: if it is gone, so is the campaign.
        events = session.events(self.campaign, (self.seq or session.last_event(self.campaign)) - 1)
        if not events:
            raise UnknownIdError("this campaign has been deleted; list the campaigns to see which there are.")
        if not self.seq or any(event.kind in _LOADING for event in events[1:]):
            return Ledger._read(session, self.campaign, events[-1].seq)
        if len(events) == 1:
            return self
        new = self._copy()
        for event in events[1:]:
            if event.kind == "told" and event.round is not None:
                new.told[event.round] = event.seq
            if event.kind in _CATALOGUE:
                new.catalogue = event.seq
            if event.kind in _PEOPLE:
                new.people = event.seq
            new._learn(event)
            changes = event.kind not in _WITHOUT_ROUND
            if event.kind == "told":
                changes = bool(event.payload["late"] or event.payload.get("amounts"))
            if changes and event.round is not None:
                row = session.round(self.campaign, event.round)
                if row is not None:
                    new._put(Round.from_row(row))
                    new.changed = event.seq
        new.seq = events[-1].seq
        return new

    @classmethod
    def _read(cls, session: Session, campaign: int, seq: int) -> Ledger:
        """Everything, read from the store."""
        names = session.blobs(campaign, "world-")
        revision = int(names[-1].removeprefix("world-"))
        new = cls(campaign, seq=seq, revision=revision, changed=seq, catalogue=seq, people=seq, loaded=seq)
        for row in session.rounds(campaign):
            new._put(Round.from_row(row))
        for event in session.events(campaign, kinds=(LEARNED, RELEARNED)):
            new._learn(event)
        return new

    def _copy(self) -> Ledger:
        """The same, to be changed before anybody else sees it."""
        return replace(
            self,
            rounds=dict(self.rounds),
            told=dict(self.told),
            unlearned=dict(self.unlearned),
            _open=set(self._open),
            _requests=dict(self._requests),
            _order=list(self._order),
        )

    def _learn(self, event: EventRecord) -> None:
        """What the model knows after an event."""
        if event.kind in (LEARNED, RELEARNED):
            pairs = [(int(number), int(revision)) for number, revision in event.payload["rounds"]]
            self.learned = pairs if event.kind == RELEARNED else [*self.learned, *pairs]
            self.learned_at = event.seq

    def told_tag(self, number: int) -> tuple[int, int]:
        """Changes whenever somebody tells this round something new."""
        return self.loaded, self.told.get(number, 0)

    def _put(self, record: Round) -> None:
        number, before = record.number, self.rounds.get(record.number)
        if before is not None and before.revision != record.revision:
            # It has changed since it could not be learned: it is tried again, unless the log says not to.
            self.unlearned.pop(number, None)
        self.rounds[number] = record
        self.last = max(self.last, number)
        if record.request_id is not None:
            self._requests[record.request_id] = number
        (self._open.add if record.status == "open" else self._open.discard)(number)
        self._rank(record)

    def _rank(self, record: Round) -> None:
        """Put a round into the order of learning, or take it out."""
        closed = record.status == "closed" and record.quarantined is None
        wanted, key = closed and record.number not in self.unlearned, place(record)
        at = bisect_left(self._order, key)
        held = at < len(self._order) and self._order[at] == key
        if wanted and not held:
            self._order.insert(at, key)
        elif held and not wanted:
            del self._order[at]

    def holds(self, record: Round) -> bool:
        """Whether the round is still as it was."""
        held = self.rounds.get(record.number)
        return held is not None and held.revision == record.revision

    def without(self, record: Round, reason: str) -> Ledger:
        """The same without a round that cannot be learned, if it is as it was; `unlearned` keeps it for the log."""
        if not self.holds(record):
            return self
        new = self._copy()
        new.unlearned[record.number] = reason
        new._rank(record)
        return new

    def in_order(self) -> list[Pair]:
        """All rounds that can be learned, as they are now: imported history first, then by number."""
        return [(number, self.rounds[number].revision) for _, number in self._order]

    def kept(self) -> list[Pair]:
        """The rounds that the model knows, as it knows them, and then those that are new."""
        place_of = dict(self.learned)
        can = {number for _, number in self._order}
        old = [pair for pair in self.learned if pair[0] in can]
        return old + [pair for pair in self.in_order() if pair[0] not in place_of]

    def next_number(self) -> int:
        """The number of the next round."""
        return self.last + 1

    def sizes(self) -> list[int] | None:
        """Lengths of the feature vectors of the first context that is or will be learned; None before there is one."""
        for number in range(1, self.last + 1):
            record = self.rounds.get(number)
            if record is not None and record.status != "cancelled":
                return record.sizes
        return None

    def opened_by(self, request_id: str) -> Round | None:
        """The round that this request has opened, if there is one."""
        number = self._requests.get(request_id)
        return None if number is None else self.rounds[number]

    def due(self, now: float) -> list[Round]:
        """Open rounds whose deadline has passed."""
        records = (self.rounds[number] for number in sorted(self._open))
        return [r for r in records if r.deadline is not None and r.deadline <= now]

    def with_due_closed(self, now: float) -> Ledger:
        """The same with the open rounds whose deadline has passed as closed ones; the store knows nothing of it."""
        due = self.due(now)
        if not due:
            return self
        new = self._copy()
        for record in due:
            new._put(replace(record, status="closed", closed=record.deadline))
        return new

    def quarantined(self) -> dict[str, str]:
        """Ids of the closed rounds that could not be learned, and why."""
        marked = {r.number: r.quarantined for r in self.rounds.values() if r.quarantined is not None}
        reasons = {**marked, **self.unlearned}
        return {self.rounds[n].id: reasons[n] for n in sorted(reasons) if self.rounds[n].status == "closed"}
