"""An ask from question to round: read it, choose, say what to expect and why, and append the round to the log."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import I64
from tensorucb.campaign._catalogue import Catalogue, check_sizes, strategy_names
from tensorucb.campaign._choice import Choice, choose_users
from tensorucb.campaign._constraints import Constraints, constrain
from tensorucb.campaign._explain import Evidence, Explanation, RoundExplanation, collect_evidence
from tensorucb.campaign._forecast import Outcome
from tensorucb.campaign._handle import Handle, View
from tensorucb.campaign._ledger import Ledger
from tensorucb.campaign._model import IN_ASK, Snapshot
from tensorucb.campaign._network import Network
from tensorucb.campaign._reach import Beliefs, Outlook, Reach, added_by_all, expectation, foresee, html_table
from tensorucb.campaign._request import NAMES, Request, check_same, named_defaults, read_request, stored_defaults
from tensorucb.errors import InputError
from tensorucb.store._protocol import CampaignRecord, RoundRecord

if TYPE_CHECKING:
    from tensorucb.campaign._campaign import Campaign


_ATTEMPTS = 8
_log = logging.getLogger("tensorucb.campaign")


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

    Examples
    --------
    >>> import tensorucb as tu
    >>> graph = tu.Graph.from_edges(["ann", "ann"], ["bob", "cid"])
    >>> ask = tu.create_campaign("spring", graph=graph, storage="memory://").ask(k=1)
    >>> ask.number, ask.status, ask.seeds, ask.explain("ann").rank
    (1, 'open', ('ann',), 1)
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
    _gains: Sequence[float] = field(repr=False, compare=False)
    _campaign: Campaign = field(repr=False, compare=False)

    def __repr__(self) -> str:
        parts = [repr(self.id)] if self.product is None else [repr(self.id), repr(self.product)]
        parts += [f"{len(self.contacted):,} users", self.status]
        if self.kind != "ask":
            parts.append(self.kind)
        if self.reach is not None:
            parts.append(f"{expectation(self.reach)} expected to respond")
        return f"Ask({', '.join(parts)})"

    def _repr_html_(self) -> str:
        """The seeds in the order of choice, and what each adds to the expected number of responders."""
        offered = self.strategies is not None
        columns = ("", "User", *(["Strategy"] if offered else []), "Adds")
        gets = [(strategy,) for strategy in self.strategies] if self.strategies is not None else [()] * len(self.seeds)
        rows = [
            (rank, user, *given, f"{gain:.2f}")
            for rank, (user, given, gain) in enumerate(zip(self.seeds, gets, self._gains, strict=True), start=1)
        ]
        return html_table(columns, rows, repr(self))

    def explain(self, user: int | str | None = None) -> Explanation | RoundExplanation:
        """Why this user was or was not chosen; without a user, all seeds and the counts of those left out."""
        return self._campaign.explain(self.id, user)


def round_id(campaign: CampaignRecord, number: int) -> str:
    """The durable id of a round: its number, and a tail that tells campaigns apart, copies too."""
    text = f"{campaign.name}:{campaign.settings['seed']}:{campaign.created!r}:{number}"
    tail = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{number:06d}-{tail}"


def open_round(handle: Handle, given: Mapping[str, Any]) -> tuple[Network, RoundRecord]:
    """Open a round for the arguments of `Campaign.ask`; or find the one that the same request opened before.

    The choice is made outside the write transaction, so that nobody waits for it, and made again if others opened a
    round meanwhile.
    """
    with handle.lock:
        for _ in range(_ATTEMPTS - 1):
            now = handle.clock()
            with handle.read() as view:
                network, due = view.network, view.ledger.due(now)
                request, past, known, snapshots = prepare(handle, view, given, now)
            if known is not None:
                return network, known
            proposal = propose(handle, network, request, past, now)
            handle.keep(snapshots)
            if due:
                # Rounds that are due are learned before the choice; one that is refused must not have closed them.
                with handle.write(now):
                    continue
            with handle.write() as view:
                opened = _append(handle, view, proposal, request) if _still_next(view, network, proposal[0]) else None
            if opened is not None:
                return network, _logged(handle, opened)
        # Others kept opening rounds: choose while they wait.
        with handle.write() as view:
            now = handle.clock()
            request, known = _read_question(handle, view, given, now)
            if known is not None:
                return view.network, known
            if not handle.model.serves(view.network):
                handle.model.sync(view)
            proposal = propose(handle, view.network, request, handle.track.past(view), now)
            network, opened = view.network, _append(handle, view, proposal, request)
        return network, _logged(handle, opened)


def prepare(
    handle: Handle, view: View, given: Mapping[str, Any], now: float
) -> tuple[Request, Sequence[Outcome], RoundRecord | None, list[Snapshot]]:
    """All that a choice needs of the store, the model brought up to date; or the round that the request has opened.

    The last are snapshots of the model that are worth storing, once the choice is not refused.
    """
    request, known = _read_question(handle, view, given, now)
    if known is not None:
        return request, (), known, []
    snapshots = handle.model.sync(view, budget=IN_ASK)
    return request, handle.track.past(view), None, snapshots


def _logged(handle: Handle, record: RoundRecord) -> RoundRecord:
    payload = record.payload
    counts = len(payload["contacted"]), len(payload["holdout"])
    _log.info("campaign %r: round %d opened, %d contacted, %d held out", handle.record.name, record.number, *counts)
    return record


def _read_question(
    handle: Handle, view: View, given: Mapping[str, Any], now: float
) -> tuple[Request, RoundRecord | None]:
    """The checked request, and the round that it has opened already, if any."""
    request = read_request(given, handle.record.settings, view.network, view.catalogues(), now)
    known = None
    if request.request_id is not None:
        known = view.ledger.opened_by(request.request_id)
    if known is not None:
        check_same(known, request)
    else:
        check_sizes(view.ledger, view.catalogues(), request.sizes)
    return request, known


def read_defaults(
    ask: Mapping[str, Any],
    settings: Mapping[str, Any],
    network: Network,
    catalogues: tuple[Catalogue, Catalogue],
    now: float,
) -> dict[str, Any]:
    """Defaults of `Campaign.ask` as the store keeps them, checked by reading a question that uses them all."""
    named, others = named_defaults(ask), ("costs", "groups", "shadow", "users", "request_id")
    question = {**dict.fromkeys((*NAMES, *others)), "product": [1.0], **named}
    try:
        request = read_request(question, settings, network, catalogues, now)
        constrain(network, Ledger(0), request, now)
    except InputError as error:
        raise type(error)("ask: ", *error.parts()) from error
    return stored_defaults(named, request, network)


def _still_next(view: View, network: Network, proposed: RoundRecord) -> bool:
    """Whether the choice may be opened as a round: same network, nobody asked meanwhile.

    What was told or closed meanwhile is no reason to choose again: the round says how far behind its choice was.
    """
    if proposed.request_id is not None and view.ledger.opened_by(proposed.request_id):
        return False
    return view.ledger.revision == network.revision and view.ledger.next_number() == proposed.number


def _append(handle: Handle, view: View, proposal: tuple[RoundRecord, Evidence], request: Request) -> RoundRecord:
    """Write a proposed round, and log it."""
    check_sizes(view.ledger, view.catalogues(), request.sizes)
    proposed, evidence = proposal
    payload = {**proposed.payload, "behind": handle.model.behind(view)}
    if request.request_id is not None:
        payload["request"] = request.fingerprint
    counts = {"id": proposed.id, "contacted": len(payload["contacted"])}
    seq = view.append("asked", proposed.number, counts, proposed.opened)
    record = replace(proposed, revision=seq, payload=payload)
    view.session.put_round(view.number, record)
    view.session.put_blob(view.number, f"explain-{record.number:08d}", evidence.to_blob())
    return record


def propose(
    handle: Handle, network: Network, request: Request, past: Sequence[Outcome], now: float
) -> tuple[RoundRecord, Evidence]:
    """Choose seeds under the request's constraints; the round to open, and why these were chosen."""
    number = handle.ledger.next_number()
    rng = np.random.default_rng([handle.record.settings["seed"], number])
    rules = constrain(network, handle.ledger, request, now)
    choice = choose_users(handle.model.policy, network, rules, request, rng, handle.engine)
    rows = choice.rows
    held = _hold_out(rules, rows, request.holdout, rng)

    def outlook(contacted: I64, given: I64) -> Outlook:
        beliefs = Beliefs(network.graph, choice.predictions, given)
        return foresee(beliefs, contacted, request.objective, past, rng, handle.engine)

    # ``given``: for each user of the network the place of the strategy that they get or would get.
    contacted, given = rows[~np.isin(rows, held)], choice.places
    shown = told = outlook(contacted, given)
    if request.shadow is not None:
        contacted, given = request.shadow, given.copy()
        if np.unique(contacted).size < contacted.size:
            raise InputError("names a user twice; name each once.", argument="shadow")
        if request.shadow_strategies is not None:
            given[contacted] = request.shadow_strategies
        told = outlook(contacted, given)
    payload = _payload(network, request, rules, choice, held, contacted, given)
    payload["gains"] = _gains(rows, held, shown).tolist()
    payload["reach"] = asdict(shown.reach)
    # The policy's own, for those contacted: what later rounds learn the width from.
    payload["forecast"] = None if told.forecast is None else asdict(told.forecast)
    end = None if request.window is None else now + request.window
    deadline = end if request.deadline is None else request.deadline
    identifier = round_id(handle.record, number)
    record = RoundRecord(number, identifier, "open", now, deadline, None, 0, request.request_id, payload)
    return record, collect_evidence(network, rules, choice, shown)


