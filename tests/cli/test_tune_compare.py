from __future__ import annotations

import json
import tomllib

import pytest

from cli.commands import run, run_json, write_tiny_data


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    directory = tmp_path_factory.mktemp("data")
    write_tiny_data(directory)
    return directory


def test_tune_prints_and_keeps_its_choice(data, tmp_path):
    out = tmp_path / "settings.toml"
    sizes = ("--rounds", "3", "--k", "3", "--out", out)
    printed = run("tune", "--data", data, "--policy", "LinUCB", *sizes).stdout
    assert "chosen" in printed
    assert "LinUCB" in printed
    assert set(tomllib.loads(out.read_text())) == {"LinUCB"}
    trials = run_json("tune", "--data", data, "--policy", "LinUCB", *sizes)["trials"]
    best = min(trials, key=lambda row: row["average_regret"])
    assert [row["setting"] for row in trials if row["chosen"]] == [best["setting"]]


def test_tune_names_an_unknown_policy(data):
    assert "no policy 'Linucb'" in run("tune", "--data", data, "--policy", "Linucb", code=1).stderr


def test_compare_with_some_policies_only(data, tmp_path):
    sizes = ("--rounds", "3", "--runs", "1", "--validation-rounds", "1", "--out", tmp_path)
    rows = run_json("compare", "--data", data, "--policy", "CUCB", *sizes)["rows"]
    assert all(0.0 < row["of_best"] <= 1.0 for row in rows)
    assert {row["policy"] for row in rows} == {"TensorUCB", "HighDegree", "CUCB", "product-blind oracle"}
    wrong = run("compare", "--data", data, "--policy", "Cucb", "--out", tmp_path, code=1).stderr
    assert "no policy 'Cucb'" in wrong
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "Regret is how many more users the best possible choice" in page
    assert all(f'<th scope="row">{row["policy"]}</th>' in page for row in rows)
    assert "product-blind oracle is no policy" in page
    assert "Why TensorUCB in the paper" not in page  # it did not take part
    assert (tmp_path / "decisions-final.svg").exists()


def test_compare_lets_the_log_answer_and_goes_on_where_it_was(data, tmp_path):
    sizes = ("--rounds", "3", "--runs", "2", "--validation-rounds", "0", "--k", "2", "--out", tmp_path)
    command = ("compare", "--data", data, "--replay", "--policy", "DegreeCover", *sizes)
    found = run_json(*command)
    rows = {row["policy"]: row for row in found["rows"]}
    assert set(rows) == {"TensorUCB", "HighDegree", "DegreeCover", "product-blind oracle"}
    assert found["environment"]["name"] == "tiny, replayed"
    reached = [row["T=3"] for row in found["rows"]]
    assert reached == sorted(reached, reverse=True)  # the most responders first
    apart = rows["HighDegree"]["T=3"] - rows["TensorUCB"]["T=3"]
    assert rows["HighDegree"]["T=3_minus_ours"] == pytest.approx(apart)
    runs = sorted((tmp_path / "runs").iterdir())
    times = [path.stat().st_mtime_ns for path in runs]
    printed = " ".join(run(*command).stdout.split())
    assert "distinct responders per round" in printed
    assert "% of best" in printed
    assert [path.stat().st_mtime_ns for path in runs] == times  # nothing was played again
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "The log itself answers" in page
    assert "Regret is how many more users" not in page
    assert not list((tmp_path / "cache").glob("truth-*"))  # no truth was fitted


@pytest.mark.slow
def test_compare_prints_a_row_for_everybody(data, tmp_path):
    sizes = ("--rounds", "12", "--runs", "2", "--validation-rounds", "2", "--out", tmp_path)
    rows = run_json("compare", "--data", data, *sizes)["rows"]
    assert {"TensorUCB", "TensorUCB (paper)", "DILinUCB", "product-blind oracle"} <= {row["policy"] for row in rows}
    assert (tmp_path / "decisions.png").stat().st_size > 1000


