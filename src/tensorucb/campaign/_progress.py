"""How a campaign is going: what was expected of each round, what came, and what that says about the forecasts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from tensorucb.arrays import F64
from tensorucb.campaign._handle import ERASING, View
from tensorucb.campaign._lift import Lift, lift_by, lift_of
from tensorucb.campaign._people import said
from tensorucb.campaign._round import LEVEL, Id, Round, expectation, html_table
from tensorucb.campaign._segments import Segments, no_columns
from tensorucb.campaign._tally import GroupProgress, RoundProgress, SegmentProgress, Tally, count_rounds, strategies_of
from tensorucb.campaign._webhook import Webhook, webhook_of
from tensorucb.checks import check_id, check_text, plain, refusal, shown
from tensorucb.errors import StateError, UnknownIdError
from tensorucb.moments import is_moment, unix_seconds
from tensorucb.money import money

_MOST_CONTACTED = 20  # users that are listed
_HTML_ROUNDS = 20  # rounds that a notebook shows
_KEPT_REPORTS = 8  # of different selections of rounds


@dataclass(frozen=True)
class Totals:
    """Sums over rounds, without imported history.

    Attributes
    ----------
    rounds
        How many.
    contacts
        Users contacted, counted once per round.
    expected
        Sum of what was expected of the rounds that have an expectation; None if none has one.
    compared
        Responders of these rounds, to be compared with ``expected``.
    responders
        Responders of all rounds, counted once per round.
    """

    rounds: int
    contacts: int
    expected: float | None
    compared: int
    responders: int


@dataclass(frozen=True)
class Calibration:
    """How often the intervals held the number of responders, in closed rounds.

    Attributes
    ----------
    rounds, held
        Closed rounds with an interval, and how many of these intervals held.
    share
        ``held / rounds``.
    low, high
        The shares that so many rounds do not contradict: the exact (Clopper-Pearson) binomial interval at 90 %.
    promised
        The share that should hold.
    """

    rounds: int
    held: int
    share: float
    low: float
    high: float
    promised: float = LEVEL

    @property
    def text(self) -> str:
        """How far the forecasts can be trusted, in words."""
        return (
            f"the interval held in {self.held} of {self.rounds} closed rounds, {100 * self.share:.0f} % (90 % interval "
            f"{100 * self.low:.0f} to {100 * self.high:.0f} %); {100 * self.promised:.0f} % are promised."
        )


@dataclass(frozen=True)
class RevenueProgress:
    """What the responses of a campaign were worth so far, without imported history.

    The worth of a response is the amount told with it; without one, what values of users and products say. Amounts are
    expected to be log-normal around means that depend on the product and the user, shrunk towards the overall mean.

    Attributes
    ----------
    closed, open
        Of closed and of open rounds; a purchase that belongs to several rounds counts in each.
    expected
        Sum of what was expected of the closed rounds of which revenue was expected and is known; None if there is none.
    compared
        The revenue of these rounds, to be compared with ``expected``.
    without_amount
        Responders who count as nothing, because neither an amount nor values are known.
    return_on_cost
        Revenue divided by spend, of closed rounds that cost something; None if there is none. It counts all responses,
        also those that would have come without contact: `Lift` says what contact adds.
    low, high
        Its 90 % interval, as far as rounds differ from one another; None before there are two such rounds.
    calibration
        How often intervals of the revenue held.
    """

    closed: float
    open: float
    expected: float | None
    compared: float
    without_amount: int
    return_on_cost: float | None
    low: float | None
    high: float | None
    calibration: Calibration | None

    @property
    def text(self) -> str:
        """What came in, in words."""
        said = f"{money(self.closed)} in closed rounds"
        if self.expected is not None:
            apart = "" if self.compared == self.closed else f"; {money(self.compared)}"
            said += f"{apart}, where {money(self.expected)} were expected"
        said += "."
        if self.open:
            said += f" {money(self.open)} in open rounds so far."
        if self.return_on_cost is not None:
            said += f" Return on cost {money(self.return_on_cost)}"
            if self.low is not None and self.high is not None:
                said += f" (90 % interval {money(self.low)} to {money(self.high)})"
            said += "."
        if self.without_amount:
            said += f" {self.without_amount:,} responders without an amount count as nothing."
        return said


@dataclass(frozen=True)
class CampaignProgress:
    """How a campaign is going.

    Attributes
    ----------
    name
        The campaign's.
    rounds
        All rounds by number, see `RoundProgress`.
    closed, open
        Sums over closed and over open rounds, see `Totals`.
    contacted, reached
        How many different users were contacted in any round, and responded to any.
    spend
        What all contacts cost; None if nothing has a cost.
    calibration
        How often the intervals held; None before the first closed round with one.
    lift
        Followers of contacted against held-out users; None as long as it cannot be measured (see ``lift_missing``).
    lift_missing
        What :meth:`Campaign.lift` lacks; None if it can be measured.
    behind
        Of how many closed rounds the next ask would not have learned the newest responses.
    products, strategies
        Each with believed and observed rates, the ones with most contacts first, see `GroupProgress`.
    users
        The users who were contacted most, at most 20.
    metric
        What the campaign decides by: ``responders`` or ``value``.
    revenue
        What the responses were worth, see `RevenueProgress`; None if nothing is known of that.
    cost_per_responder
        ``spend`` divided by the responders of all rounds, counted once per round; None without costs or responders.
    segment, segments
        The column of the table of users that was asked for, and what came of each of its values, see `SegmentProgress`;
        None and empty if none was.
    timezone
        The campaign's time zone: its days are those of this zone.
    """

    name: str
    rounds: tuple[RoundProgress, ...]
    closed: Totals
    open: Totals
    contacted: int
    reached: int
    spend: float | None
    calibration: Calibration | None
    lift: Lift | None
    lift_missing: str | None
    behind: int
    products: tuple[GroupProgress, ...]
    strategies: tuple[GroupProgress, ...]
    users: tuple[GroupProgress, ...]
    cost_per_responder: float | None
    metric: str = "responders"
    revenue: RevenueProgress | None = None
    segment: str | None = None
    segments: tuple[SegmentProgress, ...] = ()
    timezone: str = "UTC"

    def __repr__(self) -> str:
        parts = [f"{self.closed.rounds} round{'' if self.closed.rounds == 1 else 's'} closed, {self.open.rounds} open"]
        if self.closed.expected is not None:
            parts.append(f"{self.closed.compared:,} responders where {self.closed.expected:,.1f} were expected")
        else:
            parts.append(f"{self.closed.responders:,} responders")
        if self.open.responders:
            parts.append(f"{self.open.responders:,} responders in open rounds so far")
        if self.revenue is not None:
            parts.append(f"revenue {money(self.revenue.closed)}")
        if self.calibration is not None:
            parts.append(f"interval held in {self.calibration.held} of {self.calibration.rounds}")
        return f"CampaignProgress({self.name!r}, {', '.join(parts)})"

    def _repr_html_(self) -> str:
        rows = [
            (
                entry.number,
                entry.status,
                "" if entry.product is None else entry.product,
                entry.contacted,
                expectation(entry.expected),
                entry.responders,
            )
            for entry in self.rounds[-_HTML_ROUNDS:]
        ]
        columns = ("Round", "Status", "Product", "Contacted", "Expected", "Responded")
        return html_table(columns, rows, repr(self))


@dataclass(frozen=True)
class CampaignStatus:
    """A campaign in numbers.

    Attributes
    ----------
    name, policy
        Its name, and the type of its policy.
    users, edges, products, strategies
        How many there are.
    rounds, open, closed, cancelled
        How many rounds there are, and how many of each kind.
    events
        The number of the log's last event.
    behind
        Of how many closed rounds the next ask does not know the newest responses.
    quarantined
        Closed rounds that could not be learned: their ids, and why. The model goes on without them.
    erasing
        How many times somebody was forgotten whose traces are not out of the store's files yet.
    opted_out, no_consent
        How many users opted out, here or everywhere, and how many others have given no consent.
    opted_out_unknown
        How many people opted out who are no users of the campaign.
    webhook
        Who is told of rounds that close, and how far that is; None if nobody is.
    """

    name: str
    policy: str
    users: int
    edges: int
    products: int
    strategies: int
    rounds: int
    open: int
    closed: int
    cancelled: int
    events: int
    behind: int
    quarantined: Mapping[str, str]
    erasing: int
    opted_out: int
    no_consent: int
    opted_out_unknown: int
    webhook: Webhook | None

    def __repr__(self) -> str:
        counted = ("users", "edges", "products", "strategies", "rounds")
        parts = [repr(self.name), self.policy, *(f"{getattr(self, name):,} {name}" for name in counted)]
        more = {"open": self.open, "behind": self.behind, "quarantined": len(self.quarantined), "erasing": self.erasing}
        more |= {"opted out": self.opted_out, "without consent": self.no_consent}
        parts += [f"{count:,} {name}" for name, count in more.items() if count]
        return f"CampaignStatus({', '.join(parts)})"


def status(view: View) -> CampaignStatus:
    """Numbers of users, products and rounds, and what is still to do."""
    # A ledger never changes, so neither does what is counted of it.
    counts = view.memory.cached("status", view.ledger, lambda: _summary(view))
    return CampaignStatus(**counts, erasing=len(view.session.blobs(view.number, ERASING)), webhook=webhook_of(view))


def _summary(view: View) -> dict[str, Any]:
    """What a status says of the log alone."""
    graph = view.network.graph
    states = Counter(record.status for record in view.ledger.rounds.values())
    spoken = said(view)
    return {
        "name": view.handle.record.name,
        "policy": view.handle.record.settings["policy"]["type"],
        "users": graph.n_nodes,
        "edges": graph.n_edges,
        "products": len(view.catalogue("product").ids),
        "strategies": len(view.catalogue("strategy").ids),
        "rounds": states.total(),
        "open": states["open"],
        "closed": states["closed"],
        "cancelled": states["cancelled"],
        "events": view.ledger.seq,
        "behind": view.ledger.behind,
        "quarantined": view.ledger.quarantined(),
        "opted_out": int(np.count_nonzero(spoken.opted_out)),
        "no_consent": int(np.count_nonzero(spoken.no_consent)),
        "opted_out_unknown": spoken.unknown,
    }


@dataclass(frozen=True)
class Selection:
    """Which rounds are counted: those of a product, with a strategy, opened from one moment to before another.

    ``segment`` is a column of the table of users by which the counts are split.
    """

    product: Id | None = None
    strategy: Id | None = None
    since: float = -np.inf
    until: float = np.inf
    segment: str | None = None

    def holds(self, record: Round) -> bool:
        """Whether a round is counted."""
        return (
            self.product in (None, record.product)
            and (self.strategy is None or self.strategy in strategies_of(record))
            and self.since <= record.opened < self.until
        )


def read_selection(view: View, product: Any, strategy: Any, since: Any, until: Any, segment: Any) -> Selection:
    """The selection that a caller asks for."""
    _split(view, None if segment is None else check_text("segment", segment))
    for kind, wanted in (("product", product), ("strategy", strategy)):
        if wanted is not None and check_id(kind, wanted) not in view.catalogue(kind).ids:
            raise UnknownIdError(f"is {shown(wanted)}, and the catalogue has no such {kind}.", argument=kind)
    ends = {}
    for name, value in (("since", since), ("until", until)):
        if value is not None:
            ends[name] = unix_seconds(plain(value), ZoneInfo(_zone(view)))
            if not is_moment(ends[name]):
                raise refusal(name, "unix seconds, a datetime, or a text such as '2026-11-17'", value)
    return Selection(product, strategy, **ends, segment=segment)


def _split(view: View, column: str | None) -> Segments | None:
    """The column of the table of users that is asked for, if any is."""
    return None if column is None else (view.user_columns or no_columns(0)).split(column)


def _zone(view: View) -> str:
    """The campaign's time zone: of days, and of times that name none."""
    return str(view.handle.record.settings.get("timezone", "UTC"))


