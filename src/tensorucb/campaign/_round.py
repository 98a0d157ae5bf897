"""A round: the record that the log keeps, and what callers see of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from html import escape
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.campaign._catalogue import Catalogue, Context, contexts
from tensorucb.campaign._documents import from_json, to_json
from tensorucb.campaign._network import Network, without_row
from tensorucb.money import money
from tensorucb.policies import Product
from tensorucb.question import USER_LISTS
from tensorucb.store._protocol import CampaignRecord, RoundRecord, Status

Id = int | str
Kind = Literal["ask", "shadow", "history"]

LEVEL = 0.9
"""The share of numbers that an interval promises to hold."""
UNKNOWN_LIST = ""
"""In place of the digest of a list of users in a request, once somebody was forgotten whom it may have named."""

_HALF = 0.5
_DAY = 86_400.0
_ROUNDING = 1e-9
_LEAST_WIDTH = 0.05  # on the scale of logarithms
_NOBODY = np.empty(0, dtype=np.int64)
_SAME = ("id", "number", "status", "kind", "product", "opened", "deadline", "closed", "reach", "cost", "fatigue")
"""What callers see of a round as the log has it."""
_COUNTED = {"direct": "followers of those contacted who respond", "cascade": "everybody reached in a cascade"}


@dataclass(frozen=True)
class Revenue:
    """What the responses of a round will be worth, with an interval; of the same users as in `Reach`.

    The expectation is that of each user's response times what a response of theirs is worth. The interval holds the
    sum that will be observed: it includes how many respond, how far amounts scatter, and what is not known of either.
    It is made as wide as closed rounds show that it has to be.
    """

    mean: float
    low: float
    high: float
    level: float = LEVEL

    def __str__(self) -> str:
        return f"{money(self.mean)}, {self.level:.0%} between {money(self.low)} and {money(self.high)}"


@dataclass(frozen=True)
class Reach:
    """How many users will respond, contacted users not counted among them.

    With the direct objective these are the responders that the campaign can observe: distinct followers of the
    contacted users who respond within the window. With the cascade objective it is everybody who becomes active
    because of them, near or far; the campaign sees of these only what node events tell, so that its interval is no
    better than the policy's beliefs about edges that nobody observed.

    The expected number is the policy's own. The interval holds the number that will be observed, not its expectation:
    it includes chance, what is not known of the chosen users, and how popular this product turns out to be. It is made
    as wide as closed rounds show that it has to be, counted in direct responders under both objectives.

    Attributes
    ----------
    mean
        Expected number; what the seeds add to it (`Explanation.gain`) sums to this.
    low, high
        Ends of the interval of the number.
    objective
        What is counted: ``direct`` or ``cascade``.
    level
        The interval's coverage.
    revenue
        What their responses will be worth, see `Revenue`; None if nothing is known of that.
    """

    mean: float
    low: float
    high: float
    objective: str
    level: float = LEVEL
    revenue: Revenue | None = None

    def __str__(self) -> str:
        between = f"{self.level:.0%} between {self.low:.0f} and {self.high:.0f}"
        return f"{self.mean:.1f} users, {between} ({_COUNTED[self.objective]}; those contacted do not count)"


@dataclass(frozen=True)
class Forecast:
    """What a policy states of a round: expected responders, and the interval of the promised level."""

    mean: float
    low: float
    high: float

    def miss(self, responders: float) -> float:
        """How far the number was from the mean, in units of the half-width on that side."""
        below, above = self._widths()
        apart = float(np.log(responders + _HALF) - np.log(self.mean + _HALF))
        return apart / above if apart >= 0.0 else -apart / below

    def widened(self, factor: float, audience: int) -> tuple[float, float]:
        """The interval with both half-widths so many times as large; nobody but the audience can respond."""
        low, high = self.interval(factor)
        # Numbers of users are whole: these are the smallest and the largest in between.
        first, last = np.ceil(low - _ROUNDING), np.floor(high + _ROUNDING)
        # There is no minus before 0.
        return float(np.clip(first, 0.0, audience)) + 0.0, float(np.clip(last, 0.0, audience)) + 0.0

    def interval(self, factor: float) -> tuple[float, float]:
        """The ends of the same interval where numbers need not be whole; the lower one may be just below 0."""
        below, above = self._widths()
        centre = np.log(self.mean + _HALF)
        return float(np.exp(centre - factor * below) - _HALF), float(np.exp(min(centre + factor * above, 50.0)) - _HALF)

    def _widths(self) -> tuple[float, float]:
        low, mean, high = (np.log(max(value, 0.0) + _HALF) for value in (self.low, self.mean, self.high))
        return max(float(mean - low), _LEAST_WIDTH), max(float(high - mean), _LEAST_WIDTH)


@dataclass(frozen=True)
class Fatigue:
    """A round addresses followers who were addressed again and again.

    Attributes
    ----------
    audience
        Followers of those contacted.
    again
        How many of them were addressed in at least two of the last rounds.
    rounds
        How many rounds before this one were looked at: the last five of the last 180 days.
    ratio, most
        How often followers who were addressed lately respond, as a share of rested followers of the same users, and the
        upper end of that (80 %), from the last closed rounds; None if these are too few to say.
    rest
        A rest for the audience, as ``audience_rest`` takes it. None if closed rounds do not show that it helps, if it
        is in force already, or if it would leave too few users to choose from.
    """

    audience: int
    again: int
    rounds: int
    ratio: float | None
    most: float | None
    rest: str | None

    def __str__(self) -> str:
        share = 100 * self.again / self.audience
        text = f"{self.again:,} of the {self.audience:,} followers of these users ({share:.0f} %) were addressed in at "
        text += f"least two of the last {self.rounds} rounds."
        if self.ratio is None:
            return text
        compared = f"{self.ratio:.2f} times as often as rested ones (80 %: at most {self.most:.2f})"
        return f"{text} Followers who were addressed lately respond {compared}."


@dataclass(frozen=True)
class RoundStrategies:
    """The strategies from which users of a round got theirs, as the catalogue had them, and who got which.

    ``chosen`` and ``contacted`` hold the place of the strategy of each user in the round's lists of these names.
    """

    offered: Catalogue
    per_user: bool
    chosen: I64
    contacted: I64


@dataclass(frozen=True, eq=False)
class Round:
    """A round as the log keeps it: all that learning, reports and forgetting need. Users are there by graph row.

    The first eight fields are columns of the store; see `RoundRecord`.
    """

    number: int
    id: str
    status: Status
    opened: float
    deadline: float | None
    closed: float | None
    revision: int
    request_id: str | None
    kind: Kind
    context: Context  # the product and whatever else describes the round, with the features that policies learn from
    contacted: I64
    strategies: RoundStrategies | None = None  # None if the context names the only one, or there is none
    k: int | None = None
    chosen: I64 = field(default_factory=_NOBODY.copy)  # in the order of choice, with those held out
    gains: F64 = field(default_factory=lambda: np.empty(0))  # what each of them adds to the expected responders
    held_out: I64 = field(default_factory=_NOBODY.copy)
    must_include: I64 = field(default_factory=_NOBODY.copy)
    listed: bool = False  # whether a person made the list of those chosen
    left_out: Mapping[str, int] = field(default_factory=dict)  # how many could not be chosen, by reason
    cost: float | None = None
    window: float | None = None
    credit: str = "any"
    objective: str | None = None
    reach: Reach | None = None  # if those chosen and not held out are contacted
    forecast: Forecast | None = None  # what the policy stated of those contacted
    value: float | None = None  # of a response, by the product; None if products have no values
    revenues: F64 = field(default_factory=lambda: np.empty(0))  # what each of those chosen adds to the expected revenue
    unit: float = 0.0  # what a response was expected to be worth on average
    revenue_forecast: Forecast | None = None  # the same as ``forecast`` of the revenue, in this unit
    request: Mapping[str, str] = field(default_factory=dict)  # a digest of each argument, if the request has an id
    fatigue: Fatigue | None = None  # if the same followers are addressed again and again
    quarantined: str | None = None  # why it cannot be learned
    priced: bool = False  # whether amounts were told
    label: str | None = None  # of imported history: a hash of what tells it apart
    span: tuple[float, float] | None = None  # of a log of purchases: from when to when

    def to_row(self) -> RoundRecord:
        """The round as a row of the store: columns that it looks for, and JSON of the rest."""
        document = to_json(self)
        columns = {column.name: document.pop(column.name) for column in fields(RoundRecord) if column.name in document}
        return RoundRecord(**columns, payload=document)

    @classmethod
    def from_row(cls, row: RoundRecord) -> Round:
        """The round of a row of the store."""
        return from_json(cls, {**vars(row), **row.payload})

    @property
    def pair(self) -> tuple[int, int]:
        """What it teaches by now: its number, and the event up to which it was told."""
        return self.number, self.revision

    @property
    def product(self) -> Id | None:
        """The product's id, if it was given by id."""
        return self.context.product

    @property
    def is_ours(self) -> bool:
        """Whether the campaign contacted its users: it is neither cancelled nor imported."""
        return self.status != "cancelled" and self.kind != "history"

    def is_valued(self, network: Network) -> bool:
        """Whether anything is known of what its responses are worth."""
        return self.priced or self.value is not None or network.values is not None

    @property
    def sizes(self) -> list[int]:
        """Lengths of the feature vectors of the context."""
        return self.context.sizes(None if self.strategies is None else self.strategies.offered)

    @property
    def promised(self) -> Reach | None:
        """What was promised of its responders; None if the promise was about something else, or there was none.

        A cascade counts users who are not observed, a shadow round's expectation is about users who were not contacted,
        and nothing is expected where nobody follows.
        """
        ours = self.kind == "ask" and self.objective == "direct" and self.forecast is not None
        return self.reach if ours else None

    def is_early(self, now: float) -> bool:
        """Whether most responses are still to come: less than half of the time is over, and more than a day is left."""
        return self.deadline is not None and self.deadline - now > max(_DAY, now - self.opened)

    def in_window(self, times: F64) -> NDArray[np.bool_]:
        """Which moments lie between the contact and the end of the window, if there is one."""
        last = np.inf if self.window is None else self.opened + self.window
        return np.asarray((times >= self.opened) & (times <= last))

    def contexts(self) -> list[Product]:
        """The context of each strategy, as policies take it; the round holds all features itself."""
        return contexts(self.context.vectors, None if self.strategies is None else self.strategies.offered.features)

    def places(self, network: Network) -> I64:
        """For each user of the network the place of the strategy they were contacted with; 0 for all others."""
        places = np.zeros(network.graph.n_nodes, dtype=np.int64)
        if self.strategies is not None:
            places[self.contacted] = self.strategies.contacted
        return places

    def strategy_of(self, users: Literal["chosen", "contacted"]) -> dict[int, Id] | None:
        """The id of the strategy of each of these users, by their row; None if there was none by id."""
        rows = getattr(self, users).tolist()
        if self.strategies is not None:
            ids = self.strategies.offered.ids
            return {row: ids[place] for row, place in zip(rows, getattr(self.strategies, users).tolist(), strict=True)}
        return None if self.context.strategy is None else dict.fromkeys(rows, self.context.strategy)

    def names(self, row: int) -> bool:
        """Whether a user was chosen, contacted or asked for."""
        return any(row in users for users in (self.chosen, self.contacted, self.held_out, self.must_include))

    def without(self, row: int) -> Round:
        """The round once a user is forgotten; of the lists of users in its request no digest stays."""
        chosen, contacted = self.chosen != row, self.contacted != row
        strategies = self.strategies
        if strategies is not None:
            places = {"chosen": strategies.chosen[chosen], "contacted": strategies.contacted[contacted]}
            strategies = replace(strategies, **places)
        return replace(
            self,
            chosen=without_row(self.chosen, row),
            gains=self.gains[chosen],
            revenues=self.revenues[chosen] if self.revenues.size else self.revenues,
            contacted=without_row(self.contacted, row),
            held_out=without_row(self.held_out, row),
            must_include=without_row(self.must_include, row),
            strategies=strategies,
            request={name: UNKNOWN_LIST if name in USER_LISTS else digest for name, digest in self.request.items()},
        )

    def seen(self, network: Network) -> Ask:
        """What a caller sees of it."""
        kept = ~np.isin(self.chosen, self.held_out)
        seeds = self.chosen[kept]
        strategies = self.strategy_of("chosen")
        same: dict[str, Any] = {name: getattr(self, name) for name in _SAME}
        return Ask(
            **same,
            seeds=tuple(network.ids(seeds)),
            strategies=None if strategies is None else tuple(strategies[row] for row in seeds.tolist()),
            gains=tuple(self.gains[kept].tolist()),
            revenues=tuple(self.revenues[kept].tolist()) if self.revenues.size else None,
            held_out=tuple(network.ids(self.held_out)),
            contacted=tuple(network.ids(self.contacted)),
            return_on_cost=_returned(self.reach, self.cost),
        )


