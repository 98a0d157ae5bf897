"""The state of a tensor regression: frozen arrays, how they begin, and how they become a file's arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.arrays import F64
from tensorucb.checks import check_array, check_sequence, shown
from tensorucb.errors import FileFormatError, InputError, ShapeError
from tensorucb.learner._settings import TensorSettings
from tensorucb.rng import RngLike, as_generator

# Standard deviation of random prior means.
_RANDOM_SCALE = 0.3


@dataclass(frozen=True)
class TensorState:
    """Everything learned so far.

    Attributes
    ----------
    means
        ``(R, d_l)`` posterior means w̄ of each mode.
    covariances
        ``(R, d_l, d_l)`` posterior covariances Σ of each mode.
    prior_means
        ``(R, d_l)`` prior means of each mode: where learning starts from and what forgetting returns to.
    n_samples
        Number of samples learned.
    intercept_means, intercept_variances
        One array per group of intercepts (empty tuples without intercepts).
    """

    means: tuple[F64, ...]
    covariances: tuple[F64, ...]
    prior_means: tuple[F64, ...]
    n_samples: int = 0
    intercept_means: tuple[F64, ...] = ()
    intercept_variances: tuple[F64, ...] = ()


def init(settings: TensorSettings, start: str | Sequence[ArrayLike] = "random", *, rng: RngLike = None) -> TensorState:
    """The state before the first sample; see :class:`~tensorucb.learner.TensorRegression` for ``start``."""
    means = _starting_means(settings, start, rng)
    prior = tuple(np.zeros_like(w) for w in means) if isinstance(start, str) and start == "paper" else means
    return TensorState(
        means=means,
        covariances=tuple(
            np.tile(np.eye(d) * variance, (settings.rank, 1, 1))
            for d, variance in zip(settings.dims, settings.prior_variance, strict=True)
        ),
        prior_means=prior,
        intercept_means=tuple(np.zeros(n) for n in settings.intercepts),
        intercept_variances=tuple(np.full(n, settings.intercept_variance) for n in settings.intercepts),
    )


def _starting_means(settings: TensorSettings, start: str | Sequence[ArrayLike], rng: RngLike) -> tuple[F64, ...]:
    shapes = [(settings.rank, d) for d in settings.dims]
    if isinstance(start, str):
        if start in ("paper", "ones"):
            return tuple(np.ones(shape) for shape in shapes)
        if start == "random":
            generator = as_generator(rng)
            return tuple(generator.normal(0.0, _RANDOM_SCALE, shape) for shape in shapes)
        raise InputError(f"init must be 'random', 'ones', 'paper' or one (R, d_l) array per mode; got {shown(start)}.")
    arrays = check_sequence("init", start, "'random', 'ones', 'paper' or one (R, d_l) array per mode")
    if len(arrays) != len(shapes):
        raise ShapeError(f"init must be {len(shapes)} arrays, one per mode; got {len(arrays)}.")
    return tuple(check_array(f"init[{mode}]", w, shapes[mode]).copy() for mode, w in enumerate(arrays))


_GROUPED = ("means", "covariances", "prior_means", "intercept_means", "intercept_variances")


def state_to_arrays(state: TensorState) -> dict[str, NDArray[Any]]:
    """The state as named plain arrays."""
    arrays: dict[str, NDArray[Any]] = {"n_samples": np.array(state.n_samples, dtype=np.int64)}
    for name in _GROUPED:
        arrays |= {f"{name}_{index}": array for index, array in enumerate(getattr(state, name))}
    return arrays


def state_from_arrays(settings: TensorSettings, arrays: Mapping[str, NDArray[Any]]) -> TensorState:
    """The state that :func:`state_to_arrays` wrote, checked against ``settings``."""
    model = init(settings, "ones")
    expected = state_to_arrays(model)
    for name, array in expected.items():
        if name not in arrays or arrays[name].shape != array.shape or arrays[name].dtype != array.dtype:
            raise FileFormatError(
                f"learner state: array {name!r} must be {array.dtype} of shape {array.shape}; "
                f"got {'nothing' if name not in arrays else f'{arrays[name].dtype} of {arrays[name].shape}'}."
            )
    groups = {
        name: tuple(np.array(arrays[f"{name}_{index}"]) for index in range(len(getattr(model, name))))
        for name in _GROUPED
    }
    return TensorState(n_samples=int(arrays["n_samples"]), **groups)
