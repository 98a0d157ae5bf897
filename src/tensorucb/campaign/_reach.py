"""How many users a choice will make respond: the expected number, its interval, and how earlier ones turned out."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.campaign._forecast import Forecast, Outcome, adapted_level, predict
from tensorucb.campaign._network import Network
from tensorucb.campaign._told import responded
from tensorucb.diffusion import simulate_gains
from tensorucb.graph import Graph
from tensorucb.store._protocol import RoundRecord
from tensorucb.work import Engine

if TYPE_CHECKING:
    from tensorucb.campaign._handle import View


_RUNS = 1000
_PARTS = 10
_LEVEL = 0.9
# Rounds looked back on, so that an ask does not take longer as a campaign grows older.
_WINDOW = 200
_COUNTED = {"direct": "followers of those contacted who respond", "cascade": "everybody reached in a cascade"}
# No belief is taken for certain: a zero could not be corrected by any factor.
_LEAST, _MOST = 1e-4, 0.999


@dataclass(frozen=True)
class Reach:
    """How many users will respond, contacted users not counted among them.

    With the direct objective these are the responders that the campaign can observe: distinct followers of the
    contacted users who respond within the window. With the cascade objective it is everybody who becomes active
    because of them, near or far; the campaign sees of these only what node events tell, so that its interval is no
    better than the policy's beliefs about edges that nobody observed.

    The policy's own expectation is corrected by what its forecasts for earlier rounds of this campaign were worth,
    counted in direct responders under both objectives. The interval holds the number that will be observed, not its
    expectation: it includes chance, the uncertainty of the correction, and how popular this product turns out to be.
    So it is wide in the first rounds, and becomes narrow as far as the responses can be predicted.

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

    Examples
    --------
    >>> import tensorucb as tu
    >>> campaign = tu.create_campaign("spring", graph=tu.Graph.from_edges(["ann"], ["bob"]), storage="memory://")
    >>> ask = campaign.ask(k=1)
    >>> ask.reach.low <= ask.reach.mean <= ask.reach.high
    True
    """

    mean: float
    low: float
    high: float
    objective: str
    level: float = _LEVEL

    def __str__(self) -> str:
        between = f"{self.level:.0%} between {self.low:.0f} and {self.high:.0f}"
        return f"{self.mean:.1f} users, {between} ({_COUNTED[self.objective]}; those contacted do not count)"


@dataclass(frozen=True)
class Outlook:
    """What is expected of a choice.

    ``forecast`` is the policy's own number, for later comparison with what was observed; None if the chosen have no
    followers. ``probabilities`` are the policy's, corrected: those of the contacted users' followers sum to the
    expected number. ``gains`` is what each seed adds to it, in the given order. ``factor`` is the correction: what the
    odds of every probability were multiplied by.
    """

    reach: Reach
    forecast: Forecast | None
    probabilities: F64
    gains: F64
    factor: float = 1.0

    def corrected(self, probabilities: F64) -> F64:
        """Other probabilities of the policy with the same correction."""
        return _corrected(probabilities, self.factor)


@dataclass(frozen=True)
class Past:
    """The last rounds: outcomes of those with a forecast, oldest first, and keys of the users contacted in any."""

    outcomes: tuple[Outcome, ...] = ()
    contacted: I64 = field(default_factory=lambda: np.empty(0, dtype=np.int64))


class TrackRecord:
    """What closed rounds were expected to bring, and what they brought; counted again only if something new is told."""

    def __init__(self) -> None:
        self._counted: dict[tuple[int, int, int], Outcome] = {}

    def past(self, view: View) -> Past:
        """The last rounds as the log has them now."""
        last = view.ledger.next_number()
        numbered = (view.ledger.rounds.get(number) for number in range(max(1, last - _WINDOW), last))
        closed = [record for record in numbered if record is not None and record.status == "closed"]
        counted = {}
        for record in closed:
            if record.payload["forecast"] is not None:
                key = (record.number, record.revision, view.network.revision)
                counted[key] = self._counted.get(key) or _outcome(view, record)
        self._counted = counted
        keys = [key for record in closed for key in record.payload["contacted"]]
        return Past(tuple(counted.values()), np.unique(np.array(keys, dtype=np.int64)))


def _outcome(view: View, record: RoundRecord) -> Outcome:
    payload, reach = record.payload, promised(record)
    count = int(np.count_nonzero(responded(view.network, record, view.told(record.number))))
    covered = None if reach is None else reach.low <= count <= reach.high
    return Outcome(Forecast(**payload["forecast"]), product_label(payload["product"]["vectors"]), count, covered)


def promised(record: RoundRecord) -> Reach | None:
    """What was promised of a round's responders; None if the promise was about something else, or there was none.

    A cascade counts users who are not observed, a shadow round's expectation is about users who were not contacted,
    and nothing is expected where nobody follows.
    """
    payload = record.payload
    ours = payload["kind"] == "ask" and payload["objective"] == "direct"
    ours = ours and payload["forecast"] is not None
    return Reach(**payload["reach"]) if ours else None


def product_label(vectors: Any) -> str:
    """What tells products apart: their features, however they were given."""
    return json.dumps(vectors)


@dataclass(frozen=True)
class _Audience:
    """Edges from the contacted users to others, sorted by the follower, with their odds."""

    sources: NDArray[np.int32]
    odds: F64
    starts: NDArray[np.intp]

    @classmethod
    def of(cls, graph: Graph, probabilities: F64, rows: I64) -> _Audience:
        contacted = np.zeros(graph.n_nodes, dtype=np.bool_)
        contacted[rows] = True
        edges = graph.out_edges(np.sort(rows))
        edges = edges[~contacted[graph.targets[edges]]]
        edges = edges[np.argsort(graph.targets[edges], kind="stable")]
        followers = graph.targets[edges]
        starts = np.flatnonzero(np.diff(followers, prepend=-1))
        return cls(graph.sources[edges], _odds(probabilities[edges]), starts)

    @property
    def size(self) -> int:
        return int(self.starts.size)

    def expected(self, factor: float) -> float:
        """Expected number of responders if all odds are ``factor`` times as large: Σ_j 1 − Π_i (1 − p_ij)."""
        return float((1.0 - np.multiply.reduceat(1.0 / (1.0 + factor * self.odds), self.starts)).sum())

    def factor(self, count: float) -> float:
        """The factor of all odds with which ``count`` responders are expected."""
        from scipy.optimize import brentq

        wanted = min(max(count, 1e-9 * self.size), (1.0 - 1e-9) * self.size)
        return float(np.exp(brentq(lambda log: self.expected(np.exp(log)) - wanted, -60.0, 60.0, xtol=1e-12)))

    def forecast(self, tried: I64) -> Forecast:
        p = self.odds / (1.0 + self.odds)
        new = p[~np.isin(self.sources, tried)]
        return Forecast(self.expected(1.0), self.size, float(new.sum() / p.sum()))


def _odds(p: F64) -> F64:
    p = np.clip(p, _LEAST, _MOST)
    return np.asarray(p / (1.0 - p))


def _corrected(probabilities: F64, factor: float) -> F64:
    odds = _odds(probabilities)
    odds *= factor
    return np.asarray(odds / (1.0 + odds))


def foresee(
    network: Network,
    probabilities: F64,
    rows: I64,
    objective: str,
    past: Past,
    product: str,
    rng: np.random.Generator,
    engine: Engine | None = None,
) -> Outlook:
    """What to expect if the users ``rows`` are contacted for a product, given by its label.

    ``probabilities`` are the policy's for every edge, without exploration; ``past`` are the campaign's last rounds.
    """
    graph = network.graph
    audience = _Audience.of(graph, probabilities, rows)
    if audience.size == 0:
        reach = Reach(0.0, 0.0, 0.0, objective=objective)
        return Outlook(reach, None, _corrected(probabilities, 1.0), np.zeros(rows.size))
    forecast = audience.forecast(network.rows(past.contacted))
    belief = predict(past.outcomes, forecast, product)
    factor = audience.factor(belief.mean)
    p = _corrected(probabilities, factor)
    if objective == "cascade":
        # Users that each seed adds in simulated cascades, a tenth of them for each tenth of the belief.
        runs, counts = _RUNS // _PARTS, belief.quantiles(_PARTS).tolist()
        factors = map(audience.factor, counts)
        parts = [simulate_gains(graph, _corrected(probabilities, f), rows, runs, rng, engine=engine) for f in factors]
        reached = np.concatenate(parts)
        totals = reached.sum(axis=1)
        low, high = np.quantile(totals, [(1.0 - _LEVEL) / 2.0, (1.0 + _LEVEL) / 2.0])
        return Outlook(_reach(float(totals.mean()), low, high, objective), forecast, p, reached.mean(axis=0), factor)
    low, high = belief.interval(adapted_level(past.outcomes, _LEVEL))
    return Outlook(_reach(belief.mean, low, high, objective), forecast, p, direct_gains(graph, p, rows), factor)


def _reach(mean: float, low: float, high: float, objective: str) -> Reach:
    """The interval always holds the mean, which a rare large number moves further than the quantiles."""
    return Reach(mean, float(min(low, math.floor(mean))), float(max(high, math.ceil(mean))), objective=objective)


def untouched(graph: Graph, probabilities: F64, rows: I64) -> F64:
    """For each user the probability of not responding to ``rows``; 0 for these themselves, who are contacted."""
    survive = np.ones(graph.n_nodes)
    edges = graph.out_edges(rows)
    np.multiply.at(survive, graph.targets[edges], 1.0 - probabilities[edges])
    survive[rows] = 0.0
    return survive


def direct_gains(graph: Graph, probabilities: F64, rows: I64) -> F64:
    """Expected responders that each seed adds to those before it, in the given order; no seed is a responder."""
    survive, gains = np.ones(graph.n_nodes), np.empty(rows.size)
    survive[rows] = 0.0
    for i, row in enumerate(rows.tolist()):
        edges = slice(int(graph.out_offsets[row]), int(graph.out_offsets[row + 1]))
        targets, p = graph.targets[edges], probabilities[edges]
        gains[i] = float((survive[targets] * p).sum())
        survive[targets] *= 1.0 - p
    return gains


def html_table(columns: Sequence[str], rows: Sequence[Sequence[object]], caption: str) -> str:
    """A table with a caption above it; ids may hold anything."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    title = f'<caption style="caption-side: top; text-align: left">{escape(caption)}</caption>'
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def expectation(reach: Reach | None) -> str:
    """An expected number with its interval; nothing if there is none."""
    return "" if reach is None else f"{reach.mean:,.1f} ({reach.low:,.0f} to {reach.high:,.0f})"
