"""The cells of a table: tables of any kind, and columns as numbers, dates, texts or lists of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorucb.arrays import F64
from tensorucb.checks import shown
from tensorucb.errors import InputError

if TYPE_CHECKING:
    import polars as pl

_SEPARATORS = (";", "|", ",")


def as_frame(name: str, table: Any) -> pl.DataFrame:
    """Any table as a polars frame."""
    import polars as pl

    from tensorucb.tables import table_columns

    if isinstance(table, pl.DataFrame):
        return table
    try:
        return pl.DataFrame(table_columns(name, table))
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
        raise InputError(f"cannot be read as a table ({shown(str(error))[1:-1]}).", argument=name) from error


def numbers_of(name: str, values: pl.Series) -> F64:
    import polars as pl

    try:
        numbers = values.cast(pl.Float64).to_numpy()
    except pl.exceptions.PolarsError as error:
        raise InputError(
            f"the column {shown(name)} must hold numbers such as 12.50 ({shown(str(error), 80)[1:-1]})."
        ) from error
    return np.where(np.isfinite(numbers), numbers, np.nan)


def seconds_of(name: str, values: pl.Series) -> F64:
    """Dates as unix seconds; NaN where there is none."""
    import polars as pl

    if values.dtype == pl.String:
        texts = [text if text and is_date(text) else None for text in values.to_list()]
        strange = next((t for t, d in zip(values.to_list(), texts, strict=True) if t and d is None), None)
        if strange is not None:
            raise InputError(f"the column {shown(name)} must hold dates such as 2026-05-31; got {shown(strange)}.")
        values = pl.Series([None if text is None else text[:10] for text in texts], dtype=pl.String).str.to_date()
    try:
        moments = values.cast(pl.Datetime("us")).dt.epoch("s").cast(pl.Float64)
    except pl.exceptions.PolarsError as error:
        raise InputError(f"the column {shown(name)} must hold dates ({shown(str(error), 80)[1:-1]}).") from error
    return moments.fill_null(float("nan")).to_numpy()


def is_date(text: str) -> bool:
    from datetime import date

    try:
        date.fromisoformat(text.strip()[:10])
    except ValueError:
        return False
    return True


def texts_of(values: pl.Series) -> list[str]:
    return ["" if value is None else str(value) for value in values.to_list()]


def separator_of(texts: Sequence[str]) -> str | None:
    """The character between the values of a column of tags, if a third of the rows have it."""
    for separator in _SEPARATORS:
        if texts and sum(separator in text for text in texts) * 3 >= len(texts):
            return separator
    return None


def _bare(text: str) -> str:
    """A text without the marks of a list around it, such as ``["tea", "eco"]`` has them in a CSV file."""
    text = text.strip()
    if text[:1] == "[" and text[-1:] == "]":
        text = text[1:-1].strip()
    return text[1:-1].strip() if len(text) > 1 and text[0] == text[-1] == '"' and '"' not in text[1:-1] else text


def cells_of(values: pl.Series, separator: str | None) -> list[list[str]]:
    """The values of each row: several if there is a separator or a list, otherwise one or none."""
    rows: list[list[str]] = []
    for value in values.to_list():
        parts = value if isinstance(value, list) else [value]
        if separator is not None:
            parts = [part for text in parts if text is not None for part in _bare(str(text)).split(separator)]
        rows.append([_bare(str(part)) for part in parts if part is not None and _bare(str(part))])
    return rows
