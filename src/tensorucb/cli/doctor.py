"""``tensorucb doctor``: what this machine has of all that tensorucb uses, what is wrong, and what to do about it."""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from typer import Option

from tensorucb.cli._options import can_write
from tensorucb.cli._output import Answer, Table
from tensorucb.cli._progress import Progress
from tensorucb.errors import InputError

_EXTRAS = {
    "postgres": "campaigns in PostgreSQL",
    "service": "the HTTP service and its page",
    "client": "calling a service from Python",
    "ray": "work on several machines",
    "bench": "other libraries beside ours in `python -m benchmarks`",
}
_LITTLE_MEMORY = 2**30
# numba[more]>=0.63; extra == "bench"
_REQUIREMENT = re.compile(r"""([\w.-]+)(?:\[[^]]*\])?\s*(?:>=([\w.]+))?[^;]*(?:;.*extra\s*==\s*['"]([\w-]+))?""")


class Finding(NamedTuple):
    """One line: what was looked at, what is there, and what is wrong with it, in whole sentences."""

    what: str
    found: str
    wrong: str = ""


def doctor(
    compile: bool = Option(False, help="First compile what campaigns and the demo need, so that no command waits."),
) -> Answer:
    """Check this installation: versions, threads, BLAS, caches, memory, extras; exit code 1 if something is wrong."""
    if compile:
        _compile()
    looks = (_versions, _threads, _blas, _kernels, _cache, _memory, _databases, _extras)
    findings = [finding for look in looks for finding in look()]
    wrong = [finding.wrong for finding in findings if finding.wrong]
    return Answer(
        {"ok": not wrong, "wrong": wrong, "findings": [finding._asdict() for finding in findings]},
        Table(("What", "Found"), [finding[:2] for finding in findings], words=("What", "Found")),
        "",
        [f"Wrong: {sentence}" for sentence in wrong] or "Nothing is wrong.",
        failed=bool(wrong),
    )


def _compile() -> None:
    """Play a few rounds of the demo, and of a campaign with each objective: that compiles the kernels they need."""
    import tempfile

    with Progress("doctor") as progress, tempfile.TemporaryDirectory() as folder:
        from tensorucb.campaign import create_campaign, read_campaign_data
        from tensorucb.cli.demo import compile_policies, demo_environment, demo_policies
        from tensorucb.data import make_shop

        compile_policies(demo_environment(0, quick=True), demo_policies(), progress)
        progress(0, 1, "first rounds of a campaign")
        make_shop(today="2026-01-01", rng=0).write(folder)
        data = read_campaign_data(folder)
        with create_campaign("compiled", data=data, storage="memory://") as campaign:
            for objective in ("direct", "cascade"):
                asked = campaign.ask(campaign.products()[0], k=10, objective=objective)
                campaign.tell(asked.id, [{"user": asked.seeds[0], "time": time.time()}])
                campaign.close(asked.id)


# -- packages --


def _versions() -> Iterator[Finding]:
    from tensorucb import __version__

    yield Finding("tensorucb", __version__)
    yield Finding("Python", f"{platform.python_version()}, {platform.system()} {platform.machine()}")
    yield from _packages("")


def _extras() -> Iterator[Finding]:
    for extra, purpose in _EXTRAS.items():
        lines = list(_packages(extra))
        missing = ", ".join(line.what for line in lines if line.found == "missing")
        old = " ".join(line.wrong for line in lines if line.found != "missing" and line.wrong)
        description = f"installed ({', '.join(f'{line.what} {line.found}' for line in lines)})"
        if missing or not lines:
            lacks = f"without {missing}" if missing else "unknown"
            description = f"{lacks}; for {purpose}: pip install 'tensorucb[{extra}]'"
        yield Finding(f"extra {extra}", description, old)


def _packages(extra: str) -> Iterator[Finding]:
    """The packages that tensorucb, or an extra of it, requires."""
    from importlib import metadata  # here, since --help loads this file

    def numbers(text: str) -> list[int]:
        return [int(part) for part in re.findall(r"\d+", text)[:3]]

    with suppress(metadata.PackageNotFoundError):  # tensorucb itself may lie in a directory only
        for line in metadata.requires("tensorucb") or []:
            name, least, needed_by = _REQUIREMENT.match(line).groups(default="")  # type: ignore[union-attr]
            if needed_by != extra:
                continue
            try:
                have = metadata.version(name)
            except metadata.PackageNotFoundError:
                yield Finding(name, "missing", f"{name} is not installed. Run `pip install 'tensorucb'` again.")
                continue
            old = f"{name} {have} is older than {least}. Run `pip install --upgrade '{name}>={least}'`."
            yield Finding(name, have, old if numbers(have) < numbers(least) else "")


