"""Who may be chosen in a round: an ask's constraints in graph rows, and a check that a choice keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.campaign._ledger import Ledger
from tensorucb.campaign._network import Network
from tensorucb.checks import refusal, shown
from tensorucb.errors import InputError, StateError, argument, call
from tensorucb.oracle._constraints import spendable
from tensorucb.question import Question

OPT_OUT, COOLDOWN, CANDIDATES = 1, 2, 3

_GIVE_THEM = "Give them to ", call("create_campaign"), "."


@dataclass(frozen=True)
class Constraints:
    """Who may be chosen in a round, in graph rows.

    ``reasons`` holds for each row 0 if the user may be chosen, else `OPT_OUT`, `COOLDOWN` or `CANDIDATES`. ``prices``
    is what contacting each user costs (None if nothing has a cost), ``surcharges`` what each strategy adds to that (one
    0 without strategies). ``budget``, ``groups``, ``quotas`` and ``minima`` are as `select_seeds` takes them.
    """

    reasons: NDArray[np.int8]
    must_include: I64
    prices: F64 | None
    surcharges: F64
    budget: float | None
    groups: NDArray[Any] | None
    quotas: Mapping[Any, int] | int | None
    minima: Mapping[Any, int] | int | None

    @property
    def allowed(self) -> I64:
        """Rows that may be chosen."""
        return np.flatnonzero(self.reasons == 0)

    def costs(self) -> F64 | None:
        """(strategies, users) what each contact costs, if there is a budget to keep."""
        return None if self.budget is None or self.prices is None else self.prices + self.surcharges[:, None]

    def spent(self, rows: I64, strategies: I64) -> float | None:
        """What contacting these users costs, each with its strategy; None if nothing has a cost."""
        return None if self.prices is None else float((self.prices[rows] + self.surcharges[strategies]).sum())

    def counts(self) -> dict[str, int]:
        """How many users are left out, by reason."""
        names = {OPT_OUT: "opt_out", COOLDOWN: "cooldown", CANDIDATES: "outside_candidates"}
        return {name: int(np.count_nonzero(self.reasons == code)) for code, name in names.items()}

    def left_out(self) -> str:
        """The same in words, for errors."""
        words = {"opt_out": "excluded", "cooldown": "contacted too recently", "outside_candidates": "no candidates"}
        said = [f"{count:,} {words[name]}" for name, count in self.counts().items() if count]
        return ", ".join(said) or "nobody is left out"


def constrain(network: Network, ledger: Ledger, request: Question, now: float) -> Constraints:
    """The constraints of a request at this moment."""
    # Not when the question is read: a request that comes again has the deadline that it had.
    if request.deadline is not None and request.deadline <= now:
        at = datetime.fromtimestamp(request.deadline, UTC).isoformat(timespec="seconds")
        raise refusal("deadline", "in the future", at, "To end a round now, close or cancel it.")
    reasons = np.zeros(network.graph.n_nodes, dtype=np.int8)
    if request.candidates is not None:
        reasons[:] = CANDIDATES
        reasons[request.candidates] = 0
    if request.cooldown is not None:
        reasons[_rested(ledger, now - request.cooldown)] = COOLDOWN
    if request.exclude is not None:
        reasons[request.exclude] = OPT_OUT
    forced = np.empty(0, dtype=np.int64) if request.must_include is None else request.must_include
    why = {OPT_OUT: "is excluded", COOLDOWN: "was contacted within the cooldown", CANDIDATES: "is not a candidate"}
    barred = forced[reasons[forced] != 0]
    if barred.size:
        user = shown(network.graph.ids[barred[0]].item())
        raise InputError(
            f"names {user}, who {why[int(reasons[barred[0]])]}. Drop them from one list.", argument="must_include"
        )
    surcharges = np.array([request.product.cost]) if request.strategies is None else request.strategies.costs
    prices = request.costs
    if prices is None and surcharges.any():
        prices = np.zeros(network.graph.n_nodes)
    if request.budget is not None and prices is None:
        raise InputError("needs costs of users, and the campaign has none.", argument="budget", advice=_GIVE_THEM)
    numbers = {"quotas": request.quotas, "minima": request.minima}
    used = [name for name, by_group in numbers.items() if by_group is not None]
    if used and request.groups is None:
        raise InputError("need groups of users, and the campaign has none.", argument=used[0], advice=_GIVE_THEM)
    groups = request.groups if used else None
    return Constraints(reasons, forced, prices, surcharges, request.budget, groups, **numbers)


def _rested(ledger: Ledger, since: float) -> I64:
    """Rows of users contacted after that moment, in rounds that were not cancelled."""
    contacted = [
        record.contacted
        for record in ledger.rounds.values()
        if record.status != "cancelled" and record.kind != "history" and record.opened > since
    ]
    return np.unique(np.concatenate([np.empty(0, dtype=np.int64), *contacted]))


def check_list(network: Network, rules: Constraints, rows: I64, strategies: I64) -> None:
    """Refuse a list that a person made if it breaks a constraint of the same question."""
    if np.unique(rows).size < rows.size:
        raise InputError("names somebody twice; name each once.", argument="users")
    try:
        check_choice("the list in users", network, rules, rows, strategies, rows.size, "Change the list or the rules.")
    except StateError as error:
        raise InputError(*error.parts()) from None


def check_choice(
    name: str, network: Network, rules: Constraints, rows: I64, strategies: I64, k: int, advice: str = ""
) -> None:
    """Refuse a choice that breaks a constraint: better no round than the wrong people contacted."""
    advice = advice or (
        f"{name} picks seeds on its own; use a policy that chooses through the oracle, or drop the constraint."
    )
    if np.unique(rows).size < rows.size or rows.size > k or (rules.budget is None and rows.size < k):
        raise StateError(f"{name} chose {np.unique(rows).size} different users where {k} were asked for.")
    barred = rows[rules.reasons[rows] != 0]
    if barred.size:
        raise StateError(f"{name} names {network.graph.ids[barred[0]].item()!r}, who may not be chosen. {advice}")
    missing = np.setdiff1d(rules.must_include, rows)
    if missing.size:
        user = network.graph.ids[missing[0]].item()
        raise StateError(f"{name} left out {user!r}, but ", argument("must_include"), " names them.", advice=advice)
    if rules.budget is not None:
        spent = rules.spent(rows, strategies) or 0.0
        if spent > spendable(rules.budget):
            raise StateError(f"{name} names users who cost {spent:g}, over the budget of {rules.budget:g}. {advice}")
    for label, (used, quota) in group_use(rules, rows, rules.quotas).items():
        if used > quota:
            raise StateError(f"{name} names {used} users of group {label!r}, over its quota of {quota}. {advice}")
    for label, (used, least) in group_use(rules, rows, rules.minima).items():
        if used < least:
            raise StateError(f"{name} names {used} users of group {label!r}, below its minimum of {least}. {advice}")


def group_use(rules: Constraints, rows: I64, numbers: Mapping[Any, int] | int | None) -> dict[Any, tuple[int, int]]:
    """Of each group with a quota or a minimum: how many of ``rows`` are of it, and that number."""
    if rules.groups is None or numbers is None:
        return {}
    if not isinstance(numbers, Mapping):
        numbers = dict.fromkeys(np.unique(rules.groups).tolist(), numbers)
    labels = rules.groups[rows]
    return {label: (int(np.count_nonzero(labels == label)), number) for label, number in numbers.items()}


def fewest(rules: Constraints, rows: I64) -> int:
    """How many of ``rows``, from the first on, are needed to keep the minima, or to come as near to them as they do."""
    if rules.groups is None:
        return 0
    places = [
        np.flatnonzero(rules.groups[rows] == label)[:least]
        for label, (_, least) in group_use(rules, rows, rules.minima).items()
    ]
    return 1 + max((int(place) for group in places for place in group), default=-1)
