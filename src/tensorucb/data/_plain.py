"""Data sets in files: ``edges`` and ``actions`` as CSV or TSV (also gzipped) with a header, NDJSON or Parquet."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import polars as pl

from tensorucb.checks import check_choice, check_path, check_text, shown, shown_path
from tensorucb.data._dataset import ActionLog, Dataset, check_dataset
from tensorucb.errors import InputError, TableError
from tensorucb.files import FORMULA, atomic_write, write_bytes
from tensorucb.graph import Graph
from tensorucb.graph._ids import IdIndex, id_array
from tensorucb.moments import duration, duration_text
from tensorucb.reports import LENIENT, FileReport, LeftOut, Report, Tolerance
from tensorucb.tables import TABLES, Table, read
from tensorucb.tables import guarded as with_apostrophes

_META = "dataset.json"
_GUARDED = "formulas_guarded"
NAMES = {"edges": ("edges", "followers"), "actions": ("actions", "purchases")}
"""What tables are called in directories and databases, where that is not one name alone."""
_ENDS = (".csv", ".tsv", ".ndjson", ".jsonl", ".parquet")
_FORM = "edges.csv and actions.csv (or followers, purchases; also .csv.gz, .tsv, .ndjson, .parquet)"


def _read(
    table: str, source: Any, columns: Mapping[str, str], text_users: bool, tolerance: Tolerance, zone: str = "UTC"
) -> Table:
    """A table of edges or actions; ids of users are text if ``text_users``."""
    users = ("source", "target", "user")
    fields = [f._replace(kind="text") if text_users and f.name in users else f for f in TABLES[table]]
    rows = read(table, source, fields, columns=columns, part_of=table, zone=zone)
    if not rows.report.rows:
        raise TableError(f"{rows.report.file} holds no rows. Check that it was fetched or written in full.")
    rows.report.check(tolerance)
    return rows


def _meta(path: Path | None) -> tuple[str | None, str | None, bool]:
    """Name and window from ``dataset.json``, and whether texts that look like formulas have an apostrophe in front."""
    if path is None:
        return None, None, False
    try:
        meta: Any = json.loads(path.read_text(encoding="utf-8"))
        name, window = meta.get("name"), meta.get("window")
        if window is not None:
            duration("window", window)
        return None if name is None else check_text("name", name), window, meta.get(_GUARDED) is True
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise TableError(
            f"{shown_path(path.name)} is not readable: {shown(str(error).rstrip('.'), 120)[1:-1]}. "
            'It should hold {"name": text, "window": "7d" or null}. Mend or delete it.'
        ) from error


def read_links(edges: Any, columns: Mapping[str, str], id_type: str, *, tolerance: Tolerance = LENIENT) -> Table:
    """Edges with ids of users as ``id_type`` says; ``columns`` are names of columns by meaning."""
    check_choice("id_type", id_type, ("auto", "int", "str"))
    links = _read("edges", edges, columns, id_type == "str", tolerance)
    if id_type == "int" and pl.String in links.frame.schema.values():
        raise TableError(f"{links.report.file} holds ids of users that are not whole numbers, as they should be.")
    return links


def read_plain(
    edges: Any,
    actions: Any,
    meta: Path | None,
    name: str,
    *,
    tolerance: Tolerance = LENIENT,
    zone: str = "UTC",
    columns: Mapping[str, Mapping[str, str]] | None = None,
    id_type: str = "auto",
) -> Dataset:
    """A data set in the plain form; ``name`` counts where ``meta`` does not say.

    ``columns`` are names by meaning, for ``edges`` and ``actions``; ``id_type`` says what ids of users are, ``zone``
    what times without a zone mean. Links from a user to itself, repeated links, actions of users without a link and
    repeated pairs of user and item are sound rows that a graph and a log do not hold: they are left out and counted.
    """
    told, window, guarded = _meta(meta)
    named = columns or {}
    tables = [read_links(edges, named.get("edges", {}), id_type, tolerance=tolerance)]
    if actions is not None:
        tables.append(_read("actions", actions, named.get("actions", {}), id_type == "str", tolerance, zone))
    links, *logs = map(_without_apostrophes, tables) if guarded else tables
    graph, report = _graph(links)
    if not logs:
        return Dataset(graph, ActionLog.empty(), told or name, window, Report((report,)))
    log, log_report = _log(graph, logs[0])
    return Dataset(graph, log, told or name, window, Report((report, log_report)))


def _without_apostrophes(table: Table) -> Table:
    """The texts of a CSV file as they were before `write_dataset` guarded them."""
    texts = pl.col(pl.String).str.replace(f"^'{FORMULA[1:]}", "$1")
    return table._replace(frame=table.frame.with_columns(texts)) if table.text else table


def _set_aside(frame: pl.DataFrame, keep: pl.Series, reason: str) -> tuple[pl.DataFrame, LeftOut]:
    return frame.filter(keep), LeftOut.of_lines(reason, frame["line"].filter(~keep))


def _graph(table: Table) -> tuple[Graph, FileReport]:
    links = table.frame
    if {links["source"].dtype, links["target"].dtype} != {pl.Int64}:
        links = links.with_columns(pl.col("source", "target").cast(pl.String))
    links, loops = _set_aside(links, links["source"] != links["target"], "a link from a user to itself")
    first = links.select(pl.struct("source", "target").is_first_distinct()).to_series()
    links, twins = _set_aside(links, first, "a repeated link")
    report = table.report.without(loops, twins)
    if not links.height:
        raise TableError(f"{report.file} holds no usable link: {report}")
    return Graph.from_edges(links["source"], links["target"]), report


def _log(graph: Graph, table: Table) -> tuple[ActionLog, FileReport]:
    rows = IdIndex(graph.ids, lookups=table.frame.height).places(table.frame["user"])
    actions = table.frame.with_columns(pl.Series("row", rows))
    actions, strangers = _set_aside(actions, actions["row"] >= 0, "a user without a link")
    item_ids = id_array(actions["item"].unique().sort(), "item")
    numbers = IdIndex(item_ids, lookups=actions.height).places(actions["item"])
    actions = actions.with_columns(pl.Series("number", numbers)).sort("number", "time", "row", "line")
    pairs = actions["number"].cast(pl.Int64) * graph.n_nodes + actions["row"]
    actions, repeats = _set_aside(actions, pairs.is_first_distinct(), "a repeated user and item; the earliest is kept")
    log = ActionLog(actions["row"].to_numpy(), actions["number"].to_numpy(), actions["time"].to_numpy(), item_ids)
    return log, table.report.without(strangers, repeats)


def table_files(directory: Path, wanted: Sequence[str]) -> tuple[dict[str, Path | None], Path | None]:
    """The file of each table, whatever its form, None if there is none; and the one that says what the data set is.

    Upper and lower case are the same; of a file and the same one gzipped, the plain one counts.
    """
    paths = sorted(directory.iterdir(), reverse=True)
    files = {path.name.lower().removesuffix(".gz"): path for path in paths if path.is_file()}
    tables: dict[str, Path | None] = {}
    for table in wanted:
        names = [name + end for name in NAMES.get(table, (table,)) for end in _ENDS]
        present = [files[name] for name in names if name in files]
        if len(present) > 1:
            raise TableError(f"the directory holds both {present[0].name} and {present[1].name}. Leave one of them.")
        tables[table] = present[0] if present else None
    return tables, files.get(_META)


def read_dataset(directory: str | os.PathLike[str], *, name: str | None = None, strict: bool = False) -> Dataset:
    r"""Read a data set of plain files.

    Parameters
    ----------
    directory
        Holds ``edges`` (or ``followers``) and perhaps ``actions`` (or ``purchases``) as CSV, TSV (also gzipped), NDJSON
        or Parquet. Upper and lower case are the same.
    name
        What to call the data; by default what the data set says, or the directory's name.
    strict
        Raise `FileFormatError` at the first malformed row. By default malformed rows are left out, and the data set's
        report counts them.

    Examples
    --------
    >>> Path("mine").mkdir()
    >>> size = Path("mine/edges.csv").write_text("source,target\na,b\nb,c\n")
    >>> read_dataset("mine")
    Dataset('mine', 3 users, 2 edges, 0 items, 0 actions)
    """
    folder = check_path("directory", directory)
    tolerance = Tolerance.of(strict, 1.0)
    if not folder.is_dir():
        raise InputError(f"{shown_path(folder)} is not a directory. Pass the directory that holds {_FORM}.")
    label = folder.resolve().name if name is None else check_text("name", name)
    files, meta = table_files(folder, ("edges", "actions"))
    if files["edges"] is None:
        raise TableError(f"no data set in {shown_path(folder)}. A directory should hold {_FORM}.")
    return read_plain(files["edges"], files["actions"], meta, label, tolerance=tolerance)


def write_dataset(
    dataset: Dataset, directory: str | os.PathLike[str], *, form: Literal["parquet", "csv"] = "parquet"
) -> list[Path]:
    """Write ``edges``, ``actions`` (where there is a log) and ``dataset.json`` into a directory; return their paths.

    `read_dataset` gives the same data set back, with the same `checksum`.

    Users without any edge cannot be told by the plain form: `prepare` drops them. The directory is made if absent, and
    files of these names are replaced; ``edges`` or ``actions`` in the other form are an error. In CSV a text that looks
    like a formula has an apostrophe in front; ``dataset.json`` says so, and `read_dataset` takes it off again.

    Examples
    --------
    >>> from tensorucb.data import generate_dataset
    >>> paths = write_dataset(generate_dataset("sandbox", scale=0.05), "plain", form="csv")
    >>> sorted(path.name for path in paths)
    ['actions.csv', 'dataset.json', 'edges.csv']
    """
    check_choice("form", form, ("parquet", "csv"))
    graph, log = check_dataset(dataset).graph, dataset.log
    folder = check_path("directory", directory)
    isolated = int(((graph.out_degree + graph.in_degree) == 0).sum())
    if isolated:
        raise InputError(
            f"{isolated} users of {shown(dataset.name)} have no edge, and the plain form is a list of edges. "
            "Drop them first: prepare(dataset, min_interactions=0)."
        )
    frames = {"edges": pl.DataFrame({"source": graph.ids[graph.sources], "target": graph.ids[graph.targets]})}
    if log.n_actions:
        frames["actions"] = pl.DataFrame(
            {"user": graph.ids[log.users], "item": log.item_ids[log.items], "timestamp": log.times}
        )
    files = {folder / f"{stem}.{form}": frame for stem, frame in frames.items()}
    _check_folder(folder, set(files))
    for path, frame in files.items():
        with atomic_write(path) as file:
            if form == "parquet":
                frame.write_parquet(file)
            else:
                with_apostrophes(frame).write_csv(file)
    window = None if dataset.window_seconds is None else duration_text(dataset.window_seconds)
    about = {"name": dataset.name, "window": window, **({_GUARDED: True} if form == "csv" else {})}
    return [*files, write_bytes(folder / _META, json.dumps(about).encode() + b"\n")]


def _check_folder(folder: Path, ours: set[Path]) -> None:
    """Refuse a folder whose files would be read along with, or instead of, ours."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{shown_path(folder)} is a file, not a directory. Choose another name.")
    others = [folder / f"{stem}{end}" for stem in ("edges", "actions") for end in (".csv", ".csv.gz", ".parquet")]
    clash = [path.name for path in others if path not in ours and path.exists()]
    if clash:
        raise InputError(f"{shown_path(folder)} already holds {', '.join(clash)}. Choose an empty directory.")
