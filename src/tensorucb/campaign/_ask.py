"""An ask: its arguments, the choice made for it, and what the caller gets back."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.campaign._catalogue import Catalogue, Context
from tensorucb.campaign._choice import Constraints, constrain
from tensorucb.campaign._explain import Evidence, Explanation, RoundExplanation, collect_evidence
from tensorucb.campaign._ledger import Ledger
from tensorucb.campaign._reach import Outlook, Reach, foresee, untouched
from tensorucb.campaign._strategies import best_strategies, choose_users, contexts, of_sources, strategy_names
from tensorucb.campaign._track import Past, product_label
from tensorucb.campaign._world import World
from tensorucb.checks import shown
from tensorucb.errors import InputError
from tensorucb.moments import check_moment, check_seconds
from tensorucb.policies import Policy
from tensorucb.policies.beliefs import expected_probabilities
from tensorucb.store._protocol import CampaignRecord, RoundRecord

if TYPE_CHECKING:
    from tensorucb.campaign._campaign import Campaign

__all__ = ["Ask", "Proposal", "Request", "as_ask", "moment", "propose", "round_id", "span"]


@dataclass(frozen=True)
class Ask:
    """A round: who to contact, what to expect, and where it stands.

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
    strategies
        For each of ``seeds`` the id of the strategy they get; None in a round without strategies of the catalogue.
    held_out
        Chosen users who must not be contacted, for measuring the lift.
    contacted
        Who counts as contacted: ``seeds``, or in a shadow round those whom others chose.
    reach
        How many users will respond, with an interval; see `Reach` for what is counted.
    cost
        What contacting ``contacted`` costs; None if nothing has a cost.
    product
        The product's id, if it was given by id.
    opened, deadline, closed
        Unix seconds.
    behind
        Of how many closed rounds the choice had not learned the newest responses. 0 unless late responses have
        changed a long past, or others closed rounds while the choice was made.
    """

    id: str
    number: int
    status: str
    kind: str
    seeds: tuple[int | str, ...]
    strategies: tuple[int | str, ...] | None
    held_out: tuple[int | str, ...]
    contacted: tuple[int | str, ...]
    reach: Reach | None
    cost: float | None
    product: int | str | None
    opened: float
    deadline: float | None
    closed: float | None
    behind: int
    _campaign: Campaign = field(repr=False, compare=False)

    def explain(self, user: int | str | None = None) -> Explanation | RoundExplanation:
        """Why this user was or was not chosen; without a user, all seeds and the counts of those left out."""
        return self._campaign.explain(self.id, user)


@dataclass(frozen=True)
class Request:
    """The arguments of an ask, as the caller gave them; catalogues are looked up.

    ``shadow_strategies`` are the places of the strategies, among those offered, that others gave to ``shadow``.
    """

    context: Context
    strategies: Catalogue | None
    per_user: bool
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
    shadow_strategies: tuple[int, ...] | None
    window: float | None
    deadline: float | None
    credit: str
    objective: str
    epsilon: float
    request_id: str | None

    @property
    def sizes(self) -> list[int]:
        """Lengths of the feature vectors of the context: of the product, the strategy if there is one, and the rest."""
        first, *rest = [int(vector.size) for vector in self.context.vectors]
        offered = None if self.strategies is None else self.strategies.features
        return [first, *rest] if offered is None else [first, int(offered.shape[1]), *rest]


@dataclass(frozen=True)
class Proposal:
    """A round ready to be opened, if nothing has changed meanwhile."""

    number: int
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
    policy: Policy, world: World, ledger: Ledger, request: Request, past: Past, *, seed: int, now: float
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
        surcharges=np.array([request.context.cost]) if request.strategies is None else request.strategies.costs,
        budget=request.budget,
        groups=request.groups,
        quotas=request.quotas,
    )
    products = contexts(request.context.vectors, None if request.strategies is None else request.strategies.features)
    choice = choose_users(policy, world, rules, request, products, rng)
    rows = choice.rows
    held = _hold_out(world, rules, rows, request.holdout, rng)
    about = request.context.to_payload()
    means = np.stack([expected_probabilities(policy, product) for product in products])
    tried, label = world.rows(past.contacted), product_label(about["vectors"])
    graph = world.graph
    # What each user gets, or would: in a round with one strategy that one, otherwise their own best.
    places = np.full(graph.n_nodes, choice.strategies[0] if rows.size else 0, dtype=np.int64)
    if request.per_user:
        places = best_strategies(graph, means, rules.surcharges)
        places[rows] = choice.strategies

    def outlook(contacted: NDArray[np.int64], given: NDArray[np.int64]) -> Outlook:
        return foresee(graph, of_sources(graph, means, given), contacted, request.objective, past, tried, label, rng)

    contacted = rows[~np.isin(rows, held)]
    shown = told = outlook(contacted, places)
    given = places
    if request.shadow is not None:
        contacted = graph.rows(request.shadow)
        if np.unique(contacted).size < contacted.size:
            raise InputError("shadow names a user twice; name each once.")
        if request.shadow_strategies is not None:
            given = places.copy()
            given[contacted] = request.shadow_strategies
        told = outlook(contacted, given)
    reach, forecast = shown.reach, told.forecast
    evidence = collect_evidence(world, rules, choice, shown, places, means)
    payload = {
        "kind": "ask" if request.shadow is None else "shadow",
        "product": about,
        "k": request.k,
        "seeds": world.keys[rows].tolist(),
        "gains": _gains(world, rows, held, shown).tolist(),
        "contacted": world.keys[contacted].tolist(),
        "holdout": world.keys[held].tolist(),
        "must_include": world.keys[rules.must_include].tolist(),
        "reach": asdict(reach),
        # The policy's own, for those contacted: what later rounds learn the correction from.
        "forecast": None if forecast is None else asdict(forecast),
        "cost": rules.spent(contacted, given[contacted]),
        "window": request.window,
        "credit": request.credit,
        "objective": request.objective,
        "learn": "all",
        "excluded": rules.counts(),
    }
    if request.strategies is not None and request.strategies.features is not None:
        # All that replay needs, so that it does not depend on the catalogue.
        payload["strategies"] = {
            "ids": list(request.strategies.ids),
            "vectors": request.strategies.features.tolist(),
            "costs": request.strategies.costs.tolist(),
            "per_user": request.per_user,
            "seeds": choice.strategies.tolist(),
            "contacted": given[contacted].tolist(),
        }
    return Proposal(number, now, payload, evidence)


def _gains(world: World, rows: NDArray[np.int64], held: NDArray[np.int64], outlook: Outlook) -> NDArray[np.float64]:
    """What each chosen user adds to the expected number; of those held out, the direct responses they would add."""
    if not held.size:
        return outlook.gains
    graph, p = world.graph, outlook.probabilities
    free = untouched(graph, p, rows[~np.isin(rows, held)])
    gains = np.empty(rows.size)
    gains[~np.isin(rows, held)] = outlook.gains
    for i in np.flatnonzero(np.isin(rows, held)).tolist():
        edges = graph.out_edges(rows[i : i + 1])
        gains[i] = float((p[edges] * free[graph.targets[edges]]).sum())
    return gains


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
    reach, given = payload["reach"], strategy_names(payload, "seeds")
    return Ask(
        record.id,
        record.number,
        record.status,
        payload["kind"],
        tuple(world.ids([key for key in payload["seeds"] if key not in held])),
        None if given is None else tuple(given[key] for key in payload["seeds"] if key not in held),
        tuple(world.ids(payload["holdout"])),
        tuple(world.ids(payload["contacted"])),
        None if reach is None else Reach(**reach),
        payload.get("cost"),
        payload["product"]["id"],
        record.opened,
        record.deadline,
        record.closed,
        payload.get("behind", 0),
        campaign,
    )
