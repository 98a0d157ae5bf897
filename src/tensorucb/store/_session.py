"""One transaction on a store: plain records in and out."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, replace
from typing import Any

import sqlalchemy as sa

from tensorucb.checks import check_id
from tensorucb.errors import FileFormatError, InputError, StateError, UnknownIdError
from tensorucb.store import _tables as tables
from tensorucb.store._backend import HELD, LISTED, Backend
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


def _all_of(table: sa.Table) -> str:
    return f"SELECT {', '.join(table.columns.keys())} FROM {table.name}"


def _between(table: sa.Table, number: str) -> str:
    """The rows of a campaign, ``first`` to ``last`` by the column of that name."""
    return f"{_all_of(table)} WHERE campaign = :campaign AND {number} BETWEEN :first AND :last"


@functools.cache
def _upsert(table: sa.Table, **changes: str) -> str:
    """Insert a row, or change the one of the same key: all other columns, or these."""
    names, key = table.columns.keys(), table.primary_key.columns.keys()
    changes = changes or {name: f"excluded.{name}" for name in names[len(key) :]}
    return (
        f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({', '.join(f':{name}' for name in names)}) "
        f"ON CONFLICT ({', '.join(key)}) "
        f"DO UPDATE SET {', '.join(f'{name} = {change}' for name, change in changes.items())}"
    )


def _sum(name: str) -> str:
    return f"({tables.digest.name}.{name} + excluded.{name}) % {RANGE}"


def _names_of(campaigns: str) -> str:
    """Names of campaigns by their numbers, oldest first."""
    return f"SELECT name FROM {tables.campaign.name} WHERE campaign IN ({campaigns}) ORDER BY campaign"


_CAMPAIGNS = f"{_all_of(tables.campaign)} ORDER BY campaign"
_CAMPAIGN = f"{_all_of(tables.campaign)} WHERE campaign = :campaign"
_DUE = _names_of(f"SELECT campaign FROM {tables.round_.name} WHERE status = 'open' AND deadline <= :now")
_HOLDING = _names_of(f"SELECT campaign FROM {tables.blob.name} WHERE name = :blob")
_PIECES = f"{_all_of(tables.blob)} WHERE campaign = :campaign AND name = :name ORDER BY piece"
_EVENTS = f"{_between(tables.event, 'seq')} ORDER BY seq"
_EVENTS_OF_KINDS = f"{_between(tables.event, 'seq')} AND kind IN ({LISTED}) ORDER BY seq"
_ROUNDS = f"{_between(tables.round_, 'number')} ORDER BY number"
_ROUNDS_SINCE = f"{_all_of(tables.round_)} WHERE campaign = :campaign AND opened > :moment ORDER BY number"
_COUNTS = f"SELECT campaign, status, count(*) FROM {tables.round_.name} GROUP BY status, campaign"
_EXPLANATION = _between(tables.explanation, "round")
_RESPONSES = f"{_between(tables.response, 'round')} ORDER BY round, seq"
_EVENT_IDS = _between(tables.event_id, "round")
_KNOWN = f"SELECT name, round, seq, place FROM {tables.event_id.name} WHERE campaign = :campaign AND name IN ({LISTED})"
_DIGESTS = _between(tables.digest, "round")
_NO_RESPONSES = (
    f"UPDATE {tables.digest.name} SET responses = 0, event_ids = 0 WHERE campaign = :campaign AND round = :round"
)
_ROUND = "round {number} of campaign {campaign}"


@functools.cache
def _spelled(statement: str, paramstyle: str, listed: str) -> str:
    """A statement in the words of a driver; here values are ``:name``, and one that is a list is `LISTED`."""
    statement = statement.replace(LISTED, listed)
    return statement if paramstyle == "named" else re.sub(r":(\w+)", r"%(\1)s", statement.replace("%", "%%"))


class Session:
    """Reads and, inside :meth:`SQLStore.write`, writes; one consistent view from beginning to end.

    Tokens, the secret and ended logins belong to the whole store.
    """

    def __init__(self, backend: Backend, connection: sa.Connection, writable: bool) -> None:
        self._backend = backend
        self._connection = connection
        self._writable = writable
        self._pid: int | None = os.getpid()
        self._campaigns: dict[int, CampaignRecord | None] = {}
        self._changed: set[int] = set()

    def finish(self) -> None:
        """Write what all changes together mean for the rows of campaigns."""
        for number in sorted(self._changed):
            record = self._campaigns[number]
            if record is not None:
                self._put(tables.campaign, _campaign_row(record))
        self._changed.clear()

    def end(self) -> None:
        """No statement after this one."""
        self._pid = None

    def _check(self, change: bool) -> None:
        if self._pid != os.getpid():
            raise StateError("this session is over, or belongs to another process; begin a new one with the store.")
        if change and not self._writable:
            raise StateError("this is a read-only view; write inside `with store.write() as session`.")

    def _run(self, statement: str, **values: Any) -> list[Row]:
        """The rows of a statement, run on the driver's own cursor.

        SQLAlchemy's way takes a tenth of a millisecond more, several times what the database takes.
        """
        self._check(change=False)
        dialect = self._connection.dialect
        connection: Any = self._connection.connection
        cursor = connection.cursor()
        try:
            with damage_named(self._backend.shown):
                cursor.execute(_spelled(statement, dialect.paramstyle, self._backend.listed), values)
                return list(cursor.fetchall()) if cursor.description else []
        except Exception as error:
            if isinstance(error, dialect.loaded_dbapi.Error) and dialect.is_disconnect(error, connection, cursor):
                self._connection.invalidate(error)  # what is broken is used by nobody else
            raise

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

    def _put(self, table: sa.Table, row: Row, **changes: str) -> None:
        """Insert a whole row, or change the one of the same key: all other columns, or these."""
        self._run(_upsert(table, **changes), **dict(zip(table.columns.keys(), row, strict=True)))

    def _delete(self, table: sa.Table, **values: Any) -> None:
        """Delete the rows with these values."""
        self._run(f"DELETE FROM {table.name} WHERE {' AND '.join(f'{name} = :{name}' for name in values)}", **values)

    # -- campaigns --

    def campaigns(self) -> list[CampaignRecord]:
        """All campaigns, oldest first."""
        for row in self._digested(self._run(_CAMPAIGNS), "its list of campaigns"):
            self._campaigns.setdefault(row[0], _campaign_record(row))
        found = {number: record for number, record in self._campaigns.items() if record is not None}
        numbers = self._numbers()["campaigns"]
        if sorted(found) != [_STORE, *numbers]:
            raise self._damaged("its list of campaigns")
        return [found[number] for number in numbers]

    def campaign(self, name: str) -> CampaignRecord | None:
        """The campaign of that name, if there is one."""
        return next((record for record in self.campaigns() if record.name == name), None)

    def insert_campaign(self, name: str, settings: Mapping[str, Any], created: float) -> CampaignRecord:
        """A new campaign; a name that exists is an :class:`~tensorucb.errors.InputError`."""
        self._check(change=True)
        check_texts([name], "a campaign's name")
        own = json.loads(dump_json(settings))
        if self.campaign(name) is not None:
            raise InputError(f"there is a campaign called {name!r} already; load it, or choose another name.")
        numbers = self._changing(_STORE).settings
        numbers["last"] += 1  # that of a deleted campaign is never given again
        numbers["campaigns"].append(numbers["last"])
        return self._add_campaign(CampaignRecord(numbers["last"], name, own, float(created)))

    def _add_campaign(self, record: CampaignRecord) -> CampaignRecord:
        self._insert(tables.campaign, [_campaign_row(record)])
        self._campaigns[record.campaign] = record
        return record

    def _numbers(self) -> dict[str, Any]:
        """The numbers of all campaigns, and the last one that was given."""
        record = self._record(_STORE)
        if record is None:
            raise self._damaged("its list of campaigns")
        return record.settings

    def _record(self, campaign: int) -> CampaignRecord | None:
        """What a campaign has; None if there is no such campaign."""
        if campaign not in self._campaigns:
            rows = self._digested(self._run(_CAMPAIGN, campaign=campaign), "its list of campaigns")
            self._campaigns[campaign] = _campaign_record(rows[0]) if rows else None
            if not rows and campaign in self._numbers()["campaigns"]:
                raise self._damaged("its list of campaigns")
        return self._campaigns[campaign]

    def _held(self, campaign: int) -> CampaignRecord:
        """The same, with nothing in it if there is no such campaign."""
        return self._record(campaign) or CampaignRecord(campaign, "", {}, 0.0)

    def _changing(self, campaign: int) -> CampaignRecord:
        """What a campaign has, to be changed; refused in a read-only view, or if there is no such campaign."""
        self._check(change=True)
        record = self._record(campaign)
        if record is None:
            raise UnknownIdError(f"the store holds no campaign number {campaign}.")
        self._changed.add(campaign)
        return record

    def delete_campaign(self, campaign: int) -> None:
        """Remove a campaign and all that belongs to it."""
        self._changing(campaign)
        for table in tables.OWNED:
            self._delete(table, campaign=campaign)
        self._campaigns[campaign] = None
        self._changing(_STORE).settings["campaigns"].remove(campaign)

    def campaigns_with(self, blob: str) -> list[str]:
        """Names of the campaigns that have a blob of this name, oldest first."""
        return [name for (name,) in self._run(_HOLDING, blob=blob)]

    # -- blobs, users --

    def blobs(self, campaign: int, prefix: str = "") -> list[str]:
        """Names of the stored blobs that start with ``prefix``, sorted."""
        return sorted(name for name in self._held(campaign).blobs if name.startswith(prefix))

    def blob(self, campaign: int, name: str) -> bytes | None:
        """A stored blob, if there is one."""
        written = self._held(campaign).blobs.get(name)
        if written is None:
            return None
        pieces = self._run(_PIECES, campaign=campaign, name=name)
        # A flipped bit can make SQLite give back a text or a number instead.
        data = b"".join(data for *_, data in pieces if isinstance(data, bytes))
        if [piece for *_, piece, _ in pieces] != list(range(len(pieces))) or _sha256(data) != written:
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
        held = self._changing(campaign).blobs
        for name in set(names) & held.keys():
            self._delete(tables.blob, campaign=campaign, name=name)
            del held[name]

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
        everybody = [*self.users(campaign), *(check_id("a user's id", value) for value in ids)]
        if len(set(everybody)) != len(everybody):
            raise InputError(HELD)
        self._put_document(campaign, _IDS, everybody)

    # -- what people said about being contacted --

    def preferences(self, campaign: int) -> list[Preference]:
        """What people said about being contacted by a campaign, or with 0 by any campaign, by person."""
        return [Preference(*entry) for entry in self._document(campaign, _PREFERENCES)]

    def put_preferences(self, campaign: int, records: Sequence[Preference]) -> None:
        """What these people said last, in place of what is stored of them; an empty answer leaves nothing."""
        check_texts((record.answer for record in records), "an answer")
        held = {record.person: record for record in (*self.preferences(campaign), *records)}
        answers = [astuple(held[person]) for person in sorted(held) if held[person].answer]
        self._put_document(campaign, _PREFERENCES, answers)

    # -- the log --

    def append_event(
        self, campaign: int, kind: str, round_number: int | None, payload: Mapping[str, Any], created: float
    ) -> int:
        """Append to the log; returns the event's sequence number."""
        check_texts([kind], "an event's kind")
        text = dump_json(payload)
        record = self._changing(campaign)
        # Writers come one after another, so that numbers follow the order of commits.
        record.events += 1
        self._insert(tables.event, [with_digest((campaign, record.events, kind, round_number, text, float(created)))])
        return record.events

    def events(self, campaign: int, since: int = 0, kinds: Sequence[str] | None = None) -> list[EventRecord]:
        """Events with ``seq > since`` in order; of these kinds alone, if there are any."""
        last = self.last_event(campaign)
        if since >= last:
            return []
        span = {"campaign": campaign, "first": since + 1, "last": last}
        rows = (
            self._run(_EVENTS, **span) if kinds is None else self._run(_EVENTS_OF_KINDS, **span, texts=_listed(kinds))
        )
        rows = self._digested(rows, "event {number} of campaign {campaign}")
        if kinds is None and len(rows) != last - since:
            raise self._damaged(f"the log of campaign {campaign}")
        return [EventRecord(seq, kind, at, json.loads(text), created) for _, seq, kind, at, text, created in rows]

    def last_event(self, campaign: int) -> int:
        """The number of the log's last event; 0 if it is empty, or if there is no such campaign."""
        return self._held(campaign).events

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
        return self._rounds(campaign, 1, self._held(campaign).rounds)

    def rounds_since(self, campaign: int, moment: float) -> list[RoundRecord]:
        """Rounds that were opened after a moment, by number."""
        rows = self._digested(self._run(_ROUNDS_SINCE, campaign=campaign, moment=moment), _ROUND)
        return [_round_record(row) for row in rows]

    def round(self, campaign: int, number: int) -> RoundRecord | None:
        """The round of that number, if there is one."""
        there = 0 < number <= self._held(campaign).rounds
        return self._rounds(campaign, number, number)[0] if there else None

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
        held = self._changing(campaign)
        if not 0 < record.number <= held.rounds + 1:
            raise InputError(f"the next round has number {held.rounds + 1}; got {record.number}.")
        moments = (None if moment is None else float(moment) for moment in (record.deadline, record.closed))
        opened = (record.number, record.id, record.status, float(record.opened), *moments)
        stored = with_digest((campaign, *opened, record.revision, record.request_id, payload))
        self._put(tables.round_, stored)
        held.rounds = max(held.rounds, record.number)

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
        digests = (campaign, round_number, 0, 0, digest(row) + 1)  # 0 stands for none
        self._put(tables.digest, digests, explanation="excluded.explanation")

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
        self._put(tables.digest, sums, responses=_sum("responses"), event_ids=_sum("event_ids"))

    def known_event_ids(self, campaign: int, event_ids: Sequence[str]) -> dict[str, tuple[int, Content]]:
        """The round and the content of what is stored under these event ids."""
        if not event_ids:
            return {}
        check_texts(event_ids, "an event id")
        lines = self._run(_KNOWN, campaign=campaign, texts=_listed(event_ids))
        contents = {
            key: rows.contents
            for number in {number for _, number, *_ in lines}
            for key, rows in self._batches(campaign, number, number, event_ids=False).items()
        }
        try:
            return {name: (number, contents[number, seq][place]) for name, number, seq, place in lines}
        except (LookupError, TypeError):
            raise self._damaged(f"an event id of campaign {campaign}") from None

    def erase_user(self, campaign: int, row: int) -> int:
        """Remove a user and every response that names them; users behind them move up by one row, here and there.

        Returns how many responses went.
        """
        self._changing(campaign)
        ids = self.users(campaign)
        self._put_document(campaign, _IDS, [*ids[:row], *ids[row + 1 :]])
        gone: set[tuple[int, Content]] = set()  # a row that brought an amount later repeats its response
        for _, number, *_ in self._run(_DIGESTS, campaign=campaign, first=-(2**63) + 1, last=2**63 - 1):
            batches = self._batches(campaign, number, number, event_ids=True)
            for table in (tables.response, tables.event_id):
                self._delete(table, campaign=campaign, round=number)
            self._run(_NO_RESPONSES, campaign=campaign, round=number)
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
        self._add_campaign(CampaignRecord(_STORE, "", {"campaigns": [], "last": 0}, 0.0))
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


def _listed(texts: Sequence[str]) -> str:
    return json.dumps(list(texts))


def _campaign_row(record: CampaignRecord) -> Row:
    """As it is stored."""
    texts = {"settings": dump_json(record.settings), "blobs": dump_json(record.blobs)}
    return with_digest(tuple({**vars(record), **texts}.values()))


def _campaign_record(row: Row) -> CampaignRecord:
    record = CampaignRecord(*row)
    return replace(record, settings=json.loads(row[2]), blobs=json.loads(row[-1]))


def _round_record(row: Row) -> RoundRecord:
    return replace(RoundRecord(*row[1:]), payload=json.loads(row[-1]))
