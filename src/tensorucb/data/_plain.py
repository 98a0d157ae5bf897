"""The plain form: ``edges`` and ``actions`` as CSV or TSV (also gzipped) with a header, NDJSON or Parquet.

A column is found by its meaning: the name that the caller gave for it, the meaning itself, or another usual name.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import polars as pl

from tensorucb.checks import check_choice, check_path, check_text, shown, shown_path
from tensorucb.data._assemble import assemble
from tensorucb.data._dataset import Dataset, check_dataset
from tensorucb.data._report import FileReport, LeftOut, refuse
from tensorucb.data._text import Table, first_line, iso_seconds, read_text
from tensorucb.errors import FileFormatError, InputError, argument
from tensorucb.files import FORMULA, atomic_write
from tensorucb.moments import duration, duration_text
from tensorucb.tables import TEXT, between_fields, read_table, suffix_of
from tensorucb.tables import guarded as with_apostrophes

META = "dataset.json"
_GUARDED = "formulas_guarded"
_LINKS = {"source": "id", "target": "id"}
_ACTIONS = {"user": "id", "item": "id", "time": "time"}
# Other usual names of a column, tried if there is none of its own name.
_USUAL = {"time": ("timestamp",), "item": ("product",), "product": ("item", "id"), "user": ("id",), "strategy": ("id",)}


def find_columns(
    file: str, header: Sequence[str], wanted: Sequence[str], given: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The column of each meaning; ``given`` are names by meaning that the caller told."""
    names = given or {}
    tried = {
        meaning: (names[meaning],) if meaning in names else (meaning, *_USUAL.get(meaning, ())) for meaning in wanted
    }
    found = {meaning: next((name for name in tried[meaning] if name in header), None) for meaning in wanted}
    missing = [" or ".join(tried[meaning]) for meaning in wanted if found[meaning] is None]
    if missing and not header:
        raise FileFormatError(f"{file} is empty: there is not even a line with the names of columns.")
    if missing:
        lost = next(meaning for meaning in wanted if found[meaning] is None)
        raise FileFormatError(
            f"{file} has no column {', no column '.join(missing)}; its columns are "
            f"{shown(', '.join(header), 200)[1:-1]}. Name the columns so, or say in ",
            argument("columns"),
            f" which one is the {lost}.",
        )
    doubled = [name for name in found.values() if list(header).count(str(name)) > 1]
    if doubled:
        raise FileFormatError(f"{file} has the column {doubled[0]} more than once. Leave one.")
    shared = [meaning for meaning in wanted if list(found.values()).count(found[meaning]) > 1]
    if shared:
        raise FileFormatError(
            f"{file}: the column {found[shared[0]]} cannot be the {' and the '.join(shared)} at once.",
            advice=("Name another one in ", argument("columns"), "."),
        )
    return {meaning: str(name) for meaning, name in found.items()}


def header_of(path: Path) -> list[str]:
    """The names in the first line of a text file."""
    line = first_line(path)
    return next(csv.reader([line], delimiter=between_fields(suffix_of(path), line)), [])


def _cells(frame: pl.DataFrame, name: str, kind: str, file: str) -> pl.Expr:
    """One column of a typed file as whole numbers, text, or seconds; null where a cell has no such value."""
    dtype, cell = frame[name].dtype, pl.col(name)
    if dtype.is_integer():
        return cell.cast(pl.String) if kind == "text" else cell.cast(pl.Int64, strict=False)
    words = dtype in (pl.String, pl.Categorical, pl.Enum)
    if kind == "time":
        if dtype in (pl.Date, pl.Datetime):
            return cell.cast(pl.Datetime("us")).dt.epoch("us") / 1e6
        if dtype.is_float():
            return pl.when(cell.is_finite()).then(cell.cast(pl.Float64))
        if words:
            return cell.cast(pl.String).map_batches(iso_seconds, pl.String).cast(pl.Float64)
    elif words:
        text = cell.cast(pl.String)
        return pl.when(text != "").then(text)
    wanted = "times must be numbers or dates" if kind == "time" else "ids must be whole numbers or text"
    raise FileFormatError(f"{file}: column {name} has type {dtype}; {wanted}.")


