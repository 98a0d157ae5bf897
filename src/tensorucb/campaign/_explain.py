"""Why a user was chosen or not: what an ask records for it, and the answer in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.campaign._constraints import NO_CANDIDATE, REASONS, Constraints
from tensorucb.campaign._network import Network, without_row
from tensorucb.campaign._reach import Beliefs, Covered, added_by_all, of_sources
from tensorucb.campaign._round import Explanation, Follower, Offer, Round, RoundExplanation
from tensorucb.campaign._segments import UserColumns
from tensorucb.checks import check_id
from tensorucb.errors import StateError
from tensorucb.files import pack_state, unpack_state
from tensorucb.money import money
from tensorucb.oracle._constraints import spendable
from tensorucb.policies.prediction import ROUNDS

if TYPE_CHECKING:
    from tensorucb.campaign._choice import Choice
    from tensorucb.campaign._handle import View
    from tensorucb.campaign._value import Worth

_RANKED = 1000
_FOLLOWERS = 5
_TIE = 1e-9
_SEEN = 0.005  # responses; a smaller difference does not show in a text
# What is told of one of the thousand best is this exact, in responses, or as a share of the largest number.
_UNIT, _SHARE = 1e-3, 2.0**-14
_ALONE = "expected direct responses"

_BY_USER = {
    "seeds": ("seed_scores", "follower_rows", "follower_probabilities", "seed_offers"),
    "ranked": tuple(f"ranked_{name}" for name in ("scores", "gains", "codes", "offers", "strategies")),
    "close": ("close_values",),
    "left": ("left_codes", "left_until"),
    "candidates": (),
}
"""Arrays of users, by graph row, and those with an entry for each of them."""

_ASCENDING = ("ranked", "close", "left", "candidates")
"""Of these the gaps are stored, which are small."""

_QUOTA, _BUDGET, _MINIMUM = 1, 2, 3
_BLOCKED = {
    _QUOTA: ("group_quota", "the group's quota is used up"),
    _BUDGET: ("budget", "costs more than the budget has left"),
    _MINIMUM: ("group_minimum", "places were kept for groups with a minimum"),
}
"""What stood against one of the best-ranked users: the status, and what is said of it."""

_OTHERS = {"own": "{} picks users by a rule of its own", "list": "a person made the list of this round"}
"""Who chose, where it was not the oracle."""
_RULES = {
    **_OTHERS,
    "cascade": "the choice counts whole cascades, and the last one chosen brought at least as many users",
    "budget": "under the budget, those chosen add more for what they cost",
}
"""Why a user was not chosen, where direct responses do not say it all."""
_COUNTED = {
    "own": "the choice also counts what is not known yet",
    "list": "the list says otherwise",
    "direct": "the choice also counts what is not known yet, and users reached by others already",
    "cascade": "the choice counts whole cascades, and what is not known yet",
    "budget": "under the budget the choice counts what is added for the cost, and what is not known yet",
}
"""Why the strategy with the most expected responses need not be the one that a user gets."""


@dataclass(frozen=True)
class Evidence:
    """What an ask keeps for explanations: users by graph row and numbers, never ids."""

    settings: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]

    def to_blob(self) -> bytes:
        """As bytes for the store."""
        arrays = {
            name: _smallest(np.diff(array, prepend=0) if name in _ASCENDING else array)
            for name, array in self.arrays.items()
        }
        return pack_state("explanation", self.settings, arrays, compressed=True)

    @classmethod
    def from_blob(cls, data: bytes) -> Evidence:
        """The evidence of :meth:`to_blob`'s bytes."""
        settings, packed = unpack_state(data, "explanation", "the round's explanation")
        arrays = {name: a.astype(np.int64) if a.dtype.kind == "i" else a for name, a in packed.items()}
        arrays |= {name: np.cumsum(arrays[name]) for name in _ASCENDING if name in arrays}
        return cls(settings, arrays)

    def without(self, row: int) -> Evidence:
        """The same once a user is forgotten."""
        arrays = dict(self.arrays)
        for users, names in _BY_USER.items():
            if users in arrays:
                kept = arrays[users] != row
                arrays[users] = without_row(arrays[users], row)
                arrays.update({name: arrays[name][kept] for name in names if name in arrays})
        followers = arrays["follower_rows"]
        gone = followers == row
        arrays["follower_rows"] = np.where(gone, -1, followers - (followers > row))
        arrays["follower_probabilities"] = np.where(gone, 0.0, arrays["follower_probabilities"])
        users_then = self.settings["users"]
        return Evidence({**self.settings, "users": users_then - (row < users_then)}, arrays)

    def ranked(self, name: str, at: int) -> F64:
        """``gains``, ``scores`` or ``offers`` of one of the thousand best, by their place among these."""
        counts = self.arrays[f"ranked_{name}"][at]
        if name == "scores":
            counts = counts + self.arrays["ranked_gains"][at]
        return np.asarray(counts * self.settings["unit"])

    def place(self, users: str, row: int) -> int | None:
        """Where a user stands in an array of rows, if at all."""
        places = np.flatnonzero(self.arrays[users] == row)
        return int(places[0]) if places.size else None


