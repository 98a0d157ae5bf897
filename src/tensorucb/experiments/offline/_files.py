"""Logged campaigns as Parquet: four tables with the caller's ids, which any warehouse can write."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorucb.errors import FileFormatError
from tensorucb.experiments.offline._campaign import LoggedCampaign, Sampling
from tensorucb.files import atomic_write
from tensorucb.graph import Graph

if TYPE_CHECKING:
    import polars as pl

_META = "campaign.json"
_COLUMNS = {
    "rounds": ("round", "product", "design"),
    "contacts": ("round", "user"),
    "responses": ("round", "source", "target", "outcome"),
    "propensities": ("design", "user", "propensity"),
}


def write_campaign(campaign: LoggedCampaign, directory: str | os.PathLike[str]) -> list[Path]:
    """Write ``rounds``, ``contacts``, ``responses``, ``propensities`` (Parquet) and ``campaign.json``.

    Ids are the caller's, so the files do not depend on the graph's row numbers. A user who is not in ``propensities``
    has propensity 0.
    """
    import polars as pl

    graph, rounds = campaign.graph, np.arange(campaign.n_rounds)
    design, user = np.nonzero(campaign.propensities)
    tables = {
        "rounds": {"round": rounds, "product": campaign.products.tolist(), "design": campaign.design},
        "contacts": {
            "round": np.repeat(rounds, np.diff(campaign.contact_offsets)),
            "user": graph.ids[campaign.contacts],
        },
        "responses": {
            "round": np.repeat(rounds, np.diff(campaign.edge_offsets)),
            "source": graph.ids[graph.sources[campaign.edges]],
            "target": graph.ids[graph.targets[campaign.edges]],
            "outcome": campaign.outcomes,
        },
        "propensities": {
            "design": design,
            "user": graph.ids[user],
            "propensity": campaign.propensities[design, user],
        },
    }
    folder, written = Path(directory), []
    for name, columns in tables.items():
        written.append(folder / f"{name}.parquet")
        with atomic_write(written[-1]) as file:
            pl.DataFrame(columns).write_parquet(file)
    with atomic_write(folder / _META) as file:
        file.write(json.dumps({"sampling": campaign.sampling, "version": 1}).encode() + b"\n")
    return [*written, folder / _META]


def read_campaign(directory: str | os.PathLike[str], graph: Graph) -> LoggedCampaign:
    """Read what `write_campaign` wrote, or tables of the same columns.

    Rounds are numbered 0..T-1. Within a round, contacts and responses keep the order of their file.
    """
    folder = Path(directory)
    tables = {name: _table(folder / f"{name}.parquet", columns) for name, columns in _COLUMNS.items()}
    order = tables["rounds"].sort("round")
    rounds = order.height
    if order["round"].to_list() != list(range(rounds)):
        raise FileFormatError(f"{folder / 'rounds.parquet'} must number its rounds 0..{rounds - 1}, each once.")
    told, contacted, offered = (
        tables[name].sort(key, maintain_order=True)
        for name, key in (("responses", "round"), ("contacts", "round"), ("propensities", "design"))
    )
    designs = int(offered["design"].max() or 0) + 1 if offered.height else 1  # type: ignore[arg-type]
    propensities = np.zeros((designs, graph.n_nodes))
    propensities[offered["design"].to_numpy(), graph.rows(_ids(offered["user"]))] = offered["propensity"].to_numpy()
    return LoggedCampaign(
        graph,
        np.array(order["product"].to_list(), dtype=np.float64),
        graph.rows(_ids(contacted["user"])),
        _offsets(contacted["round"], rounds, "contacts"),
        graph.edge_rows(_ids(told["source"]), _ids(told["target"])),
        told["outcome"].to_numpy().astype(np.float64),
        _offsets(told["round"], rounds, "responses"),
        propensities,
        order["design"].to_numpy().astype(np.int64),
        _sampling(folder / _META),
    )


def _table(path: Path, columns: tuple[str, ...]) -> pl.DataFrame:
    import polars as pl

    try:
        frame = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise FileFormatError(f"cannot read {path}: {error}. A logged campaign needs it as Parquet.") from error
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise FileFormatError(f"{path} lacks the columns {', '.join(missing)}; it has {', '.join(frame.columns)}.")
    holes = [name for name in columns if frame[name].null_count()]
    if holes:
        raise FileFormatError(f"{path} has empty cells in {', '.join(holes)}. Fill or drop those rows.")
    return frame.select(columns)


def _ids(column: pl.Series) -> Any:
    import polars as pl

    return column.to_list() if column.dtype == pl.String else column.to_numpy()


def _offsets(rounds: pl.Series, count: int, name: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    numbers = rounds.to_numpy().astype(np.int64)
    if numbers.size and (numbers.min() < 0 or numbers.max() >= count):
        raise FileFormatError(f"{name} names round {int(numbers.max())}, but rounds has only 0..{count - 1}.")
    return np.concatenate([[0], np.cumsum(np.bincount(numbers, minlength=count))]).astype(np.int64)


def _sampling(path: Path) -> Sampling:
    if not path.exists():
        return "unknown"
    try:
        value: Sampling = json.loads(path.read_text(encoding="utf-8"))["sampling"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FileFormatError(f"{path} is not a campaign's description ({error!r}). Write it again.") from error
    return value
