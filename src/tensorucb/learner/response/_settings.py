"""Every constant of the response model. ``docs/model.md`` has the same table with the reasons."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ResponseSettings:
    """What the model believes before the first round, and how often it refits.

    All variances but ``target_variance`` and ``taste_variance`` are where learning starts from, and the value counts as
    much as ``variance_weight`` weights (``unit_weight`` for what belongs to a single source or target).
    """

    base_logit: float = -3.0  # prior mean of an edge's logit; -3 is a probability of 4.7 %
    base_variance: float = 4.0  # its prior variance
    source_variance: float = 0.02  # of the weights of a user's features as a source
    target_variance: float = 0.02  # of the weights of a user's features as a target
    context_variance: float = 1.0  # of the weights of a mode's features
    joint_variance: float = 0.5  # of the weights of the interactions between modes
    response_variance: float = 0.01  # of the weights of a source's features times a mode's features
    own_variance: float = 0.0225  # of each source's own effect
    own_response_variance: float = 0.0625  # of each source's own response to each feature of a mode
    offset_variance: float = 0.3  # of each target's own effect
    taste_variance: float = 0.1  # of the weight of a target's past taste
    trust: float = 0.5  # prior weight of a source's past influence, which is a log rate ratio
    variance_weight: float = 10.0
    unit_weight: float = 5.0
    rank: int = 100  # most features of an interaction between modes; larger ones get a basis of that many contexts
    growth: float = 1.15  # refit when the number of rounds has grown by this factor
    sweeps: int = 2  # over the blocks in a refit, after the first rounds
    max_rows: int = 400_000  # kept for refits; of more, the older half is absorbed into the Gaussian priors

    def sweeps_at(self, rounds: int) -> int:
        """More in the first rounds, which are cheap and move far."""
        return 8 if rounds <= 3 else 4 if rounds <= 10 else self.sweeps
