"""`Prediction`: what a policy believes of every edge in one context. Choices and numbers shown come from here alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tensorucb.arrays import F64, I64
from tensorucb.graph import Graph
from tensorucb.policies._kernels import probabilities_of_odds
from tensorucb.threads import map_chunks, thread_count

# Beyond, a probability is 0 or 1 to rounding, and odds leave the range of numbers (32-bit ones, of a target).
_LARGEST_SOURCE, _LARGEST_TARGET = 600.0, 80.0
_LARGEST_BONUS = 30.0
_EDGES = 2**17
# So much of the doubt's variance is in intervals: with all of it, those of first rounds held every number.
_DOUBTED = 0.5
# Five points stand for a normal distribution: exact for polynomials up to degree 9.
LEVELS, _WEIGHTS = np.polynomial.hermite_e.hermegauss(5)
ROUNDS: F64 = _WEIGHTS / _WEIGHTS.sum()


@dataclass(frozen=True)
class Prediction:
    """Mean and deviation of every edge on the scale of a link, and how the outcomes of a round depend on each other.

    Parameters
    ----------
    graph
        The network; arrays follow its edges, or its nodes.
    mean
        Of each edge. With ``target``, of each source: an edge then has the mean of its source plus that of its target.
    deviation
        The standard deviation of each mean; None: nothing is said about uncertainty.
    target
        The part of each target, if means belong to nodes.
    link
        ``"logit"``: a probability is the sigmoid of the mean. ``"identity"``: it is the mean, cut to [0, 1].
    level
        Standard deviation of a shift that all edges of a round share, such as the popularity of the very product.
    redundancy
        ρ, how far a second contact of the same user brings nothing new; see `tensorucb.select_seeds`.
    apart
        The part of each deviation that is not in ``doubt``; None: all of it.
    doubt
        Standard deviation of what is not known about all edges of a round together, such as the base rate. It makes
        intervals wider and moves no expectation: the average over a base rate of which little is known is nobody's
        best guess.

    Examples
    --------
    >>> from tensorucb import Graph
    >>> graph = Graph.from_edges([0, 0, 1], [1, 2, 2])
    >>> prediction = Prediction(graph, mean=np.array([0.1, 0.2, 0.3]), deviation=np.array([0.1, 0.0, 0.0]))
    >>> prediction.probabilities(2.0).round(2).tolist()
    [0.3, 0.2, 0.3]
    """

    graph: Graph
    mean: F64
    deviation: F64 | None = None
    target: F64 | None = None
    link: Literal["logit", "identity"] = "identity"
    level: float = 0.0
    redundancy: float = 0.0
    apart: F64 | None = None
    doubt: float = 0.0

    def probabilities(self, exploration: float = 0.0, draw: F64 | None = None) -> F64:
        """The probability of every edge at the mean plus ``exploration`` deviations, in a round like any other.

        ``draw`` multiplies each deviation: normal numbers make it Thompson sampling.
        """
        return self._averaged(self._shifted(exploration, draw)[:, None], np.ones(1))

    def expected(self) -> F64:
        """The believed probability of every edge, averaged over what rounds have in common."""
        if self.level == 0.0:
            return self.probabilities()
        return self._averaged(self.mean[:, None] + self.level * LEVELS, ROUNDS)

    def each_round(self) -> Iterator[F64]:
        """The probability of every edge in each of five rounds that stand for all, one after the other."""
        for node in LEVELS.tolist():
            yield self._averaged((self.mean + self.level * node)[:, None], np.ones(1))

    def rounds(self, edges: I64, draw: F64 | None = None) -> F64:
        """The probabilities of some edges in each of five rounds that stand for all, ``(5, edges)``.

        `expected` is their mean with the weights `ROUNDS`. ``draw`` multiplies the deviation of each of the edges,
        as far as it is apart from the level; of several draws, ``(draws, edges)``, the answer is ``(draws, 5, edges)``.
        """
        means = self.mean[edges] if self.target is None else self._logits(edges)
        deviation = self.deviation if self.apart is None else self.apart
        if draw is not None and deviation is not None:
            of = deviation[edges if self.target is None else self.graph.sources[edges]]
            means = means + np.clip(draw * of, -_LARGEST_BONUS, _LARGEST_BONUS)
        return self._linked(means[..., None, :] + self.level * LEVELS[:, None])

    def doubted(self) -> Prediction:
        """The same, with the doubt about the level in it: for intervals."""
        return replace(self, level=math.sqrt(self.level**2 + _DOUBTED * self.doubt**2))

    def with_redundancy(self, redundancy: float) -> Prediction:
        """The same with another redundancy."""
        return replace(self, redundancy=redundancy)

    def _shifted(self, exploration: float, draw: F64 | None) -> F64:
        if self.deviation is None or exploration == 0.0:
            return self.mean
        bonus = exploration * (self.deviation if draw is None else self.deviation * draw)
        # exp of more would leave the range of numbers; the probability is 1 long before.
        return np.asarray(self.mean + np.clip(bonus, -_LARGEST_BONUS, _LARGEST_BONUS))

    def _logits(self, edges: I64) -> F64:
        assert self.target is not None
        source = np.clip(self.mean, -_LARGEST_SOURCE, _LARGEST_SOURCE)
        target = np.clip(self.target, -_LARGEST_TARGET, _LARGEST_TARGET)
        return np.asarray(source[self.graph.sources[edges]] + target[self.graph.targets[edges]])

    def _linked(self, mean: F64) -> F64:
        if self.link == "identity":
            return np.clip(mean, 0.0, 1.0)
        return np.asarray(0.5 * (1.0 + np.tanh(0.5 * mean)))

    def _averaged(self, means: F64, weights: F64) -> F64:
        """The probability of every edge, averaged over columns of means."""
        if self.target is None:
            return np.asarray(self._linked(means) @ weights)
        # The exponentials are taken of nodes, so that an edge costs a product and a division.
        odds = np.exp(np.clip(means, -_LARGEST_SOURCE, _LARGEST_SOURCE))
        # In 32 bits: half of what has to come from memory, and the relative error is below 1e-7.
        factor = np.exp(np.clip(self.target, -_LARGEST_TARGET, _LARGEST_TARGET)).astype(np.float32)
        offsets = self.graph.out_offsets
        targets = self.graph.targets
        p = np.empty(targets.size)

        def run(start: int, stop: int) -> None:
            probabilities_of_odds(offsets, targets, start, stop, odds, weights, factor, p)

        ends = np.searchsorted(offsets, np.arange(_EDGES, targets.size, _EDGES))
        map_chunks(run, [0, *ends.tolist(), offsets.size - 1], thread_count())
        return p
