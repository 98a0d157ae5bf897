from __future__ import annotations

import csv

import numpy as np
import pytest

from experiments.parts import (
    Comparison,
    Effort,
    network_statistics,
    paper_policies,
    run_targets,
    sampled,
    write_results,
)
from tensorucb.errors import InputError
from tensorucb.experiments import Environment, WorldSettings, environment_from_dataset
from tensorucb.policies import LinUCB, Random, TensorUCB


def test_sampled_keeps_users_features_and_truth_together(sandbox):
    env = Environment.from_sandbox(sandbox, settings=WorldSettings(k=3))
    small = sampled(env, 30, seed=1)
    rows = env.graph.rows(small.graph.ids)
    assert 10 < small.graph.n_nodes <= 30
    assert (small.graph.out_degree + small.graph.in_degree > 0).all()
    np.testing.assert_array_equal(small.users, env.users[rows])
    edges = env.graph.edge_rows(small.graph.ids[small.graph.sources], small.graph.ids[small.graph.targets])
    np.testing.assert_array_equal(small.probabilities(2), env.probabilities(2)[edges])


@pytest.fixture(scope="module")
def results(sandbox, tmp_path_factory):
    env = Environment.from_sandbox(sandbox, settings=WorldSettings(k=3))
    policies = {"TensorUCB (paper)": TensorUCB.paper(), "LinUCB": LinUCB(), "Random": Random()}
    effort = Effort(4, 2, 3, 2, (1, 2, 3), 2)
    grids = {"TensorUCB (paper)": {"exploration": (0.1, 1.0), "rank": (1, 2)}}
    work = Comparison(env, policies, tmp_path_factory.mktemp("out"), rounds=4, runs=2, validation_rounds=3)
    tuning = work.tune(effort.grids(policies, grids))
    everything = ("table-network", "fig-degrees", "fig-regret", "fig-rank", "fig-runtime", "bound")
    return run_targets(work, tuning, everything, effort)


def test_every_policy_that_can_is_tuned(results):
    tried = {
        label: {name: {trial.arguments[name] for trial in trials} for name in trials[0].arguments}
        for label, trials in results.tuning.trials.items()
    }
    assert tried == {
        "TensorUCB (paper)": {"exploration": {0.1, 1.0}, "rank": {1, 2}},
        "LinUCB": {"exploration": {0.01, 0.1}, "prior_variance": {0.01, 0.1}},
    }


def test_the_papers_features_come_with_baselines_as_published_and_tuned():
    policies, grids = paper_policies()
    assert policies["IMFB"].base_rate == 0.25
    assert policies["IMFB, tuned"].base_rate != 0.25
    assert grids["IMFB"] == grids["COIN"] == grids["TensorUCB"] == grids["GammaCounts"] == {}
    assert set(grids["IMLinUCB"]) == {"exploration"}
    assert set(grids["TensorUCB (paper)"]) == {"exploration", "rank"}
    assert not {"COIN, tuned", "LinUCB", "HighDegree"} & set(grids)


def test_paper_policies_hold_every_variant_of_coin():
    found, _ = paper_policies("ours")
    assert [found[label].name for label in ("COIN", "COIN-HD", "COIN+")] == ["COIN", "COIN-HD", "COIN+"]


def test_grids_of_unknown_policies_are_refused(sandbox, tmp_path):
    work = Comparison(Environment.from_sandbox(sandbox, settings=WorldSettings(k=3)), {"Random": Random()}, tmp_path)
    with pytest.raises(InputError, match="no policy 'TensorUBC'"):
        work.tune({"TensorUBC": {"rank": [2]}})


