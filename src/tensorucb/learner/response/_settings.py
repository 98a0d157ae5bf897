"""Every constant of the response model. ``docs/model.md`` has the same table with the reasons."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ResponseSettings:
    """What the model believes before the first round, and how often it refits.

    All variances but ``target_variance`` and ``taste_variance`` are where learning starts from, and the value counts as
    much as ``variance_weight`` weights (``unit_weight`` for what belongs to a single source or target).

    Attributes
    ----------
    base_logit, base_variance
        Prior mean and variance of the logit of an edge: −3 is a probability of 4.7 %.
    source_variance, target_variance
        Of the weights of a user's features, as a source and as a target.
    context_variance, joint_variance
        Of the weights of a mode's features, and of the interactions between modes.
    response_variance
        Of the weights of a source's features times a mode's features.
    own_variance, own_response_variance
        Of each source's own effect, and of its own response to each feature of a mode.
    offset_variance
        Of each target's own effect.
    taste_variance
        Of the weight of a target's past taste.
    trust
        Prior weight of a source's past influence, which is a log rate ratio.
    variance_weight, unit_weight
        How much the starting values above count when variances are learned.
    rank
        Most features of an interaction between modes; larger ones get a basis of that many contexts.
    growth
        Refit when the number of rounds has grown by this factor.
    sweeps
        Sweeps over the blocks in a refit, after the first rounds.
    max_rows
        Rows kept for refits; of more, the older half is absorbed into the Gaussian priors.
    """

    base_logit: float = -3.0
    base_variance: float = 4.0
    source_variance: float = 0.02
    target_variance: float = 0.02
    context_variance: float = 1.0
    joint_variance: float = 0.5
    response_variance: float = 0.01
    own_variance: float = 0.0225
    own_response_variance: float = 0.0625
    offset_variance: float = 0.3
    taste_variance: float = 0.1
    trust: float = 0.5
    variance_weight: float = 10.0
    unit_weight: float = 5.0
    rank: int = 100
    growth: float = 1.15
    sweeps: int = 2
    max_rows: int = 400_000

    def sweeps_at(self, rounds: int) -> int:
        """More in the first rounds, which are cheap and move far."""
        return 8 if rounds <= 3 else 4 if rounds <= 10 else self.sweeps
