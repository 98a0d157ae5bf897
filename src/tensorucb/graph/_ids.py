"""Node ids: what may be one, and the way from ids to row numbers.

A column of ids is an int64 array or, for strings, a polars series; everything a caller may hand in becomes one of
the two in :func:`id_column`, or an error that names the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.arrays import I32, I64
from tensorucb.checks import LONGEST_TEXT, array_of, is_missing, plain, refusal, shown
from tensorucb.errors import InputError, ShapeError

if TYPE_CHECKING:
    import polars as pl

    Column = I64 | pl.Series

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
    import polars as pl

    from tensorucb._cells import id_cells
    from tensorucb.tables import as_column

    if type(values).__module__.startswith("polars") and not isinstance(values, pl.Series):
        raise refusal(name, "a column", values, "Use Graph.from_frame for a frame.")
    if not isinstance(values, list | tuple | pl.Series):
        array = array_of(name, values, "a column of whole numbers or strings")
        if array.ndim != 1:
            raise ShapeError(f"must be one-dimensional; got an array of shape {array.shape}.", argument=name)
        if array.dtype.kind == "i":
            return array.astype(np.int64, copy=False)
        if array.dtype.kind not in "ufUTO":
            raise _of_type(name, array.dtype)
        values = array
    cells = as_column(name, values)
    ids = id_cells(cells)
    if ids.null_count():
        _refuse(name, cells, values, ids.is_null().arg_true().to_numpy())
    return ids if ids.dtype == pl.String else ids.to_numpy()


def _of_type(name: str, dtype: Any) -> InputError:
    return InputError(f"must be whole numbers or strings; got values of type {dtype!s:.40}.", argument=name)


def _refuse(name: str, cells: pl.Series, values: Any, wrong: I64) -> NoReturn:
    """Say what is wrong with cells that are no ids; ``values`` are what the caller passed."""
    from tensorucb._cells import of_two_kinds

    if cells.dtype.is_temporal() and not isinstance(values, list | tuple):
        raise _of_type(name, values.dtype)
    held = cells.to_list()
    refuse_missing(name, [is_missing(value) for value in held])
    row = int(wrong[0]) + 1
    first = held[row - 1]
    if isinstance(first, str):
        raise InputError(_unsound(first, row), argument=name)
    if isinstance(first, float):
        bad = describe_rows([held[i] for i in wrong[:_SHOWN]], wrong)
        wanted = "whole numbers (up to 2^53 when they come as floats) or strings"
        raise InputError(f"must be {wanted}; got {bad}.", argument=name)
    if isinstance(first, int) and not isinstance(first, bool):
        raise InputError(f"must fit in 64 bits with a sign; got {shown(first)} (row {row}).", argument=name)
    if not isinstance(values, list | tuple) and values.dtype != object:
        raise _of_type(name, values.dtype)
    if isinstance(first, list | tuple | np.ndarray):
        raise ShapeError("must be one-dimensional; its elements are sequences.", argument=name)
    raise of_two_kinds(name, held)


def _unsound(text: str, row: int) -> str:
    """Why a text cannot be stored, or would be changed by an array of strings."""
    if not text:
        return f"holds an empty text (row {row}). Give every id at least one character."
    if len(text) > LONGEST_TEXT:
        return f"holds a text of {len(text):,} characters (row {row}); ids may have {LONGEST_TEXT}. Shorten it."
    if "\0" in text:
        return "holds the character NUL, which arrays of strings cannot keep. Rename such ids."
    return f"holds {shown(text)}, which is not valid Unicode. Rename such ids."


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
        if not self.ids.size:
            return np.full(len(column), -1, dtype=np.int32)
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

    def places(self, column: pl.Series) -> I32:
        """The row of each id, be it read as a number or as text, -1 for others: 007 and 7.5 are no way to write 7."""
        import polars as pl

        if self.kind == "strings":
            return self.rows(column.cast(pl.String).fill_null(""))
        numbers = column.cast(pl.Int64, strict=False)
        same = (numbers.cast(column.dtype, strict=False) == column).fill_null(False)
        return np.where(same.to_numpy(), self.rows(numbers.fill_null(0).to_numpy()), np.int32(-1))

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
