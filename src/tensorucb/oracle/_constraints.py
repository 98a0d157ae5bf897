"""`Problem`: which seed sets are admissible, and how much any of them can gain from given marginals.

================  ==========================================  =========================================
constraint        factor of the greedy choice                 bound on the gain of an admissible set
================  ==========================================  =========================================
k seeds           1 - 1/e                                     sum of the k largest marginals
group quotas      1/2 (a matroid)                             heaviest admissible set of marginals
budget            (1 - 1/e)/2, better of greedy and single    fractional knapsack of marginals
budget and k      (1 - 1/√e)/2, the same                      the lesser of knapsack and k largest
================  ==========================================  =========================================

Candidates, exclusions and must-includes keep the factor of the constraint they come with: after the forced seeds the
objective is still monotone and submodular, and what they cover counts in full.

For budget and k together let ``w_i = c_i/B + 1/k``. An admissible set has ``w <= 2``, and a set with ``w <= 1``
is admissible. So when greedy by gain per ``w`` meets its first node that does not fit, greedy plus this node
has ``w > 1``, hence at least ``1 - exp(-1/2)`` of the best; the better of greedy and of the best single node
has half of that. Without ``k``, ``w_i = c_i/B``, an admissible set has ``w <= 1``, and the same steps give ``(1
- 1/e)/2``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.checks import check_count, check_number, shown
from tensorucb.errors import InputError, ShapeError
from tensorucb.graph import Graph
from tensorucb.graph._arguments import check_values
from tensorucb.graph._ids import id_column, string_array
from tensorucb.oracle._bounds import log_binomial

__all__ = ["Problem", "make_problem"]

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Problem:
    """Admissible seed sets: ``forced`` and up to ``picks`` of the ``allowed`` nodes, within ``room`` or ``budget``."""

    n: int
    allowed: NDArray[np.uint8]
    forced: Rows
    picks: int
    factor: float
    rule: str
    values: NDArray[np.float64] | None = None
    groups: NDArray[np.int64] | None = None
    room: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    costs: NDArray[np.float64] | None = None
    weights: NDArray[np.float64] = field(default_factory=lambda: np.empty(0, dtype=np.float64))
    budget: float = math.inf

    def best_sum(self, nodes: Rows, marginals: NDArray[Any]) -> float:
        """The most that the marginals of an admissible set of ``nodes`` can add up to."""
        if self.costs is not None:
            return min(_knapsack(marginals, self.costs[nodes], self.budget), _largest(marginals, self.picks))
        if self.groups is not None:
            return _matroid(marginals, self.groups[nodes], self.room, self.picks)
        return _largest(marginals, self.picks)

    def after(self, rows: Rows) -> Problem:
        """What is left to choose once ``rows`` (forced ones included) are taken."""
        allowed = self.allowed.copy()
        allowed[rows] = 0
        room = self.room
        if self.groups is not None:
            room = room - np.bincount(self.groups[np.setdiff1d(rows, self.forced)], minlength=room.size)
        picks = self.forced.size + self.picks - rows.size
        return replace(self, allowed=allowed, forced=rows, picks=picks, room=room)

    @property
    def log_count(self) -> float:
        """Logarithm of (a bound on) the number of admissible sets."""
        candidates = int(self.allowed.sum())
        if self.costs is None:
            return log_binomial(candidates, self.picks)
        prices = np.sort(self.costs[self.allowed.astype(bool)])
        most = min(self.picks, int(np.searchsorted(np.cumsum(prices), self.budget, side="right")))
        terms = [log_binomial(candidates, i) for i in range(most + 1)]
        return max(terms) + math.log(len(terms))


def _largest(marginals: NDArray[Any], k: int) -> float:
    if k <= 0:
        return 0.0
    top = marginals if marginals.size <= k else np.partition(marginals, marginals.size - k)[marginals.size - k :]
    return float(top.sum())


def _first_in_room(items: Rows, groups: NDArray[np.int64], room: NDArray[np.int64]) -> Rows:
    """The first items of each group, as many as the group has room for, in the order given."""
    by_group = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups, minlength=room.size)
    place = np.empty(items.size, dtype=np.int64)
    place[by_group] = np.arange(items.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return items[place < room[groups]]


def _matroid(marginals: NDArray[Any], groups: NDArray[np.int64], room: NDArray[np.int64], k: int) -> float:
    # Greedy by weight finds the heaviest independent set of a matroid; this one is a truncated partition matroid.
    order = np.argsort(-marginals, kind="stable")
    kept = _first_in_room(order, groups[order], room)
    return float(marginals[kept[:k]].sum())


def _knapsack(marginals: NDArray[Any], costs: NDArray[np.float64], budget: float) -> float:
    fits = (costs <= budget) & (marginals > 0)
    worth, price = marginals[fits].astype(np.float64), costs[fits]
    order = np.argsort(-worth / price, kind="stable")
    worth, price = worth[order], price[order]
    spent = np.cumsum(price)
    whole = int(np.searchsorted(spent, budget, side="right"))
    total = float(worth[:whole].sum())
    if whole < worth.size:
        left = budget - (float(spent[whole - 1]) if whole else 0.0)
        total += float(worth[whole]) * left / float(price[whole])
    return total


def _seed_number(k: object, optional: bool) -> int | None:
    return None if k is None and optional else check_count("k", k)


def _allowed(graph: Graph, candidates: Rows | None, exclude: Rows | None, forced: Rows) -> NDArray[np.uint8]:
    allowed = np.zeros(graph.n_nodes, dtype=np.uint8)
    allowed[slice(None) if candidates is None else candidates] = 1
    if exclude is not None:
        allowed[exclude] = 0
    if np.unique(forced).size < forced.size:
        raise InputError("must_include names a node twice; name each once.")
    outside = forced[allowed[forced] == 0]
    if outside.size:
        raise InputError(
            f"must_include names {graph.ids[outside[0]]}, which is excluded or not among the candidates. "
            "Drop it from one list."
        )
    allowed[forced] = 0
    return allowed


def make_problem(
    graph: Graph,
    k: int | None,
    *,
    candidates: Rows | None = None,
    exclude: Rows | None = None,
    must_include: Rows | None = None,
    values: ArrayLike | None = None,
    costs: ArrayLike | None = None,
    budget: float | None = None,
    groups: ArrayLike | None = None,
    quotas: Mapping[Any, int] | int | None = None,
) -> Problem:
    """A checked problem from rows and per-node arrays; an error where nothing is admissible."""
    if (costs is None) != (budget is None):
        raise InputError("costs and budget go together; give both or neither.")
    if (groups is None) != (quotas is None):
        raise InputError("groups and quotas go together; give both or neither.")
    if costs is not None and groups is not None:
        raise InputError("a budget and group quotas together are not supported; give one of them.")
    forced = np.empty(0, dtype=np.int64) if must_include is None else must_include
    number = _seed_number(k, optional=costs is not None)
    allowed = _allowed(graph, candidates, exclude, forced)
    available = int(allowed.sum())
    if number is not None and forced.size > number:
        raise InputError(f"must_include names {forced.size} nodes but k is {number}; raise k or name fewer.")
    picks = available if number is None else number - forced.size
    if costs is None and picks > available:
        raise InputError(
            f"k = {number} seeds are wanted but only {available + forced.size} nodes are candidates; "
            "lower k or allow more."
        )
    worth = None if values is None else check_values(graph, values)
    if worth is not None and not worth.sum() > 0.0:
        raise InputError("values are all zero, so every choice is worth the same; give some node a positive value.")
    if costs is not None and budget is not None:
        return _priced(graph, number, picks, allowed, forced, worth, check_values(graph, costs, "costs"), budget)
    if groups is not None and quotas is not None:
        return _grouped(graph, picks, allowed, forced, worth, _labels(groups), quotas)
    return Problem(graph.n_nodes, allowed, forced, picks, 1.0 - 1.0 / math.e, "1 - 1/e", worth)


def _priced(
    graph: Graph,
    number: int | None,
    picks: int,
    allowed: NDArray[np.uint8],
    forced: Rows,
    values: NDArray[np.float64] | None,
    costs: NDArray[np.float64],
    budget: float,
) -> Problem:
    budget = check_number("budget", budget, strict=True)
    free = np.flatnonzero((costs <= 0.0) & (allowed > 0))
    if free.size:
        raise InputError(f"costs of candidates must be positive; node {graph.ids[free[0]]} has {costs[free[0]]}.")
    left = float(budget) - float(costs[forced].sum())
    if left < 0.0:
        raise InputError(
            f"must_include costs {float(costs[forced].sum()):g}, more than the budget of {budget:g}; "
            "raise it or name fewer."
        )
    allowed = (allowed.astype(bool) & (costs <= left)).astype(np.uint8)
    if forced.size == 0 and not allowed.any():
        raise InputError(f"no candidate costs at most the budget of {budget:g}; raise it.")
    picks = min(picks, int(allowed.sum()))
    scale = left if left > 0.0 else 1.0
    weights = costs / scale + (0.0 if number is None else 1.0 / max(1, number - forced.size))
    factor, rule = (
        (0.5 - 0.5 / math.e, "(1 - 1/e)/2") if number is None else (0.5 - 0.5 / math.sqrt(math.e), "(1 - 1/√e)/2")
    )
    return Problem(
        graph.n_nodes, allowed, forced, picks, factor, rule, values, costs=costs, weights=weights, budget=left
    )


def _grouped(
    graph: Graph,
    picks: int,
    allowed: NDArray[np.uint8],
    forced: Rows,
    values: NDArray[np.float64] | None,
    labels: NDArray[Any],
    quotas: Mapping[Any, int] | int,
) -> Problem:
    if labels.shape != (graph.n_nodes,):
        raise ShapeError(
            f"groups must hold one label for each of the {graph.n_nodes} nodes (in the order of graph.ids); "
            f"got shape {labels.shape}."
        )
    names, codes = np.unique(labels, return_inverse=True)
    codes = codes.astype(np.int64)
    room = _quota_numbers(names, quotas, forced.size + picks)
    room = room - np.bincount(codes[forced], minlength=names.size)
    over = np.flatnonzero(room < 0)
    if over.size:
        raise InputError(
            f"must_include names more nodes of group {names[over[0]]!s} than its quota allows; raise the quota."
        )
    most = int(np.minimum(room, np.bincount(codes[allowed > 0], minlength=names.size)).sum())
    if most < picks:
        raise InputError(
            f"{picks + forced.size} seeds are wanted but quotas and candidates admit only {most + forced.size}; "
            "lower k or raise quotas."
        )
    return Problem(graph.n_nodes, allowed, forced, picks, 0.5, "1/2", values, groups=codes, room=room)


def _labels(groups: ArrayLike) -> NDArray[Any]:
    column = id_column(groups, "groups")
    return column if isinstance(column, np.ndarray) else string_array(column)


def _quota_numbers(names: NDArray[Any], quotas: Mapping[Any, int] | int, k: int) -> NDArray[np.int64]:
    """The quota of each group: a group that ``quotas`` does not name may fill all ``k`` places."""
    if not isinstance(quotas, Mapping):
        quotas = dict.fromkeys(names.tolist(), quotas)
    known = names.tolist()
    unknown = [name for name in quotas if name not in known]
    if unknown:
        raise InputError(f"quotas name group {shown(unknown[0])}, which no node has; the groups are {shown(known)}.")
    numbers = [check_count(f"the quota of group {shown(name)}", quotas.get(name, k), 0, 2**62) for name in known]
    return np.array(numbers, dtype=np.int64)
