"""What came of the rounds of a campaign, counted once: per round, product, strategy and user."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.campaign._documents import from_json, to_json
from tensorucb.campaign._handle import TALLY, Handle, View
from tensorucb.campaign._lift import FEW, Lift
from tensorucb.campaign._network import Network
from tensorucb.campaign._round import Id, Kind, Reach, Revenue, Round
from tensorucb.campaign._segments import Segments
from tensorucb.campaign._told import acted_in_window, responded, revenue_of, told_edges
from tensorucb.errors import FileFormatError
from tensorucb.files import pack_state, unpack_state
from tensorucb.store._protocol import Responses, Status

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
    """

    users: int = 0
    expected: float | None = None
    lift: Lift | None = None
    enough: bool = False


Grouping = Literal["product", "strategy", "segment"]
_SUMS = ("rounds", "contacts", "followers", "responders", "asked", "expected", "revenue")
"""What is summed up for each user and group; ``asked`` are the followers in rounds with an expectation."""
_SAME = ("number", "id", "product", "kind", "status", "opened", "closed")
"""What the progress of a round has of the round itself."""


class Tally:
    """Rounds counted so far, and sums over them.

    ``contacted`` and ``reached`` say for each user, by graph row, whether they were contacted in any round or responded
    to any. ``marks`` are the numbers of the rounds and their revisions: what was told late makes another one. With a
    ``split``, there are sums for each of its codes.
    """

    def __init__(self, network: Network, split: Segments | None = None) -> None:
        n = network.graph.n_nodes
        self.network = network
        self.split = split
        self.rounds: list[RoundProgress] = []
        self.marks: list[tuple[int, int]] = []
        self.contacted = np.zeros(n, dtype=np.bool_)
        self.reached = np.zeros(n, dtype=np.bool_)
        self._users = np.zeros((n, len(_SUMS)))
        self._groups: dict[tuple[Grouping, Id | None], F64] = {}

    def copy(self) -> Tally:
        """The same sums, to be counted on from here."""
        other = copy(self)
        other.rounds = self.rounds.copy()
        other.marks = self.marks.copy()
        other.contacted = self.contacted.copy()
        other.reached = self.reached.copy()
        other._users = self._users.copy()
        other._groups = self._groups.copy()
        return other

    def to_blob(self) -> bytes:
        """As bytes for the store; users who were never contacted or reached take no place."""
        used = np.flatnonzero(self._users.any(axis=1))
        settings = {
            "revision": self.network.revision,
            "marks": self.marks,
            "rounds": to_json(self.rounds),
            "groups": [[*group, sums.tolist()] for group, sums in self._groups.items()],
        }
        rows = {"contacted": np.flatnonzero(self.contacted), "reached": np.flatnonzero(self.reached), "used": used}
        return pack_state(TALLY, settings, {**rows, "sums": self._users[used]}, compressed=True)

    @classmethod
    def stored(cls, view: View) -> Tally | None:
        """The counts that `keep_tally` has stored; None if there are none of this network, or they are damaged."""
        if TALLY not in view.session.blobs(view.number):
            return None
        try:
            settings, arrays = unpack_state(
                view.session.blob(view.number, TALLY) or b"", TALLY, "the tally of the campaign"
            )
        except FileFormatError:
            return None
        if settings["revision"] != view.network.revision:
            return None
        tally = cls(view.network)
        tally.rounds = [from_json(RoundProgress, entry) for entry in settings["rounds"]]
        tally.marks = [(number, revision) for number, revision in settings["marks"]]
        tally.contacted[arrays["contacted"]] = True
        tally.reached[arrays["reached"]] = True
        tally._users[arrays["used"]] = arrays["sums"]
        tally._groups = {(grouping, entry): np.array(sums) for grouping, entry, sums in settings["groups"]}
        return tally

    def add(self, record: Round, told: Responses) -> None:
        """Count a round in."""
        counts = record.status != "cancelled"
        closed = record.status == "closed"
        acted = responded(self.network, record, told)
        responders = int(np.count_nonzero(acted))
        worth = np.where(acted, revenue_of(self.network, record, told), 0.0)
        unknown = int(np.count_nonzero(np.isnan(worth)))
        worth = np.nan_to_num(worth)
        revenue = float(worth.sum())
        priced = record.priced or record.value is not None or self.network.values is not None
        expected = record.promised if counts else None
        new = 0
        if counts and record.kind != "history":
            self.contacted[record.contacted] = True
            new = int(np.count_nonzero(acted & ~self.reached))
            self.reached |= acted
            if closed:
                self._add_contacts(record, told, acted, worth)
        promised = None if expected is None else expected.revenue
        same: dict[str, Any] = {name: getattr(record, name) for name in _SAME}
        self.marks.append((record.number, record.revision))
        self.rounds.append(
            RoundProgress(
                **same,
                strategies=strategies_of(record),
                contacted=record.contacted.size if counts else 0,
                held_out=record.held_out.size if counts else 0,
                expected=expected,
                responders=responders,
                new_responders=new,
                responses=int(np.count_nonzero(told.by_edge.outcomes > 0.0)) + acted_in_window(record, told).size,
                spend=record.cost if counts else None,
                within=_within(expected, responders) if closed else None,
                revenue=revenue if priced else None,
                without_amount=unknown,
                revenue_within=_within(promised, revenue) if closed and not unknown else None,
            )
        )

    def _add_contacts(self, record: Round, told: Responses, acted: NDArray[np.bool_], worth: F64) -> None:
        """Count a closed round for its product, its strategies and its users; ``worth`` is that of each response."""
        graph, rows = self.network.graph, record.contacted
        # The edges by which the round could bring responses.
        edges = self.network.edges_in_round(rows, record.number, told_edges(self.network, told))
        edges = edges[~np.isin(graph.targets[edges], rows)]
        # Who follows several contacted users counts for the first of them, as in what each was expected to add.
        edges = edges[_of_first(graph.sources[edges], graph.targets[edges], rows)]
        sources, targets = graph.sources[edges], graph.targets[edges]
        hit = acted[targets]
        followers = np.bincount(sources, minlength=acted.size)[rows]
        responders = np.bincount(sources[hit], minlength=acted.size)[rows]
        revenue = np.bincount(sources[hit], weights=worth[targets[hit]], minlength=acted.size)[rows]
        asked = np.zeros_like(followers)
        gains = np.zeros(acted.size)
        if record.promised is not None:
            asked = followers
            gains[record.chosen] = record.gains
        ones = np.ones(rows.size)
        each = np.column_stack([ones, ones, followers, responders, asked, gains[rows], revenue])
        self._users[rows] += each
        self._add_group("product", record.product, each)
        if self.split is not None:
            codes = self.split.codes[rows]
            for code in np.unique(codes).tolist():
                self._add_group("segment", code, each[codes == code])
        strategies = record.strategy_of("contacted") or {}
        for strategy in strategies_of(record):
            own = [strategies[row] == strategy for row in rows.tolist()]
            self._add_group("strategy", strategy, each[own])

    def _add_group(self, grouping: Grouping, entry: Id | None, each: F64) -> None:
        sums = each.sum(axis=0)
        sums[_SUMS.index("rounds")] = 1.0  # not one of each user
        self._groups[grouping, entry] = self._groups.get((grouping, entry), np.zeros(len(_SUMS))) + sums

    def by(self, grouping: Grouping, names: Mapping[Id, str]) -> tuple[GroupProgress, ...]:
        """The sums of all products or strategies, those with the most contacts first."""
        entries = [
            _group_progress(entry, sums, None if entry is None else names.get(entry))
            for (group, entry), sums in self._groups.items()
            if group == grouping
        ]
        return tuple(sorted(entries, key=lambda group: (-group.contacts, -group.responders, str(group.id))))

    def by_segment(self, split: Segments, lifts: Mapping[int, Lift]) -> tuple[SegmentProgress, ...]:
        """The sums by segment, in the order of the labels; users of whom it is not known stand last."""
        contacted = split.codes[self._users[:, _SUMS.index("contacts")] > 0.0]
        segments = []
        for code in sorted(np.unique(contacted).tolist(), key=lambda code: (code < 0, code)):
            sums = self._groups["segment", code]
            group = _group_progress(split.label(code), sums)
            users = int(np.count_nonzero(contacted == code))
            expected = float(sums[_SUMS.index("expected")])
            enough = users >= _FEW_USERS and max(group.responders, expected) >= FEW
            forecast = None if group.believed is None else expected
            segments.append(
                SegmentProgress(**vars(group), users=users, expected=forecast, lift=lifts.get(code), enough=enough)
            )
        return tuple(segments)

    def users(self, most: int, name: Callable[[int], str | None]) -> tuple[GroupProgress, ...]:
        """The users who were contacted most, at most so many; ``name`` says what one is called."""
        contacts = self._users[:, _SUMS.index("contacts")]
        responders = self._users[:, _SUMS.index("responders")]
        order = np.lexsort((-responders, -contacts))[:most]
        ids = self.network.graph.ids
        rows = [row for row in order.tolist() if contacts[row]]
        return tuple(_group_progress(ids[row].item(), self._users[row], name(row)) for row in rows)


