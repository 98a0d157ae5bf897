"""The machine itself: threads for pieces of work, processes for runs of experiments."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from tensorucb.diffusion._cascades import chunk_bounds
from tensorucb.experiments._pool import in_processes
from tensorucb.graph import Graph
from tensorucb.oracle.rr import Sampler
from tensorucb.threads import map_chunks, thread_count
from tensorucb.work import AfterRun, AfterStep, Piece, Task


class LocalEngine:
    """The threads and processes of this machine; what everything uses that is given no engine.

    Parameters
    ----------
    threads
        Threads to use; by default every usable core.

    Examples
    --------
    >>> from tensorucb.engines import LocalEngine
    >>> LocalEngine(threads=2).pieces(64)
    [0, 16, 32, 48, 64]
    """

    def __init__(self, threads: int | None = None) -> None:
        self._threads = thread_count(threads)

    def sampler(self, graph: Graph, threads: int) -> Sampler:
        """RR sets in this process."""
        return Sampler(graph, threads)

    def pieces(self, count: int) -> list[int]:
        """A few pieces per thread."""
        return chunk_bounds(count, self._threads)

    def map(self, function: Piece, shared: tuple[Any, ...], bounds: Sequence[int]) -> list[Any]:
        """Pieces on this machine's threads."""
        return map_chunks(partial(function, shared), bounds, self._threads)

    def fill(self, tasks: Sequence[Task], jobs: int, each_step: AfterStep, finished: AfterRun) -> None:
        """Runs in ``jobs`` processes."""
        in_processes(tasks, jobs, each_step, finished)
