"""Held-out questions by source: how much a user's neighbourhood will respond to a product never met."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from studies.uncertainty.calibration import (
    LEVELS,
    Coverage,
    apply_link,
    binomial_interval,
    normal_quantile,
)
from studies.uncertainty.counts import count_probabilities, predictive_counts, randomised_pit
from tensorucb.errors import InputError
from tensorucb.rng import RngLike

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
GROUPS = ("explored", "unexplored")
"""Sources that were seeded at least once (and their edges), and all others."""

_SUMMARY = (0.5, 0.9, 0.95)


@dataclass(frozen=True)
class SourceQuestions:
    """What a policy believes of (product, source) pairs, beside the truth.

    The policy's error about a source is taken to be one for all its out-edges: as `TensorUCB` states it.

    Attributes
    ----------
    offsets
        Pair q has the edges ``offsets[q]`` to ``offsets[q + 1] − 1`` of ``mean`` and ``deviation``.
    mean, deviation
        Of the latent score of each edge.
    rates
        True sum of the edges' probabilities, one per pair: the expected number of responses.
    counts
        Number of responses drawn with the true probabilities.
    explored
        Whether an out-edge of the source has been observed.
    link
        From latent score to probability.
    """

    offsets: Ints
    mean: Floats
    deviation: Floats
    rates: Floats
    counts: Ints
    explored: NDArray[np.bool_]
    link: str = "sigmoid"

    @property
    def predicted(self) -> Floats:
        """Predicted number of responses of each pair, without exploration."""
        return self._sum(0.0)

    def group(self, name: str) -> SourceQuestions:
        """The pairs of one of ``GROUPS``, or ``"all"``."""
        kept = in_group(self.explored, name)
        sizes = np.diff(self.offsets)
        edges = np.repeat(kept, sizes)
        offsets = np.concatenate([[0], np.cumsum(sizes[kept])])
        return SourceQuestions(
            offsets, self.mean[edges], self.deviation[edges], self.rates[kept], self.counts[kept], self.explored[kept],
            self.link,
        )  # fmt: skip

    def rate_coverage(self, levels: Sequence[float] = LEVELS) -> Coverage:
        """How often ``Σ link(mean ± z·sd)`` over a source's edges holds its true rate."""
        bounds = [(self._sum(-z), self._sum(z)) for z in normal_quantile(levels)]
        low, high = (np.array(side) for side in zip(*bounds, strict=True))
        slack = 1e-12 * (1.0 + self.rates)
        inside = (low - slack <= self.rates) & (self.rates <= high + slack)
        return _coverage(levels, inside, (high - low).mean(axis=1))

    def predictive_coverage(self, levels: Sequence[float] = LEVELS, *, rng: RngLike = 0) -> Coverage:
        """How often central predictive intervals hold the number of responses, by its randomised PIT.

        Widths are NaN: a randomised interval has none.
        """
        return self._pit_coverage(levels, self.pit(rng=rng))

    def pit(self, *, rng: RngLike = 0) -> Floats:
        """Randomised PIT of each count: uniform if beliefs are right."""
        below, at = predictive_counts(self.offsets, self.mean, self.deviation, self.counts, link=self.link)
        return randomised_pit(below, at, rng=rng)

    def summary(self, *, rng: RngLike = 0) -> dict[str, float]:
        """The main figures.

        ``error`` is a robust standard deviation of ln(true / predicted) over pairs, to be held beside ``deviation``,
        the mean stated one. ``coins_90`` is the predictive coverage if no uncertainty were stated: where it is near
        0.9 as well, counts are too noisy to tell good deviations from bad ones.
        """
        rate, outcome = self.rate_coverage(_SUMMARY), self.predictive_coverage(_SUMMARY, rng=rng)
        p, total = apply_link(self.mean, self.link), self.predicted
        coins = randomised_pit(*count_probabilities(self.offsets, p, self.counts), rng=rng)
        with np.errstate(divide="ignore"):
            ratio = np.abs(np.log(self.rates) - np.log(total))
        named = [(f"{round(100 * level)}", i) for i, level in enumerate(_SUMMARY)]
        return {
            "questions": float(total.size),
            "true": float(self.rates.mean()),
            "predicted": float(total.mean()),
            "error": float(np.median(ratio) / normal_quantile([0.5])[0]),
            "deviation": float(self.deviation.mean()),
            **{f"rate_{name}": float(rate.empirical[i]) for name, i in named},
            **{f"predictive_{name}": float(outcome.empirical[i]) for name, i in named},
            "coins_90": float(self._pit_coverage((0.9,), coins).empirical[0]),
        }

    def _sum(self, z: float) -> Floats:
        edge = apply_link(self.mean + z * self.deviation, self.link)
        return np.asarray(np.add.reduceat(edge, self.offsets[:-1]), dtype=np.float64)

    def _pit_coverage(self, levels: Sequence[float], pit: Floats) -> Coverage:
        normal_quantile(levels)  # refuses levels outside (0, 1)
        inside = np.abs(pit - 0.5) <= 0.5 * np.asarray(levels, dtype=np.float64)[:, None]
        return _coverage(levels, inside, np.full(len(levels), np.nan))


def in_group(explored: NDArray[np.bool_], name: str) -> NDArray[np.bool_]:
    """Which of the pairs belong to one of ``GROUPS``, or to ``"all"``."""
    if name not in (*GROUPS, "all"):
        raise InputError(f"group must be one of {', '.join(GROUPS)} or all; got {name!r}.")
    return np.ones_like(explored) if name == "all" else explored == (name == "explored")


def _coverage(levels: Sequence[float], inside: NDArray[np.bool_], width: Floats) -> Coverage:
    bounds = binomial_interval(inside.sum(axis=1), inside.shape[1])
    return Coverage(np.asarray(levels, dtype=np.float64), inside.mean(axis=1), *bounds, width, inside.shape[1])
