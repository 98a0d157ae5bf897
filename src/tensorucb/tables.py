"""Tables at the door: whatever comes in becomes one polars frame with checked columns.

A table is a file (CSV or TSV, also gzipped; NDJSON; Parquet), a polars, pandas or Arrow frame, a mapping of columns, or
a list of mappings. `TABLES` says which columns the tables of this package have. `read` finds them, checks every cell,
and leaves out the rows that do not fit; its report counts these by reason and names their lines. All that comes after
sees arrays of one length.

To add a column, add a `Field` to its table, and take it from the frame where it is used.
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tensorucb._cells import How, guess, parse, within_years
from tensorucb._delimited import (
    FAULT,
    LINE,
    LINES,
    PARQUET,
    TEXT,
    VALUE,
    Source,
    between_fields,
    file_errors,
    first_line,
    is_kept,
    kept_source,
    suffix_of,
    text_source,
)
from tensorucb._json_rows import JsonRows, json_frame, rows_of_file
from tensorucb.checks import (
    array_of,
    check_mapping,
    check_path,
    check_text,
    plain,
    refusal,
    shown,
    shown_path,
    unstorable,
)
from tensorucb.errors import InputError, Mention, ShapeError, TableError, TensorUCBError, argument
from tensorucb.files import FORMULA
from tensorucb.memory import check_memory
from tensorucb.reports import STRICT, FileReport, LeftOut

_stderr = threading.Lock()
_NUMPY = {np.dtype(code).type for code in "?bhilqBHILQefdU"}  # a list of one of these is an array
_PATTERN = re.compile(r"\*|\^.*\$", re.DOTALL)  # what polars takes for the names of several columns


# -- what tables have --


class Field(NamedTuple):
    """A column of a table by its meaning: what its cells hold, and how such a column is usually called.

    ``kind`` is one of ``id`` (whole number or text), ``text``, ``label`` (an id, as text), ``flag``,
    ``number``, ``time`` or ``any``. Cells of an ``optional`` column may be empty, and it may be missing.
    """

    name: str
    kind: str
    usual: tuple[str, ...] = ()
    optional: bool = False


_PEOPLE = ("user_id", "userid", "customer", "customer_id", "member", "member_id")
_ITEMS = ("item", "product", "item_id", "product_id", "sku")
_TIMES = ("timestamp", "datetime", "date")
_SOURCES = ("influencer", "followee", "from", "source_id")
_TARGETS = ("follower", "to", "influenced", "target_id")

TABLES: dict[str, tuple[Field, ...]] = {
    "edges": (Field("source", "id", _SOURCES), Field("target", "id", _TARGETS)),
    "actions": (Field("user", "id", _PEOPLE), Field("item", "id", _ITEMS), Field("time", "time", _TIMES)),
    "products": (
        Field("product", "id", (*_ITEMS, "id")),
        Field("value", "number", optional=True),
        Field("name", "any", optional=True),
    ),
    "users": (
        Field("user", "id", (*_PEOPLE, "id")),
        Field("cost", "number", optional=True),
        Field("group", "any", optional=True),
        Field("value", "number", optional=True),
        Field("consent", "any", optional=True),
        Field("name", "any", optional=True),
    ),
    "strategies": (
        Field("strategy", "id", ("id",)),
        Field("cost", "number", optional=True),
        Field("name", "any", optional=True),
    ),
    "responses": (
        Field("source", "id", _SOURCES, optional=True),
        Field("target", "id", _TARGETS, optional=True),
        Field("outcome", "flag", optional=True),
        Field("user", "id", _PEOPLE, optional=True),
        Field("time", "time", _TIMES, optional=True),
        Field("event_id", "label", optional=True),
        Field("amount", "number", optional=True),
        Field("product", "label", _ITEMS, optional=True),
        Field("strategy", "label", optional=True),
        Field("round", "label", optional=True),
    ),
}
"""The tables of this package and their columns. Columns without a meaning describe products and users; elsewhere they
are ignored."""


class Table(NamedTuple):
    """The sound rows and the report.

    ``frame`` has a column ``line`` and one for each field that came; beside a time, ``until`` is the
    end of the day if it is a date alone, and otherwise the same. ``others`` has the columns without a meaning.
    ``names`` are those of the columns by meaning, ``columns`` those of all that came. ``text`` says whether ids came
    from a file of text, where a number is not told from how it is written.
    """

    frame: pl.DataFrame
    report: FileReport
    others: pl.DataFrame
    names: dict[str, str]
    columns: list[str]
    text: bool


# -- reading --


def read(
    name: str,
    source: Any,
    fields: Sequence[Field],
    *,
    columns: Mapping[str, str] | None = None,
    usually: Mapping[str, str] | None = None,
    part_of: str | None = None,
    header: Sequence[str] | None = None,
    separator: str | None = None,
    others: bool = False,
    zone: str = "UTC",
) -> Table:
    """The columns of a table by meaning, with every cell checked.

    Parameters
    ----------
    name
        What errors call the table, if it is no file.
    source
        A file's path, a frame, a mapping of columns or a list of mappings.
    columns, usually
        Names of columns by meaning: those that the caller gives now, which must be there, and those that were given
        before, which count if they are there.
    part_of
        The table's name in the argument ``columns``, if that holds several tables; "" if there is no such argument.
    header, separator
        The names of the columns of a text file that does not name them itself; and what stands between them, if not the
        suffix's own.
    others
        Whether columns without a meaning are kept, with numbers where all cells are numbers.
    zone
        The time zone of dates, and of times that name none.
    """
    came = source_of(name, source, header, separator)
    error = TableError if isinstance(source, str | os.PathLike) else InputError
    names = find_columns(came.origin, came.columns, fields, columns, usually, part_of, error)
    patterns = [column for column in (came.columns if others else names.values()) if _PATTERN.fullmatch(column)]
    if patterns:
        raise error(f"{came.origin} has a column {shown(patterns[0])}, which would be read as a pattern. Rename it.")
    how = How(came.text, zone)
    kept = []
    rest = []
    faults = []
    n_rows = 0
    wanted = [(field, names[field.name]) for field in fields if field.name in names]
    pieces = came.pieces(None if others else list(names.values()))
    if any(field.kind in ("number", "any") for field, _ in wanted):
        # One cell tells how all of the column are read: whether a comma is a decimal one, what is a gap among numbers.
        pieces = iter([pl.concat(pieces)])
    for piece in pieces:
        n_rows += piece.height
        parsed, fault, value = parse(piece, wanted, how)
        if fault.null_count() < piece.height:
            sound = fault.is_null()
            faults.append(pl.DataFrame([fault, piece[LINE], value]).filter(~sound))
            parsed = parsed.filter(sound)
            piece = piece.filter(sound)
        kept.append(parsed)
        if others:
            rest.append(piece.drop(LINE, FAULT, VALUE, *names.values()))
    # Relaxed: a column that is whole numbers in one piece and text or floats in another becomes the latter.
    frame = pl.concat(kept, how="vertical_relaxed")
    by_reason = pl.concat(faults).group_by(FAULT, maintain_order=True) if faults else ()
    left_out = tuple(
        LeftOut.of_lines(str(reason), group[LINE], malformed=True, example=group[VALUE].__getitem__)
        for (reason,), group in by_reason
    )
    ignored = () if others else tuple(column for column in came.columns if column not in names.values())
    beside = pl.concat(rest) if rest else pl.DataFrame()
    if came.text:
        beside = beside.select(guess(beside[column], how) for column in beside.columns)
    remarks = (*came.remarks, *how.remarks.values())
    report = FileReport(came.origin, n_rows, frame.height, left_out, ignored, remarks)
    return Table(frame, report, beside, names, came.columns, came.written)


def first_rows(name: str, source: Any, most: int) -> pl.DataFrame:
    """The first rows of a table, with all its columns, before anything is checked or left out."""
    rows = pl.DataFrame()
    for piece in source_of(name, source).pieces(None):
        rows = pl.concat([rows, piece.head(most - rows.height)]) if rows.width else piece.head(most)
        if rows.height >= most:
            break
    return rows.drop(LINE, FAULT, VALUE)


def listed_users(name: str, source: Any, columns: Mapping[str, str] | None = None) -> list[str]:
    """The users of a table, as texts; a row that names nobody is refused, since it may be somebody who said no.

    ``columns`` are names by meaning that were given before. A text file of one column needs no header.
    """
    user = TABLES["users"][0]._replace(kind="text")
    header = None
    if is_text(source):
        head = first_line(Path(source))
        if between_fields(suffix_of(Path(source)), head) not in head:
            optional = user._replace(optional=True)
            header = None if find_columns("", [head.strip()], [optional], usually=columns) else [user.name]
    table = read(name, source, [user], usually=columns, part_of="", header=header)
    table.report.check(STRICT)
    return [str(value) for value in table.frame[user.name].to_list()]


def is_text(source: Any) -> bool:
    """Whether a table is a file of delimited text."""
    return isinstance(source, str | os.PathLike) and suffix_of(check_path("path", source)) in TEXT


def source_of(name: str, source: Any, header: Sequence[str] | None = None, separator: str | None = None) -> Source:
    """Where the cells of a table come from; ``name`` is what errors call it if it is no file."""
    if isinstance(source, Path) and is_kept(source):
        return kept_source(source)
    if is_text(source):
        return text_source(Path(source), header, separator)
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if suffix_of(path) == PARQUET:
            # Of many columns only those that are needed take memory.
            with file_errors(path, PARQUET), panics_kept_quiet():
                columns = pl.scan_parquet(path, glob=False).collect_schema().names()
            return Source(path.name, columns, lambda wanted: _numbered(path.name, read_parquet(path, wanted)))
        source = rows_of_file(path)
    frame = as_frame(name, source)
    came = isinstance(source, JsonRows)
    origin = source.origin if came else name

    def pieces(wanted: list[str] | None) -> Iterator[pl.DataFrame]:
        return _numbered(origin, frame if wanted is None else frame[wanted])

    return Source(origin, frame.columns, pieces, written=came and source.written)


def _numbered(origin: str, frame: pl.DataFrame) -> Iterator[pl.DataFrame]:
    strange = next((column for column in frame.columns if unstorable(column)), None)
    if strange is not None:
        raise TableError(f"{origin or 'the table'} has a column {shown(strange)}: {unstorable(strange)}. Rename it.")
    lines = pl.Series(LINE, np.arange(1, frame.height + 1))
    nothing = [pl.Series(name, [None], dtype=pl.String).new_from_index(0, frame.height) for name in (FAULT, VALUE)]
    # By name: in a list polars gives a column without a name another one, which may be there already.
    yield pl.DataFrame({column.name: column for column in (*map(within_years, frame.get_columns()), lines, *nothing)})


def as_frame(name: str, source: Any) -> pl.DataFrame:
    """Any table as a polars frame; a text file's columns are numbers where all cells are, and all its rows must fit."""
    if isinstance(source, str | os.PathLike):
        table = read(name, check_path(name, source), (), others=True)
        table.report.check(STRICT)
        return table.others
    if isinstance(source, JsonRows):
        return json_frame(source)
    if isinstance(source, list | tuple):
        return _from_records(name, source)
    try:
        if isinstance(source, pl.LazyFrame):
            source = source.collect()
        elif not _is_pandas(source) and hasattr(source, "__arrow_c_stream__"):
            source = pl.DataFrame(source)
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
        raise InputError(f"cannot be read as a table ({shown(str(error))[1:-1]}).", argument=name) from error
    if isinstance(source, pl.DataFrame):
        return source
    if _is_pandas(source):
        return _frame_of(name, source.items())
    if isinstance(source, Mapping):
        return _from_columns(name, check_mapping(name, source, "a mapping of columns"))
    raise refusal(
        name, "a frame, a mapping, a list of mappings, or the path of a .csv, .ndjson or .parquet file", source
    )