@dataclass(frozen=True)
class Ask:
    """A round: who to contact, what to expect, and where it stands.

    Attributes
    ----------
    id
        The round's durable id, for ``tell`` and ``close``.
    number
        Its place among the campaign's rounds, from 1.
    status
        ``open``, ``closed`` or ``cancelled``, at the moment this object was made.
    kind
        ``ask``; ``shadow``: others chose, ``seeds`` is what we would have; ``history``: imported.
    seeds
        Ids of the users to contact, in the order of choice; those held out are not among them.
    strategies
        For each of ``seeds`` the id of the strategy they get; None in a round without strategies of the catalogue.
    gains
        What each of ``seeds`` adds to the expected number of responders.
    revenues
        What each of them adds to the expected revenue; None if nothing is known of what responses are worth, and with
        the cascade objective.
    held_out
        Chosen users who must not be contacted, for measuring the lift.
    contacted
        Who counts as contacted: ``seeds``, or in a shadow round the users chosen by others.
    reach
        How many users will respond, with an interval; see `Reach` for what is counted.
    cost
        What contacting ``contacted`` costs; None if nothing has a cost.
    product
        The product's id, if it was given by id.
    opened, deadline, closed
        Unix seconds; a round without a deadline never closes by itself.
    fatigue
        If the same followers are addressed again and again: how many, and what rest is suggested, see `Fatigue`.
    return_on_cost
        The expected revenue divided by the cost, with its interval; None if one of them is not known or 0.

    Examples
    --------
    >>> import tensorucb as tu
    >>> graph = tu.Graph.from_edges(["ann", "ann"], ["bob", "cid"])
    >>> ask = tu.create_campaign("spring", graph=graph, storage="memory://").ask(k=1)
    >>> ask.number, ask.status, ask.seeds, ask.explain("ann").rank
    (1, 'open', ('ann',), 1)
    """

    id: str
    number: int
    status: Status
    kind: Kind
    seeds: tuple[Id, ...]
    strategies: tuple[Id, ...] | None
    gains: tuple[float, ...]
    revenues: tuple[float, ...] | None
    held_out: tuple[Id, ...]
    contacted: tuple[Id, ...]
    reach: Reach | None
    cost: float | None
    product: Id | None
    opened: float
    deadline: float | None
    closed: float | None
    fatigue: Fatigue | None
    return_on_cost: Revenue | None
    _campaign: ClassVar[Any]  # here or on a service, whom to ask for explanations; no part of the record

    def of(self, campaign: Any) -> Self:
        """The same, with the campaign that explains it."""
        object.__setattr__(self, "_campaign", campaign)
        return self

    def explain(self, user: Id | None = None) -> Explanation | RoundExplanation:
        """Why this user was or was not chosen; without a user, all seeds and the counts of those left out."""
        explained: Explanation | RoundExplanation = self._campaign.explain(self.id, user)
        return explained

    def __repr__(self) -> str:
        parts = [repr(self.id)] if self.product is None else [repr(self.id), repr(self.product)]
        parts += [f"{len(self.contacted):,} users", self.status]
        if self.kind != "ask":
            parts.append(self.kind)
        if self.reach is not None:
            parts.append(f"{expectation(self.reach)} expected to respond")
        return f"Ask({', '.join(parts)})"

    def _repr_html_(self) -> str:
        """The seeds in the order of choice, and what each adds to the expected number of responders."""
        columns = {"": range(1, len(self.seeds) + 1), "User": self.seeds}
        if self.strategies is not None:
            columns["Strategy"] = self.strategies
        columns["Adds"] = [f"{gain:.2f}" for gain in self.gains]
        if self.revenues is not None:
            columns["Adds revenue"] = list(map(money, self.revenues))
        return html_table(list(columns), list(zip(*columns.values(), strict=True)), repr(self))


