"""docs/howto/own-policy.md: its code runs and prints what it promises; one file and one line make a policy known."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from tensorucb import policies
from tensorucb.data import make_sandbox
from tensorucb.experiments import Environment, compare
from tensorucb.policies.registry import REGISTRY, class_files, make_policy

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "howto" / "own-policy.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)


def test_the_page_runs(capsys):
    assert len(BLOCKS) == 2
    namespace: dict[str, object] = {"__name__": "page"}
    for block in BLOCKS:
        exec(compile(block, "own-policy.md", "exec"), namespace)
    promised = re.findall(r"print\(.*\)\s+# (.*)", TEXT)
    assert capsys.readouterr().out.splitlines() == promised


def test_a_file_and_the_line_of_the_page_make_the_policy_known(tmp_path, monkeypatch):
    (tmp_path / "source_rate.py").write_text(BLOCKS[0].split("\n\n\ncheck_policy(")[0], encoding="utf-8")
    monkeypatch.setattr(policies, "__path__", [*policies.__path__, str(tmp_path)])
    (line,) = re.findall(r'"SourceRate": (\(.*\)),', TEXT)
    monkeypatch.setitem(REGISTRY, "SourceRate", eval(line))
    policies.check_policy(partial(make_policy, "SourceRate"))
    world = Environment.from_sandbox(make_sandbox(60, 400, 5, rng=0))
    assert "SourceRate" in compare(world, ["SourceRate"], rounds=1, runs=1, validation_rounds=0).policies
    assert class_files()["SourceRate"] == "source_rate"
