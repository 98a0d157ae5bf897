"""The files that a team has, found by name and read: followers, purchases, products, users, strategies.

The network and the log of actions are read by `tensorucb.data`; tables of products, users and strategies here. Every
reader says what it used and what it left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.checks import check_array, check_mapping, check_path, check_text, shown, shown_path
from tensorucb.errors import FileFormatError, InputError, ShapeError, argument
from tensorucb.features import TableFeatures
from tensorucb.features._cells import as_frame
from tensorucb.graph._ids import WHOLE, IdIndex
from tensorucb.tables import TEXT, read_table, suffix_of

if TYPE_CHECKING:
    import polars as pl

    from tensorucb.data import Dataset

MEANINGS = {
    "edges": ("source", "target"),
    "actions": ("user", "item", "time"),
    "products": ("product",),
    "users": ("user", "cost", "group"),
    "strategies": ("strategy", "cost"),
}
"""The tables of a campaign, and what their columns can mean; those of products and users that mean nothing of these
describe them."""

Columns = Mapping[str, Mapping[str, str]]

_TABLES = ("DataFrame", "LazyFrame", "Table", "RecordBatch")


@dataclass(frozen=True, eq=False)
class Rows:
    """A table of products, users or strategies: ids, the columns that describe them, costs and groups."""

    ids: list[int | str]
    table: pl.DataFrame
    cost: pl.Series | None = None
    group: pl.Series | None = None


class Files:
    """The files of a campaign by table, and the names of their columns.

    ``directory`` is looked through for those that are not ``named``; ``columns`` are names by table and meaning.
    """

    def __init__(self, directory: Any, named: Mapping[str, Any], columns: Any, id_type: str) -> None:
        from tensorucb.data._read import ACTIONS, EDGES, files_of, plain_file

        self._folder = None if directory is None else check_path("data", directory)
        if self._folder is not None and not self._folder.is_dir():
            raise InputError(
                f"must be a directory with an edge list; {shown_path(self._folder)} is none.", argument="data"
            )
        self._present = {} if self._folder is None else files_of(self._folder)
        self._columns, self._id_type = check_columns(columns), id_type
        self._whole = named["edges"] is None and named["actions"] is None
        stems = {"edges": EDGES, "actions": ACTIONS}
        self._paths: dict[str, Path | None] = {}
        for table, path in named.items():
            in_folder = () if path is not None else stems.get(table, (table,))
            self._paths[table] = plain_file(self._present, *in_folder) if path is None else check_path(table, path)

    def dataset(self) -> Dataset:
        """The network and the log of actions."""
        from tensorucb.data._plain import META, read_plain
        from tensorucb.data._read import read_original

        found = read_original(self._present, "data") if self._whole else None
        if found is not None:
            return found
        edges = self._paths["edges"]
        if edges is None:
            raise InputError(
                "a campaign needs an edge list: a file edges.csv (or followers.csv; also .tsv, .ndjson, .parquet) with "
                f"the columns source and target{self._looked()}, or ",
                argument("edges"),
                ".",
            )
        meta = self._present.get(META)
        return read_plain(edges, self._paths["actions"], meta, "data", columns=self._columns, id_type=self._id_type)

    def _looked(self) -> str:
        return "" if self._folder is None else f" in {shown_path(self._folder)}"

    def rows(self, table: str, *, text_ids: bool = True) -> Rows | None:
        """A table of products, users or strategies; None if there is none."""
        path = self._paths[table]
        return None if path is None else read_rows(path, table, self._columns.get(table, {}), text_ids=text_ids)

    def name(self, table: str) -> str:
        """The file's name."""
        path = self._paths[table]
        return "" if path is None else path.name


def check_columns(columns: Any) -> dict[str, dict[str, str]]:
    """Names of columns by table and meaning, checked."""
    found: dict[str, dict[str, str]] = {}
    for table, names in ({} if columns is None else check_mapping("columns", columns, "a mapping of tables")).items():
        if table not in MEANINGS:
            raise InputError(f"names the table {shown(table)}; there are {', '.join(MEANINGS)}.", argument="columns")
        found[table] = check_mapping(f"columns[{table!r}]", names, "a mapping of meanings to names of columns")
        for meaning, name in found[table].items():
            if meaning not in MEANINGS[table]:
                raise InputError(
                    f"of {table} gives a name to {shown(meaning)}; it may do so for "
                    f"{', '.join(MEANINGS[table])}. Other columns describe the rows and need no meaning.",
                    argument="columns",
                )
            check_text(f"columns[{table!r}][{meaning!r}]", name)
    return found


def read_rows(path: Path, table: str, columns: Mapping[str, str], *, text_ids: bool = True) -> Rows:
    """The rows of a file of products, users or strategies.

    ``columns`` are names by meaning. Ids of a text file are numbers if all of them are written as numbers: 007 is not
    how 7 is written. Without ``text_ids`` they are what the file's reader makes of them.
    """
    import polars as pl

    from tensorucb.data._plain import find_columns, header_of

    key, *others = MEANINGS[table]
    text = suffix_of(path) in TEXT
    frame = None if text else read_table(path)
    header = header_of(path) if frame is None else frame.columns
    wanted = [key, *(name for name in others if name in columns or name in header)]
    names = find_columns(path.name, header, wanted, columns)
    if frame is None:
        frame = read_table(path, types={names[key]: pl.String} if text_ids else None)
    column = frame[names[key]]
    empty = column.is_null() if column.dtype != pl.String else (column.is_null() | (column == ""))
    if empty.any():
        raise FileFormatError(
            f"{path.name} has no {key} in {int(empty.sum()):,} rows, the first of them row "
            f"{1 + (empty.arg_max() or 0)} (counted from 1, without the header). Remove these rows, or give each an id."
        )
    twice = column.filter(column.is_duplicated())
    if len(twice):
        raise FileFormatError(f"{path.name} names the {key} {shown(twice[0])} more than once. Leave one row for each.")
    ids = column.to_list()
    if text and text_ids and all(re.fullmatch(WHOLE, value) for value in ids):
        ids = [int(value) for value in ids]
    return Rows(
        ids,
        frame.drop(list(names.values())),
        frame[names["cost"]] if "cost" in names else None,
        frame[names["group"]] if "group" in names else None,
    )


