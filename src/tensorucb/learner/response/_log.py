"""The rounds that the model is fitted to: how old ones are thinned, and all of them as rows of a regression."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I32, I64, Arrays
from tensorucb.errors import InputError, ShapeError
from tensorucb.graph import Graph
from tensorucb.learner.response._features import ContextFeatures, NodeFeatures, mixture

# Zeros of a round are thinned by halves to an eighth of what they were; then the round is dropped.
_LAST_LEVEL = 3


@dataclass(frozen=True, eq=False)
class LoggedRound:
    """One round: the context, and the outcome of each edge told. Arrays are by row, an edge each."""

    graph: Graph
    nodes: NodeFeatures
    vectors: F64  # (k,): the context's vectors side by side, as they came
    edges: I64  # distinct, ascending
    outcomes: F64  # mean of what was told of the edge
    trials: F64  # how often it was told
    doses: I32  # how many contacted users the edge's target follows in this round
    number: int = 0  # of the round
    passive: bool = False  # history: exposures that nobody arranged
    level: int = 0  # how often the zeros were thinned by half; each that is left counts 2^level times

    @cached_property
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

    @cached_property
    def tastes(self) -> F64:
        """The taste of each cell's target for the round's product; 0 without a past."""
        targets, *_ = self.cells
        past = self.nodes.taste
        return np.zeros(targets.size) if past is None else past[targets] @ mixture(self.vectors[: past.shape[1]])


Log = tuple[LoggedRound, ...]


def told(
    graph: Graph, nodes: NodeFeatures, vectors: F64, edges: I64, outcomes: F64, number: int, passive: bool = False
) -> LoggedRound:
    """A round as it was told, in any order."""
    distinct, place = np.unique(edges, return_inverse=True)
    trials = np.bincount(place).astype(np.float64)
    means = np.bincount(place, outcomes) / trials
    targets = graph.targets[distinct]
    doses = np.bincount(targets)[targets].astype(np.int32)
    return LoggedRound(graph, nodes, vectors, distinct, means, trials, doses, number, passive)


def with_round(log: Log, record: LoggedRound, max_rows: int) -> Log:
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


def _thinned(record: LoggedRound) -> LoggedRound:
    """The round with half of its zeros, each of which counts twice as much."""
    # Multiples of odd numbers close to 2^64 times an irrational one are spread evenly, over edges and over rounds.
    shift = np.uint64(record.number * 0xD1B54A32D192ED03 % 2**64)
    spread = record.edges.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + shift
    bit = (spread >> np.uint64(63 - record.level)) & np.uint64(1)
    kept = (record.outcomes > 0.0) | (bit == 0)
    rows = {name: getattr(record, name)[kept] for name in _BY_ROW}
    return replace(record, **rows, level=record.level + 1)


_BY_ROW: dict[str, Any] = {"edges": np.int64, "outcomes": np.float64, "trials": np.float64, "doses": np.int32}
_BY_ROUND = {"number": int, "level": int, "passive": bool}


def log_to_arrays(log: Log, k: int) -> Arrays:
    """The rounds as flat arrays."""
    arrays: Arrays = {
        "log_vectors": np.array([r.vectors for r in log]).reshape(len(log), k),
        "log_sizes": np.array([r.edges.size for r in log], dtype=np.int64),
    }
    for name in _BY_ROUND:
        arrays[f"log_{name}"] = np.array([getattr(r, name) for r in log], dtype=np.int64)
    for name, dtype in _BY_ROW.items():
        arrays[f"log_{name}"] = _joined((getattr(r, name) for r in log), dtype)
    return arrays


def log_from_arrays(arrays: Mapping[str, NDArray[Any]], graph: Graph, nodes: NodeFeatures, k: int) -> Log:
    """The rounds of `log_to_arrays`, or an error if they do not fit each other."""
    sizes = arrays["log_sizes"]
    rounds = {name: arrays[f"log_{name}"] for name in _BY_ROUND}
    rows = {name: np.array(arrays[f"log_{name}"]) for name in _BY_ROW}
    fits = arrays["log_vectors"].shape == (sizes.size, k) and all(x.shape == sizes.shape for x in rounds.values())
    if not fits or (sizes < 0).any() or any(x.shape != (int(sizes.sum()),) for x in rows.values()):
        raise ShapeError("the rounds kept in the state do not fit each other: sizes of log_… arrays differ.")
    ends = _begins(sizes)
    log: list[LoggedRound] = []
    for t, vectors in enumerate(np.array(arrays["log_vectors"])):
        of_round: dict[str, Any] = {name: kind(rounds[name][t]) for name, kind in _BY_ROUND.items()}
        by_row: dict[str, Any] = {name: array[ends[t] : ends[t + 1]] for name, array in rows.items()}
        log.append(LoggedRound(graph, nodes, vectors, **by_row, **of_round))
        _check(log[-1])
    return tuple(log)


def _check(record: LoggedRound) -> None:
    """Refuse a round that cannot have been told."""
    edges = record.edges
    outcomes = record.outcomes
    in_range = edges.size == 0 or 0 <= edges[0] <= edges[-1] < record.graph.n_edges
    if not in_range or (np.diff(edges) <= 0).any():
        raise InputError(f"the state is malformed: log_edges must ascend within 0..{record.graph.n_edges - 1}.")
    counted = (outcomes >= 0.0).all() and (outcomes <= 1.0).all() and record.trials.min(initial=1.0) >= 1.0
    if not counted or record.doses.min(initial=1) < 1 or record.number < 0 or not 0 <= record.level <= _LAST_LEVEL:
        raise InputError(
            "the state is malformed: outcomes, trials, doses, numbers or levels of its rounds are impossible."
        )


# -- as rows --


@dataclass(frozen=True)
class Pulls:
    """Sources in rounds, a pull each, sorted by round."""

    round: I64
    place: I64  # of the pull's source among ``seen``
    X: F64  # (pulls, P): what multiplies θ
    Z: F64  # (pulls, 1 + k): what multiplies d_i
    order: I64  # the pulls sorted by source
    begin: I64  # where each source's pulls begin in ``order``
    seen: I64  # the sources that occur, ascending

    def by_source(self, values: F64) -> F64:
        """Rows of pulls summed by source."""
        return np.asarray(np.add.reduceat(values[self.order], self.begin[:-1], axis=0)) if len(values) else values


@dataclass(frozen=True)
class Design:
    """Everything in the likelihood but the parameters: each row joins a pull and a cell, one target in one round."""

    pulls: Pulls
    # rows, sorted by pull
    ptr: I64  # where each pull's rows begin
    cell: I32  # of each row
    weight: F64  # how many outcomes the row stands for
    # responses: the rows whose outcome is not 0
    hit_row: I64
    hit_pull: I64
    hit_cell: I64
    hits: F64  # outcome times weight
    # cells, sorted by round
    cell_place: I64  # of the cell's target among ``observed``
    dose: F64  # m: how many contacted users the target follows
    taste: F64  # of the target for the round's product
    observed: I64  # the targets that occur, ascending
    T: F64  # (observed, d_t): what multiplies γ
    readiness: F64  # of each of these by its past
    # rounds
    contexts: F64  # (rounds, 1 + k + …): c(x)
    whole: NDArray[np.bool_]  # whether the round was never thinned
    both: float  # pairs of rows of one cell that both responded, in whole rounds
    scratch: F64  # (rows,): overwritten by each pass


def design_of(nodes: NodeFeatures, context: ContextFeatures, log: Log, passive_weight: float = 1.0) -> Design:
    """The rounds of a log, each with at least one row; outcomes of passive rounds count less."""
    own = context.scaled(np.array([r.vectors for r in log]).reshape(len(log), context.k))
    first_row = _begins([r.edges.size for r in log])
    first_cell = _begins([r.cells[0].size for r in log])
    pull_round = np.repeat(np.arange(len(log)), [r.pulls[0].size for r in log])
    pull_source = _joined((r.pulls[0] for r in log), np.int64)
    seen, place = _numbered(pull_source, nodes.n)
    observed, cell_place = _numbered(_joined((r.cells[0] for r in log), np.int64), nodes.n)
    ptr = _joined((r.pulls[1] + start for r, start in zip(log, first_row, strict=False)), np.int64)
    cell = _joined((r.cells[2] + start for r, start in zip(log, first_cell, strict=False)), np.int32)
    outcome = _joined((r.outcomes for r in log), np.float64)
    weight = _joined((r.weights * (passive_weight if r.passive else 1.0) for r in log), np.float64)
    whole = np.array([r.level == 0 for r in log], dtype=np.bool_)
    hit = np.flatnonzero(outcome > 0.0)
    # Σyy' over pairs is half of (Σy)² − Σy².
    counted = outcome[hit] * np.repeat(whole, np.diff(first_row))[hit]
    by_cell = np.bincount(cell[hit], counted)
    return Design(
        pulls=Pulls(
            round=pull_round,
            place=place,
            X=nodes.source_rows(context, own[pull_round], pull_source),
            Z=np.hstack([np.ones((place.size, 1)), own[pull_round]]),
            order=np.argsort(place, kind="stable"),
            begin=_begins(np.bincount(place, minlength=seen.size)),
            seen=seen,
        ),
        ptr=np.append(ptr, first_row[-1]),
        cell=cell,
        weight=weight,
        hit_row=hit,
        hit_pull=np.searchsorted(ptr, hit, side="right") - 1,
        hit_cell=cell[hit].astype(np.int64),
        hits=outcome[hit] * weight[hit],
        cell_place=cell_place,
        dose=_joined((r.doses[r.cells[1]] for r in log), np.float64),
        taste=_joined((r.tastes for r in log), np.float64),
        observed=observed,
        T=nodes.as_target[observed],
        readiness=nodes.readiness[observed],
        contexts=context.features(own),
        whole=whole,
        both=0.5 * float(by_cell @ by_cell - counted @ counted),
        scratch=np.empty(cell.size),
    )


def _joined(parts: Iterable[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate([np.empty(0, dtype=dtype), *parts], dtype=dtype, casting="unsafe")


def _begins(sizes: Sequence[int] | I64) -> I64:
    """Where each of several parts begins, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _numbered(values: I64, n: int) -> tuple[I64, I64]:
    """The distinct values in 0..n-1, ascending, and the place of each value among them."""
    occurs = np.zeros(n, dtype=np.bool_)
    occurs[values] = True
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[values]
