"""The counts behind a campaign's progress: what was expected of each round, what came, and sums over rounds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.campaign._catalogue import strategy_names
from tensorucb.campaign._network import Network
from tensorucb.campaign._reach import Reach, promised
from tensorucb.campaign._told import Told, in_window, responded
from tensorucb.store._protocol import RoundRecord

Id = int | str


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
    kind: str
    status: str
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


_SUMS = ("rounds", "contacts", "followers", "responders", "asked", "expected")
_Sums = defaultdict[Id | None, F64]
"""For each id the sums named above; ``asked`` are the followers in rounds with an expectation."""


class Tally:
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

    def copy(self) -> Tally:
        """The same sums, to be counted on from here."""
        other = Tally(self._network)
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
    def from_state(cls, network: Network, groups: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Tally:
        """The sums of `to_state`, of the same revision of the network."""
        tally = cls(network)
        tally.contacted[arrays["contacted"]] = True
        tally.reached[arrays["reached"]] = True
        tally._users[arrays["used"]] = arrays["sums"]
        tally.products.update({entry: np.array(sums) for entry, sums in groups["products"]})
        tally.strategies.update({entry: np.array(sums) for entry, sums in groups["strategies"]})
        return tally

    def add(self, record: RoundRecord, told: Told) -> RoundProgress:
        """Count a round in; returns what it looks like by itself."""
        payload, counts = record.payload, record.status != "cancelled"
        acted, rows = responded(self._network, record, told), self._network.rows(payload["contacted"])
        expected, responders = promised(record) if counts else None, int(np.count_nonzero(acted))
        closed, new = record.status == "closed", 0
        if counts and payload["kind"] != "history":
            self.contacted[rows] = True
            new = int(np.count_nonzero(acted & ~self.reached))
            self.reached |= acted
            if closed:
                self._split(record, told, rows, acted, expected)
        within = expected.low <= responders <= expected.high if closed and expected is not None else None
        inside = in_window(told.times, record.opened, payload["window"])
        return RoundProgress(
            number=record.number,
            id=record.id,
            product=payload["product"]["id"],
            kind=payload["kind"],
            status=record.status,
            opened=record.opened,
            closed=record.closed,
            contacted=int(rows.size) if counts else 0,
            held_out=len(payload["holdout"]) if counts else 0,
            expected=expected,
            responders=responders,
            new_responders=new,
            responses=int(np.count_nonzero(told.outcomes > 0.0) + np.count_nonzero(inside)),
            spend=payload["cost"] if counts else None,
            within=within,
        )

    def users(self, most: int) -> tuple[GroupProgress, ...]:
        """The users who were contacted most, at most so many."""
        contacts, responders = (self._users[:, _SUMS.index(name)] for name in ("contacts", "responders"))
        order = np.lexsort((-responders, -contacts))[:most]
        ids = self._network.graph.ids
        return tuple(_group(ids[row].item(), self._users[row]) for row in order.tolist() if contacts[row])

    def _split(
        self, record: RoundRecord, told: Told, rows: I64, acted: NDArray[np.bool_], expected: Reach | None
    ) -> None:
        """Count a closed round for its product, its strategies and its users."""
        network, payload, graph = self._network, record.payload, self._network.graph
        # The edges by which the round could bring responses.
        edges = network.edges_in_round(rows, record.number, told.edges)
        edges = edges[~np.isin(graph.targets[edges], rows)]
        sources, targets = graph.sources[edges], graph.targets[edges]
        followers = np.bincount(sources, minlength=acted.size)[rows]
        # Who follows several contacted users counts in equal parts for each of them.
        hit, times = acted[targets], np.bincount(targets, minlength=acted.size)
        parts = np.bincount(sources[hit], weights=1.0 / times[targets[hit]], minlength=acted.size)[rows]
        asked, gains = (
            (0 * followers, 0.0 * followers) if expected is None else (followers, _gains(network, payload)[rows])
        )
        ones = np.ones(rows.size)
        each = np.column_stack([ones, ones, followers, parts, asked, gains])
        self._users[rows] += each

        def add(sums: F64, own: NDArray[np.bool_]) -> None:
            distinct = np.unique(targets[np.isin(sources, rows[own])]).size
            _, contacts, _, brought, _, added = each[own].sum(axis=0).tolist()
            sums += [1, contacts, distinct, brought, 0 if expected is None else distinct, added]

        add(self.products[payload["product"]["id"]], ones > 0)
        names = strategy_names(payload, "contacted") or {}
        for strategy in dict.fromkeys(names.values()):
            mine = network.rows([key for key, name in names.items() if name == strategy])
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


def ranked(groups: _Sums) -> tuple[GroupProgress, ...]:
    """Those with the most contacts first."""
    found = [_group(name, sums) for name, sums in groups.items()]
    return tuple(sorted(found, key=lambda group: (-group.contacts, -group.responders, str(group.id))))


def _gains(network: Network, payload: Mapping[str, Any]) -> F64:
    """For each user what they were expected to add to the round."""
    gains = np.zeros(network.graph.n_nodes)
    keys, added = np.array(payload["seeds"], dtype=np.int64), np.array(payload["gains"])
    known = np.isin(keys, network.keys) & ~np.isin(keys, payload["holdout"])
    gains[network.rows(keys[known])] = added[known]
    return gains
