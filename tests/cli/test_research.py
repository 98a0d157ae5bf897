"""The researcher's commands: own policies, several processes, flat tables, and going on after Ctrl-C."""

from __future__ import annotations

import csv
import json
import re

import pytest

from cli.commands import run, run_json, write_tiny_data
from cli.terminal import in_pipe, in_terminal, without_progress

MINE = '''
import numpy as np
from tensorucb.policies import Prediction, UCBPolicy
from helper import START


class SourceRate(UCBPolicy):
    name = "SourceRate"
    tunable = {"exploration": (0.01, 1.0)}

    def __init__(self, *, exploration=0.1):
        self.exploration = exploration

    def initial(self, dims):
        return {"won": np.zeros(self.graph.n_nodes), "tried": np.full(self.graph.n_nodes, START)}

    def learn(self, state, modes, edges, outcomes):
        np.add.at(state["tried"], self.graph.sources[edges], 1.0)
        np.add.at(state["won"], self.graph.sources[edges], outcomes)
        return state

    def predict(self, state, modes):
        rate, deviation = state["won"] / state["tried"], 1.0 / state["tried"]
        return Prediction(self.graph, rate[self.graph.sources], deviation[self.graph.sources])


class Bare(SourceRate):
    """Says nothing of tuning, and has no argument."""

    name, tunable = "LinUCB", UCBPolicy.tunable

    def __init__(self):
        super().__init__()

    exploration = property(lambda self: 0.1, lambda self, value: None)


class Lacking:
    name = "lacking"

    def bind(self, graph, users, rng):
        pass


class Demanding(SourceRate):
    def __init__(self, rank):
        self.rank = rank


class Short(SourceRate):
    def update(self, product, edges):
        pass


class Misspelt(SourceRate):
    tunable = {"explorations": (1, 2)}


class Nameless(SourceRate):
    name = ""


a_number = 3
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A directory with a data set and a module of policies that is known nowhere else."""
    write_tiny_data(tmp_path / "data", users=60, edges=400)
    (tmp_path / "helper.py").write_text("START = 1.0\n")
    (tmp_path / "own_policies.py").write_text(MINE)
    (tmp_path / "broken_policies.py").write_text("import nothing_of_this_name\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


COMPARE = ("compare", "--data", "data", "--policy", "own_policies:SourceRate", "--policy", "CUCB", "--k", "3")
SIZES = ("--rounds", "6", "--runs", "3", "--validation-rounds", "3")


def tables(directory):
    found = {p.name: p.read_bytes() for p in directory.glob("*.csv") if "timings" not in p.name}
    assert found
    return found


@pytest.mark.slow
def test_an_own_policy_on_two_processes_gives_the_bytes_of_one(folder):
    for jobs in ("1", "2"):
        ended = in_pipe(*COMPARE, *SIZES, "--jobs", jobs, "--out", f"out{jobs}", "--csv", f"{jobs}.csv", cwd=folder)
        assert ended.returncode == 0, ended.stderr
        assert b"SourceRate" in ended.stdout
    assert (folder / "1.csv").read_bytes() == (folder / "2.csv").read_bytes()
    assert tables(folder / "out1") == tables(folder / "out2")
    assert {p.name for p in (folder / "out1" / "runs").iterdir()} == {
        p.name for p in (folder / "out2" / "runs").iterdir()
    }
    with (folder / "1.csv").open() as file:
        rows = {row["policy"]: row for row in csv.DictReader(file)}
    assert set(rows) == {"TensorUCB", "HighDegree", "SourceRate", "CUCB", "product-blind oracle"}
    assert float(rows["TensorUCB"]["T=6_minus_ours"]) == 0.0


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on_and_the_end_is_the_same(folder):
    line = (*COMPARE, "--rounds", "40", "--runs", "4", "--validation-rounds", "3", "--jobs", "2")
    ended = in_terminal(*line, "--out", "stopped", keys=[("decisions: ", "\x03")], cwd=folder)
    assert ended.code == 130, ended.text
    assert "Traceback" not in ended.text
    (told,) = [line for line in ended.lines if line.startswith("tensorucb: stopped")]
    assert "Run the same command again: it goes on" in told
    assert not (folder / "stopped" / "decisions.csv").exists()
    done = in_terminal(*line, "--out", "stopped", cwd=folder)
    whole = in_pipe(*line[:-2], "--out", "whole", cwd=folder)
    assert (done.code, whole.returncode) == (0, 0), whole.stderr
    assert tables(folder / "stopped") == tables(folder / "whole")
    printed = [line for line in done.lines if re.match("(TensorUCB|SourceRate|CUCB) ", line)]
    assert len(printed) == 3
    assert max(map(len, done.lines)) <= 80


@pytest.mark.slow
def test_results_are_printed_and_progress_is_plain_lines_without_a_terminal(folder):
    options = ("--rounds", "3", "--runs", "2", "--k", "3", "--latex", "table.tex", "--out", "out")
    chosen = ("--policy", "LinUCB", "--policy", "Random", "--quick")
    done = in_pipe("reproduce", "fig-regret", "--data", "data", *chosen, *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    printed = done.stdout.decode()
    assert re.search(r"^LinUCB +\d", printed, flags=re.MULTILINE)
    assert "out/report.html" in printed
    assert without_progress(done.stderr.decode()) == ""
    assert all(line.isprintable() for line in done.stderr.decode().splitlines())
    lines = (folder / "table.tex").read_text().splitlines()
    assert lines[1] == r"\begin{tabular}{lrr}"
    assert {line.split(" & ")[0] for line in lines[5:-2]} == {"LinUCB", "Random"}
    assert json.loads((folder / "out" / "manifest.json").read_text())["environment"]["k"] == 3


@pytest.mark.slow
def test_tune_takes_an_own_policy_and_keeps_what_it_tried(folder):
    options = ("--policy", "own_policies:SourceRate", "--rounds", "3", "-k", "3", "--csv", "tried.csv")
    done = in_pipe("tune", "--data", "data", *options, "--jobs", "2", "--out", "mine.toml", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert (folder / "mine.toml").read_text().startswith('["SourceRate"]\nexploration = ')
    first = (folder / "tried.csv").read_bytes()
    kept = {path: path.stat().st_mtime_ns for path in (folder / "mine-runs").glob("sourcerate-*.npz")}
    # Two values of an argument, and one beyond the better of them.
    assert len(kept) == len(first.splitlines()) - 1 == 3
    again = in_pipe("tune", "--data", "data", *options, "--out", "mine.toml", cwd=folder)
    assert again.returncode == 0, again.stderr
    assert (folder / "tried.csv").read_bytes() == first
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_such_file:Mine", "there is no module 'no_such_file' in this directory"),
        ("broken_policies:Mine", "broken_policies cannot be imported (ModuleNotFoundError: No module named 'nothing"),
        ("own_policies:Mine", "own_policies has no 'Mine'. Its classes: SourceRate, Bare, Lacking"),
        ("own_policies:a_number", "must name a class; it names int 'a_number'"),
        ("own_policies:Lacking", "it lacks prediction, score, choose, update, state, restore."),
        ("own_policies:Demanding", "Demanding() failed (TypeError"),
        ("own_policies:Short", "update() must take (product, edges, outcomes)"),
        ("own_policies:Misspelt", "no argument 'explorations'"),
        ("own_policies:Nameless", "needs an attribute name"),
        ("own policies:Mine", "must be MODULE:CLASS"),
        ("own_policies:", "must be MODULE:CLASS"),
        ("Linucb", "there is no policy 'Linucb'. Known: TensorUCB;"),
    ],
)
def test_a_policy_that_cannot_play_is_named_before_anything_runs(name, said, folder):
    for command in ("compare", "tune"):
        result = run(command, "--data", "nowhere", "--policy", name, "--out", "out", code=1)
        assert said in " ".join(result.stderr.split())
    assert not (folder / "out").exists()


@pytest.mark.slow
def test_an_own_policy_without_a_word_on_tuning_plays_as_it_is(folder):
    options = ("--policy", "own_policies:Bare", "--policy", "LinUCB", "--k", "3", *SIZES, "--out", "out")
    rows = run_json("compare", "--data", "data", *options)["rows"]
    # Its name is another's, so it goes by what was typed.
    own = {"LinUCB", "own_policies:Bare"}
    assert {row["policy"] for row in rows} == {"TensorUCB", "HighDegree", "product-blind oracle", *own}


@pytest.mark.parametrize("option", ["--csv", "--latex"])
def test_files_that_cannot_be_written_are_refused_first(option, folder):
    said = run("compare", "--data", "data", option, "data", code=1).stderr
    assert f"{option} 'data' is a directory; name a file." in said
    said = run("reproduce", "fig-degrees", "--data", "data", option, "table", code=2).stderr
    assert "write the table of regret" in " ".join(said.split())


@pytest.mark.parametrize(
    ("target", "policy", "said"),
    [
        ("bound", "LinUCB", "the paper's own policy. Add --policy 'TensorUCB (paper)'"),
        ("fig-rank", "LinUCB", "policies with a rank. Add --policy TensorUCB"),
        ("fig-runtime", "Random", "policies that learn. Add --policy TensorUCB"),
    ],
)
def test_a_figure_about_other_policies_is_refused(target, policy, said, folder):
    told = run("reproduce", target, "--data", "data", "--policy", policy, code=2).stderr
    assert f"{target} is about {said}" in " ".join(told.split())


def test_all_leaves_out_figures_about_other_policies(folder):
    sizes = ("--rounds", "2", "--runs", "1", "-k", "2", "--quick", "--out", "out")
    targets = run_json("reproduce", "all", "--data", "data", "--policy", "Random", *sizes)["targets"]
    assert targets == ["table-network", "fig-degrees", "fig-regret"]


@pytest.mark.parametrize(
    ("command", "options", "named"),
    [
        (("tune", "--data", "data"), ("--out", "a", "--csv", "a"), "--csv and --out"),
        (("tune", "--data", "data"), ("--csv", "tensorucb-settings.toml"), "--csv and --out"),
        (("compare", "--data", "data"), ("--latex", "a", "--csv", "a"), "--csv and --latex"),
    ],
)
def test_two_files_of_one_name_are_refused_first(command, options, named, folder):
    assert f"{named} both name '{options[-1]}'" in run(*command, *options, code=1).stderr
    assert not (folder / options[-1]).exists()