def _smallest(array: NDArray[Any]) -> NDArray[Any]:
    """Integers in as few bytes as they need; all else as it is."""
    if array.dtype.kind != "i":
        return array
    ends = np.min_scalar_type(array.min(initial=-1)), np.min_scalar_type(array.max(initial=-1))
    return array.astype(np.result_type(*ends))


def collect_evidence(rules: Constraints, choice: Choice, worth: Worth | None) -> Evidence:
    """Record what explanations of this choice need.

    Users are compared with the last one chosen, both in that place: after all the others chosen. ``values`` is what
    the choice compared, exploration included; greedy takes the largest, so nobody who might have been chosen has more
    than the last one. ``gains`` are the responses to be expected. With ``worth``, by which the choice was made, all of
    this is what responses are worth.

    Of the thousand best, numbers are kept as multiples of a small ``unit``, and ``values`` only where an explanation
    tells them: of users who count as much as the last one chosen, or of whom at least as many responses are expected.
    """
    rows, beliefs = choice.rows, choice.beliefs
    graph = beliefs.graph
    p, rho = beliefs.expected, beliefs.redundancy
    worth_of = None if worth is None else worth.means
    counts = np.ones(graph.n_edges) if worth_of is None else worth_of[graph.targets]  # for a response along each edge
    scores = np.bincount(graph.sources, weights=p * counts, minlength=graph.n_nodes)
    others, last = rows[:-1], rows[-1:]
    gains = added_by_all(beliefs, others, worth_of)
    values = gains
    if choice.optimistic is not None and choice.rule == "direct":
        optimistic = of_sources(graph, choice.optimistic, beliefs.places)
        # Where responses have values, the choice counts contacted users as far as others reach them.
        covered = Covered.of(graph, optimistic, others, gone=worth is None)
        added = covered.added(optimistic, graph.targets, rho) * counts
        values = np.bincount(graph.sources, weights=added, minlength=graph.n_nodes).astype(np.float64)
        values = covered.own(rho) + values if worth is None else values
    free_rows = np.setdiff1d(rules.allowed, rows, assume_unique=True)
    top = np.sort(free_rows[np.argsort(-values[free_rows], kind="stable")[:_RANKED]])
    # A budget may be too small for anybody.
    threshold, value = float(gains[last].sum()), float(values[last].sum())
    close = top[(values[top] >= _tie(value)) | (gains[top] >= threshold)]
    followers = np.full((rows.size, _FOLLOWERS), -1, dtype=np.int64)
    strengths = np.zeros((rows.size, _FOLLOWERS))
    for i, row in enumerate(rows.tolist()):
        edges = np.arange(graph.out_offsets[row], graph.out_offsets[row + 1])
        best = edges[np.argsort(-p[edges], kind="stable")[:_FOLLOWERS]]
        followers[i, : best.size] = graph.targets[best]
        strengths[i, : best.size] = p[best]
    barred = np.flatnonzero((rules.reasons != 0) & (rules.reasons != NO_CANDIDATE))
    arrays: dict[str, NDArray[Any]] = {
        "seeds": rows,
        "seed_scores": scores[rows],
        "follower_rows": followers,
        "follower_probabilities": strengths,
        "ranked": top,
        "ranked_codes": _blocked(rules, choice, top),
        "close": close,
        "close_values": values[close],
        "left": barred,
        "left_codes": rules.reasons[barred],
        "left_until": rules.until[barred],
    }
    numbers = {"ranked_gains": gains[top], "ranked_scores": scores[top]}
    if len(beliefs.predictions) > 1:
        arrays["seed_offers"] = _offers(beliefs, rows, counts)
        arrays["ranked_strategies"] = beliefs.places[top]
        numbers["ranked_offers"] = _offers(beliefs, top, counts)
        del numbers["ranked_scores"]  # they are among the offers
    largest = max(float(each.max(initial=0.0)) for each in numbers.values())
    unit = min(_UNIT, _SHARE * largest) or _UNIT
    arrays.update({name: np.rint(each / unit).astype(np.int64) for name, each in numbers.items()})
    if "ranked_scores" in arrays:
        arrays["ranked_scores"] -= arrays["ranked_gains"]  # how much more they are, which is little
    if (rules.reasons == NO_CANDIDATE).any():
        arrays["candidates"] = np.flatnonzero(rules.reasons != NO_CANDIDATE)
    settings = {
        "policy": choice.policy,
        "rule": "budget" if rules.budget is not None and choice.rule in ("direct", "cascade") else choice.rule,
        "forced": bool(np.isin(last, rules.must_include).any()),
        "threshold": threshold,
        "value": value,
        "users": graph.n_nodes,
        "certificate": choice.certificate,
        "unit": unit,
        "metric": "responders" if worth is None else "value",
    }
    return Evidence(settings, arrays)


