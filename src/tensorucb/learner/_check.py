"""Features, outcomes and groups as the kernels want them, or a clear error before anything is learned."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64
from tensorucb.checks import check_array, check_rows, check_sequence
from tensorucb.errors import ShapeError
from tensorucb.learner._settings import TensorSettings


def check_features(settings: TensorSettings, features: Any) -> list[F64]:
    """One finite ``(N, d_l)`` array per mode, all of one length."""
    modes = len(settings.dims)
    given = check_sequence("features", features, f"a sequence of {modes} arrays, one per mode")
    if len(given) != modes:
        raise ShapeError(f"features must be a sequence of {modes} arrays, one per mode; got {len(given)}.")
    arrays = [check_array(f"features[{mode}]", x, ("N?", settings.dims[mode])) for mode, x in enumerate(given)]
    lengths = [len(array) for array in arrays]
    if len(set(lengths)) > 1:
        raise ShapeError(f"features of all modes must have one length; got {lengths}.")
    return arrays


def check_outcomes(settings: TensorSettings, y: Any, length: int) -> F64:
    """Finite outcomes, one per row; in [0, 1] for the logistic likelihood."""
    hint = "One outcome for each row of features."
    if settings.likelihood == "logistic":
        hint += " The logistic likelihood takes outcomes in [0, 1]; use likelihood='gaussian' for others."
        return check_array("y", y, (length,), low=0.0, high=1.0, hint=hint)
    return check_array("y", y, (length,), hint=hint)


def check_groups(settings: TensorSettings, groups: Any, length: int) -> NDArray[np.int64]:
    """``(N, G)`` members of the groups of intercepts, one column per group."""
    sizes = settings.intercepts
    wanted = f"a sequence of {len(sizes)} arrays, one for each entry of intercepts={sizes}"
    given = [] if groups is None else check_sequence("groups", groups, wanted)
    if len(given) != len(sizes):
        raise ShapeError(f"groups must be {wanted}; got {len(given)}.")
    columns = np.empty((length, len(sizes)), dtype=np.int64)
    for index, (value, size) in enumerate(zip(given, sizes, strict=True)):
        members = check_rows(f"groups[{index}]", value, size)
        if members.size != length:
            raise ShapeError(f"groups[{index}] must be {length} whole numbers; got {members.size}.")
        columns[:, index] = members
    return columns
