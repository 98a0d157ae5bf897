"""``tensorucb create``: a campaign from the files that a team has."""

from __future__ import annotations

import json as jsonlib
import os
import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, BadParameter, Option

from tensorucb.cli._campaign import STORAGE, Storage, Window, fields
from tensorucb.cli._config import CampaignFile, Config, merged
from tensorucb.cli._options import Json, Seed, typed
from tensorucb.cli._output import emit_json, say, shown
from tensorucb.cli._progress import Progress
from tensorucb.errors import InputError, StoreError

if TYPE_CHECKING:
    from tensorucb.campaign import Campaign, CampaignData
    from tensorucb.policies import Policy

_ABSTRACT = ("BasePolicy", "Policy")
_K = 10  # users of the first round that is proposed, if there are so many


def create(
    name: Annotated[
        str | None, Argument(help="The campaign's name; without, the one in --config.", metavar="NAME")
    ] = None,
    config: Config = None,
    data: Annotated[
        Path | None,
        Option(help="Directory with edges (or followers), and optionally the other files.", metavar="DIR"),
    ] = None,
    edges: Annotated[Path | None, Option(help="The network: columns `source` (who influences) and `target`.")] = None,
    actions: Annotated[Path | None, Option(help="Past purchases: columns `user`, `item`, `time`.")] = None,
    products: Annotated[Path | None, Option(help="Catalogue: a column `product`, and whatever describes it.")] = None,
    users: Annotated[
        Path | None,
        Option(help="A column `user`, and whatever describes them; `cost` and `group` are for budgets and quotas."),
    ] = None,
    strategies: Annotated[
        Path | None, Option(help="Strategies: a column `strategy`, numbers, optionally `cost`.")
    ] = None,
    columns: Annotated[
        list[str] | None,
        Option(
            "--column", help="What a column means: actions.time=bought_at. Repeatable.", metavar="TABLE.MEANING=COLUMN"
        ),
    ] = None,
    kinds: Annotated[
        list[str] | None,
        Option(
            "--kind",
            help="What a column holds, if the guess is wrong: products.size=category, or number, tags, text, date, "
            "ignore. Repeatable.",
            metavar="TABLE.COLUMN=KIND",
        ),
    ] = None,
    policy: Annotated[str, Option(help="A policy of this package.")] = "TensorUCB",
    settings: Annotated[str, Option(help="The policy's arguments as JSON; a policy among them by its name.")] = "{}",
    objective: Annotated[
        str, Option(help="What the choice counts. direct: responses of followers; cascade: all who are reached.")
    ] = "direct",
    credit: Annotated[str, Option(help="For node events: any, last or shared.")] = "any",
    window: Window = None,
    id_type: Annotated[str, Option(help="What ids of users are: auto, int or str (keeps 007 as it is).")] = "auto",
    seed: Seed = 0,
    storage: Storage = STORAGE,
    json: Json = False,
) -> None:
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
        from tensorucb.campaign._told import check_credit
        from tensorucb.checks import check_choice

        # What can be refused at once is not refused after minutes of reading.
        check_credit(credit)
        check_choice("objective", objective, ("cascade", "direct"))
        chosen = policy_named(policy, settings)
        _refuse_existing(name, storage)
        found = read_campaign_data(
            data,
            edges=edges,
            actions=actions,
            products=products,
            users=users,
            strategies=strategies,
            columns=meanings,
            kinds=held,
            id_type=id_type,
            window=window,
            progress=progress,
        )
        with create_campaign(
            name,
            data=found,
            policy=chosen,
            storage=storage,
            objective=objective,
            credit=credit,
            ask=told.ask,
            seed=seed,
        ) as campaign:
            made, url, following = campaign.status(), campaign.store.masked_url, _next(campaign, found, storage)
    if json:
        emit_json({"storage": url, **fields(made), "report": list(found.report), "next": following})
        return
    for line in found.report:
        say(shown_line(line))
    say(f"Campaign {shown(made.name)} is ready in {shown(url)}.")
    say(f"Next: {following}")


def shown_line(line: str) -> str:
    """A line of a report; its indent stays."""
    text = line.lstrip()
    return line[: len(line) - len(text)] + shown(text)


def _refuse_existing(name: str, storage: str) -> None:
    """A name that is taken is told before anything is computed."""
    from tensorucb.store import open_store

    with suppress(StoreError):  # there is no store yet, or it has its own words for what is wrong
        store = open_store(storage, create=False)
        try:
            with store.read() as session:
                taken = session.campaign(name) is not None
        finally:
            store.close()
        if taken:
            raise InputError(f"there is a campaign called {name!r} already; choose another name.")


def _next(campaign: Campaign, found: CampaignData, storage: str) -> str:
    """The command that asks for the first round, as a person types it."""
    words = ["tensorucb", "ask", campaign.name]
    product = next(iter([*found.new, *found.products]), None)
    if product is not None:
        words += [f"--product={product}"] if str(product).startswith("-") else ["--product", str(product)]
    known = campaign.settings.get("ask", {})
    words += [] if {"k", "budget"} & set(known) else ["-k", str(min(_K, campaign.graph.n_nodes))]
    words += ["--strategies", "all"] if found.strategies and "strategies" not in known else []
    if storage not in (STORAGE, os.environ.get("TENSORUCB_STORAGE")):
        words += ["--storage", campaign.store.masked_url if "@" in storage else storage]
    return shlex.join(words)


def _pairs(option: str, given: Sequence[str] | None, example: str) -> dict[str, dict[str, str]]:
    """``TABLE.NAME=VALUE`` as values by table and name."""
    found: dict[str, dict[str, str]] = {}
    for text in map(typed, given or ()):
        place, equals, value = text.partition("=")
        table, dot, name = place.partition(".")
        if not (equals and dot and table and name and value):
            raise BadParameter(f"{option} must look like {example}; got {text!r}.")
        if name in found.setdefault(table, {}):
            raise BadParameter(f"{option} names {place!r} twice; name it once.")
        found[table][name] = value
    return found


def policy_named(name: Any, settings: str | dict[str, Any]) -> Policy:
    """A policy by its name; an argument ``policy`` is the name of another, or its ``type`` and ``arguments``."""
    from tensorucb import policies

    known = [each for each in policies.__all__ if hasattr(getattr(policies, each), "bind") and each not in _ABSTRACT]
    if name not in known:
        raise InputError(f"policy must be one of {', '.join(known)}; got {name!r}.")
    wanted = f"--settings of {name} must be its arguments as a JSON object"
    try:
        arguments = jsonlib.loads(settings) if isinstance(settings, str) else settings
        if not isinstance(arguments, dict):
            raise InputError(f"{wanted}; got {arguments!r}.")
        if isinstance(inner := arguments.get("policy"), str | dict):
            spec = {"type": inner} if isinstance(inner, str) else inner
            arguments = {**arguments, "policy": policy_named(spec.get("type"), spec.get("arguments", {}))}
        built: Policy = getattr(policies, name)(**arguments)
    except InputError:
        raise
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{wanted} ({error}).") from error
    return built
