"""One transaction on a SQL database: plain records in and out, SQL in between."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import sqlalchemy as sa

from tensorucb.arrays import F64, I64
from tensorucb.errors import FileFormatError, InputError, ShapeError, UnknownIdError
from tensorucb.store import _tables as tables
from tensorucb.store._checksum import Hashes, edge_hashes, node_hashes, row_hash, user_hashes
from tensorucb.store._protocol import CampaignRecord, EdgeResponses, EventRecord, NodeEvents, RoundRecord
from tensorucb.store._service import ServiceRows
from tensorucb.store._transaction import Rows
from tensorucb.store._values import (
    as_ids,
    check_columns,
    check_id,
    check_texts,
    dump_json,
    edge_columns,
    in_order,
    load_json,
    node_columns,
    seqs_of,
)

Known = dict[str, tuple[int, str, int, int | None, float | None, float | None]]

# The statements of every small call, made once: making one takes as long as running it.
_C: sa.BindParameter[int] = sa.bindparam("c")
_user, _event, _at = tables.user.c, tables.event.c, tables.round_.c
_edge, _node = tables.edge_response.c, tables.node_event.c
_LAST_EVENT = sa.select(sa.func.max(_event.seq)).where(_event.campaign == _C)
_NEW_EVENT = sa.insert(tables.event)
_EVENTS = (
    sa.select(*list(_event)[1:]).where(_event.campaign == _C, _event.seq > sa.bindparam("since")).order_by(_event.seq)
)
_ROUNDS = sa.select(*list(_at)[1:]).where(_at.campaign == _C).order_by(_at.number)
_ROUND = _ROUNDS.where(_at.number == sa.bindparam("number"))
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
_EDGE = (_edge.source, _edge.target, _edge.outcome, _edge.time, _edge.event_id, _edge.seq)
_NODE = (_node.user_row, _node.time, _node.event_id, _node.seq)
_EDGES_RANGED, _NODES_RANGED = (
    sa.select(*columns, at.round).where(
        at.campaign == _C, at.round.between(sa.bindparam("first"), sa.bindparam("last"))
    )
    for at, columns in ((_edge, _EDGE), (_node, _NODE))
)
_EDGES_RANGED = _EDGES_RANGED.order_by(_edge.round, _edge.source, _edge.target)
PIECE_BYTES, _PIECE = 1 << 28, "|"  # of a large blob, and what stands before the number in a piece's name


class Session(ServiceRows):
    """Reads and, inside :meth:`SQLStore.write`, writes; one consistent view from beginning to end."""

    def campaigns(self) -> list[CampaignRecord]:
        """All campaigns, oldest first."""
        rows = self._rows(sa.select(tables.campaign).order_by(tables.campaign.c.campaign))
        self._groups.check(0, "campaign", 0, [row_hash(*row) for row in rows])
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
            rows = self._rows(sa.select(tables.blob.c.name).where(tables.blob.c.campaign == campaign))
            self._groups.check(campaign, "blob", 0, [row_hash(name) for (name,) in rows])
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
        rows = self._rows(sa.select(table.name).where(table.campaign == campaign))
        named = [name for (name,) in rows if name.partition(_PIECE)[0] in wanted]
        chosen = sa.and_(table.campaign == campaign, self._backend.among(table.name, named))
        gone = self._taken(tables.blob, [table.name], chosen)
        self._groups.remove(campaign, "blob", 0, [row_hash(name) for (name,) in gone])

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
        plain = [check_id(value) for value in ids]
        check_texts((value for value in plain if isinstance(value, str)), "a user's id")
        numbers = [value if isinstance(value, int) else None for value in plain]
        texts = [value if isinstance(value, str) else None for value in plain]
        lines = zip([campaign] * len(plain), np.asarray(rows).tolist(), numbers, texts, strict=True)
        self._backend.insert(self._connection, tables.user, lines)
        self._groups.add(campaign, "user", 0, user_hashes(rows, plain))

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

    def round(self, campaign: int, number: int) -> RoundRecord | None:
        """The round of that number, if there is one."""
        rows = self._rows(_ROUND, {"c": campaign, "number": number})
        self._groups.check(campaign, "round", number, [row_hash(*row) for row in rows])
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
        query = sa.select(*_EDGE).where(_edge.campaign == campaign, _edge.round == round_number)
        rows = self._rows(query.order_by(_edge.source, _edge.target))
        self._groups.check(campaign, "edge", round_number, _HASHES["edge"](rows))
        return edge_columns([row for row in rows if upto is None or row[-1] <= upto])

    def told(self, campaign: int, first: int, last: int) -> dict[int, tuple[EdgeResponses, NodeEvents]]:
        """The edge responses and node events of rounds ``first`` to ``last``, as above; four statements for all."""
        numbers = range(first, last + 1)
        edges, nodes = (
            _by_round(self._rows(query, {"c": campaign, "first": first, "last": last}))
            for query in (_EDGES_RANGED, _NODES_RANGED)
        )
        for part, rounds in (("edge", edges), ("node", nodes)):
            hashes = {at: _HASHES[part](rows) for at, rows in rounds.items()}
            self._groups.check_each(campaign, part, hashes, first, last)
        return {at: (edge_columns(edges.get(at, [])), node_columns(in_order(nodes.get(at, [])))) for at in numbers}

    def add_edge_responses(self, campaign: int, round_number: int, rows: EdgeResponses, seq: int) -> None:
        """Insert rows; a (round, source, target) or an event id that is there already is refused."""
        self._begin_responses(campaign, rows, tables.node_event)
        order = np.lexsort((rows.targets, rows.sources))
        columns = [column[order].tolist() for column in (rows.sources, rows.targets, rows.outcomes)]
        event_ids = [rows.event_ids[i] for i in order.tolist()]
        lines = zip(*columns, _or_none(rows.times[order]), event_ids, strict=True)
        whole = ((campaign, round_number, *line, seq) for line in lines)
        self._backend.insert(self._connection, tables.edge_response, whole)
        self._groups.add(campaign, "edge", round_number, edge_hashes(rows, np.full(len(rows.event_ids), seq)))

    def node_events(self, campaign: int, round_number: int, upto: int | None = None) -> NodeEvents:
        """Node events of a round, told up to an event or until now, by user, then time, then event id."""
        rows = self._rows(sa.select(*_NODE).where(_node.campaign == campaign, _node.round == round_number))
        self._groups.check(campaign, "node", round_number, _HASHES["node"](rows))
        return node_columns(in_order(row for row in rows if upto is None or row[-1] <= upto))

    def add_node_events(self, campaign: int, round_number: int, rows: NodeEvents, seq: int) -> None:
        """Insert rows; an event id that is there already is refused."""
        self._begin_responses(campaign, rows, tables.edge_response)
        lines = zip(rows.users.tolist(), _or_none(rows.times), rows.event_ids, strict=True)
        whole = ((campaign, round_number, *line, seq) for line in lines)
        self._backend.insert(self._connection, tables.node_event, whole)
        self._groups.add(campaign, "node", round_number, node_hashes(rows, np.full(len(rows.event_ids), seq)))

    def _begin_responses(self, campaign: int, rows: EdgeResponses | NodeEvents, other: sa.Table) -> None:
        """Check a batch. An index keeps an event id unique within one table; this does so across the two."""
        self._begin_change(campaign)
        check_columns(rows)
        given = [name for name in rows.event_ids if name is not None]
        if not given:
            return
        query = sa.select(other.c.event_id).where(
            other.c.campaign == campaign, self._backend.among(other.c.event_id, given)
        )
        for (name,) in self._rows(query.limit(1)):
            raise InputError(f"the store already holds such a row: event id {name!r}; nothing was written.")

    def known_event_ids(self, campaign: int, event_ids: Sequence[str]) -> Known:
        """What is stored under these event ids: (round, "edge" or "node", source or user, target, outcome, time)."""
        if not event_ids:
            return {}
        check_texts(event_ids, "an event id")
        nodes, edges = (
            self._rows(
                sa.select(table.round, *columns).where(
                    table.campaign == campaign, self._backend.among(table.event_id, event_ids)
                )
            )
            for table, columns in ((_node, _NODE), (_edge, _EDGE))
        )
        known: Known = {name: (at, "node", user, None, None, time) for at, user, time, name, _ in nodes}
        known |= {name: (at, "edge", s, t, y, time) for at, s, t, y, time, name, _ in edges}
        return known

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
        return self._renumber(tables.edge_response, "edge", campaign, row) + self._renumber(
            tables.node_event, "node", campaign, row
        )

    def _renumber(self, table: sa.Table, part: str, campaign: int, gone: int) -> int:
        """Remove the responses that name a user, and move up the users behind them; how many were removed."""
        columns, users = (_EDGE, 2) if part == "edge" else (_NODE, 1)
        removed = 0
        for (number,) in self._rows(sa.select(table.c.round).where(table.c.campaign == campaign).distinct()):
            here = sa.and_(table.c.campaign == campaign, table.c.round == number)
            told = self._taken(table, columns, here)
            self._groups.check(campaign, part, number, _HASHES[part](told))
            kept = [
                (*(user - (user > gone) for user in row[:users]), *row[users:])
                for row in told
                if gone not in row[:users]
            ]
            self._backend.insert(self._connection, table, ((campaign, number, *row) for row in kept))
            self._groups.put(campaign, part, number, _HASHES[part](kept))
            removed += len(told) - len(kept)
        return removed

    def _taken(self, table: sa.Table, columns: Iterable[sa.Column[Any]], chosen: sa.ColumnElement[bool]) -> Rows:
        """Rows that are deleted, as they were."""
        rows = self._rows(sa.select(*columns).where(chosen))
        self._run(sa.delete(table).where(chosen))
        return rows


_HASHES: dict[str, Callable[[Rows], Hashes]] = {
    "edge": lambda rows: edge_hashes(edge_columns(rows), seqs_of(rows, 5)),
    "node": lambda rows: node_hashes(node_columns(rows), seqs_of(rows, 3)),
}
"""Hashes of stored responses and node events."""


def _by_round(rows: Rows) -> dict[int, Rows]:
    """Rows by the round in their last column."""
    found: dict[int, Rows] = {}
    for row in rows:
        found.setdefault(row[-1], []).append(row)
    return found


def _round(row: Sequence[Any]) -> RoundRecord:
    return replace(RoundRecord(*row), payload=load_json(row[-1]))


def _or_none(times: F64) -> list[float | None]:
    return [None if math.isnan(time) else time for time in times.tolist()]
