"""Ctrl-C while a command writes files: nothing looks finished, and the next run works and leaves no litter."""

import os
import subprocess
import sys

import pytest

from campaign.worlds import answers, small_campaign
from cli.commands import run

# Ctrl-C comes when the first file is written and not yet on the disk.
_INTERRUPTED = """
import os, signal
from tensorucb.cli import main
os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGINT)
main()
"""


@pytest.mark.parametrize(
    ("arguments", "last"),
    [(("export", "--out", "out"), "manifest.json"), (("report", "--out", "out/report.html"), "report.html")],
)
def test_what_an_interrupted_command_left_is_cleared_by_the_next(tmp_path, monkeypatch, arguments, last):
    with small_campaign(f"sqlite:///{tmp_path}/c.db") as campaign:
        ask = campaign.ask("tea", 4)
        campaign.tell(ask.id, answers(campaign, ask))
        campaign.close(ask.id)
    command, *options = arguments
    line = [command, "spring", *options, "--storage", "sqlite:///c.db"]
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED, *line], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, "stopped" in done.stderr) == (130, True), done.stderr
    left = list((tmp_path / "out").iterdir())
    assert left  # it was interrupted in the midst of writing
    assert all(path.name.startswith(".") for path in left)
    for path in left:
        os.utime(path, (0, 0))  # as if some time had passed
    monkeypatch.chdir(tmp_path)
    run(*line)
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert last in names
    assert not any(name.startswith(".") for name in names)
