"""Node ids: what may be one, and the way from ids to row numbers.

A column of ids is an int64 array or, for strings, a polars series; everything a caller may hand in becomes one of
the two in :func:`id_column`, or an error that names the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.arrays import F64, I32, I64
from tensorucb.checks import LONGEST_TEXT, array_of, is_missing, plain, refusal, shown
from tensorucb.errors import InputError, ShapeError

if TYPE_CHECKING:
    import polars as pl

    Column = I64 | pl.Series

WHOLE = "^(0|-?[1-9][0-9]{0,17})$"
"""How a whole number is written, so that the text says no more than the number: 007 is not how 7 is written."""

_SHOWN = 5
# Up to here every whole number is a float.
_EXACT = 2.0**53
_SMALL_TABLE = 1 << 20
# A join reads all ids again: worth it from one lookup for so many of them.
_FEW = 16


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """A contiguous read-only view (a copy only where the memory is not contiguous)."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def describe_rows(values: Sequence[Any], rows: I64) -> str:
    """The first offenders with their rows, counted from 1, for messages: ``7 (row 3), 9 (row 4) and 12 more``."""
    pairs = zip(map(plain, values), rows[:_SHOWN].tolist(), strict=False)
    return ", ".join(f"{shown(value, 40)} (row {row + 1})" for value, row in pairs) + (
        f" and {rows.size - _SHOWN} more" if rows.size > _SHOWN else ""
    )


def refuse_missing(name: str, missing: ArrayLike) -> None:
    """Raise an error if any row is marked as missing."""
    rows = np.flatnonzero(missing)
    if rows.size:
        raise InputError(
            f"has {rows.size} missing value{'s' if rows.size > 1 else ''}, the first in row {rows[0] + 1}. "
            "Remove or fill these rows.",
            argument=name,
        )


def kind_of(column: Column) -> str:
    """``"integers"`` or ``"strings"``."""
    return "integers" if isinstance(column, np.ndarray) else "strings"


def id_array(values: Any, name: str) -> NDArray[Any]:
    """The ids in ``values`` as an array of int64 or of strings."""
    column = id_column(values, name)
    return column if isinstance(column, np.ndarray) else string_array(column)


def string_array(strings: pl.Series) -> NDArray[np.str_]:
    """A NumPy array of the strings."""
    return np.array(strings.to_list(), dtype=np.str_)


def id_column(values: Any, name: str) -> Column:
    """The ids in ``values`` as an int64 array or a polars series of strings; ``name`` is for error messages.

    Floats pass if they are whole, as pandas makes them.
    """
    if type(values).__module__.startswith("polars"):
        return _from_polars(values, name)
    if isinstance(values, list | tuple):
        return _from_objects(list(values), name)
    array = array_of(name, values, "a column of whole numbers or strings")
    if array.ndim != 1:
        raise ShapeError(f"must be one-dimensional; got an array of shape {array.shape}.", argument=name)
    if array.dtype.kind in "iu":
        return _from_integers(array, name)
    if array.dtype.kind == "f":
        return _from_floats(array, name)
    if array.dtype.kind in "UTO":
        return _from_objects(array.tolist(), name)
    raise InputError(f"must be whole numbers or strings; got values of type {array.dtype!s:.40}.", argument=name)


def _from_polars(series: Any, name: str) -> Column:
    import polars as pl

    if not isinstance(series, pl.Series):
        raise refusal(name, "a column", series, "Use Graph.from_frame for a frame.")
    if series.null_count():
        refuse_missing(name, series.is_null().to_numpy())
    if isinstance(series.dtype, pl.String | pl.Categorical | pl.Enum):
        return _sound_strings(series.cast(pl.String), name)
    if series.dtype.is_integer() and series.dtype not in (pl.Int128, pl.UInt128):
        return _from_integers(series.to_numpy(), name)
    if series.dtype.is_float():
        return _from_floats(series.cast(pl.Float64).to_numpy(), name)
    raise InputError(f"must be whole numbers or strings; got values of type {series.dtype!s:.40}.", argument=name)


def _from_integers(array: NDArray[Any], name: str) -> I64:
    if array.dtype.kind == "u" and array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise InputError(
            f"must fit in 64 bits with a sign; got {array.max()} (row {array.argmax() + 1}).", argument=name
        )
    return array.astype(np.int64, copy=False)


def _from_floats(values: ArrayLike, name: str) -> I64:
    with np.errstate(over="ignore"):
        array: F64 = np.asarray(values, dtype=np.float64)
    refuse_missing(name, np.isnan(array))
    bad = np.flatnonzero((array != np.floor(array)) | (np.abs(array) > _EXACT))
    if bad.size:
        raise InputError(
            f"must be whole numbers (up to 2^53 when they come as floats) or strings; "
            f"got {describe_rows(array[bad[:_SHOWN]].tolist(), bad)}.",
            argument=name,
        )
    return array.astype(np.int64)


