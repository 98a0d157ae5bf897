"""What came of the rounds of a campaign, counted once: per round, product, strategy and user."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.campaign._documents import from_json, to_json
from tensorucb.campaign._handle import TALLY, Handle, View
from tensorucb.campaign._lift import FEW, Lift
from tensorucb.campaign._network import Network, seal, unseal
from tensorucb.campaign._round import Id, Kind, Reach, Round
from tensorucb.campaign._segments import Segments
from tensorucb.campaign._told import Told, responded, revenue_of
from tensorucb.errors import FileFormatError
from tensorucb.store._protocol import Status

_FEW_USERS = 5  # of a segment
_TALLY_EVERY = 50  # rounds between two tallies that are stored


@dataclass(frozen=True)
class RoundProgress:
    """What was expected of a round, and what came so far.

    Attributes
    ----------
    number, id, product, kind, status, opened, closed
        As in :class:`~tensorucb.campaign.Ask`.
    strategies
        Ids of the strategies that contacted users got; empty in a round without strategies of the catalogue.
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
    revenue
        What the responders' responses were worth so far: the amounts told, and for responders without one what values
        of users and products say. None if nothing is known of that.
    without_amount
        How many of the responders count as nothing in it, because neither an amount nor values are known.
    revenue_within
        Of a closed round: whether ``revenue`` lies in its interval, that of ``expected.revenue``.

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
    strategies: tuple[Id, ...]
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
    revenue: float | None = None
    without_amount: int = 0
    revenue_within: bool | None = None


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
        Followers of the contacted users who were not contacted themselves, counted once per round. Who follows several
        contacted users counts for the first of them in the order of choice.
    responders
        How many of these responded.
    observed
        ``responders / followers``.
    believed
        The share of the same followers that was expected to respond when the rounds were opened; None if nothing was
        expected. The rates of users, weighted by their followers, average to that of the product.
    revenue
        What these responses were worth, in the same parts; 0 where nothing is known of that.
    name
        What people call it; None if that is not known.

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
    revenue: float = 0.0
    name: str | None = None


@dataclass(frozen=True)
class SegmentProgress(GroupProgress):
    """What came of the contacted users with one value in a column of the table of users, in closed rounds.

    Attributes
    ----------
    id
        The value, or the range of numbers.
    users
        How many different users were contacted.
    expected
        How many responders were expected of these users; None if nothing was expected.
    lift
        Followers of those of them who were contacted against followers of those who were held out; None where too few
        were held out to exclude anything.
    enough
        Whether there is enough to tell anything: five different users were contacted, since what two or three of them
        bring is about these, and ten responders came, or ten were expected.

    Examples
    --------
    >>> sums = {"rounds": 3, "contacts": 4, "followers": 90, "responders": 6.0, "observed": 0.07, "believed": 0.05}
    >>> france = SegmentProgress("France", **sums, users=4, expected=4.5, enough=False)
    >>> f"{france.id}: {france.responders:.0f} responders" if france.enough else f"{france.id}: too few to tell"
    'France: too few to tell'
    """

    users: int = 0
    expected: float | None = None
    lift: Lift | None = None
    enough: bool = False


_SUMS = ("rounds", "contacts", "followers", "responders", "asked", "expected", "revenue")
Sums = defaultdict[Id | None, F64]
"""For each id the sums named above; ``asked`` are the followers in rounds with an expectation."""


