"""Does ``ū + c·UCB`` cover the truth? Coverage over c, the smallest c that does, and Theorem 1's condition."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from studies.uncertainty.compare import VARIANTS, Prediction, learn, predicted
from studies.uncertainty.problems import RegressionProblem, make_problem
from tensorucb.errors import InputError
from tensorucb.experiments import exploration_condition
from tensorucb.learner import TensorRegression

Floats = NDArray[np.float64]
BONUSES = ("sum of roots", "root of variance")
"""The paper's bonus (Eq. CB_ij), and the standard deviation of the latent score."""

_FACTORS = (*np.round(np.arange(0.0, 5.01, 0.25), 2).tolist(), 6.0, 8.0, 10.0, 15.0, 20.0)


def standardised_errors(truth: ArrayLike, mean: ArrayLike, bonus: ArrayLike) -> Floats:
    """``(u − ū)/bonus``: the c from which on each point is covered; ∞ where a bonus of 0 can never cover."""
    error = np.asarray(truth, dtype=np.float64) - np.asarray(mean, dtype=np.float64)
    width = np.asarray(bonus, dtype=np.float64)
    if np.any(width < 0.0):
        raise InputError(f"bonuses cannot be negative; got {width.min():g}.")
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(width > 0.0, error / width, np.where(error > 0.0, np.inf, -np.inf))


def covered_share(errors: ArrayLike, factors: ArrayLike) -> Floats:
    """P(u ≤ ū + c·bonus) for each c."""
    ordered = np.sort(np.ravel(np.asarray(errors, dtype=np.float64)))
    return np.asarray(np.searchsorted(ordered, np.asarray(factors), side="right") / ordered.size, dtype=np.float64)


def smallest_factor(errors: ArrayLike, level: float) -> float:
    """The smallest c ≥ 0 that covers at least ``level`` of the points; ∞ if none does."""
    if not 0.0 < level <= 1.0:
        raise InputError(f"level must lie in (0, 1]; got {level!r}.")
    ordered = np.sort(np.ravel(np.asarray(errors, dtype=np.float64)))
    return max(0.0, float(ordered[math.ceil(level * ordered.size - 1e-9) - 1]))


def bonus_study(
    dims: Sequence[int],
    rank: int,
    samples: Sequence[int],
    *,
    likelihood: str,
    problems: int,
    variants: Sequence[str],
    seed: int = 0,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Coverage of both bonuses as the data grow, over random problems.

    Returns a row for each variant, number of samples and bonus (``c90``, ``c95``: the smallest c which covers 90 and
    95 %; ``nominal``: coverage at c = 1.2816, where a true normal distribution has 90 %; ``theorem``: coverage at
    Theorem 1's own c with K = 1, ``uniform``: share of the problems of which that c covers every test point), and the
    rows of the whole curve over c.
    """
    whole = [
        make_problem(dims, rank, max(samples), likelihood=likelihood, rng=np.random.default_rng([seed, 7, number]))
        for number in range(problems)
    ]
    about = {"likelihood": likelihood, "modes": len(dims), "rank": rank}
    rows: list[dict[str, Any]] = []
    curve: list[dict[str, Any]] = []
    for name in variants:
        history = [_as_data_grow(problem, samples, VARIANTS[name]) for problem in whole]
        for at, n in enumerate(samples):
            limits = np.array([_condition(problem, n) for problem in whole])
            for bonus in BONUSES:
                errors = np.stack([_errors(p, h[at], bonus) for p, h in zip(whole, history, strict=True)])
                key = {**about, "variant": name, "samples": n, "bonus": bonus}
                rows.append({**key, **_summary(errors, limits)})
                shares = covered_share(errors, _FACTORS)
                curve += [{**key, "c": c, "covered": float(x)} for c, x in zip(_FACTORS, shares, strict=True)]
    return rows, curve


def _summary(errors: Floats, limits: Floats) -> dict[str, float]:
    inside = errors <= limits[:, None]
    return {
        "c90": smallest_factor(errors, 0.9),
        "c95": smallest_factor(errors, 0.95),
        "nominal": float(covered_share(errors, [1.2815515655446004])[0]),
        "condition": float(limits.mean()),
        "theorem": float(inside.mean()),
        "uniform": float(inside.all(axis=1).mean()),
    }


def _as_data_grow(problem: RegressionProblem, samples: Sequence[int], options: Mapping[str, str]) -> list[Prediction]:
    """Predictions at the test points after each number of samples of one pass."""
    learner, found = learn(problem.first(samples[0]), **options), []
    for start, stop in zip(samples, [*samples[1:], samples[-1]], strict=True):
        found.append(predicted(learner, problem.test_features))
        learner.update([x[start:stop] for x in problem.features], problem.outcomes[start:stop])
    return found


def _errors(problem: RegressionProblem, guess: Prediction, bonus: str) -> Floats:
    width = guess.bonus if bonus == BONUSES[0] else guess.deviation
    return standardised_errors(problem.truth, guess.mean, width)


def _condition(problem: RegressionProblem, n: int) -> float:
    largest = max(float(np.linalg.norm(w, axis=1).max()) for w in problem.weights)
    found = exploration_condition(
        n, k=1, dims=problem.dims, rank=problem.rank, largest_weight=largest, noise_variance=problem.noise_variance
    )
    return float(found)


def collapse_study(
    *, modes: Sequence[int] = (1, 2, 3), rates: Sequence[float] = (0.05, 0.2, 0.5), runs: int = 200, seed: int = 0
) -> list[dict[str, Any]]:
    """How often a Gaussian learner of 0/1 outcomes ends with every mean and every bonus at zero.

    The rate is the same for all points; R = 2, d = 4, 300 outcomes. ``first_zero``: share of the runs whose first
    outcome was 0.
    """
    rows = []
    for order in modes:
        for rate in rates:
            for start in ("paper", "ones", "random"):
                outcome = [_collapses(order, rate, start, [seed, order, run]) for run in range(runs)]
                collapsed, first = (float(np.mean(x)) for x in zip(*outcome, strict=True))
                rows.append({"modes": order, "rate": rate, "start": start, "first_zero": first, "collapsed": collapsed})
    return rows


def _collapses(order: int, rate: float, start: str, seed: list[int]) -> tuple[bool, bool]:
    rng = np.random.default_rng(seed)
    features = [rng.standard_normal((320, 4)) for _ in range(order)]
    features = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in features]
    outcomes = (rng.random(300) < rate).astype(np.float64)
    learner = TensorRegression((4,) * order, 2, init=start, rng=rng)
    learner.update([x[:300] for x in features], outcomes)
    guess = predicted(learner, [x[300:] for x in features])
    return bool(max(abs(guess.mean).max(), guess.bonus.max()) < 1e-6), bool(outcomes[0] == 0.0)
