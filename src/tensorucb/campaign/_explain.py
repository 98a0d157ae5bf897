"""Why a user was chosen or not: what an ask records for it, and the answer in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.campaign._choice import CANDIDATES, COOLDOWN, OPT_OUT, Constraints, group_use
from tensorucb.campaign._store import RoundRecord
from tensorucb.campaign._world import World, seal, unseal

__all__ = ["Evidence", "Explanation", "RoundExplanation", "collect_evidence", "explain_round", "explain_user"]

_RANKED = 1000
_FOLLOWERS = 5
_QUOTA, _BUDGET = 1, 2


@dataclass(frozen=True)
class Explanation:
    """Why a user is, or is not, among the seeds of a round.

    Attributes
    ----------
    user
        The caller's id.
    status
        ``chosen``, ``held_out``, ``opt_out``, ``cooldown``, ``outside_candidates``, ``group_quota``, ``budget``,
        ``not_there_yet`` or ``not_enough``.
    text
        The same in a sentence.
    rank
        Place in the order of choice, from 1.
    gain
        What the user added to the expected reach when chosen.
    score
        Expected direct responses: the sum of the believed probabilities of the user's out-edges, exploration
        included. Known for seeds and for the thousand best.
    threshold
        The same of the last user chosen.
    followers
        The strongest followers of a chosen user: id and believed probability.
    """

    user: int | str
    status: str
    text: str
    rank: int | None = None
    gain: float | None = None
    score: float | None = None
    threshold: float | None = None
    followers: tuple[tuple[int | str, float], ...] = ()


@dataclass(frozen=True)
class RoundExplanation:
    """Every seed explained, and how many users were left out for what reason."""

    seeds: tuple[Explanation, ...]
    left_out: Mapping[str, int]

    def __str__(self) -> str:
        reasons = ", ".join(f"{name} {count}" for name, count in self.left_out.items() if count)
        return "\n".join([*(seed.text for seed in self.seeds), f"Left out beforehand: {reasons or 'nobody'}."])


@dataclass(frozen=True)
class Evidence:
    """What an ask keeps for explanations: keys and numbers, never ids."""

    settings: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]

    def to_blob(self) -> bytes:
        """As bytes for the store."""
        return seal("explanation", self.settings, self.arrays)

    @classmethod
    def from_blob(cls, data: bytes) -> Evidence:
        """The evidence of :meth:`to_blob`'s bytes."""
        return cls(*unseal(data, "explanation", "the round's explanation"))

    def without(self, key: int) -> Evidence:
        """The same without a user."""
        arrays = dict(self.arrays)
        seeds = arrays["seeds"] != key
        for name in ("seeds", "seed_scores", "follower_keys", "follower_probabilities"):
            arrays[name] = arrays[name][seeds]
        ranked = arrays["ranked_keys"] != key
        for name in ("ranked_keys", "ranked_scores", "ranked_codes"):
            arrays[name] = arrays[name][ranked]
        left = arrays["left_keys"] != key
        arrays["left_keys"], arrays["left_codes"] = arrays["left_keys"][left], arrays["left_codes"][left]
        gone = arrays["follower_keys"] == key
        arrays["follower_keys"] = np.where(gone, -1, arrays["follower_keys"])
        arrays["follower_probabilities"] = np.where(gone, 0.0, arrays["follower_probabilities"])
        if "candidate_keys" in arrays:
            arrays["candidate_keys"] = arrays["candidate_keys"][arrays["candidate_keys"] != key]
        return replace(self, arrays=arrays)


def collect_evidence(
    world: World, rules: Constraints, probabilities: NDArray[np.float64], rows: NDArray[np.int64]
) -> Evidence:
    """Record what explanations of this choice need."""
    graph = world.graph
    scores = np.bincount(graph.sources, weights=probabilities, minlength=graph.n_nodes)
    top = np.argsort(-scores, kind="stable")[:_RANKED]
    followers = np.full((rows.size, _FOLLOWERS), -1, dtype=np.int64)
    strengths = np.zeros((rows.size, _FOLLOWERS))
    for i, row in enumerate(rows.tolist()):
        edges = np.arange(graph.out_offsets[row], graph.out_offsets[row + 1])
        best = edges[np.argsort(-probabilities[edges], kind="stable")[:_FOLLOWERS]]
        followers[i, : best.size] = world.keys[graph.targets[best]]
        strengths[i, : best.size] = probabilities[best]
    barred = np.flatnonzero((rules.reasons == OPT_OUT) | (rules.reasons == COOLDOWN))
    arrays: dict[str, NDArray[Any]] = {
        "seeds": world.keys[rows],
        "seed_scores": scores[rows],
        "follower_keys": followers,
        "follower_probabilities": strengths,
        "ranked_keys": world.keys[top],
        "ranked_scores": scores[top],
        "ranked_codes": _blocked(rules, rows, top),
        "left_keys": world.keys[barred],
        "left_codes": rules.reasons[barred],
    }
    if (rules.reasons == CANDIDATES).any():
        arrays["candidate_keys"] = world.keys[rules.reasons != CANDIDATES]
    threshold = float(scores[rows[-1]]) if rows.size else 0.0
    return Evidence({"threshold": threshold, "next_key": world.next_key}, arrays)


