"""Every example of the gallery runs as a script; two of them also cell by cell, as the notebooks of the site."""

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
        "contradiction: Contradiction(row=1",
        "refused: ",
    ],
    "03_constraints": ["cooldown", "the group's quota is used up", "lift: ", "shadow: "],
    "04_from_files": ["Ask('000001-", "10 users, open", "unknown=2", "CampaignProgress('spring', 1 round closed"],
    "05_service_client": ["proposed: ", "put on the list by a person", "refused: product", "manifest.json"],
    "06_tune_with_optuna": ["default    average regret", "by degree  average regret", "by default 0.1, tuned"],
    "07_strategies": ["one for each user", "in turn, not told", "by degree, in turn"],
    "08_your_own_policy": ["SourceRate", "TensorUCB", "HighDegree"],
    "09_pick_seeds": ["the seeds reach at least"],
    "10_tensor_regression": ["error after 10 samples"],
}
# The slower ones run with the slow tests, and whenever the site is built.
SLOW = {"03_constraints", "04_from_files", "05_service_client", "07_strategies", "08_your_own_policy"}
NOTEBOOKS = ["01_first_campaign", "10_tensor_regression"]


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.slow] * (path.stem in SLOW)) for path in EXAMPLES],
    ids=lambda path: path.stem,
)
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


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_runs_cell_by_cell(name, tmp_path, monkeypatch, capsys):
    notebook = pytest.importorskip("sphinx_gallery.notebook")
    from sphinx_gallery.gen_gallery import DEFAULT_GALLERY_CONF
    from sphinx_gallery.py_source_parser import split_code_and_text_blocks

    path = next(path for path in EXAMPLES if path.stem == name)
    _, blocks = split_code_and_text_blocks(str(path))
    cells = notebook.jupyter_notebook(blocks, dict(DEFAULT_GALLERY_CONF), str(path.parent))["cells"]
    assert [cell["cell_type"] for cell in cells[:2]] == ["markdown", "code"]
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), path.name, "exec"), names)
    printed = capsys.readouterr().out
    assert all(text in printed for text in EXPECTED[name])


def test_there_are_examples():
    assert set(EXPECTED) <= {path.stem for path in EXAMPLES}
