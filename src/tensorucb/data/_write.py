"""`write_dataset`: a data set in the plain form."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from tensorucb.checks import check_choice, check_instance, check_path, shown, shown_path
from tensorucb.data._dataset import Dataset
from tensorucb.data._plain import GUARDED, META
from tensorucb.errors import InputError
from tensorucb.files import FORMULA, atomic_write


def _write(frame: pl.DataFrame, path: Path) -> Path:
    with atomic_write(path) as file:
        if path.suffix == ".parquet":
            frame.write_parquet(file)
        else:
            frame.with_columns(pl.col(pl.String).str.replace(FORMULA, "'$1")).write_csv(file)
    return path


def write_dataset(
    dataset: Dataset, directory: str | os.PathLike[str], *, form: Literal["parquet", "csv"] = "parquet"
) -> list[Path]:
    """Write ``edges``, ``actions`` (where there is a log) and ``dataset.json`` into a directory.

    Parameters
    ----------
    dataset
        The data set. Users without any edge cannot be told by the plain form: `prepare` drops them.
    directory
        Made if absent. Files of these names are replaced; ``edges`` or ``actions`` in the other form are an error.
    form
        ``parquet`` or ``csv``. In CSV a text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a carriage return
        has an apostrophe in front, so that no spreadsheet takes it for a formula; ``dataset.json`` says so, and
        `read_dataset` takes it off again.

    Returns
    -------
    list of Path
        The files written. `read_dataset` gives the same data set back, with the same `checksum`.
    """
    check_choice("form", form, ("parquet", "csv"))
    check_instance("dataset", dataset, Dataset, "a Dataset", "read_dataset and generate_dataset make one.")
    folder = check_path("directory", directory)
    graph, log = dataset.graph, dataset.log
    isolated = int(((graph.out_degree + graph.in_degree) == 0).sum())
    if isolated:
        raise InputError(
            f"{isolated} users of {shown(dataset.name)} have no edge, and the plain form is a list of edges. "
            "Drop them first: prepare(dataset, min_interactions=0)."
        )
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{shown_path(folder)} is a file, not a directory. Choose another name.")
    clash = [path.name for path in _others(folder, form, has_log=log.n_actions > 0)]
    if clash:
        raise InputError(f"{shown_path(folder)} already holds {', '.join(clash)}. Choose an empty directory.")
    edges = pl.DataFrame({"source": graph.ids[graph.sources], "target": graph.ids[graph.targets]})
    written = [_write(edges, folder / f"edges.{form}")]
    if log.n_actions:
        actions = pl.DataFrame(
            {"user": graph.ids[log.users], "item": np.asarray(log.item_ids)[log.items], "timestamp": log.times}
        )
        written.append(_write(actions, folder / f"actions.{form}"))
    meta = folder / META
    with atomic_write(meta) as file:
        about = {"name": dataset.name, "window": dataset.window, **({GUARDED: True} if form == "csv" else {})}
        file.write(json.dumps(about).encode() + b"\n")
    return [*written, meta]


def _others(folder: Path, form: str, *, has_log: bool) -> list[Path]:
    """Files that would be read along with, or instead of, those about to be written."""
    other = [f"{stem}{end}" for stem in ("edges", "actions") for end in (".csv", ".csv.gz", ".parquet")]
    ours = {f"edges.{form}", f"actions.{form}"} if has_log else {f"edges.{form}"}
    return [folder / name for name in other if name not in ours and (folder / name).exists()]
