"""`Engine`: what the library asks of the place where heavy work runs.

Rooms take one as ``engine=`` and do not know whether it is this machine or a cluster; None is this machine. What an
engine is given depends on its arguments alone (a seed and a range, say), so that the answer is the same everywhere and
a piece that was lost can be made again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from tensorucb.errors import InputError
from tensorucb.threads import map_chunks

if TYPE_CHECKING:
    from tensorucb.graph import Graph
    from tensorucb.oracle.rr import Sampler

Piece = Callable[[tuple[Any, ...], int, int], Any]
"""``function(shared, start, stop)``: a function of a module, so that another machine finds it by its name."""
Task = Callable[[Callable[[], None]], object]
"""A run of an experiment: it calls what it is given after every step, and returns its result."""
AfterStep = Callable[[int], None]
"""``each_step(number)``: called after a step of the run of this number."""
AfterRun = Callable[[int, Any], None]
"""``finished(number, result)``: called at the end of the run of this number."""


class Engine(Protocol):
    """Where heavy work runs, if not on this machine: `tensorucb.engines` has a Ray cluster."""

    def sampler(self, graph: Graph, threads: int) -> Sampler:
        """What draws RR sets of this graph and keeps them."""

    def map(self, function: Piece, shared: tuple[Any, ...], bounds: Sequence[int]) -> list[Any]:
        """``function(shared, start, stop)`` over consecutive bounds, results in order."""

    def pieces(self, count: int) -> list[int]:
        """Bounds that split ``count`` items well for :meth:`map`."""

    def fill(self, tasks: Sequence[Task], jobs: int, each_step: AfterStep, finished: AfterRun) -> None:
        """Play runs, as far as that goes; what is not finished in the end, the caller plays itself."""


def check_engine(engine: Any) -> Engine | None:
    """An engine, or None for this machine."""
    if engine is None or all(callable(getattr(engine, name, None)) for name in ("sampler", "map", "pieces", "fill")):
        checked_engine: Engine | None = engine
        return checked_engine
    raise InputError(
        f"must be an engine, such as tensorucb.engines.RayEngine('HOST:PORT'); got {type(engine).__name__}.",
        argument="engine",
    )


def map_pieces(
    engine: Engine | None, function: Piece, shared: tuple[Any, ...], bounds: Sequence[int], threads: int
) -> list[Any]:
    """`Engine.map`; without an engine on this machine's threads, over ``bounds``."""
    if engine is None:
        return map_chunks(partial(function, shared), bounds, threads)
    return engine.map(function, shared, engine.pieces(bounds[-1]))
