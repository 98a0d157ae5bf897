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
    with handle.lock, handle.store.turn_to_choose(handle.record.campaign):
        for _ in range(_ATTEMPTS - 1):
            now = handle.clock()
            with handle.read() as view:
                due = view.ledger.due(now)
                draft = prepare(view, arguments, now)
                if isinstance(draft, Round):
                    return view.network, draft
                learned = handle.progress(view, handle.model)
            proposal = propose(draft)
            handle.keep(learned)
            if due:
                # Rounds that are due are learned before the choice; one that is refused must not have closed them.
                with handle.write(now):
                    continue
            _check_accepted(proposal)
            with handle.write() as view:
                fits = _still_next(view, proposal)
                if fits:
                    opened = _append(view, proposal)
            if fits:
                break
        else:
            # Others kept opening rounds: choose while they wait.
            with handle.write() as view:
                draft = prepare(view, arguments, handle.clock())
                if isinstance(draft, Round):
                    return view.network, draft
                proposal = propose(draft)
                _check_accepted(proposal)
                opened = _append(view, proposal)
    # Whoever asks why is answered from memory.
    handle.memory.keep("evidence", (opened.id, proposal.network.revision), proposal.evidence)
    counts = opened.contacted.size, opened.held_out.size
    _log.info("campaign %r: round %d opened, %d contacted, %d held out", handle.record.name, opened.number, *counts)
    return proposal.network, opened


class Draft(NamedTuple):
    """A question, and what a choice needs beside the model: constraints, how forecasts did, worth, who tires."""

    view: View
    now: float
    question: Question
    rules: Constraints
    past: Sequence[Outcome]
    worth: Worth | None
    weary: Weariness | None


class Proposal(NamedTuple):
    """A round that could be opened, the network that it is for, and why these users were chosen."""

    question: Question
    network: Network
    round: Round
    evidence: Evidence


def prepare(view: View, arguments: Mapping[str, Any], now: float) -> Draft | Round:
    """Read and check a question and what a choice needs; the model is brought up to date.

    If the same request has opened a round before, that round is the answer.
    """
    handle = view.handle
    question = Reader(handle.record.settings, view.network, view.catalogues(), now).read(arguments)
    if question.request_id is not None and (earlier := view.ledger.opened_by(question.request_id)) is not None:
        check_same(earlier, question)
        return earlier
    check_sizes(view.ledger, view.catalogues(), question.sizes, chooses=True)
    rules = constrain(view.network, barred_now(view, question, now), question, now)
    handle.follow(view)
    worth = worth_of(view, question.product.product)
    return Draft(view, now, question, rules, past_outcomes(view), worth, weariness(view, now))


def _still_next(view: View, proposal: Proposal) -> bool:
    """Whether the choice may be opened as a round: same network, nobody asked meanwhile, all may still be contacted.

    What was told or closed meanwhile is no reason to choose again: the next round learns it. But people may have opted
    out, or other campaigns asked for them.
    """
    question, network, proposed, _ = proposal
    if view.ledger.revision != network.revision or view.ledger.next_number() != proposed.number:
        return False
    return not barred_now(view, question, proposed.opened).reasons[proposed.chosen].any()


def _check_accepted(proposal: Proposal) -> None:
    """Refuse to open another round than the one that somebody saw and accepted."""
    if proposal.question.proposal not in (None, _proposal_id(proposal)):
        raise StateError(
            "other users would be chosen or held out by now than in the proposal, or with other rules: "
            "rounds were opened or closed meanwhile, people have opted out, or the question is another one.",
            advice="Preview again.",
        )


