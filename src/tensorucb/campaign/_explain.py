"""Why a user was chosen or not: what an ask records for it, and the answer in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.campaign._constraints import Barred, Constraints, barred_now, group_use, why_not
from tensorucb.campaign._network import Network, seal, unseal, without_row
from tensorucb.campaign._people import NO_CANDIDATE, read_people
from tensorucb.campaign._question import Reader
from tensorucb.campaign._reach import Covered, Outlook, added_by_all, of_sources
from tensorucb.campaign._round import Explanation, Follower, Offer, Round, RoundExplanation
from tensorucb.campaign._segments import UserColumns
from tensorucb.checks import check_id
from tensorucb.errors import StateError
from tensorucb.graph import Graph
from tensorucb.money import money
from tensorucb.oracle._constraints import spendable
from tensorucb.policies.prediction import ROUNDS, Prediction

if TYPE_CHECKING:
    from tensorucb.campaign._choice import Choice
    from tensorucb.campaign._handle import Handle, View
    from tensorucb.campaign._value import Worth

_RANKED = 1000
_FOLLOWERS = 5
_QUOTA = 1
_BUDGET = 2
_MINIMUM = 3
_TIE = 1e-9
_SEEN = 0.005  # responses; a smaller difference does not show in a text
# What is told of one of the thousand best is this exact, in responses, or as a share of the largest number.
_UNIT, _SHARE = 1e-3, 2.0**-14

_BY_USER = {
    "seeds": ("seed_scores", "follower_rows", "follower_probabilities", "seed_offers"),
    "ranked": tuple(f"ranked_{name}" for name in ("scores", "gains", "codes", "offers", "strategies")),
    "close": ("close_values",),
    "left": ("left_codes", "left_until"),
    "candidates": (),
}
"""Arrays of users, by graph row, and those with an entry for each of them."""

_ASCENDING = ("ranked", "close", "left", "candidates")
"""Of these the gaps are stored, which are small; so is what scores are more than gains."""

_COUNTED = {
    "own": "the choice also counts what is not known yet",
    "list": "the list says otherwise",
    "direct": "the choice also counts what is not known yet, and users reached by others already",
    "cascade": "the choice counts whole cascades, and what is not known yet",
    "budget": "under the budget the choice counts what is added for the cost, and what is not known yet",
}
"""Why the strategy with the most expected responses need not be the one that a user gets."""


_OTHERS = {"own": "{} picks users by a rule of its own", "list": "a person made the list of this round"}
"""Who chose, where it was not the oracle."""


@dataclass(frozen=True)
class Evidence:
    """What an ask keeps for explanations: users by graph row and numbers, never ids."""

    settings: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]

    def to_blob(self) -> bytes:
        """As bytes for the store."""
        arrays = {**self.arrays}
        arrays |= {name: np.diff(arrays[name], prepend=0) for name in _ASCENDING if name in arrays}
        if "ranked_scores" in arrays:
            arrays["ranked_scores"] = arrays["ranked_scores"] - arrays["ranked_gains"]
        return seal("explanation", self.settings, {name: _smallest(a) for name, a in arrays.items()}, compressed=True)

    @classmethod
    def from_blob(cls, data: bytes) -> Evidence:
        """The evidence of :meth:`to_blob`'s bytes."""
        settings, packed = unseal(data, "explanation", "the round's explanation")
        arrays = {name: a.astype(np.int64) if a.dtype.kind == "i" else a for name, a in packed.items()}
        arrays |= {name: np.cumsum(arrays[name]) for name in _ASCENDING if name in arrays}
        if "ranked_scores" in arrays:
            arrays["ranked_scores"] = arrays["ranked_scores"] + arrays["ranked_gains"]
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
        counts: F64 = self.arrays[f"ranked_{name}"][at] * self.settings["unit"]
        return counts

    def place(self, users: str, row: int) -> int | None:
        """Where a user stands in an array of rows, if at all."""
        places = np.flatnonzero(self.arrays[users] == row)
        return int(places[0]) if places.size else None


def _smallest(array: NDArray[Any]) -> NDArray[Any]:
    """Integers in as few bytes as they need; all else as it is."""
    if array.dtype.kind != "i":
        return array
    most = max(array.max(initial=0), -1 - array.min(initial=0))
    return array.astype(next(kind for kind in (np.int8, np.int16, np.int32, np.int64) if most <= np.iinfo(kind).max))


