"""Scaling of features. The regret bound assumes vectors of at most unit length (A3 of the paper)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.errors import InputError, ShapeError

__all__ = ["standardise", "unit_rows"]


def _matrix(values: ArrayLike) -> NDArray[np.float64]:
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2:
        raise ShapeError(f"features must be a matrix, one row a user or product; got shape {matrix.shape}.")
    if not np.isfinite(matrix).all():
        raise InputError("features must be finite numbers; found NaN or infinity.")
    return matrix


def unit_rows(values: ArrayLike) -> NDArray[np.float64]:
    """Rows divided by their length; rows of zeros stay.

    Parameters
    ----------
    values
        One row a user or product.

    Returns
    -------
    ndarray
        The same shape.
    """
    matrix = _matrix(values)
    # The largest entry first, so that neither tiny nor huge rows lose their squares.
    peak = np.abs(matrix).max(axis=1, keepdims=True, initial=0.0)
    matrix = np.divide(matrix, peak, out=np.zeros_like(matrix), where=peak > 0)
    length = np.linalg.norm(matrix, axis=1, keepdims=True)
    unit: NDArray[np.float64] = np.divide(matrix, length, out=matrix, where=length > 0)
    return unit


def standardise(values: ArrayLike) -> NDArray[np.float64]:
    """Columns with mean 0 and standard deviation 1; constant columns become 0.

    Parameters
    ----------
    values
        One row a user or product.

    Returns
    -------
    ndarray
        The same shape.
    """
    matrix = _matrix(values)
    if not len(matrix):
        return matrix
    centred = matrix - matrix.mean(axis=0)
    deviation = centred.std(axis=0)
    # Rounding leaves a constant column with a deviation of about its size times 1e-16.
    varies = deviation > 1e-12 * np.abs(matrix).max(axis=0)
    standard: NDArray[np.float64] = np.divide(centred, deviation, out=np.zeros_like(centred), where=varies)
    return standard