def progress(view: View, selection: Selection) -> CampaignProgress:
    """How the campaign is going; nothing is learned for it.

    Who asks while another thread counts waits for it: the same is most often asked by several requests at once.
    """
    with view.handle.counting:
        count = partial(_counted, view, selection)
        return view.memory.cached("progress", view.ledger.seq, count, selection, _KEPT_REPORTS)


def _counted(view: View, selection: Selection) -> CampaignProgress:
    split = _split(view, selection.segment)
    counted = count_rounds(view)
    tally = Tally(view.network, {record: counted[record] for record in filter(selection.holds, counted)})
    rounds = tuple(tally.rounds)
    lift, missing = None, None
    lifts: dict[int, Lift] = {}
    try:
        lift = lift_of(view, selection.holds)
        lifts = {} if split is None else lift_by(view, selection.holds, split.codes)
    except StateError as error:
        missing = str(error)
    products, strategies = view.catalogues()
    spend = _sum(entry.spend for entry in rounds)
    closed, still_open = _totals(rounds, "closed"), _totals(rounds, "open")
    responders = closed.responders + still_open.responders
    return CampaignProgress(
        name=view.handle.record.name,
        rounds=rounds,
        closed=closed,
        open=still_open,
        contacted=int(np.count_nonzero(tally.contacted)),
        reached=int(np.count_nonzero(tally.reached)),
        spend=spend,
        calibration=_calibration(entry.within for entry in rounds),
        lift=lift,
        lift_missing=missing,
        behind=view.ledger.behind,
        products=tally.products(products.names),
        strategies=tally.strategies(strategies.names),
        users=tally.users(_MOST_CONTACTED, view.name),
        cost_per_responder=spend / responders if spend and responders else None,
        metric=view.handle.record.settings["metric"],
        revenue=_revenue(view, rounds),
        segment=selection.segment,
        segments=() if split is None else tally.segments(split, lifts),
        timezone=_zone(view),
    )