def collect_evidence(
    network: Network, rules: Constraints, choice: Choice, outlook: Outlook, worth: Worth | None = None
) -> Evidence:
    """Record what explanations of this choice need.

    ``outlook`` has the expected probabilities; each edge with the strategy that its source gets, or would.
    Users are compared with the last one chosen, both in that place: after all the others chosen. ``values`` is what
    the choice compared, exploration included; greedy takes the largest, so nobody who might have been chosen has more
    than the last one. ``gains`` are the responses to be expected. With ``worth``, by which the choice was made, all of
    this is what responses are worth.

    Of the thousand best, numbers are kept as multiples of a small ``unit``, and ``values`` only where an explanation
    tells them: of users who count as much as the last one chosen, or of whom at least as many responses are expected.
    """
    graph = network.graph
    rows = choice.rows
    beliefs = outlook.beliefs
    p, rho = beliefs.expected, beliefs.redundancy
    values_of = None if worth is None else worth.means
    of_targets = 1.0 if values_of is None else values_of[graph.targets]
    scores = np.bincount(graph.sources, weights=p * of_targets, minlength=graph.n_nodes)
    others, last = rows[:-1], rows[-1:]
    gains = added_by_all(beliefs, others, values_of)
    values = gains
    if choice.optimistic is not None and choice.rule == "direct":
        optimistic = of_sources(graph, choice.optimistic, choice.places)
        # Where responses have values, the choice counts contacted users as far as others reach them.
        covered = Covered.of(graph, optimistic, others, gone=worth is None)
        added = covered.added(optimistic, graph.targets, rho) * of_targets
        values = np.bincount(graph.sources, weights=added, minlength=graph.n_nodes).astype(np.float64)
        values = covered.own(rho) + values if worth is None else values
    free_rows = np.setdiff1d(rules.allowed, rows)
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
    if len(choice.predictions) > 1:
        arrays["seed_offers"] = _offers(graph, choice.predictions, rows, of_targets)
        arrays["ranked_strategies"] = choice.places[top]
        numbers["ranked_offers"] = _offers(graph, choice.predictions, top, of_targets)
        del numbers["ranked_scores"]  # they are among the offers
    largest = max(float(each.max(initial=0.0)) for each in numbers.values())
    unit = min(_UNIT, _SHARE * largest) or _UNIT
    arrays.update({name: np.rint(each / unit).astype(np.int64) for name, each in numbers.items()})
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


def _offers(graph: Graph, predictions: Sequence[Prediction], rows: I64, of_targets: F64 | float) -> F64:
    """(users, strategies) expected responses if each of ``rows`` alone were contacted with each strategy.

    ``of_targets`` is what a response counts along each edge, or along all.
    """
    edges = graph.out_edges(rows)
    counts = of_targets[edges] if isinstance(of_targets, np.ndarray) else of_targets
    expected = []
    for prediction in predictions:
        weights = (ROUNDS @ prediction.rounds(edges)) * counts
        expected.append(np.bincount(graph.sources[edges], weights=weights, minlength=graph.n_nodes)[rows])
    return np.stack(expected, axis=1)


def _blocked(rules: Constraints, choice: Choice, top: I64) -> NDArray[np.int8]:
    """For the best-ranked users whether a full group or the money left stood against them."""
    codes = np.zeros(top.size, dtype=np.int8)
    bound = [label for label, (used, least) in group_use(rules, choice.rows, rules.minima).items() if used == least]
    if bound and rules.groups is not None:
        codes[~np.isin(rules.groups[top], bound)] = _MINIMUM
    full = [label for label, (used, quota) in group_use(rules, choice.rows, rules.quotas).items() if used >= quota]
    if full and rules.groups is not None:
        codes[np.isin(rules.groups[top], full)] = _QUOTA
    costs = rules.costs()
    if rules.budget is not None and costs is not None:
        left = spendable(rules.budget) - (rules.spent(choice.rows, choice.strategies) or 0.0)
        cheapest = costs.min(axis=0) if choice.per_user or not choice.rows.size else costs[choice.strategies[0]]
        codes[cheapest[top] > left] = _BUDGET
    return codes


def _explain_user(network: Network, record: Round, evidence: Evidence, row: int) -> Explanation:
    user, arrays = network.graph.ids[row].item(), evidence.arrays
    metric = evidence.settings["metric"]
    if row in record.chosen:
        explanation = _with_offers(_chosen(network, record, evidence, row, user), record, evidence, row)
        return replace(explanation, metric=metric)
    if row >= evidence.settings["users"]:
        return Explanation(user, "not_there_yet", f"{user!r} joined the campaign after this round was opened.")
    left = evidence.place("left", row)
    status, why = "", ""
    if left is not None:
        status, why = why_not(int(arrays["left_codes"][left]), float(arrays["left_until"][left]))
    elif "candidates" in arrays and evidence.place("candidates", row) is None:
        status, why = why_not(NO_CANDIDATE, np.nan)
    if status:
        return Explanation(user, status, f"{user!r} was not considered, since this user {why}.")
    return replace(_with_offers(_passed_over(evidence, row, user), record, evidence, row), metric=metric)


