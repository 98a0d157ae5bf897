from __future__ import annotations

import re

from cli.terminal import in_terminal


def test_demo_serve_shows_a_campaign_that_plays_itself_and_stops_cleanly(tmp_path):
    seen = in_terminal(
        "demo", "--serve", keys=[("Press Ctrl-C", "\x03")], cwd=tmp_path, env={"TMPDIR": str(tmp_path)}, timeout=60
    )
    assert seen.code == 0, seen.text
    assert any(re.search(r"plays itself: http://127\.0\.0\.1:\d+$", line) for line in seen.lines), seen.text
    assert "Stopped. Nothing is left of the campaign." in seen.lines
    assert "Traceback" not in seen.text
    assert [path.name for path in tmp_path.iterdir() if "tensorucb" in path.name] == []