def _tie(value: float) -> float:
    """From where on a user counts as much as the last one chosen, who has this value."""
    return value - _TIE * max(1.0, value)


def _offers(beliefs: Beliefs, rows: I64, counts: F64) -> F64:
    """(users, strategies) what is expected if each of ``rows`` alone were contacted with each strategy."""
    graph = beliefs.graph
    edges = graph.out_edges(rows)
    expected = []
    for prediction in beliefs.predictions:
        weights = (ROUNDS @ prediction.rounds(edges)) * counts[edges]
        expected.append(np.bincount(graph.sources[edges], weights=weights, minlength=graph.n_nodes)[rows])
    return np.stack(expected, axis=1)


def _blocked(rules: Constraints, choice: Choice, top: I64) -> NDArray[np.int8]:
    """For the best-ranked users whether a full group or the money left stood against them."""
    codes = np.zeros(top.size, dtype=np.int8)
    if rules.groups is not None:
        labels = rules.groups[top]
        minima, quotas = (rules.group_use(choice.rows, numbers) for numbers in (rules.minima, rules.quotas))
        bound = [label for label, (used, least) in minima.items() if used == least]
        if bound:
            codes[~np.isin(labels, bound)] = _MINIMUM
        codes[np.isin(labels, [label for label, (used, quota) in quotas.items() if used >= quota])] = _QUOTA
    costs = rules.costs()
    if rules.budget is not None and costs is not None:
        left = spendable(rules.budget) - (rules.spent(choice.rows, choice.strategies) or 0.0)
        one = choice.strategies[0] if choice.rows.size and not choice.per_user else None
        cheapest = costs.min(axis=0) if one is None else costs[one]
        codes[cheapest[top] > left] = _BUDGET
    return codes


