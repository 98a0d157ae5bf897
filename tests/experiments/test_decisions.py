from __future__ import annotations

import csv

import numpy as np
import pytest

from tensorucb.data import make_sandbox
from tensorucb.experiments import (
    Decisions,
    Environment,
    ProductBlind,
    WorldSettings,
    ablations,
    contestants,
    decision_table,
    read_settings,
    run_experiment,
    tune,
    write_settings,
)
from tensorucb.policies import HighDegree, LinUCB, Policy, Random


@pytest.fixture(scope="module")
def world():
    box = make_sandbox(120, 900, 8, n_topics=3, product_effect=2.0, rng=3)
    return Environment.from_sandbox(box, settings=WorldSettings(k=4))


def test_product_blind_picks_the_same_seeds_for_every_product_and_knows_the_average(world):
    blind = ProductBlind(world)
    assert isinstance(blind, Policy)
    mean = np.mean([world.probabilities(p) for p in range(8)], axis=0)
    np.testing.assert_allclose(blind.score(world.products[0]), mean, rtol=1e-12)
    oracle = world.oracle(np.random.default_rng(0))
    picks = {tuple(blind.choose(world.products[p], 4, oracle)) for p in range(8)}
    assert len(picks) == 1


def test_product_blind_loses_to_the_optimum_and_beats_degree(world):
    experiment = run_experiment(
        world, {"blind": ProductBlind(world), "degree": HighDegree(), "random": Random()}, rounds=30, runs=2
    )
    late = {name: float(experiment.final(name).mean) for name in experiment.policies}
    assert 0 < late["blind"] < late["degree"] < late["random"]


def test_table_is_what_its_columns_say(world):
    experiment = run_experiment(world, {"degree": HighDegree(), "random": Random()}, rounds=40, runs=3)
    rows = {row["policy"]: row for row in decision_table(experiment)}
    for name, row in rows.items():
        regret = np.array([r.regret for r in experiment.of(name)])
        assert row["T=10"] == pytest.approx(regret[:, :10].mean())
        assert row["T=30"] == pytest.approx(regret[:, :30].mean())
        assert "T=100" not in row
        assert row["last20"] == pytest.approx(regret[:, -20:].mean())
        assert row["T=30_low"] < row["T=30"] < row["T=30_high"]
        assert row["worst_of_first_ten"] == pytest.approx(regret[:, :10].mean(axis=0).max())
    assert next(iter(rows)) == min(rows, key=lambda name: rows[name]["T=30"])


def test_our_defaults_are_not_tuned_and_the_baselines_are(world, tmp_path):
    policies = {name: policy for name, policy in contestants().items() if name in ("TensorUCB", "LinUCB", "Random")}
    work = Decisions(
        world, tmp_path, rounds=4, runs=2, validation_rounds=3, explorations=(0.1, 1.0), ranks=(2,), policies=policies
    )
    assert set(work.tuning.trials) == {"LinUCB"}
    assert work.tuning.policies["TensorUCB"].settings() == policies["TensorUCB"].settings()
    assert work.comparison.policies == ("TensorUCB", "LinUCB", "Random", "product-blind oracle")
    with (tmp_path / "decisions.csv").open() as file:
        assert {row["policy"] for row in csv.DictReader(file)} == set(work.comparison.policies)


def test_each_ablation_differs_from_the_defaults_and_plays(world, tmp_path):
    variants = ablations()
    first, *others = variants.values()
    assert all(other.settings() != first.settings() for other in others)
    work = Decisions(world, tmp_path, rounds=3, runs=1)
    assert set(work.ablation.policies) == set(variants)


def test_settings_survive_the_file(world, tmp_path):
    found = tune(world, {"LinUCB": LinUCB()}, rounds=3, grids={"LinUCB": {"exploration": [0.01, 1.0]}})
    write_settings(tmp_path / "s.toml", found)
    chosen = found.policies["LinUCB"].exploration
    assert read_settings(tmp_path / "s.toml") == {"LinUCB": {"exploration": [chosen]}}
