"""What a policy believes of every edge: expected, and optimistic as it chooses."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tensorucb.policies._base import Policy, Product, check_policy_object

# Small enough to leave no bonus, and not 0, by which Thompson sampling divides its counts.
_NO_EXPLORATION = 1e-9


@dataclass(frozen=True)
class Beliefs:
    """Probabilities of every edge for one product.

    A policy may have a method ``beliefs(product)`` that gives these two from one pass over the edges. A campaign then
    calls it once per ask, and hands ``optimistic`` to the oracle itself. So only a policy whose ``choose`` is
    ``oracle(score(product), k)`` may have it; `check_policy` compares the two.

    Attributes
    ----------
    mean
        Without exploration: what `expected_probabilities` gives.
    optimistic
        With exploration: what ``score`` gives.

    Examples
    --------
    >>> from tensorucb import Graph, TensorUCB
    >>> policy = TensorUCB()
    >>> policy.bind(Graph.from_edges([0, 0, 1], [1, 2, 2]), [[1.0], [0.0], [0.5]], rng=0)
    >>> beliefs = policy.beliefs([1.0, 0.0])
    >>> bool((beliefs.optimistic >= beliefs.mean).all())
    True
    """

    mean: NDArray[np.float64]
    optimistic: NDArray[np.float64]


def one_pass(policy: Policy) -> Callable[[Product], Beliefs] | None:
    """The policy's ``beliefs``, unless a subclass chooses or scores in another way than the class that has it."""
    for kind in type(policy).__mro__:
        if "beliefs" in vars(kind):
            found: Callable[[Product], Beliefs] = policy.beliefs  # type: ignore[attr-defined]
            return found
        if not {"choose", "score", "_score", "mean"}.isdisjoint(vars(kind)):
            return None
    return None


def expected_probabilities(policy: Policy, product: Product) -> NDArray[np.float64]:
    """The believed probability of every edge, exploration left out.

    That is ``policy.mean(product)`` where there is such a method. Otherwise a shallow copy is asked, with
    ``exploration_kind="greedy"`` or next to no ``exploration`` where it has these attributes.

    Examples
    --------
    >>> from tensorucb import Graph
    >>> from tensorucb.policies import CUCB, expected_probabilities
    >>> policy = CUCB()
    >>> policy.bind(Graph.from_edges([0, 0], [1, 2]), None, rng=0)
    >>> policy.update([1.0], [0, 0, 1, 1], [1, 0, 0, 0])
    >>> expected_probabilities(policy, [1.0]).round(2).tolist()
    [0.5, 0.0]
    """
    check_policy_object("policy", policy)
    mean = getattr(policy, "mean", None)
    if callable(mean):
        return np.asarray(mean(product), dtype=np.float64)
    sober = copy.copy(policy)
    if hasattr(policy, "exploration_kind"):
        sober.exploration_kind = "greedy"  # type: ignore[attr-defined]
    elif getattr(policy, "exploration", None):
        sober.exploration = _NO_EXPLORATION  # type: ignore[attr-defined]
    return np.asarray(sober.score(product), dtype=np.float64)
