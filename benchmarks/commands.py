"""Wall and CPU seconds of commands as a person types them: ``python -m benchmarks.commands [--repeat 5] [--json]``.

Each command is a process of its own, on a campaign of 10,000 users and 40,000 edges. The first run of each, which may
compile kernels, does not count; of the others the best counts, since other work on the machine only adds. CPU is what
the system charged the process with.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

USERS, EDGES = 10_000, 40_000
CREATE = ("--edges", "edges.csv", "--users", "users.csv", "--products", "products.csv")
COMMANDS = {
    "--help": ("--help",),
    "create": ("create", "{new}", *CREATE),
    "status": ("status",),
    "status NAME": ("status", "c"),
    "ask": ("ask", "c", "--product", "tea", "-k", "10"),
    "tell": ("tell", "c", "1", "responses.csv"),
    "close": ("close", "c", "1"),
}


def write_tables(folder: Path) -> None:
    rng = np.random.default_rng(0)
    sources = rng.integers(0, USERS, EDGES)
    targets = (sources + 1 + rng.integers(0, USERS - 1, EDGES)) % USERS
    pl.DataFrame({"source": sources, "target": targets}).write_csv(folder / "edges.csv")
    ages, cities = rng.integers(18, 80, USERS), rng.choice(["north", "south", "west"], USERS)
    pl.DataFrame({"user": np.arange(USERS), "age": ages, "city": cities}).write_csv(folder / "users.csv")
    pl.DataFrame({"product": ["tea", "jam"], "x": [1.0, 0.0], "y": [0.0, 1.0]}).write_csv(folder / "products.csv")
    moments = np.full(5, time.time())
    pl.DataFrame({"user": rng.integers(0, USERS, 5), "time": moments}).write_csv(folder / "responses.csv")


def spent(folder: Path, *words: str) -> tuple[float, float]:
    """Wall and CPU seconds of one command."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "tensorucb", *words],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(words)} failed: {said.decode()}")
    return wall, usage.ru_utime + usage.ru_stime


def measure(repeat: int) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tables(folder)
        spent(folder, "create", "c", *CREATE)
        spent(folder, *COMMANDS["ask"])
        for what, words in COMMANDS.items():
            runs = [spent(folder, *(word.format(new=f"new-{i}") for word in words)) for i in range(repeat + 1)][1:]
            wall, cpu = (min(run[i] for run in runs) for i in (0, 1))
            rows.append({"command": what, "wall": wall, "cpu": cpu})
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.commands", description=__doc__)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options.repeat)
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        for row in found:
            print(f"{row['command']:<12} {row['wall']:6.2f} s wall  {row['cpu']:6.2f} s CPU")
