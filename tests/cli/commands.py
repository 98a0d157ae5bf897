"""Commands, run in this process through ``tensorucb.cli.main``, as a shell would run them."""

from __future__ import annotations

import json
import re
import sys
from typing import NamedTuple

from typer.testing import CliRunner

from tensorucb.cli import main
from tensorucb.data import ActionLog, Dataset, make_sandbox, write_dataset


class Ended(NamedTuple):
    """How a command ended, and what it has written."""

    exit_code: int
    stdout: str
    stderr: str
    output: str


def invoke(*arguments, **streams) -> Ended:
    """The end of a command, whatever its exit code; an error that the command does not handle is raised."""
    with CliRunner().isolation(**streams) as captured:
        code = 0
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = int(end.code or 0)
        sys.stdout.flush()
        sys.stderr.flush()
        texts = (stream.getvalue().decode("utf-8", "replace") for stream in captured)
        return Ended(code, *texts)


def run(*arguments, code=0, **streams) -> Ended:
    """The end of a command, which must have this exit code."""
    ended = invoke(*arguments, **streams)
    assert ended.exit_code == code, ended.output
    return ended


def run_json(*arguments, **streams):
    """What a command prints with --json."""
    return json.loads(run(*arguments, "--json", **streams).stdout)


def config_keys(section: str, folder) -> set[str]:
    """The keys that a section of a campaign file may have, as the message about a wrong one lists them."""
    path = folder / "wrong.toml"
    path.write_text(f"[{section}]\nzzzzzz = {{}}\n")
    said = run("create", "--config", path, code=1).stderr
    return set(re.findall(r"'([\w-]+)'", said.partition("There are ")[2]))


def command_names() -> list[str]:
    """The commands that ``tensorucb --help`` lists."""
    listed = run("--help").stdout.partition("Commands:\n")[2]
    return [line.split()[0] for line in listed.splitlines() if line.startswith("  ") and not line.startswith("   ")]


def write_tiny_data(directory, users=80, edges=500) -> None:
    """Write a data set of 12 items whose log was played on a generated network."""
    box = make_sandbox(users, edges, 12, n_topics=3, base_rate=0.1, rng=1)
    log = ActionLog.from_arrays(*box.action_log(rng=2), list(range(12)))
    write_dataset(Dataset(box.graph, log, "tiny"), directory)
