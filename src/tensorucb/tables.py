"""Tables of other libraries, and tables in files: CSV and TSV (also gzipped), NDJSON and Parquet.

Files are read by polars, which leaves three things to its caller. A text row with a field too few or too many can pass
unnoticed, lines that end in a bare CR are no lines to it, and a damaged Parquet file can make it panic, which prints a
long trace to the terminal. Here the first is refused, the second is read, and the third is an error like any other.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import tempfile
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorucb.checks import array_of, refusal, shown, shown_path
from tensorucb.errors import FileFormatError, InputError
from tensorucb.files import FORMULA
from tensorucb.memory import check_memory

if TYPE_CHECKING:
    import polars as pl

TEXT = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
PARQUET = ".parquet"
LINES = (".ndjson", ".jsonl")
_PEEK = 1 << 16
_stderr = threading.Lock()


def table_columns(name: str, frame: Any) -> dict[str, Any]:
    """The columns of a polars, pandas or Arrow table by name: polars series, or arrays of a pandas frame."""
    import polars as pl

    library = type(frame).__module__.split(".")[0]
    if library == "pandas" and hasattr(frame, "columns"):
        doubled = frame.columns[frame.columns.duplicated()]
        if len(doubled):
            raise InputError(f"has several columns {shown(doubled[0])}. Leave one, or rename them.", argument=name)
        return {str(label): plain_column(frame[label]) for label in frame.columns}
    try:
        if isinstance(frame, pl.LazyFrame):
            frame = frame.collect()
        if not isinstance(frame, pl.DataFrame) and hasattr(frame, "__arrow_c_stream__"):
            frame = pl.DataFrame(frame)
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
        raise InputError(f"cannot be read as a table ({shown(str(error))[1:-1]}).", argument=name) from error
    if not isinstance(frame, pl.DataFrame):
        raise refusal(name, "a polars, pandas or Arrow table", frame)
    return {label: frame[label] for label in frame.columns}


def plain_column(column: Any) -> Any:
    """Pandas columns as arrays and Arrow columns as polars series; others as they are."""
    library = type(column).__module__.split(".")[0]
    if library == "pandas":
        return array_of("a column", column, "one-dimensional")
    if library != "polars" and (hasattr(column, "__arrow_c_array__") or hasattr(column, "__arrow_c_stream__")):
        import polars as pl

        try:
            return pl.Series("", column)
        except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
            raise InputError(f"a column cannot be read ({shown(str(error))[1:-1]}).") from error
    return column


def guarded(frame: pl.DataFrame) -> pl.DataFrame:
    """The table for a CSV file, where a spreadsheet must not run what somebody's id holds."""
    import polars as pl

    return frame.with_columns(pl.col(pl.String).str.replace(FORMULA, "'$1"))


def suffix_of(path: Path, known: Sequence[str] = (*TEXT, *LINES, PARQUET)) -> str:
    """The ending of a file's name that tells its format."""
    suffix = next((end for end in known if path.name.lower().endswith(end)), None)
    if suffix is None:
        raise FileFormatError(
            f"{shown_path(path)} does not end in one of {', '.join(known)}; the suffix tells the format."
        )
    return suffix


def read_table(
    path: Path,
    *,
    types: Mapping[str, Any] | None = None,
    separator: str | None = None,
    columns: Sequence[str] | None = None,
    most_rows: int | None = None,
) -> pl.DataFrame:
    """The rows of a file, in the format that its suffix tells.

    ``types`` are polars types of some columns of a text file; the others are found from all of its rows. ``separator``
    is by default what :func:`between_fields` finds in the header. Of a Parquet file only ``columns`` and the first
    ``most_rows`` are read; if one of the columns is missing, the table has all columns and no rows.
    """
    import polars as pl

    suffix = suffix_of(path)
    with file_errors(path, suffix):
        if suffix == PARQUET:
            with panics_kept_quiet():
                return _read_parquet(path, columns, most_rows)
        # A line becomes a text of its own before its fields do; gzip halves and more.
        check_memory(f"reading {shown_path(path)}", path.stat().st_size * (24.0 if suffix.endswith(".gz") else 6.0))
        if suffix not in TEXT:
            with panics_kept_quiet():
                return pl.read_ndjson(path, infer_schema_length=None)
        header, source = _text_source(path, gzipped=suffix.endswith(".gz"))
        between = separator or between_fields(suffix, header)
        _refuse_ragged(path, source, between)
        # The whole file is looked at for types: a word in the last row makes a column text.
        return pl.read_csv(source, separator=between, schema_overrides=types, infer_schema_length=None, glob=False)


