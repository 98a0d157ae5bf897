"""One version, wherever it is written."""

from __future__ import annotations

import re
from pathlib import Path

import tensorucb

ROOT = Path(__file__).resolve().parents[2]


def test_the_citation_and_the_changelog_name_this_version():
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    changed = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert cited is not None
    assert changed is not None
    assert cited[1] == changed[1] == tensorucb.__version__
