"""S* of the cascade objective: no choice made on other samples is above it beyond the evaluator's error."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.parts import ProductBlind
from reference.oracle import select_seeds
from tensorucb.data import digg_like, read_dataset
from tensorucb.experiments import Environment, WorldSettings, environment_from_dataset
from tensorucb.oracle import SeedOracle

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"
SETTINGS = WorldSettings(k=10, objective="cascade", feedback="cascade")


def furthest_above(environment, product, *, choices, epsilon):
    """By how many standard errors of the mean difference over the worlds the best of many strong choices leads S*."""
    p, k, graph = environment.probabilities(product), environment.settings.k, environment.graph
    oracle = SeedOracle(graph, rng=1)
    rivals = [oracle(p, k) for _ in range(choices)]
    rivals += [select_seeds(graph, p, k, algorithm="tim", epsilon=epsilon, rng=seed).rows for seed in range(2)]
    rivals.append(ProductBlind(environment).choose(environment.products[product], k, oracle))
    worlds = environment.frozen_worlds(product)
    best = worlds.reach(environment.optimum(product).rows)
    assert best.mean() == environment.optimum(product).spread
    leads = []
    for rows in rivals:
        apart = worlds.reach(rows) - best
        leads.append(apart.mean() / max(1e-9, apart.std(ddof=1) / np.sqrt(apart.size)))
    return max(leads)


def test_nothing_is_above_the_optimum_of_a_generated_world():
    environment = Environment.from_sandbox(digg_like(0.3, 1), settings=SETTINGS)
    # Nine choices for each of two products: luck alone passes four standard errors about once in a thousand tests.
    assert max(furthest_above(environment, product, choices=6, epsilon=0.3) for product in range(2)) < 4.0


@pytest.mark.slow
def test_nothing_is_above_the_optimum_of_digg():
    if not (DATA / "digg_core").is_dir():
        pytest.skip("the shared data set digg_core is not on this machine")
    environment = environment_from_dataset(read_dataset(DATA / "digg_core"), settings=SETTINGS)
    products = environment.product_rows[::35].tolist()
    assert max(furthest_above(environment, product, choices=12, epsilon=0.2) for product in products) < 4.0