def _within(promised: Reach | Revenue | None, number: float) -> bool | None:
    return None if promised is None else promised.low <= number <= promised.high


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


def _group_progress(entry: Id | None, sums: F64, name: str | None = None) -> GroupProgress:
    rounds, contacts, followers, responders, asked, expected, revenue = sums.tolist()
    return GroupProgress(
        id=entry,
        rounds=int(rounds),
        contacts=int(contacts),
        followers=int(followers),
        responders=responders,
        observed=responders / followers if followers else 0.0,
        believed=expected / asked if asked else None,
        revenue=revenue,
        name=name,
    )


def count_rounds(view: View) -> Tally:
    """All rounds, counted in their order; the ones up to the first that was open at the last call are counted once."""
    records = view.rounds()
    ended = _ended(records)
    revision = view.network.revision
    before: Tally | None = view.memory.get("tally", revision) or Tally.stored(view)
    tally = Tally(view.network)
    if before is not None and before.network.revision == revision:
        marks = [(record.number, record.revision) for record in records[: len(before.marks)]]
        tally = before.copy() if before.marks == marks else tally
    for record in records[len(tally.rounds) : ended]:
        tally.add(record, view.told(record.number))
    view.memory.keep("tally", revision, tally.copy())
    for record in records[ended:]:
        tally.add(record, view.told(record.number))
    return tally


def _ended(records: Sequence[Round]) -> int:
    """How many rounds there are before the first that is open."""
    return next((i for i, record in enumerate(records) if record.status == "open"), len(records))


def keep_tally(handle: Handle) -> None:
    """Store the counts of rounds that have ended, now and then, so that a new process need not count them again."""
    with handle.read() as view:
        if _ended(view.rounds()) < handle.tallied + _TALLY_EVERY:
            return
        stored = Tally.stored(view)
        handle.tallied = 0 if stored is None else len(stored.rounds)
        count_rounds(view)
        tally: Tally = view.memory.get("tally", view.network.revision)
    if len(tally.rounds) < handle.tallied + _TALLY_EVERY:
        return
    with handle.write() as view:
        if view.ledger.revision == tally.network.revision:
            view.session.put_blob(view.number, TALLY, tally.to_blob())
    handle.tallied = len(tally.rounds)
