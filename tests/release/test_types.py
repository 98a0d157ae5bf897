"""The types that the package ships, as the strict checker of another project sees them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SAMPLE = Path(__file__).with_name("sample.py").read_text()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("stranger")


def checked(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "sample.py").write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "sample.py"]  # the first fills the cache
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_a_strict_checker_knows_what_calls_give(folder):
    done = checked(folder, SAMPLE)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("seeds: tuple[int | str, ...]", "seeds: list[str]"),
        ("spread: float", "spread: str"),
        ('window="7d"', "window=[7]"),
    ],
)
def test_a_strict_checker_finds_what_is_wrong(folder, right, wrong):
    assert right in SAMPLE
    assert checked(folder, SAMPLE.replace(right, wrong)).returncode == 1
