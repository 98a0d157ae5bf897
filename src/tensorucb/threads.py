"""Chunks of work on this machine's threads.

Kernels are serial and release the GIL; parallelism is a thread pool over independent chunks. The result of a chunk
must depend on its bounds alone, never on the thread that ran it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, TypeVar

from tensorucb.checks import check_count

MOST_THREADS = 1024
T = TypeVar("T")
OnProgress = Callable[[int, int, str], None]
"""``report(done, total, what)``: how far the work is."""


_blas_lock = threading.Lock()
# Blocks that keep BLAS on one thread now; and its libraries with their numbers of threads before the first of them.
_inside = 0
_before = dict[str, tuple[Any, int]]()
_loaded, _blas = 0, list[Any]()


def thread_count(threads: int | None = None) -> int:
    """``threads`` if given, else ``TENSORUCB_THREADS``, else the number of usable cores."""
    if threads is None:
        setting = os.environ.get("TENSORUCB_THREADS", "")
        if setting:
            digits = setting.isascii() and setting.isdigit() and len(setting) < 20
            return check_count("TENSORUCB_THREADS", int(setting) if digits else setting, 1, MOST_THREADS)
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return check_count("threads", threads, 1, MOST_THREADS)


def map_chunks(function: Callable[[int, int], T], bounds: Sequence[int], threads: int) -> list[T]:
    """``function(start, stop)`` over consecutive ``bounds``, results in order."""
    chunks = [(int(a), int(b)) for a, b in pairwise(bounds) if b > a]
    if threads == 1 or len(chunks) < 2:
        return [function(a, b) for a, b in chunks]
    with ThreadPoolExecutor(min(threads, len(chunks))) as pool:
        return list(pool.map(lambda chunk: function(*chunk), chunks))


def _set_threads(library: Any, count: int) -> None:
    # From version 3.8 on threadpoolctl lets one thread of the process set the number and ignores all others.
    release = getattr(library, "clear_controlling_thread", lambda force: None)
    release(force=True)
    library.set_num_threads(count)
    release(force=True)


def _blas_libraries() -> list[Any]:
    """The BLAS libraries of this process; looked for again only after an import, since that takes milliseconds."""
    from threadpoolctl import ThreadpoolController

    global _loaded, _blas
    if len(sys.modules) != _loaded:
        _loaded, _blas = len(sys.modules), ThreadpoolController().select(user_api="blas").lib_controllers
    return _blas


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """One BLAS thread inside the block: small products on several are an order of magnitude slower.

    The number belongs to the whole process. It is put back when the last of several blocks ends, in whatever threads:
    if each put it back alone, one that ends would take it from those that still run, and round their sums otherwise.
    """
    global _inside
    with _blas_lock:
        for library in _blas_libraries():
            _before.setdefault(library.filepath, (library, library.num_threads))
            _set_threads(library, 1)
        _inside += 1
    try:
        yield
    finally:
        with _blas_lock:
            _inside -= 1
            if not _inside:
                for library, count in _before.values():
                    _set_threads(library, count)
                _before.clear()
