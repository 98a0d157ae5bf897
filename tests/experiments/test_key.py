"""Kept runs of a policy are reused while it stays as it is, and never after its code was edited."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from experiments.parts import policy_key
from tensorucb.experiments import Environment, run_experiment
from tensorucb.policies import LinUCB, Random, TensorUCB
from tensorucb.policies.drift import ForgetOnDrift

POLICY = """
import numpy as np
from helpers import rank
from tensorucb.policies import Random

OFFSET = 0

class Base(Random):
    def best(self, k):
        return rank(self.graph, k) + OFFSET

class Mine(Base):
    name = "Mine"

    def choose(self, product, k, oracle):
        from late import shift
        return np.sort(self.best(k)) + shift()
"""
HELPERS = "import numpy as np\n\ndef rank(graph, k):\n    return np.arange(k) * 2\n"
LATE = "def shift():\n    return 0\n"
FILES = {"policy.py": POLICY, "helpers.py": HELPERS, "late.py": LATE}
SCRIPT = """
from tensorucb.data import make_sandbox
from tensorucb.experiments import Environment, WorldSettings, run_experiment

world = Environment.from_sandbox(make_sandbox(60, 400, 8, n_topics=4, rng=0), settings=WorldSettings(k=3))
print(run_experiment(world, {"Mine": Mine()}, rounds=2, runs=2, directory="runs").by_run("Mine", "spread")[0].tolist())
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a policy in three files, from which modules are imported, without kept bytecode."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    forget_modules()


def forget_modules() -> None:
    for name in FILES:
        sys.modules.pop(name.removesuffix(".py"), None)
    importlib.invalidate_caches()


def play(world: Environment, folder: Path) -> tuple[list[list[float]], dict[str, int]]:
    """Import the policy again, run it; the spreads, and the kept runs with the times at which they were written."""
    forget_modules()
    mine = importlib.import_module("policy").Mine
    policies = {"Mine": mine(), "wrapped": ForgetOnDrift(mine())}
    found = run_experiment(world, policies, rounds=2, runs=2, directory=folder / "runs")
    return [run for label in policies for run in found.by_run(label, "spread").tolist()], kept_runs(folder)


def kept_runs(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (folder / "runs").glob("*.npz")}


def test_an_edited_policy_is_run_again_and_an_unchanged_one_is_not(world, folder):
    first, kept = play(world, folder)
    assert len(kept) == 4
    assert play(world, folder) == (first, kept)
    edits = [
        ("policy.py", "OFFSET = 0", "OFFSET = 1"),
        ("policy.py", "np.sort(self.best(k))", "np.sort(self.best(k) + 3)"),
        ("policy.py", "return rank(self.graph, k)", "return rank(self.graph, k + 2)[2:]"),
        ("helpers.py", "* 2", "* 5"),
        ("late.py", "return 0", "return 1"),
    ]
    for name, old, new in edits:
        assert old in FILES[name]
        (folder / name).write_text(FILES[name].replace(old, new))
        spreads, now = play(world, folder)
        assert spreads != first, new
        # Both the policy itself and the one inside a wrapper were run again; the old files stay.
        assert len(now) == len(kept) + 4, new
        assert now.items() >= kept.items()
        (folder / name).write_text(FILES[name])
        kept = now
    assert play(world, folder) == (first, kept)


@pytest.mark.slow
def test_a_policy_of_the_running_script_is_known_by_its_file_and_one_without_a_file_is_not_kept(folder):
    def run(script: str, *command: str) -> tuple[str, dict[str, int]]:
        (folder / "script.py").write_text(script)
        done = subprocess.run([sys.executable, "-B", *command], cwd=folder, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout, kept_runs(folder)

    script = POLICY + SCRIPT
    first, kept = run(script, "script.py")
    assert len(kept) == 2
    assert run(script, "script.py") == (first, kept)
    edited = script.replace("self.best(k))", "self.best(k) + 3)")
    other, now = run(edited, "script.py")
    assert other != first
    assert len(now) == len(kept) + 2
    assert run(edited, "-c", script) == (first, now)


class Given(Random):
    """Does what it was given; says nothing of its arguments."""

    settings = None

    def __init__(self, pick):
        self.pick = pick


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda: Given(np.arange(3)), lambda: Given(np.arange(4))),
        (lambda: Given({"a": [1, 2]}), lambda: Given({"a": [1, 3]})),
        (lambda: LinUCB(exploration=0.1), lambda: LinUCB(exploration=0.2)),
        (lambda: TensorUCB(), lambda: LinUCB()),
        (lambda: ForgetOnDrift(Given(1)), lambda: ForgetOnDrift(Given(2))),
        (lambda: ForgetOnDrift(Given(1)), lambda: Given(1)),
    ],
)
def test_arguments_count(one, other):
    assert policy_key(one()) == policy_key(one()) != policy_key(other())
    assert policy_key(one()) is not None


def test_runs_of_a_policy_that_holds_a_function_are_not_kept(world, tmp_path):
    class Numbered(Random):
        settings = None

        def __init__(self, number):
            self.number = number

    assert policy_key(ForgetOnDrift(Given(lambda graph, k: 1))) is None
    found = run_experiment(world, {"a": Numbered(len), "b": Numbered(3)}, rounds=2, runs=1, directory=tmp_path)
    assert found.frame.height == 4
    assert [path.name[:4] for path in tmp_path.iterdir()] == ["b-0-"]


def test_learning_does_not_change_the_key_of_our_policies(world):
    for policy in (LinUCB(), ForgetOnDrift(LinUCB(), warm_up=1)):
        before = policy_key(policy)
        policy.bind(world.graph, world.users, 0)
        edges, outcomes = world.observe(0, [1, 2], seed=0, run=0, round_number=0)
        policy.update(world.products[0], edges, outcomes)
        assert policy_key(policy) == before
