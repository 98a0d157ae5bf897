"""One transaction on a SQL database: the plain records of the protocol in and out, SQL in between."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from tensorucb.errors import FileFormatError, InputError, ShapeError, StateError, UnknownIdError
from tensorucb.store import _tables as tables
from tensorucb.store._backend import Backend
from tensorucb.store._checksum import (
    campaign_hash,
    edge_hashes,
    event_hash,
    name_hash,
    node_hashes,
    round_hash,
    total,
    user_hashes,
)
from tensorucb.store._groups import Groups
from tensorucb.store._protocol import CampaignRecord, EdgeResponses, EventRecord, NodeEvents, RoundRecord
from tensorucb.store._values import (
    Known,
    as_ids,
    check_edges,
    check_id,
    check_nodes,
    check_texts,
    damage_named,
    dump_json,
    edge_columns,
    load_json,
    node_columns,
)

# The statements of every small call, made once: making one takes as long as running it.
_C: sa.BindParameter[int] = sa.bindparam("c")
_NAME: sa.BindParameter[str] = sa.bindparam("name")
_PRESENT = sa.select(tables.campaign.c.campaign).where(tables.campaign.c.campaign == _C)
_event, _at = tables.event.c, tables.round_.c
_LAST_EVENT = sa.select(sa.func.max(_event.seq)).where(_event.campaign == _C)
_NEW_EVENT = sa.insert(tables.event)
_EVENTS = (
    sa.select(_event.seq, _event.kind, _event.round, _event.payload, _event.created)
    .where(_event.campaign == _C, _event.seq > sa.bindparam("since"))
    .order_by(_event.seq)
)
_ROUNDS = sa.select(*list(_at)[1:]).where(_at.campaign == _C).order_by(_at.number)
_ROUND_BY_ID = _ROUNDS.where(_at.id == _NAME)
_ROUND_BY_REQUEST = _ROUNDS.where(_at.request_id == _NAME)


class SQLSession:
    """Reads and, inside a write transaction, writes; implements :class:`tensorucb.store._protocol.Session`."""

    def __init__(self, backend: Backend, connection: sa.Connection, writable: bool) -> None:
        self._backend = backend
        self._connection = connection
        self._writable = writable
        self._pid: int | None = os.getpid()
        self._present: set[int] = set()
        self._groups = Groups(backend.shown, self._rows)

    def save(self) -> None:
        """Write what was kept until the end of the transaction: the checksums."""
        self._groups.save(self._connection)

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

    def _rows(self, statement: sa.Executable, values: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
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

    def campaigns(self) -> list[CampaignRecord]:
        """All campaigns, oldest first."""
        rows = self._rows(sa.select(tables.campaign).order_by(tables.campaign.c.campaign))
        records = [CampaignRecord(number, name, {}, created) for number, name, _, created in rows]
        hashes = [campaign_hash(record, row[2]) for record, row in zip(records, rows, strict=True)]
        self._groups.check(0, "campaign", 0, total(hashes))
        return [replace(record, settings=load_json(row[2])) for record, row in zip(records, rows, strict=True)]

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
        insert = sa.insert(tables.campaign).values(name=name, settings=text, created=created)
        number = int(self._run(insert.returning(tables.campaign.c.campaign)).scalar_one())
        record = CampaignRecord(number, name, load_json(text), float(created))
        self._groups.add(0, "campaign", 0, total([campaign_hash(record, text)]))
        return record

    def delete_campaign(self, campaign: int) -> None:
        """Remove a campaign and all that belongs to it."""
        self._begin_change(campaign)
        rows = self._rows(sa.select(tables.campaign).where(tables.campaign.c.campaign == campaign))
        hashes = [campaign_hash(CampaignRecord(campaign, name, {}, made), text) for _, name, text, made in rows]
        self._groups.remove(0, "campaign", 0, total(hashes))
        self._groups.drop(campaign)
        for table in (*tables.OWNED, tables.campaign):
            self._run(sa.delete(table).where(table.c.campaign == campaign))
        self._present.discard(campaign)

    def blobs(self, campaign: int, prefix: str = "") -> list[str]:
        """Names of the stored blobs that start with ``prefix``, sorted."""
        rows = self._rows(sa.select(tables.blob.c.name).where(tables.blob.c.campaign == campaign))
        self._groups.check(campaign, "blob", 0, total([name_hash(name) for (name,) in rows]))
        return sorted(name for (name,) in rows if name.startswith(prefix))

    def blob(self, campaign: int, name: str) -> bytes | None:
        """A stored blob, if there is one."""
        table = tables.blob.c
        data = self._run(sa.select(table.data).where(table.campaign == campaign, table.name == name)).scalar()
        if data is None and name in self.blobs(campaign):
            raise FileFormatError(f"{self._backend.shown} is damaged: blob {name!r} is lost. Use a backup.")
        return None if data is None else bytes(data)

    def put_blob(self, campaign: int, name: str, data: bytes) -> None:
        """Store or replace a blob."""
        check_texts([name], "a blob's name")
        if self._put(tables.blob, {"campaign": campaign, "name": name}, {"data": data}):
            self._groups.add(campaign, "blob", 0, total([name_hash(name)]))

    def delete_blobs(self, campaign: int, names: Iterable[str]) -> None:
        """Remove blobs; names that do not exist are fine."""
        self._begin_change(campaign)
        table = tables.blob.c
        chosen = sa.and_(table.campaign == campaign, self._backend.among(table.name, list(names)))
        gone = [name_hash(name) for (name,) in self._rows(sa.select(table.name).where(chosen))]
        self._run(sa.delete(tables.blob).where(chosen))
        self._groups.remove(campaign, "blob", 0, total(gone))

    def users(self, campaign: int) -> tuple[NDArray[np.int64], list[int | str]]:
        """Keys (ascending) and ids of all users."""
        table = tables.user.c
        query = sa.select(table.user_key, table.id_integer, table.id_text).where(table.campaign == campaign)
        keys, ids = as_ids(self._rows(query.order_by(table.user_key)))
        self._groups.check(campaign, "user", 0, total(user_hashes(keys, ids)))
        return keys, ids

    def add_users(self, campaign: int, keys: NDArray[np.int64], ids: Sequence[int | str]) -> None:
        """New users."""
        self._begin_change(campaign)
        if len(keys) != len(ids):
            raise ShapeError(f"each user needs a key and an id; got {len(keys)} keys and {len(ids)} ids.")
        plain = [check_id(value) for value in ids]
        check_texts((value for value in plain if isinstance(value, str)), "a user's id")
        numbers = [value if isinstance(value, int) else None for value in plain]
        texts = [value if isinstance(value, str) else None for value in plain]
        rows = zip([campaign] * len(plain), np.asarray(keys).tolist(), numbers, texts, strict=True)
        self._backend.insert(self._connection, tables.user, rows)
        self._groups.add(campaign, "user", 0, total(user_hashes(keys, plain)))

    def append_event(
        self, campaign: int, kind: str, round_number: int | None, payload: Mapping[str, Any], created: float
    ) -> int:
        """Append to the log; returns the event's sequence number."""
        self._begin_change(campaign)
        check_texts([kind], "an event's kind")
        # Writers come one after another, so that the next number is free and numbers follow the order of commits.
        [(last,)] = self._rows(_LAST_EVENT, {"c": campaign})
        seq, text = int(last or 0) + 1, dump_json(payload)
        values = {"campaign": campaign, "seq": seq, "kind": kind, "round": round_number, "created": created}
        self._run(_NEW_EVENT, {**values, "payload": text})
        self._groups.add(campaign, "event", seq, total([event_hash(seq, kind, round_number, text, created)]))
        return seq

    def events(self, campaign: int, since: int = 0, limit: int | None = None) -> list[EventRecord]:
        """Events with ``seq > since`` in order."""
        rows = self._rows(_EVENTS if limit is None else _EVENTS.limit(limit), {"c": campaign, "since": since})
        # A part of the log is checked up to its last event: whether there are more is for the next call.
        until = rows[-1][0] if limit is not None and len(rows) == limit and rows else None
        self._groups.check_each(campaign, "event", {row[0]: event_hash(*row) for row in rows}, since, until)
        return [EventRecord(seq, kind, at, load_json(text), made) for seq, kind, at, text, made in rows]

    def rounds(self, campaign: int) -> list[RoundRecord]:
        """All rounds by number."""
        rows = self._rows(_ROUNDS, {"c": campaign})
        self._groups.check_each(campaign, "round", {row[0]: round_hash(row) for row in rows})
        return [_round(row) for row in rows]

    def round(self, campaign: int, round_id: str) -> RoundRecord | None:
        """The round of that id, if there is one."""
        return self._one_round(_ROUND_BY_ID, "id", campaign, round_id)

    def round_by_request(self, campaign: int, request_id: str) -> RoundRecord | None:
        """The round opened by that request, if there is one."""
        return self._one_round(_ROUND_BY_REQUEST, "request_id", campaign, request_id)

    def _one_round(self, query: sa.Executable, column: str, campaign: int, name: str) -> RoundRecord | None:
        values = {"c": campaign, "name": name}
        rows = self._rows(query, values)
        # Nothing found may also mean a damaged index, and a request answered twice.
        table = f"{tables.round_.name} {self._backend.unindexed}"
        if not rows and self._rows(
            sa.text(f"SELECT number FROM {table} WHERE campaign = :c AND {column} = :name"), values
        ):
            raise FileFormatError(f"{self._backend.shown} is damaged: an index has lost a round. Use a backup.")
        for row in rows:
            self._groups.check(campaign, "round", row[0], total([round_hash(row)]))
        return _round(rows[0]) if rows else None

    def put_round(self, campaign: int, record: RoundRecord) -> None:
        """Insert a round, or replace the one of the same number."""
        check_texts([record.id, record.request_id, record.status], "a round's id or request id")
        values = {name: getattr(record, name) for name in tables.round_.c.keys()[2:-1]}
        values["payload"] = dump_json(record.payload)
        self._put(tables.round_, {"campaign": campaign, "number": record.number}, values)
        self._groups.put(campaign, "round", record.number, total([round_hash([record.number, *values.values()])]))

    def _put(self, table: sa.Table, key: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
        """Replace a row or insert it; whether it is new."""
        self._begin_change(key["campaign"])
        found = sa.and_(*(table.c[name] == value for name, value in key.items()))
        new = self._run(sa.update(table).where(found).values(**values)).rowcount == 0
        if new:
            self._run(sa.insert(table).values(**key, **values))
        return new

    def edge_responses(self, campaign: int, round_number: int) -> EdgeResponses:
        """All edge responses of a round, by source key, then target key."""
        table = tables.edge_response.c
        query = sa.select(table.source, table.target, table.outcome, table.time, table.event_id)
        query = query.where(table.campaign == campaign, table.round == round_number)
        found = edge_columns(self._rows(query.order_by(table.source, table.target)))
        self._groups.check(campaign, "edge", round_number, total(edge_hashes(found)))
        return found

    def add_edge_responses(self, campaign: int, round_number: int, rows: EdgeResponses, seq: int) -> None:
        """Insert rows; a (round, source, target) or an event id that is there already is refused."""
        self._begin_change(campaign)
        check_edges(rows)
        self._refuse_known(tables.node_event, campaign, rows.event_ids)
        order = np.lexsort((rows.targets, rows.sources))
        columns = [column[order].tolist() for column in (rows.sources, rows.targets, rows.outcomes)]
        times = _or_none(rows.times[order])
        event_ids = [rows.event_ids[i] for i in order.tolist()]
        lines = zip(*columns, times, event_ids, strict=True)
        self._insert(tables.edge_response, campaign, round_number, lines, seq)
        self._groups.add(campaign, "edge", round_number, total(edge_hashes(rows)))

    def node_events(self, campaign: int, round_number: int) -> NodeEvents:
        """All node events of a round, by user key, then time, then event id (None first)."""
        table = tables.node_event.c
        query = sa.select(table.user_key, table.time, table.event_id)
        found = node_columns(self._rows(query.where(table.campaign == campaign, table.round == round_number)))
        self._groups.check(campaign, "node", round_number, total(node_hashes(found)))
        return found

    def add_node_events(self, campaign: int, round_number: int, rows: NodeEvents, seq: int) -> None:
        """Insert rows; an event id that is there already is refused."""
        self._begin_change(campaign)
        check_nodes(rows)
        self._refuse_known(tables.edge_response, campaign, rows.event_ids)
        lines = zip(rows.users.tolist(), _or_none(rows.times), rows.event_ids, strict=True)
        self._insert(tables.node_event, campaign, round_number, lines, seq)
        self._groups.add(campaign, "node", round_number, total(node_hashes(rows)))

    def _refuse_known(self, other: sa.Table, campaign: int, event_ids: Sequence[str | None]) -> None:
        """An index keeps an event id unique within one table; this does so across the two."""
        given = [name for name in event_ids if name is not None]
        if not given:
            return
        query = sa.select(other.c.event_id).where(
            other.c.campaign == campaign, self._backend.among(other.c.event_id, given)
        )
        for (name,) in self._rows(query.limit(1)):
            raise InputError(f"the store already holds such a row: event id {name!r}; nothing was written.")

    def _insert(
        self, table: sa.Table, campaign: int, round_number: int, lines: Iterable[tuple[Any, ...]], seq: int
    ) -> None:
        whole: Iterator[tuple[Any, ...]] = ((campaign, round_number, *line, seq) for line in lines)
        self._backend.insert(self._connection, table, whole)

    def known_event_ids(self, campaign: int, event_ids: Sequence[str]) -> Known:
        """What is stored under these event ids: (round, "edge" or "node", source or user, target, outcome, time)."""
        if not event_ids:
            return {}
        check_texts(event_ids, "an event id")
        edge, node = tables.edge_response.c, tables.node_event.c
        edges = sa.select(edge.event_id, edge.round, edge.source, edge.target, edge.outcome, edge.time).where(
            edge.campaign == campaign, self._backend.among(edge.event_id, event_ids)
        )
        nodes = sa.select(node.event_id, node.round, node.user_key, node.time).where(
            node.campaign == campaign, self._backend.among(node.event_id, event_ids)
        )
        known: Known = {name: (at, "node", key, None, None, time) for name, at, key, time in self._rows(nodes)}
        known |= {name: (at, "edge", s, t, y, time) for name, at, s, t, y, time in self._rows(edges)}
        return known

    def replace_event_payload(self, campaign: int, seq: int, payload: Mapping[str, Any]) -> None:
        """Rewrite an event's payload: only for removing a person."""
        self._begin_change(campaign)
        table = tables.event.c
        one = sa.and_(table.campaign == campaign, table.seq == seq)
        found = self._rows(sa.select(table.kind, table.round, table.created).where(one))
        if not found:
            raise UnknownIdError(f"the campaign's log has no event {seq}.")
        [(kind, at, created)] = found
        text = dump_json(payload)
        self._run(sa.update(tables.event).where(one).values(payload=text))
        self._groups.put(campaign, "event", seq, total([event_hash(seq, kind, at, text, created)]))

    def erase_user(self, campaign: int, key: int) -> int:
        """Remove the user's row and every response that names them; returns how many responses went."""
        self._begin_change(campaign)
        user, edge, node = tables.user.c, tables.edge_response.c, tables.node_event.c
        columns = [user.user_key, user.id_integer, user.id_text]
        rows = self._taken(tables.user, columns, sa.and_(user.campaign == campaign, user.user_key == key))
        self._groups.remove(campaign, "user", 0, total(user_hashes(*as_ids(rows))))
        named = sa.and_(edge.campaign == campaign, sa.or_(edge.source == key, edge.target == key))
        columns = [edge.source, edge.target, edge.outcome, edge.time, edge.event_id, edge.round]
        edges = _by_round(self._taken(tables.edge_response, columns, named))
        for number, rows in edges.items():
            self._groups.remove(campaign, "edge", number, total(edge_hashes(edge_columns(rows))))
        columns = [node.user_key, node.time, node.event_id, node.round]
        acted = sa.and_(node.campaign == campaign, node.user_key == key)
        nodes = _by_round(self._taken(tables.node_event, columns, acted))
        for number, rows in nodes.items():
            self._groups.remove(campaign, "node", number, total(node_hashes(node_columns(rows))))
        return sum(len(rows) for rows in (*edges.values(), *nodes.values()))

    def _taken(
        self, table: sa.Table, columns: Sequence[sa.Column[Any]], chosen: sa.ColumnElement[bool]
    ) -> list[tuple[Any, ...]]:
        """Rows that are deleted, as they were."""
        rows = self._rows(sa.select(*columns).where(chosen))
        self._run(sa.delete(table).where(chosen))
        return rows


def _by_round(rows: Iterable[tuple[Any, ...]]) -> dict[int, list[tuple[Any, ...]]]:
    """Rows by the round in their last column."""
    found: dict[int, list[tuple[Any, ...]]] = {}
    for row in rows:
        found.setdefault(row[-1], []).append(row)
    return found


def _round(row: Sequence[Any]) -> RoundRecord:
    return replace(RoundRecord(*row), payload=load_json(row[-1]))


def _or_none(times: NDArray[np.float64]) -> list[float | None]:
    return [None if math.isnan(time) else time for time in times.tolist()]
