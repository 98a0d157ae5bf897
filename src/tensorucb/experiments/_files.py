"""Results on disk: finished runs (one file each, written whole), CSV tables, and the manifest.

Everything but the timings is a function of the settings, so a repeated or resumed experiment writes the same bytes.
Timings have files of their own.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import platform
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from tensorucb.checks import check_path
from tensorucb.errors import FileFormatError
from tensorucb.experiments._environment import Environment
from tensorucb.experiments._fingerprint import fingerprint
from tensorucb.experiments._runner import Experiment, RunResult, policy_settings
from tensorucb.experiments._tuning import Tuning
from tensorucb.files import FORMULA, atomic_write, read_state, write_state
from tensorucb.policies import Policy

REGRET_COLUMNS = ("policy", "run", "round", "product", "spread", "regret", "average_regret")
_KIND = "experiment run"
_NUMBER = re.compile(r"[+-]?[0-9.,]+(e[+-]?[0-9]+)?")
_ROOMS = ("diffusion", "experiments", "features", "graph", "learner", "oracle", "policies", "truth")


class RunFiles:
    """The finished runs of an experiment; a run is either there, complete, or not there.

    A file's name carries a digest of everything that the run depends on, so files of other settings, seeds, data or
    code are never mistaken for it.
    """

    def __init__(self, directory: str | Path, environment: Environment, *, rounds: int, seed: int) -> None:
        self.directory = check_path("directory", directory)
        self._base = {
            "environment": environment.describe(),
            "rounds": rounds,
            "seed": seed,
            "version": _version("tensorucb"),
            "code": code_digest(),
        }
        # Taken once per policy: learning must not change it.
        self._policies: dict[int, tuple[Policy, str]] = {}

    def path(self, label: str, policy: Policy, run: int) -> Path:
        """Where this policy's run is kept."""
        if id(policy) not in self._policies:
            self._policies[id(policy)] = policy, fingerprint(policy)
        about = {**self._base, "policy": self._policies[id(policy)][1], "run": run}
        digest = hashlib.sha256(json.dumps(about, sort_keys=True, default=repr).encode()).hexdigest()[:12]
        slug = re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")
        return self.directory / f"{slug}-{run}-{digest}.npz"

    def read(self, label: str, policy: Policy, run: int) -> RunResult | None:
        """The finished run, or None. A damaged file counts as not there: the run is repeated."""
        path = self.path(label, policy, run)
        if not path.exists():
            return None
        try:
            _, arrays = read_state(path, _KIND)
        except FileFormatError:
            return None
        return RunResult(label, run, arrays["product"], arrays["spread"], arrays["optimum"], arrays["seconds"])

    def write(self, result: RunResult, policy: Policy) -> None:
        """Keep a finished run."""
        arrays = {name: getattr(result, name) for name in ("product", "spread", "optimum", "seconds")}
        write_state(self.path(result.policy, policy, result.run), _KIND, policy_settings(policy), arrays)


def write_csv(path: str | Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Path:
    """Write a table, whole or not at all; floats with all their digits, so that equal numbers are equal bytes.

    A text that a spreadsheet would take for a formula gets an apostrophe in front; numbers stay as they are.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_plain(value) for value in row] for row in rows)
    with atomic_write(path) as file:
        file.write(buffer.getvalue().encode())
    return Path(path)


def write_rows(path: str | Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write rows that name their columns, all of them the same ones."""
    return write_csv(path, list(rows[0]), (list(row.values()) for row in rows))


def _plain(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return repr(float(value))
    return re.sub(FORMULA, r"'\1", value) if isinstance(value, str) and not _NUMBER.fullmatch(value) else value


def write_regret(path: str | Path, experiment: Experiment) -> Path:
    """``regret.csv``: one row for each policy, run and round."""
    rows = (
        (r.policy, r.run, t + 1, int(r.product[t]), r.spread[t], r.regret[t], r.average_regret[t])
        for r in experiment.results
        for t in range(r.regret.size)
    )
    return write_csv(path, REGRET_COLUMNS, rows)


def write_validation(path: str | Path, tuning: Tuning) -> Path:
    """``validation.csv``: one row for each setting tried."""
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

    Parameters
    ----------
    data
        Where the network came from: a data set's checksum, or a generator's arguments.
    """
    packages = ("tensorucb", "numpy", "numba", "scipy", "scikit-learn", "polars", "altair")
    content = {
        "command": list(command),
        "seed": seed,
        "environment": dict(environment),
        "settings": dict(settings),
        "data": dict(data or {}),
        "code_sha256": code_digest(),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in packages}},
        "platform": f"{sys.platform} {platform.machine()}",
    }
    with atomic_write(path) as file:
        file.write((json.dumps(content, indent=2, sort_keys=True, default=repr) + "\n").encode())
    return Path(path)


@cache
def code_digest() -> str:
    """SHA-256 of the source files on which a run's numbers depend, so that runs of other code are never reused."""
    root = Path(__file__).parents[1]
    files = [root / name for name in ("_kernels.py", "rng.py")]
    files += [path for room in _ROOMS for path in (root / room).rglob("*.py")]
    digest = hashlib.sha256()
    for path in sorted(files):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
