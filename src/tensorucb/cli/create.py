"""``tensorucb init`` and ``tensorucb create``: a campaign from the files that a team has, and the campaign file."""

from __future__ import annotations

import difflib
import json
import shlex
import textwrap
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, BadParameter, Context, Option

from tensorucb.cli import _options as opt
from tensorucb.cli._options import STORAGE, typed
from tensorucb.cli._output import Answer, Next, report_lines, shown
from tensorucb.cli._progress import Progress
from tensorucb.errors import FileFormatError, InputError
from tensorucb.question import SETTINGS, STORED

# -- the campaign file: what options would say otherwise --

_TABLES = ("edges", "actions", "products", "users", "strategies")
_SETTINGS = tuple(name for name in SETTINGS if name != "ask")  # which has a section of its own
_CAMPAIGN = ("name", *_SETTINGS, "policy", "settings", "storage")
_DATA = ("directory", *_TABLES, "id_type")
_KINDS = ("products", "users")  # tables whose columns become features
_ID_TYPES = ("auto", "int", "str")


@dataclass(frozen=True)
class CampaignFile:
    """What a campaign file says.

    ``options`` are values of ``create``'s options by name. ``columns`` and ``kinds`` are as `read_campaign_data` takes
    them, ``ask`` as `create_campaign` does.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    kinds: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    ask: Mapping[str, Any] | None = None


def read_campaign_file(path: str) -> CampaignFile:
    """Read a campaign file; a key that is not known is an error that names the nearest one that is."""
    from tensorucb.checks import check_path

    try:
        file = check_path("a campaign file", path)
        content = tomllib.loads(file.read_text(encoding="utf-8-sig"))
        _check_names("it", content, ("campaign", "data", "columns", "kinds", "ask"), "section")
        options = {
            "data" if name == "directory" else name: _value(section, name, value, file.parent)
            for section, keys in (("campaign", _CAMPAIGN), ("data", _DATA))
            for name, value in _section(content, section, keys).items()
        }
        columns, kinds = _texts(content, "columns", _TABLES), _texts(content, "kinds", _KINDS)
        return CampaignFile(options, columns, kinds, _section(content, "ask", STORED) if "ask" in content else None)
    except InputError as error:  # of a check; it would pass for a mistake on the command line
        raise error.within(repr(path), FileFormatError) from error
    except OSError as error:
        raise FileFormatError(
            f"cannot read the campaign file {path!r}: {error.strerror or error}. "
            "`tensorucb init` writes one to begin with."
        ) from error
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path!r} is not valid TOML: {error}.") from error


def _section(content: Mapping[str, Any], title: str, keys: Collection[str] = (), what: str = "key") -> dict[str, Any]:
    """The section of this title, with known ``keys`` if there are any to be known; empty if it is not there."""
    value = content.get(title.rpartition(".")[2], {})
    if not isinstance(value, dict):
        raise InputError(f"{title} must be a section, [{title}]; got {value!r}.")
    if keys:
        _check_names(f"[{title}]", value, keys, what)
    return value


def _value(section: str, name: str, value: Any, folder: Path) -> Any:
    """The value of an option; a path is relative to the file's folder, and then to where the command runs."""
    from tensorucb.campaign._databases import is_database
    from tensorucb.campaign._question import read_plain
    from tensorucb.checks import check_choice, check_path, check_text

    title = f"{name} in [{section}]"
    if name in _SETTINGS:
        read_plain(name, value, title)
        return value
    if name == "id_type":
        return check_choice(title, value, _ID_TYPES)
    if name == "settings":
        return json.dumps(_section({name: value}, "campaign.settings"), default=str)
    if name == "directory" and is_database(value):
        return value
    return str(folder / check_path(title, value)) if section == "data" else check_text(title, value)


def _texts(content: Mapping[str, Any], title: str, tables: Collection[str]) -> dict[str, dict[str, str]]:
    """Texts by table and name."""
    from tensorucb.checks import check_text

    def texts(place: str) -> dict[str, str]:
        return {name: check_text(f"{name} in [{place}]", value) for name, value in _section(sections, place).items()}

    sections = _section(content, title, tables, "table")
    return {table: texts(f"{title}.{table}") for table in sections}


