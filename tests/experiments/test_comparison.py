from __future__ import annotations

import csv

import numpy as np
import pytest

from experiments.parts import (
    Comparison,
    ProductBlind,
    contestants,
    ours_untouched,
    paper_policies,
    read_settings,
    references,
    strategy_contestants,
    write_settings,
)
from tensorucb.data import make_sandbox
from tensorucb.errors import InputError
from tensorucb.experiments import (
    Environment,
    WorldSettings,
    compare,
    decision_table,
    run_experiment,
    split_products,
    tune,
    write_csv,
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
        regret = experiment.by_run(name, "regret")
        assert row["T=10"] == pytest.approx(regret[:, :10].mean())
        assert row["T=30"] == pytest.approx(regret[:, :30].mean())
        assert row["T=40"] == pytest.approx(regret.mean())
        assert "T=100" not in row
        assert row["last20"] == pytest.approx(regret[:, -20:].mean())
        assert row["T=40_low"] < row["T=40"] < row["T=40_high"]
        reached, best = (experiment.by_run(name, part)[:, :40] for part in ("spread", "optimum"))
        assert row["of_best"] == pytest.approx((reached.sum(axis=1) / best.sum(axis=1)).mean())
        assert row["worst_of_first_ten"] == pytest.approx(regret[:, :10].mean(axis=0).max())
    assert next(iter(rows)) == min(rows, key=lambda name: rows[name]["T=40"])


def test_differences_to_ours_are_paired_run_by_run(world):
    """The interval is Student's for the runs' differences (2.920 at 90 %, 3 runs), not that of either policy."""
    experiment = run_experiment(world, {"TensorUCB": HighDegree(), "random": Random()}, rounds=10, runs=3)
    rows = {row["policy"]: row for row in decision_table(experiment)}
    assert rows["TensorUCB"]["T=10_minus_ours"] == rows["TensorUCB"]["T=10_minus_ours_low"] == 0.0
    first, second = (experiment.by_run(p)[:, :10].mean(axis=1) for p in experiment.policies)
    apart, row = second - first, rows["random"]
    half = 2.9199856 * apart.std(ddof=1) / np.sqrt(3)
    found = [row[f"T=10_minus_ours{end}"] for end in ("", "_low", "_high")]
    np.testing.assert_allclose(found, [apart.mean(), apart.mean() - half, apart.mean() + half])


def test_intervals_over_networks_average_the_runs_of_each_network_first(world):
    experiment = run_experiment(world, {"TensorUCB": HighDegree(), "random": Random()}, rounds=10, runs=4)
    (row,) = [row for row in decision_table(experiment, networks=2) if row["policy"] == "random"]
    runs = experiment.by_run("random")[:, :10].mean(axis=1)
    means = np.array([runs[[0, 2]].mean(), runs[[1, 3]].mean()])
    half = 6.3137515 * means.std(ddof=1) / np.sqrt(2)
    np.testing.assert_allclose([row["T=10_low"], row["T=10_high"]], [means.mean() - half, means.mean() + half])


def test_runs_take_turns_on_the_networks_and_tuning_has_its_own(world, tmp_path):
    def network(seed):
        box = make_sandbox(80, 500, 6, n_topics=3, rng=seed)
        return Environment.from_sandbox(box, settings=WorldSettings(k=3))

    made = []
    policies = {"LinUCB": LinUCB(), "Random": Random()}
    networks = [lambda seed=seed: made.append(seed) or network(seed) for seed in (1, 2)]
    work = Comparison(world, policies, tmp_path, rounds=3, runs=3, validation_rounds=2, networks=networks)
    tuning = work.tune()
    assert set(tuning.trials) == {"LinUCB"}
    assert made == []
    found = work.run(lambda world: {**tuning.policies, **references(world)}, "decisions")
    assert made == [1, 2]
    blind = found.frame.filter(policy="product-blind oracle")
    assert blind["run"].unique().sort().to_list() == [0, 1, 2]
    for run, seed in ((0, 1), (1, 2), (2, 1)):
        alone = run_experiment(network(seed), {"Random": Random()}, rounds=3, runs=range(run, run + 1))
        np.testing.assert_array_equal(found.by_run("Random", "spread")[run], alone.frame["spread"])
    with pytest.raises(InputError, match="2 networks need as many runs"):
        Comparison(world, policies, tmp_path, runs=1, networks=networks)


def test_baselines_are_tuned_on_products_that_no_run_promotes(tmp_path):
    box = make_sandbox(60, 400, 20, n_topics=3, rng=3)
    env = Environment.from_sandbox(box, settings=WorldSettings(k=3))
    work = Comparison(env, {"Random": Random()}, tmp_path, rounds=30, runs=2)
    played = set(work.run(lambda world: work.policies, "runs").frame["product"])
    assert played.isdisjoint(split_products(env)[0].product_rows.tolist())
    assert len(played) > 10


def test_the_contestants_are_in_their_best_form_and_the_papers_as_published():
    best, (published, _) = contestants(), paper_policies("ours")
    assert next(iter(best)) == next(iter(published)) == "TensorUCB"
    assert {"DILinUCB (original)", "LogisticUCB", "GammaCounts"} <= set(best) - set(published)
    assert set(published) <= set(best)
    for name in ("LinUCB", "IMLinUCB", "DILinUCB"):
        assert (best[name].matched, published[name].matched) == (True, False)


def test_our_defaults_are_not_tuned_and_the_baselines_are(world, tmp_path):
    policies = {name: policy for name, policy in contestants().items() if name in ("TensorUCB", "LinUCB", "Random")}
    work = Comparison(world, policies, tmp_path, rounds=4, runs=2, validation_rounds=3)
    tuning = work.tune(ours_untouched(policies))
    assert set(tuning.trials) == {"LinUCB"}
    assert tuning.policies["TensorUCB"].settings() == policies["TensorUCB"].settings()
    found = work.run(lambda world: tuning.policies, "decisions")
    write_csv(tmp_path / "decisions.csv", decision_table(found))
    with (tmp_path / "decisions.csv").open() as file:
        assert {row["policy"] for row in csv.DictReader(file)} == {"TensorUCB", "LinUCB", "Random"}


def test_ours_stays_untouched_with_strategies_too():
    grids = ours_untouched({**contestants(), **strategy_contestants()})
    assert {label for label in grids if "TensorUCB" in label} == set(grids)
    assert "TensorUCB (paper)" not in grids
    assert "TensorUCB per strategy" in grids


def test_settings_survive_the_file(world, tmp_path):
    found = tune(world, {"LinUCB": LinUCB()}, rounds=3, grids={"LinUCB": {"exploration": [0.01, 1.0]}})
    write_settings(tmp_path / "s.toml", found)
    chosen = found.policies["LinUCB"].exploration
    assert read_settings(tmp_path / "s.toml") == {"LinUCB": {"exploration": [chosen]}}
    kept = {'a "b"': {"odd name": ["x", True, 1, 1e-05]}, "LinUCB": {"exploration": [0.5]}}
    write_settings(tmp_path / "s.toml", found, kept)
    assert read_settings(tmp_path / "s.toml") == {**kept, "LinUCB": {"exploration": [chosen]}}


class Mine(HighDegree):
    name = "mine"


def test_compare_is_the_command_in_one_call(tmp_path):
    """Ours untouched, baselines tuned on other products, one's own policy, and the reference."""
    box = make_sandbox(60, 400, 12, n_topics=3, rng=3)
    env = Environment.from_sandbox(box, settings=WorldSettings(k=3))
    sizes = {"rounds": 4, "runs": 2, "validation_rounds": 3}
    found = compare(env, ["LinUCB", Mine()], **sizes, directory=tmp_path)
    assert found.policies == ("TensorUCB", "HighDegree", "LinUCB", "mine", "product-blind oracle")
    work = Comparison(env, {"TensorUCB": contestants()["TensorUCB"], "LinUCB": LinUCB()}, None, **sizes)
    tuned = work.tune(ours_untouched(work.policies)).policies
    again = work.run(lambda world: tuned, "runs")
    for label in ("TensorUCB", "LinUCB"):
        np.testing.assert_array_equal(found.by_run(label, "spread"), again.by_run(label, "spread"))
    labelled = compare(env, {"mine": Mine()}, **sizes).policies
    assert labelled == ("TensorUCB", "HighDegree", "mine", "product-blind oracle")
    table = str(found).splitlines()
    assert table[0].split() == ["Policy", "T=4", "minus", "ours", "%", "of", "best"]
    assert {line.split("  ")[0] for line in table[2:]} == set(found.policies)
    assert repr(found) == "Experiment(5 policies, 2 runs of 4 rounds)"


@pytest.mark.parametrize(
    ("policies", "said"),
    [
        (["Linucb"], "no policy 'Linucb'. Known: TensorUCB"),
        ([LinUCB()], "as another one is"),
        ([LinUCB], "must be a policy object"),
        ("LinUCB", "a list of labels and policies"),
        ([3], "must be a policy object"),
    ],
)
def test_compare_names_what_it_does_not_know(world, policies, said):
    with pytest.raises(InputError, match=said):
        compare(world, policies, rounds=1, runs=1)