@dataclass(frozen=True)
class Follower:
    """A follower of a user, the expected probability of a response, and what the follower is called, if known."""

    user: Id
    probability: float
    name: str | None = None


@dataclass(frozen=True)
class Offer:
    """A strategy, the expected responses if a user alone got it, and what it adds to the cost."""

    strategy: Id
    expected: float
    cost: float


@dataclass(frozen=True)
class Explanation:
    """Why a user is, or is not, among the seeds of a round.

    All numbers are expectations under the same probabilities as the round's `Reach`; the bonus for
    exploration counts for choosing, and is shown only where it decided. They count responses, or with the ``metric``
    ``value`` what these are worth: read "expected revenue" for "expected responses" then.

    Attributes
    ----------
    user
        The caller's id.
    status
        ``chosen``, ``held_out``, ``opt_out``, ``no_consent``, ``excluded``, ``contact_cap``, ``cooldown``,
        ``audience_rest``, ``outside_candidates``, ``group_quota``, ``group_minimum``, ``budget``, ``not_there_yet`` or
        ``not_enough``.
    text
        The same in a sentence.
    rank
        Place in the order of choice, from 1.
    gain
        Of a chosen user: what they add to the reach of those chosen before. Of one held out: the responses that they
        would add to those contacted. Of others: the responses that they would add in place of the last one chosen;
        known for the thousand best, to a thousandth of a response.
    score
        Expected responses if this user alone were contacted. Known for seeds and, to a thousandth, for the thousand
        best.
    threshold
        Expected responses that the last one chosen adds to all others chosen, to be compared with ``gain``.
    followers
        The strongest followers of a chosen user, see `Follower`.
    strategy
        In a round with strategies: the one that a chosen user gets. Of others: the round's, or if each user gets their
        own, the one with which most responses are expected of them.
    offers
        What each strategy of the round would bring, see `Offer`. Known for seeds and for the thousand best.
    metric
        What the numbers are, and what the round was decided by: ``responders`` or ``value``. A campaign by value counts
        responders as long as all responses are worth the same.
    name
        What the user is called; None if that is not known.

    Examples
    --------
    >>> import tensorucb as tu
    >>> campaign = tu.create_campaign("spring", graph=tu.Graph.from_edges(["ann"], ["bob"]), storage="memory://")
    >>> print(campaign.ask(k=1, exclude=["ann"]).explain("ann").text)
    'ann' was not considered, since this user is excluded by the caller.
    """

    user: Id
    status: str
    text: str
    rank: int | None = None
    gain: float | None = None
    score: float | None = None
    threshold: float | None = None
    followers: tuple[Follower, ...] = ()
    strategy: Id | None = None
    offers: tuple[Offer, ...] = ()
    metric: str = "responders"
    name: str | None = None
    _parts: ClassVar[tuple[str, str]]  # the text before and after the followers, without users; no part of the record

    def worded(self, before: str, after: str = "") -> Self:
        """The same with its text, which is made of the user, these parts, and the followers between them."""
        listed = ", ".join(f"{follower.user!r} {follower.probability:.2f}" for follower in self.followers)
        between = f"; strongest followers {listed}" if listed else ""
        object.__setattr__(self, "_parts", (before, after))
        object.__setattr__(self, "text", f"{self.user!r} {before}{between}{after}")
        return self

    def renamed(self, rename: Callable[[Id], Id]) -> Self:
        """The same with other ids of users, in the text too, and without their names."""
        followers = tuple(Follower(rename(follower.user), follower.probability) for follower in self.followers)
        return replace(self, user=rename(self.user), name=None, followers=followers).worded(*self._parts)


