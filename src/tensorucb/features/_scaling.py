"""Scaling of features. The regret bound assumes vectors of at most unit length (A3 of the paper)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb._columns import standardised
from tensorucb.checks import check_array


def unit_rows(values: ArrayLike) -> NDArray[np.float64]:
    """Rows divided by their length; rows of zeros stay.

    Parameters
    ----------
    values
        One row per user or product.

    Returns
    -------
    ndarray
        The same shape.

    Examples
    --------
    >>> from tensorucb.features import unit_rows
    >>> unit_rows([[3.0, 4.0], [0.0, 0.0]]).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    matrix = check_array("values", values, ("n?", "d?"), hint="One row per user or product.")
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
        One row per user or product.

    Returns
    -------
    ndarray
        The same shape.

    Examples
    --------
    >>> from tensorucb.features import standardise
    >>> standardise([[0.0, 5.0], [2.0, 5.0]]).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """
    matrix = check_array("values", values, ("n?", "d?"), hint="One row per user or product.")
    return standardised(matrix)
