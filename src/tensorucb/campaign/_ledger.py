"""What a campaign object remembers of the store between calls, brought up to date from the log alone."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from tensorucb.campaign._store import RoundRecord, Session

__all__ = ["Ledger", "canonical", "prefix_hashes"]

# Events of these kinds leave every round as it was.
_WITHOUT_ROUND = frozenset({"created", "products_added", "contradiction"})


@dataclass
class Ledger:
    """Rounds by number, the log's last event seen, the revision of the world, and who was told what last."""

    campaign: int
    seq: int = -1
    revision: int = 0
    catalogue: int = 0
    rounds: dict[int, RoundRecord] = field(default_factory=dict)
    loads: int = 0
    told: dict[int, int] = field(default_factory=dict)

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
            if event.kind == "products_added":
                self.catalogue = event.seq
            changes = event.kind not in _WITHOUT_ROUND and not (event.kind == "told" and not event.payload["late"])
            if changes and event.round is not None:
                record = session.round(self.campaign, str(event.payload["id"]))
                if record is not None:
                    self.rounds[record.number] = record
            self.seq = event.seq

    def told_tag(self, number: int) -> tuple[int, int]:
        """Changes whenever somebody tells this round something new."""
        return self.loads, self.told.get(number, 0)

    def _load(self, session: Session) -> None:
        self.loads, self.told = self.loads + 1, {}
        self.rounds = {record.number: record for record in session.rounds(self.campaign)}
        names = session.blobs(self.campaign, "world-")
        self.revision = int(names[-1].removeprefix("world-"))
        # A round's revision is an event's number, so that most of a long log need not be read.
        known = max((record.revision for record in self.rounds.values()), default=0)
        later = session.events(self.campaign, max(self.seq, known))
        self.seq = later[-1].seq if later else max(self.seq, known)
        self.catalogue = self.seq

    def next_number(self) -> int:
        """The number of the next round."""
        return max(self.rounds, default=0) + 1

    def sizes(self) -> list[int] | None:
        """Lengths of the feature vectors of the first product that is or will be learned; None before there is one."""
        for _, record in sorted(self.rounds.items()):
            if record.status != "cancelled":
                return [len(vector) for vector in record.payload["product"]["vectors"]]
        return None

    def due(self, now: float) -> list[RoundRecord]:
        """Open rounds whose deadline has passed."""
        records = (self.rounds[number] for number in sorted(self.rounds))
        return [r for r in records if r.status == "open" and r.deadline is not None and r.deadline <= now]


def canonical(ledger: Ledger) -> list[RoundRecord]:
    """Closed rounds in the order of learning: imported history first, then by number."""
    closed = [record for record in ledger.rounds.values() if record.status == "closed"]
    return sorted(closed, key=lambda record: (record.payload["kind"] != "history", record.number))


def prefix_hashes(basis: str, records: list[RoundRecord]) -> list[str]:
    """For each length 0 … len(records), a hash of what a model that learned so many rounds depends on."""
    hashes = [hashlib.sha256(basis.encode()).hexdigest()]
    for record in records:
        hashes.append(hashlib.sha256(f"{hashes[-1]}:{record.number}:{record.revision}".encode()).hexdigest())
    return hashes
