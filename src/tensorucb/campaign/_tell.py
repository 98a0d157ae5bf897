"""Responses into the store: each row is new, a duplicate, a contradiction, or the whole batch is refused."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.campaign._handle import Handle, View
from tensorucb.campaign._responses import Batch, EdgeBatch, NodeBatch, read_responses
from tensorucb.campaign._told import Told
from tensorucb.campaign._world import World
from tensorucb.errors import InputError, StateError
from tensorucb.store._protocol import EdgeResponses, NodeEvents, RoundRecord

_Content = tuple[int, str, int, int | None, float | None, float | None]
_LOGGED = 1000


@dataclass(frozen=True)
class Contradiction:
    """A response that disagrees with one that is there already; the first one stands.

    Attributes
    ----------
    row
        Where it stood in what was told, counting from 0.
    source, target
        The edge's ids (``target`` is None for a node event).
    kept, told
        The outcome that stands and the one that came; where an event id was used twice, both contents.
    event_id
        The event id used twice, if that is the contradiction.
    """

    row: int
    source: int | str
    target: int | str | None
    kept: Any
    told: Any
    event_id: str | None = None


@dataclass(frozen=True)
class TellReport:
    """What became of the responses.

    Attributes
    ----------
    accepted
        Rows that were new, and are durable now.
    duplicates
        Rows that were there already and changed nothing.
    contradictions
        Rows that disagree with what is there; they changed nothing.
    late
        How many of the accepted rows came after the round was closed; the model learns that round again.
    outside_window
        How many of the accepted node events happened before the contact or after the window, and so count for nothing.
        Many of them mean that times are not in seconds, or in another zone.
    """

    accepted: int
    duplicates: int
    contradictions: tuple[Contradiction, ...] = ()
    late: int = 0
    outside_window: int = 0


@dataclass
class _Sorting:
    """Rows of one batch, sorted into new, duplicate and contradictory; ``known`` is what their event ids stand for."""

    world: World
    record: RoundRecord
    known: dict[str, _Content]
    duplicates: int = 0
    contradictions: list[Contradiction] = field(default_factory=list)
    items: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, view: View, record: RoundRecord, batch: Batch) -> _Sorting:
        wanted = {e for e in (*batch.edges.event_ids, *batch.nodes.event_ids) if e is not None}
        known = view.session.known_event_ids(view.number, sorted(wanted)) if wanted else {}
        return cls(view.world, record, known)

    def clash(self, row: int, ids: tuple[Any, Any], kept: Any, told: Any, keys: list[int], event: str | None) -> None:
        self.contradictions.append(Contradiction(row, *ids, kept, told, event))
        if event is None:
            self.items.append({"users": keys, "kept": kept, "told": told})
        else:
            self.items.append({"users": keys, "kept": "another event of this id", "told": "this one"})


@dataclass(frozen=True)
class Resolved:
    """A checked batch in graph rows and edge numbers, valid for one revision of the world."""

    revision: int
    sources: I64
    targets: I64
    edges: I64
    users: I64


def resolve(world: World, record: RoundRecord, batch: Batch) -> Resolved:
    """Look up users and edges; refuses a source that was not contacted and an edge that does not exist."""
    s, t, edges = _checked_edges(world, record, batch.edges)
    return Resolved(world.revision, s, t, edges, world.known(batch.nodes.users, batch.nodes.rows, "user"))


def tell(handle: Handle, round_id: str, responses: Any) -> TellReport:
    """Store responses of a round, durably; see `Campaign.tell`."""
    with handle.lock:
        with handle.read() as view:
            batch = read_responses(responses, strings=view.world.strings)
            # All that needs no lock is done before others have to wait.
            resolved = resolve(view.world, view.round(round_id), batch)
        now = handle.clock()
        handle.close_due(now)
        with handle.write(now) as view:
            world, record = view.world, view.round(round_id)
            if record.status == "cancelled":
                raise StateError(f"round {round_id} was cancelled and takes no responses. Ask for a new round.")
            if record.payload["kind"] == "history":
                raise StateError(f"round {round_id} is imported history. Use import_history for more of it.")
            if world.revision != resolved.revision:
                resolved = resolve(world, record, batch)
            told = view.told(record.number)
            sorting = _Sorting.of(view, record, batch)
            edges = _new_edges(sorting, batch.edges, resolved, told)
            nodes = _new_nodes(sorting, batch.nodes, resolved, told)
            report, seq = _append(view, sorting, batch, resolved, edges, nodes, now)
        # Durable by now. On the next call the log says whether anybody else has told this round something since.
        if edges.size:
            told.add_edges(resolved.edges[edges], batch.edges.outcomes[edges])
        if nodes.size:
            told.add_actions(resolved.users[nodes], batch.nodes.times[nodes])
        view.keep_told(record.number, told, seq)
        return report


def _append(
    view: View, sorting: _Sorting, batch: Batch, resolved: Resolved, new_edges: I64, new_nodes: I64, now: float
) -> tuple[TellReport, int]:
    """Write the rows that are new, and log it; the report, and the number of the event (0 if nothing is new)."""
    session, record, keys = view.session, sorting.record, sorting.world.keys
    edges = EdgeResponses(
        keys[resolved.sources[new_edges]],
        keys[resolved.targets[new_edges]],
        batch.edges.outcomes[new_edges],
        batch.edges.times[new_edges],
        [batch.edges.event_ids[i] for i in new_edges.tolist()],
    )
    times = batch.nodes.times[new_nodes]
    nodes = NodeEvents(keys[resolved.users[new_nodes]], times, [batch.nodes.event_ids[i] for i in new_nodes.tolist()])
    accepted = new_edges.size + new_nodes.size
    late = accepted if record.status == "closed" else 0
    window = record.payload["window"]
    last = math.inf if window is None else record.opened + window
    outside = int(np.count_nonzero((times < record.opened) | (times > last)))
    seq = 0
    if accepted:
        counts = {"id": record.id, "edges": new_edges.size, "nodes": new_nodes.size, "late": late}
        seq = view.append("told", record.number, counts, now)
        if new_edges.size:
            session.add_edge_responses(view.number, record.number, edges, seq)
        if new_nodes.size:
            session.add_node_events(view.number, record.number, nodes, seq)
        if late:
            # With more to learn from, a round that could not be learned is tried again.
            payload = {name: value for name, value in record.payload.items() if name != "quarantined"}
            session.put_round(view.number, replace(record, revision=seq, payload=payload))
    if sorting.items:
        clashes = {"id": record.id, "count": len(sorting.items), "items": sorting.items[:_LOGGED]}
        view.append("contradiction", record.number, clashes, now)
    return TellReport(accepted, sorting.duplicates, tuple(sorting.contradictions), late, outside), seq


def _checked_edges(world: World, record: RoundRecord, edges: EdgeBatch) -> tuple[I64, I64, I64]:
    """Graph rows of both ends, and edge numbers."""
    graph = world.graph
    s, t = world.known(edges.sources, edges.rows, "source"), world.known(edges.targets, edges.rows, "target")
    contacted = np.zeros(graph.n_nodes, dtype=np.bool_)
    contacted[world.rows(record.payload["contacted"])] = True
    strangers = np.flatnonzero(~contacted[s])
    if strangers.size:
        at = int(strangers[0])
        raise InputError(
            f"row {edges.rows[at]}: source {graph.ids[s[at]].item()!r} was not contacted in round {record.id}. "
            f"Remove it ({strangers.size} such rows), or tell it to the round in which they were."
        )
    return s, t, world.edges(s, t, edges.rows)


def _by_event_id(
    sorting: _Sorting, rows: I64, event_ids: Sequence[str | None], contents: Sequence[_Content]
) -> NDArray[np.bool_]:
    """Which rows are not settled by their event id alone."""
    fresh = np.ones(rows.size, dtype=np.bool_)
    for i, event_id in enumerate(event_ids):
        if event_id is None:
            continue
        before = sorting.known.setdefault(event_id, contents[i])
        if before is contents[i]:
            continue
        fresh[i] = False
        if before == contents[i]:
            sorting.duplicates += 1
        else:
            _, _, key, target, _, _ = contents[i]
            ids = (_name(sorting.world, key), None if target is None else _name(sorting.world, target))
            keys = sorted({value for content in (before, contents[i]) for value in content[2:4] if value is not None})
            kept, told = (_described(sorting.world, content) for content in (before, contents[i]))
            sorting.clash(int(rows[i]), ids, kept, told, [int(value) for value in keys], event_id)
    return fresh


def _name(world: World, key: int) -> Any:
    return next(iter(world.ids([key])), None)


def _described(world: World, content: _Content) -> Mapping[str, Any]:
    number, kind, key, target, outcome, time = content
    if kind == "node":
        return {"round": number, "user": _name(world, key), "time": time}
    ends = {"source": _name(world, key), "target": None if target is None else _name(world, target)}
    return {"round": number, **ends, "outcome": outcome, "time": time}


def _moment(time: float) -> float | None:
    return None if math.isnan(time) else time


def _new_edges(sorting: _Sorting, batch: EdgeBatch, resolved: Resolved, told: Told) -> I64:
    """Places of the edge responses that are neither duplicates nor contradictions."""
    world, keys = sorting.world, sorting.world.keys
    s, t = resolved.sources, resolved.targets
    fresh = np.ones(s.size, dtype=np.bool_)
    if any(event_id is not None for event_id in batch.event_ids):
        columns = (keys[s].tolist(), keys[t].tolist(), batch.outcomes.tolist(), batch.times.tolist())
        contents = [
            (sorting.record.number, "edge", a, b, y, _moment(time)) for a, b, y, time in zip(*columns, strict=True)
        ]
        fresh = _by_event_id(sorting, batch.rows, batch.event_ids, contents)
    at = np.flatnonzero(fresh)
    outcomes = batch.outcomes[at]
    standing, first = _standing(resolved.edges[at], outcomes, told)
    differs = outcomes != standing
    sorting.duplicates += int(np.count_nonzero(~first & ~differs))
    for i in np.flatnonzero(~first & differs).tolist():
        row = int(at[i])
        ids = (world.graph.ids[s[row]].item(), world.graph.ids[t[row]].item())
        pair = [int(keys[s[row]]), int(keys[t[row]])]
        sorting.clash(int(batch.rows[row]), ids, float(standing[i]), float(outcomes[i]), pair, None)
    return at[first]


def _standing(edges: I64, outcomes: F64, told: Told) -> tuple[F64, NDArray[np.bool_]]:
    """For each row the outcome that stands for its edge, and whether the row is the one that sets it."""
    if edges.size == 0:
        return outcomes, np.zeros(0, dtype=np.bool_)
    _, index, inverse = np.unique(edges, return_index=True, return_inverse=True)
    first = np.zeros(edges.size, dtype=np.bool_)
    first[index] = True
    standing = outcomes[index[inverse]]
    before = told.standing[edges]
    first &= before < 0
    standing = np.where(before < 0, standing, before)
    return standing, first


def _new_nodes(sorting: _Sorting, batch: NodeBatch, resolved: Resolved, told: Told) -> I64:
    """Places of the node events that are new; the same user at the same moment is the same event."""
    fresh = np.ones(resolved.users.size, dtype=np.bool_)
    moments = list(zip(resolved.users.tolist(), batch.times.tolist(), strict=True))
    if any(event_id is not None for event_id in batch.event_ids):
        keys = sorting.world.keys[resolved.users].tolist()
        contents: list[_Content] = [
            (sorting.record.number, "node", key, None, None, time) for key, (_, time) in zip(keys, moments, strict=True)
        ]
        fresh = _by_event_id(sorting, batch.rows, batch.event_ids, contents)
    here: set[tuple[int, float]] = set()
    for i in np.flatnonzero(fresh).tolist():
        if moments[i] in told.actions or moments[i] in here:
            fresh[i] = False
            sorting.duplicates += 1
        here.add(moments[i])
    return np.flatnonzero(fresh)
