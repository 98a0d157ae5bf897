from __future__ import annotations

import csv

import numpy as np
import pytest

from studies.uncertainty.__main__ import main
from studies.uncertainty.policy import held_out, latent_scores, pooled
from studies.uncertainty.tables import markdown
from tensorucb.data import make_sandbox
from tensorucb.errors import InputError
from tensorucb.experiments import Environment, WorldSettings, run_policy
from tensorucb.policies import COIN, HighDegree, TensorUCB


@pytest.fixture(scope="module")
def sandbox_world():
    sandbox = make_sandbox(60, 400, 8, n_topics=4, rng=0)
    return Environment.from_sandbox(sandbox, settings=WorldSettings(k=3), product_rows=np.arange(6))


def test_latent_scores_of_a_tensor_policy_are_its_own(sandbox_world):
    world, policy = sandbox_world, TensorUCB.paper(rank=2)
    run_policy(world, policy, rounds=4)
    mean, variance = latent_scores(policy, world.products[7])
    wanted = policy.prediction(world.products[7])
    np.testing.assert_array_equal(mean, wanted.mean)
    np.testing.assert_array_equal(variance, wanted.deviation**2)


def test_the_default_policy_states_the_deviation_of_its_sources(sandbox_world):
    world, policy = sandbox_world, TensorUCB()
    run_policy(world, policy, rounds=4)
    mean, variance = latent_scores(policy, world.products[7])
    wanted = policy.prediction(world.products[7]).probabilities()
    np.testing.assert_allclose(1.0 / (1.0 + np.exp(-mean)), wanted, rtol=1e-6)
    first = world.graph.out_offsets[world.graph.sources]  # a deviation is shared by all out-edges of a source
    np.testing.assert_allclose(variance, variance[first], atol=1e-9)
    assert variance.max() > 0.01


def test_held_out_pairs_split_by_what_was_observed(sandbox_world):
    world = sandbox_world
    found = held_out(world, TensorUCB.paper(2, likelihood="logistic"), rounds=3)
    assert found.mean.size == 2 * world.graph.n_edges
    again = held_out(world, TensorUCB.paper(2, likelihood="logistic"), rounds=3)
    np.testing.assert_array_equal(found.mean, again.mean)
    np.testing.assert_array_equal(found.explored, again.explored)
    sources = np.unique(world.graph.sources[found.explored[: world.graph.n_edges]])
    assert 3 <= sources.size <= 9
    explored, rest = found.group("explored"), found.group("unexplored")
    assert explored.mean.size + rest.mean.size == found.mean.size
    assert explored.variance.mean() < rest.variance.mean()  # a policy is surer of those whom it has tried
    both = pooled([explored, rest])
    assert both.summary()["brier"] == pytest.approx(found.summary()["brier"])
    np.testing.assert_allclose(found.rates, np.concatenate([world.probabilities(p) for p in (6, 7)]))
    with pytest.raises(InputError, match="group must be"):
        found.group("seen")


def test_policies_without_a_variance_and_worlds_without_held_out_products_are_refused(sandbox_world):
    world = sandbox_world
    for policy in (COIN(), HighDegree()):
        with pytest.raises(InputError, match="no deviation"):
            held_out(world, policy, rounds=2)
    everything = Environment(world.graph, world.users, world.products, world.probabilities, settings=world.settings)
    with pytest.raises(InputError, match="held out"):
        held_out(everything, TensorUCB(2), rounds=1)


def test_markdown_says_infinity():
    text = markdown([{"a": 1.23456, "b": np.inf, "c": "x"}], ("a", "b", "c"))
    assert text.splitlines()[-1] == "| 1.23 | ∞ | x |"


@pytest.mark.slow
def test_the_command_writes_tables_and_figures(tmp_path, capsys):
    assert main(["--out", str(tmp_path / "new"), "--quick"]) == 0
    written = capsys.readouterr().out.split()
    assert len(written) == 27
    with (tmp_path / "new" / "posteriors_summary.csv").open() as file:
        rows = list(csv.DictReader(file))
    exact = [float(row["coverage"]) for row in rows if row["variant"].startswith("exact")]
    assert np.mean(exact) > 0.75
    assert (tmp_path / "new" / "uncertainty-bonus.png").stat().st_size < 150 * 1024
    with pytest.raises(SystemExit):
        main(["--out", str(tmp_path), "--seed", "-1"])
