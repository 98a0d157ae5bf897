"""`SeedProblem`: what a caller asks of seeds (`Constraints`), checked, with bounds on any admissible gain.

================  ==========================================  =========================================
constraint        factor of the greedy choice                 bound on the gain of an admissible set
================  ==========================================  =========================================
k seeds           1 - 1/e                                     sum of the k largest marginals
quotas, minima    1/2 (a matroid)                             heaviest set of marginals within the quotas
budget            (1 - 1/e)/2, better of greedy and single    fractional knapsack of marginals
budget and k      (1 - 1/√e)/2, the same                      the lesser of knapsack and k largest
budget, quotas    1/5, best of greedy by gain over several    the two together, relaxed
                  least gains per cost
budget, minima    none; what is certified counts              the same
================  ==========================================  =========================================

`docs/oracle.md` has the proofs, and what minima keep back: ``need`` is what is missing in each group, ``free`` the
places left beside these, and `SeedProblem.reserve` the money.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.arrays import F64, I64
from tensorucb.checks import check_count, check_number, check_share, shown
from tensorucb.choices import Model
from tensorucb.errors import InputError, ShapeError, argument
from tensorucb.graph import Graph
from tensorucb.graph._arguments import check_values
from tensorucb.graph._ids import id_column, string_array
from tensorucb.oracle._kernels import log_binomial
from tensorucb.oracle._records import Constraints

_DENSITY_STEP = 1.25
_NO_QUOTA = 2**62
_PRICES = 8  # of money tried for a bound
_ROUNDING = 1e-12  # of sums of money: 0.5 + 0.1 is within a budget of 0.6, and three times 0.1 within 0.3


def spendable(budget: float) -> float:
    """The most that costs may add up to under a budget: somewhat more, so that the rounding of sums decides nothing."""
    return budget * (1.0 + _ROUNDING)


@dataclass(frozen=True)
class SeedProblem:
    """Admissible seed sets: ``forced`` and up to ``picks`` of the ``allowed`` nodes, within ``room`` or ``budget``."""

    n: int
    allowed: NDArray[np.uint8]
    forced: I64
    picks: int
    values: F64 | None = None
    groups: I64 | None = None  # (levels, n), the narrowest level first: numbers of places in ``room``
    room: I64 = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    need: I64 = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # seeds that each of these places must have
    costs: F64 | None = None
    weights: F64 = field(default_factory=lambda: np.empty(0, dtype=np.float64))
    budget: float = math.inf
    counted: bool = True  # whether k limits the number of seeds, beside a budget
    redundancy: float = 0.0
    model: Model = "ic"
    # Where nodes stand for pairs: what direct gains count for each node, and the least that choosing a node is worth.
    worth: F64 | None = None
    own: F64 | None = None

    @property
    def promise(self) -> tuple[float, str]:
        """The share of the best choice that greedy has in any case, as a number and in words."""
        if self.costs is None:
            return (1.0 - 1.0 / math.e, "1 - 1/e") if self.groups is None else (0.5, "1/2")
        if self.groups is not None:
            return (0.0, "no share") if self.need.any() else (0.2, "1/5")
        if self.counted:
            return 0.5 - 0.5 / math.sqrt(math.e), "(1 - 1/√e)/2"
        return 0.5 - 0.5 / math.e, "(1 - 1/e)/2"

    def best_sum(self, nodes: I64, marginals: NDArray[Any]) -> float:
        """The most that the marginals of an admissible set of ``nodes`` can add up to, or a bound on it."""
        if self.groups is None:
            least = max(0, marginals.size - self.picks)
            largest = np.partition(marginals, least)[least:] if 0 < least < marginals.size else marginals[least:]
            bound = float(largest.sum())
        else:
            order = np.argsort(-marginals, kind="stable")
            bound = float(marginals[self._first_in_room(nodes, order)[: self.picks]].sum())
        if self.costs is None:
            return bound
        money, price = _knapsack(marginals, self.costs[nodes], self.budget)
        bound = min(money, bound)
        return bound if self.groups is None else min(bound, self._relaxed(nodes, marginals, self.costs[nodes], price))

    def _relaxed(self, nodes: I64, marginals: NDArray[Any], costs: F64, highest: float) -> float:
        """Quotas and budget together: the least bound over several prices of money, from 0 to ``highest``.

        Let a unit of cost have the price λ >= 0. An admissible set spends at most B, so its marginals add up to no
        more than λB and what they are above λ times their cost; for the latter only the quotas count.
        """
        lowest = 0.0
        bound = math.inf
        for _ in range(_PRICES):
            price = 0.5 * (lowest + highest)
            above = marginals - price * costs
            order = np.flatnonzero(above > 0.0)
            order = order[np.argsort(-above[order], kind="stable")]
            best = self._first_in_room(nodes, order)[: self.picks]
            bound = min(bound, price * self.budget + float(above[best].sum()))
            if costs[best].sum() > self.budget:
                lowest = price
            else:
                highest = price
        return bound

    def _first_in_room(self, nodes: I64, order: I64) -> I64:
        """What greedy takes of ``order`` (positions in ``nodes``, the heaviest first) within the quotas.

        Level by level is exact for nested levels. Say that an admissible set holds an element which the narrowest level
        drops. That element's group has as many heavier ones as it has room for, so one of them is not in the set. Put
        it in instead: its groups are the same on every level, so the set stays admissible and gets no lighter. So
        some heaviest set consists of kept elements, for which this level is no limit any more.
        """
        assert self.groups is not None
        for level in self.groups:
            groups = level[nodes[order]]
            by_group = np.argsort(groups, kind="stable")
            sizes = np.bincount(groups, minlength=self.room.size)
            place = np.empty(order.size, dtype=np.int64)  # of each within its group
            place[by_group] = np.arange(order.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            order = order[place < self.room[groups]]
        return order

    @property
    def free(self) -> int:
        """How many picks are not kept for groups that need them."""
        return self.picks - int(self.need.sum())

    def reserve(self, nodes: I64) -> tuple[I64, I64, F64, F64]:
        """The cheapest nodes that fill all needs, as `_greedy_kernels` takes them; nothing without a budget."""
        spare = np.zeros(self.room.size)
        entry = np.full(nodes.size, -1, dtype=np.int64)
        if self.costs is None or self.groups is None or not self.need.any():
            return entry, np.empty(0, dtype=np.int64), np.empty(0), spare
        rows = self._cheapest_fill(self.groups, self.costs)
        owner = self.groups[-1, rows]
        amount = self.costs[rows]
        np.maximum.at(spare, owner, amount)
        # Where there are two levels, the first says which nodes are strategies of the same user.
        homes = np.arange(self.n) if len(self.groups) == 1 else self.groups[0]
        place = np.full(self.n if len(self.groups) == 1 else self.room.size, -1, dtype=np.int64)
        place[homes[rows]] = np.arange(rows.size)
        return place[homes[nodes]], owner, amount, spare

    def _cheapest_fill(self, groups: I64, costs: F64) -> I64:
        """Rows of the cheapest admissible nodes that fill all needs: one per user where there are several."""
        fits = self.allowed.astype(np.bool_) & (self.room[groups] > 0).all(axis=0)
        rows = np.flatnonzero(fits)
        rows = rows[np.argsort(costs[rows], kind="stable")]
        if len(groups) > 1:
            _, first = np.unique(groups[0, rows], return_index=True)
            rows = rows[np.sort(first)]
        kept = [rows[groups[-1, rows] == g][: self.need[g]] for g in np.flatnonzero(self.need).tolist()]
        return np.concatenate(kept)

    def groups_of(self, nodes: I64) -> I64:
        """The groups of each of ``nodes`` on every level; no level where there are no quotas."""
        if self.groups is None:
            return np.empty((0, nodes.size), dtype=np.int64)
        return np.ascontiguousarray(self.groups[:, nodes])

    def thresholds(self, nodes: I64, marginals: NDArray[Any]) -> list[float]:
        """Least densities to start from: 0, and a grid from the least that the factor asks for to the largest one."""
        assert self.costs is not None
        fits = (self.room[self.groups_of(nodes)] > 0).all(axis=0)
        worth = marginals[fits]
        costs = self.costs[nodes[fits]]
        single = float(worth.max(initial=0))
        if single <= 0.0 or self.budget <= 0.0:
            return [0.0]
        priced = costs > 0.0
        largest = float((worth[priced] / costs[priced]).max(initial=0.0))
        if not priced.all():  # otherwise no admissible set has more than B times the largest density
            largest = max(largest, self.best_sum(nodes, marginals) / (2.0 * self.budget))
        least = single / (2.0 * self.budget)
        steps = int(math.log(max(1.0, largest / least)) / math.log(_DENSITY_STEP))
        return [0.0] + [least * _DENSITY_STEP**i for i in range(steps + 1)]

    def direct_worth(self) -> F64:
        """What direct gains count for each node before there are seeds; the rows are explained in `_greedy_kernels`."""
        node_values = self.values if self.worth is None else self.worth
        worth = np.ones(self.n) if node_values is None else node_values
        if self.redundancy == 0.0:
            return worth[None, :].copy()
        return np.stack([(1.0 - self.redundancy) * worth, self.redundancy * worth, np.zeros(self.n)])

    def after(self, rows: I64) -> SeedProblem:
        """What is left to choose once ``rows`` (forced ones included) are taken."""
        allowed = self.allowed.copy()
        room = self.room
        need = self.need
        budget = self.budget
        allowed[rows] = 0
        new = np.setdiff1d(rows, self.forced)
        if self.groups is not None:
            taken = np.bincount(self.groups[:, new].ravel(), minlength=room.size)
            room = room - taken
            need = np.maximum(0, need - taken)
        if self.costs is not None:
            budget -= float(self.costs[new].sum())
            allowed[self.costs > budget] = 0
        picks = self.forced.size + self.picks - rows.size
        return replace(self, allowed=allowed, forced=rows, picks=picks, room=room, need=need, budget=budget)

    def least_value(self) -> float:
        """What the best admissible set is worth in any case: what its own best node is."""
        if self.values is None:
            return float(max(1, self.forced.size))
        # A pair has the worth of its own user at least; the node that stands for it has no value itself.
        own = self.values if self.own is None else self.own
        return float(own[self.admissible()].max(initial=0.0))

    def admissible(self) -> I64:
        """Rows that may be among the seeds."""
        return np.concatenate([self.forced, np.flatnonzero(self.allowed)])

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


def _knapsack(marginals: NDArray[Any], costs: F64, budget: float) -> tuple[float, float]:
    """The fractional knapsack, and the value for money of its last item; 0 where all items fit."""
    fits = (costs <= budget) & (marginals > 0)
    worth = marginals[fits].astype(np.float64)
    price = costs[fits]
    with np.errstate(divide="ignore", over="ignore"):  # what is free comes first
        order = np.argsort(-worth / price, kind="stable")
    worth = worth[order]
    price = price[order]
    spent = np.cumsum(price)
    whole = int(np.searchsorted(spent, budget, side="right"))
    total = float(worth[:whole].sum())
    if whole == worth.size:
        return total, 0.0
    left = budget - (float(spent[whole - 1]) if whole else 0.0)
    total += float(worth[whole]) * left / float(price[whole])
    return total, float(worth[whole]) / float(price[whole])


def _allowed(graph: Graph, constraints: Constraints, forced: I64) -> NDArray[np.uint8]:
    allowed = np.zeros(graph.n_nodes, dtype=np.uint8)
    allowed[slice(None) if constraints.candidates is None else np.asarray(constraints.candidates)] = 1
    if constraints.exclude is not None:
        allowed[np.asarray(constraints.exclude)] = 0
    if np.unique(forced).size < forced.size:
        raise InputError("names a node twice; name each once.", argument="must_include")
    outside = forced[allowed[forced] == 0]
    if outside.size:
        raise InputError(
            f"names {graph.ids[outside[0]]}, which is excluded or not among the candidates. Drop it from one list.",
            argument="must_include",
        )
    allowed[forced] = 0
    return allowed


def make_problem(
    graph: Graph, k: int | None, constraints: Constraints, values: ArrayLike | None = None, redundancy: float = 0.0
) -> SeedProblem:
    """A checked problem from constraints whose users are rows; an error where nothing is admissible."""
    costs = constraints.costs
    budget = constraints.budget
    groups = constraints.groups
    if (costs is None) != (budget is None):
        raise InputError("costs and budget go together; give both or neither.")
    if (groups is None) != (constraints.quotas is None and constraints.minima is None):
        raise InputError("groups go together with quotas or minima; give both or neither.")
    forced = np.empty(0, dtype=np.int64) if constraints.must_include is None else np.asarray(constraints.must_include)
    number = None if k is None and costs is not None else check_count("k", k)
    allowed = _allowed(graph, constraints, forced)
    available = int(allowed.sum())
    if number is not None and forced.size > number:
        raise InputError(
            f"names {forced.size} nodes but k is {number}; raise k or name fewer.", argument="must_include"
        )
    picks = available if number is None else number - forced.size
    if costs is None and picks > available:
        raise InputError(
            f"= {number} seeds are wanted but only {available + forced.size} nodes are candidates; "
            "lower k or allow more.",
            argument="k",
        )
    worth = None if values is None else check_values(graph, values)
    if worth is not None and not worth.sum() > 0.0:
        raise InputError("values are all zero, so every choice is worth the same; give some node a positive value.")
    problem = SeedProblem(
        graph.n_nodes,
        allowed,
        forced,
        picks,
        worth,
        counted=number is not None,
        redundancy=check_share("redundancy", redundancy),
    )
    names: list[Any] = []
    if groups is not None:
        names, codes = _group_codes(graph, groups)
        problem = _grouped(problem, constraints, names, codes)
        _check_minima(problem, names)
    if costs is not None and budget is not None:
        problem = _priced(graph, problem, number, check_values(graph, costs, "costs"), budget)
        _check_minima(problem, names)
    return problem


def _priced(graph: Graph, problem: SeedProblem, number: int | None, costs: F64, budget: float) -> SeedProblem:
    """The problem with a budget, of which the forced seeds are paid."""
    budget = check_number("budget", budget, strict=True)
    allowed = problem.allowed
    forced = problem.forced
    free = np.flatnonzero((costs <= 0.0) & (allowed > 0))
    if free.size:
        raise InputError(f"costs of candidates must be positive; node {graph.ids[free[0]]} has {costs[free[0]]}.")
    spent = float(costs[forced].sum())
    left = spendable(budget) - spent
    if left < 0.0:
        raise InputError(
            f"costs {spent:g}, more than the budget of {budget:g}; raise it or name fewer.", argument="must_include"
        )
    allowed = (allowed.astype(bool) & (costs <= left)).astype(np.uint8)
    if forced.size == 0 and not allowed.any():
        raise InputError(f"no candidate costs at most the budget of {budget:g}; raise it.")
    picks = min(problem.picks, int(allowed.sum()))
    scale = left if left > 0.0 else 1.0
    weights = costs / scale + (0.0 if number is None else 1.0 / max(1, number - forced.size))
    return replace(problem, allowed=allowed, picks=picks, costs=costs, weights=weights, budget=left)


def _group_codes(graph: Graph, groups: ArrayLike) -> tuple[list[Any], I64]:
    """The groups' names, and for each node the number of its group."""
    column = id_column(groups, "groups")
    labels = column if isinstance(column, np.ndarray) else string_array(column)
    if labels.shape != (graph.n_nodes,):
        raise ShapeError(
            f"must hold one label for each of the {graph.n_nodes} nodes (in the order of graph.ids); "
            f"got shape {labels.shape}.",
            argument="groups",
        )
    names, codes = np.unique(labels, return_inverse=True)
    return names.tolist(), codes.astype(np.int64)


