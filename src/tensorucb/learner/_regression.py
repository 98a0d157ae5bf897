"""`TensorRegression`: the paper's online variational tensor model, with its settings, its state and its files."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.arrays import F64, I64, Arrays, Vectors
from tensorucb.checks import (
    check_array,
    check_choice,
    check_count,
    check_number,
    check_path,
    check_rows,
    check_sequence,
    plain,
    refusal,
    shown,
    shown_path,
)
from tensorucb.errors import FileFormatError, InputError, ShapeError
from tensorucb.files import read_state, write_state
from tensorucb.learner._kernels import learn_samples
from tensorucb.rng import RngLike, as_generator

Features = Sequence[ArrayLike]
Groups = Sequence[ArrayLike] | None

_KIND = "tensor_regression"
_SETTINGS = (
    *("dims", "rank", "likelihood", "noise_variance", "prior_variance"),
    *("intercepts", "intercept_variance", "order", "tolerance", "max_sweeps"),
)
_GROUPED = ("means", "covariances", "prior_means", "intercept_means", "intercept_variances")
_MOST_MODES = 64
_MOST_NUMBERS = 500_000_000
# Standard deviation of random prior means.
_RANDOM_SCALE = 0.3
# Rows read at a time, so that memory stays bounded.
_ROWS = 8192


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
        ``(R, d_l)`` prior means of each mode, where learning starts from.
    intercept_means, intercept_variances
        One array per group of intercepts (empty tuples without intercepts).
    n_samples, n_sweeps, n_unconverged
        Samples learned, Gauss–Seidel sweeps over them, and samples whose sweeps ``max_sweeps`` ended.
    """

    means: Vectors
    covariances: Vectors
    prior_means: Vectors
    intercept_means: Vectors = ()
    intercept_variances: Vectors = ()
    n_samples: int = 0
    n_sweeps: int = 0
    n_unconverged: int = 0


