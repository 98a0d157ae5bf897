"""The example of the page on campaigns that is complete runs as it stands."""

import re
from pathlib import Path

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "campaigns.md").read_text(encoding="utf-8")


def test_the_example_of_strategies_runs(capsys):
    section = PAGE.split("## Strategies\n")[1].split("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
    found: dict = {}
    exec(compile(code, "campaigns.md", "exec"), found)
    assert "Gets '" in capsys.readouterr().out
    assert len(set(found["same"].strategies)) == 1
    assert found["each"].cost <= 20.0
    assert found["given"].strategies == ("email",) * 5
