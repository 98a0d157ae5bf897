"""One transaction on the store in memory."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.campaign._store import CampaignRecord, EdgeResponses, EventRecord, NodeEvents, RoundRecord
from tensorucb.errors import InputError, ShapeError, StateError, UnknownIdError
from tensorucb.store._values import (
    Known,
    check_edges,
    check_id,
    check_nodes,
    check_texts,
    dump_json,
    edge_columns,
    load_json,
    node_columns,
)

__all__ = ["CampaignData", "MemorySession"]


@dataclass
class CampaignData:
    """A campaign's rows; payloads are kept as JSON text, so that nobody can change them from outside."""

    name: str
    settings: str
    created: float
    blobs: dict[str, bytes] = field(default_factory=dict)
    users: dict[int, int | str] = field(default_factory=dict)
    events: dict[int, tuple[EventRecord, str]] = field(default_factory=dict)
    rounds: dict[int, tuple[RoundRecord, str]] = field(default_factory=dict)
    edges: dict[int, EdgeResponses] = field(default_factory=dict)
    nodes: dict[int, NodeEvents] = field(default_factory=dict)
    known: Known = field(default_factory=dict)


class MemorySession:
    """Reads and, inside a write transaction, writes; implements :class:`tensorucb.campaign._store.Session`."""

    def __init__(self, campaigns: dict[int, CampaignData], following: int, writable: bool) -> None:
        self._campaigns = dict(campaigns) if writable else campaigns
        self._following = following
        self._writable = writable
        self._over = False
        self._touched: set[tuple[int, str]] = set()

    @property
    def version(self) -> tuple[dict[int, CampaignData], int]:
        """What the store holds once this transaction is kept."""
        return self._campaigns, self._following

    def end(self) -> None:
        """No call after this one."""
        self._over = True

    def _check(self, change: bool) -> None:
        if self._over:
            raise StateError("this session is over; begin a new one with the store.")
        if change and not self._writable:
            raise StateError("this is a read-only view; write inside `with store.write() as session`.")

    def _seen(self, campaign: int) -> CampaignData:
        self._check(change=False)
        return self._campaigns.get(campaign) or CampaignData("", "{}", 0.0)

    def _change(self, campaign: int, *parts: str) -> CampaignData:
        """The campaign with parts of its own to change; all others stay shared with older versions."""
        self._check(change=True)
        if campaign not in self._campaigns:
            raise UnknownIdError(f"the store holds no campaign number {campaign}.")
        if (campaign, "") not in self._touched:
            self._campaigns[campaign] = copy.copy(self._campaigns[campaign])
        data = self._campaigns[campaign]
        for part in parts:
            if (campaign, part) not in self._touched:
                setattr(data, part, dict(getattr(data, part)))
        self._touched |= {(campaign, part) for part in ("", *parts)}
        return data

    def campaigns(self) -> list[CampaignRecord]:
        """All campaigns, oldest first."""
        self._check(change=False)
        return [_record(number, data) for number, data in sorted(self._campaigns.items())]

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
        number, self._following = self._following, self._following + 1
        self._campaigns[number] = CampaignData(name, text, float(created))
        return _record(number, self._campaigns[number])

    def delete_campaign(self, campaign: int) -> None:
        """Remove a campaign and all that belongs to it."""
        self._change(campaign)
        del self._campaigns[campaign]

    def blobs(self, campaign: int, prefix: str = "") -> list[str]:
        """Names of the stored blobs that start with ``prefix``, sorted."""
        return sorted(name for name in self._seen(campaign).blobs if name.startswith(prefix))

    def blob(self, campaign: int, name: str) -> bytes | None:
        """A stored blob, if there is one."""
        return self._seen(campaign).blobs.get(name)

    def put_blob(self, campaign: int, name: str, data: bytes) -> None:
        """Store or replace a blob."""
        check_texts([name], "a blob's name")
        self._change(campaign, "blobs").blobs[name] = bytes(data)

    def delete_blobs(self, campaign: int, names: Iterable[str]) -> None:
        """Remove blobs; names that do not exist are fine."""
        blobs = self._change(campaign, "blobs").blobs
        for name in names:
            blobs.pop(name, None)

    def users(self, campaign: int) -> tuple[NDArray[np.int64], list[int | str]]:
        """Keys (ascending) and ids of all users."""
        users = sorted(self._seen(campaign).users.items())
        return np.array([key for key, _ in users], dtype=np.int64), [value for _, value in users]

    def add_users(self, campaign: int, keys: NDArray[np.int64], ids: Sequence[int | str]) -> None:
        """New users."""
        users = self._change(campaign, "users").users
        if len(keys) != len(ids):
            raise ShapeError(f"each user needs a key and an id; got {len(keys)} keys and {len(ids)} ids.")
        plain = [check_id(value) for value in ids]
        check_texts((value for value in plain if isinstance(value, str)), "a user's id")
        before = len(users)
        taken = set(users.values()) | set(plain)
        users.update(zip(np.asarray(keys).tolist(), plain, strict=True))
        if not len(users) == len(taken) == before + len(plain):
            raise InputError("the store already holds such a user: a key or an id comes twice; nothing was written.")

    def append_event(
        self, campaign: int, kind: str, round_number: int | None, payload: Mapping[str, Any], created: float
    ) -> int:
        """Append to the log; returns the event's sequence number."""
        events = self._change(campaign, "events").events
        check_texts([kind], "an event's kind")
        seq = max(events, default=0) + 1
        events[seq] = EventRecord(seq, kind, round_number, {}, float(created)), dump_json(payload)
        return seq

    def events(self, campaign: int, since: int = 0, limit: int | None = None) -> list[EventRecord]:
        """Events with ``seq > since`` in order."""
        found = [pair for seq, pair in sorted(self._seen(campaign).events.items()) if seq > since]
        return [replace(event, payload=load_json(text)) for event, text in found[:limit]]

    def rounds(self, campaign: int) -> list[RoundRecord]:
        """All rounds by number."""
        rounds = sorted(self._seen(campaign).rounds.items())
        return [replace(record, payload=load_json(text)) for _, (record, text) in rounds]

    def round(self, campaign: int, round_id: str) -> RoundRecord | None:
        """The round of that id, if there is one."""
        return next((record for record in self.rounds(campaign) if record.id == round_id), None)

    def round_by_request(self, campaign: int, request_id: str) -> RoundRecord | None:
        """The round opened by that request, if there is one."""
        return next((record for record in self.rounds(campaign) if record.request_id == request_id), None)

    def put_round(self, campaign: int, record: RoundRecord) -> None:
        """Insert a round, or replace the one of the same number."""
        check_texts([record.id, record.request_id, record.status], "a round's id or request id")
        rounds = self._change(campaign, "rounds").rounds
        for other, _ in rounds.values():
            same_request = record.request_id is not None and other.request_id == record.request_id
            if other.number != record.number and (other.id == record.id or same_request):
                raise InputError(f"the store already holds such a row: round {other.number}; nothing was written.")
        rounds[record.number] = replace(record, payload={}), dump_json(record.payload)

    def edge_responses(self, campaign: int, round_number: int) -> EdgeResponses:
        """All edge responses of a round, by source key, then target key."""
        found = self._seen(campaign).edges.get(round_number)
        return edge_columns([]) if found is None else copy.deepcopy(found)

    def add_edge_responses(self, campaign: int, round_number: int, rows: EdgeResponses, seq: int) -> None:
        """Insert rows; a (round, source, target) or an event id that is there already is refused."""
        data = self._change(campaign, "edges", "known")
        check_edges(rows)
        data.edges[round_number] = _merged(data.edges.get(round_number, edge_columns([])), rows)
        lines = zip(rows.sources.tolist(), rows.targets.tolist(), rows.outcomes.tolist(), rows.times, strict=True)
        for name, (source, target, outcome, time) in zip(rows.event_ids, lines, strict=True):
            _remember(data.known, name, (round_number, "edge", source, target, outcome, _or_none(time)))

    def node_events(self, campaign: int, round_number: int) -> NodeEvents:
        """All node events of a round, by user key, then time, then event id (None first)."""
        found = self._seen(campaign).nodes.get(round_number)
        return node_columns([]) if found is None else copy.deepcopy(found)

    def add_node_events(self, campaign: int, round_number: int, rows: NodeEvents, seq: int) -> None:
        """Insert rows; an event id that is there already is refused."""
        data = self._change(campaign, "nodes", "known")
        check_nodes(rows)
        old = data.nodes.get(round_number, node_columns([]))
        data.nodes[round_number] = node_columns([*_lines(old), *_lines(rows)])
        for user, time, name in _lines(rows):
            _remember(data.known, name, (round_number, "node", user, None, None, time))

    def known_event_ids(self, campaign: int, event_ids: Sequence[str]) -> Known:
        """What is stored under these event ids: (round, "edge" or "node", source or user, target, outcome, time)."""
        check_texts(event_ids, "an event id")
        known = self._seen(campaign).known
        return {name: known[name] for name in event_ids if name in known}

    def replace_event_payload(self, campaign: int, seq: int, payload: Mapping[str, Any]) -> None:
        """Rewrite an event's payload: only for removing a person."""
        events = self._change(campaign, "events").events
        if seq not in events:
            raise UnknownIdError(f"the campaign's log has no event {seq}.")
        events[seq] = events[seq][0], dump_json(payload)

    def erase_user(self, campaign: int, key: int) -> int:
        """Remove the user's row and every response that names them; returns how many responses went."""
        data = self._change(campaign, "users", "edges", "nodes", "known")
        data.users.pop(key, None)
        data.known = {name: row for name, row in data.known.items() if key not in (row[2], row[3])}
        gone = 0
        for number, rows in data.edges.items():
            keep = np.flatnonzero((rows.sources != key) & (rows.targets != key))
            gone += len(rows.sources) - keep.size
            data.edges[number] = _taken(rows, keep)
        for number, nodes in data.nodes.items():
            left = [line for line in _lines(nodes) if line[0] != key]
            gone += len(nodes.users) - len(left)
            data.nodes[number] = node_columns(left)
        return gone