def _revenue(view: View, rounds: Sequence[RoundProgress]) -> RevenueProgress | None:
    """The revenue of all rounds but imported ones; None if neither amounts nor values are known."""
    valued = view.network.values is not None or view.catalogue("product").values is not None
    if not valued and not any(record.priced for record in view.ledger.rounds.values() if record.kind != "history"):
        return None
    chosen = [entry for entry in rounds if entry.kind != "history" and entry.status != "cancelled"]
    closed = [entry for entry in chosen if entry.status == "closed"]
    # Where nobody responded nothing came in, whatever is known of amounts.
    earned = [(entry, entry.revenue or 0.0) for entry in closed if entry.revenue is not None or not entry.responders]
    pairs = [
        (entry.expected.revenue.mean, revenue)
        for entry, revenue in earned
        if entry.expected is not None and entry.expected.revenue is not None
    ]
    paid = [(revenue, entry.spend) for entry, revenue in earned if entry.spend]
    ratio, low, high = ratio_of_sums(np.array(paid, dtype=np.float64).reshape(-1, 2))
    return RevenueProgress(
        closed=_sum(entry.revenue for entry in closed) or 0.0,
        open=_sum(entry.revenue for entry in chosen if entry.status == "open") or 0.0,
        expected=float(sum(mean for mean, _ in pairs)) if pairs else None,
        compared=float(sum(revenue for _, revenue in pairs)),
        without_amount=sum(entry.without_amount for entry in chosen),
        return_on_cost=ratio,
        low=low,
        high=high,
        calibration=_calibration(entry.revenue_within for entry in rounds),
    )


