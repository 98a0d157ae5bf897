"""What a reader or a preparation kept, what it left out, and why."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from tensorucb.errors import FileFormatError, argument

if TYPE_CHECKING:
    import polars as pl

_FIRST_LINES = 5


@dataclass(frozen=True)
class LeftOut:
    """Rows left out for one reason.

    Parameters
    ----------
    first_lines
        The line numbers of the first few (1 is the file's first line; rows for Parquet).
    malformed
        Whether the rows were broken, rather than sound but not wanted (a repeated vote, say). ``strict=True``
        raises at the first malformed row only.

    Examples
    --------
    >>> print(LeftOut("a link from a user to itself", 2, first_lines=(3, 8)))
    2 left out: a link from a user to itself (lines 3, 8)
    """

    reason: str
    count: int
    first_lines: tuple[int, ...] = ()
    malformed: bool = False

    @classmethod
    def of_lines(cls, reason: str, lines: pl.Series, *, malformed: bool = False) -> LeftOut:
        """The entry for all rows with these line numbers."""
        return cls(reason, len(lines), tuple(lines.sort().head(_FIRST_LINES).to_list()), malformed)

    def __str__(self) -> str:
        lines = ", ".join(map(str, self.first_lines))
        more = ", …" if self.count > len(self.first_lines) else ""
        where = f" (line{'s' if self.count > 1 else ''} {lines}{more})" if lines else ""
        return f"{self.count:,} left out: {self.reason}{where}"


@dataclass(frozen=True)
class FileReport:
    """One file: rows read, rows kept, rows left out by reason, columns ignored, and remarks.

    Examples
    --------
    >>> print(FileReport("edges.csv", rows=20, kept=18, ignored_columns=("since",)))
    edges.csv: 20 rows, 18 kept
      columns ignored: since
    """

    file: str
    rows: int
    kept: int
    left_out: tuple[LeftOut, ...] = ()
    ignored_columns: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def without(self, *more: LeftOut) -> FileReport:
        """The same file with more rows left out; reasons without a row are not listed."""
        told = tuple(entry for entry in more if entry.count)
        return replace(self, kept=self.kept - sum(e.count for e in told), left_out=self.left_out + told)

    def __str__(self) -> str:
        lines = [f"{self.file}: {self.rows:,} rows, {self.kept:,} kept", *map(str, self.left_out)]
        if self.ignored_columns:
            lines.append(f"columns ignored: {', '.join(self.ignored_columns)}")
        return "\n  ".join([*lines, *self.remarks])


@dataclass(frozen=True)
class Report:
    """The files that were read, and the steps of preparation since.

    Examples
    --------
    >>> print(Report((FileReport("edges.csv", rows=20, kept=18),), steps=("2 users dropped: isolated",)))
    edges.csv: 20 rows, 18 kept
    2 users dropped: isolated
    """

    files: tuple[FileReport, ...] = ()
    steps: tuple[str, ...] = ()

    @property
    def malformed(self) -> int:
        """Number of malformed rows in all files."""
        return sum(entry.count for file in self.files for entry in file.left_out if entry.malformed)

    def then(self, *steps: str) -> Report:
        """The report with further steps of preparation."""
        return replace(self, steps=self.steps + steps)

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON-ready values."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join([*map(str, self.files), *self.steps])


def refuse(file: str, reason: str, line: int, text: str = "") -> None:
    """Raise the error of ``strict=True`` for one malformed row."""
    shown = f" The line reads {text[:80]!r}." if text else ""
    raise FileFormatError(
        f"{file}, line {line}: {reason}.{shown}",
        advice=("Mend the line, or read with ", argument("strict", False), " to leave such rows out."),
    )