@contextmanager
def file_errors(path: Path, suffix: str) -> Iterator[None]:
    """Whatever goes wrong in reading this file becomes one clear error."""
    import polars as pl

    try:
        yield
    except (OSError, EOFError, zlib.error, csv.Error, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        reason = getattr(error, "strerror", None) or (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise FileFormatError(
            f"cannot read {shown_path(path)}: {shown(reason, 120)[1:-1]}. "
            f"Check the path, and that it is a complete {suffix} file."
        ) from error


def _read_parquet(path: Path, columns: Sequence[str] | None, most_rows: int | None) -> pl.DataFrame:
    import polars as pl

    table = pl.scan_parquet(path, glob=False)
    types = table.collect_schema()
    wanted = list(types) if columns is None else list(columns)
    if any(name not in types for name in wanted):
        return table.limit(0).collect()
    width = sum(8 if types[name].is_numeric() or types[name].is_temporal() else 64 for name in wanted)
    rows = table.select(pl.len()).collect().item()
    # Once decoded, and once more on the way there.
    check_memory(f"reading {shown_path(path)}", 2.0 * width * (rows if most_rows is None else min(rows, most_rows)))
    return pl.read_parquet(path, columns=wanted, n_rows=most_rows, glob=False)


def between_fields(suffix: str, header: str) -> str:
    """The character between the fields of a text file: the suffix's own, or a semicolon or tab if the header has that.

    Spreadsheets of many countries write a semicolon into a .csv file, since the comma is in their numbers.
    """
    # The suffix's own wins wherever it stands: names of columns may hold the others.
    return next((mark for mark in (TEXT[suffix], ";", "\t") if mark in header), TEXT[suffix])


def _text_source(path: Path, *, gzipped: bool) -> tuple[str, Path | bytes]:
    """The first line, and the file itself, or its bytes with other line ends if its lines end in a bare CR."""
    with gzip.open(path) if gzipped else path.open("rb") as file:
        start = file.read(_PEEK)
        header = re.split(rb"[\r\n]", start, maxsplit=1)[0].decode("utf-8", "replace")
        if b"\r" not in start or b"\n" in start:
            return header, path
        return header, (start + file.read()).replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _refuse_ragged(path: Path, source: Path | bytes, separator: str) -> None:
    """An error that names the first line whose number of fields is not the header's."""
    import polars as pl

    lines = pl.read_lines(source if isinstance(source, Path) else io.BytesIO(source), name="line")["line"]
    if not len(lines):
        return  # polars has its own words for an empty file
    if not lines[0].strip():
        raise FileFormatError(f"{shown_path(path)} begins with an empty line. The first line must name the columns.")
    if (lines.str.count_matches('"', literal=True) % 2 == 1).any():  # a quoted field goes over several lines
        _refuse_ragged_records(path, "\n".join(lines.to_list()), separator)
        return
    counts = lines.str.count_matches(separator, literal=True)
    wanted = len(next(csv.reader([lines[0]], delimiter=separator), [])) - 1
    doubtful = (counts != wanted) | lines.str.contains('"', literal=True)
    odd = (doubtful & (lines.str.strip_chars() != "")).arg_true()
    for line in odd.to_list():
        fields = next(csv.reader([lines[line]], delimiter=separator))
        if len(fields) != wanted + 1:
            raise _ragged(path, line + 1, len(fields), wanted + 1)


def _refuse_ragged_records(path: Path, text: str, separator: str) -> None:
    reader = csv.reader(io.StringIO(text), delimiter=separator)
    wanted = None
    for fields in reader:
        wanted = len(fields) if wanted is None else wanted
        if fields and len(fields) != wanted:
            raise _ragged(path, reader.line_num, len(fields), wanted)


def _ragged(path: Path, line: int, fields: int, wanted: int) -> FileFormatError:
    return FileFormatError(
        f"{shown_path(path)}, line {line}: {fields} field{'s' if fields > 1 else ''}, but the header has {wanted}. "
        "Mend that line; a field that holds the separator needs quotes."
    )


@contextmanager
def panics_kept_quiet() -> Iterator[None]:
    """Keeps the trace of a panic off the terminal: Rust writes it to the file descriptor before Python can see it."""
    import polars as pl

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
