from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from cli.commands import run, run_json, write_tiny_data

# private: no table shows which edges a generated network has
from tensorucb.cli._research import generated
from tensorucb.data import checksum, digg_like, prepare, read_dataset

ARGS = ("--synthetic", "digg", "--scale", "0.03", "--quick", "--rounds", "6", "--runs", "2")
SHORT = (*ARGS[:-3], "2", "--runs", "2")  # for what does not depend on how long is played
LAUNCH = [sys.executable, "-c", "from tensorucb.cli import main; main()"]


def tables(directory):
    return {path.name: path.read_bytes() for path in directory.glob("*.csv") if "timings" not in path.name}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("finished")
    run("reproduce", "all", *ARGS, "--out", out)
    return out


@pytest.mark.slow
def test_all_writes_every_table_and_figure(finished):
    names = {path.name for path in finished.iterdir()}
    stems = ["network", "degrees", "regret", "regret-final", "rank-paper", "rank-logistic-varied", "runtime", "bound"]
    assert {f"{stem}.{suffix}" for stem in stems for suffix in ("png", "svg")} <= names
    assert set(tables(finished)) == {
        f"{name}.csv" for name in ("network", "degrees", "validation", "regret", "rank", "bound")
    }
    assert {"report.html", "manifest.json", "regret-timings.csv", "runtime-timings.csv"} <= names


