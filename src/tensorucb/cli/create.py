"""``tensorucb init`` and ``tensorucb create``: a campaign from the files that a team has."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from typer import Argument, BadParameter, Option

from tensorucb.cli import _options as opt
from tensorucb.cli._config import CampaignFile, Config, merged
from tensorucb.cli._options import STORAGE, typed
from tensorucb.cli._output import Answer, Next, report_lines, shown
from tensorucb.cli._progress import Progress
from tensorucb.errors import InputError
from tensorucb.question import METRICS, help_of

_Table = Path | None


def init(
    file: Path = Argument(Path("campaign.toml"), help="The file to write.", metavar="FILE"),
) -> Answer:
    """Write a campaign file with comments, to be changed and given to `tensorucb create --config`."""
    from importlib.resources import files

    from tensorucb.checks import check_path
    from tensorucb.files import write_bytes

    if check_path("FILE", file).exists():
        raise InputError(f"{str(file)!r} is there already, and is left as it is. Name another file.")
    name = shown(shlex.quote(str(file)))
    template = (files("tensorucb.cli") / "campaign.toml").read_text("utf-8")
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
    metric: str = Option(
        "responders",
        help="What the campaign decides by: how many users respond, or what their responses are worth.",
        metavar="responders|value",
    ),
    objective: str = Option(
        "direct",
        help="What the choice counts. direct: responses of followers; cascade: all who are reached.",
        metavar="direct|cascade",
    ),
    credit: str = Option("any", help=help_of("credit"), metavar="any|last|shared"),
    window: opt.Window = None,
    epsilon: float = Option(0.1, help=help_of("epsilon"), callback=opt.finite),
    consent: str | None = Option(
        None, help="The column of --users that says who may be contacted (yes, true, 1 ...).", metavar="COLUMN"
    ),
    contact_group: str | None = Option(
        None, help="A group of campaigns in this store with a common --contact-cap.", metavar="NAME"
    ),
    contact_cap: str | None = Option(
        None, help="The most contacts of a user, over the group: 2/7d is 2 in 7 days.", metavar="NUMBER/DURATION"
    ),
    id_type: str = Option(
        "auto", help="What ids of users are: numbers, or text, which keeps 007 as it is.", metavar="auto|int|str"
    ),
    timezone: str | None = Option(
        None, help="Zone of days, and of times that name none: Europe/Berlin; by default UTC.", metavar="ZONE"
    ),
    strict: opt.Strict = False,
    max_left_out: opt.MaxLeftOut = 0.5,
    seed: opt.Seed = 0,
    snapshot_every: int = Option(10, help="Rounds between snapshots of the model.", callback=opt.counted),
    request_id: str | None = Option(None, help="Creating again with it finds the same campaign.", metavar="ID"),
    storage: opt.Storage = STORAGE,
) -> Answer:
    """Create a campaign from followers, and optionally past purchases, products, users and strategies.

    Files are .csv, .tsv (also .gz), .ndjson or .parquet. Columns of products and users may hold categories, tags, text,
    numbers and dates; what is used and what is left out is printed.
    """
    if name is None:
        raise BadParameter("give the campaign's NAME, or --config with a name in it.")
    if storage.startswith("memory:"):
        raise InputError("a campaign in memory ends with this command; use --storage sqlite:///file.db.")
    if data is None and edges is None:
        raise BadParameter("give --data, or --edges, or both.")
    name, told = typed(name), CampaignFile() if config is None else config
    meanings = merged(told.columns, _pairs("--column", columns, "actions.time=bought_at"))
    held = merged(told.kinds, _pairs("--kind", kinds, "products.size=category"))
    with Progress("create") as progress:
        from tensorucb.campaign import create_campaign, read_campaign_data
        from tensorucb.campaign._model import policy_named
        from tensorucb.campaign._people import read_cap
        from tensorucb.campaign._question import read_plain
        from tensorucb.campaign._stored import campaign_exists
        from tensorucb.checks import check_choice

        # What can be refused at once is not refused after minutes of reading.
        check_choice("metric", metric, METRICS)
        read_plain("credit", credit)
        read_plain("objective", objective)
        read_plain("epsilon", epsilon)
        contact_cap = None if contact_cap is None else read_cap(contact_cap)
        chosen = policy_named(policy, settings)
        if request_id is None and campaign_exists(name, storage):
            raise InputError(f"there is a campaign called {name!r} already; choose another name.")
        content = read_campaign_data(
            data,
            edges=edges,
            actions=actions,
            products=products,
            users=users,
            strategies=strategies,
            columns=meanings,
            kinds=held,
            consent=consent,
            id_type=id_type,
            window=window,
            queries=_queries(queries),
            timezone=timezone or "UTC",
            strict=strict,
            max_left_out=max_left_out,
            progress=progress,
        )
        with create_campaign(
            name,
            data=content,
            policy=chosen,
            storage=storage,
            metric=metric,
            objective=objective,
            credit=credit,
            epsilon=epsilon,
            ask=told.ask,
            contact_group=contact_group,
            contact_cap=contact_cap,
            seed=seed,
            snapshot_every=snapshot_every,
            request_id=request_id,
        ) as campaign:
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


def _queries(texts: Sequence[str] | None) -> dict[str, str] | None:
    """``TABLE=QUERY`` as queries by table."""
    parts = [typed(text).partition("=") for text in texts or ()]
    if not all(table and query for table, _, query in parts):
        raise BadParameter("--query must look like edges='select …'.")
    return {table.strip(): query for table, _, query in parts} or None


def _pairs(option: str, texts: Sequence[str] | None, example: str) -> dict[str, dict[str, str]]:
    """``TABLE.NAME=VALUE`` as values by table and name."""
    pairs: dict[str, dict[str, str]] = {}
    for text in map(typed, texts or ()):
        place, equals, value = text.partition("=")
        table, dot, name = place.partition(".")
        if not (equals and dot and table and name and value):
            raise BadParameter(f"{option} must look like {example}; got {text!r}.")
        if name in pairs.setdefault(table, {}):
            raise BadParameter(f"{option} names {place!r} twice; name it once.")
        pairs[table][name] = value
    return pairs
