"""The state as named plain arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.errors import InputError, ShapeError
from tensorucb.learner.response._log import Told
from tensorucb.learner.response._state import Point, Prior, ResponseState

_FIXED = ("means", "groups")  # parts of the prior that follow from the settings
_UNCERTAINTY = ("seen", "weight_covariance", "effect_covariances", "gains")


def state_to_arrays(state: ResponseState) -> dict[str, NDArray[Any]]:
    """The state as arrays; rounds kept are flat, with offsets."""
    arrays: dict[str, NDArray[Any]] = {
        f"point_{field.name}": np.asarray(getattr(state.point, field.name)) for field in fields(Point)
    }
    arrays |= {
        f"prior_{field.name}": np.asarray(getattr(state.prior, field.name))
        for field in fields(Prior)
        if field.name not in _FIXED
    }
    arrays |= {name: getattr(state, name) for name in _UNCERTAINTY}
    arrays["landmarks"] = state.context.landmarks
    arrays["scales"] = np.array(state.context.scales, dtype=np.float64)
    arrays["counters"] = np.array([state.rounds, state.next_fit], dtype=np.int64)
    return arrays | _log_to_arrays(state.log, state.context.k)


def _joined(parts: Sequence[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate(parts).astype(dtype) if parts else np.empty(0, dtype=dtype)


def _offsets(sizes: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)


def _log_to_arrays(log: Sequence[Told], k: int) -> dict[str, NDArray[Any]]:
    return {
        "log_own": np.array([r.own for r in log]).reshape(len(log), k),
        "log_pulls": _offsets([r.sources.size for r in log]),
        "log_sources": _joined([r.sources for r in log], np.int64),
        "log_counts": _joined([np.diff(r.offsets) for r in log], np.int64),
        "log_targets": _joined([r.targets for r in log], np.int32),
        "log_outcomes": _joined([r.outcomes for r in log], np.float64),
        "log_trials": _joined([r.trials for r in log], np.float64),
    }


def state_from_arrays(fresh: ResponseState, arrays: Mapping[str, NDArray[Any]]) -> ResponseState:
    """The state of :func:`state_to_arrays`, which must fit ``fresh``, a start with the same settings and nodes."""
    _check(state_to_arrays(fresh), arrays)
    # Copies, so that the caller may go on with its arrays.
    a = {name: np.array(array, order="C") for name, array in arrays.items()}

    def part(prefix: str, like: Any) -> dict[str, Any]:
        found = {name.removeprefix(prefix): array for name, array in a.items() if name.startswith(prefix)}
        return {name: float(v) if isinstance(getattr(like, name), float) else v for name, v in found.items()}

    return replace(
        fresh,
        context=replace(fresh.context, scales=tuple(a["scales"].tolist()), landmarks=a["landmarks"]),
        point=Point(**part("point_", fresh.point)),
        prior=replace(fresh.prior, **part("prior_", fresh.prior)),
        log=_log_from_arrays(a),
        rounds=int(a["counters"][0]),
        next_fit=int(a["counters"][1]),
        **{name: a[name] for name in _UNCERTAINTY},
    )


def _log_from_arrays(a: Mapping[str, NDArray[Any]]) -> tuple[Told, ...]:
    pulls, begins = a["log_pulls"], _offsets(a["log_counts"].tolist())
    if pulls.size != len(a["log_own"]) + 1 or pulls[-1] != begins.size - 1 or begins[-1] != a["log_targets"].size:
        raise ShapeError("the rounds kept in the state do not fit each other: sizes of log_… arrays differ.")
    log = []
    for t, own in enumerate(a["log_own"]):
        first, last = int(pulls[t]), int(pulls[t + 1])
        span = slice(int(begins[first]), int(begins[last]))
        offsets = begins[first : last + 1] - begins[first]
        rows = (a[f"log_{name}"][span] for name in ("targets", "outcomes", "trials"))
        log.append(Told(own, a["log_sources"][first:last], offsets, *rows))
    return tuple(log)


# Arrays whose first axis grows as rounds are told, and by what.
_GROWING = {
    "point_effects": "seen",
    "prior_effect_precisions": "seen",
    "prior_effect_naturals": "seen",
    "effect_covariances": "seen",
    "gains": "seen",
    "log_counts": "log_sources",
    "log_outcomes": "log_targets",
    "log_trials": "log_targets",
}
_FREE = ("seen", "landmarks", "log_own", "log_pulls", "log_sources", "log_targets")


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
