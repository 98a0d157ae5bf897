"""Past campaigns as a warm start."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from tensorucb.campaign._ask import round_id
from tensorucb.campaign._catalogue import Context, check_sizes, read_context, with_strategy
from tensorucb.campaign._handle import Handle, View
from tensorucb.campaign._responses import Batch, read_responses
from tensorucb.campaign._world import World
from tensorucb.checks import check_id, is_missing, plain
from tensorucb.errors import InputError
from tensorucb.store._protocol import CampaignRecord, EdgeResponses, RoundRecord


@dataclass(frozen=True)
class HistoryReport:
    """What an import brought: rounds and responses that are new, and rounds that had been imported before."""

    rounds: int
    responses: int
    known_rounds: int


@dataclass(frozen=True)
class _PastRound:
    """One past round: its context, responses, a hash of the caller's label and context, and one of it all."""

    context: Context
    rows: EdgeResponses
    label: str
    fingerprint: str


def import_history(handle: Handle, responses: Any, product: Any = None) -> HistoryReport:
    """Learn from past campaigns, before everything else in the order of learning.

    Parameters
    ----------
    handle
        The campaign.
    responses
        Edge responses as ``tell`` takes them, with a field ``product`` (an id of the catalogue) unless the argument is
        given, optionally a field ``strategy`` (an id of that catalogue), and a field ``round`` that tells past rounds
        of one product apart. Only the edges told are learned, since silence need not have been a "no".
    product
        The product of all rows, as ``ask`` takes it: an id or features, alone or with a strategy.

    Returns
    -------
    HistoryReport
        Importing the same again changes nothing.
    """
    with handle.read() as view:
        strings = view.world.strings
    batch = read_responses(responses, strings=strings)
    if batch.nodes.rows.size:
        raise InputError(f"history must be edge responses; row {batch.nodes.rows[0]} is a node event.")
    now = handle.clock()
    with handle.change(now) as view:
        return _write(view, handle.record, _past_rounds(view, batch, product), now)


def _past_rounds(view: View, batch: Batch, product: Any) -> list[_PastRound]:
    world, edges = view.world, batch.edges
    if product is None and "product" not in batch.extra:
        raise InputError("history needs a field 'product' with ids of the catalogue, or the argument product.")
    s, t = world.known(edges.sources, edges.rows, "source"), world.known(edges.targets, edges.rows, "target")
    numbers = world.edges(s, t, edges.rows)
    nothing: list[Any] = [None] * s.size
    labels = [_label(row, value) for row, value in enumerate(batch.extra.get("round", nothing))]
    products = nothing
    if product is None:
        products = [check_id(f"product in row {row}", _whole(v)) for row, v in enumerate(batch.extra["product"])]
    catalogues = view.catalogues()
    strategies = nothing
    if "strategy" in batch.extra and catalogues[1].ids:
        if isinstance(product, list | tuple):
            raise InputError("history has a field 'strategy', so the argument product must be an id alone.")
        given = enumerate(batch.extra["strategy"])
        strategies = [check_id(f"strategy in row {row}", _whole(v)) for row, v in given]
    groups: dict[tuple[Any, Any, Any], list[int]] = {}
    for i, key in enumerate(zip(products, strategies, labels, strict=True)):
        groups.setdefault(key, []).append(i)
    past = []
    for (named, strategy, label), members in groups.items():
        chosen = named if product is None else product
        context = read_context(chosen, *catalogues)
        if strategy is not None:
            context = with_strategy(context, strategy, catalogues[1])
        check_sizes(view.ledger, catalogues, [vector.size for vector in context.vectors])
        rows = _distinct(world, batch, s, t, numbers, np.array(members, dtype=np.int64))
        vectors = context.to_payload()["vectors"]
        text = [str(label), repr(vectors), rows.sources.tolist(), rows.targets.tolist(), rows.outcomes.tolist()]
        digest = hashlib.sha256(repr(text).encode()).hexdigest()
        mark = hashlib.sha256(repr(text[:2]).encode()).hexdigest()
        past.append(_PastRound(context, rows, mark, f"history:{digest}"))
    return past


def _whole(value: Any) -> Any:
    # A column of numbers with a gap comes as floats.
    value = plain(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _label(row: int, value: Any) -> int | str | None:
    """The caller's name of a past round; a missing one is the round without a name."""
    if is_missing(value):
        return None
    if isinstance(value, date | np.datetime64):
        return str(value)
    return check_id(f"round in row {row}", _whole(value))


def _distinct(world: World, batch: Batch, s: Any, t: Any, edges: Any, at: Any) -> EdgeResponses:
    s, t = s[at], t[at]
    _, index, inverse = np.unique(edges[at], return_index=True, return_inverse=True)
    outcomes = batch.edges.outcomes[at]
    differs = np.flatnonzero(outcomes != outcomes[index[inverse]])
    if differs.size:
        i = int(differs[0])
        rows = batch.edges.rows[at[index[inverse[i]]]], batch.edges.rows[at[i]]
        raise InputError(
            f"rows {rows[0]} and {rows[1]} tell outcomes {outcomes[index[inverse[i]]]:g} and {outcomes[i]:g} of one "
            "edge. If they belong to different past rounds, add a field 'round'."
        )
    # Event ids stay behind: old logs number their events in their own way.
    return EdgeResponses(
        world.keys[s[index]], world.keys[t[index]], outcomes[index], batch.edges.times[at[index]], [None] * index.size
    )


def _write(view: View, campaign: CampaignRecord, past: list[_PastRound], now: float) -> HistoryReport:
    new = [p for p in past if not _known(view, p)]
    responses = sum(int(p.rows.sources.size) for p in new)
    if new:
        payload = {"rounds": len(new), "responses": responses}
        seq = view.append("history_imported", None, payload, now)
        first = view.ledger.next_number()
        for at, p in enumerate(new, first):
            identifier = round_id(campaign, at)
            record = RoundRecord(at, identifier, "closed", now, None, now, seq, p.fingerprint, _payload(p))
            view.session.put_round(view.number, record)
            view.session.add_edge_responses(view.number, at, p.rows, seq)
    return HistoryReport(len(new), responses, len(past) - len(new))


def _known(view: View, past: _PastRound) -> bool:
    """Whether this round was imported before; since then somebody may have been forgotten, and be gone from both."""
    if view.session.round_by_request(view.number, past.fingerprint) is not None:
        return True
    for record in view.ledger.rounds.values():
        if record.payload.get("label") == past.label:
            held = view.session.edge_responses(view.number, record.number)
            columns = ("sources", "targets", "outcomes")
            if all(np.array_equal(getattr(held, name), getattr(past.rows, name)) for name in columns):
                return True
    return False


def _payload(past: _PastRound) -> dict[str, Any]:
    return {
        "kind": "history",
        "product": past.context.to_payload(),
        "k": None,
        "seeds": [],
        "gains": [],
        "contacted": np.unique(past.rows.sources).tolist(),
        "holdout": [],
        "reach": None,
        "window": None,
        "credit": "any",
        "objective": None,
        "learn": "told",
        "label": past.label,
        "excluded": {},
    }
