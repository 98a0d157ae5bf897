"""``python -m benchmarks [--quick] [--only ROOM] [--json] [--write FILE]``: every room's timings in one table."""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.table import Table

COLUMNS = ("room", "what", "ours", "reference", "ratio", "unit")
Rows = list[dict[str, object]]


def rooms() -> list[str]:
    """Names of the rooms that have a ``bench_<room>.py``."""
    return sorted(path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py"))


def measure(names: list[str], quick: bool) -> Rows:
    """The rows of every room, one room after the other."""
    rows: Rows = []
    for name in names:
        print(f"measuring {name} …", file=sys.stderr)
        rows += importlib.import_module(f"benchmarks.bench_{name}").run(quick)
    return [{**row, "what": f"{row['what']}, beside {row['beside']}"} if "beside" in row else row for row in rows]


def cells(row: dict[str, object]) -> list[str]:
    """One row as text; numbers with three significant digits."""
    values = [row.get(column) for column in COLUMNS]
    return ["–" if v is None else f"{v:.3g}" if isinstance(v, float) else str(v) for v in values]


def cpu_model() -> str:
    """The processor's name as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def machine() -> str:
    """Cores, processor and versions, in one line."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"{cores} cores, {cpu_model()}, Python {platform.python_version()}, "
        f"numba {version('numba')}, numpy {version('numpy')}, tensorucb {version('tensorucb')}"
    )


def markdown(rows: Rows, command: str) -> str:
    """The table as a page, with all one needs to measure it again."""
    lines = [
        "# Benchmarks",
        "",
        f"Measured with `{command}` on {datetime.date.today().isoformat()}: {machine()}.",
        "`ratio` is reference / ours, and for rates (a unit per second) ours / reference: above 1 ours is faster. "
        "The reference ran in the same process.",
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "| --- | --- | ---: | ---: | ---: | --- |",
        *("| " + " | ".join(cells(row)).replace("\n", " ") + " |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


def show(rows: Rows) -> None:
    """Print the table."""
    table = Table(caption=machine())
    for column in COLUMNS:
        table.add_column(column, justify="right" if column in ("ours", "reference", "ratio") else "left")
    for row in rows:
        table.add_row(*cells(row))
    Console().print(table)


def command(options: argparse.Namespace) -> str:
    """What to type at the project's root to measure the same again."""
    flags = [
        *(["--quick"] if options.quick else []),
        *([f"--only {options.only}"] if options.only else []),
        f"--write {options.write.as_posix()}",
    ]
    return f'make bench ARGS="{" ".join(flags)}"'


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that everything runs")
    parser.add_argument("--only", metavar="ROOM", choices=rooms(), help=f"one of {', '.join(rooms())}")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON instead of a table")
    parser.add_argument("--write", metavar="FILE", type=Path, help="also write the table as markdown")
    options = parser.parse_args(arguments)
    rows = measure([options.only] if options.only else rooms(), options.quick)
    if options.json:
        print(json.dumps({"machine": machine(), "quick": options.quick, "rows": rows}, indent=2))
    else:
        show(rows)
    if options.write:
        options.write.parent.mkdir(parents=True, exist_ok=True)
        options.write.write_text(markdown(rows, command(options)), encoding="utf-8")


if __name__ == "__main__":
    main()
