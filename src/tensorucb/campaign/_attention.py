"""What of a campaign needs a person today."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

import numpy as np

from tensorucb.campaign._handle import Handle, View
from tensorucb.campaign._progress import Selection, progress
from tensorucb.campaign._stored import STORAGE, opened
from tensorucb.campaign._tally import RoundProgress
from tensorucb.campaign._tell import LEFT_OUT
from tensorucb.campaign._webhook import webhook_of
from tensorucb.errors import TensorUCBError, UnknownIdError
from tensorucb.policies import DriftAlarm

if TYPE_CHECKING:
    from tensorucb.store import SQLStore as Store
    from tensorucb.store._protocol import EventRecord
    from tensorucb.store._session import Session

Need = Literal["overdue", "missed", "changed", "webhook", "left-out", "unlearned", "unreadable"]

_LOOKED_AT = 60  # rounds that the alarm for a change compares
_LATEST = 5  # rounds whose responses are looked at for what does not count
_RECENT = 7  # days for which rows that could not be used are remembered
_IN_USE = 30  # days after which a campaign whose rounds are all closed needs nobody any more
_DAY = 86400.0


@dataclass(frozen=True)
class Notice:
    """Something that needs a person.

    Attributes
    ----------
    need
        What it is about: ``overdue`` (a round past its deadline is still open), ``missed`` (the last two forecasts did
        not hold), ``changed`` (forecasts are worse than they were), ``webhook`` (a receiver does not take what is
        sent), ``left-out`` (responses that do not count, and rows that cannot be used), ``unlearned`` (a closed round
        that could not be learned), ``unreadable`` (the campaign cannot be looked at).
    text
        It in a sentence or two.
    round
        The number of the round that it is about; None if it is about no single one.
    """

    need: Need
    text: str
    round: int | None = None


def attention(handle: Handle) -> tuple[Notice, ...]:
    """What needs a person today, the most urgent first; nothing is learned for it."""
    with handle.read() as view:
        rounds = [entry for entry in progress(view, Selection()).rounds if entry.within is not None]
        odd = view.session.events(view.number, kinds=("contradiction", LEFT_OUT))
        return (
            *_overdue(view, handle.clock()),
            *_unlearned(view),
            *_webhook(view),
            *_missed(rounds),
            *_changed(view, rounds),
            *_left_out(view, odd),
            *_unusable(odd, handle.clock()),
        )


def _overdue(view: View, now: float) -> Iterator[Notice]:
    for record in view.ledger.due(now):
        moment = datetime.fromtimestamp(record.deadline or now, UTC)
        text = f"Round {record.number} is still open, and its deadline was {moment:%Y-%m-%d %H:%M} UTC. Close it."
        yield Notice("overdue", text, record.number)


def _unlearned(view: View) -> Iterator[Notice]:
    numbers = {record.id: record.number for record in view.rounds()}
    for name, reason in view.ledger.quarantined().items():
        text = f"Round {numbers[name]} could not be learned and is left out of the model: {reason or 'see the log'}."
        yield Notice("unlearned", f"{text} Cancel it to drop it.", numbers[name])


def _webhook(view: View) -> Iterator[Notice]:
    hook = webhook_of(view)
    if hook is not None and hook.error is not None:
        text = f"The webhook fails: {hook.error}. Rounds still to be told: {hook.pending:,}; given up: {hook.failed:,}."
        yield Notice("webhook", text)


def _missed(rounds: Sequence[RoundProgress]) -> Iterator[Notice]:
    """The last two closed rounds both outside of their intervals: a chance of 1 in 100 if these are right."""
    last = rounds[-2:]
    if len(last) == 2 and not any(entry.within for entry in last):
        parts = [
            f"round {entry.number} brought {entry.responders:,} (expected {entry.expected.low:.0f} to "
            f"{entry.expected.high:.0f})"
            for entry in last
            if entry.expected is not None
        ]
        yield Notice("missed", f"The last two forecasts did not hold: {' and '.join(parts)}.", last[-1].number)


def _changed(view: View, rounds: Sequence[RoundProgress]) -> Iterator[Notice]:
    """Whether forecasts have become worse, by an alarm that rings falsely in at most 3 of 100 such looks."""
    alarm = DriftAlarm()
    compared = rounds[-_LOOKED_AT:]
    for entry in compared:
        forecast = view.ledger.rounds[entry.number].forecast
        if forecast is not None:
            alarm.update(forecast.miss(entry.responders))
    if alarm.state.alarm and alarm.state.change < len(compared):
        number = compared[alarm.state.change].number
        text = f"Forecasts are worse since about round {number}: perhaps the users or their tastes have changed."
        yield Notice("changed", text, number)


def _left_out(view: View, odd: Sequence[EventRecord]) -> Iterator[Notice]:
    """Responses of the latest rounds that disagree with others or lie outside of the window."""
    ours = [record for record in view.rounds() if record.is_ours]
    clashes = [event for event in odd if event.kind != LEFT_OUT]
    for record in ours[-_LATEST:]:
        outside = int(np.count_nonzero(~record.in_window(view.told(record.number).actions.times)))
        against = sum(int(event.payload["count"]) for event in clashes if event.round == record.number)
        if outside:
            text = f"{_responses(outside)} to round {record.number} came before the contact or after the window."
            yield Notice("left-out", f"{text} That does not count. Are the times in the right zone?", record.number)
        if against:
            text = f"{_responses(against)} to round {record.number} said something else than earlier ones, which stand."
            yield Notice("left-out", text, record.number)


def _unusable(odd: Sequence[EventRecord], now: float) -> Iterator[Notice]:
    """Rows of the last delivery that could not be used, and of the others of the last days."""
    recent = [event for event in odd if event.kind == LEFT_OUT and event.created >= now - _RECENT * _DAY]
    if not recent:
        return
    counts = [sum(event.payload["reasons"].values()) for event in recent]
    last = recent[-1]
    why = "; ".join(f"{reason} ({number:,})" for reason, number in last.payload["reasons"].items())
    about = "" if last.round is None else f" to round {last.round}"
    day = f"{datetime.fromtimestamp(last.created, UTC):%A, %Y-%m-%d}"
    text = f"{counts[-1]:,} of {last.payload['rows']:,} rows told{about} on {day} were left out: {why}."
    if len(recent) > 1:
        others = "another delivery" if len(recent) == 2 else f"{len(recent) - 1} other deliveries"
        text = f"{text} So were {sum(counts[:-1]):,} of {others} in the last {_RECENT} days."
    yield Notice("left-out", text, last.round)


def _responses(number: int) -> str:
    return f"{number:,} response{'' if number == 1 else 's'}"


# -- all campaigns of a store --


def names_in_use(session: Session, now: float) -> list[str]:
    """The campaigns with an open round, or with one of the last 30 days, oldest first; no other needs a person today.

    One whose policy is not of this package is left out: it can be looked at in Python alone.
    """
    counts = session.round_counts()
    return [
        record.name
        for record in session.campaigns()
        if record.campaign in counts
        and record.settings["policy"]["own"]
        and ("open" in counts[record.campaign] or session.rounds_since(record.campaign, now - _IN_USE * _DAY))
    ]


def all_attention(storage: str | os.PathLike[str] | Store = STORAGE) -> dict[str, tuple[Notice, ...]]:
    """What needs a person today in the campaigns of a store, by name, the most urgent of each first.

    Campaigns that need nobody are left out, and those without an open round and without a new one for 30 days are not
    looked at. One that cannot be read keeps nobody from the others.

    Examples
    --------
    >>> from tensorucb.store import open_store
    >>> all_attention(open_store("memory://"))
    {}
    """
    found: dict[str, tuple[Notice, ...]] = {}
    with opened(storage, make=False) as store:
        with store.read() as session:
            names = names_in_use(session, time.time())
        for name in names:
            try:
                found[name] = attention(Handle(store, name, None, time.time))
            except UnknownIdError:
                continue  # deleted just now
            except TensorUCBError as error:
                found[name] = (unreadable(str(error)),)
    return {name: notices for name, notices in found.items() if notices}


def unreadable(reason: str) -> Notice:
    """The notice of a campaign that cannot be looked at."""
    return Notice("unreadable", f"The campaign cannot be looked at: {reason}")
