"""The command's frame: the table of commands, lazy loading, and the one place where errors are handled.

Nothing heavy may be imported here or at the top of a command's file: ``tensorucb --help`` loads them all.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

import typer
import typer.main
from typer.core import TyperGroup

from tensorucb.cli import _interrupt
from tensorucb.cli._options import HELP, Commands
from tensorucb.cli._output import one_line, safe_streams, say
from tensorucb.errors import TensorUCBError, Words

_AGAIN, _REPEAT = "Run the same command again", "run the same command again"
_NOTHING = f"Nothing was written. {_AGAIN} to start over."
_RUNS = f"{_AGAIN}: it goes on, the finished runs are kept in the directory of --out."
_FILES = f"Files may be missing in the directory of --out. {_AGAIN} to write them all."
_TWICE = f"{_AGAIN}: what is already stored is not counted twice."
_WHOLE = "as a whole or not at all:"


class Command(NamedTuple):
    """The file of a command, and what a person who has pressed Ctrl-C in it needs to know."""

    module: str
    stopped: str


COMMANDS = {
    "demo": Command("demo", f"The report was not finished. {_AGAIN} to start over."),
    "select": Command("select", _NOTHING),
    "datasets": Command("datasets", _FILES),
    "reproduce": Command("research", _RUNS),
    "compare": Command("research", _RUNS),
    "tune": Command("research", f"{_AGAIN}: it goes on, what was tried is kept beside the file of --out."),
    "init": Command("create", _NOTHING),
    "create": Command("create", f"The campaign was created {_WHOLE} `tensorucb status` tells. If not, {_REPEAT}."),
    "ask": Command("rounds", f"The round was opened {_WHOLE} `tensorucb status NAME` tells. If not, {_REPEAT}."),
    "preview": Command("rounds", _NOTHING),
    "tell": Command("rounds", _TWICE),
    "close": Command("rounds", f"{_AGAIN}: closing a round twice changes nothing."),
    "status": Command("progress", _NOTHING),
    "report": Command("progress", f"The report was not finished. {_AGAIN} to start over."),
    "lift": Command("progress", _NOTHING),
    "expire": Command("progress", f"{_AGAIN}: closing a round twice changes nothing."),
    "add-products": Command("campaigns", _TWICE),
    "add-strategies": Command("campaigns", _TWICE),
    "set-costs": Command("campaigns", f"Costs were changed {_WHOLE} if not, {_REPEAT}."),
    "add-users": Command("campaigns", f"Users were added {_WHOLE} `tensorucb status NAME` tells. If not, {_REPEAT}."),
    "opt-out": Command("campaigns", f"{_AGAIN}: who has opted out already stays so."),
    "opt-in": Command("campaigns", f"{_AGAIN}: who has opted in already stays so."),
    "webhook": Command("campaigns", f"{_AGAIN}: what was sent is sent again at most once."),
    "export": Command("progress", _FILES),
    "import-history": Command("campaigns", _TWICE),
    "forget": Command("campaigns", f"The person may not be gone yet. {_AGAIN} to finish."),
    "serve": Command("serve", "The service had not started yet."),
    "token": Command("serve", f"The token was made or revoked {_WHOLE} `tensorucb token list` tells."),
    "delete": Command("campaigns", f"The campaign was deleted {_WHOLE} `tensorucb status` tells."),
    "doctor": Command("doctor", _NOTHING),
}
# Arguments that an option calls differently.
_OPTIONS = {"policy_settings": "settings", "min_interactions": "min_actions"}
_VALUES = {int: "NUMBER", float: "NUMBER", Path: "FILE", str: "TEXT"}
# What pydantic says of what was typed, and what we say.
_PLAIN = {
    "Input should be a valid integer, unable to parse string as an integer": "it must be a whole number",
    "Input should be a valid number, unable to parse string as a number": "it must be a number",
    "Input should be": "it must be",
}
# typer ships its own copy of click's errors, or takes click's, by its version.
_USAGE_ERROR: Any = typer.BadParameter.__base__


class LazyGroup(TyperGroup):
    """A group that knows its commands by name; the one that is called is loaded and run."""

    loaded: Any = None

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.commands: Any = dict.fromkeys(COMMANDS)  # typer names those that resemble a misspelt one

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands with the first lines of their help, without their options: these take longer to read."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _summary(name)) for name in COMMANDS])

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command itself: a shell that completes a line asks for its options."""
        return load_command(cmd_name) if cmd_name in COMMANDS else None

    def main(self, args: Any = None, *more: Any, **extra: Any) -> Any:
        """Run a command line and exit; every failure is one line on stderr."""
        safe_streams()
        self._main_shell_completion({}, "tensorucb")  # ends here if a shell asks
        try:
            code = self._run(list(sys.argv[1:] if args is None else args) or ["--help"])
            if sys.stdout is not None:
                sys.stdout.flush()  # now, while a failure can be told
        except _USAGE_ERROR as error:
            code = _misused(error)
        except BrokenPipeError:  # whoever read our output has stopped, such as `head`
            code = 1
        except (TensorUCBError, OSError, MemoryError, UnicodeEncodeError) as error:
            say(f"tensorucb: {error_text(error, self.loaded)}", err=True)
            code = 1
        sys.exit(code)

    def _run(self, args: list[str]) -> int:
        command: Any = self
        words = ["tensorucb"]
        if args[0] in COMMANDS:
            # Not by way of the group, whose options typer would parse first: 0.1 s in every command's --help.
            name, *args = args
            words.append(name)
            _interrupt.advice = COMMANDS[name].stopped
            command = self.loaded = load_command(name)
        try:
            with command.make_context(" ".join(words), args) as ctx:
                command.invoke(ctx)
        except typer.Exit as end:
            return int(end.exit_code)
        return 0


