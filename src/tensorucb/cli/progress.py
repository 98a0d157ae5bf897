"""The commands that tell how a campaign is going: ``status``, ``report``, ``lift``, ``expire``, ``export``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, BadParameter, Option

from tensorucb.cli import _options as opt
from tensorucb.cli._options import STORAGE, campaign_at, one_id, refuse, typed
from tensorucb.cli._output import Answer, Block, Next, Table, count, moment, shown
from tensorucb.money import money

if TYPE_CHECKING:
    from tensorucb.campaign import (
        Campaign,
        CampaignInfo,
        CampaignProgress,
        CampaignStatus,
        Lift,
        Notice,
        RoundProgress,
        Totals,
    )

_SHOWN = 20  # rounds that `status` prints
_POWER = 0.8  # how surely a plan for the lift is to show its effect
_Segment = Annotated[str | None, Option(help="Split by this column of the table of users.", metavar="COLUMN")]


def status(
    name: str | None = Argument(None, help="The campaign's name; without, all.", metavar="NAME"),
    explain: str | None = Option(None, help="Explain the choice of this round.", metavar="ROUND"),
    user: str | None = Option(
        None, help="Whether this user may be contacted now; with --explain, why they were chosen or not.", metavar="ID"
    ),
    segment: _Segment = None,
    storage: opt.Storage = STORAGE,
    json: opt.Json = False,
) -> Answer:
    """List the campaigns of a store, or tell how one is going: responses beside expectation; or explain a round."""
    if name is None:
        of_one = (explain, user, segment) != (None, None, None)
        refuse(of_one, "--explain, --user and --segment need a campaign's NAME.")
        from tensorucb.campaign import all_attention, list_campaigns

        lines = list_campaigns(storage)
        attention = all_attention(storage)
        return Answer({"campaigns": lines, "attention": attention}, _listed(lines, attention))
    with campaign_at(storage, typed(name), "status") as campaign:
        user_id = None if user is None else one_id(campaign.graph, user, "--user")
        if explain is not None:
            explanation = campaign.explain(explain, user_id)
            return Answer(explanation, getattr(explanation, "text", None) or str(explanation))
        if user_id is not None:
            reason = campaign.why_not(user_id)
            said = "may be contacted now" if reason is None else reason
            return Answer({"user": user_id, "why_not": reason}, f"{shown(user)} {said}.")
        numbers = campaign.status()
        progress = campaign.progress(segment=segment)
        settings = campaign.settings
        notices = campaign.attention()
        rounds = campaign.rounds() if json else ()
        following = "" if progress.rounds else opt.next_ask(storage, campaign)
        texts = [_settings_text(settings), *(f"Attention: {shown(notice.text)}" for notice in notices)]
        blocks = _going(numbers, progress, texts, campaign.names("products"), following)
    window, ask = settings["window"], settings.get("ask", {})
    return Answer(numbers, blocks, window=window, ask=ask, rounds=rounds, progress=progress, attention=notices)


def _listed(lines: Sequence[CampaignInfo], attention: Mapping[str, Sequence[Notice]]) -> Iterator[Block]:
    for line in lines:
        rounds = f"{count(line.rounds, 'round')} ({line.open:,} open)"
        yield f"{shown(line.name)}: {line.policy}, {rounds}, since {moment(line.created)} UTC"
        notices = attention.get(line.name, ())
        if notices:
            more = f" ({len(notices) - 1:,} more: `tensorucb status {shown(line.name)}`)" if len(notices) > 1 else ""
            yield f"  Attention: {shown(notices[0].text)}{more}"
    if not lines:
        yield "No campaigns yet. Create one with `tensorucb create`; `tensorucb init` writes a file to begin with."


def _going(
    numbers: CampaignStatus,
    progress: CampaignProgress,
    texts: Sequence[str],
    names: Mapping[int | str, str],
    following: str,
) -> Iterator[Block]:
    sizes = {"user": numbers.users, "edge": numbers.edges, "product": numbers.products}
    if numbers.strategies:
        sizes["strategy"] = numbers.strategies
    counts = ", ".join(count(number, what) for what, number in sizes.items())
    rounds = f"{count(numbers.rounds, 'round')} ({numbers.open:,} open)"
    yield f"{shown(numbers.name)}: {numbers.policy}, {counts}, {rounds}"
    yield from filter(None, (*texts, _people_text(numbers)))
    if not progress.rounds:
        yield "No rounds yet."
        yield Next(following)
        return
    yield from _rounds(progress, names)
    yield from _segments(progress)
    yield f"Reach: {progress.contacted:,} different users contacted, {progress.reached:,} different users responded."
    if progress.spend is not None:
        cost = progress.cost_per_responder
        each = "" if cost is None else f" ({money(cost)} per responder, counted once per round)"
        yield f"Spend: {money(progress.spend)}{each}."
    if progress.revenue is not None:
        yield f"Revenue: {progress.revenue.text}"
        if progress.revenue.calibration is not None:
            yield f"Calibration of the revenue: {progress.revenue.calibration.text}"
    if progress.lift is not None:
        yield from _lift_lines(progress.lift)
    elif any(entry.held_out for entry in progress.rounds):
        yield f"Lift: {progress.lift_missing}"
    if progress.calibration is not None:
        yield f"Calibration: {progress.calibration.text}"
    if progress.behind:
        late = count(progress.behind, "round")
        yield f"Model: late responses to {late} are learned when more have come and a round closes."
    elif numbers.closed:
        yield "Model: up to date; the next ask knows all responses of closed rounds."
    if numbers.webhook is not None and (numbers.webhook.pending or numbers.webhook.failed):
        told = f"{count(numbers.webhook.pending, 'closed round')} to tell, {numbers.webhook.failed:,} given up"
        yield f"Webhook: {told}; `tensorucb webhook {numbers.name}` tries again and says why."
    if numbers.erasing:
        yield (
            "Somebody was forgotten, but the store's files are not rewritten yet, because others read them. "
            "The next command that finds nobody reading finishes it."
        )


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


def _segments(progress: CampaignProgress) -> Iterator[Block]:
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
    yield Table(
        columns,
        rows,
        words=columns[:1],
        caption="Contacted users of closed rounds by this column, and what their followers did; lift in percentage "
        "points with its 90 % interval. * too few to tell: fewer than five different users, or fewer than ten "
        "responders came and were expected.",
    )


def _lift_text(lift: Lift) -> str:
    return f"{100 * lift.difference:+z.2f} ({100 * lift.low:+z.2f} to {100 * lift.high:+z.2f})"


def _rounds(progress: CampaignProgress, names: Mapping[int | str, str]) -> Iterator[Block]:
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
    yield Table(
        columns,
        rows,
        words=("Opened", "Status", "Product"),
        caption=f"{earlier}Expected: users who respond, with its 90 % interval. Responded: users who did so far; "
        "+ and - mark closed rounds above and below the interval.",
    )
    if imported:
        yield f"History: {count(imported, 'round')} imported, which the model learned first; no sum counts them."


def _row(entry: RoundProgress, names: Mapping[int | str, str]) -> tuple[object, ...]:
    from tensorucb.campaign._round import expectation

    mark = " "
    if entry.expected is not None and entry.within is False:
        mark = "+" if entry.responders > entry.expected.high else "-"
    product = "" if entry.product is None else shown(entry.product)
    if entry.product is not None and entry.product in names:
        product = f"{shown(names[entry.product])} ({product})"
    opened = moment(entry.opened, "%Y-%m-%d")
    status = entry.status if entry.kind == "ask" else f"{entry.status} {entry.kind}"
    numbers = entry.contacted, expectation(entry.expected), f"{entry.responders:,}{mark}"
    return entry.number, opened, status, product, *numbers, "" if entry.revenue is None else money(entry.revenue)


def _total_row(label: str, sums: Totals) -> tuple[object, ...]:
    """The sums of closed or open rounds; responders of those with an expectation, if there are any."""
    expected = "" if sums.expected is None else f"{sums.expected:,.1f}"
    responders = sums.responders if sums.expected is None else sums.compared
    return "All", "", label, count(sums.rounds, "round"), sums.contacts, expected, f"{responders:,} "


def lift(
    name: str | None = Argument(None, help="The campaign's name; a plan needs none.", metavar="NAME"),
    plan: bool = Option(False, help="Say how many rounds with a hold-out show which effect."),
    product: str | None = Option(None, help="Plan: the product of the rounds.", metavar="ID"),
    k: int | None = Option(None, "-k", help="Plan: users of each round.", min=2, max=1000),
    holdout: float | None = Option(None, help="Plan: share of them not to contact.", metavar="SHARE"),
    rounds: int | None = Option(None, help="Plan: which effect do so many rounds show?", min=1),
    effect: float | None = Option(
        None, help="Plan: how many rounds show it? 0.01 is a percentage point.", metavar="SHARE"
    ),
    power: float = Option(_POWER, help="Plan: how surely.", metavar="SHARE"),
    followers: float | None = Option(
        None, help="Plan without NAME: of a chosen user, and of no other chosen one.", metavar="N"
    ),
    rate: float | None = Option(None, help="Plan without NAME: share of them who respond anyway.", metavar="SHARE"),
    storage: opt.Storage = STORAGE,
) -> Answer:
    """Tell what contact changes: responses of followers of contacted users against those held out, with an interval.

    With --plan: how many rounds with a hold-out show which effect. Give --rounds, or --effect, or both to learn how
    surely they show it.
    """
    terms: dict[str, Any] = {"product": product, "k": k, "holdout": holdout, "rounds": rounds, "effect": effect}
    given = {name for name, value in terms.items() if value is not None}
    if name is None:
        from tensorucb.campaign import plan_lift

        refuse(not plan, "name the campaign, or give --plan.")
        if followers is None or rate is None or product is not None:
            raise BadParameter("without a campaign, --plan needs --followers and --rate, and no --product.")
        options = {"users" if term == "k" else term: terms[term] for term in given}
        planned = plan_lift(followers, rate, power=power, **options)
        return Answer(planned, f"Plan: {planned.text}")
    of_a_network = followers is not None or rate is not None
    wanted = bool(given) or of_a_network or power != _POWER
    refuse(wanted and not plan, "these options belong to a plan; give --plan as well.")
    refuse(of_a_network, "the campaign knows --followers and --rate; leave them out.")
    with campaign_at(storage, typed(name), "lift") as campaign:
        if plan:
            planned = campaign.plan_lift(**terms, power=power)
            return Answer(planned, f"Plan: {planned.text}")
        measured = campaign.lift()
    return Answer(measured, _measured(measured), _lift_lines(measured))


def _lift_lines(measured: Lift) -> Iterator[Block]:
    yield f"Lift: {measured.text}"
    if measured.revenue is not None:
        yield f"Lift of the revenue: {measured.revenue.text}"


def _measured(measured: Lift) -> Iterator[Block]:
    rows: list[tuple[str, ...]] = [
        ("contacted", f"{measured.contacted_followers:,}", f"{100 * measured.contacted_rate:.2f} %"),
        ("held out", f"{measured.held_out_followers:,}", f"{100 * measured.held_out_rate:.2f} %"),
    ]
    columns = ["Followers of users who were", "Followers", "Responded"]
    if measured.revenue is not None:
        columns.append("Revenue per follower")
        each = measured.revenue.contacted, measured.revenue.held_out
        rows = [(*row, money(revenue)) for row, revenue in zip(rows, each, strict=True)]
    yield Table(columns, rows, words=columns[:1])


def expire(campaign: Campaign) -> Answer:
    """Close the rounds whose deadline has passed, as a scheduler would every hour; say which."""
    closed = campaign.expire()
    left = campaign.status().open
    rounds = ", ".join(map(shown, closed))
    said = f"Closed, since their deadline has passed: {rounds}." if closed else "No round is due."
    return Answer({"closed": closed, "open": left}, said, [f"Still open: {count(left, 'round')}."] if left else ())


def report(campaign: Campaign, out: opt.OutFile = Path("report.html"), segment: _Segment = None) -> Answer:
    """Write one HTML page on how a campaign is going, with figures; it needs nothing else and fetches nothing."""
    from tensorucb.plots import campaign_report

    page = campaign_report(campaign.progress(segment=segment)).save(out)
    return Answer({"report": str(page)}, f"Report: {shown(page)}")


def export(
    campaign: Campaign,
    out: opt.OutDirectory,
    csv: bool = Option(False, help="CSV files, for a spreadsheet, instead of Parquet."),
) -> Answer:
    """Write a campaign as Parquet or CSV files: rounds, seeds, responses, credited edges, the log, users, products."""
    files = [str(path) for path in campaign.export(out, "csv" if csv else "parquet")]
    return Answer({"files": files}, map(shown, files))
