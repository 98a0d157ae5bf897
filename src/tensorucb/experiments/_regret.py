"""Regret as the paper measures it, and Theorem 1's bound on it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.errors import InputError, ShapeError

__all__ = ["ETA", "average_regret", "exploration_condition", "regret_bound", "scaled_regret"]

ETA = 1.0 - 1.0 / math.e - 0.1
"""The oracle's guarantee in the paper's experiments, η = 1 − 1/e − 0.1."""


def scaled_regret(optimum: ArrayLike, spread: ArrayLike, *, eta: float = ETA) -> NDArray[np.float64]:
    """Scaled regret of each round, ``(f(S*) − f(S_t)) / η`` (Eq. regret_scaled_def).

    It may be a little negative: ``S*`` is what a careful oracle finds when it knows the truth, not the unreachable
    optimum, and cascades are evaluated on a limited number of frozen worlds. There a set is ahead of ``S*`` by no more
    than the error of the comparison, some four standard errors of the mean difference over the worlds.
    """
    best, got = np.asarray(optimum, dtype=np.float64), np.asarray(spread, dtype=np.float64)
    if best.shape != got.shape:
        raise ShapeError(f"optimum and spread must be of one shape; got {best.shape} and {got.shape}.")
    if not 0.0 < eta <= 1.0:
        raise InputError(f"eta must lie in (0, 1]; got {eta!r}.")
    return (best - got) / eta


def average_regret(regret: ArrayLike) -> NDArray[np.float64]:
    """``R_t / t`` after each round ``t``, along the last axis."""
    values = np.asarray(regret, dtype=np.float64)
    rounds = np.arange(1, values.shape[-1] + 1, dtype=np.float64)
    result: NDArray[np.float64] = np.cumsum(values, axis=-1) / rounds
    return result


def _information(rounds: ArrayLike, k: int, dims: Sequence[int], noise_variance: float) -> NDArray[np.float64]:
    """``K·d·ln(1 + TK/(dσ²)) / ln(1 + 1/σ²)`` with ``d = max_l d_l``: the factor that bound and condition share."""
    horizon = np.asarray(rounds, dtype=np.float64)
    if not dims or min(dims) < 1 or k < 1 or np.any(horizon < 1):
        raise InputError(f"rounds, k and dims must be positive; got {rounds!r}, {k!r} and {dims!r}.")
    if noise_variance <= 0:
        raise InputError(f"noise_variance must be positive; got {noise_variance!r}.")
    d = max(dims)
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
    eta: float = ETA,
) -> NDArray[np.float64]:
    """Theorem 1's bound on the cumulative scaled regret after each number of rounds.

    ``(cB/η)·|V|·D·R·√(TKd·ln(1 + TK/(dσ²)) / ln(1 + 1/σ²))``. It holds with probability ``1 − δ`` only if
    ``exploration`` meets :func:`exploration_condition`.

    Parameters
    ----------
    rounds
        T, a number or an array of numbers.
    n_nodes, k, dims, rank, exploration, noise_variance
        ``|V|``, ``K``, ``(d_1 … d_D)``, ``R``, ``c`` and ``σ²``.
    smoothness
        ``B`` of assumption A1. For the direct objective with the seeds' out-edges observed, 1 suffices.
    eta
        The oracle's guarantee.
    """
    information = _information(rounds, k, dims, noise_variance)
    horizon = np.asarray(rounds, dtype=np.float64)
    scale = exploration * smoothness / eta * n_nodes * len(dims) * rank
    result: NDArray[np.float64] = scale * np.sqrt(horizon * information)
    return result


def exploration_condition(
    rounds: ArrayLike,
    *,
    k: int,
    dims: Sequence[int],
    rank: int,
    largest_weight: float,
    noise_variance: float = 0.1,
) -> NDArray[np.float64]:
    """The smallest ``c`` for which Theorem 1 promises anything (Eq. c_lower_bounded).

    ``D·R·√(Kd·ln(1 + TK/(dσ²)) / ln(1 + 1/σ²)) + max_{l,r}‖w^{l,r}‖``; ``largest_weight`` is the last term.
    """
    if largest_weight < 0:
        raise InputError(f"largest_weight is a norm and cannot be negative; got {largest_weight!r}.")
    information = _information(rounds, k, dims, noise_variance)
    result: NDArray[np.float64] = len(dims) * rank * np.sqrt(information) + largest_weight
    return result
