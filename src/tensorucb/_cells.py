"""Cells of tables as people and programs write them: ids, numbers with currencies, flags, days and times.

`parse` reads the columns that have a meaning, and says of each row what is wrong with it; `guess` reads the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from datetime import date
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl

from tensorucb._delimited import FAULT, LINE, VALUE
from tensorucb.checks import LONGEST_TEXT, check_id, is_missing, is_real, plain, shown
from tensorucb.errors import InputError, TensorUCBError
from tensorucb.moments import is_moment, unix_seconds

if TYPE_CHECKING:
    from tensorucb.tables import Field

_WHOLE_FLOATS = 2.0**53  # up to here every whole number is a float
_DAY = r"^\s*(\d{4}-\d{2}-\d{2}|\d{8})\s*$"
# Moments of years in which microseconds fit a float exactly: 2026-05-01 12:30:00, with T, a fraction, or UTC's mark.
_USUAL_TIME = r"^((?:19|20|21)\d\d-\d\d-\d\d)[T ](\d\d:\d\d:[0-5]\d(?:\.\d{1,6})?)(Z|\+00:00)?$"
_CURRENCY = r"^\s*(?:[€$£¥₹]|EUR|USD|GBP|CHF|[Kk]r\.?)\s*|\s*(?:[€$£¥₹]|EUR|USD|GBP|CHF|[Kk]r\.?)\s*$"
_GAPS = ("n/a", "#n/a", "na", "nan", "null", "none", "unknown", "-", "?")  # for "no number" among numbers


@dataclass
class How:
    """How cells are read: whether all came as text, in which time zone, and what is to be said of it, by column."""

    text: bool
    zone: str = "UTC"
    remarks: dict[str, str] = dataclass_field(default_factory=dict)


def parse(
    piece: pl.DataFrame, wanted: Sequence[tuple[Field, str]], how: How
) -> tuple[pl.DataFrame, pl.Series, pl.Series]:
    """Checked columns by meaning, with the line; for each row the first reason why it does not fit, and what it had.

    A few rows come more often than many: what polars computes by a query costs a tenth of a millisecond each time,
    however short the column is, so that sound cells should need none.
    """
    columns: list[pl.Series] = [piece[LINE].alias("line")]
    fault = piece[FAULT]
    value = piece[VALUE]
    for field, name in wanted:
        cells = piece[name]
        if field.kind == "any":
            columns.append((guess(cells, how) if how.text else cells).alias(field.name))
            continue
        values = _parsed(cells, field.kind, how).alias(field.name)
        columns.append(values)
        if field.kind == "time":
            columns.append(_until(values, cells, how))
        if not values.null_count():
            continue
        empty = _is_empty(cells)
        wrong = values.is_null() & fault.is_null()
        if field.optional:
            wrong &= ~empty
        at = wrong.arg_true()
        if len(at):
            vacant = empty.gather(at).to_list()
            wanted_here = _KINDS[field.kind][0]
            fault = fault.scatter(at, [f"{name} is {'empty' if none else f'not {wanted_here}'}" for none in vacant])
            came = [None if none else _as_text(cells[i]) for i, none in zip(at, vacant, strict=True)]
            value = value.scatter(at, came)
    return pl.DataFrame(columns), fault, value


def _as_text(cell: Any) -> str:
    """A cell for the report, whatever it is."""
    try:
        plain_cell = cell.to_list() if isinstance(cell, pl.Series) else cell
        return str(plain_cell).encode("utf-8", errors="replace").decode()
    except Exception:  # of a class of the caller's, or nested too deep
        return shown(cell)


def _is_empty(cells: pl.Series) -> pl.Series:
    if cells.dtype == pl.Object:
        # A cell may be anything, such as a frame, that cannot be compared with a text.
        empty = [is_missing(cell) or (isinstance(cell, str) and not cell) for cell in cells.to_list()]
        return pl.Series(empty, dtype=pl.Boolean)
    if cells.dtype.is_float():
        return cells.is_nan().fill_null(True)
    return (cells == "").fill_null(True) if cells.dtype == pl.String else cells.is_null()


def id_cells(cells: pl.Series) -> pl.Series:
    """Ids of whole numbers or of text; null where a cell is none."""
    return _parsed(cells, "id", How(text=False))


def _parsed(cells: pl.Series, kind: str, how: How) -> pl.Series:
    """Values of one kind; null where a cell is none."""
    if cells.dtype == pl.Object or cells.dtype.is_nested():
        return _from_objects(cells, kind, how)
    if cells.dtype in (pl.Binary, pl.Duration):
        cells = _nothing(cells, pl.String)
    if cells.dtype in (pl.Categorical, pl.Enum):
        cells = cells.cast(pl.String)
    return _KINDS[kind][1](cells, how)


def within_years(cells: pl.Series) -> pl.Series:
    """A column in which dates and times outside of the years 1 to 9999 are missing: polars can do nothing with them."""
    if cells.dtype not in (pl.Date, pl.Datetime):
        return cells
    seconds = cells.cast(pl.Datetime("ms", getattr(cells.dtype, "time_zone", None))).to_physical() // 1000
    return _only(is_moment(seconds), cells)


def _nothing(cells: pl.Series, dtype: Any) -> pl.Series:
    return pl.Series(cells.name, [None], dtype=dtype).new_from_index(0, len(cells))


def _only(sound: pl.Series, values: pl.Series) -> pl.Series:
    """The values that are sound, and null in place of the others."""
    return values if sound.all() else values.zip_with(sound.fill_null(False), _nothing(values, values.dtype))


def _id(cells: pl.Series, how: How) -> pl.Series:
    if cells.dtype.is_integer():
        return cells.cast(pl.Int64, strict=False)
    if cells.dtype.is_float():
        return _only((cells == cells.floor()) & (cells.abs() <= _WHOLE_FLOATS), cells).cast(pl.Int64)
    if cells.dtype != pl.String:
        return _nothing(cells, pl.Int64)
    if how.text:
        numbers = cells.cast(pl.Int64, strict=False)
        # Written the usual way: 007 stays text. A cell that is missing or empty says nothing of the others.
        usual = (numbers.cast(pl.String) == cells).fill_null(False) | (cells == "").fill_null(True)
        if usual.all() and numbers.null_count() < len(cells):
            return numbers
    return _text(cells, how)


def _text(cells: pl.Series, how: How) -> pl.Series:
    """Texts that can be stored, and kept in arrays."""
    if cells.dtype != pl.String:
        return _id(cells, how).cast(pl.String)
    text = pl.first().str
    query = text.len_chars().is_between(1, LONGEST_TEXT) & ~text.contains("\0", literal=True)
    return _only(pl.DataFrame([cells]).select(query).to_series(), cells)


def _label(cells: pl.Series, how: How) -> pl.Series:
    return cells.cast(pl.String) if cells.dtype.is_temporal() else _text(cells, how)


def _number(cells: pl.Series, how: How) -> pl.Series:
    numbers = _numbers_as_written(cells, how) if cells.dtype == pl.String else _floats(cells)
    return _only(numbers.is_finite(), numbers)


def _floats(cells: pl.Series) -> pl.Series:
    """What are numbers or flags; a date is none, though it is kept as one."""
    return cells.cast(pl.Float64, strict=False) if not cells.dtype.is_temporal() else _nothing(cells, pl.Float64)


def _numbers_as_written(cells: pl.Series, how: How) -> pl.Series:
    """Numbers as spreadsheets and shops write them: 1.299,00, 1,299.00, €12.99, 12,99 EUR; null where it is none."""
    numbers = cells.cast(pl.Float64, strict=False)
    odd = cells.filter(numbers.is_null() & cells.is_not_null() & (cells != ""))
    if not len(odd):
        return numbers
    bare = cells.str.replace_all(_CURRENCY, "").str.replace_all(r"[\s\u00a0\u202f']", "")
    commas = bare.str.contains(r",\d{1,2}$|\.\d{3},|,\d{4,}$").any()
    points = bare.str.contains(r"\.\d{1,2}$|,\d{3}\.").any()
    if commas and not points:
        bare = bare.str.replace_all(".", "", literal=True).str.replace_all(",", ".", literal=True)
    elif not commas:
        # A comma before three digits groups thousands.
        bare = bare.str.replace_all(r",(\d{3})", "$1")
    values = bare.cast(pl.Float64, strict=False)
    place = (values.is_not_null() & numbers.is_null() & (cells != "")).fill_null(False).arg_true()
    if len(place):
        first = int(place[0])
        written = "with a decimal comma" if commas and not points else "as amounts"
        said = f"{cells.name} is read {written}: {shown(cells[first])} is {values[first]:g}"
        how.remarks.setdefault(cells.name, said)
    return values


def _flag(cells: pl.Series, how: How) -> pl.Series:
    if cells.dtype == pl.String:
        cells = cells.replace({"true": "1", "false": "0", "True": "1", "False": "0"})
    numbers = _floats(cells)
    return _only((numbers == 0.0) | (numbers == 1.0), numbers)


def _time(cells: pl.Series, how: How) -> pl.Series:
    if cells.dtype.is_integer():
        seconds = cells.cast(pl.Int64, strict=False)
    elif cells.dtype.is_float():
        seconds = cells.cast(pl.Float64)
    elif cells.dtype in (pl.Date, pl.Datetime):
        clock = cells.cast(pl.Datetime("us"))
        zoned = getattr(cells.dtype, "time_zone", None) is not None
        seconds = _seconds(clock) if zoned else _in_zone(clock, how.zone)
    elif cells.dtype == pl.String:
        seconds = _seconds_of_texts(cells, how)
    else:
        return _nothing(cells, pl.Float64)
    return _moments(seconds)


def _moments(seconds: pl.Series) -> pl.Series:
    """Unix seconds in the years that have dates; null in place of others."""
    return _only(is_moment(seconds.cast(pl.Float64)), seconds)


def _is_day(cells: pl.Series) -> pl.Series:
    """Which times are dates without a time, and so mean a whole day."""
    if cells.dtype == pl.Object:
        values = list(map(plain, cells.to_list()))
        written = [isinstance(value, str) and re.search(_DAY, value) is not None for value in values]
        return pl.Series(written, dtype=pl.Boolean) | pl.Series([type(value) is date for value in values])
    if cells.dtype == pl.String:
        return cells.str.contains(_DAY).fill_null(False)
    return pl.repeat(cells.dtype == pl.Date, len(cells), dtype=pl.Boolean, eager=True)


def _until(seconds: pl.Series, cells: pl.Series, how: How) -> pl.Series:
    """The end of each day in the time zone; of what is no day the moment itself."""
    until = seconds.cast(pl.Float64).alias("until")
    if cells.dtype.is_numeric():
        return until
    days = _is_day(cells)
    if how.text:  # where 20260501 is a number of seconds
        days &= cells.cast(pl.Float64, strict=False).is_null()
    at = days.arg_true()
    if not len(at):
        return until
    clock = (until.gather(at) * 1e6).cast(pl.Int64).cast(pl.Datetime("us", "UTC")).dt.convert_time_zone(how.zone)
    return until.scatter(at, _seconds(clock.dt.offset_by("1d")))


def _seconds(moments: pl.Series) -> pl.Series:
    """Unix seconds, by NumPy: polars multiplies by 1e-6, and the same moment as a text would be another number."""
    return pl.Series(moments.dt.epoch("us").to_numpy() / 1e6, nan_to_null=True)


def _in_zone(clock: pl.Series, zone: str) -> pl.Series:
    """Unix seconds of what clocks in a time zone show."""
    seconds = _seconds(clock)
    if zone == "UTC" or not len(clock):
        return seconds
    # In the hour that is left out in spring a clock shows the next one.
    moments = [
        shifted.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
        for shifted in (clock, clock.dt.offset_by("1h"))
    ]
    return _seconds(moments[0].fill_null(moments[1]))


def _seconds_of_texts(cells: pl.Series, how: How) -> pl.Series:
    """Unix seconds of numbers and of ISO dates and times."""
    # In a text file all are texts, and a number is one of seconds; elsewhere a text of eight digits is a date.
    numbers = cells.cast(pl.Float64, strict=False) if how.text else _nothing(cells, pl.Float64)
    words = cells.filter(numbers.is_null() & cells.is_not_null()).unique()
    told = cells.replace_strict(words, _seconds_of_words(words, how.zone), default=None, return_dtype=pl.Float64)
    seconds = numbers.fill_null(told)
    whole = (seconds == seconds.round()).all() and not cells.str.contains("[.eE]").any()
    return seconds.cast(pl.Int64, strict=False) if how.text and whole else seconds


def _seconds_of_words(words: pl.Series, zone: str) -> pl.Series:
    """Unix seconds of dates and times: those in ISO's usual form all at once, the others one by one."""
    day, time, mark = words.str.extract_groups(_USUAL_TIME).struct.unnest()
    clock = (day + " " + time).str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="us", strict=False)
    seconds = _seconds(clock).zip_with(mark.is_not_null(), _in_zone(clock, zone))
    others = seconds.is_null().arg_true()
    return seconds.scatter(others, [unix_seconds(word, ZoneInfo(zone)) for word in words.gather(others)])


