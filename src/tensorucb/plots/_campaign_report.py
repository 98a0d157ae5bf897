"""The page on how a campaign is going, put together from its figures and tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from tensorucb import __version__
from tensorucb.campaign import CampaignProgress, GroupProgress
from tensorucb.checks import check_instance
from tensorucb.money import money
from tensorucb.plots._campaign import MOST_GROUPS, believed_and_observed, lift_interval
from tensorucb.plots._report import Block, Figure, Report, Section, Table, Text
from tensorucb.plots._rounds import (
    expected_and_observed,
    group_label,
    product_names,
    running_calibration,
    running_spend,
    running_sums,
)

FEWEST = 3  # rounds that a line is drawn through
_TABLED = 20  # rows of a table
_RATES = ("Observed", "Believed", "Responses", "Followers", "Contacts")  # the first ones are seen on a phone too

EXPECTED = """\
When a round is opened, the campaign says how many users will respond, with an interval that should hold the number in \
90 of 100 rounds. Counted are different followers of the contacted users who respond within the window; the contacted \
users themselves do not count. So the two numbers of a round mean the same and can be compared."""
_OPEN = "Open rounds are still counting: their number can only grow."
CALIBRATION = """\
If the intervals are honest, about 90 of 100 hold. After a few rounds the share says little; the interval of the \
share shows what so few rounds cannot rule out. A share clearly below 90 % means that forecasts are too sure of \
themselves: plan with wider margins. The campaign widens its intervals after a miss."""
LIFT = """\
Some of the chosen users, drawn at random, were not contacted. Followers of contacted users are compared with \
followers of those held out, within each round. The difference is what contact adds to the share of followers who \
respond."""
_NO_LIFT = """\
How many of these responses would have come anyway? To find out, hold out a share of the chosen users at random, for \
example 20 %, when you open a round."""
_USERS = """\
The users who were contacted most, in closed rounds. Rates are shares of followers, each of whom counts once per \
round: for the first contacted user they follow, in the order of choice. So the rates of users average to that of the \
product. Believed is the share that was expected to respond when the rounds were opened, observed the share that did."""
GROUPS = """\
Rates are shares of the followers of contacted users, each of whom counts once per round. Believed is the share that \
was expected to respond when the rounds were opened, observed the share that did. Where the two differ, the next \
rounds take it into account."""


_REVENUE = """\
What a response is worth is the amount told with it; without one, the value of the product times that of the user, \
where such values are known. Amounts are heavy-tailed, so a single large one counts little: expected amounts are means \
of logarithms by product and user, shrunk towards the overall mean as far as few amounts are known, and scaled so that \
they add up to what came."""
_RETURN = """\
The return counts all responses, also those that would have come without contact. What contact adds is measured by \
holding out."""

SEGMENTS = """\
Contacted users, split by a column of their table. Followers and responses are those of the users of each line: what \
these users bring, whoever responds. Where fewer than five different users were contacted, or fewer than ten \
responders came and were expected, the numbers are too few to tell anything."""


def campaign_report(progress: CampaignProgress) -> Report:
    """One page on how a campaign is going, with figures, tables and explanations; ``save`` writes it as HTML.

    Parameters
    ----------
    progress
        What :meth:`Campaign.progress` returns.

    Examples
    --------
    >>> from tensorucb import Graph, create_campaign
    >>> from tensorucb.policies import HighDegree
    >>> graph = Graph.from_edges(["ann", "ann", "bob"], ["bob", "cid", "cid"])
    >>> campaign = create_campaign("spring", graph=graph, policy=HighDegree(), storage="memory://")
    >>> campaign_report(campaign.progress()).save("report.html").name
    'report.html'
    """
    check_instance("progress", progress, CampaignProgress, "a CampaignProgress", "campaign.progress() makes one.")
    blocks_by_title = {
        "Responses beside expectation": _rounds(progress),
        "Reach and spending": _sums(progress),
        "Revenue": _revenue(progress),
        "Can the forecasts be trusted?": _calibration(progress),
        "Does contact change anything?": _lift(progress),
        "Who was contacted most, and what their followers did": _groups("User", progress.users, _USERS),
        "Products": _groups("Product", progress.products, GROUPS, "products"),
        "Strategies": _groups("Strategy", progress.strategies, GROUPS, "strategies"),
        f"By {progress.segment}": _segments(progress),
    }
    return Report(
        f"How is {progress.name} going?",
        lede="What was expected of each round, what came, and how far the forecasts can be trusted.",
        facts=[
            ("rounds closed", f"{progress.closed.rounds:,}"),
            ("rounds open", f"{progress.open.rounds:,}"),
            ("users contacted", f"{progress.contacted:,}"),
            *([("decided by", "value")] if progress.metric == "value" else []),
            *([("model behind by rounds", f"{progress.behind:,}")] if progress.behind else []),
        ],
        numbers=_numbers(progress),
        sections=[Section(title, blocks) for title, blocks in blocks_by_title.items() if blocks],
        footer=f"tensorucb {__version__}",
    )


def _numbers(progress: CampaignProgress) -> list[tuple[str, str]]:
    closed = progress.closed
    intervals = progress.calibration
    numbers = [(f"{progress.reached:,}", "different users have responded")]
    if closed.expected is not None:
        numbers.insert(0, (f"{closed.compared:,}", f"responses in closed rounds; {closed.expected:,.0f} were expected"))
    if progress.spend is not None:
        numbers.append((money(progress.spend), "spent on contacts"))
    if progress.revenue is not None:
        expected = progress.revenue.expected
        more = "" if expected is None else f"; {money(expected)} were expected"
        numbers.append((money(progress.revenue.closed), f"revenue of closed rounds{more}"))
        if progress.revenue.return_on_cost is not None:
            numbers.append((money(progress.revenue.return_on_cost), "revenue for each unit spent"))
    if intervals is not None:
        numbers.append((f"{intervals.held} of {intervals.rounds}", "intervals held; 90 % are promised"))
    if progress.lift is not None and progress.lift.responders:
        numbers.append((_points(progress.lift.difference), "percentage points of followers by contact"))
    return numbers


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _points(share: float) -> str:
    return f"{100 * share:+z.2f}".replace("-", "−")


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def _tenths(number: float) -> str:
    return f"{number:,.1f}"


def _if_known(value: Any, text: Callable[[Any], str]) -> str:
    return "–" if value is None else text(value)


def _rounds(progress: CampaignProgress) -> list[Block]:
    if not progress.rounds:
        return [Text("No round has been opened yet.")]
    blocks: list[Block] = [Text(EXPECTED)]
    if any(entry.expected is not None for entry in progress.rounds):
        blocks.append(Figure(expected_and_observed(progress)))
    if progress.open.rounds:
        blocks.append(Text(_OPEN))
    if len(progress.rounds) > _TABLED:
        blocks.append(Text(f"The last {_TABLED} rounds:"))
    names = product_names(progress)
    zone = ZoneInfo(progress.timezone)
    columns = ("Round", "Responded", "Expected", "90 % interval", "Status", "Contacted", "Opened", "Product")
    rows = [
        (
            f"{entry.number}",
            f"{entry.responders:,}",
            _if_known(entry.expected, lambda reach: _tenths(reach.mean)),
            _if_known(entry.expected, lambda reach: f"{reach.low:,.0f} – {reach.high:,.0f}"),
            entry.status if entry.kind == "ask" else f"{entry.status} ({entry.kind})",
            f"{entry.contacted:,}",
            datetime.fromtimestamp(entry.opened, zone).strftime("%d\xa0%b\xa0%Y"),
            "by features" if entry.product is None else names.get(entry.product, str(entry.product)),
        )
        for entry in progress.rounds[-_TABLED:]
    ]
    return [*blocks, Table(columns, rows)]


def _sums(progress: CampaignProgress) -> list[Block]:
    blocks: list[Block] = []
    if sum(entry.within is not None for entry in progress.rounds) >= FEWEST:
        blocks.append(Figure(running_sums(progress)))
    if progress.spend is not None:
        cost = progress.cost_per_responder
        each = "" if cost is None else f", {money(cost)} per responder"
        blocks.append(Text(f"Contacting users has cost {money(progress.spend)} so far{each}."))
        if sum(entry.spend is not None for entry in progress.rounds) >= FEWEST:
            blocks.append(Figure(running_spend(progress)))
    return blocks


def _revenue(progress: CampaignProgress) -> list[Block]:
    """What the responses were worth, in total and in each round."""
    revenue = progress.revenue
    if revenue is None:
        return []
    blocks: list[Block] = [Text(revenue.text), Text(_REVENUE)]
    if revenue.return_on_cost is not None:
        blocks.append(Text(_RETURN))
    columns = ("Round", "Revenue", "Expected", "90 % interval", "Spent", "Responded", "Status")
    entries = [entry for entry in progress.rounds if entry.kind != "history"][-_TABLED:]
    promised = [None if entry.expected is None else entry.expected.revenue for entry in entries]
    rows = [
        (
            f"{entry.number}",
            _if_known(entry.revenue, money),
            _if_known(reach, lambda reach: money(reach.mean)),
            _if_known(reach, lambda reach: f"{money(reach.low)} – {money(reach.high)}"),
            _if_known(entry.spend, money),
            f"{entry.responders:,}",
            entry.status,
        )
        for entry, reach in zip(entries, promised, strict=True)
    ]
    blocks.append(Table(columns, rows))
    if revenue.calibration is not None:
        blocks.append(Text(_sentence(revenue.calibration.text)))
    return blocks


def _calibration(progress: CampaignProgress) -> list[Block]:
    intervals = progress.calibration
    if intervals is None:
        return []
    figure = [Figure(running_calibration(progress))] if intervals.rounds >= FEWEST else []
    return [Text(_sentence(intervals.text)), *figure, Text(CALIBRATION)]


def _lift(progress: CampaignProgress) -> list[Block]:
    lift = progress.lift
    if lift is None:
        held = any(entry.held_out for entry in progress.rounds)
        return [Text(f"Not known yet: {progress.lift_missing}" if held else _NO_LIFT)]
    said = (
        f"Of {lift.contacted_followers:,} followers of contacted users {_percent(lift.contacted_rate)} responded, of "
        f"{lift.held_out_followers:,} followers of held-out users {_percent(lift.held_out_rate)}. "
        f"{_sentence(lift.text)}"
    )
    revenue = [] if lift.revenue is None else [Text(_sentence(lift.revenue.text))]
    return [Text(LIFT), Figure(lift_interval(lift)), Text(said), *revenue]


def _groups(first: str, groups: Sequence[GroupProgress], about: str, drawn: str = "") -> list[Block]:
    """A table of groups, and with ``drawn``, the plural of what they are, a figure."""
    if not groups:
        return []
    blocks: list[Block] = [Text(about)]
    believed = sum(group.believed is not None for group in groups)
    if drawn and believed:
        caption = f"The {MOST_GROUPS} {drawn} with the most contacts." if believed > MOST_GROUPS else ""
        blocks.append(Figure(believed_and_observed(groups, drawn), caption))
    return [*blocks, Table((first, *_RATES), [_cells(group) for group in groups[:_TABLED]])]


def _cells(group: GroupProgress) -> tuple[str, ...]:
    return (
        group_label(group),
        _percent(group.observed),
        _if_known(group.believed, _percent),
        _tenths(group.responders).removesuffix(".0"),
        f"{group.followers:,}",
        f"{group.contacts:,}",
    )


def _segments(progress: CampaignProgress) -> list[Block]:
    if not progress.segments:
        return []
    columns = (_sentence(progress.segment or ""), *_RATES, "Users", "Expected", "Lift in points (90 %)")
    rows = []
    for entry in progress.segments:
        label, *cells = _cells(entry)
        few = "" if entry.enough else ": too few to tell"
        lift = _if_known(entry.lift, lambda it: f"{_points(it.difference)} ({_points(it.low)} to {_points(it.high)})")
        rows.append((label + few, *cells, f"{entry.users:,}", _if_known(entry.expected, _tenths), lift))
    return [Text(SEGMENTS), Table(columns, rows)]
