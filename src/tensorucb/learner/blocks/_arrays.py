"""The state as named plain arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.errors import InputError, ShapeError
from tensorucb.learner.blocks._state import BlockState, Point, Prior, Round

__all__ = ["state_from_arrays", "state_to_arrays"]

_PER_MODE = ("weights", "precisions", "naturals")


def state_to_arrays(state: BlockState) -> dict[str, NDArray[Any]]:
    """The state as arrays; rounds kept are flat, with offsets."""
    point, prior = state.point, state.prior
    groups = {"weights": point.weights, "precisions": prior.precisions, "naturals": prior.naturals}
    arrays: dict[str, NDArray[Any]] = {
        f"{name}_{mode}": array for name, group in groups.items() for mode, array in enumerate(group)
    }
    return arrays | {
        "scales": np.array(state.scales, dtype=np.float64),
        "effects": point.effects,
        "responses": point.responses,
        "group_variances": prior.group_variances,
        "targets": point.targets,
        "taste": np.array([point.taste, prior.taste_precision, prior.taste_natural]),
        "effect_precisions": prior.effect_precisions,
        "effect_naturals": prior.effect_naturals,
        "variances": prior.variances,
        "target_precisions": prior.target_precisions,
        "target_naturals": prior.target_naturals,
        "seen": state.seen,
        "weight_covariance": state.weight_covariance,
        "effect_covariances": state.effect_covariances,
        "gains": state.gains,
        "counters": np.array([state.rounds, state.next_fit], dtype=np.int64),
        **_log_to_arrays(state.log, point.effects.shape[1] - 1),
    }


def _joined(parts: Sequence[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate(parts).astype(dtype) if parts else np.empty(0, dtype=dtype)


def _offsets(sizes: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)


def _log_to_arrays(log: Sequence[Round], k: int) -> dict[str, NDArray[Any]]:
    return {
        "log_products": np.array([r.product for r in log]).reshape(len(log), k),
        "log_pulls": _offsets([r.sources.size for r in log]),
        "log_sources": _joined([r.sources for r in log], np.int64),
        "log_counts": _joined([np.diff(r.offsets) for r in log], np.int64),
        "log_targets": _joined([r.targets for r in log], np.int32),
        "log_outcomes": _joined([r.outcomes for r in log], np.float64),
        "log_trials": _joined([r.trials for r in log], np.float64),
    }


def state_from_arrays(model: BlockState, arrays: Mapping[str, NDArray[Any]]) -> BlockState:
    """The state of :func:`state_to_arrays`, which must fit ``model``, a fresh start of the same settings and nodes."""
    _check(state_to_arrays(model), arrays)
    # Copies, so that the caller may go on with its arrays.
    a = {name: np.array(array, order="C") for name, array in arrays.items()}
    modes = range(len(model.point.weights))
    weights, precisions, naturals = (tuple(a[f"{name}_{mode}"] for mode in modes) for name in _PER_MODE)
    taste, taste_precision, taste_natural = a["taste"].tolist()
    prior = Prior(
        precisions=precisions,
        naturals=naturals,
        groups=model.prior.groups,
        group_means=model.prior.group_means,
        group_variances=a["group_variances"],
        effect_precisions=a["effect_precisions"],
        effect_naturals=a["effect_naturals"],
        variances=a["variances"],
        target_precisions=a["target_precisions"],
        target_naturals=a["target_naturals"],
        taste_precision=taste_precision,
        taste_natural=taste_natural,
    )
    return BlockState(
        scales=tuple(a["scales"].tolist()),
        point=Point(weights, a["effects"], a["responses"], a["targets"], taste),
        prior=prior,
        seen=a["seen"],
        weight_covariance=a["weight_covariance"],
        effect_covariances=a["effect_covariances"],
        gains=a["gains"],
        log=_log_from_arrays(a),
        rounds=int(a["counters"][0]),
        next_fit=int(a["counters"][1]),
    )


def _log_from_arrays(a: Mapping[str, NDArray[Any]]) -> tuple[Round, ...]:
    pulls, begins = a["log_pulls"], _offsets(a["log_counts"].tolist())
    if pulls.size != len(a["log_products"]) + 1 or pulls[-1] != begins.size - 1 or begins[-1] != a["log_targets"].size:
        raise ShapeError("the rounds kept in the state do not fit each other: sizes of log_… arrays differ.")
    log = []
    for t, product in enumerate(a["log_products"]):
        first, last = int(pulls[t]), int(pulls[t + 1])
        span = slice(int(begins[first]), int(begins[last]))
        offsets = begins[first : last + 1] - begins[first]
        rows = (a[f"log_{name}"][span] for name in ("targets", "outcomes", "trials"))
        log.append(Round(product, a["log_sources"][first:last], offsets, *rows))
    return tuple(log)


# Arrays whose first axis grows as rounds are told, and by what.
_GROWING = {
    "effects": "seen",
    "effect_precisions": "seen",
    "effect_naturals": "seen",
    "effect_covariances": "seen",
    "gains": "seen",
    "log_counts": "log_sources",
    "log_outcomes": "log_targets",
    "log_trials": "log_targets",
}
_FREE = ("seen", "log_products", "log_pulls", "log_sources", "log_targets")


def _check(expected: Mapping[str, NDArray[Any]], arrays: Mapping[str, NDArray[Any]]) -> None:
    if set(expected) != set(arrays):
        raise InputError(f"the state must hold arrays {sorted(expected)}; got {sorted(arrays)}.")
    for name, array in expected.items():
        shape, given = array.shape, arrays[name]
        if name in _GROWING:
            shape = (len(arrays[_GROWING[name]]), *shape[1:])
        elif name in _FREE:
            shape = (*given.shape[:1], *shape[1:])
        if given.shape != shape or given.dtype != array.dtype:
            raise ShapeError(
                f"array {name!r} of the state must be {array.dtype} {shape}; got {given.dtype} {given.shape}."
            )
