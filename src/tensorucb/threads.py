"""Chunks of work on this machine's threads.

Kernels are serial and release the GIL; parallelism is a thread pool over independent chunks. The result of a chunk
must depend on its bounds alone, never on the thread that ran it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from typing import TypeVar

from tensorucb.checks import check_count

__all__ = ["map_chunks", "single_threaded_blas", "thread_count"]

MOST_THREADS = 1024
T = TypeVar("T")


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


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """One BLAS thread inside the block: small products on several are an order of magnitude slower."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):
        yield
