"""What commands share: options, checks of what was typed, ids of users, and opening a campaign."""

from __future__ import annotations

import functools
import inspect
import math
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_type_hints

from typer import Argument, BadParameter, CallbackParam, Context, Exit, Option, Typer
from typer.models import OptionInfo

from tensorucb.cli._output import Answer, one_line, say
from tensorucb.cli._progress import Progress
from tensorucb.errors import FileFormatError, InputError
from tensorucb.question import ARGUMENTS, SETTINGS
from tensorucb.question import Argument as KnownArgument

if TYPE_CHECKING:
    from tensorucb.campaign import Campaign
    from tensorucb.engines import RayEngine
    from tensorucb.graph import Graph

_FIRST_K = 10  # users of the first round that is proposed, if there are so many
HELP = {"help_option_names": ["-h", "--help"]}
IDS = "ID|@FILE"
SPAN = "DURATION"
_METAVARS = {"column": "COLUMN", "slug": "NAME", "cap": "NUMBER/DURATION", "zone": "ZONE", "by_group": "GROUP=NUMBER"}
_METAVARS |= {"users": IDS, "contacts": IDS, "span": SPAN, "moment": "TIME", "text": "ID"}
STORAGE = "sqlite:///campaigns.db"
WHERE = "Where campaigns live: sqlite:///file.db or postgresql://..."


class Commands(Typer):
    """A group of commands, without rich, whose import is half of the time that --help takes."""

    def __init__(self, help: str | None = None) -> None:
        super().__init__(help=help, add_completion=False, rich_markup_mode=None, context_settings=HELP)

    def add(self, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """A decorator that makes a function the command of this name."""

        def added(function: Callable[..., Any]) -> Callable[..., Any]:
            # In the help of a group: without it, typer would cut the first line to one of the terminal.
            summary = str(function.__doc__).partition("\n")[0]
            self.command(name, short_help=summary, context_settings=HELP)(_called_by_typer(function, name))
            return function

        return added


def _called_by_typer(function: Callable[..., Any], command: str) -> Callable[..., None]:
    """The function of a command with the parameters that many have, and that prints its answer.

    All that return an `Answer` take --json. One whose first parameter is ``campaign`` takes NAME and --storage, and
    gets the open campaign.
    """
    hints = get_type_hints(function, localns={"Campaign": Any}, include_extras=True)
    defaults = {each.name: each.default for each in inspect.signature(function).parameters.values()}
    own = set(defaults)
    if "campaign" in own:
        hints |= {"name": Name, "storage": Storage}
        defaults = {"name": inspect.Parameter.empty, **defaults, "storage": STORAGE}
        del defaults["campaign"]
    if Answer in (hints["return"], *get_args(hints["return"])):
        hints["json"] = Json
        defaults["json"] = False

    @functools.wraps(function)
    def run(**options: Any) -> None:
        arguments = {name: value for name, value in options.items() if name in own}
        if "campaign" in own:
            # What was found is printed after the block, where nothing is open any more.
            with campaign_at(options["storage"], options["name"], command) as campaign:
                answer = function(campaign=campaign, **arguments)
        else:
            answer = function(**arguments)
        if answer is not None:
            answer.print(json=options["json"])
            if answer.failed:
                raise Exit(1)

    for name, option in defaults.items():
        if hints[name] is bool and isinstance(option, OptionInfo):
            option.param_decls = (f"--{name.replace('_', '-')}",)  # and no --no-…
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[name])
        for name, default in defaults.items()
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


# -- checks --


def refuse(wrong: object, why: str) -> None:
    """Refuse options that do not go together."""
    if wrong:
        raise BadParameter(why)


def between(least: int, most: int) -> Callable[[int | None], int | None]:
    """A check of whole numbers whose upper end is of no use in a command's help."""

    def check(value: int | None) -> int | None:
        wrong = value is not None and not least <= value <= most
        refuse(wrong, f"it must be a whole number from {least} to {most:,}.")
        return value

    return check


counted = between(1, 1_000_000_000)  # the most is more than anybody can wait for


def span(text: str) -> str:
    """A duration as it is typed, checked: 7d, 12h or 30m."""
    from tensorucb.cli._app import CommandWords
    from tensorucb.moments import duration

    try:
        duration("it", text, zero=True)
    except InputError as error:
        raise BadParameter(CommandWords(None).said(error.parts())) from None
    return text


