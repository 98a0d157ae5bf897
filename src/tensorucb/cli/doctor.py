"""``tensorucb doctor``: what this machine has of all that tensorucb uses, what is wrong, and what to do about it."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from typer import Exit

from tensorucb.cli._options import Json
from tensorucb.cli._output import emit_json, print_table, say
from tensorucb.errors import InputError

_EXTRAS = {
    "postgres": "campaigns in PostgreSQL",
    "service": "the HTTP service and its page",
    "client": "calling a service from Python",
    "ray": "work on several machines",
    "bench": "other libraries in `tensorucb bench`",
}
_OLDEST = (3, 11)
_LITTLE_MEMORY = 2**30


class Finding(NamedTuple):
    """One line: what was looked at, what is there, and what is wrong with it, in whole sentences."""

    what: str
    found: str
    wrong: str = ""


def doctor(json: Json = False) -> None:
    """Check this installation: versions, threads, BLAS, caches, memory, extras; exit code 1 if something is wrong."""
    findings = [finding for look in _LOOKS for finding in look()]
    wrong = [finding.wrong for finding in findings if finding.wrong]
    if json:
        emit_json({"ok": not wrong, "wrong": wrong, "findings": [finding._asdict() for finding in findings]})
    else:
        print_table(("What", "Found"), [finding[:2] for finding in findings], words=("What", "Found"))
        say()
        for sentence in wrong:
            say(f"Wrong: {sentence}")
        if not wrong:
            say("Nothing is wrong.")
    if wrong:
        raise Exit(1)


# -- versions --


def _versions() -> list[Finding]:
    from tensorucb import __version__

    python = platform.python_version()
    old = f"Python {python} is too old for tensorucb. Use Python 3.11 or newer."
    return [
        Finding("tensorucb", __version__),
        Finding("Python", f"{python}, {platform.system()} {platform.machine()}", "" if _new_enough() else old),
        *(_package(name, least) for name, least in _requirements("")),
    ]


def _new_enough() -> bool:
    return sys.version_info >= _OLDEST


def _requirements(extra: str) -> list[tuple[str, str]]:
    """Packages that tensorucb, or an extra of it, requires, each with its oldest version."""
    from importlib import metadata  # here, since --help loads this file

    try:
        lines = metadata.requires("tensorucb") or []
    except metadata.PackageNotFoundError:
        return []
    found = []
    for line in lines:
        needed, _, marker = line.partition(";")
        belongs = re.search(r"""extra\s*==\s*['"]([\w-]+)['"]""", marker)
        if (belongs[1] if belongs else "") == extra:
            name, least = re.match(r"([\w.-]+)(?:\[[^]]*\])?\s*(?:>=([\w.]+))?", needed.strip()).groups()  # type: ignore[union-attr]
            found.append((name, least or "0"))
    return found


def _package(name: str, least: str) -> Finding:
    have = _version(name)
    if have is None:
        return Finding(name, "missing", f"{name} is not installed. Run `pip install 'tensorucb'` again.")
    old = f"{name} {have} is older than {least}. Run `pip install --upgrade '{name}>={least}'`."
    return Finding(name, have, old if _numbers(have) < _numbers(least) else "")