# -- machine --


def _threads() -> Iterator[Finding]:
    from tensorucb.threads import thread_count

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        used, wrong = f"{thread_count()} of {cores} usable cores", ""
    except InputError as error:
        used, wrong = f"{cores} usable cores", str(error)
    yield Finding("threads", used + _set_by("TENSORUCB_THREADS"), wrong)


def _set_by(variable: str) -> str:
    return f" ({variable})" if os.environ.get(variable) else ""


def _blas() -> Iterator[Finding]:
    import scipy.linalg  # noqa: F401  its BLAS may be another than NumPy's
    from threadpoolctl import threadpool_info

    from tensorucb.threads import single_threaded_blas

    def libraries() -> list[dict[str, Any]]:
        return [entry for entry in threadpool_info() if entry["user_api"] == "blas"]

    with single_threaded_blas():
        pinned = all(entry["num_threads"] == 1 for entry in libraries())
    description = "; ".join("{internal_api} {version}, {num_threads} threads".format(**entry) for entry in libraries())
    advice = "Set OPENBLAS_NUM_THREADS=1 and MKL_NUM_THREADS=1 before Python starts; small products are slow otherwise."
    if not description:
        yield Finding("BLAS", "unknown to threadpoolctl", f"No BLAS library was found that can be pinned. {advice}")
    elif pinned:
        yield Finding("BLAS", f"{description}; can be pinned to one")
    else:
        yield Finding("BLAS", description, f"BLAS takes several threads even where it is told to take one. {advice}")


def _kernels() -> Iterator[Finding]:
    from tensorucb._kernels import mix64

    advice = "Set NUMBA_CACHE_DIR to a directory that can be written to; each process compiles them again otherwise."
    folder = mix64.compiled()._cache.cache_path
    if folder is None:
        yield Finding("kernels", "not kept", f"Compiled kernels cannot be kept. {advice}")
        return
    wrong = "" if can_write(Path(folder)) else f"Compiled kernels cannot be kept in {folder!r}. {advice}"
    yield Finding("kernels", f"kept in {os.environ.get('NUMBA_CACHE_DIR') or folder}", wrong)


def _cache() -> Iterator[Finding]:
    from tensorucb.files import cache_directory
    from tensorucb.memory import in_words

    folder = cache_directory()
    if folder is None:
        yield Finding("networks", "not kept; TENSORUCB_CACHE=DIRECTORY keeps large ones ready to load")
        return
    files = list(folder.glob("*.graph/*"))
    size = sum(file.stat().st_size for file in files)
    wrong = f"TENSORUCB_CACHE names {str(folder)!r}, which cannot be written to. Name a directory that can."
    description = f"{len({file.parent for file in files})} kept in {folder}, {in_words(size)}"
    yield Finding("networks", description, "" if can_write(folder) else wrong)


def _memory() -> Iterator[Finding]:
    from tensorucb.memory import free_memory, in_words, total_memory

    try:
        free, total = free_memory(), total_memory()
    except InputError as error:
        yield Finding("memory", "unknown", str(error))
        return
    if free is None or total is None:
        yield Finding("memory", "unknown: this system does not tell")
        return
    little = f"Only {in_words(free)} of memory are free. Close other programs, or raise the limit of the container."
    description = f"{in_words(free)} free{_set_by('TENSORUCB_MEMORY')} of {in_words(total)}"
    yield Finding("memory", description, little if free < _LITTLE_MEMORY else "")


def _databases() -> Iterator[Finding]:
    import sqlite3

    yield Finding("SQLite", sqlite3.sqlite_version)
    try:
        import psycopg
    except ModuleNotFoundError:
        return  # the extra's line says so
    except ImportError as error:
        advice = "Run `pip install 'tensorucb[postgres]'`, or install libpq."
        yield Finding("PostgreSQL client", "broken", f"psycopg does not load ({error}). {advice}")
        return
    number = psycopg.pq.version()
    description = f"psycopg {psycopg.__version__} ({psycopg.pq.__impl__}), libpq {number // 10000}.{number % 10000}"
    yield Finding("PostgreSQL client", description)
