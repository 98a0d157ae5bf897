"""Public objects that keep buffers or caches give eight threads the answers that they give one."""

import subprocess
import sys
from pathlib import Path

from base.eight_threads import CASES

_PROGRAM = Path(__file__).with_name("eight_threads.py")


def test_eight_threads_get_the_answers_of_one():
    done = subprocess.run([sys.executable, _PROGRAM, *CASES], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    assert done.stdout.splitlines() == list(CASES)
