"""What came of the rounds of a campaign, counted once: per round, product, strategy and user."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.campaign._documents import from_json, to_json
from tensorucb.campaign._handle import TALLY, Handle, View
from tensorucb.campaign._ledger import Pair
from tensorucb.campaign._lift import FEW, Lift
from tensorucb.campaign._network import Network
from tensorucb.campaign._round import Id, Kind, Reach, Revenue, Round
from tensorucb.campaign._segments import Segments
from tensorucb.campaign._told import acted_in_window, of_rounds, responded, revenue_of, told_edges
from tensorucb.errors import FileFormatError
from tensorucb.files import pack_state, unpack_state
from tensorucb.store._protocol import Responses, Status

_FEW_USERS = 5  # of a segment
_TALLY_EVERY = 50  # rounds between two times that counts are stored
_COUNTS = "counts"


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


_SUMS = ("followers", "responders", "asked", "expected", "revenue")
"""What is summed up over contacts; ``asked`` are the followers in rounds with an expectation."""
_SAME = ("number", "id", "product", "kind", "status", "opened", "closed")
"""What the progress of a round has of the round itself."""
_NOTHING = np.empty((len(_SUMS), 0))
_NOBODY = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Counts:
    """What came of one round, whatever came of others.

    ``reached`` are the rows of the responders; in the ``entry`` all of them count as new. ``sums`` has a column for
    each contact of a closed round.
    """

    entry: RoundProgress
    reached: I64
    sums: F64


def _count(view: View, record: Round) -> Counts:
    """Count a round."""
    told = view.told(record.number)
    counts = record.status != "cancelled"
    closed = record.status == "closed"
    acted = responded(view.network, record, told)
    responders = np.flatnonzero(acted)
    worth = np.where(acted, revenue_of(view.network, record, told), 0.0)
    unknown = int(np.count_nonzero(np.isnan(worth)))
    worth = np.nan_to_num(worth)
    revenue = float(worth.sum())
    expected = record.promised if counts else None
    promised = None if expected is None else expected.revenue
    same: dict[str, Any] = {name: getattr(record, name) for name in _SAME}
    entry = RoundProgress(
        **same,
        strategies=strategies_of(record),
        contacted=record.contacted.size if counts else 0,
        held_out=record.held_out.size if counts else 0,
        expected=expected,
        responders=responders.size,
        new_responders=responders.size if record.is_ours else 0,
        responses=int(np.count_nonzero(told.by_edge.outcomes > 0.0)) + acted_in_window(record, told).size,
        spend=record.cost if counts else None,
        within=_within(expected, responders.size) if closed else None,
        revenue=revenue if record.is_valued(view.network) else None,
        without_amount=unknown,
        revenue_within=_within(promised, revenue) if closed and not unknown else None,
    )
    if not record.is_ours:
        return Counts(entry, _NOBODY, _NOTHING)
    return Counts(entry, responders, _of_contacts(view.network, record, told, acted, worth) if closed else _NOTHING)


def _within(promised: Reach | Revenue | None, number: float) -> bool | None:
    return None if promised is None else promised.low <= number <= promised.high


def _of_contacts(network: Network, record: Round, told: Responses, acted: NDArray[np.bool_], worth: F64) -> F64:
    """``(_SUMS, contacts)`` what came of each contact of a closed round; ``worth`` is that of each response."""
    graph, rows = network.graph, record.contacted
    # The edges by which the round could bring responses.
    edges = network.edges_in_round(rows, record.number, told_edges(network, told))
    edges = edges[~np.isin(graph.targets[edges], rows)]
    # Who follows several contacted users counts for the first of them, as in what each was expected to add.
    turn = np.argsort(rows)[np.searchsorted(np.sort(rows), graph.sources[edges])]
    edges = edges[np.argsort(turn, kind="stable")]
    edges = edges[np.unique(graph.targets[edges], return_index=True)[1]]
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
    return np.stack([followers, responders, asked, gains[rows], revenue])


def strategies_of(record: Round) -> tuple[Id, ...]:
    """Ids of the strategies that contacted users of a round got."""
    return tuple(dict.fromkeys((record.strategy_of("contacted") or {}).values()))


class Tally:
    """Rounds counted together.

    ``contacted`` and ``reached`` say for each user, by graph row, whether they were contacted in any round or responded
    to any. The contacts of closed rounds stand one behind another: of whom, in which round, and what came of them.
    """

    def __init__(self, network: Network, counted: Mapping[Round, Counts]) -> None:
        self.contacted = np.zeros(network.graph.n_nodes, dtype=np.bool_)
        self.reached = np.zeros(network.graph.n_nodes, dtype=np.bool_)
        self.rounds: list[RoundProgress] = []
        for record, counts in counted.items():
            new = int(np.count_nonzero(~self.reached[counts.reached]))
            self.rounds.append(replace(counts.entry, new_responders=new))
            self.reached[counts.reached] = True
            if record.is_ours:
                self.contacted[record.contacted] = True
        self._network = network
        self._closed = [record for record, counts in counted.items() if counts.sums.size]
        self._users = np.concatenate([_NOBODY, *(record.contacted for record in self._closed)])
        self._places = np.repeat(np.arange(len(self._closed)), [record.contacted.size for record in self._closed])
        self._sums = np.concatenate([_NOTHING, *(counts.sums for counts in counted.values())], axis=1)

    def _by(self, codes: I64) -> tuple[I64, F64]:
        """The codes of all contacts, each once; and the rounds, the contacts and the sums of each."""
        found, at = np.unique(codes, return_inverse=True)
        n_rounds = max(1, len(self._closed))
        rounds = np.bincount(np.unique(at * n_rounds + self._places) // n_rounds, minlength=found.size)
        sums = [np.bincount(at, weights=each, minlength=found.size) for each in self._sums]
        return found, np.column_stack([rounds, np.bincount(at, minlength=found.size), *sums])

    def products(self, names: Mapping[Id, str]) -> tuple[GroupProgress, ...]:
        """The sums of all products, those with the most contacts first."""
        return self._by_id([record.product for record in self._closed], self._places, names)

    def strategies(self, names: Mapping[Id, str]) -> tuple[GroupProgress, ...]:
        """The sums of all strategies, in the same order."""
        given = [(record.strategy_of("contacted") or {}, record.contacted.tolist()) for record in self._closed]
        ids = [strategies.get(row) for strategies, rows in given for row in rows]
        groups = self._by_id(ids, np.arange(len(ids)), names)
        return tuple(group for group in groups if group.id is not None)

    def _by_id(self, ids: Sequence[Id | None], places: I64, names: Mapping[Id, str]) -> tuple[GroupProgress, ...]:
        """The sums by id; ``places`` says for each contact where its own is."""
        codes = {each: code for code, each in enumerate(dict.fromkeys(ids))}
        _, sums = self._by(np.array([codes[each] for each in ids], dtype=np.int64)[places])
        called = [None if each is None else names.get(each) for each in codes]
        groups = [_group_progress(*group) for group in zip(codes, sums, called, strict=True)]
        return tuple(sorted(groups, key=lambda group: (-group.contacts, -group.responders, str(group.id))))

    def users(self, most: int, name: Callable[[int], str | None]) -> tuple[GroupProgress, ...]:
        """The users who were contacted most, at most so many; ``name`` says what one is called."""
        rows, sums = self._by(self._users)
        _, contacts, _, responders, *_ = sums.T
        first = np.lexsort((-responders, -contacts))[:most]
        ids = self._network.graph.ids
        return tuple(_group_progress(ids[rows[at]].item(), sums[at], name(rows[at])) for at in first.tolist())

    def segments(self, split: Segments, lifts: Mapping[int, Lift]) -> tuple[SegmentProgress, ...]:
        """The sums by segment, in the order of the labels; users of whom it is not known stand last."""
        found, sums = self._by(split.codes[self._users].astype(np.int64))
        contacted = split.codes[np.unique(self._users)]
        segments = []
        for code, row in sorted(zip(found.tolist(), sums, strict=True), key=lambda each: (each[0] < 0, each[0])):
            group = _group_progress(split.label(code), row)
            users = int(np.count_nonzero(contacted == code))
            *_, expected, _ = row.tolist()
            enough = users >= _FEW_USERS and max(group.responders, expected) >= FEW
            forecast = None if group.believed is None else expected
            segments.append(
                SegmentProgress(**vars(group), users=users, expected=forecast, lift=lifts.get(code), enough=enough)
            )
        return tuple(segments)


def _group_progress(entry: Id | None, sums: F64, name: str | None = None) -> GroupProgress:
    rounds, contacts, followers = map(int, sums[:3].tolist())
    responders, asked, expected, revenue = sums[3:].tolist()
    observed = responders / followers if followers else 0.0
    believed = expected / asked if asked else None
    return GroupProgress(entry, rounds, contacts, followers, responders, observed, believed, revenue, name)


def count_rounds(view: View) -> dict[Round, Counts]:
    """What came of each round; counted again only after it was told more, and never if the store has its counts."""
    stored = _stored(view)
    records = view.rounds()
    counted = of_rounds(view, "counts", records, lambda view, record: stored.get(record.pair) or _count(view, record))
    return dict(zip(records, counted, strict=True))


def keep_tally(handle: Handle) -> None:
    """Store what came of rounds that have ended, now and then, so that a new process need not count them again."""
    with handle.read() as view:
        revision = view.ledger.revision
        ended = [record for record in view.rounds() if record.status != "open"]
        for again in (False, True):  # another process may have stored them since this one looked
            if len(ended) < len(_stored(view, again)) + _TALLY_EVERY:
                return
        counted = count_rounds(view)
    kept = {record.pair: counted[record] for record in ended}
    settings = {"revision": revision, "pairs": list(kept), "counts": to_json(list(kept.values()))}
    packed = pack_state(_COUNTS, settings, {}, compressed=True)
    with handle.write() as view:
        if view.ledger.revision == revision:
            view.session.put_blob(view.number, TALLY, packed)
    handle.memory.keep("stored counts", revision, kept)


def _stored(view: View, again: bool = False) -> dict[Pair, Counts]:
    """The counts that `keep_tally` has stored; nothing if there are none of this network, or they are damaged.

    They are remembered as this process has read or stored them last, unless they are to be read ``again``.
    """

    def read() -> dict[Pair, Counts]:
        with suppress(FileFormatError):
            data = view.session.blob(view.number, TALLY)
            settings, _ = unpack_state(data or b"", _COUNTS, "the counts of its rounds")
            if settings["revision"] == view.ledger.revision:
                pairs = map(tuple, settings["pairs"])
                return {pair: from_json(Counts, each) for pair, each in zip(pairs, settings["counts"], strict=True)}
        return {}

    if again:
        view.memory.keep("stored counts", view.ledger.revision, read())
    return view.memory.cached("stored counts", view.ledger.revision, read)
