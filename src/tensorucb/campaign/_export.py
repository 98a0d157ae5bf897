"""A campaign as Parquet files, with the caller's ids and a manifest."""

from __future__ import annotations

import hashlib
import json
import os
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorucb.campaign._catalogue import Catalogue, strategy_names
from tensorucb.campaign._handle import Handle
from tensorucb.campaign._world import World
from tensorucb.checks import check_path, shown_path
from tensorucb.errors import InputError
from tensorucb.files import staged
from tensorucb.store._protocol import RoundRecord

if TYPE_CHECKING:
    import polars as pl

MANIFEST = "manifest.json"


def export(handle: Handle, directory: str | os.PathLike[str]) -> list[Path]:
    """Write rounds, seeds, responses, node events, the log, users, edges, products and strategies to ``directory``.

    Returns the files; the last one is ``manifest.json``, which names the others with their rows and checksums. It is
    there only while all of them are, and belong together.
    """
    folder = check_path("directory", directory)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{shown_path(folder)} is a file; name a directory to export to.")
    with handle.read() as view:
        session, number, world, records = view.session, view.number, view.world, view.rounds()
        responses = _responses(world, [(r.id, session.edge_responses(number, r.number)) for r in records])
        acted = _node_events(world, [(r.id, session.node_events(number, r.number)) for r in records])
        events = _log(session.events(number))
        products, strategies = view.catalogues()
    frames = {
        "rounds": _rounds(records),
        "seeds": _seeds(records, world),
        "responses": responses,
        "node_events": acted,
        "events": events,
        "users": _users(world),
        "edges": world.graph.to_frame(),
        "products": _table("product", [str(p) for p in products.ids], products.features, True),
        "strategies": _strategies(strategies),
    }
    with staged(directory, MANIFEST) as folder:
        lines = [_write(frame, folder / f"{name}.parquet") for name, frame in frames.items()]
        about = {
            "format": "tensorucb campaign export",
            "version": 1,
            "campaign": handle.record.name,
            "exported": datetime.fromtimestamp(handle.clock(), UTC).isoformat(timespec="seconds"),
            "tensorucb": version("tensorucb"),
            "last_event": events["seq"].max(),
            "files": lines,
        }
        (folder / MANIFEST).write_text(f"{json.dumps(about, indent=2)}\n", encoding="utf-8")
    return [Path(directory) / name for name in (*(line["name"] for line in lines), MANIFEST)]


def _write(frame: pl.DataFrame, path: Path) -> dict[str, Any]:
    """Write a table; its line of the manifest."""
    frame.write_parquet(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return {"name": path.name, "rows": frame.height, "sha256": digest}


def _id_type(world: World) -> Any:
    import polars as pl

    return pl.String if world.strings else pl.Int64


def _rounds(records: list[RoundRecord]) -> pl.DataFrame:
    import polars as pl

    schema = {
        "round": pl.String,
        "number": pl.Int64,
        "kind": pl.String,
        "status": pl.String,
        "product": pl.String,
        "k": pl.Int64,
        "window": pl.Float64,
        "credit": pl.String,
        "opened": pl.Float64,
        "deadline": pl.Float64,
        "closed": pl.Float64,
        "cost": pl.Float64,
        "reach": pl.Float64,
        "reach_low": pl.Float64,
        "reach_high": pl.Float64,
    }
    rows = [
        (
            record.id,
            record.number,
            record.payload["kind"],
            record.status,
            None if record.payload["product"]["id"] is None else str(record.payload["product"]["id"]),
            # Imported history was asked by nobody: it has none of these.
            *(record.payload.get(name) for name in ("k", "window", "credit")),
            record.opened,
            record.deadline,
            record.closed,
            record.payload.get("cost"),
            *((record.payload["reach"] or {}).get(name) for name in ("mean", "low", "high")),
        )
        for record in records
    ]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _seeds(records: list[RoundRecord], world: World) -> pl.DataFrame:
    """Who was chosen, held out and contacted in each round, and with which strategy."""
    import polars as pl

    rows = []
    for record in records:
        payload = record.payload
        held = payload["holdout"]
        roles = {
            "seed": ([key for key in payload["seeds"] if key not in held], "seeds"),
            "held_out": (held, "seeds"),
            "contacted": (payload["contacted"], "contacted"),
        }
        for role, (keys, given) in roles.items():
            names = strategy_names(payload, given) or {}
            for key, user in zip(keys, world.ids(keys), strict=True):
                rows.append((record.id, user, role, str(names[key]) if key in names else None))
    schema = {"round": pl.String, "user": _id_type(world), "role": pl.String, "strategy": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _responses(world: World, parts: list[tuple[str, Any]]) -> pl.DataFrame:
    import polars as pl

    kind = _id_type(world)
    schema = {
        "round": pl.String,
        "source": kind,
        "target": kind,
        "outcome": pl.Float64,
        "time": pl.Float64,
        "event_id": pl.String,
    }
    frames = [
        pl.DataFrame(
            {
                "round": [name] * rows.sources.size,
                "source": world.ids(rows.sources),
                "target": world.ids(rows.targets),
                "outcome": rows.outcomes,
                "time": rows.times,
                "event_id": list(rows.event_ids),
            },
            schema=schema,
        )
        for name, rows in parts
    ]
    return pl.concat([pl.DataFrame(schema=schema), *frames]).with_columns(pl.col("time").fill_nan(None))


def _node_events(world: World, parts: list[tuple[str, Any]]) -> pl.DataFrame:
    import polars as pl

    schema = {"round": pl.String, "user": _id_type(world), "time": pl.Float64, "event_id": pl.String}
    frames = [
        pl.DataFrame(
            {
                "round": [name] * rows.users.size,
                "user": world.ids(rows.users),
                "time": rows.times,
                "event_id": list(rows.event_ids),
            },
            schema=schema,
        )
        for name, rows in parts
    ]
    return pl.concat([pl.DataFrame(schema=schema), *frames])


def _log(events: list[Any]) -> pl.DataFrame:
    import polars as pl

    schema = {"seq": pl.Int64, "kind": pl.String, "round": pl.Int64, "payload": pl.String, "created": pl.Float64}
    rows = [(e.seq, e.kind, e.round, json.dumps(dict(e.payload), sort_keys=True), e.created) for e in events]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _users(world: World) -> pl.DataFrame:
    """Ids and features; what contacting each costs and the group, where the campaign has them."""
    import polars as pl

    frame = _table("user", world.graph.ids.tolist(), world.users, world.strings)
    given = {"cost": world.costs, "group": world.groups}
    return frame.with_columns(pl.Series(name, column.tolist()) for name, column in given.items() if column is not None)


def _strategies(catalogue: Catalogue) -> pl.DataFrame:
    import polars as pl

    frame = _table("strategy", [str(entry) for entry in catalogue.ids], catalogue.features, True)
    return frame.with_columns(pl.Series("cost", catalogue.costs, dtype=pl.Float64))


def _table(name: str, ids: list[Any], features: Any, strings: bool) -> pl.DataFrame:
    import polars as pl

    columns: dict[str, Any] = {name: pl.Series(name, ids, dtype=pl.String if strings else pl.Int64)}
    # A profile goes out flat, as most policies see it.
    matrix = np.empty((len(ids), 0)) if features is None else np.asarray(features)
    for i in range(matrix.shape[1]):
        columns[f"feature_{i}"] = np.ascontiguousarray(matrix[:, i])
    return pl.DataFrame(columns)