@dataclass(frozen=True)
class Explainer:
    """Says why users were chosen in a round or not; ``columns`` has their names, if they are known."""

    network: Network
    record: Round
    evidence: Evidence
    columns: UserColumns | None

    def seeds(self) -> RoundExplanation:
        """All seeds, also of a round that was not opened."""
        seeds = tuple(map(self.user, self.record.chosen.tolist()))
        return RoundExplanation(seeds, dict(self.record.left_out), self.evidence.settings["certificate"])

    def user(self, row: int) -> Explanation:
        """One user."""
        arrays, settings = self.evidence.arrays, self.evidence.settings
        if row in self.record.chosen:
            return self._chosen(row)
        if row >= settings["users"]:
            return self._explanation(row, "not_there_yet", "joined the campaign after this round was opened.")
        left = self.evidence.place("left", row)
        if left is not None:
            code, until = int(arrays["left_codes"][left]), float(arrays["left_until"][left])
        elif "candidates" in arrays and self.evidence.place("candidates", row) is None:
            code, until = NO_CANDIDATE, np.nan
        else:
            return self._passed_over(row)
        why = f"was not considered, since this user {REASONS[code].said(until)}."
        return self._explanation(row, REASONS[code].name, why)

    def _explanation(self, row: int, status: str, text: str, after: str = "", **more: Any) -> Explanation:
        """``text`` is what follows the user, ``after`` what follows the followers."""
        return Explanation(self._id(row), status, "", name=self._name(row), **more).worded(text, after)

    def _id(self, row: int) -> int | str:
        user: int | str = self.network.graph.ids[row].item()
        return user

    def _name(self, row: int) -> str | None:
        return None if self.columns is None else self.columns.names[row]

    def _amount(self, number: float, what: str = "expected responses") -> str:
        """A number of responses, or what they are worth if the choice was by that."""
        if self.evidence.settings["metric"] == "responders":
            return f"{number:.2f} {what}"
        return f"{money(number)} of {what.replace('responses', 'revenue')}"

    def _chosen(self, row: int) -> Explanation:
        record, settings, arrays = self.record, self.evidence.settings, self.evidence.arrays
        place = int(np.flatnonzero(record.chosen == row)[0])
        at = self.evidence.place("seeds", row)
        by_value = settings["metric"] == "value" and record.revenues.size  # of cascades, users are counted
        gain = float((record.revenues if by_value else record.gains)[place])
        added = self._amount(gain) if by_value else f"{gain:.2f} expected responses"
        score = float(arrays["seed_scores"][at])
        pairs = zip(arrays["follower_rows"][at].tolist(), arrays["follower_probabilities"][at].tolist(), strict=True)
        followers = tuple(Follower(self._id(each), p, self._name(each)) for each, p in pairs if each >= 0)
        held = row in record.held_out
        how = "was put on the list by a person" if record.listed else "was chosen"
        text, before = f"{how} as number {place + 1}", " to those chosen before" if place else ""
        if held:
            text += f" and held out at random, to measure the lift: would add {added}"
        elif record.objective == "cascade":
            text += f": adds {gain:.2f} users{before} in the expected cascade"
        else:
            text += f": adds {added}{before}"
        text += f"; {self._amount(score, _ALONE)} if contacted alone"
        strategy, offers, sentence = self._offered(at, place)
        return self._explanation(
            row,
            "held_out" if held else "chosen",
            text,
            f".{sentence}",
            rank=place + 1,
            gain=gain,
            score=score,
            threshold=float(settings["threshold"]),
            followers=followers,
            strategy=strategy,
            offers=offers,
            metric=settings["metric"],
        )

    def _passed_over(self, row: int) -> Explanation:
        settings, arrays = self.evidence.settings, self.evidence.arrays
        threshold = float(settings["threshold"])
        at = self.evidence.place("ranked", row)
        strategy, offers, sentence = self._offered(at, None)
        more = {"threshold": threshold, "strategy": strategy, "offers": offers, "metric": settings["metric"]}
        if at is None:
            why = f"{arrays['ranked'].size} others who were not chosen either count as much or more"
            if settings["rule"] in _OTHERS:
                why = _OTHERS[settings["rule"]].format(settings["policy"])
            last = f"the last one chosen adds {self._amount(threshold)} to the others chosen"
            return self._explanation(row, "not_enough", f"was not chosen: {why}; {last}.", **more)
        gain = float(self.evidence.ranked("gains", at))
        alone = [offer.expected for offer in offers if offer.strategy == strategy]
        score = alone[0] if alone else float(self.evidence.ranked("scores", at))
        close = self.evidence.place("close", row)
        value = None if close is None else float(arrays["close_values"][close])
        least = f"{threshold:.2f}" if settings["metric"] == "responders" else money(threshold)
        would = f"would add {self._amount(gain, _ALONE)} in place of the last one chosen"
        numbers = f"{would}, who adds {least} to the others chosen"
        code = int(arrays["ranked_codes"][at])
        if code and (code != _MINIMUM or close is not None):
            status, why = _BLOCKED[code]
            reason = f"{why} ({numbers})"
        else:
            status, reason = "not_enough", self._reason(value, numbers)
        return self._explanation(row, status, f"was not chosen: {reason}.{sentence}", gain=gain, score=score, **more)

    def _offered(self, at: int | None, place: int | None) -> tuple[int | str | None, tuple[Offer, ...], str]:
        """What a user gets or would get, what is expected of each strategy, and this in a sentence.

        ``place`` is that in the order of choice, None if the user was not chosen; ``at`` is where they are among those
        chosen or the best-ranked others.
        """
        strategies, arrays = self.record.strategies, self.evidence.arrays
        if strategies is None:
            return self.record.context.strategy, (), ""
        ids, costs = strategies.offered.ids, strategies.offered.costs
        one = None if strategies.per_user or not strategies.chosen.size else int(strategies.chosen[0])
        gets = one if place is None else int(strategies.chosen[place])
        if at is None or "seed_offers" not in arrays:
            return None if gets is None else ids[gets], (), ""
        values = self.evidence.ranked("offers", at) if place is None else arrays["seed_offers"][at]
        gets = int(arrays["ranked_strategies"][at] if place is None else strategies.chosen[place])
        offers = tuple(map(Offer, ids, values.tolist(), costs.tolist()))
        named = [f"{each.strategy!r}{f' (cost {money(each.cost)})' if costs.any() else ''}" for each in offers]
        others = ", ".join(f"with {named[i]} {offers[i].expected:.2f}" for i in range(len(offers)) if i != gets)
        what = "Gets" if place is not None else "The best offer for this user is" if one is None else "Would get"
        as_all = "" if one is None else ", as everybody does in this round"
        expected = self._amount(offers[gets].expected, _ALONE)
        text = f" {what} {named[gets]}{as_all}: {expected} alone; {others}."
        best = max(offers, key=lambda offer: offer.expected)
        if one is None and place is not None and best.expected > offers[gets].expected + _SEEN:
            text += f" More is expected with {best.strategy!r}, but {_COUNTED[self.evidence.settings['rule']]}."
        return ids[gets], offers, text

    def _reason(self, value: float | None, numbers: str) -> str:
        """Why a user was not chosen, if neither a quota nor the budget stood against it.

        Without a ``value``, fewer responses are expected of the user than of the last one chosen, which says it all.
        """
        settings = self.evidence.settings
        last = float(settings["value"])
        if settings["forced"]:
            return f"every place went to users who had to be included; {numbers}"
        if settings["rule"] in _RULES:
            return f"{_RULES[settings['rule']].format(settings['policy'])}; {numbers}"
        if value is None:
            return numbers
        if value >= _tie(last):
            return f"counts as much as the last one chosen, and ties go to users with more followers; {numbers}"
        for decimals in range(2, 12):
            small, large = f"{value:.{decimals}f}", f"{last:.{decimals}f}"
            if small != large:
                break
        return (
            f"{numbers}; but the choice also counts what is not known yet, and with this bonus for exploration {small} "
            f"stand against {large}"
        )


def explain(view: View, round_id: str | int, user: int | str | None) -> Explanation | RoundExplanation:
    """The explanation of one user, or of all seeds of a round."""
    network, record = view.network, view.round(round_id)

    def read() -> Evidence:
        data = view.session.explanation(view.number, record.number)
        if data is None:
            raise StateError(f"round {round_id} is imported history: it has no choice of ours to explain.")
        return Evidence.from_blob(data)

    # Whoever asks why one user was chosen often asks about others of the same round.
    evidence = view.memory.cached("evidence", (record.id, network.revision), read)
    explainer = Explainer(network, record, evidence, view.user_columns)
    if user is None:
        return explainer.seeds()
    return explainer.user(int(network.rows("user", [check_id("user", user)])[0]))
