"""Contestants that know part of the truth: they mark what could be reached, and are no policies to use."""

from __future__ import annotations

import hashlib
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.experiments._environment import Environment
from tensorucb.graph import Graph
from tensorucb.policies import Grid, Oracle, PolicyState, Product
from tensorucb.rng import RngLike

__all__ = ["ProductBlind"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class ProductBlind:
    """The oracle's choice for the true probabilities averaged over products: perfect but for the product.

    A policy that ends below it has learned what the products change.
    """

    name = "product-blind oracle"
    tunable: ClassVar[Grid] = {}

    def __init__(self, environment: Environment) -> None:
        mean = np.zeros(environment.graph.n_edges)
        for product in environment.campaign.tolist():
            mean += environment.probabilities(int(product))
        self._mean = mean / environment.campaign.size

    def settings(self) -> dict[str, Any]:
        """A digest of what it knows, so that kept runs are recognised."""
        return {"sha256": hashlib.sha256(self._mean.tobytes()).hexdigest()}

    def bind(self, graph: Graph, users: ArrayLike | None, rng: RngLike = None) -> None:
        """Nothing to learn, nothing to start."""

    def score(self, product: Product) -> Floats:
        """The average truth, whatever the product."""
        return self._mean

    def choose(self, product: Product, k: int, oracle: Oracle) -> Ints:
        """The oracle's seeds for the average truth."""
        return oracle(self._mean, k)

    def update(self, product: Product, edges: ArrayLike, outcomes: ArrayLike) -> None:
        """Nothing to learn."""

    def state(self) -> PolicyState:
        """Nothing is learned."""
        return PolicyState({}, {})

    def restore(self, state: PolicyState) -> None:
        """Nothing was learned."""
