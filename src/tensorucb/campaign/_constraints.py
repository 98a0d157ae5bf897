"""Who may be chosen in a round: an ask's constraints in graph rows, and a check that a choice keeps them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.campaign._network import Network
from tensorucb.campaign._people import Said, said, waits
from tensorucb.campaign._question import Reader
from tensorucb.checks import refusal, shown
from tensorucb.errors import InputError, Mention, StateError, argument, call
from tensorucb.oracle import Constraints as SeedConstraints
from tensorucb.oracle._constraints import spendable
from tensorucb.question import Question

if TYPE_CHECKING:
    from tensorucb.campaign._handle import View


class Reason(NamedTuple):
    """Why users may not be chosen: its name, how their number is told, and what is said of one of them."""

    name: str
    counted: str
    clause: str

    def said(self, until: float) -> str:
        """What follows the user in a sentence: "has opted out"."""
        moment = f"{datetime.fromtimestamp(until, UTC):%Y-%m-%d %H:%M} UTC" if np.isfinite(until) else ""
        return self.clause.format(until=moment)


REASONS = (
    Reason("", "", "may be chosen"),
    Reason("outside_candidates", "no candidates", "is not a candidate"),
    Reason(
        "audience_rest",
        "whose followers rest",
        "has an audience that rests until {until}: more than half of their followers were addressed lately",
    ),
    Reason("cooldown", "contacted too recently", "was contacted within the cooldown, which lasts until {until}"),
    Reason("contact_cap", "over the contact cap", "has reached the contact cap until {until}"),
    Reason("excluded", "excluded", "is excluded by the caller"),
    Reason("no_consent", "without consent", "has given no consent"),
    Reason("opt_out", "opted out", "has opted out"),
)
"""By the code that stands for each of them, also in the store. Where there are several, the largest code counts."""

NO_CANDIDATE = 1
_GIVE_THEM = "Give them to ", call("create_campaign"), "."
_NAMED = 3  # users whom a refusal names


@dataclass(frozen=True)
class Barred:
    """Who may not be chosen: for each row 0, or the code of the reason, and until when (unix seconds, NaN: for good).

    The one record of it: choices, refusals, explanations and `Campaign.why_not` all read it.
    """

    reasons: NDArray[np.int8]
    until: F64

    @classmethod
    def of(cls, question: Question, spoken: Said, until: Mapping[str, F64], now: float) -> Barred:
        """By the lists of a question, what people said, and until when they have to wait, by reason."""
        n = spoken.opted_out.size
        barred: dict[str, NDArray[Any]] = {name: moments > now for name, moments in until.items()}
        barred |= {"no_consent": spoken.no_consent, "opt_out": spoken.opted_out}
        if question.candidates is not None:
            barred["outside_candidates"] = np.isin(np.arange(n), question.candidates, invert=True)
        if question.exclude is not None:
            barred["excluded"] = question.exclude
        reasons, ends = np.zeros(n, dtype=np.int8), np.full(n, np.nan)
        for code, reason in enumerate(REASONS):
            if reason.name in barred:
                rows = barred[reason.name]
                reasons[rows] = code
                ends[rows] = until[reason.name][rows] if reason.name in until else np.nan
        return cls(reasons, ends)

    def why(self, row: int) -> str | None:
        """Why a user may not be chosen; None if they may."""
        code = int(self.reasons[row])
        return REASONS[code].said(float(self.until[row])) if code else None

    def named(self, network: Network, rows: I64) -> str:
        """The users among these who may not be chosen, each with the reason; empty if all may."""
        wrong = rows[self.reasons[rows] != 0]
        named = [f"{shown(network.graph.ids[row].item())}, who {self.why(row)}" for row in wrong[:_NAMED].tolist()]
        if wrong.size > _NAMED:
            named.append(f"{wrong.size - _NAMED:,} more who may not be chosen")
        return "; and ".join(named)


def barred_now(view: View, question: Question, now: float) -> Barred:
    """Who may not be chosen at this moment, and why: what people said, caps, rest periods, and the question's lists."""
    return Barred.of(question, said(view), waits(view.handle, view, question, now), now)


