"""A real process, killed while it works, and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

SCRIPT = """
import sys, time
from tensorucb.data import make_sandbox
from tensorucb.experiments import Environment, WorldSettings, run_experiment, write_csv
from tensorucb.policies import CUCB, LinUCB, Random

class Slow(Random):
    def learn(self, state, modes, edges, outcomes):
        time.sleep(float(sys.argv[2]))
        return state

world = Environment.from_sandbox(make_sandbox(60, 400, 8, n_topics=4, rng=0), settings=WorldSettings(k=3))
policies = {"LinUCB": LinUCB(), "Slow": Slow(), "CUCB": CUCB()}
found = run_experiment(world, policies, rounds=6, runs=3, directory=sys.argv[1])
write_csv(sys.argv[1] + "/regret.csv", found.frame.drop("score", "select", "update"))
"""


def start(directory: Path, pause: float) -> subprocess.Popen[bytes]:
    script = directory.parent / "script.py"
    script.write_text(SCRIPT)
    return subprocess.Popen([sys.executable, str(script), str(directory), str(pause)])


def test_killed_experiment_goes_on_and_ends_with_the_same_bytes(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    with start(whole, 0.0) as process:
        assert process.wait(120) == 0
    with start(broken, 0.2) as process:
        deadline = time.monotonic() + 60
        while len(list(broken.glob("*.npz"))) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL
    kept = {path.name: path.stat().st_mtime_ns for path in broken.glob("*.npz")}
    assert 3 <= len(kept) < 9
    assert not (broken / "regret.csv").exists()
    with start(broken, 0.0) as process:
        assert process.wait(120) == 0
    assert (broken / "regret.csv").read_bytes() == (whole / "regret.csv").read_bytes()
    # What was finished before the kill was not done again.
    assert all((broken / name).stat().st_mtime_ns == stamp for name, stamp in kept.items())