def typed(text: str) -> str:
    """An argument as text: under an ASCII locale Python hands out its bytes, which are UTF-8 all the same."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8")
    except UnicodeError:
        return text


def _nearest_existing(path: Path) -> Path:
    """The path, or the nearest folder above it that is there."""
    return next(each for each in (path, *path.parents) if each.exists())


def can_write(directory: Path) -> bool:
    """Whether files can be made in a directory, which may have to be made itself."""
    import tempfile  # here, since --help loads this file

    try:
        with tempfile.TemporaryFile(dir=_nearest_existing(directory)):
            return True
    except OSError:
        return False


def writable_directory(parameter: CallbackParam, directory: Path) -> Path:
    """A directory to write to; refused before anything is computed if that is not possible."""
    option = f"--{parameter.name} {str(directory)!r}"
    existing = _nearest_existing(directory)
    if not existing.is_dir():
        raise InputError(f"{option} cannot be a directory: {str(existing)!r} is a file.")
    if not can_write(existing):
        raise InputError(f"{option} cannot be written to: no permission in {str(existing)!r}.")
    return directory


def writable_file(context: Context, parameter: CallbackParam, path: Path | None) -> Path | None:
    """A file to write; refused before anything is computed if that is not possible, or if two options name it."""
    if path is None:
        return None
    if path.is_dir():
        raise InputError(f"--{parameter.name} {str(path)!r} is a directory; name a file.")
    writable_directory(parameter, path.parent)
    for other in ("csv", "latex", "out"):
        taken = None if other == parameter.name else context.params.get(other)
        if taken is not None and path.absolute() == taken.absolute():
            first, second = sorted((other, str(parameter.name)))
            raise InputError(f"--{first} and --{second} both name {str(path)!r}; give each a file of its own.")
    return path


def numbers(
    option: str, text: str, wanted: str = "numbers with commas between them", *, low: float = -math.inf, size: int = 0
) -> list[float]:
    """The numbers of a text with commas between them: finite ones, at least ``low``, and ``size`` of them if given."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = [math.nan]
    sound = all(low <= value and math.isfinite(value) for value in values) and len(values) == (size or len(values))
    refuse(not sound, f"{option} must be {wanted}; got {text!r}.")
    return values


# -- options of several commands --


def setting(name: str, **more: Any) -> Any:
    """The option of a setting of a campaign, with what the library says of it."""
    return _about(SETTINGS[name], SETTINGS[name].default, **more)


def asked(name: str, *flags: str, also: str = "", **more: Any) -> Any:
    """The option of an argument of an ask, with what the library says of it; left out, the campaign decides."""
    return _about(ARGUMENTS[name], None, *flags, also=also, **more)


def _about(known: KnownArgument, default: Any, *flags: str, also: str = "", **more: Any) -> Any:
    shown_as = "|".join(known.words) or _METAVARS.get(known.kind)
    if known.kind == "span":
        more["parser"] = span
    return Option(default, *flags, help=f"{known.help} {also}".rstrip(), metavar=shown_as, **more)


Json = Annotated[bool, Option("--json", help="Print one JSON object.")]
Seed = Annotated[int, Option(help="Sets everything random.", callback=between(0, 2**63 - 1))]
OutDirectory = Annotated[
    Path, Option("--out", help="The directory to write to.", metavar="DIR", callback=writable_directory)
]
OutFile = Annotated[Path, Option("--out", help="The file to write.", callback=writable_file)]
Results = Annotated[
    Path,
    Option(
        "--out", help="Directory for CSV files, figures and report.html.", metavar="DIR", callback=writable_directory
    ),
]
Rounds = Annotated[int, Option(help="Rounds per run.", callback=counted)]
Runs = Annotated[int, Option(help="Runs of each policy.", callback=counted)]
QuickRuns = Annotated[int | None, Option(help="Runs of each policy.", show_default="5, quick: 2", callback=counted)]
SeedsPerRound = Annotated[int, Option("--k", "-k", help="Seeds per round.", callback=counted)]
Jobs = Annotated[
    int, Option(min=1, max=1024, help="Processes that share the work; the numbers are the same for any number of them.")
]
EngineName = Annotated[
    Literal["local", "ray"],
    Option("--engine", help="Where heavy work runs: on this machine or on a Ray cluster; the numbers are the same."),
]
Address = Annotated[
    str | None, Option("--address", metavar="HOST:PORT", help="Head of the Ray cluster, for --engine ray.")
]
CsvTable = Annotated[
    Path | None, Option("--csv", help="Also write the results as a flat table.", callback=writable_file)
]
LatexTable = Annotated[
    Path | None, Option("--latex", help="Also write the printed table as LaTeX.", callback=writable_file)
]


@contextmanager
def opened_engine(name: str, address: str | None) -> Iterator[RayEngine | None]:
    """The engine that --engine and --address name; None is this machine."""
    if name == "local":
        refuse(address is not None, "--address is for --engine ray; give both or neither.")
        yield None
        return
    if address is None:
        raise BadParameter("--engine ray needs --address HOST:PORT, as `ray start --head` prints it.")
    say(one_line(f"Waiting for the Ray cluster at {address}, for two minutes at most ..."), err=True)
    from tensorucb.engines import RayEngine

    # Ray reports a lost node on the standard output, which is the answer's alone.
    with redirect_stdout(sys.stderr), RayEngine(address) as engine:
        yield engine


# -- campaigns --