def _proposal_id(proposal: Proposal) -> str:
    """A digest of all that somebody accepts; the same choice at another time has the same."""
    question, network, proposed, _ = proposal
    strategies = proposed.strategy_of("contacted")
    contacted = proposed.contacted.tolist()
    parts = [
        [vector.tolist() for vector in proposed.context.vectors],
        network.ids(proposed.contacted),
        network.ids(proposed.held_out),
        None if strategies is None else [strategies[row] for row in contacted],
        [proposed.cost, proposed.window, proposed.credit, proposed.objective],
        [question.holdout, question.cooldown, question.audience_rest, question.budget],
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _append(view: View, proposal: Proposal) -> Round:
    """Write a proposed round, and log it."""
    check_sizes(view.ledger, view.catalogues(), proposal.question.sizes, chooses=True)
    proposed = proposal.round
    counts = {"id": proposed.id, "contacted": proposed.contacted.size}
    seq = view.append("asked", proposed.number, counts, proposed.opened)
    record = replace(proposed, revision=seq)
    view.put_round(record)
    view.session.put_explanation(view.number, record.number, proposal.evidence.to_blob())
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
            draft = prepare(view, {**arguments, "request_id": None}, now)
            assert isinstance(draft, Draft)
            terms = Reader(handle.record.settings, network, view.catalogues(), now).terms(draft.question)
        proposal = propose(draft)
        best = proposal.round
        if draft.question.users is not None:
            best = propose(draft._replace(question=replace(draft.question, users=None))).round
    record = proposal.round
    assert record.reach is not None
    assert best.reach is not None
    seen = record.seen(network)
    same: dict[str, Any] = {each.name: getattr(seen, each.name) for each in fields(Preview) if hasattr(seen, each.name)}
    return Preview(
        **same,
        best=best.reach,
        difference=record.reach.mean - best.reach.mean,
        explanation=Explainer(network, record, proposal.evidence, columns).seeds(),
        terms=terms,
        proposal=_proposal_id(proposal),
    )


def propose(draft: Draft) -> Proposal:
    """Choose seeds under the question's constraints; the round to open, and why these were chosen."""
    view, now, question, rules, past, worth, weary = draft
    handle, network = view.handle, view.network
    number = view.ledger.next_number()
    rng = np.random.default_rng([handle.record.settings["seed"], number])
    by_value = handle.record.settings["metric"] == "value"
    weights = worth.weights() if worth is not None and by_value else None
    choice = Chooser(handle.model.policy, network, rules, question, rng, handle.engine, weights).choice()
    rows = choice.rows
    held = _hold_out(rules, rows, question.holdout, rng)
    contacted, beliefs = rows[~np.isin(rows, held)], choice.beliefs
    shown = told = foresee(beliefs, contacted, question.objective, past, worth, rng, handle.engine)
    if question.shadow is not None:
        contacted, places = question.shadow.rows, beliefs.places.copy()
        if np.unique(contacted).size < contacted.size:
            raise InputError("names a user twice; name each once.", argument="shadow")
        if question.shadow.places is not None:
            places[contacted] = question.shadow.places
        beliefs = replace(beliefs, places=places)
        told = foresee(beliefs, contacted, question.objective, past, worth, rng, handle.engine)
    strategies = None
    if question.strategies is not None:
        strategies = RoundStrategies(
            question.strategies, question.per_user, choice.strategies, beliefs.places[contacted]
        )
    window_ends = None if question.window is None else now + question.window
    record = Round(
        number=number,
        id=round_id(handle.record, number),
        status="open",
        opened=now,
        deadline=window_ends if question.deadline is None else question.deadline,
        closed=None,
        revision=0,
        request_id=question.request_id,
        kind="ask" if question.shadow is None else "shadow",
        context=question.product,
        contacted=contacted,
        strategies=strategies,
        k=question.k,
        chosen=rows,
        gains=_added(rows, held, shown.gains, choice.beliefs),
        held_out=held,
        must_include=rules.must_include,
        listed=question.users is not None,
        left_out={reason.name: count for reason, count in rules.counts().items()},
        cost=rules.spent(contacted, beliefs.places[contacted]),
        window=question.window,
        credit=question.credit,
        objective=question.objective,
        reach=shown.reach,
        forecast=told.forecast,
        value=view.catalogue("product").value(question.product.product),
        revenues=_added(rows, held, shown.revenues, choice.beliefs, None if worth is None else worth.means),
        unit=told.unit,
        revenue_forecast=told.revenue_forecast,
        request=question.fingerprint,
        fatigue=fatigue_of(network.graph, view.ledger, contacted, now, rules.allowed, question.audience_rest, weary),
    )
    evidence = collect_evidence(rules, choice, None if weights is None else worth)
    return Proposal(question, network, record, evidence)


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