@pytest.mark.slow
def test_compare_cold_start_shows_who_reaches_newcomers(data, tmp_path):
    sizes = ("--rounds", "8", "--runs", "2", "--validation-rounds", "2", "--out", tmp_path)
    assert "newcomers" in run("compare", "--data", data, "--cold-start", *sizes).stdout
    rows = (tmp_path / "decisions.csv").read_text().splitlines()
    assert "last20" in rows[0]
    assert len((tmp_path / "decisions-regret.csv").read_text().splitlines()) == 1 + (len(rows) - 1) * 2 * 22


@pytest.mark.slow
def test_compare_on_several_networks(tmp_path):
    sizes = ("--rounds", "3", "--runs", "2", "--validation-rounds", "1", "--out", tmp_path)
    rows = run_json("compare", "--synthetic", "digg", "--scale", "0.02", "--networks", "2", *sizes)["rows"]
    assert all("T=3_minus_ours_low" in row for row in rows)
    assert json.loads((tmp_path / "manifest.json").read_text())["settings"]["networks"] == 2


@pytest.mark.slow
def test_compare_with_strategies_shows_who_chooses_how(tmp_path):
    sizes = ("--rounds", "10", "--runs", "1", "--validation-rounds", "1", "--out", tmp_path)
    found = run_json("compare", "--synthetic", "digg", "--scale", "0.03", "--strategies", "3", *sizes)
    assert found["environment"]["strategies"] == 3
    regret = {row["policy"]: row["T=10"] for row in found["rows"]}
    assert {"TensorUCB", "TensorUCB, one strategy per round", "GammaCounts per strategy"} <= set(regret)
    assert regret["truth, one strategy per round"] < regret["TensorUCB, strategies in turn"]
    assert (tmp_path / "decisions.png").stat().st_size > 1000


@pytest.mark.slow
def test_the_truths_prior_changes_the_truth_and_is_in_the_manifest(data, tmp_path):
    """Two priors in one output directory: each has its own kept truth, and its own world."""
    sizes = ("--rounds", "1", "--runs", "1", "--validation-rounds", "1", "--out", tmp_path)
    checksums = []
    for option in ((), ("--truth-prior", "1,1"), ("--truth-prior", "1.1,3")):
        checksums.append(run_json("compare", "--data", data, *option, *sizes)["environment"]["sha256"])
    assert checksums[0] == checksums[2] != checksums[1]
    assert json.loads((tmp_path / "manifest.json").read_text())["settings"]["truth_prior"] == [1.1, 3.0]
    assert len(list((tmp_path / "cache").glob("truth-*"))) == 2


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--data", "x", "--truth-prior", "0.5,3"), "--truth-prior must be two numbers"),
        (("--data", "x", "--truth-prior", "2"), "--truth-prior must be two numbers"),
        (("--synthetic", "digg", "--truth-prior", "1,1"), "--truth-prior is for --data"),
        (("--data", "x", "--networks", "2"), "--networks is for --synthetic"),
        (("--synthetic", "digg", "--networks", "20"), "--networks 20 needs as many --runs"),
        (("--data", "x", "--strategies", "2"), "--strategies is for --synthetic"),
        (("--synthetic", "digg", "--strategies", "2", "--cold-start"), "--strategies is for --objective direct"),
        (
            ("--synthetic", "digg", "--strategies", "2", "--objective", "cascade"),
            "--strategies is for --objective direct",
        ),
        (("--synthetic", "digg", "--replay"), "--replay is for --data"),
        (("--data", "x", "--replay", "--objective", "cascade"), "--replay is for --data"),
        (("--data", "x", "--replay", "--truth-prior", "1,1"), "--replay is for --data"),
        (("--data", "x", "--replay", "--cold-start"), "--replay is for --data"),
        (("--synthetic", "digg", "--strategy-effect", "2"), "--strategy-effect needs --strategies"),
    ],
)
def test_compare_names_the_option_that_cannot_be(options, named):
    assert named in run("compare", *options, code=2).stderr


def test_compare_demands_one_source_of_data():
    assert "--data" in run("compare", code=2).stderr
