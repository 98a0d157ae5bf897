"""The code of docs/add-a-policy.md runs, and prints what its comments promise."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "add-a-policy.md"


def test_the_page_runs(capsys):
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) == 2
    namespace: dict[str, object] = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), namespace)
    promised = re.findall(r"print\(.*\)\s+# (.*)", text)
    assert capsys.readouterr().out.splitlines() == promised
