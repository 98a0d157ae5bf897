"""Commands of the campaign, run in this process."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from tensorucb.cli._app import app

runner = CliRunner()


def run(*arguments, code=0, **more):
    """The result of a command, which must end with this exit code."""
    result = runner.invoke(app, [str(a) for a in arguments], **more)
    assert result.exit_code == code, (result.output, result.exception)
    return result


def run_json(*arguments, **more):
    """What a command prints with --json."""
    return json.loads(run(*arguments, "--json", **more).stdout)