def costs_of(file: str, column: pl.Series) -> F64:
    """A column of costs; an empty cell costs as much as the average one."""
    if not column.dtype.is_numeric():
        raise FileFormatError(
            f"{file}: column {column.name} must hold costs as numbers; it holds text such as "
            f"{shown(next(iter(column.drop_nulls().to_list()), ''))}."
        )
    known = column.drop_nulls()
    filled = column.cast(float).fill_null(float(known.cast(float).mean() or 0.0) if len(known) else 0.0)  # type: ignore[arg-type]
    return check_array(f"{file}: column {column.name}", filled.to_numpy(), (len(column),), low=0.0)


def groups_of(column: pl.Series) -> NDArray[Any]:
    """A column of groups: whole numbers, or text; an empty cell is a group of its own, without a name."""
    if column.dtype.is_integer() and not column.null_count():
        return column.to_numpy()
    return np.array(["none" if label is None else str(label) for label in column.to_list()])


def places_of(known: NDArray[Any], ids: Sequence[Any] | pl.Series) -> I64:
    """The place of each id among those that are known, -1 for others."""
    import polars as pl

    column = pl.Series(ids)
    if known.dtype.kind == "U":
        return IdIndex(known).rows(column.cast(pl.String).fill_null("")).astype(np.int64)
    numbers = column.cast(pl.Int64, strict=False)
    # 07 and 7.5 are no other way to write 7.
    same = numbers.cast(column.dtype, strict=False).eq_missing(column) & numbers.is_not_null()
    places = IdIndex(known).rows(numbers.fill_null(0).to_numpy()).astype(np.int64)
    return np.where(same.to_numpy(), places, -1)


def is_table(value: Any) -> bool:
    """Whether features came as a table of columns: polars, pandas or Arrow."""
    kind = type(value)
    return kind.__module__.split(".")[0] in ("polars", "pandas", "pyarrow") and kind.__name__ in _TABLES


def in_order(what: str, table: Any, ids: NDArray[Any], features: TableFeatures | None = None) -> pl.DataFrame:
    """The rows of a table of users or products in the order of ``ids``, without the column that names them.

    That column is called as ``what`` says (``user`` or ``product``), or ``id``; columns that ``features`` knows are
    none. Without it, rows are taken to be in this order, and there must be as many.
    """
    index = getattr(getattr(table, "index", None), "name", None)  # of pandas
    if index in (what, "id") and index not in table.columns:
        table = table.reset_index()
    frame = as_frame(f"the table of {what}s", table)
    described = set() if features is None else {*(column.name for column in features.columns), *features.left_out}
    named = [name for name in (what, "id") if name in frame.columns and name not in described]
    if len(named) > 1:
        raise InputError(f"the table of {what}s has a column {what!r} and a column 'id'. Leave one of them out.")
    if named:
        return frame.drop(named)[order_of(what, frame[named[0]], ids)]
    if frame.height != len(ids):
        raise ShapeError(
            f"the table of {what}s has {frame.height:,} rows for {len(ids):,} {what}s, and no column {what!r} or 'id' "
            "that names them. Add it, or give one row for each, in the order of the ids."
        )
    return frame


def order_of(what: str, column: pl.Series, ids: NDArray[Any]) -> I64:
    """For each of ``ids`` the row of a column that names it."""
    places = places_of(ids, column)
    counts = np.bincount(places[places >= 0], minlength=len(ids))
    strange, twice, missing = np.flatnonzero(places < 0), np.flatnonzero(counts > 1), np.flatnonzero(counts == 0)
    wrong = []
    if strange.size:
        row = int(strange[0])
        wrong.append(f"{strange.size:,} rows name none of them (the first is row {row + 1}, {shown(column[row])})")
    if twice.size:
        wrong.append(f"{twice.size:,} of them come more than once (such as {shown(ids[twice[0]].item())})")
    if missing.size:
        wrong.append(f"{missing.size:,} of them are missing (such as {shown(ids[missing[0]].item())})")
    if wrong:
        raise InputError(
            f"the column {column.name!r} must name each of the {len(ids):,} {what}s once: {', '.join(wrong)}. "
            "Correct the table."
        )
    return np.argsort(places)


def check_kinds(kinds: Any) -> dict[str, Mapping[str, str]]:
    """Kinds of columns by table, checked as far as the tables are not needed for it."""
    found = {} if kinds is None else check_mapping("kinds", kinds, "a mapping of tables to kinds of columns")
    for table, named in found.items():
        if table not in ("products", "users"):
            raise InputError(
                f"names the table {shown(table)}; only products and users have columns with kinds.", argument="kinds"
            )
        check_mapping(f"kinds[{table!r}]", named, "a mapping of columns to kinds")
    return found