def _from_objects(values: list[Any], name: str) -> Column:
    types = set(map(type, values))
    if any(issubclass(kind, list | tuple | np.ndarray) for kind in types):
        raise ShapeError("must be one-dimensional; its elements are sequences.", argument=name)
    if types and all(issubclass(kind, str) for kind in types):
        import polars as pl

        try:
            return _sound_strings(pl.Series(values, dtype=pl.String), name)
        except UnicodeEncodeError as error:
            raise InputError(
                f"holds {shown(error.object)}, which is not valid Unicode. Rename such ids.", argument=name
            ) from None
    try:
        if all(issubclass(kind, int | np.integer) and not issubclass(kind, bool | np.timedelta64) for kind in types):
            return np.array(values, dtype=np.int64)
        refuse_missing(name, [is_missing(value) for value in values])
        numbers = all(issubclass(kind, int | float | np.integer | np.floating) for kind in types)
        # NumPy counts a duration among the integers.
        if numbers and not any(issubclass(kind, bool | np.timedelta64) for kind in types):
            return _from_floats(values, name)
    except OverflowError:
        raise InputError("must fit in 64 bits with a sign; a number does not.", argument=name) from None
    first: dict[type, str] = {}
    for row, value in enumerate(values):
        first.setdefault(type(value), f"{shown(value, 40)} of type {type(value).__name__} (row {row + 1})")
    came = " and ".join(list(first.values())[:3])
    if bytes in types:
        raise InputError(f"must be whole numbers or strings; got {came}. Decode bytes first.", argument=name)
    raise InputError(
        f"must be all whole numbers or all strings; got {came}. Convert them to one type first.", argument=name
    )


def _sound_strings(strings: pl.Series, name: str) -> pl.Series:
    """Refuse what could not be stored, or would be changed by an array of strings."""
    lengths = strings.str.len_chars()
    if len(strings) and lengths.min() == 0:
        row = (lengths.arg_min() or 0) + 1
        raise InputError(f"holds an empty text (row {row}). Give every id at least one character.", argument=name)
    if len(strings) and lengths.max() > LONGEST_TEXT:  # type: ignore[operator]
        row = lengths.arg_max() or 0
        raise InputError(
            f"holds a text of {lengths[row]:,} characters (row {row + 1}); ids may have {LONGEST_TEXT}. Shorten it.",
            argument=name,
        )
    if strings.str.contains("\0", literal=True).any():
        raise InputError(
            "holds the character NUL, which arrays of strings cannot keep. Rename such ids.", argument=name
        )
    return strings


def distinct_ids(columns: Sequence[Column]) -> NDArray[Any]:
    """The sorted distinct ids of the columns, which are all of one kind."""
    import polars as pl

    integers = [column for column in columns if isinstance(column, np.ndarray)]
    if integers:
        low = min(int(column.min()) for column in integers if column.size)
        span = max(int(column.max()) for column in integers if column.size) - low + 1
        if span <= _table_limit(sum(column.size for column in integers)):
            present = np.zeros(span, dtype=np.bool_)
            for column in integers:
                present[column - low] = True
            return np.flatnonzero(present) + np.int64(low)
    distinct = pl.concat([pl.Series(column).unique() for column in columns]).unique()
    return np.sort(distinct.to_numpy()) if integers else string_array(distinct.sort())


def _table_limit(lookups: int) -> int:
    return max(_SMALL_TABLE, 4 * lookups)


class IdIndex:
    """From ids to rows: a table for dense integers; for others polars' join if there are many, else a search."""

    def __init__(self, ids: NDArray[Any], lookups: int = 0) -> None:
        self.ids = ids
        self.lookups = max(lookups, ids.size)

    @property
    def kind(self) -> str:
        """``"integers"`` or ``"strings"``."""
        return "strings" if self.ids.dtype.kind == "U" else "integers"

    def rows(self, column: Column) -> I32:
        """The row of each id, -1 where the index does not hold it; the column is of the index's kind."""
        if isinstance(column, np.ndarray) and self._table is not None:
            low, table = self._table
            inside = (column >= low) & (column <= low + table.size - 1)
            if inside.all():
                return table[column - low]
            return np.where(inside, table[np.where(inside, column, low) - low], np.int32(-1))
        if len(column) > self.ids.size // _FEW:
            return self._joined(column)
        wanted = column if isinstance(column, np.ndarray) else string_array(column)
        places = np.searchsorted(self.ids, wanted, sorter=self._order)
        rows = self._order[np.minimum(places, self.ids.size - 1)]
        return np.where(self.ids[rows] == wanted, rows, np.int32(-1))

    @cached_property
    def _table(self) -> tuple[int, I32] | None:
        low, high = int(self.ids.min()), int(self.ids.max())
        if high - low + 1 > _table_limit(self.lookups):
            return None
        table = np.full(high - low + 1, -1, dtype=np.int32)
        table[self.ids - low] = np.arange(self.ids.size, dtype=np.int32)
        return low, table

    def _joined(self, column: Column) -> I32:
        import polars as pl

        ids = pl.Series(self.ids) if isinstance(column, np.ndarray) else pl.Series(self.ids.tolist())
        rows = pl.DataFrame({"id": ids, "row": np.arange(self.ids.size, dtype=np.int32)})
        joined = pl.DataFrame({"id": column}).join(rows, on="id", how="left", maintain_order="left")
        return joined["row"].fill_null(-1).to_numpy()

    @cached_property
    def _order(self) -> I32:
        return np.argsort(self.ids, kind="stable").astype(np.int32)