def _check_names(where: str, names: Collection[str], choices: Collection[str], what: str) -> None:
    for name in names:
        if name not in choices:
            near = difflib.get_close_matches(name, choices, 1)
            hint = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(map(repr, choices))}."
            raise InputError(f"{where} has no {what} {name!r}. {hint}")


def _use(ctx: Context, file: CampaignFile | None) -> CampaignFile | None:
    """Make what the file says the defaults of the other options."""
    if file is not None:
        ctx.default_map = {**(ctx.default_map or {}), **file.options}
    return file


# Eager: it is read before the options whose defaults it gives.
Config = Annotated[
    CampaignFile | None,
    Option(
        "--config",
        help="A campaign file, see `tensorucb init`; options on the command line count more.",
        parser=read_campaign_file,
        callback=_use,
        is_eager=True,
        metavar="FILE",
    ),
]


def _setting_lines() -> str:
    """The settings as lines of a campaign file, each under what it means; all but the window are left out."""
    lines = []
    for name in _SETTINGS:
        about = SETTINGS[name]
        lines += textwrap.wrap(about.help, 78, initial_indent="# ", subsequent_indent="# ")
        others = ", ".join(json.dumps(word) for word in about.words if word != about.default)
        value = json.dumps(about.example or about.default) + (f"    # or {others}" if others else "")
        lines.append(f"{'' if name == 'window' else '# '}{name} = {value}")
    return "\n".join(lines)


# -- commands --

_Table = Path | None


def init(file: Path = Argument(Path("campaign.toml"), help="The file to write.", metavar="FILE")) -> Answer:
    """Write a campaign file with comments, to be changed and given to `tensorucb create --config`."""
    from importlib.resources import files

    from tensorucb.checks import check_path
    from tensorucb.files import write_bytes

    if check_path("FILE", file).exists():
        raise InputError(f"{str(file)!r} is there already, and is left as it is. Name another file.")
    name = shown(shlex.quote(str(file)))
    template = (files("tensorucb.cli") / "campaign.toml").read_text("utf-8").replace("SETTINGS", _setting_lines())
    write_bytes(file, template.replace("campaign.toml", name).encode())
    return Answer(
        {"file": str(file)},
        f"{shown(file)} is written. Change it to your data.",
        "To try it as it is, make a shop: tensorucb datasets make shop --out shop",
        Next(f"tensorucb create --config {name}"),
    )