def ratio_of_sums(pairs: F64) -> tuple[float | None, float | None, float | None]:
    """The ratio of two sums over rounds, ``(rounds, 2)``, and its 90 % interval (by linearisation, t)."""
    if not len(pairs):
        return None, None, None
    above, below = pairs.T
    ratio = float(above.sum() / below.sum())
    n = len(pairs)
    if n < 2:
        return ratio, None, None
    rest = above - ratio * below
    half = float(_quantile(n) * np.sqrt(n / (n - 1.0) * (rest @ rest)) / below.sum())
    return ratio, max(0.0, ratio - half), ratio + half


def sum_of_rounds(values: Sequence[float]) -> tuple[float | None, float | None]:
    """The 90 % interval of a sum over as many rounds like these (t); None before there are two."""
    n = len(values)
    if n < 2:
        return None, None
    total = float(np.sum(values))
    half = float(_quantile(n) * np.sqrt(n) * np.std(values, ddof=1))
    return max(0.0, total - half), total + half


def _quantile(n: int) -> float:
    """How many standard errors of ``n`` rounds the interval reaches to each side."""
    from scipy.special import stdtrit

    return float(stdtrit(n - 1, (1.0 + LEVEL) / 2.0))


def calibration(held: int, n: int) -> Calibration:
    """The share of ``n`` intervals that held, and its exact binomial interval."""
    from scipy.special import betaincinv

    tail = (1.0 - LEVEL) / 2.0
    low = 0.0 if held == 0 else float(betaincinv(held, n - held + 1, tail))
    high = 1.0 if held == n else float(betaincinv(held + 1, n - held, 1.0 - tail))
    return Calibration(n, held, held / n, low, high)


def _calibration(within: Iterable[bool | None]) -> Calibration | None:
    """The same of the rounds of which it is known whether the interval held; None if there are none."""
    known = [held for held in within if held is not None]
    return calibration(sum(known), len(known)) if known else None


def _totals(rounds: Sequence[RoundProgress], status: str) -> Totals:
    chosen = [entry for entry in rounds if entry.status == status and entry.kind != "history"]
    compared = [entry for entry in chosen if entry.expected is not None]
    return Totals(
        rounds=len(chosen),
        contacts=sum(entry.contacted for entry in chosen),
        expected=_sum(entry.expected.mean for entry in chosen if entry.expected is not None),
        compared=sum(entry.responders for entry in compared),
        responders=sum(entry.responders for entry in chosen),
    )


def _sum(values: Iterable[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return float(sum(numbers)) if numbers else None
