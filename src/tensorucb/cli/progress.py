"""The commands that tell how a campaign is going: ``status``, ``report``, ``lift``, ``expire``, ``export``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, BadParameter, Option

from tensorucb.cli import _options as opt
from tensorucb.cli._options import STORAGE, campaign_at, one_id, typed
from tensorucb.cli._output import answer, count, emit_record, print_table, say, say_next, shown
from tensorucb.money import money

if TYPE_CHECKING:
    from tensorucb.campaign import CampaignProgress, CampaignStatus, Lift, RoundProgress, Totals

_SHOWN = 20  # rounds that `status` prints
_Segment = Annotated[
    str | None, Option(help="Split by this column of the table of users.", metavar="COLUMN", show_default=False)
]


def status(
    name: str | None = Argument(None, help="The campaign's name; without, all.", metavar="NAME"),
    explain: str | None = Option(None, help="Explain the choice of this round.", metavar="ROUND", show_default=False),
    user: str | None = Option(
        None,
        help="Whether this user may be contacted now; with --explain, why they were chosen or not.",
        metavar="ID",
        show_default=False,
    ),
    segment: _Segment = None,
    storage: opt.Storage = STORAGE,
    json: opt.Json = False,
) -> None:
    """List the campaigns of a store, or tell how one is going: responses beside expectation; or explain a round."""
    if name is None and (explain is not None or user is not None or segment is not None):
        raise BadParameter("--explain, --user and --segment need a campaign's NAME.")
    if name is None:
        _list_all(storage, json)
    elif explain is not None:
        _explain(storage, typed(name), explain, user, json)
    elif user is not None:
        _say_why_not(storage, typed(name), user, json)
    else:
        _one(storage, typed(name), segment, json)


def _list_all(storage: str, json: bool) -> None:
    from tensorucb.campaign import list_campaigns

    lines = list_campaigns(storage)
    if json:
        emit_record({"campaigns": lines})
        return
    for line in lines:
        rounds = f"{count(line.rounds, 'round')} ({line.open:,} open)"
        say(f"{shown(line.name)}: {line.policy}, {rounds}, since {_moment(line.created)} UTC")
    if not lines:
        say("No campaigns yet. Create one with `tensorucb create`; `tensorucb init` writes a file to begin with.")


def _moment(seconds: float, form: str = "%Y-%m-%d %H:%M") -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime(form)


def _explain(storage: str, name: str, explain: str, user: str | None, json: bool) -> None:
    with campaign_at(storage, name, "status") as campaign:
        user_id = None if user is None else one_id(campaign.graph, user, "--user")
        explanation = campaign.explain(explain, user_id)
    if json:
        emit_record(explanation)
    else:
        say(getattr(explanation, "text", None) or str(explanation))


def _say_why_not(storage: str, name: str, user: str, json: bool) -> None:
    with campaign_at(storage, name, "status") as campaign:
        user_id = one_id(campaign.graph, user, "--user")
        reason = campaign.why_not(user_id)
    said = "may be contacted now" if reason is None else reason
    answer(json, {"user": user_id, "why_not": reason}, f"{shown(user)} {said}.")


def _one(storage: str, name: str, segment: str | None, json: bool) -> None:
    with campaign_at(storage, name, "status") as campaign:
        numbers = campaign.status()
        progress = campaign.progress(segment=segment)
        settings = campaign.settings
        names = campaign.names("products")
        notices = campaign.attention()
        rounds = campaign.rounds() if json else ()
        following = "" if progress.rounds else opt.next_ask(storage, campaign)
    if json:
        window, ask = settings["window"], settings.get("ask", {})
        emit_record(numbers, window=window, ask=ask, rounds=rounds, progress=progress, attention=notices)
        return
    sizes = {"user": numbers.users, "edge": numbers.edges, "product": numbers.products}
    if numbers.strategies:
        sizes["strategy"] = numbers.strategies
    counts = ", ".join(count(number, what) for what, number in sizes.items())
    say(f"{shown(numbers.name)}: {numbers.policy}, {counts}, {count(numbers.rounds, 'round')} ({numbers.open:,} open)")
    if terms := _settings_text(settings):
        say(terms)
    for notice in notices:
        say(f"Attention: {shown(notice.text)}")
    if people := _people_text(numbers):
        say(people)
    if not progress.rounds:
        say("No rounds yet.")
        say_next(following)
        return
    _print_rounds(progress, names)
    _print_segments(progress)
    say(f"Reach: {progress.contacted:,} different users contacted, {progress.reached:,} different users responded.")
    if progress.spend is not None:
        cost = progress.cost_per_responder
        each = "" if cost is None else f" ({money(cost)} per responder, counted once per round)"
        say(f"Spend: {money(progress.spend)}{each}.")
    if progress.revenue is not None:
        say(f"Revenue: {progress.revenue.text}")
        if progress.revenue.calibration is not None:
            say(f"Calibration of the revenue: {progress.revenue.calibration.text}")
    if progress.lift is not None:
        say(f"Lift: {progress.lift.text}")
        if progress.lift.revenue is not None:
            say(f"Lift of the revenue: {progress.lift.revenue.text}")
    elif any(entry.held_out for entry in progress.rounds):
        say(f"Lift: {progress.lift_missing}")
    if progress.calibration is not None:
        say(f"Calibration: {progress.calibration.text}")
    if progress.behind:
        say(f"Model: late responses to {progress.behind} rounds are learned when more have come and a round closes.")
    elif numbers.closed:
        say("Model: up to date; the next ask knows all responses of closed rounds.")
    _print_warnings(numbers)


def _people_text(numbers: CampaignStatus) -> str:
    """How many may not be contacted; empty if nobody said so."""
    others = numbers.opted_out_unknown
    kept = f" ({others:,} more {'is no user' if others == 1 else 'are no users'} here)" if others else ""
    parts = [f"{count(numbers.opted_out, 'user')} opted out{kept}"] if numbers.opted_out or kept else []
    parts += [f"{numbers.no_consent:,} without consent"] if numbers.no_consent else []
    return f"Not to be contacted: {', '.join(parts)}." if parts else ""


def _settings_text(settings: Mapping[str, Any]) -> str:
    """What a campaign does unless it is told something else, in one sentence or two; empty if there is nothing."""
    from tensorucb.moments import duration_text
    from tensorucb.question import ARGUMENTS

    def said(name: str, value: Any) -> str:
        return count(len(value), "user") if ARGUMENTS[name].kind == "users" else shown(value)

    window, defaults = settings["window"], settings.get("ask", {})
    terms = ", ".join(f"{name} = {said(name, value)}" for name, value in defaults.items())
    counts = "" if window is None else f"Responses count for {duration_text(window)}. "
    return (counts + (f"Defaults of ask: {terms}." if terms else "")).rstrip()


def _print_segments(progress: CampaignProgress) -> None:
    """What came of each value of the column that was asked for."""
    if progress.segment is None:
        return
    columns = (shown(progress.segment), "Users", "Contacts", "Expected", "Responded", "Observed", "Believed", "Lift")
    rows = [
        (
            shown(entry.id) + ("" if entry.enough else " *"),
            entry.users,
            entry.contacts,
            "" if entry.expected is None else f"{entry.expected:,.1f}",
            f"{entry.responders:,.1f}",
            f"{100 * entry.observed:.2f} %",
            "" if entry.believed is None else f"{100 * entry.believed:.2f} %",
            "" if entry.lift is None else _lift_text(entry.lift),
        )
        for entry in progress.segments
    ]
    print_table(
        columns,
        rows,
        words=columns[:1],
        caption="Contacted users of closed rounds by this column, and what their followers did; lift in percentage "
        "points with its 90 % interval. * too few to tell: fewer than five different users, or fewer than ten "
        "responders came and were expected.",
    )


def _lift_text(lift: Lift) -> str:
    return f"{100 * lift.difference:+.2f} ({100 * lift.low:+.2f} to {100 * lift.high:+.2f})"


def _print_rounds(progress: CampaignProgress, names: Mapping[int | str, str]) -> None:
    columns = ["Round", "Opened", "Status", "Product", "Users", "Expected", "Responded"]
    if progress.revenue is not None:
        columns.append("Revenue")
    own = [entry for entry in progress.rounds if entry.kind != "history"]
    rows = [_row(entry, names)[: len(columns)] for entry in own[-_SHOWN:]]
    for label, sums in (("closed", progress.closed), ("open", progress.open)):
        if sums.rounds:
            earned = "" if progress.revenue is None else money(getattr(progress.revenue, label))
            rows.append((*_total_row(label, sums), earned)[: len(columns)])
    left_out, imported = len(own) - _SHOWN, len(progress.rounds) - len(own)
    earlier = f"The last {_SHOWN} rounds; the sums count {left_out} earlier ones too. " if left_out > 0 else ""
    print_table(
        columns,
        rows,
        words=("Opened", "Status", "Product"),
        caption=f"{earlier}Expected: users who respond, with its 90 % interval. Responded: users who did so far; "
        "+ and - mark closed rounds above and below the interval.",
    )
    if imported:
        say(f"History: {count(imported, 'round')} imported, which the model learned first; no sum counts them.")


def _row(entry: RoundProgress, names: Mapping[int | str, str]) -> tuple[object, ...]:
    from tensorucb.campaign._round import expectation

    mark = " "
    if entry.expected is not None and entry.within is False:
        mark = "+" if entry.responders > entry.expected.high else "-"
    product = "" if entry.product is None else shown(entry.product)
    if entry.product is not None and entry.product in names:
        product = f"{shown(names[entry.product])} ({product})"
    opened = _moment(entry.opened, "%Y-%m-%d")
    status = entry.status if entry.kind == "ask" else f"{entry.status} {entry.kind}"
    numbers = entry.contacted, expectation(entry.expected), f"{entry.responders:,}{mark}"
    return entry.number, opened, status, product, *numbers, "" if entry.revenue is None else money(entry.revenue)


def _total_row(label: str, sums: Totals) -> tuple[object, ...]:
    """The sums of closed or open rounds; responders of those with an expectation, if there are any."""
    expected = "" if sums.expected is None else f"{sums.expected:,.1f}"
    responders = sums.responders if sums.expected is None else sums.compared
    return "All", "", label, count(sums.rounds, "round"), sums.contacts, expected, f"{responders:,} "


def _print_warnings(numbers: CampaignStatus) -> None:
    if numbers.webhook is not None and (numbers.webhook.pending or numbers.webhook.failed):
        told = f"{numbers.webhook.pending:,} closed rounds to tell, {numbers.webhook.failed:,} given up"
        say(f"Webhook: {told}; `tensorucb webhook {numbers.name}` tries again and says why.")
    if numbers.erasing:
        say(
            "Somebody was forgotten, but the store's files are not rewritten yet, because others read them. "
            "The next command that finds nobody reading finishes it."
        )


def lift(
    name: str | None = Argument(
        None, help="The campaign's name; a plan needs none.", metavar="NAME", show_default=False
    ),
    plan: bool = Option(False, "--plan", help="Say how many rounds with a hold-out show which effect."),
    product: str | None = Option(None, help="Plan: the product of the rounds.", metavar="ID"),
    k: int | None = Option(None, "-k", help="Plan: users of each round.", min=2, max=1000),
    holdout: float | None = Option(None, help="Plan: share of them not to contact.", metavar="SHARE"),
    rounds: int | None = Option(None, help="Plan: which effect do so many rounds show?", min=1),
    effect: float | None = Option(
        None, help="Plan: how many rounds show it? 0.01 is a percentage point.", metavar="SHARE"
    ),
    power: float = Option(0.8, help="Plan: how surely.", metavar="SHARE"),
    followers: float | None = Option(
        None, help="Plan without NAME: of a chosen user, and of no other chosen one.", metavar="N"
    ),
    rate: float | None = Option(None, help="Plan without NAME: share of them who respond anyway.", metavar="SHARE"),
    storage: opt.Storage = STORAGE,
    json: opt.Json = False,
) -> None:
    """Tell what contact changes: responses of followers of contacted users against those held out, with an interval.

    With --plan: how many rounds with a hold-out show which effect. Give --rounds, or --effect, or both to learn how
    surely they show it.
    """
    terms: dict[str, Any] = {"product": product, "k": k, "holdout": holdout, "rounds": rounds, "effect": effect}
    if not plan:
        if name is None:
            raise BadParameter("name the campaign, or give --plan.")
        if any(value is not None for value in (*terms.values(), followers, rate)):
            raise BadParameter("these options belong to a plan; give --plan as well.")
        _measured(storage, typed(name), json)
        return
    if name is not None:
        if followers is not None or rate is not None:
            raise BadParameter("the campaign knows --followers and --rate; leave them out.")
        with campaign_at(storage, typed(name), "lift") as campaign:
            planned = campaign.plan_lift(**terms, power=power)
    else:
        from tensorucb.campaign import plan_lift

        if followers is None or rate is None or product is not None:
            raise BadParameter("without a campaign, --plan needs --followers and --rate, and no --product.")
        named: dict[str, Any] = {"users": k, "holdout": holdout, "rounds": rounds, "effect": effect}
        planned = plan_lift(
            followers, rate, power=power, **{name: value for name, value in named.items() if value is not None}
        )
    if json:
        emit_record(planned)
    else:
        say(f"Plan: {planned.text}")


def _measured(storage: str, name: str, json: bool) -> None:
    with campaign_at(storage, name, "lift") as campaign:
        measured = campaign.lift()
    if json:
        emit_record(measured)
        return
    rows: list[tuple[str, ...]] = [
        ("contacted", f"{measured.contacted_followers:,}", f"{100 * measured.contacted_rate:.2f} %"),
        ("held out", f"{measured.held_out_followers:,}", f"{100 * measured.held_out_rate:.2f} %"),
    ]
    columns = ["Followers of users who were", "Followers", "Responded"]
    if measured.revenue is not None:
        columns.append("Revenue per follower")
        each = measured.revenue.contacted, measured.revenue.held_out
        rows = [(*row, money(revenue)) for row, revenue in zip(rows, each, strict=True)]
    print_table(columns, rows, words=columns[:1])
    say(f"Lift: {measured.text}")
    if measured.revenue is not None:
        say(f"Lift of the revenue: {measured.revenue.text}")


def expire(name: opt.Name, storage: opt.Storage = STORAGE, json: opt.Json = False) -> None:
    """Close the rounds whose deadline has passed, as a scheduler would every hour; say which."""
    with campaign_at(storage, name, "expire") as campaign:
        closed, left = campaign.expire(), campaign.status().open
    rounds = ", ".join(map(shown, closed))
    said = f"Closed, since their deadline has passed: {rounds}." if closed else "No round is due."
    still_open = [f"Still open: {count(left, 'round')}."] if left else []
    answer(json, {"closed": closed, "open": left}, said, *still_open)


def report(
    name: opt.Name,
    out: opt.OutFile = Path("report.html"),
    segment: _Segment = None,
    storage: opt.Storage = STORAGE,
    json: opt.Json = False,
) -> None:
    """Write one HTML page on how a campaign is going, with figures; it needs nothing else and fetches nothing."""
    with campaign_at(storage, name, "report") as campaign:
        from tensorucb.plots import campaign_report

        page = campaign_report(campaign.progress(segment=segment)).save(out)
    answer(json, {"report": str(page)}, f"Report: {shown(page)}")


def export(
    name: opt.Name,
    out: opt.OutDirectory,
    csv: bool = Option(False, "--csv", help="CSV files, for a spreadsheet, instead of Parquet."),
    storage: opt.Storage = STORAGE,
    json: opt.Json = False,
) -> None:
    """Write a campaign as Parquet or CSV files: rounds, seeds, responses, credited edges, the log, users, products."""
    with campaign_at(storage, name, "export") as campaign:
        files = [str(path) for path in campaign.export(out, "csv" if csv else "parquet")]
    answer(json, {"files": files}, *map(shown, files))
