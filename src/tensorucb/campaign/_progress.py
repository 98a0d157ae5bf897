"""How a campaign is going: what was expected of each round, what came, and what that says about the forecasts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.campaign._documents import from_json, to_json
from tensorucb.campaign._handle import ERASING, TALLY, Handle, View
from tensorucb.campaign._lift import Lift, lift_of
from tensorucb.campaign._model import behind
from tensorucb.campaign._network import Network, seal, unseal
from tensorucb.campaign._round import LEVEL, Id, Kind, Reach, Round, expectation, html_table
from tensorucb.campaign._told import Told, responded
from tensorucb.campaign._webhook import Webhook, webhook_of
from tensorucb.errors import FileFormatError, StateError
from tensorucb.store._protocol import Status

_MOST_CONTACTED = 20  # users that are listed
_TALLY_EVERY = 50  # rounds between two tallies that are stored
_HTML_ROUNDS = 20  # rounds that a notebook shows


@dataclass(frozen=True)
class RoundProgress:
    """What was expected of a round, and what came so far.

    Attributes
    ----------
    number, id, product, kind, status, opened, closed
        As in :class:`~tensorucb.campaign.Ask`.
    contacted, held_out
        How many users; nobody counts as contacted in a cancelled round.
    expected
        How many users were expected to respond, with a 90 % interval. None where there is nothing to compare: shadow
        rounds (we expected something of other users), cascades (most of what they reach is not observed), imported
        history, cancelled rounds, contacted users without followers.
    responders
        How many users responded so far: the number that ``expected`` is about, counted as `Reach` does.
    new_responders
        How many of them had not responded to an earlier round.
    responses
        Responses told so far: edges with an outcome of 1, and actions within the window, whoever acted.
    spend
        What contacting them cost; None if nothing has a cost.
    within
        Of a closed round: whether ``responders`` lie in the interval. None where it is open or nothing was expected.

    Examples
    --------
    >>> import tensorucb as tu
    >>> campaign = tu.create_campaign("spring", graph=tu.Graph.from_edges(["ann"], ["bob"]), storage="memory://")
    >>> ask = campaign.ask(k=1, candidates=["ann"])
    >>> [(entry.status, entry.contacted, entry.responders) for entry in campaign.progress().rounds]
    [('open', 1, 0)]
    """

    number: int
    id: str
    product: Id | None
    kind: Kind
    status: Status
    opened: float
    closed: float | None
    contacted: int
    held_out: int
    expected: Reach | None
    responders: int
    new_responders: int
    responses: int
    spend: float | None
    within: bool | None


@dataclass(frozen=True)
class GroupProgress:
    """What came of one product, strategy or user in closed rounds.

    Attributes
    ----------
    id
        The product, the strategy or the user; None for a product or strategy that was given by its features.
    rounds, contacts
        In how many rounds, and how many contacts.
    followers
        Followers of the contacted users who were not contacted themselves, counted once per round.
    responders
        How many of them responded. Who follows several contacted users counts in equal parts for each of them.
    observed
        ``responders / followers``.
    believed
        The share that was expected to respond when the rounds were opened; None if nothing was expected.

    Examples
    --------
    >>> tea = GroupProgress("tea", rounds=2, contacts=20, followers=400, responders=36.0, observed=0.09, believed=0.1)
    >>> f"{tea.observed:.0%} responded, {tea.believed:.0%} were expected to"
    '9% responded, 10% were expected to'
    """

    id: Id | None
    rounds: int
    contacts: int
    followers: int
    responders: float
    observed: float
    believed: float | None


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

    Examples
    --------
    >>> sums = Totals(rounds=3, contacts=30, expected=12.5, compared=11, responders=15)
    >>> f"{sums.compared} where {sums.expected} were expected"
    '11 where 12.5 were expected'
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

    Examples
    --------
    >>> found = Calibration(rounds=20, held=17, share=0.85, low=0.66, high=0.96)
    >>> found.low <= found.promised <= found.high
    True
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

    Examples
    --------
    >>> from tensorucb import Graph, create_campaign
    >>> campaign = create_campaign("spring", graph=Graph.from_edges(["ann"], ["bob"]), storage="memory://")
    >>> ask = campaign.ask(k=1, candidates=["ann"])
    >>> report = campaign.tell(ask.id, [{"source": "ann", "target": "bob", "outcome": 1}])
    >>> progress = campaign.progress()
    >>> progress.rounds[0].responders, progress.open.rounds, progress.contacted, progress.reached
    (1, 1, 1, 1)
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

    def __repr__(self) -> str:
        parts = [f"{self.closed.rounds} round{'' if self.closed.rounds == 1 else 's'} closed, {self.open.rounds} open"]
        if self.closed.expected is not None:
            parts.append(f"{self.closed.compared:,} responders where {self.closed.expected:,.1f} were expected")
        else:
            parts.append(f"{self.closed.responders:,} responders")
        if self.open.responders:
            parts.append(f"{self.open.responders:,} responders in open rounds so far")
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
    webhook
        Who is told of rounds that close, and how far that is; None if nobody is.

    Examples
    --------
    >>> from tensorucb import Graph, create_campaign
    >>> create_campaign("spring", graph=Graph.from_edges(["ann"], ["bob"]), storage="memory://").status()
    CampaignStatus('spring', TensorUCB, 2 users, 1 edges, 0 products, 0 strategies, 0 rounds)
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
    webhook: Webhook | None

    def __repr__(self) -> str:
        counted = ("users", "edges", "products", "strategies", "rounds")
        parts = [repr(self.name), self.policy, *(f"{getattr(self, name):,} {name}" for name in counted)]
        more = {"open": self.open, "behind": self.behind, "quarantined": len(self.quarantined), "erasing": self.erasing}
        parts += [f"{count:,} {name}" for name, count in more.items() if count]
        return f"CampaignStatus({', '.join(parts)})"


def status(handle: Handle) -> CampaignStatus:
    """Numbers of users, products and rounds, and what is still to do."""
    with handle.read() as view:
        graph, ledger = view.network.graph, view.ledger
        states = [record.status for record in ledger.rounds.values()]
        return CampaignStatus(
            name=handle.record.name,
            policy=handle.record.settings["policy"]["type"],
            users=graph.n_nodes,
            edges=graph.n_edges,
            products=len(view.catalogue("product").ids),
            strategies=len(view.catalogue("strategy").ids),
            rounds=len(states),
            open=states.count("open"),
            closed=states.count("closed"),
            cancelled=states.count("cancelled"),
            events=ledger.seq,
            behind=behind(view),
            quarantined=ledger.quarantined(),
            erasing=len(view.session.blobs(view.number, ERASING)),
            webhook=webhook_of(view),
        )


def progress(handle: Handle) -> CampaignProgress:
    """How the campaign is going, from one read session and without learning anything."""
    with handle.read() as view:
        if handle.reported is not None and handle.reported[0] == view.ledger.seq:
            before: CampaignProgress = handle.reported[1]
            return before
        tally, rounds = _counted(handle, view)
        lift, missing = None, None
        try:
            lift = lift_of(view, int(handle.record.settings["seed"]))
        except StateError as error:
            missing = str(error)
        report = CampaignProgress(
            name=handle.record.name,
            rounds=rounds,
            closed=_totals(rounds, "closed"),
            open=_totals(rounds, "open"),
            contacted=int(np.count_nonzero(tally.contacted)),
            reached=int(np.count_nonzero(tally.reached)),
            spend=_sum(entry.spend for entry in rounds),
            calibration=calibration([entry.within for entry in rounds if entry.within is not None]),
            lift=lift,
            lift_missing=missing,
            behind=behind(view),
            products=_ranked(tally.products),
            strategies=_ranked(tally.strategies),
            users=tally.users(_MOST_CONTACTED),
        )
        handle.reported = view.ledger.seq, report
        return report


def _counted(handle: Handle, view: View) -> tuple[_Tally, tuple[RoundProgress, ...]]:
    """All rounds, counted in their order; the ones up to the first that was open at the last call are counted once."""
    records = view.rounds()
    # What was told late makes another revision of a round that has ended.
    marks = [(record.number, record.revision) for record in records]
    ended = _ended(records)
    tally, rounds = _Tally(view.network), list[RoundProgress]()
    before = handle.counted or _stored_tally(view)
    if before is not None:
        network, seen, kept, found = before
        if network.revision == view.network.revision and seen == marks[: len(seen)]:
            tally, rounds = kept.copy(), list(found)
    for i in range(len(rounds), len(records) + 1):
        if i == ended:
            handle.counted = view.network, marks[:i], tally.copy(), tuple(rounds)
        if i < len(records):
            rounds.append(tally.add(records[i], view.told(records[i].number)))
    return tally, tuple(rounds)


def _ended(records: Sequence[Round]) -> int:
    """How many rounds there are before the first that is open."""
    return next((i for i, record in enumerate(records) if record.status == "open"), len(records))


def keep_tally(handle: Handle) -> None:
    """Store the counts of rounds that have ended, now and then, so that a new process need not count them again."""
    with handle.read() as view:
        if _ended(view.rounds()) < handle.tallied + _TALLY_EVERY:
            return
        stored = _stored_tally(view)
        handle.tallied = 0 if stored is None else len(stored[1])
        _counted(handle, view)
    network, marks, tally, rounds = handle.counted
    if len(marks) < handle.tallied + _TALLY_EVERY:
        return
    groups, arrays = tally.to_state()
    settings = {"revision": network.revision, "marks": marks, "rounds": to_json(rounds), **groups}
    with handle.write() as view:
        if view.ledger.revision == network.revision:
            view.session.put_blob(view.number, TALLY, seal(TALLY, settings, arrays, compressed=True))
    handle.tallied = len(marks)


def _stored_tally(view: View) -> tuple[Network, list[tuple[int, int]], _Tally, tuple[RoundProgress, ...]] | None:
    """The counts of `keep_tally`; None if there are none of this network, or they are damaged: then all is counted."""
    if TALLY not in view.session.blobs(view.number):
        return None
    try:
        settings, arrays = unseal(view.session.blob(view.number, TALLY) or b"", TALLY, "the tally of the campaign")
    except FileFormatError:
        return None
    if settings["revision"] != view.network.revision:
        return None
    rounds = tuple(from_json(RoundProgress, entry) for entry in settings["rounds"])
    marks = [(number, revision) for number, revision in settings["marks"]]
    return view.network, marks, _Tally.from_state(view.network, settings, arrays), rounds


def calibration(held: Sequence[bool]) -> Calibration | None:
    """The share of intervals that held, and its exact binomial interval."""
    n, hits = len(held), sum(held)
    if n == 0:
        return None
    from scipy.special import betaincinv

    tail = (1.0 - LEVEL) / 2.0
    low = 0.0 if hits == 0 else float(betaincinv(hits, n - hits + 1, tail))
    high = 1.0 if hits == n else float(betaincinv(hits + 1, n - hits, 1.0 - tail))
    return Calibration(n, hits, hits / n, low, high)


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
    known = [value for value in values if value is not None]
    return float(sum(known)) if known else None


_SUMS = ("rounds", "contacts", "followers", "responders", "asked", "expected")
_Sums = defaultdict[Id | None, F64]
"""For each id the sums named above; ``asked`` are the followers in rounds with an expectation."""


class _Tally:
    """Sums over the rounds counted so far.

    ``contacted`` and ``reached`` say for each user, by graph row, whether they were contacted in any round or responded
    to any.
    """

    def __init__(self, network: Network) -> None:
        n = network.graph.n_nodes
        self._network = network
        self.contacted, self.reached = np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)
        self.products: _Sums = defaultdict(lambda: np.zeros(len(_SUMS)))
        self.strategies: _Sums = defaultdict(lambda: np.zeros(len(_SUMS)))
        self._users = np.zeros((n, len(_SUMS)))

    def copy(self) -> _Tally:
        """The same sums, to be counted on from here."""
        other = _Tally(self._network)
        other.contacted, other.reached, other._users = self.contacted.copy(), self.reached.copy(), self._users.copy()
        for mine, theirs in ((self.products, other.products), (self.strategies, other.strategies)):
            theirs.update({name: sums.copy() for name, sums in mine.items()})
        return other

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The sums as plain settings and arrays; users who were never contacted or reached take no place."""
        groups = {
            name: [[entry, sums.tolist()] for entry, sums in held.items()]
            for name, held in (("products", self.products), ("strategies", self.strategies))
        }
        used = np.flatnonzero(self._users.any(axis=1))
        rows = {"contacted": np.flatnonzero(self.contacted), "reached": np.flatnonzero(self.reached), "used": used}
        return groups, {**rows, "sums": self._users[used]}

    @classmethod
    def from_state(cls, network: Network, groups: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> _Tally:
        """The sums of `to_state`, of the same revision of the network."""
        tally = cls(network)
        tally.contacted[arrays["contacted"]] = True
        tally.reached[arrays["reached"]] = True
        tally._users[arrays["used"]] = arrays["sums"]
        tally.products.update({entry: np.array(sums) for entry, sums in groups["products"]})
        tally.strategies.update({entry: np.array(sums) for entry, sums in groups["strategies"]})
        return tally

    def add(self, record: Round, told: Told) -> RoundProgress:
        """Count a round in; returns what it looks like by itself."""
        counts = record.status != "cancelled"
        acted, rows = responded(self._network, record, told), record.contacted
        expected, responders = record.promised if counts else None, int(np.count_nonzero(acted))
        closed, new = record.status == "closed", 0
        if counts and record.kind != "history":
            self.contacted[rows] = True
            new = int(np.count_nonzero(acted & ~self.reached))
            self.reached |= acted
            if closed:
                self._split(record, told, rows, acted, expected)
        within = expected.low <= responders <= expected.high if closed and expected is not None else None
        inside = record.in_window(told.times)
        return RoundProgress(
            number=record.number,
            id=record.id,
            product=record.product,
            kind=record.kind,
            status=record.status,
            opened=record.opened,
            closed=record.closed,
            contacted=int(rows.size) if counts else 0,
            held_out=record.held_out.size if counts else 0,
            expected=expected,
            responders=responders,
            new_responders=new,
            responses=int(np.count_nonzero(told.outcomes > 0.0) + np.count_nonzero(inside)),
            spend=record.cost if counts else None,
            within=within,
        )

    def users(self, most: int) -> tuple[GroupProgress, ...]:
        """The users who were contacted most, at most so many."""
        contacts, responders = (self._users[:, _SUMS.index(name)] for name in ("contacts", "responders"))
        order = np.lexsort((-responders, -contacts))[:most]
        ids = self._network.graph.ids
        return tuple(_group(ids[row].item(), self._users[row]) for row in order.tolist() if contacts[row])

    def _split(self, record: Round, told: Told, rows: I64, acted: NDArray[np.bool_], expected: Reach | None) -> None:
        """Count a closed round for its product, its strategies and its users."""
        network, graph = self._network, self._network.graph
        # The edges by which the round could bring responses.
        edges = network.edges_in_round(rows, record.number, told.edges)
        edges = edges[~np.isin(graph.targets[edges], rows)]
        sources, targets = graph.sources[edges], graph.targets[edges]
        followers = np.bincount(sources, minlength=acted.size)[rows]
        # Who follows several contacted users counts in equal parts for each of them.
        hit, times = acted[targets], np.bincount(targets, minlength=acted.size)
        parts = np.bincount(sources[hit], weights=1.0 / times[targets[hit]], minlength=acted.size)[rows]
        asked, gains = (
            (0 * followers, 0.0 * followers) if expected is None else (followers, _gains(network, record)[rows])
        )
        ones = np.ones(rows.size)
        each = np.column_stack([ones, ones, followers, parts, asked, gains])
        self._users[rows] += each

        def add(sums: F64, own: NDArray[np.bool_]) -> None:
            distinct = np.unique(targets[np.isin(sources, rows[own])]).size
            _, contacts, _, brought, _, added = each[own].sum(axis=0).tolist()
            sums += [1, contacts, distinct, brought, 0 if expected is None else distinct, added]

        add(self.products[record.product], ones > 0)
        strategies = record.strategy_of("contacted") or {}
        for strategy in dict.fromkeys(strategies.values()):
            mine = [row for row, own in strategies.items() if own == strategy]
            add(self.strategies[strategy], np.isin(rows, mine))


def _group(name: Id | None, sums: F64) -> GroupProgress:
    rounds, contacts, followers, responders, asked, expected = sums.tolist()
    return GroupProgress(
        name,
        int(rounds),
        int(contacts),
        int(followers),
        responders,
        responders / followers if followers else 0.0,
        expected / asked if asked else None,
    )


def _ranked(groups: _Sums) -> tuple[GroupProgress, ...]:
    """Those with the most contacts first."""
    found = [_group(name, sums) for name, sums in groups.items()]
    return tuple(sorted(found, key=lambda group: (-group.contacts, -group.responders, str(group.id))))


def _gains(network: Network, record: Round) -> F64:
    """For each user what they were expected to add to the round."""
    gains = np.zeros(network.graph.n_nodes)
    kept = ~np.isin(record.chosen, record.held_out)
    gains[record.chosen[kept]] = record.gains[kept]
    return gains