def _grouped(problem: SeedProblem, constraints: Constraints, names: list[Any], codes: I64) -> SeedProblem:
    """The problem with quotas and minima; fewer seeds than wanted are an error if there is no budget."""
    allowed = problem.allowed
    forced = problem.forced
    picks = problem.picks
    most = _numbers_by_group("quota", names, constraints.quotas, _NO_QUOTA)
    fewest = _numbers_by_group("minimum", names, constraints.minima, 0)
    above = np.flatnonzero(fewest > most)
    if above.size:
        g = int(above[0])
        raise InputError(
            argument="minima",
            wanted=f"at most the quota of {most[g]} for group {shown(names[g])}",
            got=str(fewest[g]),
            advice=("Lower it, or raise ", argument("quotas"), "."),
        )
    taken = np.bincount(codes[forced], minlength=len(names))
    room = most - taken
    need = np.maximum(0, fewest - taken)
    over = np.flatnonzero(room < 0)
    if over.size:
        raise InputError(
            f"names more nodes of group {shown(names[over[0]])} than its quota allows.",
            argument="must_include",
            advice=("Name fewer, or raise ", argument("quotas"), "."),
        )
    admitted = int(np.minimum(room, np.bincount(codes[allowed > 0], minlength=len(names))).sum())
    if constraints.costs is None and admitted < picks:
        raise InputError(
            f"= {picks + forced.size} seeds are wanted but ",
            argument("quotas"),
            f" and candidates admit only {admitted + forced.size}.",
            argument="k",
            advice=("Lower it, or raise ", argument("quotas"), "."),
        )
    return replace(problem, picks=min(picks, admitted), groups=codes[None, :], room=room, need=need)


