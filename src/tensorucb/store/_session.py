"""One transaction on a store: plain records in and out."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from typing import Any, Self

import sqlalchemy as sa
from sqlalchemy.sql.compiler import SQLCompiler

from tensorucb.checks import check_id
from tensorucb.errors import FileFormatError, InputError, StateError, UnknownIdError
from tensorucb.store import _tables as tables
from tensorucb.store._backend import HELD, Backend
from tensorucb.store._protocol import (
    RANGE,
    CampaignRecord,
    Content,
    EventRecord,
    Preference,
    Responses,
    RoundRecord,
    Row,
    TokenRecord,
    check_columns,
    check_texts,
    damage_named,
    digest,
    digest_sum,
    dump_json,
    in_order,
    pack,
    unpack,
    with_digest,
    without_user,
)

_STORE = 0  # the campaign that is the whole store
_IDS = "user-ids"
_PREFERENCES = "user-preferences"
_SECRET = "secret"
_TOKENS = "tokens"
_LOGINS = "ended-logins"
PIECE_BYTES = 1 << 26  # of a large blob: databases refuse values of a gigabyte

_event = tables.event.c
_round = tables.round_.c
_COUNTS = sa.select(_round.campaign, _round.status, sa.func.count()).group_by(_round.status, _round.campaign)


def _select(table: sa.Table, number: str | None = None) -> sa.Select[Any]:
    """All columns of the rows of a campaign by key; those ``first`` to ``last`` by the column of that name.

    They are sorted by that column if no key has it: sorted by key, SQLite would read all rows of the campaign.
    """
    keys = list(table.primary_key.columns)
    statement = sa.select(table).where(table.c.campaign == sa.bindparam("campaign"))
    if number is None:
        return statement.order_by(*keys)
    column = table.c[number]
    statement = statement.where(column.between(sa.bindparam("first"), sa.bindparam("last")))
    return statement.order_by(*(keys if number in table.primary_key.columns else (table.c.campaign, column)))


def _upsert(table: sa.Table, **changes: str) -> sa.TextClause:
    """Insert a row, or change the one of the same key: all other columns, or these."""
    names, key = table.columns.keys(), table.primary_key.columns.keys()
    changes = changes or {name: f"excluded.{name}" for name in names[len(key) :]}
    return sa.text(
        f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({', '.join(f':{name}' for name in names)}) "
        f"ON CONFLICT ({', '.join(key)}) "
        f"DO UPDATE SET {', '.join(f'{name} = {change}' for name, change in changes.items())}"
    )


def _sum(name: str) -> str:
    return f"({tables.digest.name}.{name} + excluded.{name}) % {RANGE}"


def _delete(table: sa.Table, *columns: str) -> sa.TextClause:
    """Delete the rows with these values in these columns."""
    return sa.text(f"DELETE FROM {table.name} WHERE {' AND '.join(f'{name} = :{name}' for name in columns)}")


# Made once: making a statement takes as long as running it.
_CAMPAIGNS = sa.select(tables.campaign).order_by(tables.campaign.c.campaign)
_CAMPAIGN = _select(tables.campaign)
_EVENTS = _select(tables.event, "seq")
_ROUNDS = _select(tables.round_, "number")
_EXPLANATION = _select(tables.explanation, "round")
_RESPONSES = _select(tables.response, "round")
_EVENT_IDS = _select(tables.event_id, "round")
_DIGESTS = _select(tables.digest, "round")
_PIECES = _select(tables.blob).where(tables.blob.c.name == sa.bindparam("name"))
_PUT = {table: _upsert(table) for table in (tables.campaign, tables.event, tables.round_, tables.explanation)}
_DIGEST_OF_EXPLANATION = _upsert(tables.digest, explanation="excluded.explanation")
_DIGEST_OF_RESPONSES = _upsert(tables.digest, responses=_sum("responses"), event_ids=_sum("event_ids"))
_DELETE_BLOB = _delete(tables.blob, "campaign", "name")
_DELETE_RESPONSES = _delete(tables.response, "campaign", "round")
_DELETE_EVENT_IDS = _delete(tables.event_id, "campaign", "round")
_NO_RESPONSES = sa.text(
    f"UPDATE {tables.digest.name} SET responses = 0, event_ids = 0 WHERE campaign = :campaign AND round = :round"
)
_DELETE_OWNED = [_delete(table, "campaign") for table in tables.OWNED]


def _names_of(campaigns: sa.Select[Any]) -> sa.Select[Any]:
    """Names of campaigns by their numbers, oldest first."""
    table = tables.campaign.c
    return sa.select(table.name).where(table.campaign.in_(campaigns)).order_by(table.campaign)


_DUE = _names_of(sa.select(_round.campaign).where(_round.status == "open", _round.deadline <= sa.bindparam("now")))
_HOLDING = _names_of(sa.select(tables.blob.c.campaign).where(tables.blob.c.name == sa.bindparam("blob")))
_ROUND = "round {number} of campaign {campaign}"
_ALL = {"first": -(2**63) + 1, "last": 2**63 - 1}


_compiled_once: dict[tuple[sa.Executable, str], SQLCompiler] = {}


def _compiled(statement: sa.Select[Any] | sa.TextClause, dialect: sa.Dialect) -> SQLCompiler:
    """A statement that is made once, in the words of a database."""
    key = (statement, dialect.name)
    if key not in _compiled_once:
        _compiled_once[key] = statement.compile(dialect=dialect)
    return _compiled_once[key]


@dataclass
class _CampaignRow:
    """The row of a campaign: how many events and rounds it has, and the SHA-256 of each blob."""

    campaign: int
    name: str
    settings: str
    created: float
    events: int = 0
    rounds: int = 0
    blobs: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, row: Row) -> Self:
        """As it is stored."""
        return cls(*(*row[:-1], json.loads(row[-1])))

    def to_row(self) -> Row:
        """As it will be stored."""
        counts = (self.campaign, self.name, self.settings, self.created, self.events, self.rounds)
        return with_digest((*counts, dump_json(self.blobs)))

    def record(self) -> CampaignRecord:
        """What callers see of it."""
        return CampaignRecord(self.campaign, self.name, json.loads(self.settings), self.created)


class Session:
    """Reads and, inside :meth:`SQLStore.write`, writes; one consistent view from beginning to end.

    Tokens, the secret and ended logins belong to the whole store.
    """

    def __init__(self, backend: Backend, connection: sa.Connection, writable: bool) -> None:
        self._backend = backend
        self._connection = connection
        self._writable = writable
        self._pid: int | None = os.getpid()
        self._campaigns: dict[int, _CampaignRow | None] = {}
        self._changed: set[int] = set()

    def finish(self) -> None:
        """Write what all changes together mean for the rows of campaigns."""
        for number in sorted(self._changed):
            row = self._campaigns[number]
            if row is not None:
                self._put(tables.campaign, row.to_row())
        self._changed.clear()

    def end(self) -> None:
        """No statement after this one."""
        self._pid = None

    def _check(self, change: bool) -> None:
        if self._pid != os.getpid():
            raise StateError("this session is over, or belongs to another process; begin a new one with the store.")
        if change and not self._writable:
            raise StateError("this is a read-only view; write inside `with store.write() as session`.")

    def _run(self, statement: sa.Select[Any] | sa.TextClause, **values: Any) -> list[Row]:
        """The rows of a statement that is made once, run on the driver's own cursor.

        SQLAlchemy's way takes a tenth of a millisecond more, several times what the database takes.
        """
        self._check(change=False)
        dialect = self._connection.dialect
        compiled = _compiled(statement, dialect)
        parameters: Any = compiled.construct_params(values)
        if compiled.positiontup is not None:
            parameters = [parameters[name] for name in compiled.positiontup]
        connection: Any = self._connection.connection
        cursor = connection.cursor()
        try:
            with damage_named(self._backend.shown):
                cursor.execute(compiled.string, parameters)
                return list(cursor.fetchall()) if cursor.description else []
        except Exception as error:
            if isinstance(error, dialect.loaded_dbapi.Error) and dialect.is_disconnect(error, connection, cursor):
                self._connection.invalidate(error)  # what is broken is used by nobody else
            raise

    def _query(self, statement: sa.Select[Any], **values: Any) -> list[Row]:
        """The rows of a statement that is made for this call."""
        self._check(change=False)
        with damage_named(self._backend.shown):
            return [tuple(row) for row in self._connection.execute(statement, values)]

    def _digested(self, rows: list[Row], words: str) -> list[Row]:
        """Whole rows that end with their digest, which is taken off; an error, in these words, if it is not theirs."""
        for row in rows:
            if digest(row[:-1]) != row[-1]:
                raise self._damaged(words.format(campaign=row[0], number=row[1]))
        return [row[:-1] for row in rows]

    def _insert(self, table: sa.Table, rows: Sequence[Row]) -> None:
        """Insert whole rows."""
        if rows:
            self._backend.insert(self._connection, table, rows)

    def _damaged(self, what: str) -> FileFormatError:
        return FileFormatError(f"{self._backend.shown} is damaged: {what} cannot be read as written. Use a backup.")

    def _put(self, table: sa.Table, row: Row, statement: sa.TextClause | None = None) -> None:
        """Insert a whole row, or change the one of the same key, perhaps by a statement of its own."""
        self._run(_PUT[table] if statement is None else statement, **dict(zip(table.columns.keys(), row, strict=True)))

    # -- campaigns --

    def campaigns(self) -> list[CampaignRecord]:
        """All campaigns, oldest first."""
        for row in self._digested(self._run(_CAMPAIGNS), "its list of campaigns"):
            self._campaigns.setdefault(row[0], _CampaignRow.of(row))
        found = {number: row for number, row in self._campaigns.items() if row is not None}
        numbers = self._numbers()["campaigns"]
        if sorted(found) != [_STORE, *numbers]:
            raise self._damaged("its list of campaigns")
        return [found[number].record() for number in numbers]

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
        numbers = self._numbers()
        number = numbers["last"] + 1  # that of a deleted campaign is never given again
        row = _CampaignRow(number, name, text, float(created))
        self._add_campaign(row)
        self._put_numbers({"campaigns": [*numbers["campaigns"], number], "last": number})
        return row.record()

    def _add_campaign(self, row: _CampaignRow) -> None:
        self._insert(tables.campaign, [row.to_row()])
        self._campaigns[row.campaign] = row

    def _numbers(self) -> dict[str, Any]:
        """The numbers of all campaigns, and the last one that was given."""
        row = self._row(_STORE)
        if row is None:
            raise self._damaged("its list of campaigns")
        numbers: dict[str, Any] = json.loads(row.settings)
        return numbers

    def _put_numbers(self, numbers: Mapping[str, Any]) -> None:
        self._changing(_STORE).settings = dump_json(numbers)

    def _row(self, campaign: int) -> _CampaignRow | None:
        """What a campaign has; None if there is no such campaign."""
        if campaign not in self._campaigns:
            rows = self._digested(self._run(_CAMPAIGN, campaign=campaign), "its list of campaigns")
            self._campaigns[campaign] = _CampaignRow.of(rows[0]) if rows else None
            if not rows and campaign in self._numbers()["campaigns"]:
                raise self._damaged("its list of campaigns")
        return self._campaigns[campaign]

    def _changing(self, campaign: int) -> _CampaignRow:
        """What a campaign has, to be changed; refused in a read-only view, or if there is no such campaign."""
        self._check(change=True)
        row = self._row(campaign)
        if row is None:
            raise UnknownIdError(f"the store holds no campaign number {campaign}.")
        self._changed.add(campaign)
        return row

    def delete_campaign(self, campaign: int) -> None:
        """Remove a campaign and all that belongs to it."""
        self._changing(campaign)
        for statement in _DELETE_OWNED:
            self._run(statement, campaign=campaign)
        self._campaigns[campaign] = None
        numbers = self._numbers()
        self._put_numbers({**numbers, "campaigns": [other for other in numbers["campaigns"] if other != campaign]})

    def campaigns_with(self, blob: str) -> list[str]:
        """Names of the campaigns that have a blob of this name, oldest first."""
        return [name for (name,) in self._run(_HOLDING, blob=blob)]

    # -- blobs, users --

    def blobs(self, campaign: int, prefix: str = "") -> list[str]:
        """Names of the stored blobs that start with ``prefix``, sorted."""
        row = self._row(campaign)
        return [] if row is None else sorted(name for name in row.blobs if name.startswith(prefix))

    def blob(self, campaign: int, name: str) -> bytes | None:
        """A stored blob, if there is one."""
        row = self._row(campaign)
        if row is None or name not in row.blobs:
            return None
        pieces = self._run(_PIECES, campaign=campaign, name=name)
        # A flipped bit can make SQLite give back a text or a number instead.
        data = b"".join(data for *_, data in pieces if isinstance(data, bytes))
        if [piece for *_, piece, _ in pieces] != list(range(len(pieces))) or _sha256(data) != row.blobs[name]:
            raise self._damaged(f"blob {name!r}")
        return data

    def put_blob(self, campaign: int, name: str, data: bytes) -> None:
        """Store or replace a blob; a large one in pieces."""
        check_texts([name], "a blob's name")
        self.delete_blobs(campaign, [name])
        starts = range(0, max(len(data), 1), PIECE_BYTES)
        pieces = [(campaign, name, number, data[at : at + PIECE_BYTES]) for number, at in enumerate(starts)]
        self._insert(tables.blob, pieces)
        self._changing(campaign).blobs[name] = _sha256(data)

    def delete_blobs(self, campaign: int, names: Iterable[str]) -> None:
        """Remove blobs; names that do not exist are fine."""
        row = self._changing(campaign)
        for name in set(names) & row.blobs.keys():
            self._run(_DELETE_BLOB, campaign=campaign, name=name)
            del row.blobs[name]

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
        self._check(change=True)
        everybody = [*self.users(campaign), *(check_id("a user's id", value) for value in ids)]
        if len(set(everybody)) != len(everybody):
            raise InputError(HELD)
        self._put_document(campaign, _IDS, everybody)

    # -- what people said about being contacted --

    def preferences(self, campaign: int) -> list[Preference]:
        """What people said about being contacted by a campaign, or with 0 by any campaign, by person."""
        return [Preference(*entry) for entry in self._document(campaign, _PREFERENCES)]

    def put_preferences(self, campaign: int, records: Sequence[Preference]) -> None:
        """What these people said last; whatever is stored of them before goes."""
        self._changing(campaign)
        check_texts((record.answer for record in records), "an answer")
        held = {record.person: record for record in (*self.preferences(campaign), *records)}
        self._put_document(campaign, _PREFERENCES, [astuple(held[person]) for person in sorted(held)])

    def delete_preferences(self, campaign: int, people: Iterable[int]) -> None:
        """Forget what these people said; those who said nothing are fine."""
        self._changing(campaign)
        gone = set(people)
        left = [astuple(record) for record in self.preferences(campaign) if record.person not in gone]
        self._put_document(campaign, _PREFERENCES, left)

    # -- the log --

    def append_event(
        self, campaign: int, kind: str, round_number: int | None, payload: Mapping[str, Any], created: float
    ) -> int:
        """Append to the log; returns the event's sequence number."""
        check_texts([kind], "an event's kind")
        text = dump_json(payload)
        row = self._changing(campaign)
        # Writers come one after another, so that numbers follow the order of commits.
        row.events += 1
        self._insert(tables.event, [with_digest((campaign, row.events, kind, round_number, text, float(created)))])
        return row.events

    def events(self, campaign: int, since: int = 0, kinds: Sequence[str] | None = None) -> list[EventRecord]:
        """Events with ``seq > since`` in order; of these kinds alone, if there are any."""
        last = self.last_event(campaign)
        if since >= last:
            return []
        span = {"campaign": campaign, "first": since + 1, "last": last}
        if kinds is None:
            rows = self._run(_EVENTS, **span)
        else:
            rows = self._query(_EVENTS.where(_event.kind.in_(kinds)), **span)
        rows = self._digested(rows, "event {number} of campaign {campaign}")
        if kinds is None and len(rows) != last - since:
            raise self._damaged(f"the log of campaign {campaign}")
        return [EventRecord(seq, kind, at, json.loads(text), created) for _, seq, kind, at, text, created in rows]

    def last_event(self, campaign: int) -> int:
        """The number of the log's last event; 0 if it is empty, or if there is no such campaign."""
        row = self._row(campaign)
        return 0 if row is None else row.events

    def replace_event_payload(self, campaign: int, seq: int, payload: Mapping[str, Any]) -> None:
        """Rewrite an event's payload: only for removing a person."""
        if not 0 < seq <= self._changing(campaign).events:
            raise UnknownIdError(f"the campaign's log has no event {seq}.")
        [event] = self.events(campaign, seq - 1)[:1]
        row = (campaign, seq, event.kind, event.round, dump_json(payload), event.created)
        self._put(tables.event, with_digest(row))

    # -- rounds --

    def rounds(self, campaign: int) -> list[RoundRecord]:
        """All rounds by number."""
        row = self._row(campaign)
        return [] if row is None else self._rounds(campaign, 1, row.rounds)

    def rounds_since(self, campaign: int, moment: float) -> list[RoundRecord]:
        """Rounds that were opened after a moment, by number."""
        rows = self._digested(self._query(_ROUNDS.where(_round.opened > moment), campaign=campaign, **_ALL), _ROUND)
        return [_round_record(row) for row in rows]

    def round(self, campaign: int, number: int) -> RoundRecord | None:
        """The round of that number, if there is one."""
        row = self._row(campaign)
        return self._rounds(campaign, number, number)[0] if row is not None and 0 < number <= row.rounds else None

    def _rounds(self, campaign: int, first: int, last: int) -> list[RoundRecord]:
        """Rounds that must be there."""
        rows = self._digested(self._run(_ROUNDS, campaign=campaign, first=first, last=last), _ROUND)
        if len(rows) != last - first + 1:
            raise self._damaged(f"the list of rounds of campaign {campaign}")
        return [_round_record(row) for row in rows]

    def put_round(self, campaign: int, record: RoundRecord) -> None:
        """Store the next round, or replace the one of the same number."""
        check_texts([record.id, record.request_id, record.status], "a round's id or request id")
        payload = dump_json(record.payload)
        row = self._changing(campaign)
        if not 0 < record.number <= row.rounds + 1:
            raise InputError(f"the next round has number {row.rounds + 1}; got {record.number}.")
        moments = (None if moment is None else float(moment) for moment in (record.deadline, record.closed))
        opened = (record.number, record.id, record.status, float(record.opened), *moments)
        stored = with_digest((campaign, *opened, record.revision, record.request_id, payload))
        self._put(tables.round_, stored)
        row.rounds = max(row.rounds, record.number)

    def round_counts(self) -> dict[int, dict[str, int]]:
        """For each campaign that has rounds, how many of each status."""
        counts: dict[int, dict[str, int]] = {}
        for number, status, count in self._run(_COUNTS):
            counts.setdefault(number, {})[status] = count
        return counts

    def due_campaigns(self, now: float) -> list[str]:
        """Names of the campaigns with open rounds whose deadline has passed, oldest first."""
        return [name for (name,) in self._run(_DUE, now=now)]

    def explanation(self, campaign: int, round_number: int) -> bytes | None:
        """Why users were chosen in a round, as :meth:`put_explanation` stored it."""
        span = {"campaign": campaign, "first": round_number, "last": round_number}
        rows = self._run(_EXPLANATION, **span)
        written = [explanation for *_, explanation in self._run(_DIGESTS, **span) if explanation != 0]
        if [digest(row) + 1 for row in rows] != written:
            raise self._damaged(f"the explanation of round {round_number} of campaign {campaign}")
        return rows[0][-1] if rows else None

    def put_explanation(self, campaign: int, round_number: int, data: bytes) -> None:
        """Store or replace the explanation of a round."""
        self._changing(campaign)
        row = (campaign, round_number, data)
        self._put(tables.explanation, row)
        # 0 stands for none.
        self._put(tables.digest, (campaign, round_number, 0, 0, digest(row) + 1), _DIGEST_OF_EXPLANATION)

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
        span = {"campaign": campaign, "first": first, "last": last}
        digests = self._run(_DIGESTS, **span)
        rows = [row[1:] for row in self._run(_RESPONSES, **span)]
        self._check_sums(campaign, rows, {number: written for _, number, written, *_ in digests}, at=0)
        names: dict[tuple[int, int], dict[int, str]] = {}
        if event_ids:
            found = [row[1:] for row in self._run(_EVENT_IDS, **span)]
            self._check_sums(campaign, found, {number: written for _, number, _, written, _ in digests}, at=1)
            for name, number, seq, place in found:
                names.setdefault((number, seq), {})[place] = name
        return {(number, seq): unpack(data, names.get((number, seq), {})) for number, seq, data in rows}

    def _check_sums(self, campaign: int, rows: Sequence[Row], written: Mapping[int, Any], at: int) -> None:
        """Refuse rows of rounds whose hashes have another sum; the number of the round stands at a place."""
        by_round: dict[int, list[Row]] = {}
        for row in rows:
            by_round.setdefault(row[at], []).append(row)
        for number in by_round.keys() | written.keys():
            if digest_sum(by_round.get(number, ())) != written.get(number, 0):
                raise self._damaged(f"the responses to round {number} of campaign {campaign}")

    def add_responses(self, campaign: int, round_number: int, rows: Responses, seq: int) -> None:
        """Insert the batch that an event of the log brought; an event id that is there already is refused."""
        check_columns(rows)
        self._changing(campaign)
        if not rows.size:
            return
        batch = (round_number, seq, pack(rows))
        named = [(name, round_number, seq, at) for at, name in enumerate(rows.event_ids) if name is not None]
        self._insert(tables.response, [(campaign, *batch)])
        self._insert(tables.event_id, [(campaign, *row) for row in named])
        sums = (campaign, round_number, digest_sum([batch]), digest_sum(named), 0)
        self._put(tables.digest, sums, _DIGEST_OF_RESPONSES)

    def known_event_ids(self, campaign: int, event_ids: Sequence[str]) -> dict[str, tuple[int, Content]]:
        """The round and the content of what is stored under these event ids."""
        if not event_ids:
            return {}
        check_texts(event_ids, "an event id")
        column = tables.event_id.c
        query = sa.select(column.name, column.round, column.seq, column.place).where(
            column.campaign == campaign, self._backend.among(column.name, event_ids)
        )
        lines = self._query(query)
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
        self._changing(campaign)
        ids = self.users(campaign)
        self._put_document(campaign, _IDS, [*ids[:row], *ids[row + 1 :]])
        gone: set[tuple[int, Content]] = set()  # a row that brought an amount later repeats its response
        for _, number, *_ in self._run(_DIGESTS, campaign=campaign, **_ALL):
            batches = self._batches(campaign, number, number, event_ids=True)
            for statement in (_DELETE_RESPONSES, _DELETE_EVENT_IDS, _NO_RESPONSES):
                self._run(statement, campaign=campaign, round=number)
            for (_, seq), rows in batches.items():
                gone.update((number, content) for content in rows.take(rows.names(row)).contents)
                self.add_responses(campaign, number, without_user(rows, row), seq)
        return len(gone)

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

    def found(self, secret: bytes) -> None:
        """Begin a store that is being made; this is its secret."""
        self._add_campaign(_CampaignRow(_STORE, "", dump_json({"campaigns": [], "last": 0}), 0.0))
        self.put_blob(_STORE, _SECRET, secret)

    def ended_logins(self) -> dict[str, float]:
        """Logins that were ended before their time, and when each would have ended by itself."""
        return dict(self._document(_STORE, _LOGINS))

    def end_login(self, login: str, ends: float, now: float) -> None:
        """A login no longer counts; what is kept of those whose time is over goes. Ending again changes nothing."""
        logins = {**self.ended_logins(), login: float(ends)}
        self._put_document(_STORE, _LOGINS, [entry for entry in logins.items() if entry[1] > now])


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _round_record(row: Row) -> RoundRecord:
    return replace(RoundRecord(*row[1:]), payload=json.loads(row[-1]))
