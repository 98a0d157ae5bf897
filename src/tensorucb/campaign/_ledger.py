"""What a campaign object remembers of the store between calls, brought up to date from the log alone.

Everything that a call needs of all rounds (the order of learning with its hashes, the open rounds, the next number)
is kept as rounds come and change, so that a call costs what is new and not what is there.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tensorucb.campaign._round import Round

if TYPE_CHECKING:
    from tensorucb.store._session import Session

Pair = tuple[int, int]
"""A round's number and its revision, which stands for what the round taught at that moment."""

# Events of these kinds leave every round as it was.
_WITHOUT_ROUND = frozenset({"created", "products_added", "strategies_added", "contradiction"})


def place(record: Round) -> Pair:
    """Where a round stands in the order of learning: imported history first, then by number."""
    return int(record.kind != "history"), record.number


def link(before: str, pair: Pair) -> str:
    """The hash of a model that has learned one more round than the model of hash ``before``."""
    return hashlib.sha256(f"{before}:{pair[0]}:{pair[1]}".encode()).hexdigest()


@dataclass
class Ledger:
    """Rounds by number, the log's last event seen, the revision of the network, and who was told what last.

    ``unlearned`` holds the rounds that this object could not learn and has yet to report to the log, with the reason.
    """

    campaign: int
    seq: int = -1
    revision: int = 0
    catalogue: int = 0
    rounds: dict[int, Round] = field(default_factory=dict)
    loads: int = 0
    told: dict[int, int] = field(default_factory=dict)
    unlearned: dict[int, str] = field(default_factory=dict)
    last: int = 0
    _open: set[int] = field(default_factory=set)
    _requests: dict[str, int] = field(default_factory=dict)
    _order: list[Pair] = field(default_factory=list)
    _hashes: list[str] = field(default_factory=list)
    _basis: str = ""

    def refresh(self, session: Session) -> None:
        """Follow the log. Call it at the beginning of a transaction, so that nothing of a later rollback stays."""
        if self.seq < 0:
            self._load(session)
            return
        for event in session.events(self.campaign, self.seq):
            if event.kind in ("users_added", "forgotten", "history_imported"):
                self._load(session)
                return
            if event.kind == "told" and event.round is not None:
                self.told[event.round] = event.seq
            if event.kind in ("products_added", "strategies_added"):
                self.catalogue = event.seq
            changes = event.kind not in _WITHOUT_ROUND and not (event.kind == "told" and not event.payload["late"])
            if changes and event.round is not None:
                row = session.round(self.campaign, str(event.payload["id"]))
                if row is not None:
                    self._put(Round.from_row(row))
            self.seq = event.seq

    def reload(self) -> None:
        """Read everything again at the next `refresh`: the transaction that was followed last did not take place."""
        self.seq = -1

    def told_tag(self, number: int) -> tuple[int, int]:
        """Changes whenever somebody tells this round something new."""
        return self.loads, self.told.get(number, 0)

    def _load(self, session: Session) -> None:
        self.loads, self.told = self.loads + 1, {}
        self.rounds, self.unlearned, self.last = {}, {}, 0
        self._open, self._order, self._hashes = set(), [], []
        self._requests = {}
        for row in session.rounds(self.campaign):
            self._put(Round.from_row(row))
        names = session.blobs(self.campaign, "world-")
        self.revision = int(names[-1].removeprefix("world-"))
        # A round's revision is an event's number, so that most of a long log need not be read.
        known = max((record.revision for record in self.rounds.values()), default=0)
        later = session.events(self.campaign, max(self.seq, known))
        self.seq = later[-1].seq if later else max(self.seq, known)
        self.catalogue = self.seq

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
        """Put a round into the order of learning, or take it out; hashes from there on are computed again."""
        closed = record.status == "closed" and record.quarantined is None
        wanted, key = closed and record.number not in self.unlearned, place(record)
        at = bisect_left(self._order, key)
        held = at < len(self._order) and self._order[at] == key
        if wanted and not held:
            self._order.insert(at, key)
        elif held and not wanted:
            del self._order[at]
        if wanted or held:
            del self._hashes[at + 1 :]

    def leave_out(self, number: int, reason: str) -> None:
        """A round that cannot be learned: models go on without it; `unlearned` keeps it until the log says so."""
        self.unlearned[number] = reason
        self._rank(self.rounds[number])

    def to_learn(self, start: int = 0) -> list[Round]:
        """Closed rounds in the order of learning, without the first ``start`` of them."""
        return [self.rounds[number] for _, number in self._order[start:]]

    def position(self, after: Pair | None) -> int:
        """How many closed rounds stand up to a place in the order of learning."""
        return 0 if after is None else bisect_right(self._order, after)

    def hashes(self, basis: str) -> list[str]:
        """For each length of the order of learning, a hash of what a model that learned so many rounds depends on."""
        if basis != self._basis or not self._hashes:
            self._basis, self._hashes = basis, [hashlib.sha256(basis.encode()).hexdigest()]
        for _, number in self._order[len(self._hashes) - 1 :]:
            self._hashes.append(link(self._hashes[-1], (number, self.rounds[number].revision)))
        return self._hashes

    def unlike(self, learned: Iterable[Pair]) -> int:
        """How many rounds a model that learned these has not learned as they are now, or should not have learned."""
        wanted = {(number, self.rounds[number].revision) for _, number in self._order}
        return len({number for number, _ in wanted.symmetric_difference(learned)})

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

    @contextmanager
    def with_due_closed(self, now: float) -> Iterator[None]:
        """Within the block, open rounds whose deadline has passed count as closed; the store knows nothing of it."""
        due = self.due(now)
        for record in due:
            self._put(replace(record, status="closed", closed=record.deadline))
        try:
            yield
        finally:
            for record in due:
                self.unlearned.pop(record.number, None)
                self._put(record)

    def quarantined(self) -> dict[str, str]:
        """Ids of the closed rounds that could not be learned, and why."""
        marked = {r.number: r.quarantined for r in self.rounds.values() if r.quarantined is not None}
        found = {**marked, **self.unlearned}
        return {self.rounds[n].id: found[n] for n in sorted(found) if self.rounds[n].status == "closed"}