def _check_minima(problem: SeedProblem, names: list[Any]) -> None:
    """Whether the minima can be had at all: from the candidates, within k, and within the budget."""
    if problem.groups is None or not problem.need.any():
        return
    codes = problem.groups[-1]
    missing = problem.need - np.bincount(codes[problem.allowed > 0], minlength=problem.need.size)
    if (missing > 0).any():
        g = int(np.argmax(missing))
        asked = int(problem.need[g]) + int(np.count_nonzero(codes[problem.forced] == g))
        paid = "" if problem.costs is None else " that the budget can pay"
        raise InputError(
            argument="minima",
            wanted=f"at most {asked - missing[g]} for group {shown(names[g])}, which has no more candidates{paid}",
            got=str(asked),
            advice="Lower it or allow more."
            if problem.costs is None
            else ("Lower it, or raise ", argument("budget"), "."),
        )
    if problem.free < 0:
        beside = " beside those who must be included" if problem.forced.size else ""
        raise InputError(
            argument="minima",
            wanted=f"at most {problem.picks} together{beside}, since no more are to be chosen",
            got=str(problem.need.sum()),
            advice=("Lower them, or raise ", argument("k"), "."),
        )
    if problem.costs is None:
        return
    spent = float(problem.costs[problem.forced].sum())
    cost = float(problem.reserve(np.empty(0, dtype=np.int64))[2].sum())
    if cost > problem.budget:
        raise InputError(
            argument="budget",
            wanted=(f"at least {spent + cost:g} to keep ", argument("minima")),
            got=f"{spent + problem.budget:g}",
            advice=("Raise it, or lower ", argument("minima"), "."),
        )


def _numbers_by_group(what: str, names: list[Any], numbers: Mapping[Any, int] | int | None, default: int) -> I64:
    """The quota or minimum of each group; groups that ``numbers`` does not name have the default."""
    if numbers is None:
        numbers = {}
    if not isinstance(numbers, Mapping):
        numbers = dict.fromkeys(names, numbers)
    plural = {"quota": "quotas", "minimum": "minima"}[what]
    unknown = [name for name in numbers if name not in names]
    if unknown:
        raise InputError(
            argument=plural,
            wanted=f"for groups that somebody is in, which are {shown(names)}",
            got=f"group {shown(unknown[0])}",
        )
    counts = [
        check_count(f"the {what} of group {shown(name)}", numbers.get(name, default), 0, _NO_QUOTA) for name in names
    ]
    return np.array(counts, dtype=np.int64)