def _record(number: int, data: CampaignData) -> CampaignRecord:
    return CampaignRecord(number, data.name, load_json(data.settings), data.created)


def _or_none(time: float) -> float | None:
    return None if math.isnan(time) else float(time)


def _lines(rows: NodeEvents) -> list[tuple[int, float | None, str | None]]:
    return [
        (user, _or_none(time), name)
        for user, time, name in zip(rows.users.tolist(), rows.times.tolist(), rows.event_ids, strict=True)
    ]


def _remember(
    known: Known, name: str | None, row: tuple[int, str, int, int | None, float | None, float | None]
) -> None:
    if name is None:
        return
    if name in known:
        raise InputError(f"the store already holds such a row: event id {name!r}; nothing was written.")
    known[name] = row


def _taken(rows: EdgeResponses, order: NDArray[np.intp]) -> EdgeResponses:
    return EdgeResponses(
        rows.sources[order],
        rows.targets[order],
        rows.outcomes[order],
        rows.times[order],
        [rows.event_ids[i] for i in order.tolist()],
    )


def _merged(old: EdgeResponses, new: EdgeResponses) -> EdgeResponses:
    both = EdgeResponses(
        np.concatenate([old.sources, new.sources]),
        np.concatenate([old.targets, new.targets]),
        np.concatenate([old.outcomes, new.outcomes]),
        np.concatenate([old.times, new.times]),
        [*old.event_ids, *new.event_ids],
    )
    rows = _taken(both, np.lexsort((both.targets, both.sources)))
    if np.any((np.diff(rows.sources) == 0) & (np.diff(rows.targets) == 0)):
        raise InputError("the store already holds such a row: an edge comes twice in one round; nothing was written.")
    return rows
