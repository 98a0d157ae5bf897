"""A campaign as Parquet or CSV files, with the caller's ids and a manifest."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tensorucb.arrays import F64, I64
from tensorucb.campaign._catalogue import Catalogue
from tensorucb.campaign._handle import Handle, View
from tensorucb.campaign._network import Network
from tensorucb.campaign._people import said
from tensorucb.campaign._round import Round
from tensorucb.campaign._told import acted_in_window, each_once, told_edges
from tensorucb.checks import check_choice, check_path, shown_path
from tensorucb.errors import InputError
from tensorucb.files import staged
from tensorucb.store._protocol import NOBODY, NOTHING, Responses, in_order
from tensorucb.tables import guarded

MANIFEST = "manifest.json"

_Kinds = Mapping[str, Any]
"""Polars types of the ids of users, products and strategies. Ids of a column of text are written as text."""


def export(handle: Handle, directory: str | os.PathLike[str], format: str) -> list[Path]:
    """Write the tables of a campaign; see `Campaign.export`.

    The manifest is there only while all other files are, and belong together.
    """
    check_choice("format", format, ("parquet", "csv"))
    folder = check_path("directory", directory)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{shown_path(folder)} is a file; name a directory to export to.")
    with handle.read() as view:
        frames = _frames(view)
    with staged(directory, MANIFEST) as folder:
        lines = []
        for name, frame in frames.items():
            path = folder / f"{name}.{format}"
            frame.write_parquet(path) if format == "parquet" else guarded(frame).write_csv(path)
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            types = {column: str(kind).lower() for column, kind in frame.schema.items()}
            lines.append({"name": path.name, "rows": frame.height, "columns": types, "sha256": digest})
        about = {
            "format": "tensorucb campaign export",
            "version": 1,
            "campaign": handle.record.name,
            "exported": datetime.fromtimestamp(handle.clock(), UTC).isoformat(timespec="seconds"),
            "tensorucb": version("tensorucb"),
            "last_event": frames["events"]["seq"].max(),
            "files": lines,
        }
        (folder / MANIFEST).write_text(f"{json.dumps(about, indent=2)}\n", encoding="utf-8")
    return [Path(directory) / str(name) for name in (*(line["name"] for line in lines), MANIFEST)]


def _frames(view: View) -> dict[str, pl.DataFrame]:
    """The tables by name, all of one moment."""
    network = view.network
    records = view.rounds()
    products, strategies = view.catalogues()
    names = {"user": network.graph.ids.tolist(), "product": products.ids, "strategy": strategies.ids}
    ids = {name: _kind(entries) for name, entries in names.items()}
    responses = _responses(view, records)
    by_edge = pl.col("source").is_not_null()
    log = [
        (event.seq, event.kind, event.round, json.dumps(dict(event.payload), sort_keys=True), event.created)
        for event in view.session.events(view.number)
    ]
    events = {"seq": pl.Int64, "kind": pl.String, "round": pl.Int64, "payload": pl.String, "created": pl.Float64}
    columns = view.user_columns
    people = {
        "cost": network.costs,
        "group": network.groups,
        "name": columns.names if columns is not None and any(columns.names) else None,
        "value": network.values,
        "opted_out": said(view).opted_out,
        "consent": network.consent,
    }
    return {
        "rounds": _rounds(records, ids),
        "seeds": _seeds(records, network, ids),
        "responses": responses.filter(by_edge),
        "node_events": responses.filter(~by_edge).select(
            "round", pl.col("target").alias("user"), "time", "event_id", "amount"
        ),
        "credited_edges": _credited(view, ids),
        "events": pl.DataFrame(log, schema=events, orient="row"),
        "users": _table("user", names["user"], network.users, **people),
        "edges": network.graph.to_frame(),
        "products": _table("product", products.ids, products.features, value=products.values, name=_names(products)),
        "strategies": _table(
            "strategy", strategies.ids, strategies.features, cost=strategies.costs, name=_names(strategies)
        ),
    }


def _kind(ids: Sequence[Any]) -> Any:
    """The type of a column of ids: numbers if all are."""
    return pl.Int64 if ids and all(isinstance(entry, int) for entry in ids) else pl.String


def _rounds(records: list[Round], ids: _Kinds) -> pl.DataFrame:
    own: dict[str, Any] = {
        "number": pl.Int64,
        "kind": pl.String,
        "status": pl.String,
        "product": ids["product"],
        "k": pl.Int64,
        "window": pl.Float64,
        "credit": pl.String,
        **dict.fromkeys(("opened", "deadline", "closed", "cost"), pl.Float64),
    }
    ranges = [f"{name}{end}" for name in ("reach", "revenue") for end in ("", "_low", "_high")]
    rows = []
    for record in records:
        both = record.reach, None if record.reach is None else record.reach.revenue
        ends = (None if part is None else getattr(part, end) for part in both for end in ("mean", "low", "high"))
        rows.append((record.id, *(getattr(record, name) for name in own), *ends))
    schema = {"round": pl.String, **own, **dict.fromkeys(ranges, pl.Float64)}
    return pl.DataFrame(rows, schema=schema, orient="row", strict=False)


def _seeds(records: list[Round], network: Network, ids: _Kinds) -> pl.DataFrame:
    """Who was chosen, held out and contacted in each round, and with which strategy."""
    rows = []
    for record in records:
        chosen = record.strategy_of("chosen") or {}
        roles = {
            "seed": (record.chosen[~np.isin(record.chosen, record.held_out)], chosen),
            "held_out": (record.held_out, chosen),
            "contacted": (record.contacted, record.strategy_of("contacted") or {}),
        }
        for role, (users, strategies) in roles.items():
            for row, user in zip(users.tolist(), network.ids(users), strict=True):
                rows.append((record.id, user, role, strategies.get(row)))
    schema = {"round": pl.String, "user": ids["user"], "role": pl.String, "strategy": ids["strategy"]}
    return pl.DataFrame(rows, schema=schema, orient="row", strict=False)


def _responses(view: View, records: list[Round]) -> pl.DataFrame:
    """What all rounds were told; without a source, who acted."""
    batches = view.session.responses(view.number, 1, view.ledger.next_number() - 1, event_ids=True)
    told = [(record.id, in_order([each_once(batches[record.number])])) for record in records]
    rows = Responses.joined([NOTHING, *(rows for _, rows in told)])
    users = pl.Series(view.network.graph.ids)
    return pl.DataFrame(
        {
            "round": pl.Series([name for name, part in told for _ in range(part.size)], dtype=pl.String),
            "source": users.gather(pl.Series(rows.sources).replace(NOBODY, None)),
            "target": users.gather(rows.targets),
            "outcome": rows.outcomes,
            "time": pl.Series(rows.times).fill_nan(None),
            "event_id": pl.Series(rows.event_ids.tolist(), dtype=pl.String),
            "amount": pl.Series(rows.amounts).fill_nan(None),
        }
    )


def _credited(view: View, ids: _Kinds) -> pl.DataFrame:
    """What the model learned from each response: the edges that got credit, and how much.

    An edge is there if it got credit, or if its outcome was told: then a credit of 0 is a "no". Silence, which the
    model takes for a "no" as well, is not listed.
    """
    schema = {
        "round": pl.String,
        **dict.fromkeys(("source", "target"), ids["user"]),
        **{name: ids[name] for name in ("product", "strategy")},
        **dict.fromkeys(("credit", "time"), pl.Float64),
    }
    network = view.network
    users = pl.Series(network.graph.ids)
    pairs = view.ledger.known
    frames = [pl.DataFrame(schema=schema)]
    records = [view.ledger.rounds[number] for number, _ in pairs]
    shared = [i for i, record in enumerate(records) if record.credit == "shared"]
    last = max((i for i in shared if view.told(*pairs[i]).actions.size), default=-1)
    # The past is learned again only as far as credit depends on it.
    model = view.handle.fresh_model(apart=True)
    if last >= 0:
        model.begin(network)
    for i, record in enumerate(records):
        told = view.told(*pairs[i])
        edges, credit = model.lesson(network, record, told)
        if i < last:
            model.learn(view, pairs[i : i + 1])
        kept = (credit > 0.0) | np.isin(edges, told_edges(network, told))
        edges = edges[kept]
        sources = network.graph.sources[edges]
        strategies = record.strategy_of("contacted") or {}
        columns = {
            "round": [record.id] * edges.size,
            "source": users.gather(sources),
            "target": users.gather(network.graph.targets[edges]),
            "product": [record.product] * edges.size,
            "strategy": [strategies.get(row) for row in sources.tolist()],
            "credit": credit[kept],
            "time": _times(network, record, told, edges),
        }
        frames.append(pl.DataFrame(columns, schema=schema, strict=False))
    return pl.concat(frames).with_columns(pl.col("time").fill_nan(None))


def _times(network: Network, record: Round, told: Responses, edges: I64) -> F64:
    """When each edge's response happened: the time told with the edge, else the target's first action in the window."""
    first = np.full(network.graph.n_nodes, np.inf)
    acted = acted_in_window(record, told)
    np.minimum.at(first, acted.targets, acted.times)
    times = first[network.graph.targets[edges]]
    named = told_edges(network, told)
    timed = np.isfinite(told.by_edge.times) & np.isin(named, edges)
    times[np.searchsorted(edges, named[timed])] = told.by_edge.times[timed]
    return np.where(np.isfinite(times), times, np.nan)


def _names(catalogue: Catalogue) -> list[str | None] | None:
    """What entries are called; None if none has a name."""
    return [catalogue.names.get(entry) for entry in catalogue.ids] if catalogue.names else None


def _table(key: str, ids: Sequence[Any], features: Any, **others: Any) -> pl.DataFrame:
    """Ids, features, and further columns where there are any."""
    # A profile goes out flat, as most policies see it.
    matrix = np.empty((len(ids), 0)) if features is None else np.asarray(features)
    return pl.DataFrame(
        {
            key: pl.Series(ids, dtype=_kind(ids), strict=False),
            **{f"feature_{i}": np.ascontiguousarray(column) for i, column in enumerate(matrix.T)},
            **{column: values for column, values in others.items() if values is not None},
        }
    )