def _is_pandas(source: Any) -> bool:
    return type(source).__module__.split(".")[0] == "pandas" and hasattr(source, "columns")


def _from_records(name: str, records: Sequence[Any]) -> pl.DataFrame:
    for row, record in enumerate(records, 1):
        if not isinstance(record, Mapping):
            raise InputError(f"must be rows such as {{'source': …}}; row {row} is {shown(record)}.", argument=name)
    labels = dict.fromkeys(label for record in records for label in record)
    return _frame_of(name, ((label, [record.get(label) for record in records]) for label in labels))


def _from_columns(name: str, columns: Mapping[Any, Any]) -> pl.DataFrame:
    held = {label: plain(values) for label, values in columns.items()}
    lengths = {str(label): len(values) for label, values in held.items() if _is_column(values)}
    single = [str(label) for label in held if str(label) not in lengths]
    if not lengths:
        return _frame_of(name, ((label, [value]) for label, value in held.items()))
    if single or len(set(lengths.values())) > 1:
        raise InputError(f"the columns of {name} must be of one length; got {lengths}, and {single} as single ones.")
    return _frame_of(name, held.items())


def _frame_of(name: str, columns: Iterable[tuple[Any, Any]]) -> pl.DataFrame:
    series: dict[str, pl.Series] = {}
    for label, values in columns:
        if unstorable(str(label)):
            raise InputError(f"has a column {shown(label)}: {unstorable(str(label))}. Rename it.", argument=name)
        if str(label) in series:
            raise InputError(f"has several columns {shown(str(label))}. Leave one, or rename them.", argument=name)
        series[str(label)] = as_column(str(label), values)
    return pl.DataFrame(series)


