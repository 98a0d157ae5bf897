"""The ladder changes one thing per row, fits are least squares, and the rank of influence is that of a matrix."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest

from studies.ceilings import best_fit, mean_regret, source_means, truth
from studies.influence_rank import of_rank
from studies.paper_form import LADDER, Runs, forms
from studies.premises import premises
from tensorucb.cli.demo import demo_environment
from tensorucb.policies import HighDegree, TensorUCB


@pytest.fixture(scope="module")
def world():
    return demo_environment(0, quick=True)


def test_each_row_of_the_ladder_changes_one_thing():
    settings = [TensorUCB.paper(**arguments).settings() for arguments in LADDER.values()]
    changes = [{name for name in after if after[name] != before[name]} for before, after in pairwise(settings)]
    logistic = changes.pop(6 - 1)
    assert logistic == {"likelihood", "projection"}, "the sigmoid belongs to the logistic likelihood"
    assert all(len(names) == 1 for names in changes)
    assert settings[0] == TensorUCB.paper().settings()
    assert all(make() is not make() for make in forms().values())


def test_a_run_is_played_once_and_then_read(world, tmp_path):
    path = tmp_path / "kept" / "runs.jsonl"
    first = Runs(path).run(world, HighDegree, rounds=2, form="degree", run=0)
    again = Runs(path).run(world, lambda: pytest.fail("played again"), rounds=2, form="degree", run=0)
    assert first == again
    assert first.regret == json.loads(path.read_text())["regret"] > 0


def test_the_best_fit_is_that_of_least_squares():
    rng = np.random.default_rng(0)
    Y, X, Z = rng.random((30, 7)), rng.normal(size=(30, 4)), rng.random((7, 3))
    design = np.einsum("ea,pc->epac", X, Z).reshape(210, 12)
    want = design @ np.linalg.lstsq(design, Y.ravel(), rcond=None)[0]
    np.testing.assert_allclose(best_fit(Y, X, Z).ravel(), want, atol=1e-9)


def test_the_source_by_product_part_is_exact_at_full_rank_and_better_than_effects_alone(world):
    means = source_means(world, truth(world))
    edges = world.graph.sources
    whole = of_rank(world, means, len(world.product_rows))
    connected = world.graph.out_degree > 0
    np.testing.assert_allclose(whole[connected], np.clip(means, 1e-6, 1.0)[connected], atol=1e-9)
    effects = of_rank(world, means, 0)
    regrets = [mean_regret(world, lambda place, p=p: p[edges, place]) for p in (whole, effects)]
    assert 0 <= regrets[0] < regrets[1]


def test_small_features_satisfy_the_third_assumption(world):
    large = premises(TensorUCB.paper(rank=2), world, 3)
    small = premises(TensorUCB.paper(rank=2), world, 3, scale=0.03)
    assert large["violated"] > small["violated"] == 0.0
    assert small["largest"] < 0.1
    assert large["updates"] > world.settings.k
