"""Edge-list files: CSV and TSV, also gzipped, and Parquet."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorucb.errors import FileFormatError, InputError
from tensorucb.graph._build import check_self_loops, node_ids
from tensorucb.graph._convert import check_columns
from tensorucb.graph._ids import describe_rows

if TYPE_CHECKING:
    import polars as pl

__all__ = ["read_columns", "reading"]

_SEPARATORS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
_PARQUET = ".parquet"


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

    if id_type not in ("auto", "int", "str"):
        raise InputError(f"id_type must be 'auto', 'int' or 'str'; got {id_type!r}.")
    suffix = _suffix(path)
    if separator is not None and (suffix == _PARQUET or len(separator.encode()) != 1):
        raise InputError(f"separator is one character, for text files only; got {separator!r} for {suffix}.")
    between = separator or _SEPARATORS.get(suffix)
    names = [source, target, *attributes]
    try:
        lazy = _scan(path, between, {})
        check_columns(lazy.collect_schema().names(), names)
        return _with_id_type(path, between, lazy.select(names), source, target, id_type)
    except InputError as error:
        raise FileFormatError(f"{os.fspath(path)!r}: {error}") from error
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        reason = str(error).strip().split("\n")[0]
        raise FileFormatError(
            f"cannot read {os.fspath(path)!r}: {reason}. Check the path, and that it is a complete {suffix} file."
        ) from error


def _suffix(path: str | os.PathLike[str]) -> str:
    known = (*_SEPARATORS, _PARQUET)
    suffix = next((end for end in known if Path(path).name.lower().endswith(end)), None)
    if suffix is None:
        raise FileFormatError(
            f"{os.fspath(path)!r} does not end in one of {', '.join(known)}; the suffix tells the format."
        )
    return suffix


def _scan(path: str | os.PathLike[str], separator: str | None, types: dict[str, Any]) -> pl.LazyFrame:
    import polars as pl

    if separator is None:
        return pl.scan_parquet(Path(path), glob=False)
    # The whole file is looked at for types: a string in the last row makes all ids strings.
    return pl.scan_csv(Path(path), separator=separator, schema_overrides=types, infer_schema_length=None, glob=False)


def _with_id_type(
    path: str | os.PathLike[str],
    separator: str | None,
    lazy: pl.LazyFrame,
    source: str,
    target: str,
    id_type: str,
) -> pl.DataFrame:
    import polars as pl

    schema = lazy.collect_schema()
    texts = sum(schema[name] == pl.String for name in (source, target))
    names = schema.names()
    if separator is not None and (id_type == "str" or (id_type == "auto" and texts == 1)):
        # Read anew as text rather than cast, since a cast would have lost leading zeros.
        return _scan(path, separator, {source: pl.String, target: pl.String}).select(names).collect()
    frame = lazy.collect()
    if id_type == "str":
        return frame.with_columns(pl.col(source, target).cast(pl.String))
    if id_type == "int" and texts:
        return frame.with_columns(_integers(frame[source]), _integers(frame[target]))
    return frame


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
        raise FileFormatError(f"{os.fspath(path)!r}: {error}") from error
