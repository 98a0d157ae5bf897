"""Baselines for the doubly robust estimator: a policy's beliefs, fitted on other rounds than those it predicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tensorucb.arrays import F64, I64
from tensorucb.errors import InputError, ShapeError
from tensorucb.experiments.offline._campaign import LoggedCampaign
from tensorucb.experiments.offline._rounds import Baseline
from tensorucb.policies import Policy
from tensorucb.policies.beliefs import expected_probabilities
from tensorucb.rng import RngLike, as_generator

Model = ArrayLike | Policy | Callable[[int], F64]
_HELD = 32


def train(campaign: LoggedCampaign, policy: Policy, users: ArrayLike | None, *, rng: RngLike = 0) -> Policy:
    """Bind ``policy`` and let it learn every logged round, in order; returns it."""
    policy.bind(campaign.graph, users, as_generator(rng))
    for t in range(campaign.n_rounds):
        r = campaign.round(t)
        policy.update(r.product, r.edges, r.outcomes)
    return policy


def cross_fitted_model(
    campaign: LoggedCampaign, policy: Policy, users: ArrayLike | None, *, folds: int = 2, rng: RngLike = 0
) -> Callable[[int], F64]:
    """A model whose prediction of a round never saw that round's fold.

    A model fitted on the very rounds it corrects predicts their noise as well, which biases the doubly robust
    estimate; with folds it does not.

    Parameters
    ----------
    campaign
        The log.
    policy
        Its beliefs without exploration are the predictions. It is bound again, and afterwards belongs to the model.
    users
        (n, d) user features, or None.
    folds
        Number of parts; each is predicted from the others.
    rng
        Seed of the split and of the policy.

    Returns
    -------
    Callable
        ``model(t)``: the probability of every edge in round ``t``.
    """
    if not 2 <= folds <= campaign.n_rounds:
        raise InputError(f"folds must lie in 2..{campaign.n_rounds}, the number of rounds; got {folds!r}.")
    generator = as_generator(rng)
    fold = generator.permutation(np.arange(campaign.n_rounds) % folds)
    seed = int(generator.integers(2**63))
    states = []
    for part in range(folds):
        train(campaign.take(np.flatnonzero(fold != part)), policy, users, rng=seed)
        states.append(policy.state())
    held: dict[tuple[int, bytes], F64] = {}

    def predict(t: int) -> F64:
        product = campaign.products[t]
        key = int(fold[t]), product.tobytes()
        if key not in held:
            policy.restore(states[key[0]])
            if len(held) >= _HELD:
                held.pop(next(iter(held)))
            held[key] = expected_probabilities(policy, product)
        return held[key]

    return predict


def as_baseline(campaign: LoggedCampaign, model: Model) -> Baseline:
    """Any model as ``baseline(t, edges)``."""
    if isinstance(model, Policy):
        return _of_policy(campaign, model)
    if callable(model):
        function = model
        return lambda t, edges: _checked(campaign, function(t))[edges]
    fixed = _checked(campaign, model)
    return lambda t, edges: fixed[edges]


def _of_policy(campaign: LoggedCampaign, policy: Policy) -> Baseline:
    held: dict[bytes, F64] = {}

    def predict(t: int, edges: I64) -> F64:
        product = campaign.products[t]
        key = product.tobytes()
        if key not in held:
            if len(held) >= _HELD:
                held.pop(next(iter(held)))
            held[key] = expected_probabilities(policy, product)
        return held[key][edges]

    return predict


def _checked(campaign: LoggedCampaign, values: Any) -> F64:
    p = np.asarray(values, dtype=np.float64)
    if p.shape != (campaign.graph.n_edges,):
        raise ShapeError(f"a model must predict one probability per edge, ({campaign.graph.n_edges},); got {p.shape}.")
    if not ((p >= 0.0) & (p <= 1.0)).all():
        raise InputError("a model's predictions must lie in [0, 1]; got values outside it, or NaN. Clip them first.")
    return p
