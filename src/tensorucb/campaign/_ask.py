"""An ask from question to round: read it, choose, say what to expect and why, and append the round to the log."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import I64
from tensorucb.campaign._catalogue import check_sizes, strategy_names
from tensorucb.campaign._choice import Choice, choose_users, of_sources
from tensorucb.campaign._constraints import Constraints, constrain
from tensorucb.campaign._explain import Evidence, Explanation, RoundExplanation, collect_evidence
from tensorucb.campaign._handle import Handle, View
from tensorucb.campaign._model import IN_ASK
from tensorucb.campaign._reach import Outlook, Past, Reach, foresee, product_label, untouched
from tensorucb.campaign._request import Request, check_same, read_request
from tensorucb.campaign._world import World
from tensorucb.errors import InputError
from tensorucb.store._protocol import CampaignRecord, RoundRecord

if TYPE_CHECKING:
    from tensorucb.campaign._campaign import Campaign


_ATTEMPTS = 8


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
        Who counts as contacted: ``seeds``, or in a shadow round the users chosen by others.
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
class Proposal:
    """A round ready to be opened, if nothing has changed meanwhile."""

    number: int
    opened: float
    payload: Mapping[str, Any]
    evidence: Evidence


def round_id(campaign: CampaignRecord, number: int) -> str:
    """The durable id of a round: its number, and a tail that tells campaigns apart, copies too."""
    text = f"{campaign.name}:{campaign.settings['seed']}:{campaign.created!r}:{number}"
    tail = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{number:06d}-{tail}"


def open_round(handle: Handle, given: Mapping[str, Any]) -> tuple[World, RoundRecord]:
    """Open a round for the arguments of `Campaign.ask`; or find the one that the same request opened before.

    The choice is made outside the write transaction, so that nobody waits for it, and made again if others opened a
    round meanwhile.
    """
    with handle.lock:
        for _ in range(_ATTEMPTS - 1):
            now = handle.clock()
            with handle.read(now) as view:
                request, known = _read(handle, view, given, now)
                if known is not None:
                    return view.world, known
                due = handle.model.sync(view, budget=IN_ASK)
                past, world = handle.track.past(view), view.world
            handle.keep(due)
            proposal = propose(handle, world, request, past, now)
            with handle.write() as view:
                if _still_next(view, world, proposal, request):
                    return world, _append(handle, view, proposal, request)
        # Others kept opening rounds: choose while they wait.
        with handle.write() as view:
            now = handle.clock()
            request, known = _read(handle, view, given, now)
            if known is not None:
                return view.world, known
            if not handle.model.serves(view.world):
                handle.model.sync(view)
            proposal = propose(handle, view.world, request, handle.track.past(view), now)
            return view.world, _append(handle, view, proposal, request)


def _read(handle: Handle, view: View, given: Mapping[str, Any], now: float) -> tuple[Request, RoundRecord | None]:
    """The checked request, and the round that it has opened already, if any."""
    request = read_request(given, handle.record.settings, view.world, view.catalogues(), now)
    known = None
    if request.request_id is not None:
        known = view.session.round_by_request(view.number, request.request_id)
    if known is not None:
        check_same(known, request)
    else:
        check_sizes(view.ledger, view.catalogues(), request.sizes)
    return request, known


def _still_next(view: View, world: World, proposal: Proposal, request: Request) -> bool:
    """Whether the choice may be opened as a round: same network, nobody asked meanwhile.

    What was told or closed meanwhile is no reason to choose again: the round says how far behind its choice was.
    """
    if request.request_id is not None and view.session.round_by_request(view.number, request.request_id):
        return False
    return view.ledger.revision == world.revision and view.ledger.next_number() == proposal.number


def _append(handle: Handle, view: View, proposal: Proposal, request: Request) -> RoundRecord:
    check_sizes(view.ledger, view.catalogues(), request.sizes)
    number, opened, deadline = proposal.number, proposal.opened, request.deadline
    if deadline is None and request.window is not None:
        deadline = opened + request.window
    payload = {**proposal.payload, "behind": handle.model.behind(view)}
    if request.request_id is not None:
        payload["request"] = request.fingerprint
    identifier = round_id(handle.record, number)
    counts = {"id": identifier, "contacted": len(proposal.payload["contacted"])}
    seq = view.append("asked", number, counts, opened)
    record = RoundRecord(number, identifier, "open", opened, deadline, None, seq, request.request_id, payload)
    view.session.put_round(view.number, record)
    view.session.put_blob(view.number, f"explain-{number:08d}", proposal.evidence.to_blob())
    return record


def propose(handle: Handle, world: World, request: Request, past: Past, now: float) -> Proposal:
    """Choose seeds under the request's constraints, and write down what to expect and why."""
    number = handle.ledger.next_number()
    rng = np.random.default_rng([handle.record.settings["seed"], number])
    rules = constrain(world, handle.ledger, request, now)
    choice = choose_users(handle.model.policy, world, rules, request, rng)
    rows = choice.rows
    held = _hold_out(rules, rows, request.holdout, rng)
    tried, label = world.rows(past.contacted), product_label(request.context.to_payload()["vectors"])

    def outlook(contacted: I64, given: I64) -> Outlook:
        p = of_sources(world.graph, choice.means, given)
        return foresee(world.graph, p, contacted, request.objective, past, tried, label, rng)

    contacted, given = rows[~np.isin(rows, held)], choice.places
    shown = told = outlook(contacted, given)
    if request.shadow is not None:
        contacted, given = _of_others(request.shadow, request.shadow_strategies, given)
        told = outlook(contacted, given)
    payload = _payload(world, request, rules, choice, held, contacted, given)
    payload["gains"] = _gains(world, rows, held, shown).tolist()
    payload["reach"] = asdict(shown.reach)
    # The policy's own, for those contacted: what later rounds learn the correction from.
    payload["forecast"] = None if told.forecast is None else asdict(told.forecast)
    return Proposal(number, now, payload, collect_evidence(world, rules, choice, shown))


def _of_others(shadow: I64, strategies: tuple[int, ...] | None, places: I64) -> tuple[I64, I64]:
    """Who was contacted by others, and for each user of the network the strategy they got or would get."""
    if np.unique(shadow).size < shadow.size:
        raise InputError("shadow names a user twice; name each once.")
    if strategies is not None:
        places = places.copy()
        places[shadow] = strategies
    return shadow, places


def _payload(
    world: World, request: Request, rules: Constraints, choice: Choice, held: I64, contacted: I64, given: I64
) -> dict[str, Any]:
    """What the log keeps of a round: all that replay, reports and forgetting need, by users' keys."""
    payload: dict[str, Any] = {
        "kind": "ask" if request.shadow is None else "shadow",
        "product": request.context.to_payload(),
        "k": request.k,
        "seeds": world.keys[choice.rows].tolist(),
        "contacted": world.keys[contacted].tolist(),
        "holdout": world.keys[held].tolist(),
        "must_include": world.keys[rules.must_include].tolist(),
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
    return payload


def _gains(world: World, rows: I64, held: I64, outlook: Outlook) -> NDArray[np.float64]:
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


def _hold_out(rules: Constraints, rows: I64, share: float, rng: np.random.Generator) -> I64:
    """That share of the chosen users, at random; those in must_include are always contacted."""
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
