from __future__ import annotations

import csv
import itertools
from typing import ClassVar

import numpy as np
import pytest

from experiments.parts import read_settings, search
from tensorucb.data import make_sandbox
from tensorucb.errors import FileFormatError, InputError
from tensorucb.experiments import (
    Environment,
    WorldSettings,
    run_experiment,
    run_policy,
    split_products,
    tune,
    write_csv,
)
from tensorucb.policies import Grid, HighDegree, LinUCB, Prediction, Random, UCBPolicy

REGRET_COLUMNS = ["policy", "run", "round", "product", "spread", "regret", "average_regret"]


class Spy(UCBPolicy):
    """Always the same seeds; remembers what it is told."""

    name = "Spy"

    def __init__(self, shift: int = 0) -> None:
        self.shift = shift
        self.told: list[tuple[bytes, bytes, bytes]] = []

    def predict(self, state, modes):
        return Prediction(self.graph, np.full(self.graph.n_edges, 0.1))

    def pick(self, prediction, modes, k, oracle):
        return np.arange(k, dtype=np.int64) + self.shift

    def learn(self, state, modes, edges, outcomes):
        self.told.append((modes[0].tobytes(), edges.tobytes(), outcomes.tobytes()))
        return state


def test_same_products_and_coins_for_every_policy(world):
    first, second = Spy(), Spy()
    run_experiment(world, {"a": first, "b": second, "c": Random()}, rounds=5, runs=2, seed=3)
    assert first.told == second.told
    assert len(first.told) == 10
    assert len(set(first.told)) > 5


def test_regret_is_the_gap_to_the_optimum(world):
    result = run_policy(world, HighDegree(), rounds=6, seed=1)
    best = [world.optimum(int(p)).spread for p in result["product"]]
    np.testing.assert_allclose(result["regret"], np.array(best) - result["spread"])
    np.testing.assert_allclose(result["average_regret"][-1], result["regret"].mean())
    assert result.height == 6
    assert all((result[name] >= 0.0).all() for name in ("score", "select", "update"))


def test_knowing_the_truth_costs_nothing(world):
    class Oracle(Spy):
        def pick(self, prediction, modes, k, oracle):
            product = int(np.flatnonzero((world.products == modes[0]).all(axis=1))[0])
            return oracle(world.probabilities(product), k)

    result = run_policy(world, Oracle(), rounds=8)
    np.testing.assert_allclose(result["regret"], 0.0, atol=1e-12)


def test_longer_runs_begin_with_the_shorter_ones_products(world):
    short, long = (world.draw_products(n, run=1, seed=0) for n in (4, 9))
    assert long[:4].tolist() == short.tolist()
    assert world.draw_products(9, run=2, seed=0).tolist() != long.tolist()


def test_rounds_draw_from_the_campaign_products_alone(sandbox):
    env = Environment.from_sandbox(sandbox, settings=WorldSettings(k=3), product_rows=[1, 4])
    assert set(env.draw_products(40, run=0, seed=0).tolist()) == {1, 4}


@pytest.mark.parametrize("which", ["world", "cascade_world"])
def test_repetition_gives_the_same_bytes(which, request, tmp_path):
    env = request.getfixturevalue(which)
    for name in ("a", "b"):
        experiment = run_experiment(env, {"Random": Random(), "LinUCB": LinUCB()}, rounds=4, runs=2)
        write_csv(tmp_path / f"{name}.csv", experiment.frame.select(REGRET_COLUMNS))
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_a_second_call_reads_what_the_first_has_done(world, tmp_path):
    policies = {"Random": Random(), "Spy": Spy()}
    first = run_experiment(world, policies, rounds=4, runs=2, directory=tmp_path)
    steps: list[int] = []
    again = run_experiment(
        world, policies, rounds=4, runs=2, directory=tmp_path, report=lambda done, total, what: steps.append(done)
    )
    assert steps == []
    write_csv(tmp_path / "a.csv", first.frame.select(REGRET_COLUMNS))
    write_csv(tmp_path / "b.csv", again.frame.select(REGRET_COLUMNS))
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_a_damaged_or_missing_run_is_repeated(world, tmp_path):
    policies = {"Random": Random(), "LinUCB": LinUCB()}
    first = run_experiment(world, policies, rounds=4, runs=2, directory=tmp_path)
    files = sorted(tmp_path.iterdir())
    files[0].write_bytes(files[0].read_bytes()[:100])
    files[1].unlink()
    again = run_experiment(world, policies, rounds=4, runs=2, directory=tmp_path)
    same = ("policy", "run", "spread")
    assert again.frame.select(same).equals(first.frame.select(same))