@dataclass(frozen=True)
class RoundExplanation:
    """Every seed explained, how many users were left out for what reason, and what is proven of the choice.

    ``certificate`` is how near the choice is to the best one by the probabilities that it was made by, which include
    exploration; empty if the policy or a person chose, or if contacting fewer users brought more responses.
    """

    seeds: tuple[Explanation, ...]
    left_out: Mapping[str, int]
    certificate: str = ""

    def __str__(self) -> str:
        reasons = ", ".join(f"{name} {count}" for name, count in self.left_out.items() if count)
        lines = [*(seed.text for seed in self.seeds), f"Left out beforehand: {reasons or 'nobody'}."]
        return "\n".join([*lines, f"Certificate: {self.certificate}"] if self.certificate else lines)


@dataclass(frozen=True)
class Preview:
    """Who would be chosen in a round, and what would be expected of it.

    The campaign's defaults count as in `Ask`, and the hold-out is the one that would be drawn: asking straight after
    with the same arguments opens this very round.

    Attributes
    ----------
    seeds
        Ids of the users to contact, in the order of choice, or as they were given; those held out are not among them.
    strategies, held_out, product, reach, cost, fatigue, deadline, return_on_cost
        As in `Ask`, of the round that would be opened.
    best
        The ``reach`` of the campaign's own choice; ``reach`` itself if no users were given.
    difference
        Expected reach minus that of the campaign's own choice: -0.8 means 0.8 responders fewer. It may be above 0: the
        campaign's own choice also counts what there is to learn.
    explanation
        Why each of them was chosen.
    terms
        What else the round would be opened with, by argument of ``ask``, the campaign's defaults included: hold-out,
        rests, window …; and the campaign's ``contact_cap`` and ``contact_group``. What is not used is not there, and
        lists of users are not.
    proposal
        Stands for all of this: ``ask(proposal=…)`` with the same arguments opens this round, or none.

    Examples
    --------
    >>> import tensorucb as tu
    >>> graph = tu.Graph.from_edges(["ann", "ann", "bob"], ["bob", "cid", "cid"])
    >>> campaign = tu.create_campaign("spring", graph=graph, storage="memory://")
    >>> campaign.preview(k=1).seeds, campaign.preview(users=["bob"]).difference < 0.0
    (('ann',), True)
    """

    seeds: tuple[Id, ...]
    strategies: tuple[Id, ...] | None
    held_out: tuple[Id, ...]
    product: Id | None
    reach: Reach
    best: Reach
    difference: float
    cost: float | None
    explanation: RoundExplanation
    fatigue: Fatigue | None
    deadline: float | None
    return_on_cost: Revenue | None
    terms: Mapping[str, Any]
    proposal: str


def _returned(reach: Reach | None, cost: float | None) -> Revenue | None:
    if reach is None or reach.revenue is None or not cost:
        return None
    revenue = reach.revenue
    return Revenue(revenue.mean / cost, revenue.low / cost, revenue.high / cost, revenue.level)


def named_round(round_id: str | int | Ask) -> str | int:
    """The id or the number by which a caller names a round; an `Ask` stands for its round."""
    return round_id.id if isinstance(round_id, Ask) else round_id


def round_id(campaign: CampaignRecord, number: int) -> str:
    """The durable id of a round: its number, and a tail that tells campaigns apart, copies too."""
    text = f"{campaign.name}:{campaign.settings['seed']}:{campaign.created!r}:{number}"
    tail = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{number:06d}-{tail}"


def html_table(columns: Sequence[str], rows: Sequence[Sequence[object]], caption: str) -> str:
    """A table with a caption above it; ids may hold anything."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    title = f'<caption style="caption-side: top; text-align: left">{escape(caption)}</caption>'
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def expectation(reach: Reach | None) -> str:
    """An expected number with its interval; nothing if there is none."""
    return "" if reach is None else f"{reach.mean:,.1f} ({reach.low:,.0f} to {reach.high:,.0f})"
