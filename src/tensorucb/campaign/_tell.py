"""Responses into the store: each row is new, a duplicate, a contradiction, or the whole batch is refused."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import I64
from tensorucb.campaign._handle import Handle, View
from tensorucb.campaign._network import Network
from tensorucb.campaign._responses import UNKNOWN, Batch, Part, Resolved, read_responses, resolve, text_places, written
from tensorucb.campaign._round import Round
from tensorucb.campaign._told import Told
from tensorucb.checks import check_choice, shown
from tensorucb.errors import InputError, StateError, call
from tensorucb.store._protocol import EdgeResponses, NodeEvents

_Content = tuple[int, str, int, int | None, float | None, float | None]
_LOGGED = 1000
_LISTED = 10_000  # contradictions in a report; a wrong file can hold as many as rows

_log = logging.getLogger("tensorucb.campaign")


@dataclass(frozen=True)
class Contradiction:
    """A response that disagrees with one that is there already; the first one stands.

    Attributes
    ----------
    row
        Where it stood in what was told: rows count from 1, without a header.
    source, target
        The edge's ids (``target`` is None for a node event).
    kept, told
        The outcome that stands and the one that came; where an event id was used twice, both contents.
    event_id
        The event id used twice, if that is the contradiction.

    Examples
    --------
    >>> import tensorucb as tu
    >>> campaign = tu.create_campaign("spring", graph=tu.Graph.from_edges(["ann"], ["bob"]), storage="memory://")
    >>> ask = campaign.ask(k=1, candidates=["ann"])
    >>> rows = [{"source": "ann", "target": "bob", "outcome": outcome} for outcome in (1, 0)]
    >>> campaign.tell(ask.id, rows).contradictions[0]
    Contradiction(row=2, source='ann', target='bob', kept=1.0, told=0.0, event_id=None)
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
        Rows that disagree with what is there; they changed nothing. Of more than 10,000 the first are listed.
    late
        How many of the accepted rows came after the round was closed; the model learns that round again.
    outside_window
        How many of the accepted node events happened before the contact or after the window, and so count for nothing.
        Many of them mean that times are not in seconds, or in another zone.
    unknown
        Rows that name a user or an edge that is not in the network, left out with ``unknown="skip"``.

    Examples
    --------
    >>> import tensorucb as tu
    >>> campaign = tu.create_campaign("spring", graph=tu.Graph.from_edges(["ann"], ["bob"]), storage="memory://")
    >>> ask = campaign.ask(k=1)
    >>> rows = {"buyer": ["bob", "a guest"], "timestamp": [ask.opened + 60, ask.opened + 70]}
    >>> report = campaign.tell(ask.id, rows, unknown="skip", columns={"user": "buyer"})
    >>> report.accepted, report.unknown
    (1, 1)
    """

    accepted: int
    duplicates: int
    contradictions: tuple[Contradiction, ...] = ()
    late: int = 0
    outside_window: int = 0
    unknown: int = 0

    def __repr__(self) -> str:
        counts = {name: value if isinstance(value, int) else len(value) for name, value in vars(self).items()}
        return f"{type(self).__name__}({', '.join(f'{name}={count}' for name, count in counts.items())})"


@dataclass
class _Sorting:
    """Rows of one batch, sorted into new, duplicate and contradictory; ``known`` is what their event ids stand for."""

    network: Network
    record: Round
    known: dict[str, _Content]
    duplicates: int = 0
    clashes: int = 0
    contradictions: list[Contradiction] = field(default_factory=list)
    items: list[dict[str, Any]] = field(default_factory=list)

    def clash(self, row: int, ids: tuple[Any, Any], kept: Any, told: Any, users: list[int], event: str | None) -> None:
        self.clashes += 1
        if len(self.contradictions) < _LISTED:
            self.contradictions.append(Contradiction(row + 1, *ids, kept, told, event))
        if len(self.items) == _LOGGED:
            return
        # The log names no ids, so that forgetting a user needs to look at rows alone.
        if event is not None:
            kept, told = "another event of this id", "this one"
        self.items.append({"users": users, "kept": kept, "told": told})


def tell(handle: Handle, round_id: str | int, responses: Any, unknown: str, columns: Any) -> TellReport:
    """Store responses of a round, durably; see `Campaign.tell`."""
    check_choice("unknown", unknown, UNKNOWN)
    with handle.read() as view:
        batch = read_responses(responses, strings=view.network.strings, columns=columns)
        # All that needs no lock is done before others have to wait.
        _check_product(view.round(round_id), batch)
        found = resolve(view.network, batch, unknown)
        check_contacted(view.network, view.round(round_id), found)
    now = handle.clock()
    with handle.write(now) as view:
        network, record = view.network, view.round(round_id)
        if record.status == "cancelled":
            raise StateError(f"round {round_id} was cancelled and takes no responses. Ask for a new round.")
        if record.kind == "history":
            advice = "Use ", call("import_history"), " for more of it."
            raise StateError(f"round {round_id} is imported history.", advice=advice)
        if network.revision != found.revision:
            found = resolve(network, batch, unknown)
            check_contacted(network, record, found)
        told = view.told(record.number)
        report, seq, new = store(view, record, found, told, now)
    # Durable by now. On the next call the log says whether anybody else has told this round something since.
    told = told.plus(new.numbers, new.edges.outcomes, new.users, new.nodes.times)
    loads, last = view.ledger.told_tag(record.number)
    handle.last_told = (record.number, (loads, seq or last), told)
    counts = report.accepted, report.duplicates
    _log.info("campaign %r: round %d told, %d new, %d known", handle.record.name, record.number, *counts)
    return replace(report, unknown=found.unknown)


def _check_product(record: Round, batch: Batch) -> None:
    """Refuse rows that say that they are about another product than the round."""
    own = record.product
    if own is None or "product" not in batch.extra or not batch.length:
        return
    products = written("product", batch.extra["product"])
    others = np.flatnonzero((text_places(products, [str(own)]) < 0) & products.is_not_null().to_numpy())
    if others.size:
        raise InputError(
            f"{others.size:,} of {batch.length:,} rows are of another product than round {record.number}, which is "
            f"about {shown(own)}; the first is row {others[0] + 1}, {shown(products[int(others[0])])}. Nothing was "
            "stored. Tell them without naming a round: each row then finds the rounds of its product."
        )


def check_contacted(network: Network, record: Round, found: Resolved) -> None:
    """Refuse responses to somebody who was not contacted in this round."""
    contacted = np.zeros(network.graph.n_nodes, dtype=np.bool_)
    contacted[record.contacted] = True
    others = np.flatnonzero(~contacted[found.sources])
    if others.size:
        source = network.graph.ids[found.sources[others[0]]].item()
        raise InputError(
            f"row {found.edges.rows[others[0]] + 1}: source {source!r} was not contacted in round {record.id} "
            f"({others.size:,} such rows). Remove them, or tell them to the round in which they were."
        )


def store(view: View, record: Round, found: Resolved, told: Told, now: float) -> tuple[TellReport, int, Resolved]:
    """Sort the rows, append those that are new to the round, and log it; ``told`` is what it was told before.

    Returns the report, the number of the event (0 if nothing is new), and the rows that are new.
    """
    session = view.session
    wanted = {e for e in (*found.edges.event_ids, *found.nodes.event_ids) if e is not None}
    known = session.known_event_ids(view.number, sorted(wanted)) if wanted else {}
    sorting = _Sorting(view.network, record, known)
    new = found.take(_new_edges(sorting, found, told), _new_nodes(sorting, found, told))
    accepted = new.numbers.size + new.users.size
    late, seq = accepted if record.status == "closed" else 0, 0
    if accepted:
        counts = {"id": record.id, "edges": new.numbers.size, "nodes": new.users.size, "late": late}
        seq = view.append("told", record.number, counts, now)
    if new.numbers.size:
        edges = EdgeResponses(new.sources, new.targets, new.edges.outcomes, new.edges.times, new.edges.event_ids)
        session.add_edge_responses(view.number, record.number, edges, seq)
    if new.users.size:
        nodes = NodeEvents(new.users, new.nodes.times, new.nodes.event_ids)
        session.add_node_events(view.number, record.number, nodes, seq)
    if late:
        # With more to learn from, a round that could not be learned is tried again.
        view.put_round(replace(record, revision=seq, quarantined=None))
    if sorting.clashes:
        clashes = {"id": record.id, "count": sorting.clashes, "items": sorting.items}
        view.append("contradiction", record.number, clashes, now)
    outside = int(np.count_nonzero(~record.in_window(new.nodes.times)))
    return TellReport(accepted, sorting.duplicates, tuple(sorting.contradictions), late, outside), seq, new


def _by_event_id(sorting: _Sorting, batch: Part, kind: str, *columns: Iterable[Any]) -> NDArray[np.bool_]:
    """Which rows are not settled by their event id alone; ``columns`` are source or user, target and outcome."""
    network, fresh = sorting.network, np.ones(batch.rows.size, dtype=np.bool_)
    for i, (event_id, time, *values) in enumerate(zip(batch.event_ids, batch.times.tolist(), *columns, strict=True)):
        if event_id is None:
            continue
        user, target, outcome = values
        content = (sorting.record.number, kind, user, target, outcome, None if math.isnan(time) else time)
        before = sorting.known.setdefault(event_id, content)
        if before is content:
            continue
        fresh[i] = False
        if before == content:
            sorting.duplicates += 1
            continue
        users = sorted({int(value) for ends in (before[2:4], content[2:4]) for value in ends if value is not None})
        kept, told = (_described(network, found) for found in (before, content))
        sorting.clash(int(batch.rows[i]), (_name(network, user), _name(network, target)), kept, told, users, event_id)
    return fresh


def _name(network: Network, row: int | None) -> Any:
    return None if row is None else network.graph.ids[row].item()


def _described(network: Network, content: _Content) -> Mapping[str, Any]:
    number, kind, user, target, outcome, time = content
    if kind == "node":
        return {"round": number, "user": _name(network, user), "time": time}
    ends = {"source": _name(network, user), "target": _name(network, target)}
    return {"round": number, **ends, "outcome": outcome, "time": time}


def _new_edges(sorting: _Sorting, found: Resolved, told: Told) -> I64:
    """Places of the edge responses that are neither duplicates nor contradictions."""
    ids, batch = sorting.network.graph.ids, found.edges
    s, t = found.sources, found.targets
    at = np.arange(s.size)
    if any(event_id is not None for event_id in batch.event_ids):
        columns = (s.tolist(), t.tolist(), batch.outcomes.tolist())
        at = np.flatnonzero(_by_event_id(sorting, batch, "edge", *columns))
    if at.size == 0:
        return at
    edges, outcomes = found.numbers[at], batch.outcomes[at]
    _, index, inverse = np.unique(edges, return_index=True, return_inverse=True)
    before = told.standing[edges]
    # For each row the outcome that stands for its edge, and whether the row is the one that sets it.
    standing = np.where(before < 0, outcomes[index[inverse]], before)
    first = np.zeros(at.size, dtype=np.bool_)
    first[index] = True
    first &= before < 0
    differs = outcomes != standing
    sorting.duplicates += int(np.count_nonzero(~first & ~differs))
    for i in np.flatnonzero(~first & differs).tolist():
        row = int(at[i])
        ends, pair = (ids[s[row]].item(), ids[t[row]].item()), [int(s[row]), int(t[row])]
        sorting.clash(int(batch.rows[row]), ends, float(standing[i]), float(outcomes[i]), pair, None)
    return at[first]


def _new_nodes(sorting: _Sorting, found: Resolved, told: Told) -> I64:
    """Places of the node events that are new; the same user at the same moment is the same event."""
    batch, users = found.nodes, found.users
    at = np.arange(users.size)
    if any(event_id is not None for event_id in batch.event_ids):
        nothing = [None] * at.size
        at = np.flatnonzero(_by_event_id(sorting, batch, "node", users.tolist(), nothing, nothing))
    new, here = [], set[tuple[int, float]]()
    moments = zip(users[at].tolist(), batch.times[at].tolist(), strict=True)
    for i, moment in zip(at.tolist(), moments, strict=True):
        if moment not in told.actions and moment not in here:
            new.append(i)
        here.add(moment)
    sorting.duplicates += at.size - len(new)
    return np.array(new, dtype=np.int64)
