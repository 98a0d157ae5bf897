"""The log posterior of the rounds kept, and the sums behind each block's normal equations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.learner.blocks._nodes import NodeFeatures
from tensorucb.learner.blocks._state import Point, Prior, Round

__all__ = ["Problem", "Sums", "Value", "load", "mixture", "mode_slices"]

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]


@dataclass(frozen=True)
class Sums:
    """By item of a block: Σ w f fᵀ, Σ w f, Σ w, Σ (y − p) f, Σ (y − p)."""

    second: F64
    first: F64
    weight: F64
    score: F64
    residual: F64


@dataclass(frozen=True)
class Value:
    """The log posterior (up to a constant), and slope and curvature of the likelihood in g."""

    total: float
    taste_slope: float
    taste_curvature: float


def mode_slices(weights: Sequence[F64]) -> list[slice]:
    """Where each of the product's modes stands in the vectors side by side."""
    ends = np.cumsum([0, *(w.shape[1] - 1 for w in weights[2:])]).tolist()
    return [slice(a, b) for a, b in pairwise(ends)]


def mixture(products: F64, size: int) -> F64:
    """The first mode as shares which sum to 1: what past actions by topic are weighted with."""
    shares = np.maximum(products[..., :size], 0.0)
    total = shares.sum(axis=-1, keepdims=True)
    return np.where(total > 0.0, shares / np.where(total > 0.0, total, 1.0), 1.0 / size)


@dataclass(frozen=True)
class Problem:
    """Logged rounds as flat arrays; see the glossary of the kernels.

    Attributes
    ----------
    pull_round, ptr, target, outcome, trials, taste
        Round of each pull, where its rows begin, and the rows; targets are numbered among ``observed``.
    sources, place
        Source of each pull, and its place among the sources seen.
    X, T, Z
        Features of each pull's source, of each observed target, and each round's product with a constant.
    crossed
        Features of each pull's source that respond to product features.
    """

    prior: Prior
    pull_round: I64
    ptr: I64
    target: I32
    outcome: F64
    trials: F64
    taste: F64
    sources: I64
    place: I64
    observed: I64
    X: F64
    T: F64
    Z: F64
    crossed: F64

    def crossings(self) -> F64:
        """``(pulls, k·c)``: each pull's product features times its source's features."""
        Z = self.Z[self.pull_round, :-1]
        return (Z[:, :, None] * self.crossed[:, None, :]).reshape(len(Z), Z.shape[1] * self.crossed.shape[1])

    def mode(self, weights: Sequence[F64], mode: int) -> F64:
        """``(rounds, d_l)`` features of one of the product's modes, with a constant."""
        return np.hstack([self.Z[:, mode_slices(weights)[mode - 2]], np.ones((len(self.Z), 1))])

    def rest(self, weights: Sequence[F64], leave_out: int | None = None) -> F64:
        """``(rounds, R)``: the product of all the product's modes, but one."""
        parts = [self.mode(weights, m) @ weights[m].T for m in range(2, len(weights)) if m != leave_out]
        return np.prod(parts, axis=0) if parts else np.ones((len(self.Z), len(weights[0])))

    def _arguments(self, point: Point) -> tuple[Any, ...]:
        w = point.weights
        response = point.effects[self.place]
        response[:, :-1] += self.crossed @ point.responses.T
        offset = np.einsum("qk,qk->q", response, self.Z[self.pull_round])
        factors = (self.X @ w[0].T, self.T @ w[1].T, self.rest(w), offset, point.targets[self.observed], point.taste)
        return (self.pull_round, self.ptr, self.target, self.outcome, self.trials, self.taste, *factors)

    def sums(self, point: Point, block: int) -> Sums:
        """By pull (block 0), observed target (1) or round (2)."""
        from tensorucb.learner.blocks._kernels import accumulate

        n, R = (self.place.size, self.observed.size, len(self.Z))[block], len(point.weights[0])
        second, first, weight = np.zeros((n, R, R)), np.zeros((n, R)), np.zeros(n)
        score, residual = np.zeros((n, R)), np.zeros(n)
        accumulate(block, *self._arguments(point), second, first, weight, score, residual)
        upper = np.tril(second, -1).transpose(0, 2, 1)
        return Sums(second + upper, first, weight, score, residual)

    def value(self, point: Point) -> Value:
        """The log posterior at a point."""
        from tensorucb.learner.blocks._kernels import likelihood

        total, slope, curvature = likelihood(*self._arguments(point))
        return Value(total - _penalty(self.prior, point), slope, curvature)


def _penalty(prior: Prior, point: Point) -> float:
    """Minus the log prior, up to a constant."""
    total = 0.0
    vectors = (point.source_weights(), *(w.ravel() for w in point.weights[1:]))
    for v, precision, natural in zip(vectors, prior.precisions, prior.naturals, strict=True):
        total += float(0.5 * v @ precision @ v - natural @ v)
    total += float(0.5 * np.sum(prior.group_precisions() * (vectors[0] - prior.group_means) ** 2))
    b, d = point.targets, point.effects
    total += float(np.sum(0.5 * prior.target_precisions * b**2 - prior.target_naturals * b))
    total += float(0.5 * np.sum(d**2 / prior.variances) - np.sum(prior.effect_naturals * d))
    total += float(0.5 * np.sum((prior.effect_precisions @ d[:, :, None])[:, :, 0] * d))
    return total + 0.5 * prior.taste_precision * point.taste**2 - prior.taste_natural * point.taste


def load(nodes: NodeFeatures, prior: Prior, seen: I64, rounds: Sequence[Round], k: int) -> Problem:
    """Rounds as one problem; ``seen`` must hold all their sources, ``k`` is the size of the product's first mode."""
    from tensorucb.learner.blocks._kernels import row_taste

    pulls = [r.sources.size for r in rounds]
    sources = np.concatenate([r.sources for r in rounds])
    pull_round = np.repeat(np.arange(len(rounds)), pulls)
    ptr = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(r.offsets) for r in rounds]))])
    rows = np.concatenate([r.targets for r in rounds])
    met = np.zeros(nodes.n, dtype=np.bool_)
    met[rows] = True
    observed = np.flatnonzero(met)
    target = (np.cumsum(met, dtype=np.int32) - 1)[rows].astype(np.int32)
    products = np.array([r.product for r in rounds])
    mix, taste = mixture(products, k), np.zeros(rows.size)
    if nodes.preference is not None:
        row_taste(pull_round, ptr, target, nodes.preference[observed], mix, taste)
    return Problem(
        prior=prior,
        pull_round=pull_round,
        ptr=ptr,
        target=target,
        outcome=np.concatenate([r.outcomes for r in rounds]),
        trials=np.concatenate([r.trials for r in rounds]),
        taste=taste,
        sources=sources,
        place=np.searchsorted(seen, sources),
        observed=observed,
        X=nodes.pulls(sources, mix[pull_round]),
        T=nodes.target[observed],
        Z=np.hstack([products, np.ones((len(rounds), 1))]),
        crossed=nodes.crossed(products.shape[1], sources),
    )
