"""Contestants that know part of the truth: they mark what could be reached, and are no policies to use."""

from __future__ import annotations

import hashlib
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tensorucb.arrays import F64, I64
from tensorucb.errors import InputError
from tensorucb.experiments._arguments import check_environment
from tensorucb.experiments._contestants import OURS
from tensorucb.experiments._environment import Environment
from tensorucb.experiments._strategies import StrategyPolicy
from tensorucb.graph import Graph
from tensorucb.policies import Grid, Oracle, Policy, PolicyState, Product, TensorUCB
from tensorucb.policies._inputs import as_modes
from tensorucb.rng import RngLike

_PRODUCTS = 100


class _Reference:
    """The oracle's choice for scores that are known from the start."""

    name: str
    tunable: ClassVar[Grid] = {}

    def score(self, product: Product) -> F64:
        """What is known of the truth."""
        raise NotImplementedError

    def bind(self, graph: Graph, users: ArrayLike | None, rng: RngLike = None) -> None:
        """Nothing to learn, nothing to start."""

    def choose(self, product: Product, k: int, oracle: Oracle) -> I64:
        """The oracle's seeds for `score`."""
        return oracle(self.score(product), k)

    def update(self, product: Product, edges: ArrayLike, outcomes: ArrayLike) -> None:
        """Nothing to learn."""

    def state(self) -> PolicyState:
        """Nothing is learned."""
        return PolicyState({}, {})

    def restore(self, state: PolicyState) -> None:
        """Nothing was learned."""


class ProductBlind(_Reference):
    """The oracle's choice for the true probabilities averaged over products: perfect but for the product.

    A policy that ends below it has learned what the products change.
    """

    name = "product-blind oracle"

    def __init__(self, environment: Environment) -> None:
        mean = np.zeros(environment.graph.n_edges)
        for product in environment.product_rows.tolist():
            mean += environment.probabilities(int(product))
        self._mean = mean / environment.product_rows.size

    def settings(self) -> dict[str, Any]:
        """A digest of what it knows, so that kept runs are recognised."""
        return {"sha256": hashlib.sha256(self._mean.tobytes()).hexdigest()}

    def score(self, product: Product) -> F64:
        """The average truth, whatever the product."""
        return self._mean


class TruthWithStrategies(_Reference):
    """The truth for each product and strategy; with ``fixed``, always for this strategy, whatever is asked."""

    name = "truth"

    def __init__(self, environment: Environment, fixed: int | None = None) -> None:
        self._environment, self.fixed = environment, fixed
        self._known = {environment.products[p].tobytes(): p for p in environment.product_rows.tolist()}

    def settings(self) -> dict[str, Any]:
        """The fixed strategy; what the world is, kept runs know already."""
        return {"fixed": self.fixed}

    def score(self, product: Product) -> F64:
        """The truth of (product, strategy …), or of a product with the fixed strategy."""
        first, *modes = as_modes(product)
        strategy = self.fixed
        if strategy is None:
            same = [(rows == mode).all(axis=1) for rows, mode in zip(self._environment.strategies, modes, strict=True)]
            strategy = int(np.flatnonzero(np.logical_and.reduce(same))[0])
        return self._environment.probabilities(self._known[first.tobytes()], strategy)


def best_strategy(environment: Environment) -> int:
    """The strategy that is best on average under the truth, if it is used always and users are chosen by the truth.

    The average is over at most 100 of the products that rounds draw from.
    """
    if not check_environment(environment).strategies:
        raise InputError("this world has no strategies, so none of them is the best.")
    oracle, k = environment.oracle(np.random.default_rng(0)), environment.settings.k
    products = environment.product_rows[:: -(-environment.product_rows.size // _PRODUCTS)].tolist()
    reached = np.zeros(environment.n_strategies)
    for product in products:
        for strategy in range(environment.n_strategies):
            rows = oracle(environment.probabilities(product, strategy), k)
            reached[strategy] += environment.evaluate(product, rows, np.full(rows.size, strategy))
    return int(np.argmax(reached))


def references(environment: Environment) -> dict[str, Policy]:
    """Who knows part of the truth of this world: the product-blind oracle, or who knows what strategies do."""
    if not environment.strategies:
        return {ProductBlind.name: ProductBlind(environment)}
    best = best_strategy(environment)
    truth, truth_fixed = TruthWithStrategies(environment), TruthWithStrategies(environment, best)
    return {
        f"{OURS}, best fixed strategy": StrategyPolicy(TensorUCB(), "fixed", strategy=best),
        "truth, best fixed strategy": StrategyPolicy(truth_fixed, "fixed", strategy=best),
        "truth, one strategy per round": StrategyPolicy(truth, "round"),
    }
