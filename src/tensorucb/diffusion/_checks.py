"""Checks of what the callers of this room hand in."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.errors import InputError, ShapeError
from tensorucb.graph import Graph

__all__ = ["check_count", "check_probabilities", "check_rows", "check_values"]


def check_rows(graph: Graph, rows: ArrayLike) -> NDArray[np.int64]:
    """Seeds as distinct node rows, in the order given."""
    given = np.asarray(rows)
    if given.ndim != 1:
        raise ShapeError(f"seeds must be a flat array of node rows; got shape {given.shape}.")
    if given.size and given.dtype.kind not in "iu":
        raise InputError(f"seeds must be whole node rows; got dtype {given.dtype}. Use graph.rows(ids) for ids.")
    result = given.astype(np.int64)
    if result.size and (result.min() < 0 or result.max() >= graph.n_nodes):
        bad = result[(result < 0) | (result >= graph.n_nodes)][0]
        raise InputError(
            f"seed rows must lie in 0..{graph.n_nodes - 1}; got {bad}. Use graph.rows(ids) to turn ids into rows."
        )
    if np.unique(result).size != result.size:
        values, counts = np.unique(result, return_counts=True)
        raise InputError(f"seed rows must be distinct; got {values[counts > 1][0]} more than once.")
    return result


def check_probabilities(graph: Graph, probabilities: ArrayLike) -> NDArray[np.float64]:
    """One probability per edge, in graph order."""
    result = np.ascontiguousarray(probabilities, dtype=np.float64)
    if result.shape != (graph.n_edges,):
        raise ShapeError(f"probabilities must have one entry per edge, shape ({graph.n_edges},); got {result.shape}.")
    # Written so that NaN fails as well.
    if not (result.min(initial=0.0) >= 0.0 and result.max(initial=0.0) <= 1.0):
        edge = int(np.flatnonzero(~((result >= 0.0) & (result <= 1.0)))[0])
        raise InputError(f"probabilities must lie in [0, 1]; got {result[edge]} at edge {edge}. Clip the scores first.")
    return result


def check_values(graph: Graph, values: ArrayLike | None) -> NDArray[np.float64]:
    """One non-negative value per node; an empty array stands for 1 each."""
    if values is None:
        return np.empty(0)
    result = np.ascontiguousarray(values, dtype=np.float64)
    if result.shape != (graph.n_nodes,):
        raise ShapeError(f"values must have one entry per node, shape ({graph.n_nodes},); got {result.shape}.")
    if not (np.isfinite(result).all() and result.min(initial=0.0) >= 0.0):
        raise InputError("values must be finite and not negative; set the value of unwanted users to 0.")
    return result


def check_count(name: str, count: int) -> int:
    """A positive whole number."""
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise InputError(f"{name} must be a positive whole number; got {count!r}.")
    return int(count)
