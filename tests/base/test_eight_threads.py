"""Public objects that keep buffers or caches give eight threads the answers that they give one."""

import subprocess
import sys
from pathlib import Path

import pytest

from base.eight_threads import CASES

_PROGRAM = Path(__file__).with_name("eight_threads.py")


@pytest.mark.parametrize("case", CASES)
def test_eight_threads_get_the_answers_of_one(case):
    done = subprocess.run([sys.executable, _PROGRAM, case], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