class Tally:
    """Sums over the rounds counted so far.

    ``contacted`` and ``reached`` say for each user, by graph row, whether they were contacted in any round or responded
    to any. With a ``split``, ``segments`` has the sums by its codes.
    """

    def __init__(self, network: Network, split: Segments | None = None) -> None:
        n = network.graph.n_nodes
        self._network = network
        self.contacted = np.zeros(n, dtype=np.bool_)
        self.reached = np.zeros(n, dtype=np.bool_)
        self.products: Sums = defaultdict(lambda: np.zeros(len(_SUMS)))
        self.strategies: Sums = defaultdict(lambda: np.zeros(len(_SUMS)))
        self.split = split
        self.segments: defaultdict[int, F64] = defaultdict(lambda: np.zeros(len(_SUMS)))
        self._users = np.zeros((n, len(_SUMS)))

    def copy(self) -> Tally:
        """The same sums, to be counted on from here."""
        other = Tally(self._network)
        other.contacted = self.contacted.copy()
        other.reached = self.reached.copy()
        other._users = self._users.copy()
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
    def from_state(cls, network: Network, groups: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Tally:
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
        closed = record.status == "closed"
        rows = record.contacted
        acted = responded(self._network, record, told)
        responders = int(np.count_nonzero(acted))
        worth = np.where(acted, revenue_of(self._network, record, told), 0.0)
        unknown = int(np.count_nonzero(np.isnan(worth)))
        worth = np.nan_to_num(worth)
        priced = record.priced or record.value is not None or self._network.values is not None
        revenue = float(worth.sum()) if priced else None
        expected = record.promised if counts else None
        new = 0
        if counts and record.kind != "history":
            self.contacted[rows] = True
            new = int(np.count_nonzero(acted & ~self.reached))
            self.reached |= acted
            if closed:
                self._split(record, told, rows, acted, expected, worth)
        within = expected.low <= responders <= expected.high if closed and expected is not None else None
        promised = None if expected is None else expected.revenue
        held = None
        if closed and promised is not None and not unknown:
            held = promised.low <= float(worth.sum()) <= promised.high
        inside = record.in_window(told.times)
        return RoundProgress(
            number=record.number,
            id=record.id,
            product=record.product,
            strategies=strategies_of(record),
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
            revenue=revenue,
            without_amount=unknown,
            revenue_within=held,
        )

    def by_segment(self, lifts: Mapping[int, Lift]) -> tuple[SegmentProgress, ...]:
        """The sums by segment, in the order of the labels; users of whom it is not known stand last."""
        found = []
        codes = np.empty(0, dtype=np.int16)
        if self.split is not None:
            codes = self.split.codes[self._users[:, _SUMS.index("contacts")] > 0.0]
        for code in sorted(self.segments, key=lambda code: (code < 0, code)):
            sums = dict(zip(_SUMS, self.segments[code].tolist(), strict=True))
            group = group_progress(None if self.split is None else self.split.label(code), self.segments[code])
            more: dict[str, Any] = {"expected": sums["expected"] if sums["asked"] else None, "lift": lifts.get(code)}
            users = int(np.count_nonzero(codes == code))
            enough = users >= _FEW_USERS and max(sums["responders"], sums["expected"]) >= FEW
            found.append(SegmentProgress(**vars(group), users=users, **more, enough=enough))
        return tuple(found)

    def users(self, most: int, name: Callable[[int], str | None]) -> tuple[GroupProgress, ...]:
        """The users who were contacted most, at most so many; ``name`` says what one is called."""
        contacts, responders = (self._users[:, _SUMS.index(name)] for name in ("contacts", "responders"))
        order = np.lexsort((-responders, -contacts))[:most]
        ids = self._network.graph.ids
        rows = [row for row in order.tolist() if contacts[row]]
        return tuple(group_progress(ids[row].item(), self._users[row], name(row)) for row in rows)

    def _split(
        self, record: Round, told: Told, rows: I64, acted: NDArray[np.bool_], expected: Reach | None, worth: F64
    ) -> None:
        """Count a closed round for its product, its strategies and its users; ``worth`` is that of each response."""
        network, graph = self._network, self._network.graph
        # The edges by which the round could bring responses.
        edges = network.edges_in_round(rows, record.number, told.edges)
        edges = edges[~np.isin(graph.targets[edges], rows)]
        # Who follows several contacted users counts for the first of them, as in what each was expected to add.
        edges = edges[_of_first(graph.sources[edges], graph.targets[edges], rows)]
        sources, targets = graph.sources[edges], graph.targets[edges]
        followers = np.bincount(sources, minlength=acted.size)[rows]
        hit = acted[targets]
        parts = np.bincount(sources[hit], minlength=acted.size)[rows]
        sums_of = np.bincount(sources[hit], weights=worth[targets[hit]], minlength=acted.size)[rows]
        asked, gains = (
            (0 * followers, 0.0 * followers) if expected is None else (followers, expected_gains(network, record)[rows])
        )
        ones = np.ones(rows.size)
        each = np.column_stack([ones, ones, followers, parts, asked, gains, sums_of])
        self._users[rows] += each

        def add(sums: F64, own: NDArray[np.bool_]) -> None:
            sums += each[own].sum(axis=0)
            sums[0] += 1.0 - np.count_nonzero(own)  # one round, not one of each user

        add(self.products[record.product], ones > 0)
        codes = np.empty(0, dtype=np.int16) if self.split is None else self.split.codes[rows]
        for code in np.unique(codes).tolist():
            add(self.segments[code], codes == code)
        strategies = record.strategy_of("contacted") or {}
        for strategy in strategies_of(record):
            mine = [row for row, own in strategies.items() if own == strategy]
            add(self.strategies[strategy], np.isin(rows, mine))


def _of_first(sources: NDArray[np.int32], targets: NDArray[np.int32], rows: I64) -> NDArray[np.bool_]:
    """Which edges come from the first of ``rows`` that their target follows."""
    turn = np.empty(int(rows.max(initial=-1)) + 1, dtype=np.int64)
    turn[rows] = np.arange(rows.size)
    first = np.full(int(targets.max(initial=-1)) + 1, rows.size)
    np.minimum.at(first, targets, turn[sources])
    return np.asarray(turn[sources] == first[targets])


def strategies_of(record: Round) -> tuple[Id, ...]:
    """Ids of the strategies that contacted users of a round got."""
    return tuple(dict.fromkeys((record.strategy_of("contacted") or {}).values()))


def group_progress(entry: Id | None, sums: F64, name: str | None = None) -> GroupProgress:
    rounds, contacts, followers, responders, asked, expected, revenue = sums.tolist()
    return GroupProgress(
        entry,
        int(rounds),
        int(contacts),
        int(followers),
        responders,
        responders / followers if followers else 0.0,
        expected / asked if asked else None,
        revenue,
        name,
    )


def ranked(groups: Sums, names: Mapping[Id, str]) -> tuple[GroupProgress, ...]:
    """Those with the most contacts first."""
    entries = [
        group_progress(entry, sums, None if entry is None else names.get(entry)) for entry, sums in groups.items()
    ]
    return tuple(sorted(entries, key=lambda group: (-group.contacts, -group.responders, str(group.id))))


def expected_gains(network: Network, record: Round) -> F64:
    """For each user what they were expected to add to the round."""
    gains = np.zeros(network.graph.n_nodes)
    kept = ~np.isin(record.chosen, record.held_out)
    gains[record.chosen[kept]] = record.gains[kept]
    return gains


def count_rounds(handle: Handle, view: View) -> tuple[Tally, tuple[RoundProgress, ...]]:
    """All rounds, counted in their order; the ones up to the first that was open at the last call are counted once."""
    records = view.rounds()
    # What was told late makes another revision of a round that has ended.
    marks = [(record.number, record.revision) for record in records]
    ended = rounds_ended(records)
    tally = Tally(view.network)
    rounds: list[RoundProgress] = []
    before = handle.counted or stored_tally(view)
    if before is not None:
        network, marks_before, tally_before, rounds_before = before
        if network.revision == view.network.revision and marks_before == marks[: len(marks_before)]:
            tally = tally_before.copy()
            rounds = list(rounds_before)
    for i in range(len(rounds), len(records) + 1):
        if i == ended:
            handle.counted = view.network, marks[:i], tally.copy(), tuple(rounds)
        if i < len(records):
            rounds.append(tally.add(records[i], view.told(records[i].number)))
    return tally, tuple(rounds)


def rounds_ended(records: Sequence[Round]) -> int:
    """How many rounds there are before the first that is open."""
    return next((i for i, record in enumerate(records) if record.status == "open"), len(records))


def keep_tally(handle: Handle) -> None:
    """Store the counts of rounds that have ended, now and then, so that a new process need not count them again."""
    with handle.read() as view:
        if rounds_ended(view.rounds()) < handle.tallied + _TALLY_EVERY:
            return
        stored = stored_tally(view)
        handle.tallied = 0 if stored is None else len(stored[1])
        count_rounds(handle, view)
    network, marks, tally, rounds = handle.counted
    if len(marks) < handle.tallied + _TALLY_EVERY:
        return
    groups, arrays = tally.to_state()
    settings = {"revision": network.revision, "marks": marks, "rounds": to_json(rounds), **groups}
    with handle.write() as view:
        if view.ledger.revision == network.revision:
            view.session.put_blob(view.number, TALLY, seal(TALLY, settings, arrays, compressed=True))
    handle.tallied = len(marks)


def stored_tally(view: View) -> tuple[Network, list[tuple[int, int]], Tally, tuple[RoundProgress, ...]] | None:
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
    return view.network, marks, Tally.from_state(view.network, settings, arrays), rounds