def _version(name: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _numbers(text: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", text)[:3]]


def _extras() -> list[Finding]:
    findings = []
    for extra, purpose in _EXTRAS.items():
        needed = _requirements(extra)
        lines = [_package(name, least) for name, least in needed]
        get = f"pip install 'tensorucb[{extra}]'"
        missing = [line.what for line in lines if line.found == "missing"]
        old = " ".join(line.wrong for line in lines if line.wrong and line.found != "missing")
        there = f"installed ({', '.join(f'{line.what} {line.found}' for line in lines)})"
        without = f"without {', '.join(missing)}; for {purpose}: {get}"
        found = f"unknown; for {purpose}: {get}" if not lines else without if missing else there
        findings.append(Finding(f"extra {extra}", found, old))
    return findings


# -- machine --


def _threads() -> list[Finding]:
    from tensorucb.threads import thread_count

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        used, wrong = f"{thread_count()} of {cores} usable cores", ""
    except InputError as error:
        used, wrong = f"{cores} usable cores", str(error)
    return [Finding("threads", used + (" (TENSORUCB_THREADS)" if os.environ.get("TENSORUCB_THREADS") else ""), wrong)]


def _blas() -> list[Finding]:
    import scipy.linalg  # noqa: F401  its BLAS may be another than NumPy's
    from threadpoolctl import threadpool_info

    from tensorucb.threads import single_threaded_blas

    def libraries() -> list[dict[str, Any]]:
        return [entry for entry in threadpool_info() if entry["user_api"] == "blas"]

    with single_threaded_blas():
        pinned = all(entry["num_threads"] == 1 for entry in libraries())
    kinds = [(entry["internal_api"], entry["version"], entry["num_threads"]) for entry in libraries()]
    found = "; ".join(f"{name} {number}, {threads} threads" for name, number, threads in kinds)
    advice = "Set OPENBLAS_NUM_THREADS=1 and MKL_NUM_THREADS=1 before Python starts; small products are slow otherwise."
    if not found:
        return [Finding("BLAS", "unknown to threadpoolctl", f"No BLAS library was found that can be pinned. {advice}")]
    if not pinned:
        return [Finding("BLAS", found, f"BLAS takes several threads even where it is told to take one. {advice}")]
    return [Finding("BLAS", f"{found}; can be pinned to one")]


def _kernels() -> list[Finding]:
    try:
        from tensorucb.graph._kernels import row_offsets

        folder = Path(row_offsets._cache.cache_path)
    except (RuntimeError, AttributeError) as error:
        advice = (
            "Set NUMBA_CACHE_DIR to a directory that can be written to; each process compiles for minutes otherwise."
        )
        return [Finding("kernels", "not kept", f"Compiled kernels cannot be kept ({error}). {advice}")]
    wrong = f"Compiled kernels cannot be kept in {str(folder)!r}. Set NUMBA_CACHE_DIR to a directory that can."
    root = Path(os.environ["NUMBA_CACHE_DIR"]) if os.environ.get("NUMBA_CACHE_DIR") else folder
    return [Finding("kernels", f"kept in {root}", "" if _can_write(folder) else wrong)]


def _cache() -> list[Finding]:
    from tensorucb.files import cache_directory
    from tensorucb.memory import in_words

    folder = cache_directory()
    if folder is None:
        return [Finding("networks", "not kept; TENSORUCB_CACHE=DIRECTORY keeps large ones ready to load")]
    sizes = [path.stat().st_size for path in folder.glob("*.graph")] if folder.is_dir() else []
    wrong = f"TENSORUCB_CACHE names {str(folder)!r}, which cannot be written to. Name a directory that can."
    found = f"{len(sizes)} kept in {folder}, {in_words(sum(sizes))}"
    return [Finding("networks", found, "" if _can_write(folder) else wrong)]


def _can_write(folder: Path) -> bool:
    """Whether files can be made there; a directory that is not there yet can be made."""
    import tempfile

    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _memory() -> list[Finding]:
    from tensorucb.memory import free_memory, in_words, total_memory

    try:
        free, total = free_memory(), total_memory()
    except InputError as error:
        return [Finding("memory", "unknown", str(error))]
    if free is None or total is None:
        return [Finding("memory", "unknown: this system does not tell")]
    limit = " (TENSORUCB_MEMORY)" if os.environ.get("TENSORUCB_MEMORY") else ""
    little = f"Only {in_words(free)} of memory are free. Close other programs, or raise the limit of the container."
    return [
        Finding("memory", f"{in_words(free)} free{limit} of {in_words(total)}", little if free < _LITTLE_MEMORY else "")
    ]


def _databases() -> list[Finding]:
    import sqlite3

    sqlite = Finding("SQLite", sqlite3.sqlite_version)
    if _version("psycopg") is None:
        return [sqlite, Finding("PostgreSQL client", "missing: pip install 'tensorucb[postgres]'")]
    try:
        import psycopg
    except ImportError as error:
        advice = "Run `pip install 'tensorucb[postgres]'`, or install libpq."
        return [sqlite, Finding("PostgreSQL client", "broken", f"psycopg does not load ({error}). {advice}")]
    client, number = psycopg.pq.__impl__, psycopg.pq.version()
    found = f"psycopg {psycopg.__version__} ({client}), libpq {number // 10000}.{number % 10000}"
    return [sqlite, Finding("PostgreSQL client", found)]


_LOOKS: tuple[Callable[[], list[Finding]], ...] = (
    *(_versions, _threads, _blas, _kernels, _cache, _memory, _databases),
    _extras,
)
