"""The command's frame: the table of commands, lazy loading, and what an error or Ctrl-C looks like.

Nothing heavy may be imported here: ``tensorucb --help`` prints names and one-line helps from the table below.
"""

from __future__ import annotations

import importlib
import os
import sys
from dataclasses import dataclass
from typing import Any

import typer
import typer.core
import typer.main

from tensorucb.cli._errors import in_words_of
from tensorucb.cli._interrupt import was_pressed
from tensorucb.cli._options import HELP
from tensorucb.cli._output import error_text, one_line, safe_streams, say
from tensorucb.errors import TensorUCBError

_AGAIN = "Run the same command again"
_NOTHING = f"Nothing was written. {_AGAIN} to start over."
_RUNS = f"{_AGAIN}: it goes on, the finished runs are kept in the directory of --out."
_FILES = f"Files may be missing in the directory of --out. {_AGAIN} to write them all."
_TWICE = f"{_AGAIN}: what is already stored is not counted twice."


@dataclass(frozen=True)
class Command:
    """Where a command lives, its line of help, and what a person who has pressed Ctrl-C needs to know."""

    module: str
    attribute: str
    help: str
    stopped: str


COMMANDS: dict[str, Command] = {
    "demo": Command(
        "demo",
        "demo",
        "A campaign on a generated network in about a minute: table, explained seeds, report.html.",
        f"The report was not finished. {_AGAIN} to start over.",
    ),
    "select": Command("select", "select", "Pick the K users to seed in a network of your own.", _NOTHING),
    "datasets": Command(
        "datasets", "app", "Look at and check networks and action logs; generate synthetic ones.", _FILES
    ),
    "reproduce": Command(
        "reproduce", "reproduce", "Run the paper's tables and figures on a data set or a synthetic network.", _RUNS
    ),
    "compare": Command(
        "compare",
        "compare",
        "Our defaults beside every tuned baseline and a product-blind oracle, over a long campaign.",
        _RUNS,
    ),
    "tune": Command("tune", "tune", "Choose settings for a data set of your own, and say what was chosen.", _NOTHING),
    "create": Command(
        "create",
        "create",
        "Create a campaign from an edge list, and files of users and products.",
        "The campaign was created as a whole or not at all: `tensorucb status` tells. If not, run the same command "
        "again.",
    ),
    "ask": Command(
        "ask",
        "ask",
        "Open a round: who to contact for a product, and what to expect.",
        "The round was opened as a whole or not at all: `tensorucb status NAME` tells. If not, run the same command "
        "again.",
    ),
    "tell": Command("tell", "tell", "Store responses of a round; again, late or in any order.", _TWICE),
    "close": Command(
        "close",
        "close",
        "Close a round, so that the campaign learns from it; or cancel it.",
        f"{_AGAIN}: closing a round twice changes nothing.",
    ),
    "status": Command("status", "status", "List the campaigns of a store, or the rounds of one.", _NOTHING),
    "export": Command("export", "export", "Write a campaign as Parquet files.", _FILES),
    "import-history": Command(
        "import_history", "import_history", "Learn from past campaigns before the first round.", _TWICE
    ),
    "forget": Command(
        "forget",
        "forget",
        "Remove a person from the log and the model, with proof.",
        f"The person may not be gone yet. {_AGAIN} to finish.",
    ),
    "delete": Command(
        "delete",
        "delete",
        "Delete a campaign with everything that belongs to it.",
        "The campaign was deleted as a whole or not at all: `tensorucb status` tells.",
    ),
}


class LazyGroup(typer.core.TyperGroup):
    """A group whose commands are stubs (name and help); the one that is called is loaded and run in their place."""

    running: str = ""
    loaded: Any = None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The whole line of help of each command; typer would cut it to one line of the terminal."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help) for name, command in COMMANDS.items()])

    def main(self, args: Any = None, prog_name: str | None = None, *more: Any, **extra: Any) -> Any:
        """Run a command line and exit; every failure is one line on stderr."""
        self.running, self.loaded = "", None
        args = list(sys.argv[1:] if args is None else args)
        safe_streams()
        try:
            code = self._run(prog_name or "tensorucb", args or ["--help"])
            if sys.stdout is not None:
                sys.stdout.flush()  # now, while a failure can be told
        except _USAGE_ERROR as error:
            code = self._misused(error)
        except KeyboardInterrupt:
            code = self._interrupted()
        except typer.Abort:
            say("tensorucb: nothing was done, since the question was not answered with yes.", err=True)
            code = 1
        except BrokenPipeError:
            code = _reader_gone()
        except Exception as error:
            code = self._interrupted() if was_pressed() else self._failed(error)
        sys.exit(code)

    def _run(self, prog_name: str, args: list[str]) -> int:
        command: Any = self
        if args[0] in COMMANDS:
            # Not by way of the group, whose options typer would parse first: 0.1 s in every command's --help.
            self.running, prog_name, args = args[0], f"{prog_name} {args[0]}", args[1:]
            command = self.loaded = load_command(self.running)
        try:
            with command.make_context(prog_name, args) as ctx:
                command.invoke(ctx)
        except typer.Exit as end:
            return int(end.exit_code)
        return 0

    def _failed(self, error: Exception) -> int:
        if not isinstance(error, (TensorUCBError, OSError, MemoryError, UnicodeEncodeError)):
            raise error
        say(f"tensorucb: {in_words_of(self.loaded, error_text(error))}", err=True)
        return 1

    def _misused(self, error: Any) -> int:
        path = error.ctx.command_path if error.ctx is not None else f"tensorucb {self.running}".rstrip()
        said = one_line(error.format_message()).removeprefix("Invalid value: ").rstrip(".")
        say(f"tensorucb: {said}. See '{path} --help'.", err=True)
        return int(error.exit_code)

    def _interrupted(self) -> int:
        advice = COMMANDS[self.running].stopped if self.running else _NOTHING
        say(f"\ntensorucb: stopped. {advice}", err=True)
        return 130


# typer ships its own copy of click's errors, or takes click's, by its version.
_USAGE_ERROR: Any = typer.BadParameter.__base__


def _reader_gone() -> int:
    """Whoever read our output has stopped, such as ``head``; the rest goes nowhere, and Python need not complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


def load_command(name: str) -> Any:
    """Import a command's file and turn its function or sub-app into a command."""
    entry = COMMANDS[name]
    target = getattr(importlib.import_module(f"tensorucb.cli.{entry.module}"), entry.attribute)
    if isinstance(target, typer.Typer):
        command = typer.main.get_command(target)
    else:
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(name, context_settings=HELP)(target)
        command = typer.main.get_command(single)
    command.name = name
    return command


# Without rich, whose import is half of the time that --help takes.
app = typer.Typer(
    name="tensorucb",
    cls=LazyGroup,
    add_completion=False,
    rich_markup_mode=None,
    context_settings=HELP,
)


def _version(wanted: bool) -> None:
    if wanted:
        from tensorucb import __version__

        say(f"tensorucb {__version__}")
        raise typer.Exit()


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", help="Print the version.", callback=_version, is_eager=True),
) -> None:
    """Learn who influences whom, for each product, and pick the next seeds."""


def _register(name: str, summary: str) -> None:
    def stub() -> None:
        raise AssertionError(f"{name} is loaded on use")

    app.command(name, help=summary)(stub)


for _name, _entry in COMMANDS.items():
    _register(_name, _entry.help)


def run(args: list[str] | None = None) -> None:
    """Run the command line and exit."""
    typer.main.get_command(app).main(args=args, prog_name="tensorucb")
