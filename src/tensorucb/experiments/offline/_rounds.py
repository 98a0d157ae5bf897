"""What each logged round says about a target's choices; the sums that every estimator is made of.

Glossary: A_i = 1 if source i was contacted, π_i its propensity, w_i = A_i·min(1/π_i, clip), y_e the outcome of edge e,
m_e the model's prediction (0 without a model), q_e = m_e + w_i(y_e − m_e), whose mean is p_e if nothing was clipped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from tensorucb.arrays import F64, I64
from tensorucb.checks import check_choice, check_number, check_share
from tensorucb.errors import InputError
from tensorucb.experiments.offline._campaign import LoggedCampaign
from tensorucb.graph import Graph

Estimator = Literal["ips", "snips", "dr"]
Count = Literal["all", "distinct", "modelled"]
MissingSupport = Literal["refuse", "model"]
IntervalKind = Literal["normal", "bootstrap"]

Baseline = Callable[[int, I64], F64]
"""``baseline(t, edges)``: predicted probabilities of these edges in round ``t``."""


@dataclass(frozen=True)
class How:
    """The arguments of `estimate_value` that say how."""

    estimator: Estimator
    count: Count = "all"
    clip: float | None = None
    missing_support: MissingSupport = "refuse"
    interval: IntervalKind = "normal"
    level: float = 0.9

    @property
    def needs_model(self) -> bool:
        """Whether predictions enter."""
        return self.estimator == "dr" or self.count == "modelled"

    def check(self, campaign: LoggedCampaign, *, has_model: bool) -> None:
        """Refuse what does not fit together."""
        check_choice("estimator", self.estimator, get_args(Estimator))
        check_choice("count", self.count, get_args(Count))
        check_choice("missing_support", self.missing_support, get_args(MissingSupport))
        check_choice("interval", self.interval, get_args(IntervalKind))
        if self.needs_model and not has_model:
            raise InputError(
                f"estimator={self.estimator!r} with count={self.count!r} needs a model. "
                "Pass model=cross_fitted_model(campaign, policy, users), or use estimator='ips' or 'snips'."
            )
        if self.missing_support == "model" and self.estimator != "dr":
            raise InputError(f"missing_support='model' needs estimator='dr'; got {self.estimator!r}.")
        if self.count == "distinct" and self.estimator == "snips":
            raise InputError("count='distinct' has no self-normalised form. Use 'ips', 'dr' or count='modelled'.")
        if self.count == "distinct" and campaign.sampling != "independent":
            raise InputError(
                "count='distinct' needs contacts drawn independently of each other; this log has "
                f"sampling={campaign.sampling!r}. Use count='modelled' (with a model) or count='all'."
            )
        if self.clip is not None:
            check_number("clip", self.clip, low=1.0, hint="1 is the smallest weight.")
        check_share("level", self.level, zero=False, one=False)


@dataclass(frozen=True)
class RoundSums:
    """Sums over the target's choices, one entry per round; the last four are over all rounds."""

    value: F64  # Σ q_e over the chosen sources' edges, or the distinct users among them
    overlap: F64  # the model's distinct users minus its Σ m_e: never positive; 0 unless count="modelled"
    chosen: F64  # number of chosen sources
    weight: F64  # Σ w_i
    weights: F64  # the positive w_i
    bias_bound: float  # clipping, and the model in place of support, move the estimator's mean by at most this
    clipped: int  # clipped contacts
    unsupported: int  # choices with propensity 0


class _Audience:
    """The out-edges of a set of sources, and the users outside the set that they lead to."""

    def __init__(self, graph: Graph, rows: I64) -> None:
        self.edges, self.degree = graph.out_edges(rows), graph.out_degree[rows]
        targets = graph.targets[self.edges]
        self.outside = ~np.isin(targets, rows)
        users, self.place = np.unique(targets[self.outside], return_inverse=True)
        self.size = users.size

    def distinct(self, q: F64) -> float:
        """Σ_{j∉S} (1 − Π_i (1 − q_ij)).

        Under independent contacts the factors of one j are independent, so the mean of the product is the product of
        the means, Π(1 − p_ij): the overlap of audiences is estimated without bias, with or without a good model.
        """
        untouched = np.ones(self.size)
        np.multiply.at(untouched, self.place, 1.0 - q[self.outside])
        return float((1.0 - untouched).sum())


