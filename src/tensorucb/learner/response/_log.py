"""The rounds that the model is fitted to, and how old ones are thinned so that their number of rows stays bounded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I32, I64, Arrays
from tensorucb.errors import InputError, ShapeError
from tensorucb.graph import Graph

# Zeros of a round are thinned by halves to an eighth of what they were; then the round is dropped.
_LAST_LEVEL = 3


@dataclass(frozen=True, eq=False)
class Told:
    """One round: the context, and the outcome of each edge told. Arrays are by row, an edge each."""

    graph: Graph
    vectors: F64  # (k,): the context's vectors side by side, as they came
    edges: I64  # distinct, ascending
    outcomes: F64  # mean of what was told of the edge
    trials: F64  # how often it was told
    doses: I32  # how many contacted users the edge's target follows in this round
    level: int = 0  # how often the zeros were thinned by half; each that is left counts 2^level times

    @property
    def weights(self) -> F64:
        """How many outcomes each row stands for."""
        return np.asarray(np.where(self.outcomes > 0.0, self.trials, self.trials * 2.0**self.level))

    @cached_property
    def pulls(self) -> tuple[I64, I64]:
        """The sources, ascending, and the first row of each: edges are sorted by source."""
        return np.unique(self.graph.sources[self.edges].astype(np.int64), return_index=True)

    @cached_property
    def cells(self) -> tuple[I64, I64, I64]:
        """The targets, ascending; a row of each; and for each row the place of its target."""
        targets = self.graph.targets[self.edges].astype(np.int64)
        return np.unique(targets, return_index=True, return_inverse=True)


Log = tuple[Told, ...]


def told(graph: Graph, vectors: F64, edges: I64, outcomes: F64) -> Told:
    """A round as it was told, in any order."""
    distinct, place = np.unique(edges, return_inverse=True)
    trials = np.bincount(place).astype(np.float64)
    record = Told(graph, vectors, distinct, np.bincount(place, outcomes) / trials, trials, np.empty(0, dtype=np.int32))
    of_row = record.cells[2]
    return replace(record, doses=np.bincount(of_row)[of_row].astype(np.int32))


def with_round(log: Log, record: Told, max_rows: int) -> Log:
    """The log with one more round; of more than ``max_rows`` rows, zeros of the oldest rounds are thinned.

    Which zeros stay is decided by a hash of the edge, so it depends on nothing but the rounds themselves. A tenth of
    the rows goes at once, so that this is seldom needed.
    """
    rounds = [*log, record]
    rows = sum(r.edges.size for r in rounds)
    excess = rows - int(0.9 * max_rows) if rows > max_rows else 0
    while excess > 0 and len(rounds) > 1:
        # The oldest of those thinned least; the newest round is left as it is.
        at = min(range(len(rounds) - 1), key=lambda i: rounds[i].level)
        excess -= rounds[at].edges.size
        if rounds[at].level == _LAST_LEVEL:
            del rounds[at]
        else:
            rounds[at] = _thinned(rounds[at])
            excess += rounds[at].edges.size
    return tuple(rounds)


def _thinned(record: Told) -> Told:
    """The round with half of its zeros, each of which counts twice as much."""
    # Fibonacci hashing: multiples of an odd number close to 2^64 / golden ratio are spread evenly.
    spread = record.edges.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    bit = (spread >> np.uint64(63 - record.level)) & np.uint64(1)
    kept = (record.outcomes > 0.0) | (bit == 0)
    rows = {name: getattr(record, name)[kept] for name in _ROWS}
    return Told(record.graph, record.vectors, **rows, level=record.level + 1)


_ROWS: dict[str, Any] = {"edges": np.int64, "outcomes": np.float64, "trials": np.float64, "doses": np.int32}


def log_to_arrays(log: Log, k: int) -> Arrays:
    """The rounds as flat arrays."""
    arrays: Arrays = {
        "log_contexts": np.array([r.vectors for r in log]).reshape(len(log), k),
        "log_sizes": np.array([r.edges.size for r in log], dtype=np.int64),
        "log_levels": np.array([r.level for r in log], dtype=np.int64),
    }
    for name, dtype in _ROWS.items():
        parts = [getattr(r, name) for r in log]
        arrays[f"log_{name}"] = np.concatenate(parts) if parts else np.empty(0, dtype=dtype)
    return arrays


def log_from_arrays(arrays: Mapping[str, NDArray[Any]], graph: Graph, k: int) -> Log:
    """The rounds of `log_to_arrays`, or an error if they do not fit each other."""
    sizes, levels, contexts = (arrays[f"log_{name}"] for name in ("sizes", "levels", "contexts"))
    rows = {name: np.array(arrays[f"log_{name}"]) for name in _ROWS}
    fits = contexts.shape == (sizes.size, k) and levels.shape == sizes.shape and (sizes >= 0).all()
    if not fits or any(array.shape != (int(sizes.sum()),) for array in rows.values()):
        raise ShapeError("the rounds kept in the state do not fit each other: sizes of log_… arrays differ.")
    edges = rows["edges"]
    if edges.size and not 0 <= edges.min() <= edges.max() < graph.n_edges:
        raise InputError(f"the state is malformed: log_edges must lie in 0..{graph.n_edges - 1}.")
    ends = np.cumsum(sizes)
    log = []
    for vectors, level, start, stop in zip(np.array(contexts), levels.tolist(), ends - sizes, ends, strict=True):
        part = {name: array[start:stop] for name, array in rows.items()}
        log.append(Told(graph, vectors, **part, level=level))
    return tuple(log)
