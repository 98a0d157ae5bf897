"""From an ask's constraints to chosen rows: who may be chosen, the oracle that obeys, and a check of the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.campaign._world import World, as_id_array
from tensorucb.checks import check_count, check_mapping, shown
from tensorucb.errors import InputError, StateError
from tensorucb.graph._arguments import check_values
from tensorucb.oracle import Selection, select_pairs, select_seeds

__all__ = [
    "CANDIDATES",
    "COOLDOWN",
    "OPT_OUT",
    "Choice",
    "Constraints",
    "PairOracle",
    "RoundOracle",
    "check_choice",
    "constrain",
]

Rows = NDArray[np.int64]
Floats = NDArray[np.float64]
OPT_OUT, COOLDOWN, CANDIDATES = 1, 2, 3


@dataclass(frozen=True)
class Constraints:
    """Who may be chosen in a round.

    Attributes
    ----------
    reasons
        For each row 0 if the user may be chosen, else `OPT_OUT`, `COOLDOWN` or `CANDIDATES`.
    must_include
        Rows that have to be among the seeds.
    prices, surcharges
        What contacting each user costs, and what each strategy adds to that (one 0 without strategies). ``prices`` is
        None if nothing has a cost.
    budget, groups, quotas
        As :func:`~tensorucb.oracle.select_seeds` takes them.
    """

    reasons: NDArray[np.int8]
    must_include: Rows
    prices: Floats | None
    surcharges: Floats
    budget: float | None
    groups: NDArray[Any] | None
    quotas: Mapping[Any, int] | int | None

    @property
    def allowed(self) -> Rows:
        """Rows that may be chosen."""
        return np.flatnonzero(self.reasons == 0)

    def costs(self) -> Floats | None:
        """(strategies, users) what each contact costs, if there is a budget to keep."""
        return None if self.budget is None or self.prices is None else self.prices + self.surcharges[:, None]

    def spent(self, rows: Rows, strategies: Rows) -> float | None:
        """What contacting these users costs, each with its strategy; None if nothing has a cost."""
        return None if self.prices is None else float((self.prices[rows] + self.surcharges[strategies]).sum())

    def counts(self) -> dict[str, int]:
        """How many users are left out, by reason."""
        names = {OPT_OUT: "opt_out", COOLDOWN: "cooldown", CANDIDATES: "outside_candidates"}
        return {name: int(np.count_nonzero(self.reasons == code)) for code, name in names.items()}


def constrain(
    world: World,
    *,
    exclude: ArrayLike | None,
    candidates: ArrayLike | None,
    must_include: ArrayLike | None,
    rested: Rows,
    costs: ArrayLike | None,
    surcharges: Floats,
    budget: float | None,
    groups: ArrayLike | None,
    quotas: Mapping[Any, int] | int | None,
) -> Constraints:
    """Checked constraints; ``rested`` are the rows contacted too recently, ``surcharges`` the strategies' costs."""
    graph, n = world.graph, world.graph.n_nodes
    reasons = np.zeros(n, dtype=np.int8)
    if candidates is not None:
        reasons[:] = CANDIDATES
        reasons[graph.rows(candidates)] = 0
    reasons[rested] = COOLDOWN
    if exclude is not None:
        reasons[graph.rows(exclude)] = OPT_OUT
    forced = np.empty(0, dtype=np.int64) if must_include is None else graph.rows(must_include)
    _check_forced(world, reasons, forced)
    costs = world.costs if costs is None else costs
    if costs is None and surcharges.any():
        costs = np.zeros(n)
    if budget is not None and costs is None:
        raise InputError("a budget needs costs: give them to create_campaign, or to ask.")
    if quotas is not None and groups is None:
        groups = world.groups
        if groups is None:
            raise InputError("quotas need groups: give them to create_campaign, or to ask.")
    if isinstance(quotas, Mapping):
        named = check_mapping("quotas", quotas, "a mapping of groups to counts").items()
        quotas = {label: check_count(f"the quota of group {shown(label)}", most, 0, 2**62) for label, most in named}
    elif quotas is not None:
        quotas = check_count("quotas", quotas, 0, 2**62)
    return Constraints(
        reasons,
        forced,
        None if costs is None else check_values(graph, costs, "costs"),
        surcharges,
        budget,
        None if quotas is None or groups is None else as_id_array(groups, "groups"),
        quotas,
    )


def _check_forced(world: World, reasons: NDArray[np.int8], forced: Rows) -> None:
    why = {OPT_OUT: "is excluded", COOLDOWN: "was contacted within the cooldown", CANDIDATES: "is not a candidate"}
    for row in forced.tolist():
        if reasons[row]:
            raise InputError(
                f"must_include names {shown(world.graph.ids[row].item())}, who {why[int(reasons[row])]}. "
                "Drop them from one list."
            )