def _read_typed(path: Path, kinds: Mapping[str, str], given: Mapping[str, str], strict: bool) -> Table:
    """A Parquet or NDJSON file."""
    raw = read_table(path)
    names = find_columns(path.name, raw.columns, list(kinds), given)
    if not raw.height:
        raise FileFormatError(f"{path.name} holds no rows. Check that it was fetched or written in full.")
    frame = raw.select(_cells(raw, names[meaning], kind, path.name).alias(meaning) for meaning, kind in kinds.items())
    frame = frame.with_row_index("line", 1).with_columns(pl.col("line").cast(pl.Int64))
    left_out = []
    for meaning, name in names.items():
        lines = frame["line"].filter(frame[meaning].is_null())
        frame = frame.filter(pl.col(meaning).is_not_null())
        if len(lines):
            if strict:
                refuse(path.name, f"{name} is empty", lines[0])
            left_out.append(LeftOut.of_lines(f"{name} is empty", lines, malformed=True))
    ignored = tuple(name for name in raw.columns if name not in names.values())
    return Table(frame, FileReport(path.name, raw.height, frame.height, tuple(left_out), ignored))


def _beside(name: str) -> str:
    return f"column {name}" if name in ("line", "text", "reason") else name


def _read(path: Path, kinds: Mapping[str, str], given: Mapping[str, str], strict: bool, guarded: bool) -> Table:
    """The columns of these meanings and kinds."""
    suffix = suffix_of(path)
    if suffix not in TEXT:
        return _read_typed(path, kinds, given, strict)
    between = between_fields(suffix, first_line(path))
    header = [name.strip() for name in header_of(path)]
    names = find_columns(path.name, header, list(kinds), given)
    # The reader has columns of its own beside those of the file.
    header, names = [_beside(name) for name in header], {meaning: _beside(name) for meaning, name in names.items()}
    own = {names[meaning]: kind for meaning, kind in kinds.items()}
    frame, report = read_text(path, header, own, separator=between, header=True, strict=strict)
    frame = frame.rename({name: meaning for meaning, name in names.items()})
    if guarded:
        frame = frame.with_columns(pl.col(pl.String).str.replace(f"^'{FORMULA[1:]}", "$1"))
    return Table(frame, report)


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
        raise FileFormatError(
            f"{shown_path(path.name)} is not readable: {shown(str(error).rstrip('.'), 120)[1:-1]}. "
            'It should hold {"name": text, "window": "7d" or null}. Mend or delete it.'
        ) from error


def read_links(
    edges: Path, given: Mapping[str, str], id_type: str, *, strict: bool = False, guarded: bool = False
) -> Table:
    """Edges with ids of users as ``id_type`` says; ``given`` are names of columns by meaning."""
    user = "text" if check_choice("id_type", id_type, ("auto", "int", "str")) == "str" else "id"
    links = _read(edges, dict.fromkeys(_LINKS, user), given, strict, guarded)
    if id_type == "int" and pl.String in links.frame.schema.values():
        raise FileFormatError(f"{edges.name} holds ids of users that are not whole numbers, but these are wanted.")
    return links


def read_plain(
    edges: Path,
    actions: Path | None,
    meta: Path | None,
    name: str,
    *,
    strict: bool = False,
    columns: Mapping[str, Mapping[str, str]] | None = None,
    id_type: str = "auto",
) -> Dataset:
    """A data set in the plain form; ``name`` counts where ``meta`` does not say.

    ``columns`` are names by meaning, for ``edges`` and ``actions``; ``id_type`` says what ids of users are.
    """
    told, window, guarded = _meta(meta)
    named = columns or {}
    links = read_links(edges, named.get("edges", {}), id_type, strict=strict, guarded=guarded)
    if actions is None:
        return assemble(told or name, links, None, window=window)
    user = "text" if id_type == "str" else "id"
    acted = _read(actions, {**_ACTIONS, "user": user}, named.get("actions", {}), strict, guarded)
    return assemble(told or name, links, acted, window=window)


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
    with atomic_write(folder / META) as file:
        file.write(json.dumps(about).encode() + b"\n")
    return [*files, folder / META]


def _check_folder(folder: Path, ours: set[Path]) -> None:
    """Refuse a folder whose files would be read along with, or instead of, ours."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{shown_path(folder)} is a file, not a directory. Choose another name.")
    others = [folder / f"{stem}{end}" for stem in ("edges", "actions") for end in (".csv", ".csv.gz", ".parquet")]
    clash = [path.name for path in others if path not in ours and path.exists()]
    if clash:
        raise InputError(f"{shown_path(folder)} already holds {', '.join(clash)}. Choose an empty directory.")