def test_other_settings_never_share_a_file(world, cascade_world, tmp_path):
    for env, rounds, seed, c in itertools.product((world, cascade_world), (1, 2), (0, 1), (0.1, 1.0)):
        policies = {"LinUCB": LinUCB(exploration=c)}
        run_experiment(env, policies, rounds=rounds, runs=2, seed=seed, directory=tmp_path)
    assert len(list(tmp_path.iterdir())) == 32


def test_a_text_that_looks_like_a_formula_is_guarded_and_numbers_are_not(tmp_path):
    path = write_csv(
        tmp_path / "t.csv", [{"policy": a, "x": b} for a, b in (("=cmd()", -1.5), ("-2.5", -3), ("@x", "+4e-05"))]
    )
    assert path.read_text() == "policy,x\n'=cmd(),-1.5\n-2.5,-3\n'@x,+4e-05\n"


def test_regret_csv_has_the_promised_columns(world, tmp_path):
    experiment = run_experiment(world, {"Random": Random()}, rounds=3, runs=2)
    with write_csv(tmp_path / "regret.csv", experiment.frame.select(REGRET_COLUMNS)).open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == REGRET_COLUMNS
    assert [(row["run"], row["round"]) for row in rows] == [(str(r), str(t)) for r in (0, 1) for t in (1, 2, 3)]
    assert float(rows[4]["regret"]) == experiment.by_run("Random")[1, 1]


def test_progress_counts_every_round(world):
    seen = []
    run_experiment(world, {"a": Random(), "b": Random()}, rounds=3, runs=2, report=lambda *step: seen.append(step))
    assert [done for done, _, _ in seen] == list(range(1, 13))
    assert {total for _, total, _ in seen} == {12}


def test_tuning_keeps_the_best_on_common_rounds(world, tmp_path):
    class Tunable(Spy):
        tunable: ClassVar[Grid] = {"shift": [0, 10, 20]}

    policies = {"Tunable": Tunable(), "Random": Random()}
    found = tune(world, policies, rounds=5, directory=tmp_path)
    regrets = {trial.arguments["shift"]: trial.regret for trial in found.trials["Tunable"]}
    assert set(regrets) == {0, 10, 20}
    assert found.policies["Tunable"].shift == min(regrets, key=regrets.get)  # type: ignore[attr-defined, arg-type]
    assert isinstance(found.policies["Random"], Random)
    assert sum(chosen for *_, chosen in found.rows()) == 1
    again = tune(world, policies, rounds=5, directory=tmp_path)
    assert again.rows() == found.rows()


GRID = {"x": (0.1, 0.3, 1.0), "n": (1, 2, 4), "kind": ("left", "right")}


def valley(best):
    """Regret that grows with the distance from the best arguments, in factors."""

    def regret(arguments):
        apart = abs(np.log(arguments["x"] / best["x"])) + abs(np.log(arguments["n"] / best["n"]))
        return apart + 0.5 * (arguments["kind"] != best["kind"])

    return regret


def searched(regret, grid, start):
    """Everything tried by a search whose policy takes x up to 50."""
    trials = search(grid, start, lambda arguments: arguments["x"] <= 50.0)
    settings = next(trials)
    while True:
        try:
            settings = trials.send([regret(arguments) for arguments in settings])
        except StopIteration as end:
            return end.value


@pytest.mark.parametrize(
    ("best", "extended"),
    [
        ({"x": 0.3, "n": 2, "kind": "right"}, set()),
        ({"x": 9.0, "n": 2, "kind": "left"}, {3.33, 11.1, 37.0}),
        ({"x": 1e4, "n": 1, "kind": "left"}, {3.33, 11.1, 37.0}),
        ({"x": 0.01, "n": 9, "kind": "right"}, {0.0333, 0.0111, 0.0037, 8}),
    ],
)
def test_every_argument_is_searched_and_grids_are_extended_at_their_edges(best, extended):
    """The best values are found up to the steps of the grid, where its extensions reach that far."""
    trials = searched(valley(best), GRID, {"x": 1.0, "n": 1, "kind": "left"})
    chosen = min(trials, key=lambda trial: trial.regret).arguments
    values = {value for trial in trials for value in trial.arguments.values()}
    assert values - {v for grid in GRID.values() for v in grid} == extended
    assert chosen["x"] == min((v for v in values if isinstance(v, float)), key=lambda x: abs(np.log(x / best["x"])))
    assert abs(np.log(chosen["n"] / best["n"])) < 0.4
    assert chosen["kind"] == best["kind"]
    settings = [repr(trial.arguments) for trial in trials]
    assert len(set(settings)) == len(settings)


