"""Who may be chosen in a round: an ask's constraints in graph rows, and a check that a choice keeps them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.campaign._ledger import Ledger
from tensorucb.campaign._network import Network
from tensorucb.campaign._people import (
    CAPPED,
    COOLDOWN,
    EXCLUDED,
    NO_CANDIDATE,
    NO_CONSENT,
    OPTED_OUT,
    RESTING,
    People,
    last_contacts,
    resting_until,
)
from tensorucb.checks import refusal, shown
from tensorucb.errors import InputError, Mention, StateError, argument, call
from tensorucb.oracle._constraints import spendable
from tensorucb.question import Question


class _Reason(NamedTuple):
    """Why users may not be chosen: its name, how their number is told, and what is said of one of them."""

    name: str
    counted: str
    clause: str


_REASONS = {
    OPTED_OUT: _Reason("opt_out", "opted out", "has opted out"),
    NO_CONSENT: _Reason("no_consent", "without consent", "has given no consent"),
    EXCLUDED: _Reason("excluded", "excluded", "is excluded by the caller"),
    CAPPED: _Reason("contact_cap", "over the contact cap", "has reached the contact cap until {until}"),
    COOLDOWN: _Reason(
        "cooldown", "contacted too recently", "was contacted within the cooldown, which lasts until {until}"
    ),
    RESTING: _Reason(
        "audience_rest",
        "whose followers rest",
        "has an audience that rests until {until}: more than half of their followers were addressed lately",
    ),
    NO_CANDIDATE: _Reason("outside_candidates", "no candidates", "is not a candidate"),
}
_GIVE_THEM = "Give them to ", call("create_campaign"), "."
_NAMED = 3  # users whom a refusal names


def why_not(reason: int, until: float) -> tuple[str, str]:
    """The name of a reason why a user may not be chosen, and what follows the user in a sentence: "has opted out"."""
    moment = f"{datetime.fromtimestamp(until, UTC):%Y-%m-%d %H:%M} UTC" if np.isfinite(until) else ""
    return _REASONS[reason].name, _REASONS[reason].clause.format(until=moment)


@dataclass(frozen=True)
class Barred:
    """Who may not be chosen: for each row 0, or the reason as a code of ``_people``, and until when (unix seconds)."""

    reasons: NDArray[np.int8]
    until: F64

    def why(self, row: int) -> str:
        """Why a user may not be chosen; empty if they may."""
        reason = int(self.reasons[row])
        return why_not(reason, float(self.until[row]))[1] if reason else ""


@dataclass(frozen=True)
class Constraints(Barred):
    """Who may be chosen in a round, in graph rows.

    ``prices`` is what contacting each user costs (None if nothing has a cost), ``surcharges`` what each strategy adds
    to that (one 0 without strategies). ``budget``, ``groups``, ``quotas`` and ``minima`` are as `select_seeds` takes
    them.
    """

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
        return {_REASONS[reason].name: count for reason, count in self._counts()}

    def left_out(self) -> str:
        """The same in words, for errors."""
        return (
            ", ".join(f"{count:,} {_REASONS[reason].counted}" for reason, count in self._counts())
            or "nobody is left out"
        )

    def _counts(self) -> list[tuple[int, int]]:
        counts = np.bincount(self.reasons, minlength=len(_REASONS) + 1).tolist()
        return [(reason, counts[reason]) for reason in _REASONS if counts[reason]]


def barred_now(network: Network, ledger: Ledger, people: People, request: Question, now: float) -> Barred:
    """Who may not be chosen at this moment, and why: what people said, caps, rest periods, and the request's lists.

    Where there are several reasons, the one with the largest code counts.
    """
    n = network.graph.n_nodes
    reasons = np.zeros(n, dtype=np.int8)
    ends = np.full(n, np.nan)

    def bar(rows: NDArray[Any], reason: int, until: F64 | None = None) -> None:
        reasons[rows] = reason
        ends[rows] = np.nan if until is None else until[rows]

    if request.candidates is not None:
        outside = np.ones(n, dtype=np.bool_)
        outside[request.candidates] = False
        bar(outside, NO_CANDIDATE)
    if request.audience_rest is not None:
        until = resting_until(network.graph, ledger, now, request.audience_rest)
        bar(until > now, RESTING, until)
    if request.cooldown is not None:
        until = last_contacts(ledger, n, now - request.cooldown) + request.cooldown
        bar(until > now, COOLDOWN, until)
    bar(people.capped > now, CAPPED, people.capped)
    if request.exclude is not None:
        bar(request.exclude, EXCLUDED)
    for reason in (NO_CONSENT, OPTED_OUT):
        bar(people.said == reason, reason)
    return Barred(reasons, ends)


def constrain(network: Network, ledger: Ledger, people: People, request: Question, now: float) -> Constraints:
    """The constraints of a request at this moment."""
    # Not when the question is read: a request that comes again has the deadline that it had.
    if request.deadline is not None and request.deadline <= now:
        at = datetime.fromtimestamp(request.deadline, UTC).isoformat(timespec="seconds")
        raise refusal("deadline", "in the future", at, "To end a round now, close or cancel it.")
    barred = barred_now(network, ledger, people, request, now)
    forced = np.empty(0, dtype=np.int64) if request.must_include is None else request.must_include
    if wrong := _who_and_why(network, barred, forced):
        raise InputError(f"names {wrong}. Leave them out.", argument="must_include")
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
    return Constraints(barred.reasons, barred.until, forced, prices, surcharges, request.budget, groups, **numbers)


def _who_and_why(network: Network, barred: Barred, rows: I64) -> str:
    """The users among these who may not be chosen, each with the reason; empty if all may."""
    wrong = rows[barred.reasons[rows] != 0]
    said = [f"{shown(network.graph.ids[row].item())}, who {barred.why(row)}" for row in wrong[:_NAMED].tolist()]
    if wrong.size > _NAMED:
        said.append(f"{wrong.size - _NAMED:,} more who may not be chosen")
    return "; and ".join(said)


def check_list(network: Network, rules: Constraints, rows: I64, strategies: I64) -> None:
    """Refuse a list that a person made if it breaks a constraint of the same question."""
    if np.unique(rows).size < rows.size:
        raise InputError("names somebody twice; name each once.", argument="users")
    try:
        who = "the list in ", argument("users")
        check_choice(who, network, rules, rows, strategies, rows.size, "Change the list or the rules.")
    except StateError as error:
        raise InputError(*error.parts()) from None


def check_choice(
    name: tuple[str | Mention, ...],
    network: Network,
    rules: Constraints,
    rows: I64,
    strategies: I64,
    k: int,
    advice: str = "It picks seeds on its own; use a policy that chooses through the oracle, or drop the constraint.",
) -> None:
    """Refuse a choice that breaks a constraint: better no round than the wrong people contacted."""
    if np.unique(rows).size < rows.size or rows.size > k or (rules.budget is None and rows.size < k):
        raise StateError(*name, f" chose {np.unique(rows).size} different users where {k} were asked for.")
    broken = next(_broken(network, rules, rows, strategies), None)
    if broken is not None:
        raise StateError(*name, *broken, advice=advice)


def _broken(network: Network, rules: Constraints, rows: I64, strategies: I64) -> Iterator[tuple[str | Mention, ...]]:
    """What a choice does that a constraint forbids, each in words that follow the name of who chose."""
    if wrong := _who_and_why(network, rules, rows):
        yield (f" names {wrong}.",)
    for row in np.setdiff1d(rules.must_include, rows).tolist():
        yield f" left out {network.graph.ids[row].item()!r}, but ", argument("must_include"), " names them."
    spent = rules.spent(rows, strategies) or 0.0
    if rules.budget is not None and spent > spendable(rules.budget):
        yield (f" names users who cost {spent:g}, over the budget of {rules.budget:g}.",)
    for label, (used, quota) in group_use(rules, rows, rules.quotas).items():
        if used > quota:
            yield (f" names {used} users of group {label!r}, over its quota of {quota}.",)
    for label, (used, least) in group_use(rules, rows, rules.minima).items():
        if used < least:
            yield (f" names {used} users of group {label!r}, below its minimum of {least}.",)


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
