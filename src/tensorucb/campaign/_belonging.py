"""Which rows of what was told belong to which round: all to one that is named, or each to the rounds of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import I64
from tensorucb.campaign._handle import View
from tensorucb.campaign._network import Network
from tensorucb.campaign._responses import Batch, Resolved, check_sound, resolve, text_places
from tensorucb.campaign._round import Round
from tensorucb.checks import shown
from tensorucb.errors import InputError, StateError, argument, call
from tensorucb.reports import FileReport, LeftOut, Tolerance

_NO_NAME, _NO_ROUND = -1, -2
"""A row that names no round, and one that names none of this campaign's that take responses."""


class Belonging(NamedTuple):
    """The rows of each round, how many name strangers or belong to no round, and what is left out."""

    rounds: list[tuple[Round, Resolved]]
    unknown: int
    other: int
    report: FileReport


def of_one_round(round_id: str | int, view: View, batch: Batch, tolerance: Tolerance) -> Belonging:
    """The rows that can be used for a round; an error if too many cannot."""
    record = view.round(round_id)
    if record.status == "cancelled":
        raise StateError(f"round {round_id} was cancelled and takes no responses. Ask for a new round.")
    if record.kind == "history":
        advice = "Use ", call("import_history"), " for more of it."
        raise StateError(f"round {round_id} is imported history.", advice=advice)
    batch = _of_its_product(record, batch)
    resolved = resolve(view.network, batch)
    rows, others = _contacted_only(view.network, record, batch, resolved)
    return Belonging([(record, rows)], resolved.unknown, 0, check_sound(batch, resolved, tolerance, others))


def _of_its_product(record: Round, batch: Batch) -> Batch:
    """The rows that are about a round's product, or do not say; an error if all are about others."""
    own = record.product
    if own is None or "product" not in batch.extra or not batch.length:
        return batch
    products = batch.extra["product"]
    other = (text_places(products, [str(own)]) < 0) & products.is_not_null().to_numpy()
    others = np.flatnonzero(other)
    if others.size == batch.length:
        raise InputError(
            f"all {others.size:,} rows are of another product than round {record.number}, which is about {shown(own)}; "
            f"the first is line {batch.lines[others[0]]}, {shown(products[int(others[0])])}. Nothing was stored. "
            "Tell them without naming a round: each row then finds the rounds of its product."
        )
    left_out = LeftOut.of_lines(
        f"of another product than {shown(own)}", batch.lines[others], example=lambda at: str(products[int(others[at])])
    )
    edges, nodes = (part.take(np.flatnonzero(~other[part.rows])) for part in (batch.edges, batch.nodes))
    return replace(batch, edges=edges, nodes=nodes, report=batch.report.without(left_out))


def _contacted_only(network: Network, record: Round, batch: Batch, resolved: Resolved) -> tuple[Resolved, LeftOut]:
    """Responses to those who were contacted in a round, and the others."""
    contacted = np.zeros(network.graph.n_nodes, dtype=np.bool_)
    contacted[record.contacted] = True
    held = contacted[resolved.sources]
    others = np.flatnonzero(~held)
    ids = network.graph.ids[resolved.sources[others]]
    left_out = LeftOut.of_lines(
        f"a source that was not contacted in round {record.number}",
        batch.lines[resolved.edges.rows[others]],
        malformed=True,
        example=lambda at: str(ids[at].item()),
    )
    if not others.size:
        return resolved, left_out
    kept = resolved.take(np.flatnonzero(held), np.arange(resolved.users.size))
    return replace(kept, strangers=resolved.strangers), left_out


