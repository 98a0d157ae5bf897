"""One transaction on a store: plain records in and out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import sqlalchemy as sa

from tensorucb.checks import check_id
from tensorucb.errors import InputError, UnknownIdError
from tensorucb.store import _tables as tables
from tensorucb.store._backend import HELD
from tensorucb.store._protocol import (
    CampaignRecord,
    Content,
    EventRecord,
    Preference,
    Responses,
    RoundRecord,
    TokenRecord,
    check_columns,
    check_texts,
    dump_json,
    in_order,
    pack,
    unpack,
    with_amounts,
    without_user,
)
from tensorucb.store._rows import CheckedRows, Row

_STORE = 0  # in place of a campaign's number: what belongs to the whole store
_IDS = "user-ids"
_SECRET = "secret"
_TOKENS = "tokens"
_LOGINS = "ended-logins"
PIECE_BYTES = 1 << 26  # of a large blob: databases refuse values of a gigabyte

_event = tables.event.c
_round = tables.round_.c
_LAST_EVENT = sa.select(sa.func.max(_event.seq)).where(_event.campaign == sa.bindparam("c"))
_COUNTS = sa.select(_round.campaign, _round.status, sa.func.count()).group_by(_round.status, _round.campaign)
_PIECES = (
    sa.select(tables.blob.c.piece, tables.blob.c.data)
    .where(tables.blob.c.campaign == sa.bindparam("c"), tables.blob.c.name == sa.bindparam("name"))
    .order_by(tables.blob.c.piece)
)


def _names_of(campaigns: sa.Select[Any]) -> sa.Select[Any]:
    """Names of campaigns by their numbers, oldest first."""
    table = tables.campaign.c
    return sa.select(table.name).where(table.campaign.in_(campaigns)).order_by(table.campaign)


_DUE = _names_of(sa.select(_round.campaign).where(_round.status == "open", _round.deadline <= sa.bindparam("now")))
_HOLDING = _names_of(sa.select(tables.blob.c.campaign).where(tables.blob.c.name == sa.bindparam("blob")))


class Session(CheckedRows):
    """Reads and, inside :meth:`SQLStore.write`, writes; one consistent view from beginning to end.

    Tokens, the secret and ended logins belong to the whole store.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._listed_blobs: dict[int, list[Row]] = {}
        self._last_events: dict[int, int] = {}

    # -- campaigns --

    def campaigns(self) -> list[CampaignRecord]:
        """All campaigns, oldest first."""
        return [
            CampaignRecord(number, name, json.loads(text), created)
            for number, name, text, created in self._read(tables.campaign)
        ]

    def campaign(self, name: str) -> CampaignRecord | None:
        """The campaign of that name, if there is one."""
        return next((record for record in self.campaigns() if record.name == name), None)

    def insert_campaign(self, name: str, settings: Mapping[str, Any], created: float) -> CampaignRecord:
        """A new campaign; a name that exists is an :class:`~tensorucb.errors.InputError`."""
        self._check(change=True)
        check_texts([name], "a campaign's name")
        text = dump_json(settings)
        if self.campaign(name) is not None:
            raise InputError(f"there is a campaign called {name!r} already; load it, or choose another name.")
        insert = sa.insert(tables.campaign).values(name=name, settings=text, created=float(created))
        number = int(self._run(insert.returning(tables.campaign.c.campaign)).scalar_one())
        self._count(tables.campaign, _STORE, [(number, name, text, float(created))])
        return CampaignRecord(number, name, json.loads(text), float(created))

    def delete_campaign(self, campaign: int) -> None:
        """Remove a campaign and all that belongs to it."""
        self._begin_change(campaign)
        self._remove(tables.campaign, _STORE, [row for row in self._read(tables.campaign) if row[0] == campaign])
        for table in (*tables.OWNED, tables.checksum):
            self._run(sa.delete(table).where(table.c.campaign == campaign))
        self._present.discard(campaign)
        self._listed_blobs.pop(campaign, None)
        self._last_events.pop(campaign, None)

    def campaigns_with(self, blob: str) -> list[str]:
        """Names of the campaigns that have a blob of this name, oldest first."""
        return [name for (name,) in self._rows(_HOLDING, {"blob": blob})]

    # -- blobs, users --

    def blobs(self, campaign: int, prefix: str = "") -> list[str]:
        """Names of the stored blobs that start with ``prefix``, sorted."""
        return sorted({name for name, *_ in self._blob_list(campaign) if name.startswith(prefix)})

    def _blob_list(self, campaign: int) -> list[Row]:
        """Name, number and digest of all pieces."""
        if campaign not in self._listed_blobs:
            self._listed_blobs[campaign] = self._read(tables.blob, campaign)
        return self._listed_blobs[campaign]

    def blob(self, campaign: int, name: str) -> bytes | None:
        """A stored blob, if there is one."""
        written = [(piece, digest) for own, piece, digest in self._blob_list(campaign) if own == name]
        pieces = self._rows(_PIECES, {"c": campaign, "name": name})
        if written != [(piece, _digest(data)) for piece, data in pieces]:
            raise self._damaged(f"blob {name!r}")
        return b"".join(data for _, data in pieces) if pieces else None

    def put_blob(self, campaign: int, name: str, data: bytes) -> None:
        """Store or replace a blob; a large one in pieces."""
        check_texts([name], "a blob's name")
        self.delete_blobs(campaign, [name])
        pieces = [data[start : start + PIECE_BYTES] for start in range(0, max(len(data), 1), PIECE_BYTES)]
        rows = [(name, number, _digest(piece), piece) for number, piece in enumerate(pieces)]
        self._add(tables.blob, campaign, rows)
        self._listed_blobs.pop(campaign, None)

    def delete_blobs(self, campaign: int, names: Iterable[str]) -> None:
        """Remove blobs; names that do not exist are fine."""
        self._begin_change(campaign)
        gone = set(names)
        self._remove(tables.blob, campaign, [row for row in self._blob_list(campaign) if row[0] in gone])
        self._listed_blobs.pop(campaign, None)

    def _document(self, campaign: int, name: str) -> list[Any]:
        """A blob that is a list in JSON; an empty one if there is none."""
        data = self.blob(campaign, name)
        return [] if data is None else json.loads(data)

    def _put_document(self, campaign: int, name: str, entries: Sequence[Any]) -> None:
        self.put_blob(campaign, name, json.dumps(entries, ensure_ascii=False).encode())

    def users(self, campaign: int) -> list[int | str]:
        """Ids of all users, by their row."""
        return self._document(campaign, _IDS)

    def add_users(self, campaign: int, ids: Sequence[int | str]) -> None:
        """New users, behind the others."""
        self._begin_change(campaign)
        everybody = [*self.users(campaign), *(check_id("a user's id", value) for value in ids)]
        if len(set(everybody)) != len(everybody):
            raise InputError(HELD)
        self._put_document(campaign, _IDS, everybody)

    # -- what people said about being contacted --

    def preferences(self, campaign: int) -> list[Preference]:
        """What people said about being contacted by a campaign, or with 0 by any campaign, by person."""
        return [Preference(*row) for row in self._read(tables.preference, campaign)]

    def put_preferences(self, campaign: int, records: Sequence[Preference]) -> None:
        """What these people said last; whatever is stored of them before goes."""
        self.delete_preferences(campaign, [record.person for record in records])
        check_texts((record.answer for record in records), "an answer")
        rows = [(record.person, record.answer, float(record.since)) for record in records]
        self._add(tables.preference, campaign, rows)

    def delete_preferences(self, campaign: int, people: Iterable[int]) -> None:
        """Forget what these people said; those who said nothing are fine."""
        self._begin_change(campaign)
        gone = set(people)
        self._remove(
            tables.preference, campaign, [row for row in self._read(tables.preference, campaign) if row[0] in gone]
        )

    # -- the log --

    def append_event(
        self, campaign: int, kind: str, round_number: int | None, payload: Mapping[str, Any], created: float
    ) -> int:
        """Append to the log; returns the event's sequence number."""
        self._begin_change(campaign)
        check_texts([kind], "an event's kind")
        # Writers come one after another, so that the next number is free and numbers follow the order of commits.
        seq = self.last_event(campaign) + 1
        self._add(tables.event, campaign, [(seq, kind, round_number, dump_json(payload), float(created))])
        self._last_events[campaign] = seq
        return seq

    def events(self, campaign: int, since: int = 0, kinds: Sequence[str] | None = None) -> list[EventRecord]:
        """Events with ``seq > since`` in order; of these kinds alone, if there are any."""
        where = None if kinds is None else _event.kind.in_(kinds)
        rows = self._read(tables.event, campaign, since + 1, where=where)
        if rows:
            self._present.add(campaign)
        if rows and kinds is None:
            self._last_events[campaign] = rows[-1][0]
        return [_event_record(row) for row in rows]

    def last_event(self, campaign: int) -> int:
        """The number of the log's last event; 0 if it is empty."""
        if campaign not in self._last_events:
            [(last,)] = self._rows(_LAST_EVENT, {"c": campaign})
            self._last_events[campaign] = int(last or 0)
        return self._last_events[campaign]

    def replace_event_payload(self, campaign: int, seq: int, payload: Mapping[str, Any]) -> None:
        """Rewrite an event's payload: only for removing a person."""
        self._begin_change(campaign)
        rows = self._read(tables.event, campaign, seq, seq)
        if not rows:
            raise UnknownIdError(f"the campaign's log has no event {seq}.")
        [(_, kind, at, _, created)] = rows
        self._put(tables.event, campaign, (seq, kind, at, dump_json(payload), created))

    # -- rounds --

    def rounds(self, campaign: int) -> list[RoundRecord]:
        """All rounds by number."""
        return [_round_record(row) for row in self._read(tables.round_, campaign)]

    def rounds_since(self, campaign: int, moment: float) -> list[RoundRecord]:
        """Rounds that were opened after a moment, by number."""
        return [_round_record(row) for row in self._read(tables.round_, campaign, where=_round.opened > moment)]

    def round(self, campaign: int, number: int) -> RoundRecord | None:
        """The round of that number, if there is one."""
        rows = self._read(tables.round_, campaign, number, number)
        return _round_record(rows[0]) if rows else None

    def put_round(self, campaign: int, record: RoundRecord) -> None:
        """Insert a round, or replace the one of the same number."""
        check_texts([record.id, record.request_id, record.status], "a round's id or request id")
        moments = (None if moment is None else float(moment) for moment in (record.deadline, record.closed))
        opened = (record.number, record.id, record.status, float(record.opened), *moments)
        row = (*opened, record.revision, record.request_id, dump_json(record.payload))
        self._put(tables.round_, campaign, row)

    def round_counts(self) -> dict[int, dict[str, int]]:
        """For each campaign that has rounds, how many of each status."""
        counts: dict[int, dict[str, int]] = {}
        for number, status, count in self._rows(_COUNTS):
            counts.setdefault(number, {})[status] = count
        return counts

    def due_campaigns(self, now: float) -> list[str]:
        """Names of the campaigns with open rounds whose deadline has passed, oldest first."""
        return [name for (name,) in self._rows(_DUE, {"now": now})]

    def explanation(self, campaign: int, round_number: int) -> bytes | None:
        """Why users were chosen in a round, as :meth:`put_explanation` stored it."""
        rows = self._read(tables.explanation, campaign, round_number, round_number)
        return rows[0][1] if rows else None

    def put_explanation(self, campaign: int, round_number: int, data: bytes) -> None:
        """Store or replace the explanation of a round."""
        self._put(tables.explanation, campaign, (round_number, data))

    # -- responses --

    def responses(
        self, campaign: int, first: int, last: int, upto: int | None = None, *, event_ids: bool = False
    ) -> dict[int, Responses]:
        """What rounds ``first`` to ``last`` were told, up to an event or until now, by source, target and time.

        Event ids, which nobody learns from, are read only where they are wanted.
        """
        batches: dict[int, list[Responses]] = {number: [] for number in range(first, last + 1)}
        for (number, seq), rows in self._batches(campaign, first, last, event_ids).items():
            if upto is None or seq <= upto:
                batches[number].append(rows)
        return {number: in_order(rows) for number, rows in batches.items()}

    def _batches(self, campaign: int, first: int, last: int, event_ids: bool) -> dict[tuple[int, int], Responses]:
        """The rows of each batch of some rounds as they came, by round and event."""
        names: dict[tuple[int, int], dict[int, str]] = {}
        if event_ids:
            for name, number, seq, place in self._read(tables.event_id, campaign, first, last):
                names.setdefault((number, seq), {})[place] = name
        rows = self._read(tables.response, campaign, first, last)
        return {(number, seq): unpack(data, names.get((number, seq), {})) for number, seq, data in rows}

    def add_responses(self, campaign: int, round_number: int, rows: Responses, seq: int) -> None:
        """Insert the batch that an event of the log brought; an event id that is there already is refused."""
        self._begin_change(campaign)
        check_columns(rows)
        if rows.size:
            self._add(tables.response, campaign, [(round_number, seq, pack(rows))])
            named = [(name, place) for place, name in enumerate(rows.event_ids) if name is not None]
            self._add(tables.event_id, campaign, [(name, round_number, seq, place) for name, place in named])

    def known_event_ids(self, campaign: int, event_ids: Sequence[str]) -> dict[str, tuple[int, Content]]:
        """The round and the content of what is stored under these event ids."""
        if not event_ids:
            return {}
        check_texts(event_ids, "an event id")
        column = tables.event_id.c
        query = sa.select(column.name, column.round, column.seq, column.place).where(
            column.campaign == campaign, self._backend.among(column.name, event_ids)
        )
        lines = self._rows(query)
        contents = {
            key: rows.contents
            for number in {number for _, number, *_ in lines}
            for key, rows in self._batches(campaign, number, number, event_ids=False).items()
        }
        return {name: (number, contents[number, seq][place]) for name, number, seq, place in lines}

    def erase_user(self, campaign: int, row: int) -> int:
        """Remove a user and every response that names them; users behind them move up by one row, here and there.

        Returns how many responses went.
        """
        self._begin_change(campaign)
        ids = self.users(campaign)
        self._put_document(campaign, _IDS, [*ids[:row], *ids[row + 1 :]])
        numbers = {number for number, *_ in self._read(tables.response, campaign)}
        return sum(self._rewrite(campaign, number, partial(without_user, gone=row)) for number in sorted(numbers))

    def fill_amounts(self, campaign: int, round_number: int, priced: Responses) -> None:
        """Add amounts to rows of a round that were told without one; ``priced`` are these rows with it."""
        self._rewrite(campaign, round_number, partial(with_amounts, priced=priced))

    def _rewrite(self, campaign: int, number: int, change: Callable[[Responses], Responses]) -> int:
        """Replace each batch of a round by what ``change`` makes of it; returns how many rows went."""
        batches = self._batches(campaign, number, number, event_ids=True)
        for table in (tables.response, tables.event_id):
            self._remove(table, campaign, self._read(table, campaign, number, number))
        removed = 0
        for (_, seq), rows in batches.items():
            changed = change(rows)
            removed += rows.size - changed.size
            self.add_responses(campaign, number, changed, seq)
        return removed

    # -- what belongs to the whole store --

    def tokens(self) -> list[TokenRecord]:
        """All tokens, oldest first."""
        records = [TokenRecord(**entry) for entry in self._document(_STORE, _TOKENS)]
        return sorted(records, key=lambda record: (record.created, record.name))

    def put_token(self, record: TokenRecord) -> None:
        """A new token; a name that exists is an :class:`~tensorucb.errors.InputError`."""
        records = self.tokens()
        if any(other.name == record.name for other in records):
            raise InputError(
                f"there is a token called {record.name!r} already; revoke it first, or choose another name."
            )
        self._put_document(_STORE, _TOKENS, [asdict(other) for other in (*records, record)])

    def delete_token(self, name: str) -> None:
        """Remove a token; a name that does not exist is an :class:`~tensorucb.errors.UnknownIdError`."""
        records = self.tokens()
        left = [asdict(record) for record in records if record.name != name]
        if len(left) == len(records):
            raise UnknownIdError(f"the store holds no token called {name!r}.")
        self._put_document(_STORE, _TOKENS, left)

    def secret(self) -> bytes:
        """32 random bytes that this store was given when it was made, and that leave it nowhere."""
        secret = self.blob(_STORE, _SECRET)
        if secret is None:
            raise self._damaged("its secret")
        return secret

    def put_secret(self, secret: bytes) -> None:
        """The secret of a store that is being made."""
        self.put_blob(_STORE, _SECRET, secret)

    def ended_logins(self) -> dict[str, float]:
        """Logins that were ended before their time, and when each would have ended by itself."""
        return dict(self._document(_STORE, _LOGINS))

    def end_login(self, login: str, ends: float, now: float) -> None:
        """A login no longer counts; what is kept of those whose time is over goes. Ending again changes nothing."""
        logins = {**self.ended_logins(), login: float(ends)}
        self._put_document(_STORE, _LOGINS, [entry for entry in logins.items() if entry[1] > now])


def _digest(data: Any) -> str | None:
    """SHA-256 of a piece; a flipped bit can make SQLite give back a text or a number instead."""
    return hashlib.sha256(data).hexdigest() if isinstance(data, bytes) else None


def _event_record(row: Row) -> EventRecord:
    seq, kind, at, text, created = row
    return EventRecord(seq, kind, at, json.loads(text), created)


def _round_record(row: Row) -> RoundRecord:
    return replace(RoundRecord(*row), payload=json.loads(row[-1]))
