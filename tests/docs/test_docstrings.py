"""The examples in docstrings give what they show."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import tensorucb

ROOT = Path(tensorucb.__file__).parent
WITH_EXAMPLES = sorted(path for path in ROOT.rglob("*.py") if ">>> " in path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_examples_give_what_they_show(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(".".join(["tensorucb", *path.relative_to(ROOT).with_suffix("").parts]))
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0