@dataclass
class RoundOracle:
    """The oracle that a policy chooses through: `select_seeds` under the round's constraints.

    A policy that chooses on its own finds the rows it may use in ``candidates``. ``scores`` are the probabilities that
    the choice was made by, exploration included. ``strategy`` is the place of the strategy that everybody gets.
    """

    world: World
    constraints: Constraints
    objective: str
    epsilon: float
    rng: np.random.Generator
    strategy: int = 0
    candidates: Rows | None = field(init=False)
    selection: Selection | None = field(init=False, default=None)
    scores: Floats | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        limited = bool(self.constraints.reasons.any())
        self.candidates = self.constraints.allowed if limited else None

    def __call__(
        self,
        probabilities: NDArray[np.float64],
        k: int,
        *,
        candidates: Rows | None = None,
        must_include: Rows | None = None,
    ) -> Rows:
        """The chosen rows, in the order of choice."""
        rules, ids = self.constraints, self.world.graph.ids
        forced = rules.must_include if must_include is None else np.union1d(rules.must_include, must_include)
        reasons = rules.reasons
        if candidates is not None:
            allowed = np.zeros(reasons.size, dtype=np.bool_)
            allowed[candidates] = True
            allowed[forced] = True
            reasons = np.where(allowed, reasons, CANDIDATES)
        barred = np.flatnonzero(reasons)
        self.selection = self._select(
            probabilities,
            k,
            epsilon=self.epsilon,
            objective=self.objective,
            exclude=ids[barred] if barred.size else None,
            must_include=ids[forced] if forced.size else None,
            budget=rules.budget,
            groups=rules.groups,
            quotas=rules.quotas,
            rng=self.rng,
        )
        return self.selection.rows

    def _select(self, probabilities: Floats, k: int, **given: Any) -> Selection:
        graph, costs = self.world.graph, self.constraints.costs()
        self.scores = probabilities
        if costs is None:
            return select_seeds(graph, probabilities, k, **given)
        if costs.all():
            return select_seeds(graph, probabilities, k, costs=costs[self.strategy], **given)
        # Somebody costs nothing, which only the choice of pairs knows how to weigh.
        return select_pairs(graph, probabilities[None], k, costs=costs[self.strategy : self.strategy + 1], **given)


@dataclass
class PairOracle(RoundOracle):
    """The oracle of a round in which each user gets a strategy of their own: `select_pairs` under the same constraints.

    ``stack`` holds (strategies, edges) scores; what the policy passes is the score of one of them, and not used.
    """

    stack: Floats = field(default_factory=lambda: np.empty((0, 0)))

    def _select(self, probabilities: Floats, k: int, **given: Any) -> Selection:
        self.scores = self.stack
        return select_pairs(self.world.graph, self.stack, k, costs=self.constraints.costs(), **given)


@dataclass(frozen=True)
class Choice:
    """The users chosen, and how.

    Attributes
    ----------
    rows
        Their rows, in the order of choice.
    strategies
        For each of them the place of the strategy they get; 0 in a round without strategies.
    policy
        Name of the policy.
    rule
        ``direct`` or ``cascade``: the oracle's objective; ``own``: the policy picked without the oracle.
    scores
        The probabilities that the oracle chose by, exploration included: one for each edge, or (strategies, edges);
        None if the policy picked without it.
    per_user
        Whether each user has a strategy of their own.
    """

    rows: Rows
    strategies: Rows
    policy: str
    rule: str
    scores: Floats | None
    per_user: bool = False


def check_choice(name: str, world: World, rules: Constraints, rows: Rows, strategies: Rows, k: int) -> None:
    """Refuse a choice that breaks a constraint: better no round than the wrong people contacted."""
    advice = f"{name} picks seeds on its own; use a policy that chooses through the oracle, or drop the constraint."
    if np.unique(rows).size < rows.size or rows.size > k or (rules.budget is None and rows.size < k):
        raise StateError(f"{name} chose {np.unique(rows).size} different users where {k} were asked for.")
    barred = rows[rules.reasons[rows] != 0]
    if barred.size:
        raise StateError(f"{name} chose {world.graph.ids[barred[0]].item()!r}, who may not be chosen. {advice}")
    missing = np.setdiff1d(rules.must_include, rows)
    if missing.size:
        user = world.graph.ids[missing[0]].item()
        raise StateError(f"{name} left out {user!r}, whom must_include names. {advice}")
    if rules.budget is not None:
        spent = rules.spent(rows, strategies) or 0.0
        if spent > rules.budget * (1 + 1e-12):
            raise StateError(f"{name} chose users who cost {spent:g}, over the budget of {rules.budget:g}. {advice}")
    for label, (used, quota) in group_use(rules, rows).items():
        if used > quota:
            raise StateError(f"{name} chose {used} users of group {label!r}, over its quota of {quota}. {advice}")


def group_use(rules: Constraints, rows: Rows) -> dict[Any, tuple[int, int]]:
    """Of each group with a quota: seeds chosen, and the quota."""
    if rules.groups is None or rules.quotas is None:
        return {}
    labels, counts = np.unique(rules.groups[rows], return_counts=True)
    used = dict(zip(labels.tolist(), counts.tolist(), strict=True))
    if not isinstance(rules.quotas, Mapping):
        return {label: (count, int(rules.quotas)) for label, count in used.items()}
    return {label: (used.get(label, 0), int(quota)) for label, quota in rules.quotas.items()}