def create(
    name: str | None = Argument(None, help="The campaign's name; without, the one in --config.", metavar="NAME"),
    config: Config = None,
    data: str | None = Option(
        None,
        help="Directory with edges (or followers), and optionally the other files; or a database: postgresql://…, "
        "sqlite:FILE, duckdb:FILE.",
        metavar="DIR|URL",
    ),
    queries: list[str] | None = Option(
        None,
        "--query",
        help="The query of a table in a database: edges='select …'. Without, the table of that name. Repeatable.",
        metavar="TABLE=QUERY",
    ),
    edges: _Table = Option(None, help="The network: columns `source` (who influences) and `target`."),
    actions: _Table = Option(None, help="Past purchases: columns `user`, `item`, `time`."),
    products: _Table = Option(
        None, help="Catalogue: a column `product`, optionally `value`, and whatever describes it."
    ),
    users: _Table = Option(
        None,
        help="A column `user`, and whatever describes them; `cost` and `group` are for budgets and quotas, `value` "
        "is what a response is worth.",
    ),
    strategies: _Table = Option(None, help="Strategies: a column `strategy`, numbers, optionally `cost`."),
    columns: list[str] | None = Option(
        None,
        "--column",
        help="What a column means: actions.time=bought_at. Repeatable.",
        metavar="TABLE.MEANING=COLUMN",
    ),
    kinds: list[str] | None = Option(
        None,
        "--kind",
        help="What a column holds, if the guess is wrong: products.size=category, or number, tags, text, date, "
        "ignore. Repeatable.",
        metavar="TABLE.COLUMN=KIND",
    ),
    policy: str = Option("TensorUCB", help="A policy of this package."),
    settings: str = Option("{}", help="The policy's arguments; a policy among them by its name.", metavar="JSON"),
    metric: str = opt.setting("metric"),
    objective: str = opt.setting("objective"),
    credit: str = opt.setting("credit"),
    window: opt.Window = None,
    epsilon: float = opt.setting("epsilon"),
    consent: str | None = opt.setting("consent"),
    contact_group: str | None = opt.setting("contact_group"),
    contact_cap: str | None = opt.setting("contact_cap"),
    id_type: str = Option(
        "auto", help="What ids of users are: numbers, or text, which keeps 007 as it is.", metavar="auto|int|str"
    ),
    timezone: str | None = opt.setting("timezone"),
    strict: opt.Strict = False,
    max_left_out: opt.MaxLeftOut = 0.5,
    seed: opt.Seed = 0,
    snapshot_every: int = opt.setting("snapshot_every", callback=opt.counted),
    request_id: str | None = Option(None, help="Creating again with it finds the same campaign.", metavar="ID"),
    storage: opt.Storage = STORAGE,
) -> Answer:
    """Create a campaign from followers, and optionally past purchases, products, users and strategies.

    Files are .csv, .tsv (also .gz), .ndjson or .parquet. Columns of products and users may hold categories, tags, text,
    numbers and dates; what is used and what is left out is printed.
    """
    given = locals()
    made_of = {name: given[name] for name in _SETTINGS}
    tables = {name: given[name] for name in _TABLES}
    if name is None:
        raise BadParameter("give the campaign's NAME, or --config with a name in it.")
    if storage.startswith("memory:"):
        raise InputError("a campaign in memory ends with this command; use --storage sqlite:///file.db.")
    opt.refuse(data is None and edges is None, "give --data, or --edges, or both.")
    name, told = typed(name), CampaignFile() if config is None else config
    meanings = _with_typed(told.columns, "--column", columns, "actions.time=bought_at")
    held = _with_typed(told.kinds, "--kind", kinds, "products.size=category")
    with Progress("create") as progress:
        from tensorucb.campaign import create_campaign, read_campaign_data
        from tensorucb.campaign._model import policy_named
        from tensorucb.campaign._question import read_settings
        from tensorucb.campaign._stored import campaign_exists

        made_of["ask"] = told.ask
        read_settings(made_of)  # what can be refused at once is not refused after minutes of reading
        chosen = policy_named(policy, settings)
        if request_id is None and campaign_exists(name, storage):
            raise InputError(f"there is a campaign called {name!r} already; choose another name.")
        content = read_campaign_data(
            data,
            **tables,
            columns=meanings,
            kinds=held,
            consent=consent,
            id_type=id_type,
            window=window,
            timezone=timezone or "UTC",
            queries=opt.assignments("--query", queries, "edges='select …'", "a table") or None,
            strict=strict,
            max_left_out=max_left_out,
            progress=progress,
        )
        made_of["consent"] = None  # a column that was read with the tables
        options: Any = {"data": content, "policy": chosen, "storage": storage, "request_id": request_id}
        with create_campaign(name, **options, **made_of) as campaign:
            made, url = campaign.status(), campaign.store.masked_url
            following = opt.next_ask(storage, campaign, content.new)
    by_value = "It decides by what responses are worth, not by how many there are."
    return Answer(
        made,
        report_lines(content.report),
        by_value if metric == "value" else (),
        f"Campaign {shown(made.name)} is ready in {shown(url)}.",
        Next(following),
        storage=url,
        report=content.report,
        next=following,
    )


def _with_typed(
    told: Mapping[str, Mapping[str, str]], option: str, texts: Sequence[str] | None, example: str
) -> dict[str, dict[str, str]]:
    """What the file says by table and name, and over it what was typed as ``TABLE.NAME=VALUE``."""
    values = {table: dict(names) for table, names in told.items() if names}
    for place, value in opt.assignments(option, texts, example, "a column").items():
        table, _, name = place.partition(".")
        opt.refuse(not (table and name), f"{option} must look like {example}; got {place!r}.")
        values.setdefault(table, {})[name] = value
    return values
