"""A campaign as Parquet files, with the caller's ids and a manifest."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.campaign._catalogue import strategy_names
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
        told = [(record.id, session.edge_responses(number, record.number)) for record in records]
        acted = [(record.id, session.node_events(number, record.number)) for record in records]
        events = _log(session.events(number))
        products, strategies = view.catalogues()
    frames = {
        "rounds": _rounds(records),
        "seeds": _seeds(records, world),
        "responses": _by_round(world, told, {"source": "sources", "target": "targets"}, {"outcome": "outcomes"}),
        "node_events": _by_round(world, acted, {"user": "users"}, {}),
        "events": events,
        "users": _table("user", world.graph.ids.tolist(), world.users, cost=world.costs, group=world.groups),
        "edges": world.graph.to_frame(),
        "products": _table("product", [str(entry) for entry in products.ids], products.features),
        "strategies": _table(
            "strategy", [str(entry) for entry in strategies.ids], strategies.features, cost=strategies.costs
        ),
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

    texts, numbers = ("round", "kind", "status", "product", "credit"), ("number", "k")
    names = "round number kind status product k window credit opened deadline closed cost reach reach_low reach_high"
    schema = {n: pl.String if n in texts else pl.Int64 if n in numbers else pl.Float64 for n in names.split()}
    rows = []
    for record in records:
        payload, product = record.payload, record.payload["product"]["id"]
        rows.append(
            (
                record.id,
                record.number,
                payload["kind"],
                record.status,
                None if product is None else str(product),
                # Imported history was asked by nobody: it has none of these.
                *(payload.get(name) for name in ("k", "window", "credit")),
                *(record.opened, record.deadline, record.closed, payload.get("cost")),
                *((payload["reach"] or {}).get(name) for name in ("mean", "low", "high")),
            )
        )
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


def _by_round(
    world: World, parts: Sequence[tuple[str, Any]], users: Mapping[str, str], values: Mapping[str, str]
) -> pl.DataFrame:
    """Responses of all rounds; ``users`` and ``values`` say which column comes from which attribute of the rows."""
    import polars as pl

    schema = {
        "round": pl.String,
        **dict.fromkeys(users, _id_type(world)),
        **dict.fromkeys((*values, "time"), pl.Float64),
        "event_id": pl.String,
    }
    frames = [pl.DataFrame(schema=schema)]
    for name, rows in parts:
        columns = {
            "round": [name] * rows.times.size,
            **{column: world.ids(getattr(rows, attribute)) for column, attribute in users.items()},
            **{column: getattr(rows, attribute) for column, attribute in values.items()},
            "time": rows.times,
            "event_id": list(rows.event_ids),
        }
        frames.append(pl.DataFrame(columns, schema=schema))
    return pl.concat(frames).with_columns(pl.col("time").fill_nan(None))


def _log(events: list[Any]) -> pl.DataFrame:
    import polars as pl

    schema = {"seq": pl.Int64, "kind": pl.String, "round": pl.Int64, "payload": pl.String, "created": pl.Float64}
    rows = [(e.seq, e.kind, e.round, json.dumps(dict(e.payload), sort_keys=True), e.created) for e in events]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _table(name: str, ids: list[Any], features: Any, **others: NDArray[Any] | None) -> pl.DataFrame:
    """Ids, features, and further columns where there are any."""
    import polars as pl

    strings = not ids or isinstance(ids[0], str)
    columns: dict[str, Any] = {name: pl.Series(name, ids, dtype=pl.String if strings else pl.Int64)}
    # A profile goes out flat, as most policies see it.
    matrix = np.empty((len(ids), 0)) if features is None else np.asarray(features)
    for i in range(matrix.shape[1]):
        columns[f"feature_{i}"] = np.ascontiguousarray(matrix[:, i])
    columns.update({column: values for column, values in others.items() if values is not None})
    return pl.DataFrame(columns)
