"""An ask: its arguments, the choice made for it, and what the caller gets back."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.campaign._choice import Constraints, RoundOracle, check_choice, constrain
from tensorucb.campaign._explain import Evidence, Explanation, RoundExplanation, collect_evidence
from tensorucb.campaign._ledger import Ledger
from tensorucb.campaign._reach import Reach, direct_gains, expected_reach
from tensorucb.campaign._store import CampaignRecord, RoundRecord
from tensorucb.campaign._world import World
from tensorucb.checks import shown
from tensorucb.errors import InputError
from tensorucb.moments import check_moment, check_seconds
from tensorucb.policies import Policy
from tensorucb.policies.beliefs import expected_probabilities

if TYPE_CHECKING:
    from tensorucb.campaign._campaign import Campaign

__all__ = ["Ask", "Proposal", "Request", "as_ask", "moment", "propose", "round_id", "span"]


@dataclass(frozen=True)
class Ask:
    """A round: whom to contact, what to expect, and where it stands.

    Attributes
    ----------
    id
        The round's durable id, for ``tell`` and ``close``.
    number
        Its place among the campaign's rounds, from 1.
    status
        ``open``, ``closed`` or ``cancelled``, at the moment this object was made.
    kind
        ``ask``; ``shadow``: others chose, ``seeds`` is what we would have; ``history``: imported.
    seeds
        Ids of the users to contact, in the order of choice; those held out are not among them.
    held_out
        Chosen users who must not be contacted, for measuring the lift.
    contacted
        Who counts as contacted: ``seeds``, or in a shadow round those whom others chose.
    reach
        Expected number of active users, with an interval.
    product
        The product's id, if it was given by id.
    opened, deadline, closed
        Unix seconds.
    """

    id: str
    number: int
    status: str
    kind: str
    seeds: tuple[int | str, ...]
    held_out: tuple[int | str, ...]
    contacted: tuple[int | str, ...]
    reach: Reach | None
    product: int | str | None
    opened: float
    deadline: float | None
    closed: float | None
    _campaign: Campaign = field(repr=False, compare=False)

    def explain(self, user: int | str | None = None) -> Explanation | RoundExplanation:
        """Why this user was or was not chosen; without a user, all seeds and the counts of those left out."""
        return self._campaign.explain(self.id, user)


@dataclass(frozen=True)
class Request:
    """The arguments of an ask, as the caller gave them."""

    product: Any
    vectors: tuple[NDArray[np.float64], ...]
    k: int | None
    exclude: ArrayLike | None
    candidates: ArrayLike | None
    must_include: ArrayLike | None
    cooldown: float | None
    costs: ArrayLike | None
    budget: float | None
    groups: ArrayLike | None
    quotas: Mapping[Any, int] | int | None
    holdout: float
    shadow: ArrayLike | None
    window: float | None
    deadline: float | None
    credit: str
    objective: str
    epsilon: float
    request_id: str | None

    @property
    def sizes(self) -> list[int]:
        """Lengths of the product's feature vectors."""
        return [int(vector.size) for vector in self.vectors]


@dataclass(frozen=True)
class Proposal:
    """A round ready to be opened, if nothing has changed meanwhile."""

    number: int
    basis: str
    opened: float
    payload: Mapping[str, Any]
    evidence: Evidence


def span(name: str, value: float | timedelta | None) -> float | None:
    """Seconds of a number or a timedelta."""
    return None if value is None else check_seconds(name, value)


def moment(name: str, value: Any, now: float) -> float | None:
    """Unix seconds of a number, a datetime (UTC if it has no zone) or a timedelta from now; it must be to come."""
    if value is None:
        return None
    at = now + check_seconds(name, value) if isinstance(value, timedelta) else check_moment(name, value)
    if at <= now:
        raise InputError(f"{name} must be in the future; got {shown(value)}. To end a round now, close or cancel it.")
    return at


def round_id(campaign: CampaignRecord, number: int) -> str:
    """The durable id of a round: its number, and a tail that tells campaigns apart, copies too."""
    text = f"{campaign.name}:{campaign.settings['seed']}:{campaign.created!r}:{number}"
    tail = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{number:06d}-{tail}"


def rested_rows(world: World, ledger: Ledger, cooldown: float | None, now: float) -> NDArray[np.int64]:
    """Rows of users contacted less than ``cooldown`` seconds ago, in rounds that were not cancelled."""
    if cooldown is None:
        return np.empty(0, dtype=np.int64)
    keys = [
        key
        for record in ledger.rounds.values()
        if record.status != "cancelled" and record.payload["kind"] != "history" and record.opened > now - cooldown
        for key in record.payload["contacted"]
    ]
    return world.rows(np.unique(np.array(keys, dtype=np.int64)))


