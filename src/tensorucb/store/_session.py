"""One transaction on a SQL database: plain records in and out, SQL in between."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import sqlalchemy as sa

from tensorucb.arrays import I64
from tensorucb.checks import check_id
from tensorucb.errors import FileFormatError, InputError, ShapeError, StateError, UnknownIdError
from tensorucb.store import _tables as tables
from tensorucb.store._backend import Backend
from tensorucb.store._checksum import Groups, row_hash, user_hashes
from tensorucb.store._protocol import (
    CampaignRecord,
    EdgeResponses,
    EventRecord,
    NodeEvents,
    Preference,
    Responses,
    RoundRecord,
    TokenRecord,
    as_ids,
    check_columns,
    check_texts,
    damage_named,
    dump_json,
    joined,
    load_json,
    pack,
    unpack,
    with_amounts,
    without_user,
)

Rows = list[tuple[Any, ...]]
Known = dict[str, tuple[int, str, int, int | None, float | None, float | None]]

# The statements of every small call, made once: making one takes as long as running it.
_C: sa.BindParameter[int] = sa.bindparam("c")
_user, _event, _at = tables.user.c, tables.event.c, tables.round_.c
_response, _event_id, _said = tables.response.c, tables.event_id.c, tables.preference.c
_PRESENT = sa.select(tables.campaign.c.campaign).where(tables.campaign.c.campaign == sa.bindparam("c"))
_LAST_EVENT = sa.select(sa.func.max(_event.seq)).where(_event.campaign == _C)
_NEW_EVENT = sa.insert(tables.event)
_EVENTS = (
    sa.select(*list(_event)[1:]).where(_event.campaign == _C, _event.seq > sa.bindparam("since")).order_by(_event.seq)
)
_ROUNDS = sa.select(*list(_at)[1:]).where(_at.campaign == _C).order_by(_at.number)
_ROUND = _ROUNDS.where(_at.number == sa.bindparam("number"))
_ROUNDS_SINCE = _ROUNDS.where(_at.opened > sa.bindparam("since"))
_COUNTS = sa.select(_at.campaign, _at.status, sa.func.count()).group_by(_at.status, _at.campaign)
_DUE = (
    sa.select(tables.campaign.c.name)
    .where(
        tables.campaign.c.campaign.in_(
            sa.select(_at.campaign).where(_at.status == "open", _at.deadline <= sa.bindparam("now"))
        )
    )
    .order_by(tables.campaign.c.campaign)
)
_USER = (_user.user_row, _user.id_integer, _user.id_text)
_EXPLANATION = sa.select(tables.explanation.c.data).where(
    tables.explanation.c.campaign == _C, tables.explanation.c.round == sa.bindparam("number")
)
_BLOBS = sa.select(tables.blob.c.name).where(tables.blob.c.campaign == _C)
_BATCHES = (
    sa.select(_response.round, _response.seq, _response.kind, _response.data)
    .where(_response.campaign == _C, _response.round.between(sa.bindparam("first"), sa.bindparam("last")))
    .order_by(_response.round, _response.seq)
)
_EVENT_IDS = sa.select(*list(_event_id)[1:]).where(
    _event_id.campaign == _C, _event_id.round.between(sa.bindparam("first"), sa.bindparam("last"))
)
_token, _logout = tables.token.c, tables.logout.c
_TOKENS = sa.select(*_token).order_by(_token.created, _token.name)
_KINDS: dict[str, type[Responses]] = {"edge": EdgeResponses, "node": NodeEvents}
PIECE_BYTES, _PIECE = 1 << 28, "|"  # of a large blob, and what stands before the number in a piece's name


class Session:
    """Reads and, inside :meth:`SQLStore.write`, writes; one consistent view from beginning to end.

    All that is read and written has its checksums. Tokens, the secret and ended logins belong to the whole store.
    """

    def __init__(self, backend: Backend, connection: sa.Connection, writable: bool) -> None:
        self._backend = backend
        self._connection = connection
        self._writable = writable
        self._pid: int | None = os.getpid()
        self._present: set[int] = set()
        self._blob_names: dict[int, list[str]] = {}
        self._groups = Groups(backend.shown, self._rows, self._run)

    def end(self) -> None:
        """No statement after this one."""
        self._pid = None

    def _check(self, change: bool) -> None:
        if self._pid != os.getpid():
            raise StateError("this session is over, or belongs to another process; begin a new one with the store.")
        if change and not self._writable:
            raise StateError("this is a read-only view; write inside `with store.write() as session`.")

    def _run(self, statement: sa.Executable, values: Mapping[str, Any] | None = None) -> sa.CursorResult[Any]:
        self._check(change=False)
        with damage_named(self._backend.shown):
            result: sa.CursorResult[Any] = self._connection.execute(statement, values)
        return result

    def _rows(self, statement: sa.Executable, values: Mapping[str, Any] | None = None) -> Rows:
        """All rows as the driver made them, which takes a third of the time of SQLAlchemy's own."""
        result = self._run(statement, values)
        assert result.cursor is not None
        with damage_named(self._backend.shown):
            rows = list(result.cursor.fetchall())
        result.close()
        return rows

    def _begin_change(self, campaign: int) -> None:
        """Refuse to write in a read-only view, or for a campaign that does not exist."""
        self._check(change=True)
        if campaign not in self._present:
            if not self._rows(_PRESENT, {"c": campaign}):
                raise UnknownIdError(f"the store holds no campaign number {campaign}.")
            self._present.add(campaign)

    def _checked(
        self,
        part: str,
        query: sa.Executable,
        values: Mapping[str, Any] | None = None,
        campaign: int = 0,
        number: int = 0,
    ) -> Rows:
        """The rows of a group, which must give its checksum."""
        rows = self._rows(query, values)
        self._groups.check(campaign, part, number, [row_hash(*row) for row in rows])
        return rows

    def campaigns(self) -> list[CampaignRecord]:
        """All campaigns, oldest first."""
        rows = self._checked("campaign", sa.select(tables.campaign).order_by(tables.campaign.c.campaign))
        return [CampaignRecord(number, name, load_json(text), created) for number, name, text, created in rows]

    def campaign(self, name: str) -> CampaignRecord | None:
        """The campaign of that name, if there is one."""
        return next((record for record in self.campaigns() if record.name == name), None)

    def insert_campaign(self, name: str, settings: Mapping[str, Any], created: float) -> CampaignRecord:
        """A new campaign; a name that exists is an :class:`~tensorucb.errors.InputError`."""
        self._check(change=True)
        check_texts([name], "a campaign's name")
        text, created = dump_json(settings), float(created)
        if self.campaign(name) is not None:
            raise InputError(f"there is a campaign called {name!r} already; load it, or choose another name.")
        insert = sa.insert(tables.campaign).values(name=name, settings=text, created=created)
        number = int(self._run(insert.returning(tables.campaign.c.campaign)).scalar_one())
        self._groups.add(0, "campaign", 0, [row_hash(number, name, text, created)])
        return CampaignRecord(number, name, load_json(text), created)

    def delete_campaign(self, campaign: int) -> None:
        """Remove a campaign and all that belongs to it."""
        self._begin_change(campaign)
        rows = self._rows(sa.select(tables.campaign).where(tables.campaign.c.campaign == campaign))
        self._groups.remove(0, "campaign", 0, [row_hash(*row) for row in rows])
        for table in (*tables.OWNED, tables.campaign):
            self._run(sa.delete(table).where(table.c.campaign == campaign))
        self._present.discard(campaign)

    def blobs(self, campaign: int, prefix: str = "") -> list[str]:
        """Names of the stored blobs that start with ``prefix``, sorted."""
        names = self._blob_names.get(campaign)
        if names is None:
            rows = self._checked("blob", _BLOBS, {"c": campaign}, campaign)
            names = sorted(name for (name,) in rows if _PIECE not in name)
            if not self._writable:  # nothing changes within a view of one moment
                self._blob_names[campaign] = names
        return [name for name in names if name.startswith(prefix)]

    def blob(self, campaign: int, name: str) -> bytes | None:
        """A stored blob, if there is one."""
        pieces = [self._piece(campaign, name)]
        while pieces[-1] is not None and len(pieces[-1]) == PIECE_BYTES:
            pieces.append(self._piece(campaign, f"{name}{_PIECE}{len(pieces)}"))
        if pieces[-1] is None and (len(pieces) > 1 or name in self.blobs(campaign)):
            raise FileFormatError(f"{self._backend.shown} is damaged: blob {name!r} is lost. Use a backup.")
        return pieces[0] if len(pieces) == 1 else b"".join(piece for piece in pieces if piece is not None)

    def _piece(self, campaign: int, name: str) -> bytes | None:
        table = tables.blob.c
        data = self._run(sa.select(table.data).where(table.campaign == campaign, table.name == name)).scalar()
        return None if data is None else bytes(data)

    def put_blob(self, campaign: int, name: str, data: bytes) -> None:
        """Store or replace a blob; a large one in pieces, since databases refuse values of a gigabyte.

        Whoever reads goes on until a piece is not full, so the last one may be empty.
        """
        check_texts([name], "a blob's name")
        for number in range(len(data) // PIECE_BYTES + 1):
            piece = data if len(data) < PIECE_BYTES else data[number * PIECE_BYTES : (number + 1) * PIECE_BYTES]
            named = f"{name}{_PIECE}{number}" if number else name
            if self._put(tables.blob, {"campaign": campaign, "name": named}, {"data": piece}):
                self._groups.add(campaign, "blob", 0, [row_hash(named)])

    def delete_blobs(self, campaign: int, names: Iterable[str]) -> None:
        """Remove blobs; names that do not exist are fine."""
        self._begin_change(campaign)
        table, wanted = tables.blob.c, set(names)
        rows = self._rows(_BLOBS, {"c": campaign})
        named = [name for (name,) in rows if name.partition(_PIECE)[0] in wanted]
        self._run(sa.delete(tables.blob).where(table.campaign == campaign, self._backend.among(table.name, named)))
        self._groups.remove(campaign, "blob", 0, [row_hash(name) for name in named])

    def users(self, campaign: int) -> tuple[I64, list[int | str]]:
        """Rows (ascending) and ids of all users."""
        query = sa.select(*_USER).where(_user.campaign == campaign).order_by(_user.user_row)
        rows, ids = as_ids(self._rows(query))
        self._groups.check(campaign, "user", 0, user_hashes(rows, ids))
        return rows, ids

    def add_users(self, campaign: int, rows: I64, ids: Sequence[int | str]) -> None:
        """New users."""
        self._begin_change(campaign)
        if len(rows) != len(ids):
            raise ShapeError(f"each user needs a row and an id; got {len(rows)} rows and {len(ids)} ids.")
        plain = [check_id("a user's id", value) for value in ids]
        numbers = [value if isinstance(value, int) else None for value in plain]
        texts = [value if isinstance(value, str) else None for value in plain]
        lines = zip([campaign] * len(plain), np.asarray(rows).tolist(), numbers, texts, strict=True)
        self._backend.insert(self._connection, tables.user, lines)
        self._groups.add(campaign, "user", 0, user_hashes(rows, plain))

    def preferences(self, campaign: int) -> list[Preference]:
        """What people said about being contacted by a campaign, or with 0 by any campaign, by person."""
        query = sa.select(_said.person, _said.answer, _said.since).where(_said.campaign == campaign)
        rows = self._checked("preference", query.order_by(_said.person), None, campaign)
        return [Preference(*row) for row in rows]

    def put_preferences(self, campaign: int, records: Sequence[Preference]) -> None:
        """What these people said last; whatever is stored of them before goes."""
        self.delete_preferences(campaign, [record.person for record in records])
        rows = [(record.person, record.answer, float(record.since)) for record in records]
        check_texts((answer for _, answer, _ in rows), "an answer")
        self._backend.insert(self._connection, tables.preference, ((campaign, *row) for row in rows))
        self._groups.add(campaign, "preference", 0, [row_hash(*row) for row in rows])

    def delete_preferences(self, campaign: int, people: Iterable[int]) -> None:
        """Forget what these people said; those who said nothing are fine."""
        if campaign:
            self._begin_change(campaign)
        self._check(change=True)
        named = set(people)
        gone = [record for record in self.preferences(campaign) if record.person in named]
        if not gone:
            return
        one = sa.and_(_said.campaign == campaign, _said.person == sa.bindparam("who"))
        self._connection.execute(sa.delete(tables.preference).where(one), [{"who": each.person} for each in gone])
        hashes = [row_hash(each.person, each.answer, each.since) for each in gone]
        self._groups.remove(campaign, "preference", 0, hashes)

    def append_event(
        self, campaign: int, kind: str, round_number: int | None, payload: Mapping[str, Any], created: float
    ) -> int:
        """Append to the log; returns the event's sequence number."""
        self._begin_change(campaign)
        check_texts([kind], "an event's kind")
        # Writers come one after another, so that the next number is free and numbers follow the order of commits.
        [(last,)] = self._rows(_LAST_EVENT, {"c": campaign})
        seq, text, created = int(last or 0) + 1, dump_json(payload), float(created)
        values = {"campaign": campaign, "seq": seq, "kind": kind, "round": round_number, "created": created}
        self._run(_NEW_EVENT, {**values, "payload": text})
        self._groups.add(campaign, "event", seq, [row_hash(seq, kind, round_number, text, created)])
        return seq

    def events(self, campaign: int, since: int = 0, kinds: Sequence[str] | None = None) -> list[EventRecord]:
        """Events with ``seq > since`` in order; of these kinds alone, if there are any."""
        query = _EVENTS if kinds is None else _EVENTS.where(_event.kind.in_(kinds))
        rows = self._rows(query, {"c": campaign, "since": since})
        hashes = {row[0]: [row_hash(*row)] for row in rows}
        self._groups.check_each(campaign, "event", hashes, since + 1, some=kinds is not None)
        return [EventRecord(seq, kind, at, load_json(text), made) for seq, kind, at, text, made in rows]

    def last_event(self, campaign: int) -> int:
        """The number of the log's last event; 0 if it is empty."""
        [(last,)] = self._rows(_LAST_EVENT, {"c": campaign})
        return int(last or 0)

    def rounds(self, campaign: int) -> list[RoundRecord]:
        """All rounds by number."""
        rows = self._rows(_ROUNDS, {"c": campaign})
        self._groups.check_each(campaign, "round", {row[0]: [row_hash(*row)] for row in rows})
        return [_round(row) for row in rows]

    def rounds_since(self, campaign: int, moment: float) -> list[RoundRecord]:
        """Rounds that were opened after a moment, by number."""
        rows = self._rows(_ROUNDS_SINCE, {"c": campaign, "since": moment})
        self._groups.check_each(campaign, "round", {row[0]: [row_hash(*row)] for row in rows}, some=True)
        return [_round(row) for row in rows]

    def round(self, campaign: int, number: int) -> RoundRecord | None:
        """The round of that number, if there is one."""
        rows = self._checked("round", _ROUND, {"c": campaign, "number": number}, campaign, number)
        return _round(rows[0]) if rows else None

    def round_counts(self) -> dict[int, dict[str, int]]:
        """For each campaign that has rounds, how many of each status."""
        counts: dict[int, dict[str, int]] = {}
        for number, status, count in self._rows(_COUNTS):
            counts.setdefault(number, {})[status] = count
        return counts

    def due_campaigns(self, now: float) -> list[str]:
        """Names of the campaigns with open rounds whose deadline has passed, oldest first."""
        return [name for (name,) in self._rows(_DUE, {"now": now})]

    def campaigns_with(self, blob: str) -> list[str]:
        """Names of the campaigns that have a blob of this name, oldest first."""
        holding = sa.select(tables.blob.c.campaign).where(tables.blob.c.name == blob)
        table = tables.campaign.c
        query = sa.select(table.name).where(table.campaign.in_(holding)).order_by(table.campaign)
        return [name for (name,) in self._rows(query)]

    def put_round(self, campaign: int, record: RoundRecord) -> None:
        """Insert a round, or replace the one of the same number."""
        check_texts([record.id, record.request_id, record.status], "a round's id or request id")
        values = {name: getattr(record, name) for name in tables.round_.c.keys()[2:-1]}
        for name in ("opened", "deadline", "closed"):
            values[name] = None if values[name] is None else float(values[name])
        values["payload"] = dump_json(record.payload)
        self._put(tables.round_, {"campaign": campaign, "number": record.number}, values)
        self._groups.put(campaign, "round", record.number, [row_hash(record.number, *values.values())])

    def explanation(self, campaign: int, round_number: int) -> bytes | None:
        """Why users were chosen in a round, as :meth:`put_explanation` stored it."""
        values = {"c": campaign, "number": round_number}
        rows = self._checked("explanation", _EXPLANATION, values, campaign, round_number)
        return rows[0][0] if rows else None

    def put_explanation(self, campaign: int, round_number: int, data: bytes) -> None:
        """Store or replace the explanation of a round."""
        self._put(tables.explanation, {"campaign": campaign, "round": round_number}, {"data": data})
        self._groups.put(campaign, "explanation", round_number, [row_hash(data)])

    def _put(self, table: sa.Table, key: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
        """Replace a row or insert it; whether it is new."""
        self._begin_change(key["campaign"])
        found = sa.and_(*(table.c[name] == value for name, value in key.items()))
        new = self._run(sa.update(table).where(found).values(**values)).rowcount == 0
        if new:
            self._run(sa.insert(table).values(**key, **values))
        return new

    def edge_responses(self, campaign: int, round_number: int, upto: int | None = None) -> EdgeResponses:
        """Edge responses of a round, told up to an event or until now, by source, then target."""
        return self.told(campaign, round_number, round_number, upto, event_ids=True)[round_number][0]

    def node_events(self, campaign: int, round_number: int, upto: int | None = None) -> NodeEvents:
        """Node events of a round, told up to an event or until now, by user, then time."""
        return self.told(campaign, round_number, round_number, upto, event_ids=True)[round_number][1]

    def told(
        self, campaign: int, first: int, last: int, upto: int | None = None, *, event_ids: bool = False
    ) -> dict[int, tuple[EdgeResponses, NodeEvents]]:
        """The edge responses and node events of rounds ``first`` to ``last``, as above; two statements for all.

        Event ids, which nobody learns from, are read only where they are wanted.
        """
        batches: dict[tuple[int, str], list[Any]] = {}
        for number, seq, kind, rows in self._batches(campaign, first, last, event_ids):
            if upto is None or seq <= upto:
                batches.setdefault((number, kind), []).append(rows)
        return {
            number: (
                joined(EdgeResponses, batches.get((number, "edge"), [])),
                joined(NodeEvents, batches.get((number, "node"), [])),
            )
            for number in range(first, last + 1)
        }

    def _batches(
        self, campaign: int, first: int, last: int, event_ids: bool
    ) -> list[tuple[int, int, str, EdgeResponses | NodeEvents]]:
        """Round, event and kind of each batch of some rounds, and its rows as they came."""
        values = {"c": campaign, "first": first, "last": last}
        rows = self._rows(_BATCHES, values)
        self._check_by_round(campaign, "response", [(row[0], row) for row in rows], first, last)
        names: dict[tuple[int, int, str], dict[int, str]] = {}
        if event_ids:
            lines = self._rows(_EVENT_IDS, values)
            self._check_by_round(campaign, "event_id", [(line[1], line) for line in lines], first, last)
            for name, number, seq, kind, place in lines:
                names.setdefault((number, seq, kind), {})[place] = name
        return [
            (number, seq, kind, unpack(_KINDS[kind], data, names.get((number, seq, kind), {})))
            for number, seq, kind, data in rows
        ]

    def _check_by_round(
        self, campaign: int, part: str, rows: Iterable[tuple[int, tuple[Any, ...]]], first: int, last: int
    ) -> None:
        hashes: dict[int, list[int]] = {}
        for number, row in rows:
            hashes.setdefault(number, []).append(row_hash(*row))
        self._groups.check_each(campaign, part, hashes, first, last)

    def add_edge_responses(self, campaign: int, round_number: int, rows: EdgeResponses, seq: int) -> None:
        """Insert a batch that an event of the log brought; an event id that is there already is refused."""
        self._add(campaign, round_number, "edge", rows, seq)

    def add_node_events(self, campaign: int, round_number: int, rows: NodeEvents, seq: int) -> None:
        """The same of node events."""
        self._add(campaign, round_number, "node", rows, seq)

    def _add(self, campaign: int, round_number: int, kind: str, rows: Responses, seq: int) -> None:
        self._begin_change(campaign)
        check_columns(rows)
        if not rows.times.size:
            return
        row = (round_number, seq, kind, pack(rows))
        self._backend.insert(self._connection, tables.response, [(campaign, *row)])
        self._groups.add(campaign, "response", round_number, [row_hash(*row)])
        named = [(name, place) for place, name in enumerate(rows.event_ids) if name is not None]
        if named:
            lines = [(name, round_number, seq, kind, place) for name, place in named]
            self._backend.insert(self._connection, tables.event_id, [(campaign, *line) for line in lines])
            self._groups.add(campaign, "event_id", round_number, [row_hash(*line) for line in lines])

    def known_event_ids(self, campaign: int, event_ids: Sequence[str]) -> Known:
        """What is stored under these event ids: (round, "edge" or "node", source or user, target, outcome, time)."""
        if not event_ids:
            return {}
        check_texts(event_ids, "an event id")
        query = sa.select(*list(_event_id)[1:]).where(
            _event_id.campaign == campaign, self._backend.among(_event_id.name, event_ids)
        )
        lines = self._rows(query)
        batches = {
            (number, seq, kind): rows
            for at in {number for _, number, *_ in lines}
            for number, seq, kind, rows in self._batches(campaign, at, at, event_ids=False)
        }
        return {
            name: (number, kind, *_content(batches[number, seq, kind], place))
            for name, number, seq, kind, place in lines
        }

    def replace_event_payload(self, campaign: int, seq: int, payload: Mapping[str, Any]) -> None:
        """Rewrite an event's payload: only for removing a person."""
        self._begin_change(campaign)
        one = sa.and_(_event.campaign == campaign, _event.seq == seq)
        found = self._rows(sa.select(_event.kind, _event.round, _event.created).where(one))
        if not found:
            raise UnknownIdError(f"the campaign's log has no event {seq}.")
        [(kind, at, created)] = found
        text = dump_json(payload)
        self._run(sa.update(tables.event).where(one).values(payload=text))
        self._groups.put(campaign, "event", seq, [row_hash(seq, kind, at, text, created)])

    def erase_user(self, campaign: int, row: int) -> int:
        """Remove a user and every response that names them; users behind them move up by one row, here and there.

        Returns how many responses went.
        """
        self._begin_change(campaign)
        users, ids = self.users(campaign)
        self._run(sa.delete(tables.user).where(_user.campaign == campaign))
        self._groups.put(campaign, "user", 0, [])
        left = users != row
        self.add_users(campaign, users[left] - (users[left] > row), [ids[at] for at in np.flatnonzero(left).tolist()])
        removed = 0
        for (number,) in self._rows(sa.select(_response.round).where(_response.campaign == campaign).distinct()):
            for seq, kind, rows in self._taken(campaign, number):
                kept = without_user(rows, row)
                removed += rows.times.size - kept.times.size
                self._add(campaign, number, kind, kept, seq)
        return removed

    def fill_amounts(
        self,
        campaign: int,
        round_number: int,
        edges: Mapping[tuple[int, int], float],
        nodes: Mapping[tuple[int, float], float],
    ) -> None:
        """Add amounts to rows of a round that were told without one, by (source, target) and by (user, time)."""
        self._begin_change(campaign)
        amounts: dict[str, Mapping[Any, float]] = {"edge": edges, "node": nodes}
        for seq, kind, rows in self._taken(campaign, round_number):
            self._add(campaign, round_number, kind, with_amounts(rows, amounts[kind]), seq)

    def _taken(self, campaign: int, number: int) -> list[tuple[int, str, EdgeResponses | NodeEvents]]:
        """Event, kind and rows of all batches of a round, which are deleted, to be stored otherwise."""
        batches = self._batches(campaign, number, number, event_ids=True)
        for part, table in (("response", tables.response), ("event_id", tables.event_id)):
            self._run(sa.delete(table).where(table.c.campaign == campaign, table.c.round == number))
            self._groups.put(campaign, part, number, [])
        return [(seq, kind, rows) for _, seq, kind, rows in batches]

    def tokens(self) -> list[TokenRecord]:
        """All tokens, oldest first."""
        return [TokenRecord(*row) for row in self._checked("token", _TOKENS)]

    def put_token(self, record: TokenRecord) -> None:
        """A new token; a name that exists is an :class:`~tensorucb.errors.InputError`."""
        self._check(change=True)
        values = vars(record) | {"created": float(record.created)}
        check_texts([record.name, record.role, record.hash], "a token's name, role or hash")
        self._run(sa.insert(tables.token).values(**values))
        self._groups.add(0, "token", 0, [row_hash(*values.values())])

    def delete_token(self, name: str) -> None:
        """Remove a token; a name that does not exist is an :class:`~tensorucb.errors.UnknownIdError`."""
        self._check(change=True)
        record = next((record for record in self.tokens() if record.name == name), None)
        if record is None:
            raise UnknownIdError(f"the store holds no token called {name!r}.")
        self._run(sa.delete(tables.token).where(_token.name == name))
        self._groups.remove(0, "token", 0, [row_hash(*vars(record).values())])

    def secret(self) -> bytes:
        """32 random bytes that this store was given when it was made, and that leave it nowhere."""
        [(_, text)] = self._checked("secret", sa.select(tables.secret))
        return bytes.fromhex(text)

    def put_secret(self, secret: bytes) -> None:
        """The secret of a store that is being made."""
        row = ("service", secret.hex())
        self._run(sa.insert(tables.secret).values(row))
        self._groups.add(0, "secret", 0, [row_hash(*row)])

    def ended_logins(self) -> dict[str, float]:
        """Logins that were ended before their time, and when each would have ended by itself."""
        return dict(self._checked("logout", sa.select(*_logout)))

    def end_login(self, login: str, ends: float, now: float) -> None:
        """A login no longer counts; what is kept of those whose time is over goes. Ending again changes nothing."""
        self._check(change=True)
        check_texts([login], "a login")
        known = self.ended_logins()
        over = [row for row in known.items() if row[1] <= now]
        self._run(sa.delete(tables.logout).where(_logout.ends <= now))
        self._groups.remove(0, "logout", 0, [row_hash(*row) for row in over])
        if login not in known and ends > now:
            self._run(sa.insert(tables.logout).values(login=login, ends=float(ends)))
            self._groups.add(0, "logout", 0, [row_hash(login, float(ends))])


def _round(row: Sequence[Any]) -> RoundRecord:
    return replace(RoundRecord(*row), payload=load_json(row[-1]))


def _content(rows: EdgeResponses | NodeEvents, place: int) -> tuple[int, int | None, float | None, float | None]:
    """Source or user, target, outcome and time of a row."""
    time = None if math.isnan(rows.times[place]) else float(rows.times[place])
    if isinstance(rows, NodeEvents):
        return int(rows.users[place]), None, None, time
    return int(rows.sources[place]), int(rows.targets[place]), float(rows.outcomes[place]), time
