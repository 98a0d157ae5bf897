"""Edge-list files: CSV and TSV, also gzipped, and Parquet."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tensorucb.checks import check_choice, check_path, shown, shown_path
from tensorucb.errors import FileFormatError, InputError
from tensorucb.graph._build import check_self_loops, node_ids
from tensorucb.graph._convert import check_columns, column_names
from tensorucb.graph._ids import describe_rows
from tensorucb.tables import PARQUET, TEXT, read_table, suffix_of

if TYPE_CHECKING:
    import polars as pl


def read_columns(
    path: str | os.PathLike[str],
    source: str,
    target: str,
    attributes: Sequence[str],
    id_type: str,
    separator: str | None,
) -> pl.DataFrame:
    """The named columns of an edge-list file, and no others. Parameters as in `Graph.read`."""
    import polars as pl

    check_choice("id_type", id_type, ("auto", "int", "str"))
    names = column_names(source, target, attributes)
    file = check_path("path", path)
    suffix = suffix_of(file, (*TEXT, PARQUET))
    _check_separator(separator, suffix)
    as_text = {source: pl.String, target: pl.String}
    frame = read_table(file, types=as_text if id_type == "str" else None, separator=separator)
    try:
        check_columns(frame.columns, names)
        texts = sum(frame.schema[name] == pl.String for name in (source, target))
        if suffix != PARQUET and id_type == "auto" and texts == 1:
            # Read again as text rather than cast, since a cast would have lost leading zeros.
            frame = read_table(file, types=as_text, separator=separator)
        if id_type == "str":
            frame = frame.with_columns(pl.col(source, target).cast(pl.String))
        if id_type == "int" and texts:
            frame = frame.with_columns(_integers(frame[source]), _integers(frame[target]))
        return frame.select(names)
    except InputError as error:
        raise FileFormatError(f"{shown_path(file)}: {error}") from error


def _check_separator(separator: object, suffix: str) -> None:
    single = isinstance(separator, str) and len(separator) == 1 and (" " <= separator <= "~" or separator == "\t")
    if separator is not None and (suffix == PARQUET or not single):
        raise InputError(f"separator is one character, for text files only; got {shown(separator)} for {suffix}.")


def _integers(column: pl.Series) -> pl.Series:
    import polars as pl

    numbers = column.cast(pl.Int64, strict=False)
    bad = (numbers.is_null() & column.is_not_null()).arg_true().to_numpy()
    if bad.size:
        raise InputError(
            f"column {column.name!r} must hold integers; got {describe_rows(column.gather(bad[:5]).to_list(), bad)}."
        )
    return numbers


@contextmanager
def reading(path: str | os.PathLike[str], self_loops: str, nodes: Any) -> Iterator[None]:
    """Errors about the file's content inside the block name the file; wrong arguments stay what they are."""
    check_self_loops(self_loops)
    if nodes is not None:
        node_ids(nodes)
    try:
        yield
    except InputError as error:
        raise FileFormatError(f"{shown_path(path)}: {error}") from error