def sums_by_round(campaign: LoggedCampaign, targets: list[I64], baseline: Baseline | None, how: How) -> RoundSums:
    """Go through the log once."""
    graph, T = campaign.graph, campaign.n_rounds
    clip = np.inf if how.clip is None else float(how.clip)
    value, overlap, chosen, weight, bound = (np.zeros(T) for _ in range(5))
    weights, shares, degrees = [], [], []
    clipped = unsupported = 0
    told, here = np.zeros(graph.n_edges), np.zeros(graph.n_nodes, dtype=np.bool_)
    # Policies repeat themselves: the same array often stands for many rounds.
    audiences = {id(rows): _Audience(graph, rows) for rows in {id(r): r for r in targets}.values()}
    for t, rows in enumerate(targets):
        r, audience = campaign.round(t), audiences[id(rows)]
        pi = r.propensities[rows]
        missing = pi <= 0.0
        if missing.any() and how.missing_support == "refuse":
            raise _no_support(campaign, t, rows[missing])
        # Written into arrays of all edges and users, read, and wiped again: cheaper than a search.
        told[r.edges], here[r.contacts] = r.outcomes, True
        y, contacted = told[audience.edges], here[rows]
        told[r.edges], here[r.contacts] = 0.0, False
        inverse = 1.0 / np.where(missing, 1.0, pi)
        w = np.where(contacted, np.minimum(inverse, clip), 0.0)
        m = np.zeros(y.size) if baseline is None else baseline(t, audience.edges)
        # "ips" and "snips" weigh outcomes alone; the model may still tell their overlap.
        base = m if how.estimator == "dr" else np.zeros(y.size)
        q = base + np.repeat(w, audience.degree) * (y - base)
        value[t] = audience.distinct(q) if how.count == "distinct" else q.sum()
        if how.count == "modelled":
            overlap[t] = audience.distinct(m) - m.sum()
        # What is left of the mean weight, π·min(1/π, clip).
        share = np.where(missing, 0.0, pi * np.minimum(inverse, clip))
        bound[t] = (np.repeat(1.0 - share, audience.degree) * np.maximum(base, 1.0 - base)).sum()
        chosen[t], weight[t] = rows.size, w.sum()
        weights.append(w[w > 0.0])
        shares.append(share)
        degrees.append(audience.degree)
        clipped += int((contacted & (inverse > clip)).sum())
        unsupported += int(missing.sum())
    bias = float(bound.mean())
    if how.estimator == "snips":
        # How far clipping can move the self-normalised mean: (1/T) Σ |c_i·K/Σc − 1|·degree_i.
        c, degree = np.concatenate(shares), np.concatenate(degrees)
        moved = np.abs(c * (c.size / c.sum()) - 1.0) if c.sum() > 0.0 else 1.0
        bias = float((moved * degree).sum()) / T
    return RoundSums(value, overlap, chosen, weight, np.concatenate(weights), bias, clipped, unsupported)


def _no_support(campaign: LoggedCampaign, t: int, rows: I64) -> InputError:
    named = ", ".join(str(campaign.graph.ids[row]) for row in rows[:5])
    return InputError(
        f"the log has no support for the target in round {t}: {rows.size} chosen users have propensity 0 "
        f"({named}{', …' if rows.size > 5 else ''}), so no weighting of the log can tell their responses. "
        "Restrict the target to users the logging policy could contact (the oracle's candidates), "
        "or use estimator='dr' with missing_support='model', which trusts the model for them."
    )
