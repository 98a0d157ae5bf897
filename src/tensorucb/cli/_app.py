"""The command's frame: the table of commands, lazy loading, and what an error looks like.

Nothing heavy may be imported here: ``tensorucb --help`` prints names and one-line helps from the table below.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import typer
import typer.core
import typer.main

from tensorucb.cli._output import error_text
from tensorucb.errors import TensorUCBError

__all__ = ["app", "main"]

# name -> (module, the function or sub-app in it, one line of help)
COMMANDS: dict[str, tuple[str, str, str]] = {
    "demo": (
        "tensorucb.cli.demo",
        "demo",
        "A campaign on a generated network in about a minute: table, explained seeds, report.html.",
    ),
    "select": (
        "tensorucb.cli.select",
        "select",
        "Pick the K users to seed in a network of your own.",
    ),
    "datasets": (
        "tensorucb.cli.datasets",
        "app",
        "Look at and check networks and action logs; generate synthetic ones.",
    ),
    "reproduce": (
        "tensorucb.cli.reproduce",
        "reproduce",
        "Run the paper's tables and figures on a data set or a synthetic network.",
    ),
    "compare": (
        "tensorucb.cli.compare",
        "compare",
        "Our defaults beside every tuned baseline and a product-blind oracle, over a long campaign.",
    ),
    "tune": ("tensorucb.cli.tune", "tune", "Choose settings for a data set of your own, and say what was chosen."),
    "create": (
        "tensorucb.cli.create",
        "create",
        "Create a campaign from an edge list, and files of users and products.",
    ),
    "ask": ("tensorucb.cli.ask", "ask", "Open a round: whom to contact for a product, and what to expect."),
    "tell": ("tensorucb.cli.tell", "tell", "Store responses of a round; again, late or in any order."),
    "close": ("tensorucb.cli.close", "close", "Close a round, so that the campaign learns from it; or cancel it."),
    "status": ("tensorucb.cli.status", "status", "List the campaigns of a store, or the rounds of one."),
    "export": ("tensorucb.cli.export", "export", "Write a campaign as Parquet files."),
    "import-history": (
        "tensorucb.cli.import_history",
        "import_history",
        "Learn from past campaigns before the first round.",
    ),
    "delete": ("tensorucb.cli.delete", "delete", "Delete a campaign with everything that belongs to it."),
    "forget": ("tensorucb.cli.forget", "forget", "Remove a person from the log and the model, with proof."),
}


class LazyGroup(typer.core.TyperGroup):
    """A group whose commands are stubs (name and help) until one of them is to run."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command named by ``args``, loaded now."""
        name, stub, rest = super().resolve_command(ctx, args)
        return name, (load_command(name) if name in COMMANDS else stub), rest


def load_command(name: str) -> Any:
    """Import a command's file and turn its function or sub-app into a command."""
    module, attribute, _ = COMMANDS[name]
    target = getattr(importlib.import_module(module), attribute)
    if isinstance(target, typer.Typer):
        command = typer.main.get_command(target)
    else:
        single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        single.command(name)(target)
        command = typer.main.get_command(single)
    command.name = name
    return command


app = typer.Typer(
    name="tensorucb",
    cls=LazyGroup,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from tensorucb import __version__

        typer.echo(f"tensorucb {__version__}")
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


for _name, (_, _, _summary) in COMMANDS.items():
    _register(_name, _summary)


def main(args: list[str] | None = None) -> None:
    """Run the command line; exit codes: 0 done, 1 failed, 2 wrong use, 130 interrupted."""
    try:
        app(args=args, prog_name="tensorucb")
    except (TensorUCBError, OSError) as error:
        typer.echo(f"tensorucb: {error_text(error)}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