def propose(
    policy: Policy, world: World, ledger: Ledger, request: Request, *, seed: int, basis: str, now: float
) -> Proposal:
    """Choose seeds under the request's constraints, and write down why."""
    number = ledger.next_number()
    rng = np.random.default_rng([seed, number])
    rules = constrain(
        world,
        exclude=request.exclude,
        candidates=request.candidates,
        must_include=request.must_include,
        rested=rested_rows(world, ledger, request.cooldown, now),
        costs=request.costs,
        budget=request.budget,
        groups=request.groups,
        quotas=request.quotas,
    )
    product = request.vectors[0] if len(request.vectors) == 1 else list(request.vectors)
    rows, gains = _choose(policy, world, rules, request, product, rng)
    held = _hold_out(world, rules, rows, request.holdout, rng)
    contacted = rows[~np.isin(rows, held)] if request.shadow is None else world.graph.rows(request.shadow)
    if np.unique(contacted).size < contacted.size:
        raise InputError("shadow names a user twice; name each once.")
    mean = expected_probabilities(policy, product)
    ours = rows if request.shadow is not None else contacted
    reach = expected_reach(world.graph, mean, ours, request.objective, rng)
    evidence = collect_evidence(world, rules, np.asarray(policy.score(product)), rows)
    payload = {
        "kind": "ask" if request.shadow is None else "shadow",
        "product": {"id": request.product, "vectors": [vector.tolist() for vector in request.vectors]},
        "k": request.k,
        "seeds": world.keys[rows].tolist(),
        "gains": gains.tolist(),
        "contacted": world.keys[contacted].tolist(),
        "holdout": world.keys[held].tolist(),
        "reach": {"mean": reach.mean, "low": reach.low, "high": reach.high, "level": reach.level},
        "window": request.window,
        "credit": request.credit,
        "objective": request.objective,
        "learn": "all",
        "threshold": evidence.settings["threshold"],
        "excluded": rules.counts(),
    }
    return Proposal(number, basis, now, payload, evidence)


def _choose(
    policy: Policy, world: World, rules: Constraints, request: Request, product: Any, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    available = rules.allowed.size
    if request.k is None and rules.budget is None:
        raise InputError("k may be left out only with a budget; got neither.")
    k = available if request.k is None else request.k
    if rules.budget is None and k > available:
        raise InputError(f"k = {k} users are wanted but only {available} may be chosen ({rules.counts()}). Lower k.")
    k = min(k, available)
    if k == 0:
        raise InputError(f"nobody may be chosen ({rules.counts()}). Loosen the constraints.")
    oracle = RoundOracle(world, rules, request.objective, request.epsilon, rng)
    rows = np.asarray(policy.choose(product, k, oracle), dtype=np.int64)
    check_choice(policy.name, world, rules, rows, k)
    if oracle.selection is not None and np.array_equal(oracle.selection.rows, rows):
        return rows, oracle.selection.gains
    return rows, direct_gains(world.graph, np.asarray(policy.score(product)), rows)


def _hold_out(
    world: World, rules: Constraints, rows: NDArray[np.int64], share: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """That share of the chosen users, at random; whom the caller demanded is always contacted."""
    free = rows[~np.isin(rows, rules.must_include)]
    count = min(round(share * rows.size), free.size, rows.size - 1)
    if share > 0.0 and count < 1:
        raise InputError(f"holdout = {share:g} of {rows.size} chosen users leaves nobody to hold out. Raise either.")
    chosen = rng.choice(free.size, size=max(count, 0), replace=False)
    return free[np.sort(chosen)]


def as_ask(campaign: Campaign, world: World, record: RoundRecord) -> Ask:
    """What the caller sees of a round."""
    payload = record.payload
    held = set(payload["holdout"])
    reach = payload["reach"]
    return Ask(
        record.id,
        record.number,
        record.status,
        payload["kind"],
        tuple(world.ids([key for key in payload["seeds"] if key not in held])),
        tuple(world.ids(payload["holdout"])),
        tuple(world.ids(payload["contacted"])),
        None if reach is None else Reach(**reach),
        payload["product"]["id"],
        record.opened,
        record.deadline,
        record.closed,
        campaign,
    )
