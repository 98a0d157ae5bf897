"""How the outcomes of one user in one round depend on each other, estimated from what a policy expected of them.

A follower of m contacted users has m outcomes in a round, its *dose* is m. Two numbers say what that means:

    r   how far these outcomes are one and the same: 0 for a coin per contact, 1 for one answer told to all
    q   whether a second contact adds nothing (1), or as much as the first (0):
        logit p(m) = logit p(1) + log(1 + r(1 − q)(m − 1))

`TensorUCB` learns both with everything else. For a policy with another model, what it expected is enough: r says how
often two outcomes of one user are both responses, between independent coins and one number for both; q is the best fit
to how responses grow with the dose. Both are taken after a shift of all logits of the round, since a popular product
raises all outcomes without making them the same.
"""

from __future__ import annotations

import numpy as np

from tensorucb.arrays import F64, I32, Arrays

# Counts are kept by dose and by expected logit.
_DOSES = 20
_LOWEST = -8.0
_HIGHEST = 4.0
_WIDTH = 0.5
_LOGITS = np.arange(_LOWEST, _HIGHEST, _WIDTH) + _WIDTH / 2
_CANDIDATES = np.linspace(-1.0, 1.0, 41)  # of q
_MEAN, _VARIANCE = 0.5, 0.25  # of its prior
# Newton steps, and how far one may go: a policy may expect 0 or 1 of every edge.
_STEPS, _LARGEST_STEP = 12, 2.0


def no_doses() -> Arrays:
    """What is known before the first round."""
    return {"dose_pairs": np.zeros(2), "dose_doses": np.zeros((2, _DOSES, _LOGITS.size))}


def with_doses(counted: Arrays, targets: I32, expected: F64, outcomes: F64) -> Arrays:
    """What is known after one more round: target, expected probability and outcome of each of its distinct edges."""
    _, cell, sizes = np.unique(targets, return_inverse=True, return_counts=True)
    sure = np.clip(expected, 1e-4, 1.0 - 1e-4)
    logits = np.log(sure / (1.0 - sure))
    logits += _shift(logits, outcomes)
    p = 1.0 / (1.0 + np.exp(-logits))
    both, independent = (0.5 * (np.sum(np.bincount(cell, x) ** 2) - np.sum(x * x)) for x in (outcomes, p))
    # Two outcomes of one number: both respond with the smaller probability, here that of those before it in the cell.
    order = np.lexsort((p, cell))
    behind = (np.cumsum(sizes) - 1)[cell[order]] - np.arange(order.size)
    same = float(p[order] @ behind)
    pairs = [both - independent, same - independent]
    place = np.clip((logits - _LOWEST) / _WIDTH, 0, _LOGITS.size - 1).astype(np.int64)
    dose = np.minimum(sizes[cell], _DOSES) - 1
    # A user's outcomes together count as much as they tell.
    weight = 1.0 / (1.0 + sameness(counted) * (sizes[cell] - 1.0))
    bins = dose * _LOGITS.size + place
    counts = [np.bincount(bins, x, _DOSES * _LOGITS.size) for x in (weight, weight * outcomes)]
    by_dose = counted["dose_doses"]
    return {"dose_pairs": counted["dose_pairs"] + pairs, "dose_doses": by_dose + np.reshape(counts, by_dose.shape)}


def _shift(logits: F64, outcomes: F64) -> float:
    """The shift of all logits of a round at which as many responses are expected as came, one on each side added."""
    shift, wanted = 0.0, outcomes.sum()
    for _ in range(_STEPS):
        p = 1.0 / (1.0 + np.exp(-logits - shift))
        # Half a response more and half a failure more keep it finite.
        slope = wanted - p.sum() - shift
        shift += float(np.clip(slope / (np.sum(p * (1.0 - p)) + 1.0), -_LARGEST_STEP, _LARGEST_STEP))
    return shift


def sameness(counted: Arrays) -> float:
    """Estimate r."""
    together, most = counted["dose_pairs"].tolist()
    return float(np.clip(together / (most + 1.0), 0.0, 1.0))


def redundancy_of(counted: Arrays) -> float:
    """Estimate ρ = r·q."""
    r = sameness(counted)
    if r == 0.0:
        return 0.0
    trials, responses = counted["dose_doses"]
    # Most cells are empty, and this is done after every round.
    cells = trials > 0.0
    trials = trials[cells]
    responses = responses[cells]
    doses, places = np.nonzero(cells)
    dose = np.log1p(r * (1.0 - _CANDIDATES)[:, None] * doses) + _LOGITS[places]
    level = np.zeros(_CANDIDATES.size)
    for _ in range(_STEPS):
        p = 1.0 / (1.0 + np.exp(-dose - level[:, None]))
        slope = (responses - trials * p).sum(axis=1) - level
        step = slope / ((trials * p * (1.0 - p)).sum(axis=1) + 1.0)
        level += np.clip(step, -_LARGEST_STEP, _LARGEST_STEP)
    logits = dose + level[:, None]
    fit = (responses * logits - trials * np.logaddexp(0.0, logits)).sum(axis=1)
    fit -= 0.5 * level**2 + 0.5 * (_CANDIDATES - _MEAN) ** 2 / _VARIANCE
    return r * max(float(_CANDIDATES[np.argmax(fit)]), 0.0)
