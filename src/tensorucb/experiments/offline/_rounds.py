"""What each logged round says about a target's choices; the sums that every estimator is made of.

Glossary: A_i = 1 if source i was contacted, π_i its propensity, w_i = A_i·min(1/π_i, clip), y_e the outcome of edge e,
m_e the model's prediction (0 without a model), q_e = m_e + w_i(y_e − m_e), whose mean is p_e if nothing was clipped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.errors import InputError
from tensorucb.experiments.offline._campaign import LoggedCampaign
from tensorucb.graph import Graph

Baseline = Callable[[int, I64], F64]
"""``baseline(t, edges)``: predicted probabilities of these edges in round ``t``."""


@dataclass(frozen=True)
class RoundSums:
    """Sums over the target's choices, one entry per round.

    Attributes
    ----------
    value
        Σ q_e over the chosen sources' edges, or the distinct users among them.
    overlap
        The model's distinct users minus its Σ m_e: never positive.
    chosen, weight
        Number of chosen sources, and Σ w_i.
    weights
        The positive w_i of all rounds.
    bias_bound
        Clipping, and the model in place of support, move the mean of ``value`` by at most this.
    ratio_bound
        The same for the self-normalised mean over all rounds.
    clipped, unsupported
        Number of clipped contacts, and of choices with propensity 0.
    """

    value: F64
    overlap: F64
    chosen: F64
    weight: F64
    weights: F64
    bias_bound: F64
    ratio_bound: float
    clipped: int
    unsupported: int


@dataclass(frozen=True)
class _Audience:
    """The out-edges of a set of sources, and the users outside the set that they lead to."""

    edges: I64
    degree: NDArray[np.integer[Any]]
    outside: NDArray[np.bool_]
    place: NDArray[np.intp]
    size: int

    @classmethod
    def of(cls, graph: Graph, rows: I64) -> _Audience:
        edges = graph.out_edges(rows)
        outside = ~np.isin(graph.targets[edges], rows)
        users, place = np.unique(graph.targets[edges][outside], return_inverse=True)
        return cls(edges, graph.out_degree[rows], outside, place, users.size)

    def distinct(self, q: F64) -> float:
        """Σ_{j∉S} (1 − Π_i (1 − q_ij)).

        Under independent contacts the factors of one j are independent, so the mean of the product is the product of
        the means, Π(1 − p_ij): the overlap of audiences is estimated without bias, with or without a good model.
        """
        untouched = np.ones(self.size)
        np.multiply.at(untouched, self.place, 1.0 - q[self.outside])
        return float((1.0 - untouched).sum())


@dataclass(frozen=True)
class Rules:
    """How a round is summed up.

    ``weighted_model``: q_e is corrected by the model. ``distinct``: users instead of responses. ``overlap``: the
    model's overlap is wanted. ``fill_with_model``: choices without support are left to the model.
    """

    clip: float
    weighted_model: bool
    distinct: bool
    overlap: bool
    fill_with_model: bool


def sums_by_round(campaign: LoggedCampaign, targets: list[I64], baseline: Baseline | None, rules: Rules) -> RoundSums:
    """Go through the log once."""
    graph, T = campaign.graph, campaign.n_rounds
    value, overlap, chosen, weight, bound = (np.zeros(T) for _ in range(5))
    weights, shares, degrees = [], [], []
    clipped = unsupported = 0
    told, here = np.zeros(graph.n_edges), np.zeros(graph.n_nodes, dtype=np.bool_)
    # Policies repeat themselves: the same array often stands for many rounds.
    audiences = {id(rows): _Audience.of(graph, rows) for rows in {id(r): r for r in targets}.values()}
    for t, rows in enumerate(targets):
        r, audience = campaign.round(t), audiences[id(rows)]
        pi = r.propensities[rows]
        missing = pi <= 0.0
        if missing.any() and not rules.fill_with_model:
            raise _no_support(campaign, t, rows[missing])
        told[r.edges], here[r.contacts] = r.outcomes, True
        y, contacted = told[audience.edges], here[rows]
        told[r.edges], here[r.contacts] = 0.0, False
        inverse = 1.0 / np.where(missing, 1.0, pi)
        w = np.where(contacted, np.minimum(inverse, rules.clip), 0.0)
        m = np.zeros(y.size) if baseline is None else baseline(t, audience.edges)
        base = m if rules.weighted_model else np.zeros(y.size)
        q = base + np.repeat(w, audience.degree) * (y - base)
        value[t] = audience.distinct(q) if rules.distinct else q.sum()
        if rules.overlap:
            overlap[t] = audience.distinct(m) - m.sum()
        # What is left of the mean weight, π·min(1/π, clip).
        share = np.where(missing, 0.0, pi * np.minimum(inverse, rules.clip))
        bound[t] = (np.repeat(1.0 - share, audience.degree) * np.maximum(base, 1.0 - base)).sum()
        chosen[t], weight[t] = rows.size, w.sum()
        weights.append(w[w > 0.0])
        shares.append(share)
        degrees.append(audience.degree)
        clipped += int((contacted & (inverse > rules.clip)).sum())
        unsupported += int(missing.sum())
    ratio_bound = _ratio_bound(np.concatenate(shares), np.concatenate(degrees), T)
    return RoundSums(value, overlap, chosen, weight, np.concatenate(weights), bound, ratio_bound, clipped, unsupported)


def _ratio_bound(kept: F64, degree: NDArray[np.integer[Any]], rounds: int) -> float:
    """How far clipping can move the self-normalised mean: (1/T) Σ |c_i·K/Σc − 1|·degree_i."""
    if kept.sum() <= 0.0:
        return float(degree.sum()) / rounds
    return float((np.abs(kept * (kept.size / kept.sum()) - 1.0) * degree).sum()) / rounds


def _no_support(campaign: LoggedCampaign, t: int, rows: I64) -> InputError:
    named = ", ".join(str(campaign.graph.ids[row]) for row in rows[:5])
    return InputError(
        f"the log has no support for the target in round {t}: {rows.size} chosen users have propensity 0 "
        f"({named}{', …' if rows.size > 5 else ''}), so no weighting of the log can tell their responses. "
        "Restrict the target to users the logging policy could contact (the oracle's candidates), "
        "or use estimator='dr' with missing_support='model', which trusts the model for them."
    )
