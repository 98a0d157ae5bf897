"""Whether a policy's stated uncertainty is true, where it has looked and where it has not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from studies.uncertainty.calibration import (
    LEVELS,
    Coverage,
    Reliability,
    apply_link,
    brier_score,
    expected_calibration_error,
    interval_coverage,
    log_loss,
    reliability,
)
from studies.uncertainty.sources import SourceQuestions, in_group
from tensorucb.errors import InputError
from tensorucb.experiments import Environment, run_policy
from tensorucb.policies import Policy

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_NO_DOUBT = 1e-12
_LINKS = {"logit": "sigmoid", "identity": "clip"}
_ARRAYS = ("mean", "variance", "rates", "outcomes", "explored", "questions")


class _Watched:
    """A policy that remembers the edges it was told about."""

    def __init__(self, policy: Policy, n_edges: int) -> None:
        self._policy = policy
        self.seen = np.zeros(n_edges, dtype=bool)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    def update(self, product: ArrayLike, edges: ArrayLike, outcomes: ArrayLike) -> None:
        self.seen[np.asarray(edges, dtype=np.int64)] = True
        self._policy.update(product, edges, outcomes)


@dataclass(frozen=True)
class HeldOut:
    """What a policy believes of (product, edge) pairs whose products it has never met, beside the truth.

    Attributes
    ----------
    mean, variance
        Of the latent score of each pair.
    rates, outcomes
        True probability of each pair, and one coin with that probability.
    explored
        Whether an out-edge of the pair's source has been observed.
    questions
        Number of the (product, source) that the pair belongs to; pairs of one number stand together.
    link
        From latent score to probability, ``"sigmoid"`` or ``"clip"``.
    """

    mean: Floats
    variance: Floats
    rates: Floats
    outcomes: Floats
    explored: NDArray[np.bool_]
    questions: Ints
    link: str

    @property
    def probabilities(self) -> Floats:
        """The probability which the policy would use without exploration."""
        return apply_link(self.mean, self.link)

    def group(self, name: str) -> HeldOut:
        """The pairs of one of ``GROUPS``, or ``"all"``."""
        return self._kept(in_group(self.explored, name))

    def part(self, which: slice) -> HeldOut:
        """Some of the pairs, such as those of some products: they are in the order of the products asked about."""
        return self._kept(which)

    def sources(self, *, minimum: int = 5) -> SourceQuestions:
        """The same questions by source, of those with at least ``minimum`` out-edges."""
        if minimum < 1:
            raise InputError(f"minimum must be positive; got {minimum!r}.")
        _, number, sizes = np.unique(self.questions, return_inverse=True, return_counts=True)
        found = self._kept(sizes[number] >= minimum)
        if found.mean.size == 0:
            raise InputError(f"no source has {minimum} out-edges or more: lower minimum.")
        starts = np.flatnonzero(np.diff(found.questions, prepend=-1))
        rates, hits = (np.add.reduceat(x, starts) for x in (found.rates, found.outcomes))
        return SourceQuestions(
            np.append(starts, found.mean.size), found.mean, np.sqrt(found.variance), rates, hits.astype(np.int64),
            found.explored[starts], self.link,
        )  # fmt: skip

    def coverage(self, levels: Sequence[float] = LEVELS) -> Coverage:
        """How often ``link(mean ± z·sd)`` holds the true rate."""
        return interval_coverage(self.mean, self.variance, self.rates, levels=levels, link=self.link)

    def reliability(self, *, bins: int = 10) -> Reliability:
        """Predicted probability against the observed rate of the coins."""
        return reliability(self.probabilities, self.outcomes, bins=bins)

    def summary(self) -> dict[str, float]:
        """The main figures; losses are against the true rates, so that no coin adds noise.

        ``certain`` is the share of the pairs of which the policy states no uncertainty at all.
        """
        p = self.probabilities
        brier, loss, at = brier_score(p, self.rates), log_loss(p, self.rates), self.coverage((0.5, 0.9, 0.95))
        return {
            "pairs": float(p.size),
            "predicted": float(p.mean()),
            "true": float(self.rates.mean()),
            "calibration_error": expected_calibration_error(p, self.rates),
            "brier": brier.score,
            "brier_reliability": brier.reliability,
            "brier_resolution": brier.resolution,
            "log_loss": loss.score,
            "log_loss_reliability": loss.reliability,
            "log_loss_of_base_rate": loss.uncertainty,
            **{f"coverage_{round(100 * x)}": float(y) for x, y in zip(at.levels, at.empirical, strict=True)},
            "width_90": float(at.width[1]),
            "certain": float(np.mean(self.variance < _NO_DOUBT)),
        }

    def _kept(self, which: NDArray[np.bool_] | slice) -> HeldOut:
        return HeldOut(**{name: getattr(self, name)[which] for name in _ARRAYS}, link=self.link)


def latent_scores(policy: Policy, product: ArrayLike) -> tuple[Floats, Floats]:
    """Mean and variance of every edge on the scale of the policy's link; one that states no deviation is refused.

    `TensorUCB` states the deviation of a source's response, shared by its out-edges. That of the tensor policies is the
    paper's bonus, a sum of roots, which is no standard deviation.
    """
    prediction = policy.prediction(product)
    mean, deviation, sources = prediction.mean, prediction.deviation, prediction.graph.sources
    if deviation is None:
        raise InputError(f"{policy.name} states no deviation of its beliefs.")
    if prediction.target is not None:
        mean = mean[sources] + prediction.target[prediction.graph.targets]
        deviation = deviation[sources]
    return mean, deviation**2


def held_out(
    environment: Environment,
    policy: Policy,
    *,
    rounds: int,
    run: int = 0,
    seed: int = 0,
    products: ArrayLike | None = None,
) -> HeldOut:
    """Let the policy play, then ask it about products which no round has shown.

    Parameters
    ----------
    rounds, run, seed
        As in :func:`~tensorucb.experiments.run_policy`.
    products
        Product numbers to ask about; by default all those outside ``environment.product_rows``.
    """
    graph = environment.graph
    if products is None:
        asked = np.setdiff1d(np.arange(len(environment.products)), environment.product_rows)
    else:
        asked = np.atleast_1d(np.asarray(products, dtype=np.int64))
    if asked.size == 0:
        raise InputError("no product is held out: name products, or leave some out of the environment's campaign.")
    watched = _Watched(policy, graph.n_edges)
    run_policy(environment, cast(Policy, watched), rounds=rounds, run=run, seed=seed)
    sources = np.zeros(graph.n_nodes, dtype=bool)
    sources[graph.sources[watched.seen]] = True
    beliefs = [latent_scores(policy, environment.products[int(product)]) for product in asked]
    mean, variance = (np.concatenate(parts) for parts in zip(*beliefs, strict=True))
    rates = np.concatenate([environment.probabilities(int(product)) for product in asked])
    coins = np.random.default_rng([seed, 17, run]).random(rates.size)
    explored = np.tile(sources[graph.sources], asked.size)
    questions = (graph.n_nodes * np.arange(asked.size)[:, None] + graph.sources).ravel()
    link = _LINKS[policy.prediction(environment.products[0]).link]
    return HeldOut(mean, variance, rates, (coins < rates).astype(np.float64), explored, questions, link)


def pooled(parts: Sequence[HeldOut]) -> HeldOut:
    """Several runs as one."""
    arrays: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _ARRAYS}
    # Numbers of different runs must not meet.
    first = np.cumsum([0] + [int(part.questions.max(initial=-1)) + 1 for part in parts[:-1]])
    arrays["questions"] += np.repeat(first, [part.questions.size for part in parts])
    return HeldOut(**arrays, link=parts[0].link)