def _payload(
    network: Network, request: Request, rules: Constraints, choice: Choice, held: I64, contacted: I64, given: I64
) -> dict[str, Any]:
    """What the log keeps of a round: all that replay, reports and forgetting need, by users' keys."""
    payload: dict[str, Any] = {
        "kind": "ask" if request.shadow is None else "shadow",
        "product": request.context.to_payload(),
        "k": request.k,
        "seeds": network.keys[choice.rows].tolist(),
        "contacted": network.keys[contacted].tolist(),
        "holdout": network.keys[held].tolist(),
        "must_include": network.keys[rules.must_include].tolist(),
        "cost": rules.spent(contacted, given[contacted]),
        "window": request.window,
        "credit": request.credit,
        "objective": request.objective,
        "learn": "all",
        "excluded": rules.counts(),
    }
    if request.users is not None:
        payload["listed"] = True
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


def _gains(rows: I64, held: I64, outlook: Outlook) -> NDArray[np.float64]:
    """What each chosen user adds to the expected number; of those held out, the direct responses they would add."""
    if not held.size:
        return outlook.gains
    out = np.isin(rows, held)
    gains = np.empty(rows.size)
    gains[~out] = outlook.gains
    gains[out] = added_by_all(outlook.beliefs, rows[~out])[rows[out]]
    return gains