_KINDS: dict[str, tuple[str, Callable[[pl.Series, How], pl.Series]]] = {
    "id": ("an id", _id),
    "text": ("an id", _text),
    "label": ("text or a whole number", _label),
    "flag": ("0 or 1", _flag),
    "number": ("a number", _number),
    "time": ("a time in seconds or such as 2026-05-31T12:00", _time),
}
"""What a cell of each kind should be, and how it is read."""


def _from_objects(cells: pl.Series, kind: str, how: How) -> pl.Series:
    """Values of a column of Python's objects, such as numbers and texts in one list."""
    values = [None if is_missing(cell) else plain(cell) for cell in cells.to_list()]
    if kind in ("flag", "number"):
        return _KINDS[kind][1](pl.Series(cells.name, list(map(_real, values)), dtype=pl.Float64), how)
    if kind == "time":
        return _moments(pl.Series([unix_seconds(value, ZoneInfo(how.zone)) for value in values], dtype=pl.Float64))
    ids = [_id_or_none(str(value) if kind == "label" and isinstance(value, date) else value) for value in values]
    kinds = set(map(type, ids)) - {type(None)}
    if len(kinds) > 1 and kind == "id":
        raise of_two_kinds(cells.name, values)
    if kinds == {int} and kind != "label":
        return pl.Series(cells.name, ids, dtype=pl.Int64)
    return pl.Series(cells.name, [None if entry is None else str(entry) for entry in ids], dtype=pl.String)


