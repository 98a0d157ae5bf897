"""What changes a campaign apart from its rounds.

``add-products``, ``add-strategies``, ``set-costs``, ``add-users``, ``opt-out``, ``opt-in``, ``import-history``,
``webhook``, ``forget`` and ``delete``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, BadParameter, Option

from tensorucb.cli import _options as opt
from tensorucb.cli._options import STORAGE, campaign_at
from tensorucb.cli._output import Answer, Block, Remark, ask, confirmed, count, report_lines, shown
from tensorucb.errors import StateError, UnknownIdError
from tensorucb.money import money

if TYPE_CHECKING:
    from tensorucb.campaign import Campaign, ForgetReport, HistoryReport, OptReport, Webhook

People = Annotated[
    list[str], Argument(help="Ids, or @FILE with one id on each line, or with a table of users.", metavar=opt.IDS)
]
Everywhere = Annotated[bool, Option("--everywhere", help="For all campaigns of the store, also later ones.")]


def add_products(
    campaign: Campaign,
    products: Path = Argument(..., help="A table with the columns of the product table.", metavar="FILE"),
) -> Answer:
    """Add products to the catalogue, described by the columns of a file; known ones stay as they are."""
    return _added(campaign, "product", products)


def add_strategies(
    campaign: Campaign,
    strategies: Path = Argument(..., help="A table: `strategy`, numbers, optionally `cost`.", metavar="FILE"),
) -> Answer:
    """Add strategies (channels, offers, discounts) to the catalogue; known ones stay as they are."""
    return _added(campaign, "strategy", strategies)


def _added(campaign: Campaign, what: Any, file: Path) -> Answer:
    from tensorucb.campaign._grow import entries_from

    added = entries_from(campaign, what, file)
    in_all = added["products" if what == "product" else "strategies"]
    said = f"{count(added['added'], what)} added, {added['known']:,} known before; the catalogue has {in_all:,}."
    return Answer(added, report_lines(added["report"]), said)


def set_costs(
    campaign: Campaign,
    costs: list[str] = Argument(..., help="A strategy and its new cost, such as letter=1.5.", metavar="STRATEGY=COST"),
) -> Answer:
    """Change what strategies cost from now on; past rounds keep what they have spent, and the log keeps the date."""
    from tensorucb.campaign._catalogue import by_text

    prices = opt.assignments("STRATEGY=COST", costs, "letter=1.5", "a strategy", str.rpartition)
    ids_by_text = by_text(campaign.strategies())
    try:
        new_costs = {ids_by_text.get(entry, entry): float(cost) for entry, cost in prices.items()}
    except ValueError:
        raise BadParameter(f"a cost is a number, such as letter=1.5; got {', '.join(costs)}.") from None
    campaign.set_costs(new_costs)
    now = campaign.strategy_costs()
    said = ", ".join(f"{shown(entry)} {money(cost)}" for entry, cost in now.items())
    return Answer({"costs": {str(entry): cost for entry, cost in now.items()}}, f"Costs from now on: {said}.")


def opt_out(campaign: Campaign, users: People, everywhere: Everywhere = False) -> Answer:
    """Never contact these people again; ids that are no users are kept, in case they join."""
    ids = opt.listed_texts(users, "USERS", opt.names_of_users(campaign))
    report = campaign.opt_out(ids, everywhere=everywhere)
    return Answer(report, _opted(report, "opted out", everywhere))


def opt_in(campaign: Campaign, users: People, everywhere: Everywhere = False) -> Answer:
    """Undo opt-out; in a campaign with --consent this is consent as well."""
    ids = opt.listed_texts(users, "USERS", opt.names_of_users(campaign))
    report = campaign.opt_in(ids, everywhere=everywhere)
    return Answer(report, _opted(report, "opted in", everywhere))


def _opted(report: OptReport, done: str, everywhere: bool) -> Iterator[Block]:
    where = "for all campaigns of the store" if everywhere else "for this campaign"
    strangers = "who is no user" if report.unknown == 1 else "who are no users"
    unknown = f", and {report.unknown:,} {strangers}, kept in case they join" if report.unknown else ""
    yield f"{count(report.users, 'user')} {done} {where}{unknown}; {report.changed:,} of these are new."
    if report.unknown and not report.users:
        yield Remark("None of them is a user of this campaign: check that these are its ids.")
    if report.in_open_rounds and done == "opted out":
        yield f"{report.in_open_rounds:,} of them are to be contacted in open rounds: do not, if it is not done yet."
    if report.still_out:
        yield f"{report.still_out:,} of them are still opted out for all campaigns; --everywhere undoes that."


def add_users(
    campaign: Campaign,
    users: Path = Option(..., help="New users: a table with the columns of the table of users."),
    edges: Path | None = Option(None, help="New edges between any users: columns `source`, `target`."),
) -> Answer:
    """Add users, described by the columns of a file, and edges between any users; known ones stay as they are."""
    from tensorucb.campaign._grow import users_from

    added = users_from(campaign, users, edges)
    return Answer(
        added,
        report_lines(added["report"]),
        f"{count(added['users_added'], 'user')} and {count(added['edges_added'], 'edge')} added.",
        f"The network has {count(added['users'], 'user')} and {count(added['edges'], 'edge')}.",
    )


def import_history(
    campaign: Campaign,
    responses: Path = Argument(..., help="A .csv, .ndjson or .parquet file.", metavar="FILE"),
    window: opt.Window = None,
    strict: opt.Strict = False,
    max_left_out: opt.MaxLeftOut = 0.5,
    columns: opt.Columns = None,
) -> Answer:
    """Learn from past campaigns or a log of purchases before the first round; again changes nothing.

    Fields: source, target, outcome, product, optionally strategy and round. Or a log of purchases: user, product (or
    item), time. A follower who bought a product after somebody they follow, within --window (by default the
    campaign's), responded to them.
    """
    named = opt.column_names(columns)
    report = campaign.import_history(responses, window=window, strict=strict, max_left_out=max_left_out, columns=named)
    return Answer(report, _imported(report))


def _imported(report: HistoryReport) -> Iterator[Block]:
    rounds, responses = count(report.rounds, "round"), count(report.responses, "response")
    yield f"{rounds} with {responses} imported, {count(report.known_rounds, 'round')} known before."
    if report.other:
        yield f"  {count(report.other, 'row')} left out: the product is not in the catalogue."
    if report.used:
        yield f"  {count(report.used, 'row')} left out: the campaign was created from them."
    yield from report_lines(f"  {entry}" for entry in (*report.left_out, *report.remarks))


def webhook(
    campaign: Campaign,
    url: str | None = Option(None, help="Tell this address of every round that closes from now on."),
    secret: str | None = Option(None, help="What requests are signed with: whsec_ and base64; by default a new one."),
    remove: bool = Option(False, help="Tell nobody any more."),
) -> Answer:
    """Tell another system when a round closes; without options, send what is due and show how far it is.

    A running service sends by itself.
    """
    opt.refuse(secret is not None and url is None, "--secret needs --url: both are set together.")
    opt.refuse(remove and url is not None, "give --url or --remove, not both.")
    if url is not None:
        secret = campaign.set_webhook(url, secret)
    elif remove:
        campaign.remove_webhook()
    else:
        campaign.deliver()
    state = campaign.status().webhook
    return Answer({"webhook": state, "secret": secret}, _told(state, secret))


def _told(state: Webhook | None, secret: str | None) -> Iterator[Block]:
    if state is None:
        yield "Nobody is told of rounds that close."
        return
    if secret is not None:
        yield f"Requests are signed with {secret}; it is not shown again."
    told = count(state.delivered, "round")
    yield f"{shown(state.url)}: {told} told, {state.pending:,} to tell, {state.failed:,} given up."
    if state.error is not None:
        yield f"The last attempt failed: {shown(state.error)}."


def forget(
    name: opt.Name,
    user: str = Argument(..., help="The user's id.", metavar="USER"),
    yes: opt.Yes = False,
    storage: opt.Storage = STORAGE,
) -> Answer:
    """Remove a person from the log and the model, and prove it by replay."""
    with campaign_at(storage, name, "forget") as campaign:
        person = _person(campaign, user)
    if not (yes or confirmed(f"Remove {shown(user)} from {shown(name)} for ever?")):
        raise StateError("nothing was removed, since the question was not answered with yes.")
    with campaign_at(storage, name, "forget") as campaign:
        report = campaign.forget(person)
    return Answer(report, _forgotten(user, report), failed=not report.proven)


def _person(campaign: Campaign, user: str) -> int | str:
    """The id of a user; somebody who is gone is an error, unless files are still to be rewritten."""
    person = opt.one_id(campaign.graph, user, "USER")
    try:
        campaign.graph.rows([person])
    except UnknownIdError:
        if not campaign.status().erasing:
            gone = "Perhaps they are forgotten already."
            raise UnknownIdError(f"there is no user {user!r} in campaign {campaign.name!r}. {gone}") from None
    return person


def _forgotten(user: str, report: ForgetReport) -> Iterator[Block]:
    if report.completed:
        yield f"{shown(user)} was gone already; the files of an earlier forget are now rewritten."
    yield f"{count(report.responses, 'response')} and {count(report.rounds, 'round')} no longer name the user."
    after, replay = report.model_after[:16], report.replay[:16]
    told = f"the same model, {after}" if after == replay else f"DIFFERENT MODELS, {after} and {replay}"
    yield f"The model was learned again without the user, twice: both times gave {told}."
    searched = {
        True: "no longer hold the id",
        False: "STILL HOLD THE ID; perhaps another campaign there does",
        None: "were not searched for it",
    }
    yield f"The store's files {searched[report.bytes_absent]}."
    if report.elsewhere:
        names = ", ".join(map(shown, report.elsewhere))
        yield f"A user of this id is also in: {names}. Forget them there as well."


def delete(name: opt.Name, yes: opt.Yes = False, storage: opt.Storage = STORAGE) -> Answer:
    """Delete a campaign with its users, rounds, responses and log."""
    from tensorucb.campaign import delete_campaign

    if not yes:
        # Somebody at a terminal types the campaign's name; nobody else deletes by accident.
        if sys.stdin is None or not sys.stdin.isatty():
            raise StateError(f"nothing was deleted. Without a terminal, say --yes to delete {shown(name)} for ever.")
        typed_name = ask("This cannot be undone. Type the campaign's name to delete it:")
        if typed_name != name:
            raise StateError(f"nothing was deleted: the campaign is called {shown(name)}, not {shown(typed_name)}.")
    delete_campaign(name, storage=storage)
    return Answer({"deleted": name}, f"Campaign {shown(name)} is deleted.")
