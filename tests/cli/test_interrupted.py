"""Ctrl-C while a command writes files: nothing looks finished, and the next run works and leaves no litter."""

import os
import subprocess
import sys

import pytest

from campaign.worlds import answers, small_campaign

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
def test_what_an_interrupted_command_left_is_cleared_by_the_next(tmp_path, arguments, last):
    with small_campaign(f"sqlite:///{tmp_path}/c.db") as campaign:
        ask = campaign.ask("tea", 4)
        campaign.tell(ask.id, answers(campaign, ask))
        campaign.close(ask.id)
    command, *options = arguments
    line = [command, "spring", *options, "--storage", "sqlite:///c.db"]

    def run(*python):
        command_line = [sys.executable, *python, *line]
        done = subprocess.run(command_line, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        return done.returncode, done.stderr

    code, said = run("-c", _INTERRUPTED)
    assert (code, "stopped" in said) == (130, True), said
    left = list((tmp_path / "out").iterdir())
    assert left  # it was interrupted in the midst of writing
    assert all(path.name.startswith(".") for path in left)
    for path in left:
        os.utime(path, (0, 0))  # as if some time had passed
    code, said = run("-m", "tensorucb")
    assert code == 0, said
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert last in names
    assert not any(name.startswith(".") for name in names)
