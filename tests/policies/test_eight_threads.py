"""One policy asked by eight threads answers as it answers one, whatever it computes on first use."""

import subprocess
import sys
from pathlib import Path

from policies.eight_threads import POLICIES

_PROGRAM = Path(__file__).with_name("eight_threads.py")


def test_eight_threads_get_the_answers_of_one_from_every_policy():
    # In a process of its own: broken memory ends the process.
    done = subprocess.run([sys.executable, _PROGRAM], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    assert done.stdout.splitlines() == list(POLICIES)