def barred_by_default(view: View) -> Barred:
    """The same under the campaign's defaults."""
    now = view.handle.clock()
    question = Reader(view.handle.record.settings, view.network, view.catalogues(), now).read({"product": [1.0]})
    return barred_now(view, question, now)


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

    def for_oracle(self, exclude: I64, must_include: I64, costs: F64 | None) -> SeedConstraints:
        """The same as the oracle takes them."""
        limits = {name: getattr(self, name) for name in ("budget", "groups", "quotas", "minima")}
        return SeedConstraints(exclude=exclude, must_include=must_include, costs=costs, **limits)

    def spent(self, rows: I64, strategies: I64) -> float | None:
        """What contacting these users costs, each with its strategy; None if nothing has a cost."""
        return None if self.prices is None else float((self.prices[rows] + self.surcharges[strategies]).sum())

    def counts(self) -> dict[Reason, int]:
        """How many users are left out, by reason, the strongest first."""
        counts = np.bincount(self.reasons, minlength=len(REASONS)).tolist()
        return {REASONS[code]: counts[code] for code in range(len(REASONS) - 1, 0, -1) if counts[code]}

    def left_out(self) -> str:
        """The same in words, for errors."""
        counted = (f"{count:,} {reason.counted}" for reason, count in self.counts().items())
        return ", ".join(counted) or "nobody is left out"

    def group_use(self, rows: I64, numbers: Mapping[Any, int] | int | None) -> dict[Any, tuple[int, int]]:
        """Of each group with a quota or a minimum: how many of ``rows`` are of it, and that number."""
        if self.groups is None or numbers is None:
            return {}
        if not isinstance(numbers, Mapping):
            numbers = dict.fromkeys(np.unique(self.groups).tolist(), numbers)
        labels = self.groups[rows]
        return {label: (int(np.count_nonzero(labels == label)), number) for label, number in numbers.items()}

    def fewest(self, rows: I64) -> int:
        """How many of ``rows``, from the first on, keep the minima, or come as near to them as all of them do."""
        needed = [0]
        for label, (_, least) in self.group_use(rows, self.minima).items():
            places = np.flatnonzero(np.asarray(self.groups)[rows] == label)[:least]
            needed.append(1 + int(places.max(initial=-1)))
        return max(needed)


def constrain(network: Network, barred: Barred, question: Question, now: float) -> Constraints:
    """The constraints of a question at this moment."""
    # Not when the question is read: a request that comes again has the deadline that it had.
    if question.deadline is not None and question.deadline <= now:
        at = datetime.fromtimestamp(question.deadline, UTC).isoformat(timespec="seconds")
        raise refusal("deadline", "in the future", at, "To end a round now, close or cancel it.")
    forced = np.empty(0, dtype=np.int64) if question.must_include is None else question.must_include
    if wrong := barred.named(network, forced):
        raise InputError(f"names {wrong}. Leave them out.", argument="must_include")
    surcharges = np.array([question.product.cost]) if question.strategies is None else question.strategies.costs
    prices = question.costs
    if prices is None and surcharges.any():
        prices = np.zeros(network.graph.n_nodes)
    if question.budget is not None and prices is None:
        raise InputError("needs costs of users, and the campaign has none.", argument="budget", advice=_GIVE_THEM)
    numbers = {"quotas": question.quotas, "minima": question.minima}
    used = [name for name, by_group in numbers.items() if by_group is not None]
    if used and question.groups is None:
        raise InputError("need groups of users, and the campaign has none.", argument=used[0], advice=_GIVE_THEM)
    groups = question.groups if used else None
    return Constraints(barred.reasons, barred.until, forced, prices, surcharges, question.budget, groups, **numbers)


def check_list(network: Network, rules: Constraints, rows: I64, strategies: I64) -> None:
    """Refuse a list that a person made if it breaks a constraint of the same question."""
    if np.unique(rows).size < rows.size:
        raise InputError("names somebody twice; name each once.", argument="users")
    for broken in _broken(network, rules, rows, strategies):
        raise InputError("the list in ", argument("users"), *broken, advice="Change the list or the rules.")


def check_choice(policy: str, network: Network, rules: Constraints, rows: I64, strategies: I64, k: int) -> None:
    """Refuse a policy's choice that breaks a constraint: better no round than the wrong people contacted."""
    if np.unique(rows).size < rows.size or rows.size > k or (rules.budget is None and rows.size < k):
        raise StateError(f"{policy} chose {np.unique(rows).size} different users where {k} were asked for.")
    advice = "It picks seeds on its own; use a policy that chooses through the oracle, or drop the constraint."
    for broken in _broken(network, rules, rows, strategies):
        raise StateError(policy, *broken, advice=advice)


def _broken(network: Network, rules: Constraints, rows: I64, strategies: I64) -> Iterator[tuple[str | Mention, ...]]:
    """What a choice does that a constraint forbids, each in words that follow the name of who chose."""
    if wrong := rules.named(network, rows):
        yield (f" names {wrong}.",)
    for row in np.setdiff1d(rules.must_include, rows).tolist():
        yield f" left out {network.graph.ids[row].item()!r}, but ", argument("must_include"), " names them."
    spent = rules.spent(rows, strategies) or 0.0
    if rules.budget is not None and spent > spendable(rules.budget):
        yield (f" names users who cost {spent:g}, over the budget of {rules.budget:g}.",)
    for label, (used, quota) in rules.group_use(rows, rules.quotas).items():
        if used > quota:
            yield (f" names {used} users of group {label!r}, over its quota of {quota}.",)
    for label, (used, least) in rules.group_use(rows, rules.minima).items():
        if used < least:
            yield (f" names {used} users of group {label!r}, below its minimum of {least}.",)
