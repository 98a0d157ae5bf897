"""Tables and the manifest of an experiment on disk.

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
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tensorucb.checks import check_path, check_sequence, check_text
from tensorucb.errors import InputError
from tensorucb.experiments._fingerprint import code_digest, package_version
from tensorucb.experiments._results import Experiment
from tensorucb.experiments._tuning import Tuning
from tensorucb.files import FORMULA, atomic_write

_NUMBER = re.compile(r"[+-]?[0-9.,]+(e[+-]?[0-9]+)?")


def write_csv(path: str | Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Path:
    """Write a table, whole or not at all; floats with all their digits, so that equal numbers are equal bytes.

    A text that a spreadsheet would take for a formula gets an apostrophe in front; numbers stay as they are.

    Examples
    --------
    >>> from tensorucb.experiments import write_csv
    >>> path = write_csv("table.csv", ["policy", "regret"], [["LinUCB", 7.7]])
    >>> print(path.read_text().strip())
    policy,regret
    LinUCB,7.7
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_plain(value) for value in row] for row in rows)
    with atomic_write(path) as file:
        file.write(buffer.getvalue().encode())
    return Path(path)


def write_rows(path: str | Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write rows that name their columns, all of them the same ones.

    Examples
    --------
    >>> from tensorucb.experiments import write_rows
    >>> print(write_rows("rows.csv", [{"policy": "LinUCB", "regret": 7.7}]).read_text().strip())
    policy,regret
    LinUCB,7.7
    """
    return write_csv(path, list(rows[0]), (list(row.values()) for row in rows))


def _plain(value: Any) -> Any:
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

    Examples
    --------
    >>> from tensorucb.experiments import write_latex
    >>> path = write_latex("table.tex", ["policy", "regret"], [["LinUCB", "7.7"]])
    >>> path.name
    'table.tex'
    """
    file = check_path("path", path)
    columns, cells = (
        _texts("columns", columns),
        [_texts("rows", row) for row in check_sequence("rows", rows, "a list of rows")],
    )
    if not columns or any(len(row) != len(columns) for row in cells):
        raise InputError("columns must name at least one column, and each row must have a cell for every one of them.")
    right = [all(re.match(r"[+-]?\d|$", row[at]) for row in cells) for at in range(len(columns))]
    table = "l" + "".join("r" if numbers else "l" for numbers in right[1:])

    def line(row: Sequence[str]) -> str:
        return " & ".join(map(_latex, row)) + r" \\"

    body = ["% \\usepackage{booktabs}", rf"\begin{{tabular}}{{{table}}}", r"\toprule", line(columns), r"\midrule"]
    body += [*map(line, cells), r"\bottomrule", r"\end{tabular}"]
    with atomic_write(file) as out:
        out.write(("\n".join(body) + "\n").encode())
    return file


def _texts(name: str, values: Any) -> list[str]:
    found = check_sequence(name, values, "a list of texts")
    return [check_text(f"a cell of {name}", value, empty=True) for value in found]


def _latex(cell: str) -> str:
    """A cell's text for LaTeX; a negative number gets a minus sign, where a hyphen would be printed."""
    text = re.sub(r"^-(?=\d)", "−", " ".join(cell.split()))
    return "".join(_LATEX.get(c, c) for c in text if c.isprintable())


def write_regret(path: str | Path, experiment: Experiment) -> Path:
    """``regret.csv``: one row for each policy, run and round.

    Examples
    --------
    >>> from tensorucb.data import make_sandbox
    >>> from tensorucb.experiments import Environment, WorldSettings, run_experiment, write_regret
    >>> world = Environment.from_sandbox(make_sandbox(60, 400, 5, rng=0), settings=WorldSettings(k=3))
    >>> from tensorucb.policies import HighDegree, Random
    >>> found = run_experiment(world, {"HighDegree": HighDegree(), "Random": Random()}, rounds=4, runs=2)
    >>> write_regret("regret.csv", found).read_text().splitlines()[0]
    'policy,run,round,product,spread,regret,average_regret'
    """
    columns = ("policy", "run", "round", "product", "spread", "regret", "average_regret")
    rows = (
        (r.policy, r.run, t + 1, int(r.product[t]), r.spread[t], r.regret[t], r.average_regret[t])
        for r in experiment.results
        for t in range(r.regret.size)
    )
    return write_csv(path, columns, rows)


def write_validation(path: str | Path, tuning: Tuning) -> Path:
    """``validation.csv``: one row for each setting tried.

    Examples
    --------
    >>> from tensorucb.data import make_sandbox
    >>> from tensorucb.experiments import Environment, WorldSettings, tune, write_validation
    >>> world = Environment.from_sandbox(make_sandbox(60, 400, 5, rng=0), settings=WorldSettings(k=3))
    >>> from tensorucb.policies import HighDegree
    >>> write_validation("validation.csv", tune(world, {"HighDegree": HighDegree()}, rounds=2)).name
    'validation.csv'
    """
    return write_csv(path, ("policy", "setting", "average_regret", "chosen"), tuning.rows())


def write_timings(path: str | Path, experiment: Experiment) -> Path:
    """Seconds of each round, split into scoring, selecting and updating; these differ between repetitions."""
    rows = ((r.policy, r.run, t + 1, *r.seconds[t].tolist()) for r in experiment.results for t in range(r.regret.size))
    return write_csv(path, ("policy", "run", "round", "score", "select", "update"), rows)


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

    Examples
    --------
    >>> from tensorucb.experiments import write_manifest
    >>> write_manifest("manifest.json", command=["compare"], seed=0, environment={"users": 60}, settings={}).name
    'manifest.json'
    """
    packages = ("tensorucb", "numpy", "numba", "scipy", "scikit-learn", "polars", "altair")
    content = {
        "command": list(command),
        "seed": seed,
        "environment": dict(environment),
        "settings": dict(settings),
        "data": dict(data or {}),
        "code_sha256": code_digest(),
        "versions": {"python": platform.python_version(), **{name: package_version(name) for name in packages}},
        "platform": f"{sys.platform} {platform.machine()}",
    }
    with atomic_write(path) as file:
        file.write((json.dumps(content, indent=2, sort_keys=True, default=repr) + "\n").encode())
    return Path(path)