class TensorRegression:
    """Online variational tensor regression of any order (the paper's section 4).

    The response score is ``u = Σ_r Π_l φ_lᵀ w^{l,r}``; the posterior of each ``w^{l,r}`` is Gaussian and is updated
    sample by sample, which costs O(R·D·d²). The posterior is factorised over modes and ranks and second moments are
    mean-field, as in the paper. ``state`` is a frozen `TensorState`, replaced by every update.

    Parameters
    ----------
    dims
        Dimension d_l of each mode; their number is D ≥ 1.
    rank
        R, the number of CP components.
    likelihood
        ``"gaussian"`` (the paper), or ``"logistic"`` for outcomes in [0, 1]: the Jaakkola–Jordan bound, refreshed in
        every sweep with ψ² = E[u²].
    noise_variance, prior_variance
        σ² of the Gaussian likelihood, and the prior variance of every coefficient.
    init
        ``"random"``: prior means drawn from N(0, 0.3²), so that ranks differ and w = 0, where every gradient vanishes,
        is left behind. ``"ones"``: prior means of ones. ``"paper"``: to its letter, the first iterate is ones while
        the prior mean is zero; for D ≥ 2 a first outcome of 0 then leads to w̄ = 0, which nothing leaves.
        Or one ``(R, d_l)`` array of prior means per mode.
    intercepts, intercept_variance
        Sizes of groups of shrunken intercepts, such as ``(n_nodes, n_nodes)`` for sources and targets; each sample
        then names its member of every group. Their prior means are zero.
    order
        Of the visits in a sweep: ``"ranks"``, all modes of a rank before the next rank, or ``"modes"``, all ranks of
        a mode before the next mode.
    tolerance, max_sweeps
        A sample's sweeps end when no φᵀw̄, intercept or ω moves by more than ``tolerance`` (relative to one plus its
        size); ``state.n_unconverged`` counts the samples which ``max_sweeps`` ended.
    rng
        Seed or generator of ``init="random"``.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorucb.learner import TensorRegression
    >>> learner = TensorRegression(dims=(2, 3), rank=2, rng=0)
    >>> learner.update([np.ones((4, 2)), np.ones((4, 3))], [1.0, 1.0, 1.0, 1.0])
    >>> mean, variance = learner.predict([np.ones((1, 2)), np.ones((1, 3))])
    >>> bool(abs(mean[0] - 1.0) < 0.1)
    True
    """

    def __init__(
        self,
        dims: Sequence[int],
        rank: int,
        *,
        likelihood: str = "gaussian",
        noise_variance: float = 0.1,
        prior_variance: float = 1.0,
        init: str | Sequence[ArrayLike] = "random",
        intercepts: Sequence[int] = (),
        intercept_variance: float = 0.3,
        order: str = "ranks",
        tolerance: float = 1e-8,
        max_sweeps: int = 100,
        rng: RngLike = None,
    ) -> None:
        # What the checks return is kept: kernels compile again for every other kind of number.
        sizes = _entries("dims", dims, "dims=(10, 10, 10), one dimension for each mode")
        self.dims = tuple(check_count(f"dims[{mode}]", size, 1, 100_000) for mode, size in enumerate(sizes))
        self.rank = check_count("rank", rank, 1, 1000)
        self.likelihood = check_choice("likelihood", likelihood, ("gaussian", "logistic"))
        self.noise_variance = check_number("noise_variance", noise_variance, strict=True)
        self.prior_variance = check_number("prior_variance", prior_variance, strict=True)
        groups = _entries("intercepts", intercepts, "intercepts=(n_nodes, n_nodes)")
        self.intercepts = tuple(check_count(f"intercepts[{g}]", n, 1, 2**31 - 1) for g, n in enumerate(groups))
        self.intercept_variance = check_number("intercept_variance", intercept_variance, strict=True)
        self.order = check_choice("order", order, ("ranks", "modes"))
        self.tolerance = check_number("tolerance", tolerance, low=1e-300)
        self.max_sweeps = check_count("max_sweeps", max_sweeps)
        self._check_size()
        self.state = self._start(init, rng)

    def _check_size(self) -> None:
        if not self.dims:
            raise InputError(
                "must name at least one mode; got an empty sequence. Pass e.g. dims=(10, 10, 10).", argument="dims"
            )
        numbers = self.rank * sum(d * d for d in self.dims) + sum(self.intercepts)
        if numbers > _MOST_NUMBERS:
            raise InputError(
                f"dims={shown(self.dims)} and rank={self.rank} need {numbers:,} numbers, more than "
                f"{_MOST_NUMBERS:,}. Use fewer features or a lower rank."
            )

    def _start(self, init: str | Sequence[ArrayLike], rng: RngLike) -> TensorState:
        """Σ = the prior's, and w̄ as ``init`` says."""
        means = self._starting_means(init, rng)
        # To the paper's letter, the first iterate is ones while the prior mean is zero (Eq. 7).
        from_zero = isinstance(init, str) and init == "paper"
        return TensorState(
            means=means,
            covariances=tuple(np.tile(np.eye(d) * self.prior_variance, (self.rank, 1, 1)) for d in self.dims),
            prior_means=tuple(np.zeros_like(w) for w in means) if from_zero else means,
            intercept_means=tuple(np.zeros(n) for n in self.intercepts),
            intercept_variances=tuple(np.full(n, self.intercept_variance) for n in self.intercepts),
        )

    def _starting_means(self, init: str | Sequence[ArrayLike], rng: RngLike) -> Vectors:
        shapes = [(self.rank, d) for d in self.dims]
        wanted = "'random', 'ones', 'paper' or one (R, d_l) array per mode"
        if isinstance(init, str):
            if init in ("paper", "ones"):
                return tuple(np.ones(shape) for shape in shapes)
            if init == "random":
                generator = as_generator(rng)
                return tuple(generator.normal(0.0, _RANDOM_SCALE, shape) for shape in shapes)
            raise refusal("init", f"{wanted}", init)
        arrays = check_sequence("init", init, wanted)
        if len(arrays) != len(shapes):
            raise ShapeError(f"must be {len(shapes)} arrays, one per mode; got {len(arrays)}.", argument="init")
        return tuple(check_array(f"init[{mode}]", w, shapes[mode]).copy() for mode, w in enumerate(arrays))

    # -- samples --

    def _checked_rows(self, features: Features, groups: Groups) -> tuple[list[F64], I64]:
        """Finite ``(N, d_l)`` features, one array per mode, and the ``(N, G)`` members of the groups of intercepts."""
        modes, sizes = len(self.dims), self.intercepts
        parts = check_sequence("features", features, f"a sequence of {modes} arrays, one per mode")
        if len(parts) != modes:
            raise ShapeError(
                f"must be a sequence of {modes} arrays, one per mode; got {len(parts)}.", argument="features"
            )
        arrays = [check_array(f"features[{mode}]", x, ("N?", self.dims[mode])) for mode, x in enumerate(parts)]
        lengths = [len(array) for array in arrays]
        if len(set(lengths)) > 1:
            raise ShapeError(f"of all modes must have one length; got {lengths}.", argument="features")
        wanted = f"a sequence of {len(sizes)} arrays, one for each entry of intercepts={sizes}"
        columns = [] if groups is None else check_sequence("groups", groups, wanted)
        if len(columns) != len(sizes):
            raise ShapeError(f"must be {wanted}; got {len(columns)}.", argument="groups")
        members = np.empty((lengths[0], len(sizes)), dtype=np.int64)
        for index, (column, size) in enumerate(zip(columns, sizes, strict=True)):
            rows = check_rows(f"groups[{index}]", column, size)
            if rows.size != lengths[0]:
                raise ShapeError(f"groups[{index}] must be {lengths[0]} whole numbers; got {rows.size}.")
            members[:, index] = rows
        return arrays, members

    def _checked_outcomes(self, y: ArrayLike, length: int) -> F64:
        """Finite outcomes, one per row; in [0, 1] for the logistic likelihood."""
        hint = "One outcome for each row of features."
        if self.likelihood == "gaussian":
            return check_array("y", y, (length,), hint=hint)
        hint += " The logistic likelihood takes outcomes in [0, 1]; use likelihood='gaussian' for others."
        return check_array("y", y, (length,), low=0.0, high=1.0, hint=hint)

    def update(self, features: Features, y: ArrayLike, groups: Groups = None) -> None:
        """Learn samples in order, each exactly once (Eqs. 14 and 15); on bad input nothing is learned.

        Parameters
        ----------
        features
            φ_l: one ``(N, d_l)`` array per mode.
        y
            ``(N,)`` outcomes.
        groups
            With ``intercepts``: one array of ``N`` members per group.
        """
        arrays, members = self._checked_rows(features, groups)
        # A copy, so that the kernel always gets an array that may be written to: it compiles again for the other kind.
        outcomes = np.array(self._checked_outcomes(y, len(members)))
        if not outcomes.size:
            return
        state = self.state
        w, S = _flat(state.means), _flat(state.covariances)
        mu, var = _flat(state.intercept_means), _flat(state.intercept_variances)
        # The kernel has the intercepts of all groups in one array.
        offsets = np.cumsum([0, *self.intercepts], dtype=np.int64)[:-1]
        shape = np.array(self.dims, dtype=np.int64), self.rank
        prior = _flat(state.prior_means), self.prior_variance
        sweeps, unconverged = learn_samples(
            np.concatenate(arrays, axis=1), outcomes, members + offsets, shape, (w, S, mu, var), prior,
            state.n_samples, self.likelihood == "logistic", self.noise_variance,
            self.order == "ranks", (self.tolerance, self.max_sweeps),
        )  # fmt: skip
        if not (np.isfinite(w).all() and np.isfinite(S).all()):
            raise InputError(
                "the update overflowed, so nothing was learned: the features or outcomes are too large. "
                "Scale them to about unit norm."
            )
        self.state = replace(
            state,
            means=_split(w, state.means),
            covariances=_split(S, state.covariances),
            intercept_means=_split(mu, state.intercept_means),
            intercept_variances=_split(var, state.intercept_variances),
            n_samples=state.n_samples + outcomes.size,
            n_sweeps=state.n_sweeps + int(sweeps),
            n_unconverged=state.n_unconverged + int(unconverged),
        )

    # -- prediction --

    def predict(self, features: Features, groups: Groups = None) -> tuple[F64, F64]:
        """Predictive mean ū and variance s̄² of each row (Eq. 17, predictive_mean_variance).

        The Gaussian variance includes σ². For the logistic likelihood both are those of the latent score u, whose
        sigmoid is the probability; there is no σ² to add.
        """
        mean, variance, _ = self._moments(features, groups)
        return mean, variance + (self.noise_variance if self.likelihood == "gaussian" else 0.0)

    def bonus(self, features: Features, groups: Groups = None) -> F64:
        """Eq. 24 (CB_ij) without c: Σ_l Σ_r √((βφ)ᵀΣ(βφ)), plus one square root per group of intercepts."""
        return self._moments(features, groups)[2]

    def _moments(self, features: Features, groups: Groups) -> tuple[F64, F64, F64]:
        """ū of each row, and the sums of the parts of its variance and of their roots."""
        arrays, members = self._checked_rows(features, groups)
        state = self.state
        means, variances, roots = np.zeros((3, len(members)))
        for at in range(0, len(members), _ROWS):
            rows = slice(at, at + _ROWS)
            a = [phi[rows] @ w.T for phi, w in zip(arrays, state.means, strict=True)]
            means[rows] += np.prod(a, axis=0).sum(axis=1)
            for mode, S in enumerate(state.covariances):
                phi = arrays[mode][rows]
                beta = np.prod([x for other, x in enumerate(a) if other != mode], axis=0)
                half = np.tensordot(phi, S, axes=(1, 1))
                part = beta**2 * np.maximum(np.einsum("nrj,nj->nr", half, phi), 0.0)
                variances[rows] += part.sum(axis=1)
                roots[rows] += np.sqrt(part).sum(axis=1)
        for column, mu, var in zip(members.T, state.intercept_means, state.intercept_variances, strict=True):
            means += mu[column]
            variances += var[column]
            roots += np.sqrt(var[column])
        return means, variances, roots

    def sample(self, rng: RngLike = None) -> TensorRegression:
        """A copy whose means are one W (and intercepts) drawn from the posterior; its ``predict`` is (W, X)."""
        generator = as_generator(rng)
        state = self.state
        means = [
            w + np.einsum("rij,rj->ri", np.linalg.cholesky(S), generator.standard_normal(w.shape))
            for w, S in zip(state.means, state.covariances, strict=True)
        ]
        intercepts = [
            mu + np.sqrt(var) * generator.standard_normal(mu.size)
            for mu, var in zip(state.intercept_means, state.intercept_variances, strict=True)
        ]
        drawn = copy.copy(self)
        drawn.state = replace(state, means=tuple(means), intercept_means=tuple(intercepts))
        return drawn

    # -- files --

    def to_arrays(self) -> Arrays:
        """The state as named plain arrays."""
        state = self.state
        counts = [state.n_samples, state.n_sweeps, state.n_unconverged]
        arrays: Arrays = {"counts": np.array(counts, dtype=np.int64)}
        for name in _GROUPED:
            arrays |= {f"{name}_{index}": array for index, array in enumerate(getattr(state, name))}
        return arrays

    def take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what `to_arrays` gave, which must fit the settings."""
        for name, array in self.to_arrays().items():
            if name not in arrays or arrays[name].shape != array.shape or arrays[name].dtype != array.dtype:
                got = "nothing" if name not in arrays else f"{arrays[name].dtype} of {arrays[name].shape}"
                wanted = f"{array.dtype} of shape {array.shape}"
                raise FileFormatError(f"learner state: array {name!r} must be {wanted}; got {got}.")
        groups = {
            name: tuple(np.array(arrays[f"{name}_{index}"]) for index in range(len(getattr(self.state, name))))
            for name in _GROUPED
        }
        samples, sweeps, unconverged = (int(count) for count in arrays["counts"])
        self.state = TensorState(**groups, n_samples=samples, n_sweeps=sweeps, n_unconverged=unconverged)

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments by name, but for ``init`` and ``rng``."""
        return {name: getattr(self, name) for name in _SETTINGS}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write settings and state to a file of arrays and JSON."""
        file = check_path("path", path)
        values = {name: list(value) if isinstance(value, tuple) else value for name, value in self.settings().items()}
        try:
            write_state(file, _KIND, values, self.to_arrays())
        except OSError as error:
            raise FileFormatError(
                f"cannot write {shown_path(file)}: {error.strerror or error}. Save to a path that may be written."
            ) from error

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TensorRegression:
        """The learner that :meth:`save` wrote, bit for bit."""
        values, arrays = read_state(check_path("path", path), _KIND)
        try:
            learner = cls(**values, init="ones")
        except (InputError, TypeError) as error:
            raise FileFormatError(f"{shown_path(path)} holds no valid learner settings: {error}") from error
        learner.take_arrays(arrays)
        return learner


def _entries(name: str, values: Any, example: str) -> tuple[Any, ...]:
    """The entries of a caller's sequence or array as a tuple of plain values, yet unchecked."""
    entries = tuple(plain(value) for value in check_sequence(name, values, f"a sequence of numbers, such as {example}"))
    if len(entries) > _MOST_MODES:
        raise InputError(f"must have at most {_MOST_MODES} entries; got {len(entries)}.", argument=name)
    return entries


def _flat(parts: Vectors) -> F64:
    return np.concatenate([part.ravel() for part in parts]) if parts else np.empty(0)


def _split(flat: F64, like: Vectors) -> Vectors:
    ends = np.cumsum([part.size for part in like])
    return tuple(flat[end - part.size : end].reshape(part.shape) for part, end in zip(like, ends, strict=True))
