"""What every policy checks before it believes an argument."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.errors import InputError, ShapeError
from tensorucb.graph import Graph

__all__ = [
    "LARGEST",
    "as_modes",
    "as_observations",
    "as_users",
    "check_count",
    "check_graph",
    "check_magnitude",
    "check_number",
]

LARGEST = 1e12
"""No feature may be larger: policies multiply features of up to seven modes and square the result."""


def as_modes(product: Any) -> tuple[NDArray[np.float64], ...]:
    """``product`` as a tuple of vectors: one (d3,) vector, or a sequence of them for more modes."""
    several = (
        isinstance(product, Sequence)
        and len(product) > 0
        and all(isinstance(part, np.ndarray | list | tuple) for part in product)
    )
    return tuple(_vector(part) for part in (product if several else (product,)))


def _vector(values: Any) -> NDArray[np.float64]:
    try:
        vector = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"a product must be a vector of numbers; got {values!r}.") from error
    # ascontiguousarray makes a scalar a vector, so the shape that came decides.
    if np.ndim(values) != 1 or vector.size == 0:
        raise ShapeError(
            "a product must be a vector (d,), or a sequence of vectors for several modes; "
            f"got shape {np.shape(values)}."
        )
    return check_magnitude("a product's features", vector)


def check_magnitude(name: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same array, or an error if it holds NaN, infinity or a number too large to compute with."""
    if not np.isfinite(values).all():
        raise InputError(f"{name} must be finite; got NaN or infinity. Clean or impute them first.")
    largest = np.abs(values).max(initial=0.0)
    if largest > LARGEST:
        raise InputError(
            f"{name} must lie between -{LARGEST:g} and {LARGEST:g}; got one of size {largest:g}. "
            "Scale them first, for example to a standard deviation of 1."
        )
    return values


def as_users(graph: Graph, users: ArrayLike | None, *, needed: bool, name: str) -> NDArray[np.float64] | None:
    """``users`` as a finite (n, d) array; None passes only where the policy needs none."""
    if users is None:
        if needed:
            raise InputError(
                f"{name} needs user features; got users=None. "
                "Pass an (n, d) array, e.g. tensorucb.features.laplacian_eigenmap(graph, dim=10)."
            )
        return None
    try:
        array = np.ascontiguousarray(users, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"users must be an (n, d) array of numbers; got {type(users).__name__}.") from error
    if array.ndim != 2 or array.shape[0] != graph.n_nodes or array.shape[1] == 0:
        raise ShapeError(
            f"users must have one row per node, ({graph.n_nodes}, d); got shape {array.shape}. Rows follow graph.ids."
        )
    return check_magnitude("user features", array)


def as_observations(
    n_edges: int, edges: ArrayLike, outcomes: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Edge numbers and outcomes of one length, in range; both may be empty."""
    try:
        rows, values = np.asarray(edges), np.ascontiguousarray(outcomes, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"edges and outcomes must be arrays of numbers ({error}).") from error
    if rows.ndim != 1 or rows.shape != values.shape:
        raise ShapeError(f"edges and outcomes must be of one length; got shapes {rows.shape} and {values.shape}.")
    if rows.size == 0:
        return np.empty(0, dtype=np.int64), values
    if not np.issubdtype(rows.dtype, np.integer):
        raise InputError(f"edges must be whole edge numbers; got dtype {rows.dtype}.")
    if rows.min() < 0 or rows.max() >= n_edges:
        raise InputError(
            f"edges must be edge numbers in 0..{n_edges - 1}; got {int(rows.min())}..{int(rows.max())}. "
            "graph.edge_rows gives the number of an edge."
        )
    # A NaN fails both comparisons, so it is caught as well.
    if not ((values >= 0.0) & (values <= 1.0)).all():
        raise InputError("outcomes must lie in [0, 1]; got values outside it, or NaN.")
    return np.ascontiguousarray(rows, dtype=np.int64), values


def check_graph(graph: Any) -> None:
    """An error unless ``graph`` is one."""
    if not isinstance(graph, Graph):
        raise InputError(
            f"graph must be a tensorucb Graph; got {graph!r:.80}. Make one with Graph.from_edges(sources, targets)."
        )


def check_count(name: str, value: Any, low: int, high: int | None = None) -> int:
    """A whole number in [low, high], or an error that says so."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool | np.bool_)
    if not whole or value < low or (high is not None and value > high):
        bounds = f"in {low}..{high}" if high is not None else f"of at least {low}"
        raise InputError(f"{name} must be a whole number {bounds}; got {value!r}.")
    return int(value)


def check_number(name: str, value: Any, *, low: float = 0.0, strict: bool = False) -> float:
    """A finite number of at least ``low`` (above it if ``strict``), or an error that says so."""
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value < low or (strict and value == low):
        raise InputError(
            f"{name} must be a finite number {'above' if strict else 'of at least'} {low:g}; got {value!r}."
        )
    return float(value)
