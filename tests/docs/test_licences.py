"""The page of licences has every pinned package, in the pinned version."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| (\S+) \| (\S+) \| (\S.*) \|$", flags=re.MULTILINE)


@pytest.mark.parametrize("name", ["base", "service", "dev"])
def test_every_pinned_package_has_its_licence(name):
    pins = re.findall(r"^([\w.-]+)==([^\s;]+)", (ROOT / "requirements" / f"{name}.txt").read_text(), flags=re.MULTILINE)
    listed = {row[:2] for row in ROW.findall((ROOT / "docs" / "licences.md").read_text(encoding="utf-8"))}
    assert pins
    assert set(pins) <= listed, "the pins have changed: run `make licences`"