def _said(settings: Mapping[str, Any], number: float, what: str = "expected responses") -> str:
    """A number of responses, or what they are worth if the choice was by that."""
    if settings["metric"] == "responders":
        return f"{number:.2f} {what}"
    return f"{money(number)} of {what.replace('responses', 'revenue')}"


def _with_names(network: Network, columns: UserColumns | None, explanation: Explanation) -> Explanation:
    """The explanation, with what the user and the followers are called."""
    if columns is None:
        return explanation
    users = [explanation.user, *(follower.user for follower in explanation.followers)]
    own, *names = [columns.name(row) for row in network.rows("user", users).tolist()]
    pairs = zip(explanation.followers, names, strict=True)
    return replace(explanation, name=own, followers=tuple(replace(follower, name=name) for follower, name in pairs))


def _chosen(network: Network, record: Round, evidence: Evidence, row: int, user: int | str) -> Explanation:
    place = int(np.flatnonzero(record.chosen == row)[0])
    settings = evidence.settings
    by_value = settings["metric"] == "value" and record.revenues.size > 0  # of cascades, users are counted
    gain, threshold = float((record.revenues if by_value else record.gains)[place]), float(settings["threshold"])
    added = _said(settings if by_value else {"metric": "responders"}, gain)
    arrays, at = evidence.arrays, evidence.place("seeds", row)
    score = float(arrays["seed_scores"][at])
    pairs = zip(arrays["follower_rows"][at].tolist(), arrays["follower_probabilities"][at].tolist(), strict=True)
    ids = network.graph.ids
    followers = tuple(Follower(ids[follower].item(), p) for follower, p in pairs if follower >= 0)
    best = strongest(followers)
    held = row in record.held_out
    how = "was put on the list by a person" if record.listed else "was chosen"
    text, before = f"{user!r} {how} as number {place + 1}", " to those chosen before" if place else ""
    if held:
        text += f" and held out at random, to measure the lift: would add {added}"
    elif record.objective == "cascade":
        text += f": adds {gain:.2f} users{before} in the expected cascade"
    else:
        text += f": adds {added}{before}"
    text += f"; {_said(settings, score, 'expected direct responses')} if contacted alone"
    text += f"; strongest followers {best}." if best else "."
    return Explanation(user, "held_out" if held else "chosen", text, place + 1, gain, score, threshold, followers)


def strongest(followers: Sequence[Follower]) -> str:
    """Followers with their probabilities, as a text lists them."""
    return ", ".join(f"{follower.user!r} {follower.probability:.2f}" for follower in followers)


def _passed_over(evidence: Evidence, row: int, user: int | str) -> Explanation:
    arrays = evidence.arrays
    settings = evidence.settings
    at = evidence.place("ranked", row)
    threshold = float(settings["threshold"])
    if at is None:
        why = f"{arrays['ranked'].size} others who were not chosen either count as much or more"
        if settings["rule"] in _OTHERS:
            why = _OTHERS[settings["rule"]].format(settings["policy"])
        last = f"the last one chosen adds {_said(settings, threshold)} to the others chosen"
        return Explanation(user, "not_enough", f"{user!r} was not chosen: {why}; {last}.", threshold=threshold)
    gain = float(evidence.ranked("gains", at))
    if "ranked_offers" in arrays:
        score = float(evidence.ranked("offers", at)[arrays["ranked_strategies"][at]])
    else:
        score = float(evidence.ranked("scores", at))
    close = evidence.place("close", row)
    value = None if close is None else float(arrays["close_values"][close])
    least = f"{threshold:.2f}" if settings["metric"] == "responders" else money(threshold)
    numbers = (
        f"would add {_said(settings, gain, 'expected direct responses')} in place of the last one chosen, who adds "
        f"{least} to the others chosen"
    )
    status, reason = "not_enough", _reason(settings, value, numbers)
    if arrays["ranked_codes"][at] == _QUOTA:
        status, reason = "group_quota", f"the group's quota is used up ({numbers})"
    elif arrays["ranked_codes"][at] == _MINIMUM and close is not None:
        status, reason = "group_minimum", f"places were kept for groups with a minimum ({numbers})"
    elif arrays["ranked_codes"][at] == _BUDGET:
        status, reason = "budget", f"costs more than the budget has left ({numbers})"
    return Explanation(user, status, f"{user!r} was not chosen: {reason}.", None, gain, score, threshold)


