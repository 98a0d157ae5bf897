from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from cli.commands import run, run_json
from tensorucb.cli.demo import demo_environment, demo_policies
from tensorucb.experiments import run_experiment

ROOT = Path(__file__).resolve().parents[2]


def test_quick_demo_prints_tables_and_writes_the_report(tmp_path):
    text = run("demo", "--quick", "--rounds", "3", "--runs", "2", "--out", tmp_path).stdout
    for name in ("TensorUCB", "HighDegree", "Random", "report.html"):
        assert name in text
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "tensorucb demo --seed 0 --rounds 3 --runs 2 --quick" in page
    assert 'src="' not in page.split("<script")[0]
    for name in ("regret", "final", "seeds"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_the_demo_leaves_nothing_that_git_would_add(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "--quiet"], check=True)
    Path(".git", "info", "exclude").write_bytes((ROOT / ".gitignore").read_bytes())
    run("demo", "--quick", "--rounds", "2", "--runs", "1")
    assert Path("out", "demo", "report.html").exists()
    run("datasets", "make", "shop", "--scale", "0.1", "--out", "out/shop")
    run("create", "spring", "--data", "out/shop")
    assert Path("campaigns.db").exists()
    status = ["git", "status", "--porcelain", "--untracked-files=all"]
    assert subprocess.run(status, check=True, capture_output=True, text=True).stdout == ""


@pytest.mark.slow
def test_same_seed_same_results(tmp_path):
    documents = []
    for name in ("a", "b"):
        document = run_json("demo", "--quick", "--rounds", "3", "--runs", "1", "--seed", "5", "--out", tmp_path / name)
        documents.append({key: document[key] for key in ("results", "seeds", "environment")})
    assert documents[0] == documents[1]


@pytest.mark.slow
def test_tensorucb_learns_and_ends_clearly_below_degree_and_random():
    policies = {label: policy for label, policy in demo_policies().items() if "paper" not in label}
    experiment = run_experiment(demo_environment(0), policies, rounds=80, runs=5, seed=0)
    ours = experiment.curve("TensorUCB")
    for other in ("HighDegree", "Random"):
        assert ours.high[-1] < experiment.curve(other).low[-1]
    # The average falls from the first tenth to the half to the end; the last rounds lose less than the average.
    assert ours.mean[7] > ours.mean[39] > ours.mean[79]
    assert float(experiment.final("TensorUCB", last=16).mean) < 0.75 * float(ours.mean[79])
    late = experiment.final("TensorUCB", last=16)
    assert float(late.high) < 0.6 * float(experiment.final("HighDegree", last=16).low)
    assert np.isfinite(ours.mean).all()
