"""Baselines for the doubly robust estimator: a policy's beliefs, fitted on other rounds than those it predicts."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tensorucb.arrays import F64
from tensorucb.checks import check_array, check_count
from tensorucb.experiments.offline._campaign import LoggedCampaign
from tensorucb.experiments.offline._rounds import Baseline
from tensorucb.policies import Policy
from tensorucb.rng import RngLike, as_generator

Model = ArrayLike | Policy | Callable[[int], F64]
# Predictions that are kept, of one product each: an array of all edges may be large.
_HELD = 32


def train(campaign: LoggedCampaign, policy: Policy, users: ArrayLike | None, *, rng: RngLike = 0) -> Policy:
    """Bind ``policy`` and let it learn every logged round, in order; returns it.

    Examples
    --------
    >>> import tensorucb as tu
    >>> world = tu.experiments.Environment.from_sandbox(tu.data.make_sandbox(60, 400, 5, rng=0))
    >>> log = tu.experiments.offline.log_campaign(world, [0.1] * 60, rounds=10)
    >>> train(log, tu.policies.LinUCB(), world.users).name
    'LinUCB'
    """
    policy.bind(campaign.graph, users, as_generator(rng))
    for t in range(campaign.n_rounds):
        r = campaign.round(t)
        policy.update(r.product, r.edges, r.outcomes)
    return policy


def cross_fitted_model(
    campaign: LoggedCampaign, policy: Policy, users: ArrayLike | None, *, folds: int = 2, rng: RngLike = 0
) -> Callable[[int], F64]:
    """A model ``model(t)``, the probability of every edge in round ``t``, that never saw that round's fold.

    A model fitted on the very rounds it corrects predicts their noise as well, which biases the doubly robust
    estimate; with folds it does not.

    Parameters
    ----------
    policy
        Its beliefs without exploration are the predictions. It is bound again, and afterwards belongs to the model.
    folds, rng
        Number of parts, each of which is predicted from the others; seed of the split and of the policy.

    Examples
    --------
    >>> import tensorucb as tu
    >>> world = tu.experiments.Environment.from_sandbox(tu.data.make_sandbox(60, 400, 5, rng=0))
    >>> log = tu.experiments.offline.log_campaign(world, [0.1] * 60, rounds=10)
    >>> cross_fitted_model(log, tu.policies.LinUCB(), world.users)(0).shape == (world.graph.n_edges,)
    True
    """
    folds = check_count("folds", folds, 2, campaign.n_rounds)
    generator = as_generator(rng)
    fold = generator.permutation(np.arange(campaign.n_rounds) % folds)
    seed = int(generator.integers(2**63))
    states = []
    for part in range(folds):
        train(campaign.take(np.flatnonzero(fold != part)), policy, users, rng=seed)
        states.append(policy.state())

    @lru_cache(maxsize=_HELD)
    def believed(part: int, product: bytes) -> F64:
        policy.restore(states[part])
        return policy.prediction(np.frombuffer(product)).expected()

    return lambda t: believed(int(fold[t]), campaign.products[t].tobytes())


def as_baseline(campaign: LoggedCampaign, model: Model) -> Baseline:
    """Any model as ``baseline(t, edges)``."""

    def checked(values: Any) -> F64:
        hint = "It needs one probability per edge; clip them first."
        return check_array("the model's predictions", values, (campaign.graph.n_edges,), low=0.0, high=1.0, hint=hint)

    if isinstance(model, Policy):
        policy = model

        @lru_cache(maxsize=_HELD)
        def believed(product: bytes) -> F64:
            return policy.prediction(np.frombuffer(product)).expected()

        return lambda t, edges: believed(campaign.products[t].tobytes())[edges]
    if callable(model):
        function = model
        return lambda t, edges: checked(function(t))[edges]
    fixed = checked(model)
    return lambda t, edges: fixed[edges]
