"""Small tensor regressions whose truth is drawn from the prior, so that an exact posterior covers exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from studies.uncertainty.calibration import apply_link
from tensorucb.errors import InputError
from tensorucb.rng import RngLike, as_generator

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RegressionProblem:
    """One regression problem: a prior, data, and test points whose true score is known.

    Attributes
    ----------
    likelihood
        ``"gaussian"`` or ``"logistic"``.
    noise_variance, prior_variance
        σ² (Gaussian alone), and the prior variance of every coefficient.
    prior_means, weights
        ``(R, d_l)`` prior means and true coefficients of each mode.
    features, outcomes
        The data: ``(N, d_l)`` a mode, and ``(N,)``.
    test_features, truth
        Points on which predictions are judged, and their true scores u.
    """

    likelihood: str
    noise_variance: float
    prior_variance: float
    prior_means: tuple[Floats, ...]
    weights: tuple[Floats, ...]
    features: tuple[Floats, ...]
    outcomes: Floats
    test_features: tuple[Floats, ...]
    truth: Floats

    @property
    def dims(self) -> tuple[int, ...]:
        """d_l of each mode."""
        return tuple(w.shape[1] for w in self.prior_means)

    @property
    def rank(self) -> int:
        """R."""
        return len(self.prior_means[0])

    def first(self, samples: int) -> RegressionProblem:
        """The same problem with its first ``samples`` observations alone."""
        return replace(self, features=tuple(x[:samples] for x in self.features), outcomes=self.outcomes[:samples])


def tensor_score(features: Sequence[Floats], weights: Sequence[Floats]) -> Floats:
    """The score u = Σ_r Π_l φ_lᵀ w^{l,r} of each row."""
    product = np.ones((len(features[0]), len(weights[0])))
    for x, w in zip(features, weights, strict=True):
        product *= x @ w.T
    return np.asarray(product.sum(axis=1))


def make_problem(
    dims: Sequence[int],
    rank: int,
    samples: int,
    *,
    likelihood: str = "gaussian",
    noise_variance: float = 0.1,
    total_variance: float = 1.0,
    start_scale: float = 0.3,
    tests: int = 40,
    rng: RngLike = None,
) -> RegressionProblem:
    """Draw a problem.

    Prior means come from ``N(0, start_scale²)``, the learner's ``init="random"``, and the true coefficients from the
    prior around them, whose variance is ``total_variance − start_scale²``. Without knowledge of the prior means the
    coefficients are therefore ``N(0, total_variance)``: at 1 the paper's own prior. Feature vectors have unit norm.
    """
    if likelihood not in ("gaussian", "logistic"):
        raise InputError(f"likelihood must be 'gaussian' or 'logistic'; got {likelihood!r}.")
    variance = total_variance - start_scale**2
    if variance <= 0.0 or samples < 1 or tests < 1:
        raise InputError("need total_variance > start_scale², and at least one sample and one test point.")
    generator = as_generator(rng)
    start = tuple(generator.normal(0.0, start_scale, (rank, d)) for d in dims)
    weights = tuple(w + generator.normal(0.0, variance**0.5, w.shape) for w in start)
    test_features = tuple(_unit_rows(tests, d, generator) for d in dims)
    features = tuple(_unit_rows(samples, d, generator) for d in dims)
    score = tensor_score(features, weights)
    if likelihood == "gaussian":
        outcomes = score + generator.normal(0.0, noise_variance**0.5, samples)
    else:
        outcomes = (generator.random(samples) < apply_link(score, "sigmoid")).astype(np.float64)
    return RegressionProblem(
        likelihood, noise_variance, variance, start, weights, features, outcomes, test_features,
        tensor_score(test_features, weights),
    )  # fmt: skip


def _unit_rows(count: int, d: int, rng: np.random.Generator) -> Floats:
    rows = rng.standard_normal((count, d))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))
