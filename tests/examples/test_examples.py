from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("[0-9]*.py"))
EXPECTED = {
    "01_first_campaign": ["share of the best possible reach in rounds 1-5", "was chosen as number 1", "was not chosen"],
    "02_late_responses": [
        "the same model? False",
        "the same model? True",
        "contradiction: Contradiction(row=0",
        "refused: ",
    ],
    "03_constraints": ["cooldown", "the group's quota is used up", "lift: ", "shadow: "],
}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    for text in EXPECTED.get(path.stem, []):
        assert text in done.stdout, done.stdout


def test_there_are_examples():
    assert set(EXPECTED) <= {path.stem for path in EXAMPLES}
