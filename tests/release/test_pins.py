"""Every pinned package installs on every Python that the project promises."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# 3.11 means every 3.11: the first of them is the hardest, and Debian's own is an early one.
PROMISED = [f"{version}.0" for version in re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))]


def test_the_oldest_promised_python_is_the_one_that_the_pins_are_resolved_for():
    assert PROJECT["requires-python"] == f">={PROMISED[0].removesuffix('.0')}"


@pytest.mark.parametrize("name", ["base", "service", "dev"])
def test_every_pin_takes_every_promised_python(name):
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    pins = re.findall(r"^([\w.-]+)==([^\s;]+)", text, flags=re.MULTILINE)
    assert pins
    for package, version in pins:
        installed = distribution(package)
        assert installed.version == version, f"{package} is not as pinned; run `make test`, which installs the pins"
        takes = SpecifierSet(installed.metadata.get("Requires-Python") or "")
        refused = [python for python in PROMISED if python not in takes]
        assert not refused, f"{package}=={version} needs Python {takes}; run `make lock`"
