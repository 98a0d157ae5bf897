"""The tables that a team has: followers, purchases, products, users, strategies; as files or as frames.

The network and the log of actions are read by `tensorucb.data`; tables of products, users and strategies here. Every
reader says what it used and what it left out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.campaign._network import as_consent
from tensorucb.campaign._segments import UserColumns, texts_of
from tensorucb.checks import check_array, check_mapping, check_path, check_text, shown, shown_path
from tensorucb.errors import InputError, ShapeError, TableError, argument
from tensorucb.features import TableFeatures
from tensorucb.features._table import as_frame
from tensorucb.graph._ids import IdIndex
from tensorucb.reports import LENIENT, LeftOut, Tolerance

if TYPE_CHECKING:
    import polars as pl


NAMES = ("edges", "actions", "products", "users", "strategies")
"""The tables of a campaign."""

Columns = Mapping[str, Mapping[str, str]]

_FRAMES = ("DataFrame", "LazyFrame", "Table", "RecordBatch")


@dataclass(frozen=True, eq=False)
class Rows:
    """A table of products, users or strategies: ids, the columns that describe them, and by meaning the others.

    ``file`` is the file's name, or the table's; ``lines`` say what was read, and what was left out.
    """

    file: str
    ids: Sequence[int | str]
    table: pl.DataFrame
    meant: Mapping[str, pl.Series]
    lines: Sequence[str] = ()

    @property
    def came(self) -> bool:
        """Whether there is such a table at all."""
        return bool(self.file)

    @property
    def names(self) -> dict[int | str, str]:
        """Names by id, as people read them, of those that have one."""
        texts = texts_of(self.meant["name"].to_list()) if "name" in self.meant else []
        return {entry: text for entry, text in zip(self.ids, texts, strict=False) if text is not None}

    @property
    def user_columns(self) -> UserColumns | None:
        """What a table of users says to those who look: names, and columns to split by."""
        return UserColumns.of(len(self.ids), self.meant.get("name"), self.split_columns)

    @property
    def split_columns(self) -> list[pl.Series]:
        """The columns of users that may split them."""
        groups = [self.meant["group"]] if "group" in self.meant else []
        return [column for column in (*self.table.get_columns(), *groups) if not column.dtype.is_object()]

    def columns(self, *, consent: bool = True) -> dict[str, NDArray[Any]]:
        """Costs, groups, values and consent as far as the table has them, by argument of `create_campaign`.

        A column of consent is not even read if it is not wanted.
        """
        return {
            name: read(f"{self.file}: column {self.meant[meaning].name}", self.meant[meaning])
            for meaning, (name, read) in _COLUMNS.items()
            if meaning in self.meant and (consent or meaning != "consent")
        }

    def by_id(self, name: str) -> dict[int | str, float] | None:
        """The ``costs`` or ``values`` by id; None if the table has none."""
        numbers = self.columns().get(name)
        return None if numbers is None else dict(zip(self.ids, numbers.tolist(), strict=True))

    def take(self, ids: Sequence[int | str], places: I64) -> Rows:
        """The rows at some places, of these ids; cells are empty where a place is -1."""
        import polars as pl

        at = pl.Series(places).replace(-1, None)
        meant = {meaning: column.gather(at) for meaning, column in self.meant.items()}
        return replace(self, ids=ids, table=self.table.select(pl.all().gather(at)), meant=meant)


def no_rows() -> Rows:
    """What a table that nobody has says."""
    import polars as pl

    return Rows("", (), pl.DataFrame(), {})


def campaign_tables(
    data: Any, named: Mapping[str, Any], queries: Mapping[str, str] | None
) -> tuple[dict[str, Any], Path | None]:
    """The tables of a campaign by name: those that are ``named``, and the others of ``data``.

    ``data`` is a directory, a mapping of tables, the address of a database, or None. The path is that of the file in
    which a data set in a directory says what it is.
    """
    from tensorucb.campaign._databases import is_database, read_database
    from tensorucb.data._plain import table_files

    wanted = [name for name in NAMES if named[name] is None]
    held: dict[str, Any] = {}
    about = None
    looked = ""
    if queries is not None and not is_database(data):
        raise InputError("are for a database, and ", argument("data"), " names none.", argument="queries")
    if isinstance(data, Mapping):
        held = check_tables("data", data, "a mapping of tables")
    elif is_database(data):
        held = read_database(data, wanted, queries)
    elif data is not None:
        folder = check_path("data", data)
        if not folder.is_dir():
            raise InputError(f"must be a directory with an edge list; {shown_path(folder)} is none.", argument="data")
        held, about = table_files(folder, wanted)
        looked = f" in {shown_path(data)}"
    tables = {name: held.get(name) if table is None else table for name, table in named.items()}
    if tables["edges"] is None:
        raise InputError(
            "a campaign needs an edge list: a file edges.csv (or followers.csv; also .tsv, .ndjson, .parquet) with "
            f"the columns source and target{looked}, or ",
            argument("edges"),
            ".",
        )
    return tables, about


def check_tables(name: str, value: Any, wanted: str, known: Sequence[str] = NAMES) -> dict[str, Any]:
    """An argument by table, which must be one of those ``known``; None is nothing."""
    by_table = {} if value is None else check_mapping(name, value, wanted)
    strange = [table for table in by_table if table not in known]
    if strange:
        may = f"it may name {', '.join(known)}" if known else "no table is left to name"
        raise InputError(f"names the table {shown(strange[0])}; {may}.", argument=name)
    return by_table


def with_consent(columns: Any, consent: str | None) -> dict[str, dict[str, str]]:
    """Names of columns by table and meaning, checked, with the column of users that is consent."""
    from tensorucb.tables import TABLES, check_names

    named = {
        table: check_names(f"columns[{table!r}]", names, [field.name for field in TABLES[table]])
        for table, names in check_tables("columns", columns, "a mapping of tables").items()
    }
    if consent is not None:
        named["users"] = {**named.get("users", {}), "consent": check_text("consent", consent)}
    return named


def read_rows(
    source: Any,
    table: str,
    *,
    columns: Mapping[str, str] | None = None,
    usually: Mapping[str, str] | None = None,
    tolerance: Tolerance = LENIENT,
) -> Rows:
    """The rows of a table of products, users or strategies.

    ``columns`` and ``usually`` are names by meaning, as `tensorucb.tables.read` takes them. Ids of a text file are
    numbers if all of them are written as numbers: 007 is not how 7 is written.
    """
    import polars as pl

    from tensorucb.tables import TABLES, read

    key, *others = TABLES[table]
    contents = read(table, source, TABLES[table], columns=columns, usually=usually, part_of=table, others=True)
    frame = contents.frame
    first = frame[key.name].is_first_distinct()
    twice = frame.filter(~first)
    again = LeftOut.of_lines(
        f"a {key.name} that came before", twice["line"], malformed=True, example=twice[key.name].cast(str).__getitem__
    )
    report = contents.report.without(again)
    report.check(tolerance)
    frame = frame.filter(first)
    ids = frame[key.name].to_list()
    described = contents.others.filter(first) if contents.others.width else contents.others
    meant = {field.name: frame[field.name].alias(contents.names[field.name]) for field in others if field.name in frame}
    if table == "products" and "name" in meant:
        # Described by its name too, as in `rows_of_frame`.
        columns_by_name = {column.name: column for column in (*described.get_columns(), meant["name"])}
        described = pl.DataFrame([columns_by_name[name] for name in contents.columns if name in columns_by_name])
    return Rows(report.file, ids, described, meant, str(report).split("\n"))


def _numbers(name: str, column: pl.Series) -> F64:
    """A column of costs or of values; an empty cell counts as much as the average one."""
    numbers = column.to_numpy().astype(np.float64)
    there = np.isfinite(numbers)
    filled = np.where(there, numbers, numbers[there].mean() if there.any() else 0.0)
    return check_array(name, filled, (len(column),), low=0.0)


def _groups(name: str, column: pl.Series) -> NDArray[Any]:
    """A column of groups: whole numbers, or text; an empty cell is a group of its own, without a name."""
    if column.dtype.is_integer() and not column.null_count():
        return column.to_numpy()
    return np.array(["none" if label is None else str(label) for label in column.to_list()])


def _consent(name: str, column: pl.Series) -> NDArray[np.bool_]:
    """A column that says who consented; an empty cell is a no."""
    return as_consent(name, column.to_list())


_COLUMNS: dict[str, tuple[str, Callable[[str, pl.Series], NDArray[Any]]]] = {
    "cost": ("costs", _numbers),
    "group": ("groups", _groups),
    "value": ("values", _numbers),
    "consent": ("consent", _consent),
}
"""What a table may say of each row beside features: the argument of `create_campaign` for it, and its reader."""


def features_of_strategies(rows: Rows) -> tuple[F64, list[str]]:
    """Features of strategies and the columns they come from; without columns of numbers each is a kind of its own."""
    numeric = [name for name in rows.table.columns if rows.table[name].dtype.is_numeric()]
    features = rows.table.select(numeric).to_numpy().astype(np.float64) if numeric else np.eye(len(rows.ids))
    if not np.isfinite(features).all():
        raise TableError(f"{rows.file} has empty cells among its numbers. Fill them: they are a strategy's features.")
    return features, numeric


def columns_named(settings: Mapping[str, Any], table: str) -> dict[str, str]:
    """Names of columns by meaning with which a campaign was created, of those that are called otherwise."""
    names: dict[str, str] = settings.get("columns", {}).get(table, {})
    return names


def rows_of_frame(
    what: str, table: Any, ids: NDArray[Any], columns: Mapping[str, str], features: TableFeatures | None = None
) -> Rows:
    """A table of users or products that a caller hands over, with its rows in the order of ``ids``.

    The column that names them is called as ``what`` says (``user`` or ``product``), or ``id``; columns that
    ``features`` knows are none. Without it, rows are taken to be in this order, and there must be as many. ``columns``
    are names by meaning, of those called otherwise.
    """
    index = getattr(getattr(table, "index", None), "name", None)
    if index in (what, "id") and index not in table.columns:
        table = table.reset_index()  # the index of pandas, where it names the rows
    frame = as_frame(f"the table of {what}s", table)
    described = set() if features is None else {*(column.name for column in features.columns), *features.left_out}
    named = [name for name in (what, "id") if name in frame.columns and name not in described]
    if len(named) > 1:
        raise InputError(f"the table of {what}s has a column {what!r} and a column 'id'. Leave one of them out.")
    if named:
        frame = frame.drop(named)[order_of(what, frame[named[0]], ids)]
    elif frame.height != len(ids):
        raise ShapeError(
            f"the table of {what}s has {frame.height:,} rows for {len(ids):,} {what}s, and no column {what!r} or 'id' "
            "that names them. Add it, or give one row for each, in the order of the ids."
        )
    called = {meaning: columns.get(meaning, meaning) for meaning in ("name", "consent")}
    meant = {meaning: frame[name] for meaning, name in called.items() if name in frame.columns}
    # What a product is called says what it is; what a person is called does not.
    kept = frame if what == "product" else frame.drop(called.values(), strict=False)
    return Rows(f"the table of {what}s", ids.tolist(), kept, meant)


def places_of(known_ids: NDArray[Any], ids: Sequence[Any] | pl.Series) -> I64:
    """The place of each id among those that are known, -1 for others."""
    import polars as pl

    return IdIndex(known_ids).places(pl.Series(ids)).astype(np.int64)


def is_table(value: Any) -> bool:
    """Whether features came as a table of columns: polars, pandas or Arrow."""
    kind = type(value)
    return kind.__module__.split(".")[0] in ("polars", "pandas", "pyarrow") and kind.__name__ in _FRAMES


def ids_of(users: Any, columns: Mapping[str, str] | None = None) -> Any:
    """The ids in a table of users, which may be a file; whatever else comes is ids already."""
    from tensorucb.tables import has_table_suffix, listed_users

    is_file = isinstance(users, os.PathLike) or (isinstance(users, str) and has_table_suffix(users))
    return listed_users("users", users, columns) if is_file or is_table(users) else users


def order_of(what: str, column: pl.Series, ids: NDArray[Any]) -> I64:
    """For each of ``ids`` the row of a column that names it."""
    places = places_of(ids, column)
    counts = np.bincount(places[places >= 0], minlength=len(ids))
    strange = np.flatnonzero(places < 0)
    twice = np.flatnonzero(counts > 1)
    missing = np.flatnonzero(counts == 0)
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
    kinds_by_table = check_tables("kinds", kinds, "a mapping of tables to kinds of columns", ("products", "users"))
    for table, named in kinds_by_table.items():
        check_mapping(f"kinds[{table!r}]", named, "a mapping of columns to kinds")
    return kinds_by_table
