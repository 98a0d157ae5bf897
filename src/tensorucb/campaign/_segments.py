"""What the table of users says to people who look at a campaign: a name for each user, and columns to split them by.

Neither is a feature. Both are kept by graph row in a blob of their own, which is read only where somebody looks, and
from which a user who is forgotten is taken out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.campaign._documents import from_json
from tensorucb.checks import is_missing, shown
from tensorucb.errors import UnknownIdError

if TYPE_CHECKING:
    import polars as pl

_MOST_LABELS = 20  # of a column; the rarest values share one
_MOST_NUMBERS = 8  # different numbers that are told apart; more of them are put into ranges
_QUANTILES = (0.25, 0.5, 0.75)
_DIGITS = (3, 6, 10)  # to which the ends of ranges are rounded: the first that leaves more than one range
_OTHERS = "others"
UNKNOWN = "not known"


@dataclass(frozen=True, eq=False)
class Segments:
    """A column of the table of users that splits them: for each user the place of their label, -1 if not known.

    ``ends`` are where the ranges of a column of numbers begin, from the second one on; None if values are labels.
    """

    column: str
    labels: tuple[str, ...]
    codes: NDArray[np.int16]
    ends: tuple[float, ...] | None = None

    def label(self, code: int) -> str:
        """The label of a code."""
        return UNKNOWN if code < 0 else self.labels[code]

    def grown(self, values: pl.Series | None, count: int) -> Segments:
        """The column with so many new users; None if nothing is known of them."""
        fresh = np.full(count, -1, dtype=np.int16)
        if values is not None:
            fresh = _codes(_without_nan(values), self.labels, self.ends)
        return replace(self, codes=np.concatenate([self.codes, fresh]))

    def without(self, row: int) -> Segments:
        """The column once a user is forgotten; a value that nobody else has goes with them."""
        gone = int(self.codes[row])
        codes = np.delete(self.codes, row)
        if self.ends is not None or gone < 0 or (codes == gone).any():
            return replace(self, codes=codes)
        labels = (*self.labels[:gone], *self.labels[gone + 1 :])
        return replace(self, labels=labels, codes=codes - (codes > gone).astype(np.int16))


def _segments(values: pl.Series) -> Segments | None:
    """A column as a split; None if it is none: as good as everybody has a value of their own, or all have the same."""
    dtype, column = values.dtype, values.name
    values = _without_nan(values)
    ends: tuple[float, ...] | None = None
    if dtype.is_numeric() and values.drop_nulls().n_unique() > _MOST_NUMBERS:
        ends, labels = _ranges(values)
    elif dtype.is_nested() or dtype.is_temporal():
        return None
    else:
        texts = values.drop_nulls().cast(str)
        counts = texts.value_counts(sort=True)
        common = counts[texts.name][:_MOST_LABELS].to_list()
        if 2 * len(counts) > len(texts) or 2 * texts.is_in(common).sum() < len(values):
            return None
        labels = tuple(sorted(common, key=_in_order))
        if len(counts) > len(common):
            labels = (*(label for label in labels if label != _OTHERS), _OTHERS)
    return Segments(column, labels, _codes(values, labels, ends), ends) if len(labels) > 1 else None


def _without_nan(values: pl.Series) -> pl.Series:
    """A column in which nothing is known where it has NaN."""
    return values.fill_nan(None) if values.dtype.is_float() else values


def _in_order(label: str) -> tuple[float, str]:
    """Numbers by size, before texts by letter. A whole number is exact: as a float it may be that of its neighbour."""
    for number in (int, float):
        with suppress(ValueError):
            return number(label), ""
    return np.inf, label


def _ranges(values: pl.Series) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """Where ranges of about equally many users begin, and what the ranges are called."""
    numbers = values.drop_nulls().to_numpy().astype(np.float64)
    numbers = numbers[np.isfinite(numbers)]
    whole = values.dtype.is_integer()
    cuts, least, most = np.quantile(numbers, _QUANTILES), numbers.min(), numbers.max()
    for digits in _DIGITS:
        rounded = np.ceil(cuts) if whole else np.array([float(f"{cut:.{digits}g}") for cut in cuts])
        ends = tuple(float(end) for end in np.unique(rounded) if least < end <= most)
        if ends:
            break
    else:  # nearly all have the least number: they are one range, and all others the second one
        ends = (float(numbers[numbers > least].min()),)
    last = [end - 1.0 if whole else end for end in ends]
    to = "to" if whole else "to under"
    between = [f"{begin:,.10g} {to} {end:,.10g}" for begin, end in zip(ends, last[1:], strict=False)]
    first = f"up to {last[0]:,.10g}" if whole else f"under {last[0]:,.10g}"
    return ends, (first, *between, f"{ends[-1]:,.10g} and more")


def _codes(values: pl.Series, labels: Sequence[str], ends: Sequence[float] | None) -> NDArray[np.int16]:
    if ends is not None:
        import polars as pl

        numbers = values.cast(pl.Float64, strict=False).fill_null(float("nan")).to_numpy()
        return np.where(np.isfinite(numbers), np.searchsorted(ends, numbers, side="right"), -1).astype(np.int16)
    # A number is the same label as 1 and as 1.0, which a gap in a later table may make of it.
    key = _in_order if values.dtype.is_numeric() else str
    places = {key(label): place for place, label in enumerate(labels)}
    rest = places.get(key(_OTHERS), -1)
    cells = [-1 if value is None else places.get(key(value), rest) for value in values.cast(str).to_list()]
    return np.array(cells, dtype=np.int16)


@dataclass(frozen=True, eq=False)
class UserColumns:
    """Names of users, None where there is none, and the columns that split them; by graph row."""

    names: Sequence[str | None]
    segments: tuple[Segments, ...] = ()

    @classmethod
    def of(cls, count: int, names: pl.Series | None, columns: Iterable[pl.Series]) -> UserColumns | None:
        """What names and columns of so many users tell; None if that is nothing."""
        kept = tuple(split for split in map(_segments, columns) if split is not None)
        return None if names is None and not kept else cls(_names(count, names), kept)

    def rows_named(self, text: str) -> list[int]:
        """Rows of the users whose name holds a text, in large or small letters."""
        wanted = text.casefold()
        return [row for row, name in enumerate(self.names) if name is not None and wanted in name.casefold()]

    def split(self, column: Any) -> Segments:
        """The column of this name."""
        for split in self.segments:
            if split.column == column:
                return split
        choices = ", ".join(shown(each.column) for each in self.segments) or "none"
        raise UnknownIdError(
            f"is {shown(column)}; columns of the table of users that split them are {choices}.", argument="segment"
        )

    def grown(self, count: int, names: pl.Series | None, columns: Iterable[pl.Series]) -> UserColumns:
        """The same with so many new users, of whom this is known."""
        by_name = {column.name: column for column in columns}
        segments = tuple(each.grown(by_name.get(each.column), count) for each in self.segments)
        return UserColumns([*self.names, *_names(count, names)], segments)

    def without(self, row: int) -> UserColumns:
        """The same once a user is forgotten."""
        segments = tuple(each.without(row) for each in self.segments)
        return UserColumns([*self.names[:row], *self.names[row + 1 :]], segments)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Everything, as JSON and arrays."""
        about = [{"column": each.column, "labels": each.labels, "ends": each.ends} for each in self.segments]
        codes = {f"codes_{place}": each.codes for place, each in enumerate(self.segments)}
        # Not compressed: a search of the store's files must see the names that are there.
        text = "".join(f"{name or ''}\n" for name in self.names)
        return {"segments": about}, {"names": np.frombuffer(text.encode(), dtype=np.uint8), **codes}

    @classmethod
    def from_arrays(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> UserColumns:
        """What :meth:`to_arrays` gave."""
        columns = ({**each, "codes": arrays[f"codes_{place}"]} for place, each in enumerate(settings["segments"]))
        segments = tuple(from_json(Segments, each) for each in columns)
        names = arrays["names"].tobytes().decode().split("\n")[:-1]
        return cls([name or None for name in names], segments)


def no_columns(count: int) -> UserColumns:
    """What is known of so many users of whom nothing is known."""
    return UserColumns([None] * count)


def texts_of(names: Iterable[Any]) -> list[str | None]:
    """Names as people read them, on one line; None where there is none."""
    return [None if is_missing(name) else " ".join(str(name).split()) or None for name in names]


def _names(count: int, names: pl.Series | None) -> list[str | None]:
    return [None] * count if names is None else texts_of(names.to_list())