def _misused(error: Any) -> int:
    """Say how a command was used wrongly; returns the exit code."""
    said = one_line(error.format_message()).removeprefix("Invalid value: ").replace("Value error, ", "").rstrip(".")
    for words, plain in _PLAIN.items():
        said = said.replace(words, plain)
    say(f"tensorucb: {said}{'' if said.endswith('?') else '.'} See '{error.ctx.command_path} --help'.", err=True)
    return int(error.exit_code)


def _target(name: str) -> Any:
    """The function or sub-app of a command, which is called as the command is."""
    return getattr(importlib.import_module(f"tensorucb.cli.{COMMANDS[name].module}"), name.replace("-", "_"))


def _summary(name: str) -> str:
    target = _target(name)
    return str(target.info.help if isinstance(target, typer.Typer) else target.__doc__).partition("\n")[0]


def load_command(name: str) -> Any:
    """Import a command's file and turn its function or sub-app into a command."""
    target = _target(name)
    if not isinstance(target, typer.Typer):
        function = target
        target = Commands()
        target.add(name)(function)
    command = typer.main.get_command(target)
    command.name = name
    for each in (command, *getattr(command, "commands", {}).values()):
        _finish(each)
    return command


def _finish(command: Any) -> None:
    """Show NUMBER, FILE and TEXT in help, not Python's names of types; refuse what is no number, but typed as one."""
    hints = get_type_hints(command.callback) if command.callback is not None else {}
    for parameter in command.params:
        kinds = {*get_args(hints.get(parameter.name)), hints.get(parameter.name)}
        words = {word for kind, word in _VALUES.items() if kind in kinds}
        if parameter.param_type_name == "argument":
            parameter.display_type_rich = lambda ctx: None
        elif parameter.metavar is None and words and not parameter.is_flag:
            parameter.metavar = words.pop()
        if float in kinds:
            parameter.callback = parameter.callback or _finite


def _finite(ctx: Any, parameter: Any, value: float | None) -> float | None:
    """The number; NaN and infinity, which pass every comparison of typer's, are refused."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number.")
    return value


# -- errors --

# The commands for calls that messages advise, where they are not called as the call is.
_COMMANDS = {"rounds": "status NAME", "users": "export NAME", "create_campaign": "create", "delete_campaign": "delete"}


class CommandWords(Words):
    """Arguments as the options of a command, or of all commands of a group; calls as commands."""

    def __init__(self, command: Any) -> None:
        commands = [] if command is None else [command, *getattr(command, "commands", {}).values()]
        self._options: dict[str, str] = {}
        for parameter in (parameter for entry in commands for parameter in entry.params):
            longest = max(parameter.opts, key=len)
            if longest.startswith("--"):
                self._options |= dict.fromkeys((parameter.name, longest[2:].replace("-", "_")), longest)

    def argument(self, name: str, value: Any) -> str:
        """An option, such as `--max-left-out 1.0`, `--column user=NAME` or `--column actions.user=NAME`."""
        option = self._options.get(_OPTIONS.get(name, name))
        if option is None or value is None:
            return option or super().argument(name, value)
        return option if value is True else " ".join([option, *_pairs(value)])

    def python(self, name: str, value: Any) -> str:
        """What nobody can type."""
        return ""

    def call(self, name: str, value: Any) -> str:
        """A command to type."""
        words = _COMMANDS.get(name, name.replace("_", "-"))
        return f"`tensorucb {words}`" if words.split()[0] in COMMANDS else super().call(name, value)


def _pairs(value: Any) -> list[str]:
    """A value as it is typed; mappings in a mapping are tables with their columns."""
    if not isinstance(value, Mapping):
        return [str(value)]
    return [
        f"{key}.{pair}" if isinstance(word, Mapping) else f"{key}={pair}"
        for key, word in value.items()
        for pair in _pairs(word)
    ]


def error_text(error: BaseException, command: Any = None) -> str:
    """An error on one line in words of the command, long values in it shortened."""
    text = str(error)
    if isinstance(error, TensorUCBError):
        text = CommandWords(command).said(error.parts())
    elif isinstance(error, OSError) and error.strerror:
        text = f"{error.strerror}: {str(error.filename)!r}." if error.filename is not None else f"{error.strerror}."
    elif isinstance(error, UnicodeEncodeError):
        text = f"{error.object!r} is not text: it holds bytes that are not UTF-8. Type it again."
    elif isinstance(error, MemoryError):
        text = "there is not enough memory for this. Ask for less, such as fewer rounds or a smaller --scale."
    return one_line(text)


# -- the command itself --

app = typer.Typer(name="tensorucb", cls=LazyGroup, rich_markup_mode=None, context_settings=HELP)


def _version(wanted: bool) -> None:
    if wanted:
        from tensorucb import __version__

        say(f"tensorucb {__version__}")
        raise typer.Exit()


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", help="Print the version.", callback=_version, is_eager=True),
) -> None:
    """Learn which users influence which others, for each product, and pick the next seeds."""


def run(args: list[str] | None = None) -> None:
    """Run the command line and exit."""
    typer.main.get_command(app).main(args)
