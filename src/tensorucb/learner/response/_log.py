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
    number: int = 0  # of the round
    passive: bool = False  # history: exposures that nobody arranged
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


def told(graph: Graph, vectors: F64, edges: I64, outcomes: F64, number: int, passive: bool = False) -> Told:
    """A round as it was told, in any order."""
    distinct, place = np.unique(edges, return_inverse=True)
    trials = np.bincount(place).astype(np.float64)
    means = np.bincount(place, outcomes) / trials
    record = Told(graph, vectors, distinct, means, trials, np.empty(0, dtype=np.int32), number, passive)
    of_row = record.cells[2]
    return replace(record, doses=np.bincount(of_row)[of_row].astype(np.int32))


def with_round(log: Log, record: Told, max_rows: int) -> Log:
    """The log with one more round; of more than ``max_rows`` rows, zeros of the oldest rounds are thinned.

    Which zeros stay is decided by a hash of the round's number and the edge: it is the same each time, and an edge
    does not lose the zeros of all rounds. A quarter of the rows goes at once, since each time a fit follows.
    """
    rounds = [*log, record]
    rows = sum(r.edges.size for r in rounds)
    excess = rows - int(0.75 * max_rows) if rows > max_rows else 0
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
    # Multiples of odd numbers close to 2^64 times an irrational one are spread evenly, over edges and over rounds.
    shift = np.uint64(record.number * 0xD1B54A32D192ED03 % 2**64)
    spread = record.edges.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + shift
    bit = (spread >> np.uint64(63 - record.level)) & np.uint64(1)
    kept = (record.outcomes > 0.0) | (bit == 0)
    rows = {name: getattr(record, name)[kept] for name in _ROWS}
    return Told(
        record.graph, record.vectors, **rows, number=record.number, passive=record.passive, level=record.level + 1
    )


_ROWS: dict[str, Any] = {"edges": np.int64, "outcomes": np.float64, "trials": np.float64, "doses": np.int32}


def log_to_arrays(log: Log, k: int) -> Arrays:
    """The rounds as flat arrays."""
    arrays: Arrays = {
        "log_contexts": np.array([r.vectors for r in log]).reshape(len(log), k),
        "log_sizes": np.array([r.edges.size for r in log], dtype=np.int64),
        "log_numbers": np.array([r.number for r in log], dtype=np.int64),
        "log_levels": np.array([r.level for r in log], dtype=np.int64),
        "log_passive": np.array([r.passive for r in log], dtype=np.int64),
    }
    for name, dtype in _ROWS.items():
        parts = [getattr(r, name) for r in log]
        arrays[f"log_{name}"] = np.concatenate(parts) if parts else np.empty(0, dtype=dtype)
    return arrays


def log_from_arrays(arrays: Mapping[str, NDArray[Any]], graph: Graph, k: int) -> Log:
    """The rounds of `log_to_arrays`, or an error if they do not fit each other."""
    sizes, contexts = arrays["log_sizes"], np.array(arrays["log_contexts"])
    of_round = [arrays["log_numbers"], arrays["log_levels"], arrays["log_passive"]]
    rows = {name: np.array(arrays[f"log_{name}"]) for name in _ROWS}
    fits = contexts.shape == (sizes.size, k) and all(array.shape == sizes.shape for array in of_round)
    if not fits or (sizes < 0).any() or any(array.shape != (int(sizes.sum()),) for array in rows.values()):
        raise ShapeError("the rounds kept in the state do not fit each other: sizes of log_… arrays differ.")
    log: list[Told] = []
    for vectors, number, level, passive, stop in zip(contexts, *of_round, np.cumsum(sizes), strict=True):
        part = {name: array[stop - sizes[len(log)] : stop] for name, array in rows.items()}
        record = Told(graph, vectors, **part, number=int(number), passive=bool(passive), level=int(level))
        _check(record)
        log.append(record)
    return tuple(log)


def _check(record: Told) -> None:
    """Refuse a round that cannot have been told."""
    edges, outcomes = record.edges, record.outcomes
    in_range = edges.size == 0 or 0 <= edges[0] <= edges[-1] < record.graph.n_edges
    if not in_range or (np.diff(edges) <= 0).any():
        raise InputError(f"the state is malformed: log_edges must ascend within 0..{record.graph.n_edges - 1}.")
    counted = (outcomes >= 0.0).all() and (outcomes <= 1.0).all() and min(record.trials.min(initial=1.0), 1.0) == 1.0
    if not counted or record.doses.min(initial=1) < 1 or record.number < 0 or not 0 <= record.level <= _LAST_LEVEL:
        raise InputError(
            "the state is malformed: outcomes, trials, doses, numbers or levels of its rounds are impossible."
        )