def test_an_extension_stops_where_the_policy_says_no():
    best = {"x": 1e3, "n": 1, "kind": "left"}
    trials = searched(valley(best), {**GRID, "x": (2, 20), "n": (1,)}, {**best, "x": 2})
    assert {trial.arguments["x"] for trial in trials} == {2, 20}


def test_equals_at_the_edge_are_not_followed():
    """COIN's smaller candidates may play the same rounds: nothing is to be gained beyond them."""
    trials = searched(lambda arguments: max(arguments["x"], 1.0), {"x": (0.1, 0.5, 2.0)}, {"x": 0.5})
    assert [trial.arguments["x"] for trial in trials] == [0.1, 0.5, 2.0]


def test_grids_of_the_caller_are_taken_as_they_are(world):
    grid = {"exploration": [1.0, 3.0], "prior_variance": [0.5]}
    found = tune(world, {"LinUCB": LinUCB()}, rounds=2, grids={"LinUCB": grid})
    assert {trial.arguments["exploration"] for trial in found.trials["LinUCB"]} == {1.0, 3.0}
    assert found.policies["LinUCB"].prior_variance == 0.5  # type: ignore[attr-defined]


def test_products_for_tuning_are_never_played_later(sandbox):
    env = Environment.from_sandbox(sandbox, settings=WorldSettings(k=3))
    assert [part.product_rows.size for part in split_products(env)] == [8, 8]
    many = make_sandbox(60, 400, 23, n_topics=4, rng=0)
    tuned, compared = split_products(Environment.from_sandbox(many, product_rows=np.arange(1, 23)))
    assert tuned.product_rows.tolist() == [1, 6, 11, 16, 21]
    assert sorted([*tuned.product_rows, *compared.product_rows]) == list(range(1, 23))
    seen: list[bytes] = []

    class Listing(Spy):
        def learn(self, state, modes, edges, outcomes):
            seen.append(modes[0].tobytes())
            return state

    tune(env, {"Listing": Listing()}, rounds=20, grids={"Listing": {"shift": [0, 1]}})
    run_policy(env, Listing(), rounds=20)
    assert seen[:20] == seen[20:40] != seen[40:]
    assert len(seen) == 60


def test_runs_by_number_are_those_of_the_whole_experiment(world):
    whole = run_experiment(world, {"Random": Random()}, rounds=3, runs=4)
    part = run_experiment(world, {"Random": Random()}, rounds=3, runs=range(1, 4, 2))
    assert part.frame["run"].unique().to_list() == [1, 3]
    np.testing.assert_array_equal(part.by_run("Random", "spread"), whole.by_run("Random", "spread")[[1, 3]])


def test_grids_from_toml(tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text("[TensorUCB]\nexploration = [0.1, 1.0]\nrank = 5\n")
    assert read_settings(path) == {"TensorUCB": {"exploration": [0.1, 1.0], "rank": [5]}}
    for wrong in ("rank = 5", "[TensorUCB", "[TensorUCB]\nrank = []", "[TensorUCB]\nrank = [[1], 2]"):
        path.write_text(wrong)
        with pytest.raises(FileFormatError, match=r"grid\.toml"):
            read_settings(path)
    with pytest.raises(FileFormatError, match="cannot read"):
        read_settings(tmp_path / "none.toml")


def test_wrong_arguments_are_named(world):
    with pytest.raises(InputError, match="no policy 'LinUBC' to set"):
        tune(world, {"LinUCB": LinUCB()}, rounds=1, grids={"LinUBC": {"exploration": [1, 2]}})
    with pytest.raises(InputError, match="no argument 'colour'"):
        tune(world, {"LinUCB": LinUCB()}, rounds=1, grids={"LinUCB": {"colour": [1, 2]}})
    with pytest.raises(InputError, match="rounds"):
        run_policy(world, Random(), rounds=0)
    with pytest.raises(InputError, match="at least one policy"):
        run_experiment(world, {}, rounds=1)


def test_runs_of_other_code_are_not_reused(world, monkeypatch, tmp_path):
    def kept():
        run_experiment(world, {"LinUCB": LinUCB()}, rounds=1, runs=1, directory=tmp_path)
        return len(list(tmp_path.iterdir()))

    assert [kept(), kept()] == [1, 1]
    monkeypatch.setattr("tensorucb.experiments._runs.code_digest", lambda: "changed")
    assert kept() == 2