@pytest.mark.slow
def test_regret_table_has_the_promised_columns_and_rows(finished):
    with (finished / "regret.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["policy", "run", "round", "product", "spread", "regret", "average_regret"]
    policies = {row["policy"] for row in rows}
    assert {"TensorUCB", "TensorUCB (paper)", "COIN", "COIN-HD", "COIN+", "IMFB"} <= policies
    assert {"IMLinUCB", "DILinUCB", "Random"} <= policies
    assert len(rows) == len(policies) * 2 * 6
    products = {(row["run"], row["round"]): row["product"] for row in rows}
    assert all(products[row["run"], row["round"]] == row["product"] for row in rows)


@pytest.mark.slow
def test_killed_and_started_again_ends_with_the_same_bytes(finished, tmp_path):
    line = [*LAUNCH, "reproduce", "all", *ARGS, "--out", tmp_path]
    kills = 0
    for wanted in (3, 20, 40):
        with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            deadline = time.monotonic() + 90
            while process.poll() is None and time.monotonic() < deadline:
                if len(list((tmp_path / "runs").glob("*.npz"))) >= wanted:
                    os.kill(process.pid, signal.SIGKILL)
                    kills += 1
                    break
                time.sleep(0.01)
    assert kills >= 2
    assert not (tmp_path / "report.html").exists()
    done = subprocess.run(line, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert tables(tmp_path) == tables(finished)


@pytest.mark.slow
def test_a_data_set_with_a_log(tmp_path):
    write_tiny_data(tmp_path / "data")
    options = ("--quick", "--rounds", "3", "--runs", "1", "--out", tmp_path / "out")
    run("reproduce", "fig-regret", "--data", tmp_path / "data", "--objective", "cascade", *options)
    with (tmp_path / "out" / "regret.csv").open() as file:
        products = {int(row["product"]) for row in csv.DictReader(file)}
    # every fifth item is held out for features
    assert products
    assert not products & {0, 5, 10}


@pytest.mark.slow
def test_settings_from_a_file(tmp_path):
    (tmp_path / "grid.toml").write_text("[TensorUCB]\nexploration = 0.3\nrank = 3\n")
    run("reproduce", "fig-regret", *ARGS, "--settings", tmp_path / "grid.toml", "--out", tmp_path / "out")
    with (tmp_path / "out" / "validation.csv").open() as file:
        assert all(row["policy"] != "TensorUCB" for row in csv.DictReader(file))


def written(*args) -> set[str]:
    return {Path(name).name for name in run_json("reproduce", *args)["files"]}


def test_network_targets_need_no_log_and_list_their_own_files(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n1,3\n2,3\n")
    where = ("--data", tmp_path, "--out", tmp_path / "out")
    always = {"report.html", "manifest.json"}
    assert written("table-network", *where) == always | {"network.csv", "network.png", "network.svg"}
    assert written("fig-degrees", *where) == always | {"degrees.csv", "degrees.png", "degrees.svg"}
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["data"]["checksum"] == checksum(read_dataset(tmp_path))
    assert len(manifest["code_sha256"]) == 64
    assert "numpy" in manifest["versions"]


def test_data_are_prepared_as_asked(tmp_path):
    write_tiny_data(tmp_path / "data")
    dataset = read_dataset(tmp_path / "data")
    options = ("--min-actions", "3", "--products", "8", "--window", "2d")
    written("table-network", "--data", tmp_path / "data", "--out", tmp_path / "out", *options)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    expected = prepare(dataset, min_interactions=3, n_products=8, window="2d", rng=0)
    assert manifest["data"]["checksum"] == checksum(expected)
    assert expected.graph.n_nodes == manifest["environment"]["n_nodes"] < 80
    for more, expected in (
        ((), dataset),
        (("--window", "none"), prepare(dataset, min_interactions=0, drop_isolated=False, window=None)),
    ):
        written("table-network", "--data", tmp_path / "data", "--out", tmp_path / "out", *more)
        manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
        assert manifest["data"]["checksum"] == checksum(expected)


def test_seed_sets_the_generated_network(tmp_path):
    today = digg_like(0.03).graph
    for seed, same in ((0, True), (1, False)):
        world = generated("digg", scale=0.03, seed=seed)
        assert (world.content.graph.targets.tolist() == today.targets.tolist()) is same
    args = ("--synthetic", "digg", "--scale", "0.03", "--seed", "1", "--out", tmp_path)
    run("reproduce", "table-network", *args)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["data"] == {"generator": "digg_like", "scale": 0.03, "seed": 1, "product_effect": 1.5}


def test_the_papers_features_are_the_eigenmap_alone_and_its_oracle_is_tim(tmp_path):
    args = ("fig-regret", *SHORT, "--policy", "IMLinUCB", "--policy", "IMLinUCB, tuned", "--policy", "COIN")
    environments = {}
    for features in ("paper", "ours"):
        names = args if features == "paper" else args[:-4]
        files = written(*names, "--features", features, "--out", tmp_path / features)
        assert {"settings.toml", "validation.csv"} <= files
        environments[features] = json.loads((tmp_path / features / "manifest.json").read_text())["environment"]
    assert [environments[name]["user_features"] for name in ("paper", "ours")] == [10, 14]
    assert [environments[name]["algorithm"] for name in ("paper", "ours")] == ["tim", "opim"]
    cascades = ("--objective", "cascade", "--oracle", "opim", "--policy", "COIN")
    written(*args[:-6], *cascades, "--out", tmp_path / "other")
    assert json.loads((tmp_path / "other" / "manifest.json").read_text())["environment"]["algorithm"] == "opim"
    with (tmp_path / "paper" / "validation.csv").open() as file:
        tried = {row["policy"]: row["setting"] for row in csv.DictReader(file)}
    assert set(tried) == {"IMLinUCB", "IMLinUCB, tuned"}  # COIN plays as published
    assert "prior_variance" not in tried["IMLinUCB"]
    assert "prior_variance" in tried["IMLinUCB, tuned"]


def test_columns_are_explained_if_they_are_there(tmp_path):
    line = ("reproduce", "fig-regret", *SHORT, "--policy", "COIN")
    for more, explained in (((), False), (("--policy", "TensorUCB"), True)):
        printed = run(*line, *more, "--out", tmp_path).stdout
        assert ("minus ours" in printed) is explained
        for text in (printed, (tmp_path / "report.html").read_text("utf-8")):
            assert ("Minus ours" in text) is explained


def test_settings_that_were_given_stay_in_the_file(tmp_path):
    file = tmp_path / "settings.toml"
    given = '["IMLinUCB"]\nexploration = 0.25\n\n["DILinUCB"]\nexploration = [0.01, 0.1]\n'
    file.write_text(given)
    same = ("--settings", file, "--out", tmp_path)
    written("fig-regret", *SHORT, "--policy", "IMLinUCB", *same)  # nothing is chosen
    assert tomllib.loads(file.read_text()) == tomllib.loads(given)
    # Another place for the results: what was given is there, and what was chosen joins it.
    written("fig-regret", *SHORT, "--policy", "DILinUCB", "--settings", file, "--out", tmp_path / "b")
    tables = tomllib.loads((tmp_path / "b" / "settings.toml").read_text())
    assert tables["IMLinUCB"] == {"exploration": 0.25}
    assert tables["DILinUCB"]["exploration"] in (0.01, 0.1)
    # Without --settings, what an earlier command chose stays.
    written("fig-regret", *SHORT, "--policy", "COIN", "--out", tmp_path / "b")
    assert tomllib.loads((tmp_path / "b" / "settings.toml").read_text()) == tables


def test_unknown_policies_in_settings_are_named(tmp_path):
    (tmp_path / "grid.toml").write_text("[TensorUBC]\nrank = 3\n")
    options = ("--settings", tmp_path / "grid.toml", "--out", tmp_path / "out")
    told = run("reproduce", "all", *ARGS, *options, code=1).stderr
    assert "'TensorUBC'" in told
    assert "TensorUCB (paper)" in told


def test_preparation_is_for_data():
    assert "--data" in run("reproduce", "all", *ARGS, "--min-actions", "5", code=2).stderr


@pytest.mark.parametrize("args", [[], ["--data", "x", "--synthetic", "digg"]])
def test_one_source_of_data_is_demanded(args):
    assert "--data" in run("reproduce", "all", *args, code=2).stderr


def test_an_oracle_of_cascades_is_refused_for_direct_responses(tmp_path):
    told = run("reproduce", "fig-regret", *ARGS, "--oracle", "tim", "--out", tmp_path / "out", code=2).stderr
    assert "--oracle tim is for --objective cascade" in told
    assert not (tmp_path / "out").exists()
