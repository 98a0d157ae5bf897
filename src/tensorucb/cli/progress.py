"""The commands that tell how a campaign is going: ``status``, ``report``, ``lift``, ``expire``, ``export``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, BadParameter, Option

from tensorucb.cli import _options as opt
from tensorucb.cli._options import STORAGE, campaign_at, one_id, typed
from tensorucb.cli._output import count, emit_json, emit_record, print_table, say, shown

if TYPE_CHECKING:
    from tensorucb.campaign import CampaignProgress, CampaignStatus, RoundProgress, Totals

_SHOWN = 20  # rounds that `status` prints


def status(
    name: Annotated[str | None, Argument(help="The campaign's name; without, all.", metavar="NAME")] = None,
    explain: Annotated[
        str | None, Option(help="Explain the choice of this round.", metavar="ROUND", show_default=False)
    ] = None,
    user: Annotated[
        str | None, Option(help="With --explain: why this user was chosen or not.", metavar="ID", show_default=False)
    ] = None,
    storage: opt.Storage = STORAGE,
    json: opt.Json = False,
) -> None:
    """List the campaigns of a store, or tell how one is going: responses beside expectation; or explain a round."""
    if (explain is not None and name is None) or (user is not None and explain is None):
        raise BadParameter("--explain needs a campaign's NAME, and --user needs --explain.")
    if name is None:
        _list_all(storage, json)
    elif explain is not None:
        _explain(storage, typed(name), explain, user, json)
    else:
        _one(storage, typed(name), json)


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
        known = None if user is None else one_id(campaign.graph, user, "--user")
        explanation = campaign.explain(explain, known)
    if json:
        emit_record(explanation)
    else:
        say(getattr(explanation, "text", None) or str(explanation))


def _one(storage: str, name: str, json: bool) -> None:
    with campaign_at(storage, name, "status") as campaign:
        numbers, progress, settings = campaign.status(), campaign.progress(), campaign.settings
        rounds = campaign.rounds() if json else ()
    if json:
        window, ask = settings["window"], settings.get("ask", {})
        emit_record(numbers, window=window, ask=ask, rounds=rounds, progress=progress)
        return
    sizes = {"user": numbers.users, "edge": numbers.edges, "product": numbers.products}
    strategies = [f"{numbers.strategies:,} strategies"] if numbers.strategies else []
    counts = ", ".join([*(count(number, what) for what, number in sizes.items()), *strategies])
    say(f"{shown(numbers.name)}: {numbers.policy}, {counts}, {count(numbers.rounds, 'round')} ({numbers.open:,} open)")
    if terms := _settings_text(settings):
        say(terms)
    if not progress.rounds:
        say(f"No rounds yet. Open one with `{opt.next_command(storage, 'tensorucb', 'ask', name)}`.")
        return
    _print_rounds(progress)
    say(f"Reach: {progress.contacted:,} different users contacted, {progress.reached:,} different users responded.")
    if progress.spend is not None:
        responders = progress.closed.responders + progress.open.responders
        each = (
            f" ({progress.spend / responders:,.3g} per responder, counted once per round)"
            if responders and progress.spend
            else ""
        )
        say(f"Spend: {progress.spend:,.6g}{each}.")
    if progress.lift is not None:
        say(f"Lift: {progress.lift.text}")
    elif any(entry.held_out for entry in progress.rounds):
        say(f"Lift: {progress.lift_missing}")
    if progress.calibration is not None:
        say(f"Calibration: {progress.calibration.text}")
    if progress.behind:
        say(f"Model: late responses to {progress.behind} rounds are learned when more have come and a round closes.")
    elif numbers.closed:
        say("Model: up to date; the next ask knows all responses of closed rounds.")
    _print_warnings(numbers)


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


def _print_rounds(progress: CampaignProgress) -> None:
    columns = ("Round", "Opened", "Status", "Product", "Users", "Expected", "Responded")
    own = [entry for entry in progress.rounds if entry.kind != "history"]
    rows = [_row(entry) for entry in own[-_SHOWN:]]
    for label, sums in (("closed", progress.closed), ("open", progress.open)):
        if sums.rounds:
            rows.append(_total_row(label, sums))
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


def _row(entry: RoundProgress) -> tuple[object, ...]:
    from tensorucb.campaign._round import expectation

    mark = " "
    if entry.expected is not None and entry.within is False:
        mark = "+" if entry.responders > entry.expected.high else "-"
    product = "" if entry.product is None else shown(entry.product)
    opened = _moment(entry.opened, "%Y-%m-%d")
    status = entry.status if entry.kind == "ask" else f"{entry.status} {entry.kind}"
    numbers = entry.contacted, expectation(entry.expected), f"{entry.responders:,}{mark}"
    return entry.number, opened, status, product, *numbers


def _total_row(label: str, sums: Totals) -> tuple[object, ...]:
    """The sums of closed or open rounds; responders of those with an expectation, if there are any."""
    expected = "" if sums.expected is None else f"{sums.expected:,.1f}"
    responders = sums.responders if sums.expected is None else sums.compared
    return "All", "", label, count(sums.rounds, "round"), sums.contacts, expected, f"{responders:,} "


def _print_warnings(numbers: CampaignStatus) -> None:
    for round_id, reason in numbers.quarantined.items():
        say(
            f"Round {round_id} could not be learned and is left out of the model: {shown(reason or 'see the log')}. "
            "`tensorucb close --cancel` drops it."
        )
    if numbers.webhook is not None and (numbers.webhook.pending or numbers.webhook.failed):
        told = f"{numbers.webhook.pending:,} closed rounds to tell, {numbers.webhook.failed:,} given up"
        say(f"Webhook: {told}; `tensorucb webhook {numbers.name}` tries again and says why.")
    if numbers.erasing:
        say(
            "Somebody was forgotten, but the store's files are not rewritten yet, because others read them. "
            "The next command that finds nobody reading finishes it."
        )


def lift(name: opt.Name, storage: opt.Storage = STORAGE, json: opt.Json = False) -> None:
    """Tell what contact changes: responses of followers of contacted users against those held out, with an interval."""
    with campaign_at(storage, name, "lift") as campaign:
        found = campaign.lift()
    if json:
        emit_record(found)
        return
    rows = [
        ("contacted", f"{found.contacted_followers:,}", f"{100 * found.contacted_rate:.2f} %"),
        ("held out", f"{found.held_out_followers:,}", f"{100 * found.held_out_rate:.2f} %"),
    ]
    print_table(("Followers of users who were", "Followers", "Responded"), rows, words=("Followers of users who were",))
    say(f"Lift: {found.text}")


def expire(name: opt.Name, storage: opt.Storage = STORAGE, json: opt.Json = False) -> None:
    """Close the rounds whose deadline has passed, as a scheduler would every hour; say which."""
    with campaign_at(storage, name, "expire") as campaign:
        closed, left = campaign.expire(), campaign.status().open
    if json:
        emit_json({"closed": closed, "open": left})
        return
    if closed:
        say(f"Closed, since their deadline has passed: {', '.join(map(shown, closed))}.")
    else:
        say("No round is due.")
    if left:
        say(f"Still open: {count(left, 'round')}.")


def report(
    name: opt.Name,
    out: opt.OutFile = Path("report.html"),
    storage: opt.Storage = STORAGE,
    json: opt.Json = False,
) -> None:
    """Write one HTML page on how a campaign is going, with figures; it needs nothing else and fetches nothing."""
    with campaign_at(storage, name, "report") as campaign:
        from tensorucb.plots import campaign_report

        page = campaign_report(campaign.progress()).save(out)
    if json:
        emit_json({"report": str(page)})
        return
    say(f"Report: {shown(page)}")


def export(
    name: opt.Name,
    out: opt.OutDirectory,
    csv: Annotated[bool, Option("--csv", help="CSV files, for a spreadsheet, instead of Parquet.")] = False,
    storage: opt.Storage = STORAGE,
    json: opt.Json = False,
) -> None:
    """Write a campaign as Parquet or CSV files: rounds, seeds, responses, credited edges, the log, users, products."""
    with campaign_at(storage, name, "export") as campaign:
        files = [str(path) for path in campaign.export(out, "csv" if csv else "parquet")]
    if json:
        emit_json({"files": files})
        return
    for path in files:
        say(shown(path))