Name = Annotated[str, Argument(help="The campaign's name.", metavar="NAME", show_default=False, callback=typed)]
Storage = Annotated[str, Option(help=WHERE, metavar="URL", envvar="TENSORUCB_STORAGE")]
Window = Annotated[str | None, Option(help=SETTINGS["window"].help, parser=span, metavar=SPAN)]
Strict = Annotated[bool, Option("--strict", help="Refuse all if a single row cannot be used.")]
MaxLeftOut = Annotated[
    float, Option(help="Rows that cannot be used are left out and counted; above this share, refuse all.")
]
Columns = Annotated[
    list[str] | None,
    Option("--column", help="Which column holds which field, such as user=buyer. Repeatable.", metavar="FIELD=COLUMN"),
]
Yes = Annotated[bool, Option("--yes", help="Do not ask: it cannot be undone.")]


@contextmanager
def campaign_at(storage: str, name: str, doing: str) -> Iterator[Campaign]:
    """The campaign, closed again at the end."""
    from tensorucb.campaign import load_campaign

    with Progress(doing), load_campaign(name, storage=storage) as campaign:
        yield campaign


def next_command(storage: str, *words: str) -> str:
    """A command to type next, with --storage where it is needed."""
    from tensorucb.store._address import masked

    if storage not in (STORAGE, os.environ.get("TENSORUCB_STORAGE")):
        words += ("--storage", masked(storage))
    return shlex.join(("tensorucb", *words))


def next_ask(storage: str, campaign: Campaign, first: Sequence[int | str] = ()) -> str:
    """The command that asks for the first round, for a product of ``first`` if there is one."""
    words = ["ask", campaign.name]
    product = next(iter([*first, *campaign.products()]), None)
    if product is not None:
        words += [f"--product={product}"] if str(product).startswith("-") else ["--product", str(product)]
    defaults = campaign.settings.get("ask", {})
    if not {"k", "budget"} & set(defaults):
        words += ["-k", str(min(_FIRST_K, campaign.graph.n_nodes))]
    if campaign.strategies() and "strategies" not in defaults:
        words += ["--strategies", "all"]
    return next_command(storage, *words)


def names_of_users(campaign: Campaign) -> Mapping[str, str]:
    """The names that columns of the table of users had when the campaign was created."""
    names: Mapping[str, str] = campaign.settings.get("columns", {}).get("users", {})
    return names


def assignments(
    option: str,
    texts: Sequence[str] | None,
    example: str,
    what: str = "a name",
    split: Callable[[str, str], tuple[str, str, str]] = str.partition,
) -> dict[str, str]:
    """Values by name, from NAME=VALUE as it was typed; each ``what`` once. ``split`` says which ``=`` counts."""
    values: dict[str, str] = {}
    for text in map(typed, texts or ()):
        name, _, value = split(text, "=")
        refuse(not name or not value, f"{option} must look like {example}; got {text!r}.")
        refuse(name in values, f"{option} names {what} twice: {name!r}.")
        values[name] = value
    return values


def column_names(texts: list[str] | None) -> dict[str, str] | None:
    """Names of columns by field, from FIELD=COLUMN as it was typed."""
    return assignments("--column", texts, "user=buyer", "a field") or None


def one_id(graph: Graph, text: str, option: str) -> int | str:
    """An id as it was typed, in the type of the network's ids."""
    if graph.ids.dtype.kind == "U":
        return typed(text)
    if not re.fullmatch(r"-?[0-9]{1,19}", text):
        raise InputError(f"{option} {text!r} is not an id of this network, whose ids are whole numbers.")
    return int(text)


def listed_ids(
    graph: Graph,
    values: Sequence[str] | None,
    option: str,
    columns: Mapping[str, str] | None = None,
    *,
    may_be_empty: bool = True,
) -> list[int | str] | None:
    """Ids from an option that may be repeated, in the type of the network's ids; see `listed_texts`."""
    if not values:
        return None
    texts = listed_texts(values, option, columns)
    if not texts and not may_be_empty:
        raise InputError(f"{option} names nobody: the file is empty. Put one id on each line, or leave the option out.")
    return [one_id(graph, text, option) for text in texts]


def listed_texts(values: Sequence[str], option: str, columns: Mapping[str, str] | None = None) -> list[str]:
    """Ids exactly as typed, or those of a file.

    ``@FILE`` stands for the lines of a file, or for the users of a table, whose ``columns`` may be known by the names
    that a campaign was created with; ``@@ann`` stands for the id ``@ann``.
    """
    texts: list[str] = []
    for value in values:
        if value.startswith("@@") or not value.startswith("@"):
            texts.append(typed(value.removeprefix("@")))
        else:
            texts += _lines(value, option, columns)
    return texts


def _lines(value: str, option: str, columns: Mapping[str, str] | None) -> list[str]:
    """The users of a table, or the lines of another file without their ends; empty ones are left out."""
    if Path(value[1:]).is_file():
        from tensorucb.tables import has_table_suffix, listed_users

        if has_table_suffix(value):
            return listed_users(option, value[1:], columns)
    try:
        text = Path(value[1:]).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise FileFormatError(
            f"{option} {value!r} is not UTF-8 text; save the file as UTF-8 with one id on each line."
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FileFormatError(
            f"{option} {value!r} reads a file, but {value[1:]!r} cannot be read: {reason}. "
            f"For the user {value!r} write {'@' + value!r}."
        ) from None
    return [line for line in text.split("\n") if line]