def test_tables_written_are_named(results, tmp_path):
    assert network_statistics(results.graph)[0][:2] == ("users", 60)
    written = write_results(results, tmp_path, {})
    assert {path.name for path in written} == {path.name for path in tmp_path.iterdir()}
    tables = {"network", "degrees", "validation", "regret", "regret-timings", "rank", "runtime-timings", "bound"}
    assert {path.stem for path in written} == {*tables, "settings"}
    with (tmp_path / "degrees.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert sum(int(row["out_degree"]) * int(row["users"]) for row in rows) == results.graph.n_edges


def test_rank_figure_plays_one_product_and_all(results):
    experiment, varied = (results.rank[f"TensorUCB (paper){end}"] for end in ("", ", products vary"))
    assert varied.frame["product"].n_unique() > 1
    assert experiment.policies == varied.policies
    assert experiment.policies == ("R = 1", "R = 2", "R = 3")
    assert experiment.frame["product"].n_unique() == 1


def test_bound_is_far_above_what_is_measured_and_the_condition_far_from_met(results):
    found = results.bound
    measured = found["TensorUCB (paper)"]
    assert (found["bound_at_c_needed"] > found["bound_at_c_used"]).all()
    assert (found["bound_at_c_used"] > measured).all()
    assert found["c_used"][0] < found["c_needed"][-1]
    by_run = results.regret.by_run("TensorUCB (paper)", "regret")
    np.testing.assert_allclose(measured, np.cumsum(by_run, axis=1).mean(axis=0))


def test_runtime_is_measured_on_growing_networks(results):
    for label in ("TensorUCB (paper)", "LinUCB"):
        rows = [row for row in results.runtime if row["policy"] == label]
        assert [row["users"] for row in rows] == sorted(row["users"] for row in rows)
        assert min(row["milliseconds"] for row in rows) > 0
    assert len(results.runtime) == 2 * len(rows) == 8


def test_data_set_environment_holds_out_every_fifth_item(sandbox, tmp_path):
    from tensorucb.data import ActionLog, Dataset

    users, items, times = sandbox.action_log(rng=0, starters=20)
    log = ActionLog.from_arrays(users, items, times, np.arange(8))
    dataset = Dataset(sandbox.graph, log, "tiny", window="1s")
    said: list[str] = []

    def report(done, total, what):
        said.append(what)

    settings = WorldSettings(k=3)
    env = environment_from_dataset(dataset, settings=settings, dim=3, n_topics=2, cache=tmp_path, report=report)
    assert env.product_rows.tolist() == [1, 2, 3, 4, 6, 7]
    assert env.users is not None
    widths = {name: part.shape[1] for name, part in env.users.parts().items()}
    features = widths.pop("features")
    assert features >= 3  # degrees and past response, at least
    assert widths == {"taste": 2, "credit": 2, "exposure": 2, "coordinates": 3, "chances": 2}
    # Activity and influence come overall and by topic.
    assert env.users.shape == (60, 3 + features + 2 * (1 + 2))
    assert env.products.shape == (8, 2)
    first = "preparing, step 1 of 4: "
    assert said[0] == f"{first}product topics"
    assert said.count(f"{first}topics") == 30
    assert list(dict.fromkeys(said))[2:] == [
        "preparing, step 2 of 4: user coordinates",
        "preparing, step 3 of 4: user features",
        "preparing, step 4 of 4: truth",
    ]
    paper = environment_from_dataset(dataset, settings=settings, features="paper", dim=3, n_topics=2, cache=tmp_path)
    np.testing.assert_array_equal(paper.users, env.users.coordinates)
    np.testing.assert_allclose(np.linalg.norm(paper.users, axis=1), 1.0)
    np.testing.assert_array_equal(paper.probabilities(1), env.probabilities(1))
    again = environment_from_dataset(dataset, settings=settings, dim=3, n_topics=2, cache=tmp_path)
    assert again.describe() == env.describe()
    # Actions on the campaign's items leave what is known of users as it is (topics learned from all items apart).
    some = np.isin(log.items, [0, 5]) | (log.users % 2 == 0)
    fewer = ActionLog(log.users[some], log.items[some], log.times[some], log.item_ids)
    changed = Dataset(sandbox.graph, fewer, "tiny", window="1s")
    strict, other = (
        environment_from_dataset(data, settings=settings, dim=3, n_topics=2, topics_from="held_out")
        for data in (dataset, changed)
    )
    for name, part in strict.users.parts().items():
        np.testing.assert_array_equal(other.users.parts()[name], part)
    np.testing.assert_allclose(env.users.credit.sum(axis=1), strict.users.credit.sum(axis=1))
