"""Variational posteriors beside the exact one: how far their means and standard deviations are off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studies.uncertainty.batch import batch_posterior
from studies.uncertainty.mcmc import PosteriorDraws, sample_posterior
from studies.uncertainty.problems import RegressionProblem, make_problem
from tensorucb.learner import TensorRegression

Floats = NDArray[np.float64]
_Z90 = 1.6448536269514722

EXACT = "exact (MCMC)"
PAPER = "factorised, mean field"
PAPER_START = "paper, b = 0"
PAPER_ONES = "paper, ones as prior means"
LOOKS_BACK = "joint, full, all data at once"
VARIANTS: dict[str, dict[str, str]] = {PAPER_START: {"start": "paper"}, PAPER_ONES: {"start": "ones"}, PAPER: {}}
"""Online posteriors of one pass over the data.

All are told the problem's own prior, but for the two readings of the paper's start (w̄ = ones, Σ = I): with b = 0, the
zero-mean prior from which the problems are drawn, or with the ones as prior means.
"""


@dataclass(frozen=True)
class Prediction:
    """Mean, standard deviation and bonus (Eq. CB_ij without c) of the latent score at some points."""

    mean: Floats
    deviation: Floats
    bonus: Floats


def learn(problem: RegressionProblem, *, start: str = "prior") -> TensorRegression:
    """A learner after one pass over the data, with the problem's own prior or the paper's (``"paper"``, ``"ones"``)."""
    learner = TensorRegression(
        problem.dims,
        problem.rank,
        likelihood=problem.likelihood,
        noise_variance=problem.noise_variance,
        prior_variance=problem.prior_variance if start == "prior" else 1.0,
        init=problem.prior_means if start == "prior" else start,
    )
    learner.update(problem.features, problem.outcomes)
    return learner


def predicted(learner: TensorRegression, features: Sequence[Floats]) -> Prediction:
    """What a learner believes of the latent score, observation noise left out."""
    mean, variance = learner.predict(features)
    if learner.likelihood == "gaussian":
        variance = np.maximum(variance - learner.noise_variance, 0.0)
    return Prediction(mean, np.sqrt(variance), learner.bonus(features))


def _look_back(problem: RegressionProblem) -> Prediction:
    """The same from all data at once: Var(u) = Σ_{rs} Π_l (a_r a_s + φᵀΣ_{rs}φ) − Π_l a_r a_s, one root per mode."""
    a, V = [], []
    for phi, w, S in zip(problem.test_features, *batch_posterior(problem), strict=True):
        blocks = S.reshape(*w.shape, *w.shape)
        a.append(phi @ w.T)
        V.append(np.einsum("ni,risj,nj->nrs", phi, blocks, phi))
    squares = [x[:, :, None] * x[:, None, :] for x in a]
    variance = np.prod([x + v for x, v in zip(squares, V, strict=True)], axis=0) - np.prod(squares, axis=0)
    others = [np.prod([x for o, x in enumerate(squares) if o != mode], axis=0) for mode in range(len(a))]
    roots = [np.sqrt(np.maximum((v * beta).sum(axis=(1, 2)), 0.0)) for v, beta in zip(V, others, strict=True)]
    deviation = np.sqrt(np.maximum(variance.sum(axis=(1, 2)), 0.0))
    return Prediction(np.prod(a, axis=0).sum(axis=1), deviation, np.sum(roots, axis=0))


def compare(
    dims: Sequence[int],
    rank: int,
    samples: Sequence[int],
    *,
    likelihood: str,
    problems: int,
    chains: int = 4,
    warmup: int = 500,
    draws: int = 1000,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """One row a variant, number of samples and problem.

    ``mean_error`` is the root mean square distance of the means from the exact ones, in exact standard deviations;
    ``ratio`` the median over test points of the standard deviations' ratio; ``coverage`` the share of the test points
    whose true u lies in the central 90 % interval; ``rhat`` and ``effective`` are the chains'.
    """
    whole = [
        make_problem(dims, rank, max(samples), likelihood=likelihood, rng=np.random.default_rng([seed, number]))
        for number in range(problems)
    ]
    rows: list[dict[str, Any]] = []
    for n in samples:
        cut = [problem.first(n) for problem in whole]
        found = sample_posterior(
            cut, chains=chains, warmup=warmup, draws=draws, rng=np.random.default_rng([seed, problems, n])
        )
        about = {"likelihood": likelihood, "modes": len(dims), "rank": rank, "samples": n}
        for number, problem in enumerate(cut):
            rows += [{**about, "problem": number, **row} for row in _rows(problem, found, number)]
    return rows


def _rows(problem: RegressionProblem, found: PosteriorDraws, number: int) -> list[dict[str, Any]]:
    draws, logistic = found.flat(number), problem.likelihood == "logistic"
    mean, deviation = draws.mean(axis=1), draws.std(axis=1)
    low, high = np.quantile(draws, (0.05, 0.95), axis=1)
    inside = (low <= problem.truth) & (problem.truth <= high)
    chains = {"rhat": float(found.rhat[number]), "effective": float(found.effective[number])}
    rows = [{"variant": EXACT, "mean_error": 0.0, "ratio": 1.0, "coverage": float(inside.mean()), **chains}]
    # The paper's start belongs to its Gaussian model, and prior means of ones to another exact posterior.
    names = [name for name in VARIANTS if not (name == PAPER_ONES or (name == PAPER_START and logistic))]
    guesses = {name: predicted(learn(problem, **VARIANTS[name]), problem.test_features) for name in names}
    guesses[LOOKS_BACK] = _look_back(problem)
    for name, guess in guesses.items():
        close = abs(problem.truth - guess.mean) <= _Z90 * guess.deviation
        rows.append(
            {
                "variant": name,
                "mean_error": float(np.sqrt(np.mean((guess.mean - mean) ** 2) / np.mean(deviation**2))),
                "ratio": float(np.median(guess.deviation / deviation)),
                "coverage": float(close.mean()),
                **chains,
            }
        )
    return rows
