"""An ask from question to round: read it, choose, say what to expect and why, and append the round to the log."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np

from tensorucb.arrays import F64, I64
from tensorucb.campaign._catalogue import check_sizes
from tensorucb.campaign._choice import Chooser
from tensorucb.campaign._constraints import Constraints, barred_now, constrain
from tensorucb.campaign._explain import Evidence, Explainer, collect_evidence
from tensorucb.campaign._handle import Handle, View
from tensorucb.campaign._model import wanted
from tensorucb.campaign._network import Network
from tensorucb.campaign._people import Weariness, fatigue_of, weariness
from tensorucb.campaign._question import Reader, check_same
from tensorucb.campaign._reach import Beliefs, Outcome, added_by_all, foresee, past_outcomes
from tensorucb.campaign._round import Preview, Round, RoundStrategies, round_id
from tensorucb.campaign._value import Worth, worth_of
from tensorucb.errors import InputError, StateError
from tensorucb.question import Question

_ATTEMPTS = 8
_log = logging.getLogger("tensorucb.campaign")


def open_round(handle: Handle, arguments: Mapping[str, Any]) -> tuple[Network, Round]:
    """Open a round for the arguments of `Campaign.ask`; or find the one that the same request opened before.

    The choice is made outside the write transaction, so that nobody waits for it, and made again if others opened a
    round meanwhile.
    """
    with handle.lock:
        for _ in range(_ATTEMPTS - 1):
            now = handle.clock()
            with handle.read() as view:
                network = view.network
                due = view.ledger.due(now)
                request, earlier_round = _read_question(handle, view, arguments, now)
                if earlier_round is not None:
                    return network, earlier_round
                prepared = prepare(handle, view, request, now)
                learned = handle.progress(view)
            proposal = propose(handle, view, request, prepared, now)
            handle.keep(learned)
            if due:
                # Rounds that are due are learned before the choice; one that is refused must not have closed them.
                with handle.write(now):
                    continue
            _check_accepted(network, proposal[0], request)
            with handle.write() as view:
                opened = None
                if _still_next(view, network, proposal[0]) and _may_be_chosen(handle, view, request, proposal[0]):
                    opened = _append(handle, view, proposal, request)
            if opened is not None:
                return network, _noted(handle, network, opened, proposal[1])
        # Others kept opening rounds: choose while they wait.
        with handle.write() as view:
            now = handle.clock()
            request, earlier_round = _read_question(handle, view, arguments, now)
            if earlier_round is not None:
                return view.network, earlier_round
            proposal = propose(handle, view, request, prepare(handle, view, request, now), now)
            _check_accepted(view.network, proposal[0], request)
            network, opened = view.network, _append(handle, view, proposal, request)
        return network, _noted(handle, network, opened, proposal[1])


class Prepared(NamedTuple):
    """What a choice needs beside the model: constraints, how forecasts did, what responses are worth, who tires."""

    rules: Constraints
    past: Sequence[Outcome]
    worth: Worth | None
    weary: Weariness | None


def prepare(handle: Handle, view: View, request: Question, now: float) -> Prepared:
    """Read what a choice needs; the model is brought up to date."""
    rules = constrain(view.network, barred_now(handle, view, request, now), request, now)
    handle.model.follow(view, wanted(view, "ask"))
    worth = worth_of(view, request.product.product)
    return Prepared(rules, past_outcomes(view), worth, weariness(view, now))


def _noted(handle: Handle, network: Network, record: Round, evidence: Evidence) -> Round:
    """The round that was opened; who asks why is answered from memory, as long as it is the last one."""
    handle.memory.keep("evidence", (record.id, network.revision), evidence)
    counts = record.contacted.size, record.held_out.size
    _log.info("campaign %r: round %d opened, %d contacted, %d held out", handle.record.name, record.number, *counts)
    return record


def _read_question(
    handle: Handle, view: View, arguments: Mapping[str, Any], now: float
) -> tuple[Question, Round | None]:
    """The checked request, and the round that it has opened already, if any."""
    request = Reader(handle.record.settings, view.network, view.catalogues(), now).read(arguments)
    earlier_round = None
    if request.request_id is not None:
        earlier_round = view.ledger.opened_by(request.request_id)
    if earlier_round is not None:
        check_same(earlier_round, request)
    else:
        check_sizes(view.ledger, view.catalogues(), request.sizes)
    return request, earlier_round


def _still_next(view: View, network: Network, proposed: Round) -> bool:
    """Whether the choice may be opened as a round: same network, nobody asked meanwhile.

    What was told or closed meanwhile is no reason to choose again: the next round learns it.
    """
    if proposed.request_id is not None and view.ledger.opened_by(proposed.request_id):
        return False
    return view.ledger.revision == network.revision and view.ledger.next_number() == proposed.number


def _may_be_chosen(handle: Handle, view: View, request: Question, proposed: Round) -> bool:
    """Whether everybody chosen may still be contacted; people may have opted out, or other campaigns asked for them."""
    barred = barred_now(handle, view, request, proposed.opened)
    return not barred.reasons[proposed.chosen].any()


def _check_accepted(network: Network, proposed: Round, request: Question) -> None:
    """Refuse to open another round than the one that somebody saw and accepted."""
    if request.proposal is not None and request.proposal != _proposal_id(network, proposed, request):
        raise StateError(
            "other users would be chosen or held out by now than in the proposal, or with other rules: "
            "rounds were opened or closed meanwhile, people have opted out, or the question is another one.",
            advice="Preview again.",
        )


def _proposal_id(network: Network, proposed: Round, request: Question) -> str:
    """A digest of all that somebody accepts; the same choice at another time has the same."""
    strategies = proposed.strategy_of("contacted")
    contacted = proposed.contacted.tolist()
    parts = [
        [vector.tolist() for vector in proposed.context.vectors],
        network.ids(proposed.contacted),
        network.ids(proposed.held_out),
        None if strategies is None else [strategies[row] for row in contacted],
        [proposed.cost, proposed.window, proposed.credit, proposed.objective],
        [request.holdout, request.cooldown, request.audience_rest, request.budget],
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _append(handle: Handle, view: View, proposal: tuple[Round, Evidence], request: Question) -> Round:
    """Write a proposed round, and log it."""
    check_sizes(view.ledger, view.catalogues(), request.sizes)
    proposed, evidence = proposal
    counts = {"id": proposed.id, "contacted": proposed.contacted.size}
    seq = view.append("asked", proposed.number, counts, proposed.opened)
    record = replace(proposed, revision=seq)
    view.put_round(record)
    view.session.put_explanation(view.number, record.number, evidence.to_blob())
    return record


def preview(handle: Handle, arguments: Mapping[str, Any]) -> Preview:
    """What `Campaign.ask` with these arguments would choose now.

    It only reads the store: an ask would close due rounds first, so they count as closed here.
    """
    if arguments["shadow"] is not None:
        raise InputError(
            "has users who were contacted by others, and a preview is of users to contact.",
            argument="shadow",
            advice="Leave it out.",
        )
    with handle.lock:
        now = handle.clock()
        with handle.read() as view:
            view.ledger = view.ledger.with_due_closed(now)
            network, columns = view.network, view.user_columns
            request, _ = _read_question(handle, view, {**arguments, "request_id": None}, now)
            terms = Reader(handle.record.settings, network, view.catalogues(), now).terms(request)
            prepared = prepare(handle, view, request, now)
        record, evidence = propose(handle, view, request, prepared, now)
        best = record
        if request.users is not None:
            best, _ = propose(handle, view, replace(request, users=None), prepared, now)
    assert record.reach is not None
    assert best.reach is not None
    seen = record.seen(network)
    same: dict[str, Any] = {each.name: getattr(seen, each.name) for each in fields(Preview) if hasattr(seen, each.name)}
    return Preview(
        **same,
        best=best.reach,
        difference=record.reach.mean - best.reach.mean,
        explanation=Explainer(network, record, evidence, columns).seeds(),
        terms=terms,
        proposal=_proposal_id(network, record, request),
    )


def propose(handle: Handle, view: View, request: Question, prepared: Prepared, now: float) -> tuple[Round, Evidence]:
    """Choose seeds under the request's constraints; the round to open, and why these were chosen."""
    rules, past, worth, weary = prepared
    network = view.network
    number = view.ledger.next_number()
    rng = np.random.default_rng([handle.record.settings["seed"], number])
    by_value = handle.record.settings["metric"] == "value"
    weights = worth.weights() if worth is not None and by_value else None
    choice = Chooser(handle.model.policy, network, rules, request, rng, handle.engine, weights).choice()
    rows = choice.rows
    held = _hold_out(rules, rows, request.holdout, rng)
    contacted, beliefs = rows[~np.isin(rows, held)], choice.beliefs
    shown = told = foresee(beliefs, contacted, request.objective, past, worth, rng, handle.engine)
    if request.shadow is not None:
        contacted, places = request.shadow.rows, beliefs.places.copy()
        if np.unique(contacted).size < contacted.size:
            raise InputError("names a user twice; name each once.", argument="shadow")
        if request.shadow.places is not None:
            places[contacted] = request.shadow.places
        beliefs = replace(beliefs, places=places)
        told = foresee(beliefs, contacted, request.objective, past, worth, rng, handle.engine)
    strategies = None
    if request.strategies is not None:
        strategies = RoundStrategies(request.strategies, request.per_user, choice.strategies, beliefs.places[contacted])
    window_ends = None if request.window is None else now + request.window
    record = Round(
        number=number,
        id=round_id(handle.record, number),
        status="open",
        opened=now,
        deadline=window_ends if request.deadline is None else request.deadline,
        closed=None,
        revision=0,
        request_id=request.request_id,
        kind="ask" if request.shadow is None else "shadow",
        context=request.product,
        contacted=contacted,
        strategies=strategies,
        k=request.k,
        chosen=rows,
        gains=_added(rows, held, shown.gains, choice.beliefs),
        held_out=held,
        must_include=rules.must_include,
        listed=request.users is not None,
        left_out={reason.name: count for reason, count in rules.counts().items()},
        cost=rules.spent(contacted, beliefs.places[contacted]),
        window=request.window,
        credit=request.credit,
        objective=request.objective,
        reach=shown.reach,
        forecast=told.forecast,
        value=view.catalogue("product").value(request.product.product),
        revenues=_added(rows, held, shown.revenues, choice.beliefs, None if worth is None else worth.means),
        unit=told.unit,
        revenue_forecast=told.revenue_forecast,
        request=request.fingerprint,
        fatigue=fatigue_of(network.graph, view.ledger, contacted, now, rules.allowed, request.audience_rest, weary),
    )
    return record, collect_evidence(network, rules, choice, None if weights is None else worth)


def _added(rows: I64, held: I64, gains: F64 | None, beliefs: Beliefs, values: F64 | None = None) -> F64:
    """What each chosen user adds: those contacted their ``gains``, those held out the direct responses they would add.

    With ``values``, one for each user, what responses are worth. Empty if the gains are not known.
    """
    if gains is None:
        return np.empty(0)
    out = np.isin(rows, held)
    added = np.empty(rows.size)
    added[~out] = gains
    if held.size:
        added[out] = added_by_all(beliefs, rows[~out], values)[rows[out]]
    return added


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