def _hold_out(rules: Constraints, rows: I64, share: float, rng: np.random.Generator) -> I64:
    """That share of the chosen users, at random; those in must_include are always contacted."""
    free = rows[~np.isin(rows, rules.must_include)]
    count = min(round(share * rows.size), free.size, rows.size - 1)
    if share > 0.0 and count < 1:
        raise InputError(
            f"= {share:g} of {rows.size} chosen users is nobody to hold out. Choose more users, raise the "
            "share, or set it to 0.",
            argument="holdout",
        )
    chosen = rng.choice(free.size, size=max(count, 0), replace=False)
    return free[np.sort(chosen)]


def as_ask(campaign: Campaign, network: Network, record: RoundRecord) -> Ask:
    """What the caller sees of a round."""
    payload = record.payload
    held = set(payload["holdout"])
    reach, given = payload["reach"], strategy_names(payload, "seeds")
    return Ask(
        record.id,
        record.number,
        record.status,
        payload["kind"],
        tuple(network.ids([key for key in payload["seeds"] if key not in held])),
        None if given is None else tuple(given[key] for key in payload["seeds"] if key not in held),
        tuple(network.ids(payload["holdout"])),
        tuple(network.ids(payload["contacted"])),
        None if reach is None else Reach(**reach),
        payload["cost"],
        payload["product"]["id"],
        record.opened,
        record.deadline,
        record.closed,
        payload["behind"],
        [gain for key, gain in zip(payload["seeds"], payload["gains"], strict=True) if key not in held],
        campaign,
    )
