"""Regret in users, the paper's scaled regret, and Theorem 1's bound.

Glossary: ``T`` rounds, ``K`` seeds per round, ``|V|`` users, ``D`` modes, ``d`` the largest of the modes' dimensions,
``R`` rank, ``c`` exploration, ``σ²`` noise variance, ``B`` smoothness, ``η`` the oracle's guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from tensorucb.arrays import F64
from tensorucb.checks import check_array, check_count, check_number, check_numbers
from tensorucb.errors import ShapeError

ETA = 1.0 - 1.0 / math.e - 0.1
"""The oracle's guarantee in the paper's experiments, η = 1 − 1/e − 0.1, by which its figures divide regret."""


def round_regret(optimum: ArrayLike, spread: ArrayLike) -> F64:
    """Regret of each round, in users: how many more the best possible choice would have reached, ``f(S*) − f(S_t)``.

    It may be a little negative: ``S*`` is what a careful oracle finds when it knows the truth, not the unreachable
    optimum, and cascades are evaluated on a limited number of frozen worlds. The paper divides by the oracle's
    guarantee (Eq. regret_scaled_def): its figures are these users divided by `ETA`, 0.53.

    Examples
    --------
    >>> round_regret([10.0, 4.0], [8.0, 4.0]).tolist()
    [2.0, 0.0]
    """
    best = check_numbers("optimum", optimum)
    reached = check_numbers("spread", spread)
    if best.shape != reached.shape:
        raise ShapeError(f"optimum and spread must be of one shape; got {best.shape} and {reached.shape}.")
    return np.asarray(best - reached)


def average_regret(regret: ArrayLike) -> F64:
    """``R_t / t`` after each round ``t``, along the last axis.

    Examples
    --------
    >>> average_regret([2.0, 4.0, 0.0]).tolist()
    [2.0, 3.0, 2.0]
    """
    values = check_numbers("regret", regret)
    if not values.ndim:
        raise ShapeError("regret must hold one number per round; got a single number. Pass a list.")
    return np.asarray(np.cumsum(values, axis=-1) / np.arange(1.0, values.shape[-1] + 1))


def _information(rounds: ArrayLike, k: int, dims: Sequence[int], noise_variance: float) -> F64:
    """``K·d·ln(1 + TK/(dσ²)) / ln(1 + 1/σ²)`` with ``d = max_l d_l``: the factor that bound and condition share."""
    horizon = check_numbers("rounds", rounds, low=1.0)
    noise_variance = check_number("noise_variance", noise_variance, strict=True)
    d = int(check_array("dims", dims, ("D",), low=1.0, hint="One dimension per mode.").max())
    k = check_count("k", k)
    growth = np.log1p(horizon * k / (d * noise_variance)) / math.log1p(1.0 / noise_variance)
    return np.asarray(k * d * growth, dtype=np.float64)


def regret_bound(
    rounds: ArrayLike,
    *,
    n_nodes: int,
    k: int,
    dims: Sequence[int],
    rank: int,
    exploration: float,
    noise_variance: float = 0.1,
    smoothness: float = 1.0,
) -> F64:
    """Theorem 1's bound on the sum of the rounds' regret, in users, after each number of rounds.

    ``cB·|V|·D·R·√(TKd·ln(1 + TK/(dσ²)) / ln(1 + 1/σ²))``; the paper states it for regret divided by η, and divides
    the bound by η too. It holds with probability ``1 − δ`` only if
    ``exploration`` meets :func:`exploration_condition`.

    Parameters
    ----------
    rounds
        T, a number or an array of numbers.
    smoothness
        ``B`` of assumption A1. For the direct objective with the seeds' out-edges observed, 1 suffices.

    Examples
    --------
    >>> bound = regret_bound([10, 40], n_nodes=100, k=5, dims=(10, 10, 10), rank=2, exploration=0.1)
    >>> bool(2 < bound[1] / bound[0] < 4)  # it grows a little faster than the root of the rounds
    True
    """
    information = _information(rounds, k, dims, noise_variance)
    constants = check_number("exploration", exploration) * check_number("smoothness", smoothness)
    scale = constants * check_count("n_nodes", n_nodes) * len(dims) * check_count("rank", rank)
    return np.asarray(scale * np.sqrt(check_numbers("rounds", rounds) * information))


def exploration_condition(
    rounds: ArrayLike, *, k: int, dims: Sequence[int], rank: int, largest_weight: float, noise_variance: float = 0.1
) -> F64:
    """The smallest ``c`` for which Theorem 1 promises anything (Eq. c_lower_bounded).

    ``D·R·√(Kd·ln(1 + TK/(dσ²)) / ln(1 + 1/σ²)) + max_{l,r}‖w^{l,r}‖``; ``largest_weight`` is the last term.

    Examples
    --------
    >>> float(exploration_condition(100, k=10, dims=(10, 10, 10), rank=1, largest_weight=1.0).round())
    52.0
    """
    largest_weight = check_number("largest_weight", largest_weight)
    information = _information(rounds, k, dims, noise_variance)
    return np.asarray(len(dims) * check_count("rank", rank) * np.sqrt(information) + largest_weight)