def of_two_kinds(name: str, values: Sequence[Any]) -> InputError:
    """The error of a column whose ids are not of one kind."""
    first: dict[type, str] = {}
    for row, value in enumerate(values, 1):
        if value is not None:
            first.setdefault(type(value), f"{shown(value, 40)} of type {type(value).__name__} (row {row})")
    came = " and ".join(list(first.values())[:3])
    wanted = "whole numbers or strings" if bytes in first else "all whole numbers or all strings"
    advice = "Decode bytes first." if bytes in first else "Convert them to one type first."
    return InputError(f"must be {wanted}; got {came}.", argument=name, advice=advice)


def _real(value: Any) -> float | None:
    with suppress(OverflowError):
        return float(value) if isinstance(value, bool | np.bool_) or is_real(type(value)) else None
    return None


def _id_or_none(value: Any) -> int | str | None:
    if isinstance(value, float) and value.is_integer() and abs(value) <= _WHOLE_FLOATS:
        value = int(value)
    try:
        return None if value is None else check_id("it", value)
    except TensorUCBError:
        return None


def guess(cells: pl.Series, how: How) -> pl.Series:
    """A column of a text file with numbers where all cells are numbers, and nothing where a cell is empty."""
    cells = cells.set(cells == "", None)
    numbers = all_numbers(cells, how)
    if numbers is not None:
        return numbers
    yes = cells == "true"
    if (yes | (cells == "false")).all():
        return yes
    gaps = cells.str.to_lowercase().is_in(_GAPS).fill_null(False)
    numbers = all_numbers(cells.set(gaps, None), how) if gaps.any() else None
    if numbers is None:
        return cells
    first = shown(cells.filter(gaps)[0])
    how.remarks[f"{cells.name} gaps"] = f"{cells.name} has {int(gaps.sum()):,} cells such as {first}, read as empty"
    return numbers


def all_numbers(cells: pl.Series, how: How) -> pl.Series | None:
    """The numbers of a column in which every cell is one or is empty; None if one is not, or all are empty."""
    empty = cells.null_count()
    if empty == len(cells):
        return None
    whole = cells.cast(pl.Int64, strict=False)
    if whole.null_count() == empty:
        return whole
    tried = How(True, how.zone)
    numbers = _numbers_as_written(cells, tried)
    if numbers.null_count() > empty:
        return None
    how.remarks.update(tried.remarks)
    return numbers