def _is_column(value: Any) -> bool:
    try:
        return not isinstance(value, str | bytes) and len(value) >= 0
    except TypeError:  # also sparse matrices, which have the method but no length
        return False


def as_column(label: str, values: Any) -> pl.Series:
    """A column of any library; what polars has no type for stays Python's objects, which are read one by one."""
    if isinstance(values, pl.Series):
        return values.alias(label)
    library = type(values).__module__.split(".")[0]
    if library != "pandas" and (hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__")):
        try:
            return pl.Series(label, values)
        except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
            raise InputError(f"the column {label!r} cannot be read ({shown(str(error))[1:-1]}).") from error
    if not isinstance(values, list | tuple):
        array = array_of(label, values, "a column")
        if array.ndim != 1:
            raise ShapeError(f"must be a column; got shape {array.shape}.", argument=label)
        if array.dtype.kind == "f":
            with np.errstate(over="ignore"):
                return pl.Series(label, array.astype(np.float64))
        if array.dtype.kind in "iub":
            return pl.Series(label, array)
        if array.dtype.kind == "M" and (unit := np.datetime_data(array.dtype)[0]) != "generic":
            exact = "D" if unit in "YMWD" else "ns" if unit in ("ns", "ps", "fs", "as") else "us"
            return pl.Series(label, array.astype(f"datetime64[{exact}]"))
        values = array.tolist()
    kinds = set(map(type, values))
    if len(kinds) == 1 and kinds <= _NUMPY:
        return as_column(label, np.array(values))
    kinds -= {type(None)}
    if kinds == {list}:  # of plain values: polars never comes to the end of lists that are nested deeply
        kinds = {type(cell) for value in values for cell in value or ()} - {type(None)}
    if len(kinds) <= 1 and kinds <= {int, float, str, bool, date, datetime}:
        with suppress(pl.exceptions.PolarsError, TypeError, ValueError, OverflowError):
            return pl.Series(label, values, strict=True)
    return pl.Series(label, values, dtype=pl.Object)


# -- which column is which --


def check_names(name: str, columns: Any, meanings: Sequence[str]) -> dict[str, str]:
    """Names of columns by meaning, as a caller gives them; a product may be called an item, and the other way round."""
    mapping = {} if columns is None else check_mapping(name, columns, "a mapping of meanings to names of columns")
    other = {"item": "product", "product": "item"}
    names: dict[str, str] = {}
    for meaning, column in mapping.items():
        wanted = other[meaning] if meaning in other and meaning not in meanings else meaning
        if wanted not in meanings:
            raise InputError(
                f"gives a name to {shown(meaning)}; it may do so for {', '.join(meanings)}. "
                "Other columns need no meaning.",
                argument=name,
            )
        if wanted in names or column in names.values():
            raise InputError(f"names one column or field twice; got {shown(mapping)}. Name each once.", argument=name)
        names[wanted] = check_text(f"{name}[{meaning!r}]", column)
    return names


def _named(column: str) -> str:
    """The names of columns for a message, printable and without quotes."""
    return shown(column, 400)[1:-1]


def find_columns(
    origin: str,
    header: Sequence[str],
    fields: Sequence[Field],
    columns: Mapping[str, str] | None = None,
    usually: Mapping[str, str] | None = None,
    part_of: str | None = None,
    error: type[TensorUCBError] = TableError,
) -> dict[str, str]:
    """The column of each field that is there; one error for all that are missing or could be several."""
    candidates = candidate_columns(header, fields, columns, usually)
    names: dict[str, str] = {}
    wrong: dict[str, str] = {}
    for field in fields:
        told = (columns or {}).get(field.name)
        matches = candidates[field.name]
        if len(matches) == 1:
            names[field.name] = matches[0]
            if list(header).count(matches[0]) > 1:
                raise TableError(f"{origin} has the column {_named(matches[0])} more than once. Leave one.")
        elif matches:
            wrong[field.name] = f"could mean several columns by {field.name}: {', '.join(map(_named, matches))}"
        elif told or not field.optional:
            usual = [name for name in field.usual if name != field.name]
            others = f" (or {', '.join(usual)})" if usual and not told else ""
            wrong[field.name] = f"has no column {_named(told or field.name)}{others}"
    if wrong and not header:
        raise error(f"{origin} is empty: there is not even a line with the names of columns.")
    if wrong:
        raise error(
            f"{origin} {', '.join(wrong.values())}; its columns are {_named(', '.join(map(str, header)))}.",
            advice=("Say which column it is with ", *_repairs(list(wrong), part_of), ".") if part_of != "" else "",
        )
    shared = [meaning for meaning in names if list(names.values()).count(names[meaning]) > 1]
    if shared:
        raise TableError(
            f"{origin}: the column {_named(names[shared[0]])} cannot be the {' and the '.join(shared)} at once.",
            advice=("Name another one with ", *_repairs(shared[1:], part_of), "."),
        )
    return names


def candidate_columns(
    header: Sequence[str],
    fields: Sequence[Field],
    columns: Mapping[str, str] | None = None,
    usually: Mapping[str, str] | None = None,
) -> dict[str, list[str]]:
    """For each field the columns that it could be: the one that was named, or else those that are called so.

    ``columns`` are names that the caller gives now; ``usually`` were given before, and count if they are there.
    """
    named = {meaning: name for meaning, name in (usually or {}).items() if name in header} | dict(columns or {})
    simple = {name: _simple(name) for name in header if name not in named.values()}
    candidates: dict[str, list[str]] = {}
    for field in fields:
        if field.name in named:
            candidates[field.name] = [name for name in header if name == named[field.name]][:1]
            continue
        exact = [name for name in simple if name == field.name]
        alike = [name for name, plain_name in simple.items() if plain_name == field.name]
        usual = [name for name, plain_name in simple.items() if plain_name in field.usual]
        candidates[field.name] = exact or alike or usual
    return candidates


def _simple(name: str) -> str:
    """A column's name in lower case, with underscores for spaces and hyphens."""
    return re.sub(r"[\s\-.]+", "_", str(name).strip().lower())


def _repairs(meanings: Sequence[str], part_of: str | None) -> list[str | Mention]:
    """How to name the columns of these meanings."""
    said: list[str | Mention] = []
    for meaning in meanings:
        value: Any = {meaning: "NAME"}
        said += [" and " if said else "", argument("columns", {part_of: value} if part_of else value)]
    return said


# -- files --


def has_table_suffix(name: str) -> bool:
    """Whether a file is called like a table."""
    return name.lower().endswith((*TEXT, *LINES, PARQUET))


def read_parquet(path: Path, columns: list[str] | None = None, most_rows: int | None = None) -> pl.DataFrame:
    """A Parquet file, or of it only ``columns`` and the first ``most_rows``."""
    with file_errors(path, PARQUET), panics_kept_quiet():
        table = pl.scan_parquet(path, glob=False)
        types = table.collect_schema()
        wanted = types.names() if columns is None else columns
        width = sum(8 if types[name].is_numeric() or types[name].is_temporal() else 64 for name in wanted)
        rows = table.select(pl.len()).collect().item()
        # Once decoded, and once more on the way there.
        check_memory(f"reading {shown_path(path)}", 2.0 * width * (rows if most_rows is None else min(rows, most_rows)))
        return pl.read_parquet(path, columns=wanted, n_rows=most_rows, glob=False)


@contextmanager
def panics_kept_quiet() -> Iterator[None]:
    """Keeps the trace of a panic off the terminal: Rust writes it to the file descriptor before Python can see it."""
    with _stderr, tempfile.TemporaryFile() as held:
        saved = os.dup(2)
        os.dup2(held.fileno(), 2)
        panicked = False
        try:
            yield
        except pl.exceptions.PanicException:
            panicked = True
            raise
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            if not panicked and held.tell():
                held.seek(0)
                os.write(2, held.read())


def guarded(frame: pl.DataFrame) -> pl.DataFrame:
    """The table for a CSV file, where a spreadsheet must not run what somebody's id holds."""
    return frame.with_columns(pl.col(pl.String).str.replace(FORMULA, "'$1"))
