"""Features, outcomes and groups as the kernels want them, or a clear error before anything is learned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.errors import InputError, ShapeError, StateError
from tensorucb.learner._settings import TensorSettings
from tensorucb.learner._state import TensorState

__all__ = ["check_features", "check_groups", "check_outcomes", "require_scales"]

F64 = NDArray[np.float64]


def _numbers(value: ArrayLike, what: str) -> F64:
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} must be numbers; got {value!r:.80}.") from error
    if not np.isfinite(array).all():
        raise InputError(f"{what} must be finite; got NaN or infinity. Drop or fill those rows first.")
    return array


def check_features(settings: TensorSettings, features: Sequence[ArrayLike]) -> list[F64]:
    """One finite ``(N, d_l)`` array a mode, all of one length."""
    modes = len(settings.dims)
    if isinstance(features, str) or not np.iterable(features) or not hasattr(features, "__len__"):
        raise InputError(f"features must be a sequence of {modes} arrays, one a mode; got {features!r:.80}.")
    if len(features) != modes:
        raise ShapeError(f"features must be a sequence of {modes} arrays, one a mode; got {len(features)}.")
    arrays = [_numbers(x, f"features of mode {mode}") for mode, x in enumerate(features)]
    for mode, (array, d) in enumerate(zip(arrays, settings.dims, strict=True)):
        if array.ndim != 2 or array.shape[1] != d:
            raise ShapeError(f"features of mode {mode} must have shape (N, {d}); got {array.shape}.")
    lengths = [len(array) for array in arrays]
    if len(set(lengths)) > 1:
        raise ShapeError(f"features of all modes must have one length; got {lengths}.")
    return arrays


def check_outcomes(settings: TensorSettings, y: ArrayLike, length: int) -> F64:
    """Finite outcomes, one a row; in [0, 1] for the logistic likelihood."""
    outcomes = _numbers(y, "y")
    if outcomes.shape != (length,):
        raise ShapeError(f"y must have shape ({length},), one outcome for each row of features; got {outcomes.shape}.")
    if settings.likelihood == "logistic" and length and (outcomes.min() < 0.0 or outcomes.max() > 1.0):
        raise InputError(
            "y must lie in [0, 1] for the logistic likelihood; "
            f"got values from {outcomes.min():g} to {outcomes.max():g}. Use likelihood='gaussian' for other targets."
        )
    return outcomes


def check_groups(settings: TensorSettings, groups: Sequence[ArrayLike] | None, length: int) -> NDArray[np.int64]:
    """``(N, G)`` members of the groups of intercepts, one column a group."""
    sizes = settings.intercepts
    if groups is not None and not np.iterable(groups):
        raise InputError(f"groups must be a sequence of {len(sizes)} arrays, one a group; got {groups!r:.80}.")
    given = () if groups is None else tuple(groups)
    if len(given) != len(sizes):
        raise ShapeError(
            f"groups must be {len(sizes)} arrays, one for each entry of intercepts={sizes}; got {len(given)}."
        )
    columns = np.empty((length, len(sizes)), dtype=np.int64)
    for index, (value, size) in enumerate(zip(given, sizes, strict=True)):
        array = np.asarray(value)
        if array.shape != (length,) or array.dtype.kind not in "iu":
            raise ShapeError(
                f"groups[{index}] must be {length} whole numbers; got {array.dtype} of shape {array.shape}."
            )
        if length and (array.min() < 0 or array.max() >= size):
            raise InputError(f"groups[{index}] must lie in 0..{size - 1}; got {array.min()}..{array.max()}.")
        columns[:, index] = array
    return columns


def require_scales(state: TensorState) -> tuple[float, ...]:
    """The factors of the features, which ``scale="first_batch"`` knows only after its first batch."""
    if state.feature_scales is None:
        raise StateError("scale='first_batch' needs a first update before it can predict; call update(...) first.")
    return state.feature_scales
