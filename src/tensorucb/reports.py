"""What the reader of a table and later preparations kept, what they left out, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from tensorucb.checks import check_flag, check_share, shown
from tensorucb.errors import Mention, TableError, TensorUCBError, argument

_FIRST_LINES = 5


class Tolerance(NamedTuple):
    """Which share of the rows of a table may be unusable before all of it is refused; with ``strict`` none."""

    strict: bool = False
    most: float = 0.5
    may_be_lenient: bool = True

    @classmethod
    def of(cls, strict: Any, max_left_out: Any) -> Tolerance:
        """The tolerance that a caller wants, checked."""
        return cls(check_flag("strict", strict), check_share("max_left_out", max_left_out))


LENIENT = Tolerance()
STRICT = Tolerance(strict=True, may_be_lenient=False)
"""For tables of which every row must be sound."""


@dataclass(frozen=True)
class LeftOut:
    """Rows left out for one reason.

    Attributes
    ----------
    first_lines
        Where the first few stood: line numbers of a text file (1 is its first line), rows of everything else.
    malformed
        Whether the rows were broken, rather than sound but not wanted (a repeated vote, say). ``strict=True``
        refuses malformed rows only.
    examples
        What stood there.
    """

    reason: str
    count: int
    first_lines: tuple[int, ...] = ()
    malformed: bool = False
    examples: tuple[str, ...] = ()

    @classmethod
    def of_lines(
        cls, reason: str, lines: Any, *, malformed: bool = False, example: Callable[[int], str | None] | None = None
    ) -> LeftOut:
        """The entry for all rows with these line numbers; ``example`` gives what stood in one of them."""
        numbers = np.asarray(lines, dtype=np.int64)
        first = np.argsort(numbers, kind="stable")[:_FIRST_LINES].tolist()
        distinct = {} if example is None else dict.fromkeys(map(example, first))
        words = tuple(shown(value, 40) for value in distinct if value is not None)
        return cls(reason, numbers.size, tuple(numbers[first].tolist()), malformed, words)

    @property
    def where(self) -> str:
        """The reason, the first lines, and what stood there."""
        lines = ", ".join(map(str, self.first_lines))
        more = ", …" if self.count > len(self.first_lines) else ""
        such = f": {', '.join(self.examples)}" if self.examples else ""
        return self.reason + (f" (line{'s' if self.count > 1 else ''} {lines}{more}{such})" if lines else "")

    def __str__(self) -> str:
        return f"{self.count:,} left out: {self.where}"


@dataclass(frozen=True)
class FileReport:
    """One table: rows read, rows kept, rows left out by reason, columns ignored, and remarks."""

    file: str
    rows: int
    kept: int
    left_out: tuple[LeftOut, ...] = ()
    ignored_columns: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def without(self, *more: LeftOut) -> FileReport:
        """The same table with more rows left out; reasons without a row are not listed."""
        told = tuple(entry for entry in more if entry.count)
        return replace(self, kept=self.kept - sum(e.count for e in told), left_out=self.left_out + told)

    def check(
        self,
        tolerance: Tolerance,
        kind: type[TensorUCBError] = TableError,
        advice: tuple[str | Mention, ...] = ("Mend them",),
    ) -> None:
        """Refuse the table if more of its rows are malformed than the tolerance allows."""
        broken = [entry for entry in self.left_out if entry.malformed]
        count = sum(entry.count for entry in broken)
        if not count or (not tolerance.strict and count <= tolerance.most * self.rows):
            return
        said = "; ".join(entry.where for entry in broken)
        instead: tuple[str | Mention, ...] = ()
        if tolerance.strict and tolerance.may_be_lenient:
            instead = (", or leave them out: without ", argument("strict"))
        elif not tolerance.strict:
            instead = (", or allow a larger share with ", argument("max_left_out", 1.0))
        raise kind(
            f"{self.file}: {count:,} of {self.rows:,} rows cannot be used: {said}.", advice=(*advice, *instead, ".")
        )

    def __str__(self) -> str:
        lines = [f"{self.file}: {self.rows:,} rows, {self.kept:,} kept", *map(str, self.left_out)]
        if self.ignored_columns:
            lines.append(f"columns ignored: {', '.join(self.ignored_columns)}")
        return "\n  ".join([*lines, *self.remarks])


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
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join([*map(str, self.files), *self.steps])
