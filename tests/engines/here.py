"""An engine that is this process, for tests of what is handed to an engine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from tensorucb.graph import Graph
from tensorucb.oracle.rr import Sampler
from tensorucb.threads import map_chunks
from tensorucb.work import AfterRun, AfterStep, Piece, Task


class HereEngine:
    def sampler(self, graph: Graph, threads: int) -> Sampler:
        return Sampler(graph, threads)

    def pieces(self, count: int) -> list[int]:
        return [count * i // 4 for i in range(5)]

    def map(self, function: Piece, shared: tuple[Any, ...], bounds: Sequence[int]) -> list[Any]:
        return map_chunks(partial(function, shared), bounds, 2)

    def fill(self, tasks: Sequence[Task], jobs: int, each_step: AfterStep, finished: AfterRun) -> None:
        """Plays nothing, so that the caller plays all."""
