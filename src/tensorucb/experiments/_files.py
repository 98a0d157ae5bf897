"""Tables, tuned settings and the manifest of an experiment on disk.

Everything but the timings is a function of the settings, so a repeated or resumed experiment writes the same bytes.
Timings have files of their own.
"""

from __future__ import annotations

import csv
import io
import json
import platform
import re
import sys
import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tensorucb.checks import check_mapping, check_path, check_sequence, check_text, refusal, shown_path
from tensorucb.errors import FileFormatError, InputError
from tensorucb.experiments._runs import code_digest, package_version
from tensorucb.experiments._tuning import Tuning, best
from tensorucb.files import FORMULA, write_bytes
from tensorucb.policies import Grid

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_NUMBER = re.compile(r"[+-]?[0-9.,]+(e[+-]?[0-9]+)?")


def write_csv(path: str | Path, table: pl.DataFrame | Sequence[Mapping[str, Any]]) -> Path:
    """Write a polars frame, or rows that name their columns, whole or not at all.

    Floats have all their digits, so that equal numbers are equal bytes. A text that a spreadsheet would take for a
    formula gets an apostrophe in front; numbers stay as they are.

    Examples
    --------
    >>> from tensorucb.experiments import write_csv
    >>> path = write_csv("table.csv", [{"policy": "LinUCB", "regret": 7.7}])
    >>> print(path.read_text().strip())
    policy,regret
    LinUCB,7.7
    """
    file = check_path("path", path)
    if isinstance(table, pl.DataFrame):
        columns, rows = table.columns, table.rows()
    else:
        listed = check_sequence("table", table, "a polars frame, or a list of rows")
        named = [check_mapping("a row", row, "a mapping of columns to values") for row in listed]
        if not named:
            raise InputError("must hold at least one row: it names the columns.", argument="table")
        columns, rows = list(named[0]), [tuple(row.values()) for row in named]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([check_text("a column", column, empty=True) for column in columns])
    writer.writerows([_plain(value) for value in row] for row in rows)
    return write_bytes(file, buffer.getvalue().encode())


def _plain(value: Any) -> Any:
    if isinstance(value, Collection) and not isinstance(value, str):
        raise refusal("a cell of rows", "a number or a text", value)
    if isinstance(value, float | np.floating):
        return repr(float(value))
    return re.sub(FORMULA, r"'\1", value) if isinstance(value, str) and not _NUMBER.fullmatch(value) else value


# What LaTeX reads as more than a letter.
_LATEX = {c: f"\\{c}" for c in "&%$#_{}"} | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}"}
_LATEX |= {"^": r"\textasciicircum{}", "±": r"$\pm$", "−": "$-$", "≤": r"$\le$"}
_LATEX |= {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
_LATEX |= {"[": "{[}", "*": "{*}"}  # at the start of a row, an option of the line break before it


def write_latex(path: str | Path, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Path:
    """Write a table of texts as a LaTeX ``tabular`` with the rules of the package booktabs; the first column is a name.

    Columns whose cells all begin with a digit or a sign stand to the right.
    """
    right = [all(re.match(r"[+-]?\d|$", row[at]) for row in rows) for at in range(len(columns))]
    table = "l" + "".join("r" if numbers else "l" for numbers in right[1:])

    def line(row: Sequence[str]) -> str:
        return " & ".join(map(_latex, row)) + r" \\"

    body = ["% \\usepackage{booktabs}", rf"\begin{{tabular}}{{{table}}}", r"\toprule", line(columns), r"\midrule"]
    body += [*map(line, rows), r"\bottomrule", r"\end{tabular}"]
    return write_bytes(path, ("\n".join(body) + "\n").encode())


def _latex(cell: str) -> str:
    """A cell's text for LaTeX; a negative number gets a minus sign, where a hyphen would be printed."""
    text = re.sub(r"^-(?=\d)", "−", " ".join(cell.split()))
    return "".join(_LATEX.get(c, c) for c in text if c.isprintable())


def write_validation(path: str | Path, tuning: Tuning) -> Path:
    """``validation.csv``: one row for each setting tried."""
    columns = ("policy", "setting", "average_regret", "chosen")
    return write_csv(path, pl.DataFrame(tuning.rows(), schema=columns, orient="row"))


def write_settings(path: str | Path, tuning: Tuning, kept: Mapping[str, Grid] | None = None) -> Path:
    """The chosen settings as a TOML file that :func:`read_settings` reads: a table per policy, a value per argument.

    ``kept`` holds the settings that are to stay in the file where nothing was chosen.
    """
    tables: dict[str, Grid] = dict(kept or {})
    for label, trials in tuning.trials.items():
        tables[label] = {name: [value] for name, value in best(trials).arguments.items()}
    lines = []
    for label, grid in tables.items():
        lines.append(f"[{_toml(label)}]")
        for name, values in grid.items():
            texts = [_toml(value) for value in values]
            key = name if _BARE_KEY.fullmatch(name) else _toml(name)
            lines.append(f"{key} = {texts[0] if len(texts) == 1 else '[' + ', '.join(texts) + ']'}")
        lines.append("")
    return write_bytes(path, "\n".join(lines).encode())


def _toml(value: Any) -> str:
    """A text, a number or a truth value as TOML writes it."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else repr(value)


def read_settings(path: str | Path) -> dict[str, dict[str, Sequence[Any]]]:
    """Grids from a TOML file: a table per policy, a list or a single value per argument.

    .. code-block:: toml

        [TensorUCB]
        exploration = [0.1, 0.3, 1.0]
        rank = 5
    """
    file = check_path("path", path)
    try:
        content = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise FileFormatError(f"cannot read {shown_path(file)}: {error.strerror or error}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{shown_path(file)} is not valid TOML: {error}.") from error
    grids: dict[str, dict[str, Sequence[Any]]] = {}
    for label, table in content.items():
        if not isinstance(table, dict):
            raise FileFormatError(f"{shown_path(file)}: {label!r} must be a table of arguments, such as [TensorUCB].")
        grids[label] = {name: value if isinstance(value, list) else [value] for name, value in table.items()}
        if not all(grids[label].values()):
            raise FileFormatError(f"{shown_path(file)}: an empty list under [{label}] leaves nothing to try.")
        if not all(isinstance(value, str | int | float) for values in grids[label].values() for value in values):
            raise FileFormatError(f"{shown_path(file)}: [{label}] may hold texts, numbers, true and false only.")
    return grids


def write_manifest(
    path: str | Path,
    *,
    command: Sequence[str],
    seed: int,
    environment: Mapping[str, Any],
    settings: Mapping[str, Any],
    data: Mapping[str, Any] | None = None,
) -> Path:
    """``manifest.json``: what ran, on what, with which versions; enough to run it again.

    ``data`` says where the network came from: a data set's checksum, or a generator's arguments.
    """
    packages = ("tensorucb", "numpy", "numba", "scipy", "scikit-learn", "polars", "altair")
    content = {
        "command": command,
        "seed": seed,
        "environment": environment,
        "settings": settings,
        "data": data or {},
        "code_sha256": code_digest(),
        "versions": {"python": platform.python_version(), **{name: package_version(name) for name in packages}},
        "platform": f"{sys.platform} {platform.machine()}",
    }
    return write_bytes(path, (json.dumps(content, indent=2, sort_keys=True, default=repr) + "\n").encode())