def _with_offers(explanation: Explanation, record: Round, evidence: Evidence, row: int) -> Explanation:
    """The explanation, with what this user gets or would get, and what is expected of each strategy."""
    strategies = record.strategies
    arrays = evidence.arrays
    rank = explanation.rank
    if strategies is None:
        return replace(explanation, strategy=record.context.strategy)
    offered = strategies.offered
    one = None if strategies.per_user or not strategies.chosen.size else int(strategies.chosen[0])
    at = evidence.place("ranked" if rank is None else "seeds", row)
    has_offers = at is not None and "seed_offers" in arrays
    place, values = one, None
    if rank is not None:
        place = int(strategies.chosen[rank - 1])
        values = arrays["seed_offers"][at] if has_offers else None
    elif at is not None and has_offers:
        place = int(arrays["ranked_strategies"][at])
        values = evidence.ranked("offers", at)
    strategy = None if place is None else offered.ids[place]
    if place is None or values is None:
        return replace(explanation, strategy=strategy)
    offers = tuple(map(Offer, offered.ids, values.tolist(), offered.costs.tolist()))
    text = f"{explanation.text} {_offered(evidence.settings, rank is not None, one is not None, place, offers)}"
    best = max(offers, key=lambda offer: offer.expected)
    if rank is not None and one is None and best.expected > offers[place].expected + _SEEN:
        text += f" More is expected with {best.strategy!r}, but {_COUNTED[evidence.settings['rule']]}."
    return replace(explanation, text=text, strategy=strategy, offers=offers)


def _offered(settings: Mapping[str, Any], chosen: bool, one: bool, place: int, offers: Sequence[Offer]) -> str:
    """What is expected of this user with each strategy, in a sentence."""
    costly = any(offer.cost for offer in offers)
    named = [f"{offer.strategy!r} (cost {money(offer.cost)})" if costly else f"{offer.strategy!r}" for offer in offers]
    others = ", ".join(f"with {named[i]} {offers[i].expected:.2f}" for i in range(len(offers)) if i != place)
    numbers = f"{_said(settings, offers[place].expected, 'expected direct responses')} alone; {others}."
    if one:
        return f"{'Gets' if chosen else 'Would get'} {named[place]}, as everybody does in this round: {numbers}"
    return f"{'Gets' if chosen else 'The best offer for this user is'} {named[place]}: {numbers}"


def _reason(settings: Mapping[str, Any], value: float | None, numbers: str) -> str:
    """Why a user was not chosen, if neither a quota nor the budget stood against it.

    Without a ``value``, fewer responses are expected of the user than of the last one chosen, which says it all.
    """
    last, rule = float(settings["value"]), settings["rule"]
    if settings["forced"]:
        return f"every place went to users who had to be included; {numbers}"
    if rule in _OTHERS:
        return f"{_OTHERS[rule].format(settings['policy'])}; {numbers}"
    if rule == "cascade":
        return f"the choice counts whole cascades, and the last one chosen brought at least as many users; {numbers}"
    if rule == "budget":
        return f"under the budget, those chosen add more for what they cost; {numbers}"
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
    evidence = view.evidence(record)
    if evidence is None:
        data = view.session.explanation(view.number, record.number)
        if data is None:
            raise StateError(f"round {round_id} is imported history: it has no choice of ours to explain.")
        evidence = Evidence.from_blob(data)
    if user is not None:
        row = int(network.rows("user", [check_id("user", user)])[0])
        return _with_names(network, view.user_columns, _explain_user(network, record, evidence, row))
    return explain_seeds(network, record, evidence, view.user_columns)


def barred_by_default(handle: Handle, view: View) -> Barred:
    """Who may not be contacted now, and why, under the campaign's defaults."""
    now = handle.clock()
    question = Reader(handle.record.settings, view.network, view.catalogues(), now).read({"product": [1.0]})
    return barred_now(view.network, view.ledger, read_people(handle, view, now), question, now)


def explain_seeds(network: Network, record: Round, evidence: Evidence, columns: UserColumns | None) -> RoundExplanation:
    """The explanation of all seeds of a round, also of one that was not opened; ``columns`` has the users' names."""
    explanations = [_explain_user(network, record, evidence, row) for row in record.chosen.tolist()]
    seeds = tuple(_with_names(network, columns, each) for each in explanations)
    return RoundExplanation(seeds, dict(record.left_out), evidence.settings["certificate"])
