"""The state of a tensor regression: frozen arrays, how they begin, and how they become a file's arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.arrays import Arrays, Vectors
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

    Examples
    --------
    >>> from tensorucb.learner import TensorSettings, init
    >>> settings = TensorSettings.build((3, 2), 1)
    >>> state = init(settings, "ones")
    >>> state.n_samples, [covariance.shape for covariance in state.covariances]
    (0, [(1, 3, 3), (1, 2, 2)])
    """

    means: Vectors
    covariances: Vectors
    prior_means: Vectors
    n_samples: int = 0
    intercept_means: Vectors = ()
    intercept_variances: Vectors = ()


def init(settings: TensorSettings, start: str | Sequence[ArrayLike] = "random", *, rng: RngLike = None) -> TensorState:
    """The state before the first sample; see :class:`~tensorucb.learner.TensorRegression` for ``start``.

    Examples
    --------
    >>> from tensorucb.learner import TensorSettings, init
    >>> settings = TensorSettings.build((3, 2), 1)
    >>> [w.shape for w in init(settings, "ones").means]
    [(1, 3), (1, 2)]
    """
    means = _starting_means(settings, start, rng)
    # To the paper's letter, the first iterate is ones while the prior mean is zero.
    from_zero = isinstance(start, str) and start == "paper"
    scales = zip(settings.dims, settings.prior_variance, strict=True)
    return TensorState(
        means=means,
        covariances=tuple(np.tile(np.eye(d) * variance, (settings.rank, 1, 1)) for d, variance in scales),
        prior_means=tuple(np.zeros_like(w) for w in means) if from_zero else means,
        intercept_means=tuple(np.zeros(n) for n in settings.intercepts),
        intercept_variances=tuple(np.full(n, settings.intercept_variance) for n in settings.intercepts),
    )


def _starting_means(settings: TensorSettings, start: str | Sequence[ArrayLike], rng: RngLike) -> Vectors:
    shapes = [(settings.rank, d) for d in settings.dims]
    wanted = "'random', 'ones', 'paper' or one (R, d_l) array per mode"
    if isinstance(start, str):
        if start in ("paper", "ones"):
            return tuple(np.ones(shape) for shape in shapes)
        if start == "random":
            generator = as_generator(rng)
            return tuple(generator.normal(0.0, _RANDOM_SCALE, shape) for shape in shapes)
        raise InputError(f"init must be {wanted}; got {shown(start)}.")
    arrays = check_sequence("init", start, wanted)
    if len(arrays) != len(shapes):
        raise ShapeError(f"init must be {len(shapes)} arrays, one per mode; got {len(arrays)}.")
    return tuple(check_array(f"init[{mode}]", w, shapes[mode]).copy() for mode, w in enumerate(arrays))


_GROUPED = ("means", "covariances", "prior_means", "intercept_means", "intercept_variances")


def state_to_arrays(state: TensorState) -> Arrays:
    """The state as named plain arrays.

    Examples
    --------
    >>> from tensorucb.learner import TensorSettings, init, state_to_arrays
    >>> settings = TensorSettings.build((3, 2), 1)
    >>> sorted(state_to_arrays(init(settings, "ones")))[:2]
    ['covariances_0', 'covariances_1']
    """
    arrays: Arrays = {"n_samples": np.array(state.n_samples, dtype=np.int64)}
    for name in _GROUPED:
        arrays |= {f"{name}_{index}": array for index, array in enumerate(getattr(state, name))}
    return arrays


def state_from_arrays(settings: TensorSettings, arrays: Mapping[str, NDArray[Any]]) -> TensorState:
    """The state that :func:`state_to_arrays` wrote, checked against ``settings``.

    Examples
    --------
    >>> from tensorucb.learner import TensorSettings, init, state_from_arrays, state_to_arrays
    >>> settings = TensorSettings.build((3, 2), 1)
    >>> arrays = state_to_arrays(init(settings, "ones"))
    >>> state_from_arrays(settings, arrays).n_samples
    0
    """
    model = init(settings, "ones")
    for name, array in state_to_arrays(model).items():
        if name not in arrays or arrays[name].shape != array.shape or arrays[name].dtype != array.dtype:
            got = "nothing" if name not in arrays else f"{arrays[name].dtype} of {arrays[name].shape}"
            wanted = f"{array.dtype} of shape {array.shape}"
            raise FileFormatError(f"learner state: array {name!r} must be {wanted}; got {got}.")
    groups = {
        name: tuple(np.array(arrays[f"{name}_{index}"]) for index in range(len(getattr(model, name))))
        for name in _GROUPED
    }
    return TensorState(n_samples=int(arrays["n_samples"]), **groups)