def _blocked(rules: Constraints, rows: NDArray[np.int64], top: NDArray[np.int64]) -> NDArray[np.int8]:
    """For the best-ranked users whether a full group or the money left stood against them."""
    codes = np.zeros(top.size, dtype=np.int8)
    full = [label for label, (used, quota) in group_use(rules, rows).items() if used >= quota]
    if full and rules.groups is not None:
        codes[np.isin(rules.groups[top], full)] = _QUOTA
    if rules.budget is not None and rules.costs is not None:
        left = rules.budget - float(rules.costs[rows].sum())
        codes[rules.costs[top] > left] = _BUDGET
    return codes


def explain_user(world: World, record: RoundRecord, evidence: Evidence, key: int) -> Explanation:
    """The explanation of one user."""
    user = world.ids([key])[0]
    threshold = float(evidence.settings["threshold"])
    if key in record.payload["seeds"]:
        return _chosen(world, record, evidence, key, user, threshold)
    if key >= evidence.settings["next_key"]:
        return Explanation(user, "not_there_yet", f"{user!r} joined the campaign after this round was opened.")
    arrays = evidence.arrays
    left = np.flatnonzero(arrays["left_keys"] == key)
    if left.size:
        optout = int(arrays["left_codes"][left[0]]) == OPT_OUT
        if optout:
            return Explanation(user, "opt_out", f"{user!r} was not considered: excluded by the caller.")
        return Explanation(user, "cooldown", f"{user!r} was not considered: contacted within the cooldown.")
    if "candidate_keys" in arrays and not np.any(arrays["candidate_keys"] == key):
        return Explanation(user, "outside_candidates", f"{user!r} was not considered: not among the candidates.")
    return _passed_over(evidence, key, user, threshold)


def _chosen(
    world: World, record: RoundRecord, evidence: Evidence, key: int, user: int | str, threshold: float
) -> Explanation:
    place = record.payload["seeds"].index(key)
    gain = float(record.payload["gains"][place])
    at = int(np.flatnonzero(evidence.arrays["seeds"] == key)[0])
    score = float(evidence.arrays["seed_scores"][at])
    pairs = zip(
        evidence.arrays["follower_keys"][at].tolist(), evidence.arrays["follower_probabilities"][at], strict=True
    )
    named = [(world.ids([follower]), float(p)) for follower, p in pairs if follower >= 0]
    followers = tuple((ids[0], p) for ids, p in named if ids)
    best = ", ".join(f"{follower!r} {p:.2f}" for follower, p in followers)
    held = key in record.payload["holdout"]
    text = (
        f"{user!r} was chosen as number {place + 1}: adds {gain:.2f} to the expected reach, "
        f"{score:.2f} expected direct responses" + (f"; strongest followers {best}" if best else "")
    )
    text += "; held out at random and not contacted, to measure the lift." if held else "."
    return Explanation(user, "held_out" if held else "chosen", text, place + 1, gain, score, threshold, followers)


def _passed_over(evidence: Evidence, key: int, user: int | str, threshold: float) -> Explanation:
    arrays = evidence.arrays
    at = np.flatnonzero(arrays["ranked_keys"] == key)
    if not at.size:
        floor = float(arrays["ranked_scores"][-1]) if arrays["ranked_scores"].size else 0.0
        text = (
            f"{user!r} was not chosen: at most {floor:.2f} expected direct responses (not among the "
            f"{arrays['ranked_scores'].size} best), the last one chosen has {threshold:.2f}."
        )
        return Explanation(user, "not_enough", text, threshold=threshold)
    score, code = float(arrays["ranked_scores"][at[0]]), int(arrays["ranked_codes"][at[0]])
    numbers = f"{score:.2f} expected direct responses, the last one chosen has {threshold:.2f}"
    if code == _QUOTA:
        text, status = f"{user!r} was not chosen: the group's quota is used up ({numbers}).", "group_quota"
    elif code == _BUDGET:
        text, status = f"{user!r} was not chosen: costs more than the budget has left ({numbers}).", "budget"
    elif score > threshold:
        text = f"{user!r} was not chosen: {numbers}, but those chosen before reach much of the same audience."
        status = "not_enough"
    else:
        text, status = f"{user!r} was not chosen: {numbers}.", "not_enough"
    return Explanation(user, status, text, score=score, threshold=threshold)


def explain_round(world: World, record: RoundRecord, evidence: Evidence) -> RoundExplanation:
    """The explanation of all seeds of a round."""
    seeds = tuple(explain_user(world, record, evidence, key) for key in record.payload["seeds"])
    return RoundExplanation(seeds, dict(record.payload["excluded"]))
