"""What a campaign object remembers of the store between calls, brought up to date from the log alone.

A call reads the events that are new and the rounds that these changed. A ledger never changes once it is made, so
threads share it: what has changed since makes a new one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tensorucb.campaign._round import Round
from tensorucb.errors import UnknownIdError
from tensorucb.store._protocol import EventRecord

if TYPE_CHECKING:
    from tensorucb.store._session import Session

Pair = tuple[int, int]
"""A round's number and its revision, the event up to which it was told: what the round taught at that moment."""

LEARNED = "learned"
"""The kind of event that says what the model knows: ``rounds`` in addition, and of those before the first ``kept``."""

# What else changes with an event, by the field of a ledger that keeps its number.
_FIELD_OF = {
    **dict.fromkeys(("products_added", "strategies_added", "costs_set"), "catalogue"),
    **dict.fromkeys(("opted_out", "opted_in"), "people"),
    LEARNED: "learned_at",
}
# Events of these kinds name a round and leave it as it was.
_BESIDE = frozenset({"contradiction", "left_out"})
# After events of these kinds everything is read again.
_LOADING = frozenset({"users_added", "forgotten", "history_imported"})


@dataclass(frozen=True, eq=False)
class Ledger:
    """Rounds by number, the log's last event seen, the revision of the network, and who was told what last.

    ``changed``, ``catalogue`` and ``people`` are the last events that changed a round or the network, a catalogue, or
    what people said about contacts.

    ``loaded`` is the event up to which everything was read at once. ``learned`` is what the model knows, in order, and
    ``learned_at`` the event that says so. ``unlearned`` holds what this process could not learn, with the reason.
    """

    campaign: int
    seq: int = 0
    revision: int = 0
    changed: int = 0
    catalogue: int = 0
    people: int = 0
    loaded: int = 0
    rounds: Mapping[int, Round] = field(default_factory=dict)
    told: Mapping[int, int] = field(default_factory=dict)
    learned: list[Pair] = field(default_factory=list)
    learned_at: int = 0
    unlearned: Mapping[Pair, str] = field(default_factory=dict)

    def followed(self, session: Session) -> Ledger:
        """The ledger of the campaign as a session shows it; this one if the log has not grown since."""
        last_event = session.last_event(self.campaign)
        if last_event < max(self.seq, 1):
            raise UnknownIdError("this campaign has been deleted; list the campaigns to see which there are.")
        if last_event == self.seq:
            return self
        events = session.events(self.campaign, self.seq or last_event - 1)
        if not self.seq or any(event.kind in _LOADING for event in events):
            return _read(session, self.campaign, last_event)
        told = dict(self.told)
        last: dict[str, Any] = {"seq": last_event}
        changed = set()
        for event in events:
            if event.kind in _FIELD_OF:
                last[_FIELD_OF[event.kind]] = event.seq
            if event.round is None or event.kind in _BESIDE:
                continue
            if event.kind == "told":
                told[event.round] = event.seq
            if event.kind != "told" or event.payload["late"] or event.payload.get("amounts"):
                changed.add(event.round)
                last["changed"] = event.seq
        rows = [session.round(self.campaign, number) for number in sorted(changed)]
        rounds = {**self.rounds, **{row.number: Round.from_row(row) for row in rows if row is not None}}
        return replace(self, rounds=rounds, told=told, learned=_learned(self.learned, events), **last)

    @cached_property
    def by_number(self) -> list[Round]:
        """All rounds, the first one first."""
        return list(self.rounds.values())  # the store gives them so, and new ones come behind

    @cached_property
    def in_order(self) -> list[Pair]:
        """All rounds that can be learned, as they are now: imported history first, then by number."""
        closed = [r for r in self.by_number if r.status == "closed" and r.quarantined is None]
        pairs = [record.pair for record in sorted(closed, key=lambda record: record.kind != "history")]
        return [pair for pair in pairs if pair not in self.unlearned]

    @cached_property
    def known(self) -> list[Pair]:
        """What the next ask is to know: the rounds that the log says are learned, as they were then; then new ones."""
        numbers, old = dict(self.in_order), dict(self.learned)
        new = [pair for pair in self.in_order if pair[0] not in old]
        return [pair for pair in self.learned if pair[0] in numbers] + new

    @property
    def behind(self) -> int:
        """Of how many rounds the next ask does not know the newest responses."""
        return sum(self.rounds[number].revision != revision for number, revision in self.known)

    def unreported(self) -> dict[Pair, str]:
        """The rounds that could not be learned as they are now, of which the log does not know it yet."""
        unlearned = [(self.rounds[pair[0]], pair, reason) for pair, reason in sorted(self.unlearned.items())]
        return {pair: reason for r, pair, reason in unlearned if r.status == "closed" and r.pair == pair}

    def quarantined(self) -> dict[str, str]:
        """Ids of the closed rounds that could not be learned, and why."""
        closed = [record for record in self.by_number if record.status == "closed"]
        reasons = {record.id: self.unlearned.get(record.pair, record.quarantined) for record in closed}
        return {name: reason for name, reason in reasons.items() if reason is not None}

    def told_tag(self, number: int) -> tuple[int, int]:
        """Changes whenever somebody tells this round something new."""
        return self.loaded, self.told.get(number, 0)

    def next_number(self) -> int:
        """The number of the next round."""
        return self.by_number[-1].number + 1 if self.rounds else 1

    def sizes(self) -> list[int] | None:
        """Lengths of the feature vectors of the first context that is or will be learned; None before there is one."""
        return next((record.sizes for record in self.by_number if record.status != "cancelled"), None)

    def opened_by(self, request_id: str) -> Round | None:
        """The round that this request has opened, if there is one."""
        return next((record for record in reversed(self.by_number) if record.request_id == request_id), None)

    def due(self, now: float) -> list[Round]:
        """Open rounds whose deadline has passed."""
        ending = [record for record in self.by_number if record.status == "open"]
        return [record for record in ending if record.deadline is not None and record.deadline <= now]

    def with_due_closed(self, now: float) -> Ledger:
        """The same with the open rounds whose deadline has passed as closed ones; the store knows nothing of it."""
        closed = {record.number: replace(record, status="closed", closed=record.deadline) for record in self.due(now)}
        return replace(self, rounds={**self.rounds, **closed}) if closed else self


def _read(session: Session, campaign: int, seq: int) -> Ledger:
    """Everything, read from the store."""
    revision = int(session.blobs(campaign, "world-")[-1].removeprefix("world-"))
    rounds = {row.number: Round.from_row(row) for row in session.rounds(campaign)}
    events = session.events(campaign, kinds=(LEARNED,))
    return Ledger(
        campaign,
        seq=seq,
        revision=revision,
        changed=seq,
        catalogue=seq,
        people=seq,
        loaded=seq,
        rounds=rounds,
        learned=_learned([], events),
        learned_at=events[-1].seq if events else 0,
    )


def _learned(known: list[Pair], events: Sequence[EventRecord]) -> list[Pair]:
    """What the model knows after some events."""
    for event in events:
        if event.kind == LEARNED:
            new = [(int(number), int(revision)) for number, revision in event.payload["rounds"]]
            known = [*known[: event.payload.get("kept")], *new]
    return known
