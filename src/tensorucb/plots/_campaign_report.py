"""The page on how a campaign is going, put together from its figures and tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from tensorucb import __version__
from tensorucb.campaign import CampaignProgress, GroupProgress, RoundProgress
from tensorucb.checks import check_instance
from tensorucb.plots._campaign import (
    MOST_GROUPS,
    MOST_ROUNDS,
    believed_and_observed,
    expected_and_observed,
    lift_interval,
    running_calibration,
    running_spend,
    running_sums,
)
from tensorucb.plots._report import Block, Figure, Report, Section, Table, Text

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
The users who were contacted most, in closed rounds. Followers are counted once per round. Somebody who follows \
several contacted users counts in equal parts for each of them, so that the responses add up. Believed is the share of \
followers that was expected to respond when the rounds were opened."""
_GROUPS = """\
Believed is the share of followers that was expected to respond when the rounds were opened, observed is the share \
that did. Where the two differ, the next rounds take it into account."""


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
    sections = [_rounds(progress), *_sums(progress), *_calibration(progress), _lift(progress)]
    if progress.users:
        sections.append(Section("Who was contacted most, and what their followers did", _user_blocks(progress.users)))
    for groups, what in ((progress.products, "products"), (progress.strategies, "strategies")):
        if groups:
            sections.append(Section(what.capitalize(), _group_blocks(groups, what)))
    closed, still = progress.closed, progress.open
    return Report(
        f"How is {progress.name} going?",
        lede="What was expected of each round, what came, and how far the forecasts can be trusted.",
        facts=[
            ("rounds closed", f"{closed.rounds:,}"),
            ("rounds open", f"{still.rounds:,}"),
            ("users contacted", f"{progress.contacted:,}"),
            *([("model behind by rounds", f"{progress.behind:,}")] if progress.behind else []),
        ],
        numbers=_numbers(progress),
        sections=sections,
        footer=f"tensorucb {__version__}",
    )


def _numbers(progress: CampaignProgress) -> list[tuple[str, str]]:
    closed, found = progress.closed, progress.calibration
    numbers = [(f"{progress.reached:,}", "different users have responded")]
    if closed.expected is not None:
        numbers.insert(0, (f"{closed.compared:,}", f"responses in closed rounds; {closed.expected:,.0f} were expected"))
    if progress.spend is not None:
        numbers.append((f"{progress.spend:,.10g}", "spent on contacts"))
    if found is not None:
        numbers.append((f"{found.held} of {found.rounds}", "intervals held; 90 % are promised"))
    if progress.lift is not None:
        numbers.append((_points(progress.lift.difference), "percentage points of followers by contact"))
    return numbers


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _points(share: float) -> str:
    return f"{100 * share:+.2f}".replace("-", "−")


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.2f} %"


def _rounds(progress: CampaignProgress) -> Section:
    title = "Responses beside expectation"
    if not progress.rounds:
        return Section(title, [Text("No round has been opened yet.")])
    blocks: list[Block] = [Text(EXPECTED)]
    if any(entry.expected is not None for entry in progress.rounds):
        last = len(progress.rounds) > MOST_ROUNDS
        caption = f"The last {MOST_ROUNDS} rounds with an expectation." if last else ""
        blocks.append(Figure(expected_and_observed(progress.rounds), caption))
    if progress.open.rounds:
        blocks.append(Text(_OPEN))
    columns = ("Round", "Responded", "Expected", "90 % interval", "Status", "Contacted", "Opened", "Product")
    if len(progress.rounds) > _TABLED:
        blocks.append(Text(f"The last {_TABLED} rounds:"))
    blocks.append(Table(columns, [_round_cells(entry) for entry in progress.rounds[-_TABLED:]]))
    return Section(title, blocks)


def _round_cells(entry: RoundProgress) -> tuple[str, ...]:
    reach = entry.expected
    return (
        f"{entry.number}",
        f"{entry.responders:,}",
        "–" if reach is None else f"{reach.mean:,.1f}",
        "–" if reach is None else f"{reach.low:,.0f} – {reach.high:,.0f}",
        entry.status if entry.kind == "ask" else f"{entry.status} ({entry.kind})",
        f"{entry.contacted:,}",
        datetime.fromtimestamp(entry.opened, UTC).strftime("%d\xa0%b\xa0%Y"),
        "by features" if entry.product is None else str(entry.product),
    )


def _sums(progress: CampaignProgress) -> list[Section]:
    blocks: list[Block] = []
    closed = sum(entry.within is not None for entry in progress.rounds)
    if closed >= FEWEST:
        blocks.append(Figure(running_sums(progress.rounds)))
    if progress.spend is not None:
        responders = progress.closed.responders + progress.open.responders
        each = f", {progress.spend / responders:,.3g} per response" if responders else ""
        blocks.append(Text(f"Contacting users has cost {progress.spend:,.10g} so far{each}."))
        if sum(entry.spend is not None for entry in progress.rounds) >= FEWEST:
            blocks.append(Figure(running_spend(progress.rounds)))
    return [Section("Reach and spending", blocks)] if blocks else []


def _calibration(progress: CampaignProgress) -> list[Section]:
    found = progress.calibration
    if found is None:
        return []
    title = "Can the forecasts be trusted?"
    figure = [Figure(running_calibration(progress.rounds))] if found.rounds >= FEWEST else []
    return [Section(title, [Text(_sentence(found.text)), *figure, Text(CALIBRATION)])]


def _lift(progress: CampaignProgress) -> Section:
    title, lift = "Does contact change anything?", progress.lift
    if lift is None:
        held = any(entry.held_out for entry in progress.rounds)
        return Section(title, [Text(f"Not known yet: {progress.lift_missing}" if held else _NO_LIFT)])
    said = (
        f"Of {lift.contacted_followers:,} followers of contacted users {_percent(lift.contacted_rate)} responded, of "
        f"{lift.held_out_followers:,} followers of held-out users {_percent(lift.held_out_rate)}. "
        f"{_sentence(lift.text)}"
    )
    return Section(title, [Text(LIFT), Figure(lift_interval(lift)), Text(said)])


def _user_blocks(users: Sequence[GroupProgress]) -> list[Block]:
    return [Text(_USERS), Table(("User", *_RATES), [_cells(user) for user in users])]


def _cells(group: GroupProgress) -> tuple[str, ...]:
    return (
        "by features" if group.id is None else str(group.id),
        _percent(group.observed),
        _percent(group.believed),
        f"{group.responders:,.1f}".removesuffix(".0"),
        f"{group.followers:,}",
        f"{group.contacts:,}",
    )


def _group_blocks(groups: Sequence[GroupProgress], what: str) -> list[Block]:
    first = {"products": "Product", "strategies": "Strategy"}[what]
    blocks: list[Block] = [Text(_GROUPS)]
    if any(group.believed is not None for group in groups):
        caption = f"The {MOST_GROUPS} {what} with the most contacts." if len(groups) > MOST_GROUPS else ""
        blocks.append(Figure(believed_and_observed(groups, what), caption))
    return [*blocks, Table((first, *_RATES), [_cells(group) for group in groups[:_TABLED]])]
