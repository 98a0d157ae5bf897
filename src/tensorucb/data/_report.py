"""What a reader or a preparation kept, what it left out, and why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tensorucb.errors import FileFormatError

FIRST_LINES = 5


@dataclass(frozen=True)
class LeftOut:
    """Rows left out for one reason.

    Parameters
    ----------
    reason
        Why, in words.
    count
        How many rows.
    first_lines
        The line numbers of the first few (1 is the file's first line; rows for Parquet).
    malformed
        Whether the rows were broken, rather than sound but not wanted (a repeated vote, say). ``strict=True``
        raises at the first malformed row only.
    """

    reason: str
    count: int
    first_lines: tuple[int, ...] = ()
    malformed: bool = False

    def __str__(self) -> str:
        lines = ", ".join(map(str, self.first_lines))
        more = ", …" if self.count > len(self.first_lines) else ""
        where = f" (line{'s' if self.count > 1 else ''} {lines}{more})" if lines else ""
        return f"{self.count:,} left out: {self.reason}{where}"


@dataclass(frozen=True)
class FileReport:
    """One file: rows read, rows kept, rows left out by reason, columns ignored, and remarks."""

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
        lines = [f"{self.file}: {self.rows:,} rows, {self.kept:,} kept"]
        lines += [f"  {entry}" for entry in self.left_out]
        if self.ignored_columns:
            lines.append(f"  columns ignored: {', '.join(self.ignored_columns)}")
        return "\n".join(lines + [f"  {remark}" for remark in self.remarks])


@dataclass(frozen=True)
class Report:
    """The files that were read, and the steps of preparation since."""

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
        return {
            "files": [
                {
                    "file": file.file,
                    "rows": file.rows,
                    "kept": file.kept,
                    "left_out": [
                        {
                            "reason": entry.reason,
                            "count": entry.count,
                            "first_lines": list(entry.first_lines),
                            "malformed": entry.malformed,
                        }
                        for entry in file.left_out
                    ],
                    "ignored_columns": list(file.ignored_columns),
                    "remarks": list(file.remarks),
                }
                for file in self.files
            ],
            "steps": list(self.steps),
        }

    def __str__(self) -> str:
        return "\n".join([*map(str, self.files), *self.steps])


def refuse(file: str, reason: str, line: int, text: str = "") -> None:
    """Raise the error of ``strict=True`` for one malformed row."""
    shown = f" The line reads {text[:80]!r}." if text else ""
    raise FileFormatError(
        f"{file}, line {line}: {reason}.{shown} Mend the line, or read with strict=False to leave such rows out."
    )
