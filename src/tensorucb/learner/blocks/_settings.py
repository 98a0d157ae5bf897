"""The constants of the block learner: prior widths, schedule and memory."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BlockSettings"]


@dataclass(frozen=True)
class BlockSettings:
    """What the learner believes before the first round, and how often it refits.

    Attributes
    ----------
    rank
        R. Rank 0 holds the base rate and the products' main effects, rank 1 the sources', rank 2 the targets', the
        others interactions.
    base_logit
        Logit of every edge at the start.
    product_deviation, source_deviation
        Prior standard deviation τ of a source's response to each product feature, and of its constant.
    target_variance
        Prior variance of a target's offset b_j.
    main_variance, pair_variance
        Prior variance of weights of main effects and of interactions.
    pair_scale
        Standard deviation of the random start of interactions.
    response_variance
        Prior variance of the weights of features times product features, to begin with, as ``main_variance`` is for
        the main effects of sources.
    taste_variance
        Prior variance of the weight of taste.
    trust
        Prior slope of past influence, which is itself a log rate ratio.
    deviation_weight
        The prior τ counts as much as this many sources when τ is learned.
    variance_weight
        The prior variance counts as much as this many weights when a group's variance is learned.
    growth
        Refit after this relative growth of the number of rounds.
    sweeps
        Sweeps over the blocks in a refit, once past the first rounds.
    max_rows
        Rows kept for refits; the older half of more is absorbed into the Gaussian priors.
    """

    rank: int = 5
    base_logit: float = -3.0
    product_deviation: float = 0.25
    source_deviation: float = 0.15
    target_variance: float = 0.3
    main_variance: float = 0.02
    pair_variance: float = 0.03
    pair_scale: float = 0.1
    response_variance: float = 0.01
    taste_variance: float = 0.1
    trust: float = 0.5
    deviation_weight: float = 20.0
    variance_weight: float = 10.0
    growth: float = 1.15
    sweeps: int = 2
    max_rows: int = 400_000

    def sweeps_at(self, rounds: int) -> int:
        """More in the first rounds, which are cheap and move far."""
        return 8 if rounds <= 3 else 4 if rounds <= 10 else self.sweeps