def of_rounds(view: View, batch: Batch, tolerance: Tolerance) -> Belonging:
    """The rows of a log that belong to rounds; an error if too many cannot be used.

    Only rows that have a round must name known users: a log has rows of all kinds.
    """
    by_product = "product" in batch.extra and not batch.edges.rows.size
    if batch.length and "round" not in batch.extra and not by_product:
        raise InputError(
            "rows of several rounds need a field 'round', or 'product' (or 'item') with user and time.",
            advice=(
                "Say which column it is with ",
                argument("columns", {"product": "NAME"}),
                "; if all rows belong to one round, name the round.",
            ),
        )
    network = view.network
    rounds = [r for r in view.rounds() if r.status != "cancelled" and r.kind != "history"]
    named = _named(batch, rounds)
    bought = dict(_bought(batch, rounds, np.flatnonzero(named[batch.nodes.rows] == _NO_NAME)))
    claimed = named >= 0
    for rows in bought.values():
        claimed[rows] = True
    edges, nodes = (np.flatnonzero(claimed[part.rows]) for part in (batch.edges, batch.nodes))
    resolved = resolve(network, replace(batch, edges=batch.edges.take(edges), nodes=batch.nodes.take(nodes)))
    # Where each row of the log stands among those found.
    edge_at, node_at = np.full((2, batch.length), -1, dtype=np.int64)
    edge_at[resolved.edges.rows] = np.arange(resolved.numbers.size)
    node_at[resolved.nodes.rows] = np.arange(resolved.users.size)
    order = np.argsort(named, kind="stable")
    starts = np.searchsorted(named[order], np.arange(len(rounds) + 1))
    places, used = [], np.zeros(batch.length, dtype=np.int64)
    for at, record in enumerate(rounds):
        own = order[starts[at] : starts[at + 1]]
        users = _known(node_at, bought.get(at, own[:0]))
        if users.size:
            users = users[_counting(network, record)[resolved.users[users]]]
        chosen = _known(edge_at, own), np.concatenate([_known(node_at, own), users])
        used[resolved.edges.rows[chosen[0]]] += 1
        used[resolved.nodes.rows[chosen[1]]] += 1
        if chosen[0].size or chosen[1].size:
            places.append((record, chosen))
    resolved = _without_shared_ids(resolved, used)
    parts: list[tuple[Round, Resolved]] = []
    others: list[LeftOut] = []
    for record, chosen in places:
        part, strays = _contacted_only(network, record, batch, resolved.take(*chosen))
        parts.append((record, part))
        others.append(strays)
    report = check_sound(batch, resolved, tolerance, *others)
    other = batch.length - resolved.unknown - int(np.count_nonzero(used))
    return Belonging(parts, resolved.unknown, other, report)


def _known(place: I64, rows: I64) -> I64:
    """The places of those rows that have one."""
    at: I64 = place[rows]
    return at[at >= 0]


def _named(batch: Batch, rounds: Sequence[Round]) -> I64:
    """For each row the place of the round that it names."""
    if "round" not in batch.extra:
        return np.full(batch.length, _NO_NAME, dtype=np.int64)
    names = batch.extra["round"]
    texts = [text for record in rounds for text in (record.id, str(record.number))]
    places = text_places(names, texts)
    named = np.where(places >= 0, places // 2, np.where(names.is_null().to_numpy(), _NO_NAME, _NO_ROUND))
    lost = np.flatnonzero(named[batch.edges.rows] == _NO_NAME)
    if lost.size:
        raise InputError(
            f"line {batch.lines[batch.edges.rows[lost[0]]]} tells an outcome by edge and names no round ({lost.size:,} "
            "such rows). Fill in the field 'round'; only rows with user and time find their rounds by the product."
        )
    return named


def _bought(batch: Batch, rounds: Sequence[Round], free: I64) -> Iterator[tuple[int, I64]]:
    """For each round the rows of its product in its window, of those node events that name no round."""
    if "product" not in batch.extra or not free.size:
        return
    texts = [None if (name := record.product) is None else str(name) for record in rounds]
    code = {text: place for place, text in enumerate(sorted({text for text in texts if text is not None}))}
    codes = text_places(batch.extra["product"], list(code))[batch.nodes.rows[free]]
    free, codes = free[codes >= 0], codes[codes >= 0]
    order = np.lexsort((batch.nodes.times[free], codes))
    rows = batch.nodes.rows[free][order]
    times = batch.nodes.times[free][order]
    codes = codes[order]
    until = batch.nodes.until[free][order]
    longest = float((until - times).max(initial=0.0))
    for at, (record, text) in enumerate(zip(rounds, texts, strict=True)):
        if text is None:
            continue
        start, stop = np.searchsorted(codes, [code[text], code[text] + 1]).tolist()
        last = np.inf if record.window is None else record.opened + record.window
        # A date alone begins before the contact on its day.
        first = start + int(np.searchsorted(times[start:stop], record.opened - longest, side="left"))
        stop = start + int(np.searchsorted(times[start:stop], last, side="right"))
        inside = rows[first:stop][until[first:stop] >= record.opened]
        if inside.size:
            yield at, inside


def _counting(network: Network, record: Round) -> NDArray[np.bool_]:
    """Whose actions count for a round: those chosen, contacted or held out, and their followers at that time."""
    graph = network.graph
    chosen = np.unique(np.concatenate([record.contacted, record.held_out]))
    counts = np.zeros(graph.n_nodes, dtype=np.bool_)
    counts[graph.targets[network.edges_in_round(chosen, record.number)]] = True
    counts[chosen] = True
    return counts


def _without_shared_ids(resolved: Resolved, used: I64) -> Resolved:
    """An event id stands for one response, so a row that belongs to several rounds goes without."""
    shared = np.flatnonzero(used[resolved.nodes.rows] > 1)
    if not shared.size or not any(resolved.nodes.event_ids):
        return resolved
    event_ids = list(resolved.nodes.event_ids)
    for at in shared.tolist():
        event_ids[at] = None
    return replace(resolved, nodes=replace(resolved.nodes, event_ids=event_ids))
