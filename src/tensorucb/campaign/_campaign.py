"""`Campaign`: ask, tell, close. A thin shell around the log; everything it knows can be learned again from there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.campaign._ask import Ask, Proposal, Request, as_ask, moment, propose, round_id, span
from tensorucb.campaign._explain import Evidence, Explanation, RoundExplanation, explain_round, explain_user
from tensorucb.campaign._model import IN_ASK, IN_CLOSE
from tensorucb.campaign._offers import CampaignOffers
from tensorucb.campaign._request import check_same, fingerprint, make_request
from tensorucb.campaign._responses import read_responses
from tensorucb.campaign._strategies import contexts
from tensorucb.campaign._tell import TellReport, apply_batch, resolve
from tensorucb.campaign._track import Past
from tensorucb.campaign._world import World, add_users, as_id_array
from tensorucb.checks import check_id
from tensorucb.errors import StateError
from tensorucb.store._protocol import RoundRecord, Session

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from tensorucb.campaign._forget import ForgetReport
    from tensorucb.campaign._history import HistoryReport
    from tensorucb.campaign._lift import Lift

__all__ = ["Campaign"]

_ATTEMPTS = 8


class Campaign(CampaignOffers):
    """A campaign in a store. Get one from :func:`~tensorucb.campaign.create_campaign` or ``load_campaign``.

    Parameters
    ----------
    store
        Where it lives.
    name
        Its name there.
    policy
        Only for a policy of another package: the same object as at the creation.
    clock
        Gives the time in unix seconds.

    Notes
    -----
    The model is a pure function of the log: it learns closed rounds in the order in which they were asked, imported
    history first. Responses told to an open round are durable at once and learned when it closes. Any number of
    processes may work on one campaign; within a process one object may be used by several threads.
    """

    def rounds(self) -> tuple[Ask, ...]:
        """All rounds by number, imported history included."""
        with self._lock, self.store.read() as session:
            world = self._current(session)
            return tuple(as_ask(self, world, record) for _, record in sorted(self._ledger.rounds.items()))

    def round(self, round_id: str) -> Ask:
        """One round."""
        with self._lock, self.store.read() as session:
            return as_ask(self, self._current(session), self._found(session, round_id))

    def ask(
        self,
        product: Any,
        k: int | None = None,
        *,
        strategies: Sequence[int | str] | str | None = None,
        per_user: bool = False,
        exclude: ArrayLike | None = None,
        candidates: ArrayLike | None = None,
        must_include: ArrayLike | None = None,
        cooldown: float | timedelta | None = None,
        costs: ArrayLike | None = None,
        budget: float | None = None,
        groups: ArrayLike | None = None,
        quotas: Mapping[Any, int] | int | None = None,
        holdout: float = 0.0,
        shadow: ArrayLike | Mapping[Any, int | str] | None = None,
        window: float | timedelta | None = None,
        deadline: float | datetime | timedelta | None = None,
        credit: str | None = None,
        objective: str | None = None,
        epsilon: float | None = None,
        request_id: str | None = None,
    ) -> Ask:
        """Open a round: choose ``k`` users for a product.

        Parameters
        ----------
        product
            An id from the catalogue or a feature vector; or a sequence of the product, a strategy and whatever else
            describes the round, each a vector. The first two may be ids: ``("lamp", "email")``, ``("lamp", [1, 0])``. A
            sequence of nothing but numbers is one vector.
        k
            How many users; may be left out with a budget.
        strategies
            Ids of the catalogue's strategies, or ``"all"``: choose the best of them together with the users.
        per_user
            Whether each user gets the best strategy for them; by default all get the same one.
        exclude, candidates, must_include
            Ids: who must not be chosen, the only ones who may, and who has to be.
        cooldown
            Leave out users contacted less than this long ago (seconds or a timedelta), in rounds not cancelled.
        costs, budget
            What each user costs (in the order of ``graph.ids``; default the campaign's) and the most to spend; a
            strategy of the catalogue adds its own cost.
        groups, quotas
            A label for each user (default the campaign's) and the most users of each: a mapping or one number.
        holdout
            Share of the chosen users, drawn at random, who are not contacted, so that :meth:`lift` can compare.
        shadow
            Ids whom somebody else chose and contacted: recorded, and learned from, beside what we would have chosen.
            With ``strategies``, a mapping that says who got which: ``{"ann": "email"}``.
        window
            How long after the contact an action counts (default the campaign's).
        deadline
            When the round closes by itself: unix seconds, a datetime, or a timedelta from now; by default at the end
            of the window, if there is one.
        credit, objective, epsilon
            As in ``create_campaign``, for this round.
        request_id
            Asking again with the same one returns the same round. All arguments must mean the same then: lists of users
            in any order, and an argument left out is the same as its default given. Another value is an error that
            names the argument.
        """
        with self._lock:
            request = make_request(
                self.settings,
                *self._known(),
                product=product,
                strategies=strategies,
                per_user=per_user,
                k=k,
                exclude=exclude,
                candidates=candidates,
                must_include=must_include,
                cooldown=span("cooldown", cooldown),
                costs=costs,
                budget=budget,
                groups=groups,
                quotas=quotas,
                holdout=holdout,
                shadow=shadow,
                window=span("window", window),
                deadline=moment("deadline", deadline, self.clock()),
                credit=credit,
                objective=objective,
                epsilon=epsilon,
                request_id=request_id,
            )
            for _ in range(_ATTEMPTS - 1):
                self.expire()
                with self.store.read() as session:
                    known = self._asked_before(session, request, deadline)
                    if known is not None:
                        return known
                    world, due = self._synced(session, IN_ASK)
                    self._check_sizes(session, request.sizes)
                    past = self._track.past(session, self._ledger, world)
                self._keep(due)
                proposal = self._proposal(world, request, past)
                with self.store.write() as session:
                    if self._still_next(session, world, proposal, request):
                        return self._open(session, proposal, request, deadline)
            # Others kept opening rounds: choose while they wait.
            with self.store.write() as session:
                known = self._asked_before(session, request, deadline)
                if known is not None:
                    return known
                world = self._current(session)
                if not self._model.serves(world):
                    self._synced(session)
                self._check_sizes(session, request.sizes)
                past = self._track.past(session, self._ledger, world)
                return self._open(session, self._proposal(world, request, past), request, deadline)

    def _asked_before(self, session: Session, request: Request, deadline: Any) -> Ask | None:
        if request.request_id is None:
            return None
        record = session.round_by_request(self._record.campaign, request.request_id)
        if record is None:
            return None
        world = self._current(session)
        check_same(record, request, fingerprint(world, request, deadline))
        return as_ask(self, world, record)

    def _proposal(self, world: World, request: Request, past: Past) -> Proposal:
        seed, now = self.settings["seed"], self.clock()
        return propose(self._model.policy, world, self._ledger, request, past, seed=seed, now=now)

    def _still_next(self, session: Session, world: World, proposal: Proposal, request: Request) -> bool:
        """Whether the choice may be opened as a round: same network, nobody asked meanwhile.

        What was told or closed meanwhile is no reason to choose again: the round says how far behind its choice was.
        """
        repeated = request.request_id is not None and session.round_by_request(
            self._record.campaign, request.request_id
        )
        same = self._current(session).revision == world.revision
        return not repeated and same and self._ledger.next_number() == proposal.number

    def _open(self, session: Session, proposal: Proposal, request: Request, given: Any) -> Ask:
        self._check_sizes(session, request.sizes)
        assert self._world is not None
        number, opened = self._record.campaign, proposal.opened
        deadline = request.deadline
        if deadline is None and request.window is not None:
            deadline = opened + request.window
        payload = {**proposal.payload, "behind": self._model.behind(self._world, self._ledger)}
        if request.request_id is not None:
            payload["request"] = fingerprint(self._world, request, given)
        identifier = round_id(self._record, proposal.number)
        counts = {"id": identifier, "contacted": len(proposal.payload["contacted"])}
        seq = session.append_event(number, "asked", proposal.number, counts, opened)
        record = RoundRecord(
            proposal.number, identifier, "open", opened, deadline, None, seq, request.request_id, payload
        )
        session.put_round(number, record)
        session.put_blob(number, f"explain-{proposal.number:08d}", proposal.evidence.to_blob())
        return as_ask(self, self._world, record)

    def explain(self, round_id: str, user: int | str | None = None) -> Explanation | RoundExplanation:
        """Why a user was or was not chosen in a round; without a user, all seeds."""
        with self._lock, self.store.read() as session:
            world, record = self._current(session), self._found(session, round_id)
            data = session.blob(self._record.campaign, f"explain-{record.number:08d}")
            if data is None:
                raise StateError(f"round {round_id} is imported history: it has no choice of ours to explain.")
            evidence = Evidence.from_blob(data)
            if user is None:
                return explain_round(world, record, evidence)
            user = check_id("user", user)
            return explain_user(world, record, evidence, int(world.keys[world.graph.rows([user])[0]]))

    def tell(self, round_id: str, responses: Any) -> TellReport:
        """Store responses of a round, durably; again, late or in any order.

        Parameters
        ----------
        round_id
            The id that :meth:`ask` returned.
        responses
            Edges (``source``, ``target``, ``outcome`` 0 or 1; optionally ``time``, ``event_id``) or node events
            (``user``, ``time``; optionally ``event_id``), as a polars, pandas or Arrow frame, a mapping of columns, a
            list of mappings, or the path of a CSV, NDJSON or Parquet file.

        Returns
        -------
        TellReport
            A row that was told before is counted as duplicate. One that disagrees with an earlier one is reported
            with both values, and the earlier one stands. A source that was not contacted, an unknown user or edge or
            a malformed row refuses the whole batch.
        """
        with self._lock:
            with self.store.read() as session:
                world = self._current(session)
                batch = read_responses(responses, strings=world.strings)
                # Before the others have to wait: all that needs no lock.
                resolved = resolve(world, self._found(session, round_id), batch)
            now = self.clock()
            if self._ledger.due(now):
                self.expire(now)
            with self.store.write() as session:
                world = self._current(session)
                self._close_due(session, now)
                record = self._found(session, round_id)
                if record.status == "cancelled":
                    raise StateError(f"round {round_id} was cancelled and takes no responses. Ask for a new round.")
                if record.payload["kind"] == "history":
                    raise StateError(f"round {round_id} is imported history. Use import_history for more of it.")
                if world.revision != resolved.revision:
                    resolved = resolve(world, record, batch)
                told = self._told_before(session, record.number, world)
                applied = apply_batch(session, self._record.campaign, world, record, batch, resolved, told, now)
            if applied.seq:
                # On the next call the log says whether anybody else has told this round something since.
                told.add(world, applied.edges, applied.nodes)
                self._told = (record.number, (self._ledger.loads, applied.seq), told)
            return applied.report

    def close(self, round_id: str) -> Ask:
        """Close a round: silence becomes "no", and the model learns it. Closing again changes nothing."""
        with self._lock:
            now = self.clock()
            with self._prepared(now).write() as session:
                world = self._current(session)
                self._close_due(session, now)
                record = self._found(session, round_id)
                if record.status == "cancelled":
                    raise StateError(f"round {round_id} was cancelled; there is nothing to close.")
                if record.status == "open":
                    record = self._finish(session, record, "closed", now)
                closed = as_ask(self, world, record)
            self._advance(IN_CLOSE)
            return closed

    def cancel(self, round_id: str) -> Ask:
        """Cancel an open round: nobody counts as contacted, nothing is learned. Cancelling again changes nothing.

        A closed round can be cancelled only if it could not be learned (``status().quarantined`` names such rounds).
        """
        now = self.clock()
        with self._lock, self._prepared(now).write() as session:
            world = self._current(session)
            self._close_due(session, now)
            record = self._found(session, round_id)
            left_out = record.id in self._ledger.quarantined()
            if record.status == "closed" and not left_out:
                raise StateError(f"round {round_id} is closed and its responses are learned; it cannot be cancelled.")
            if record.status == "open" or left_out:
                record = self._finish(session, record, "cancelled", now)
            return as_ask(self, world, record)

    def probabilities(self, product: Any) -> NDArray[np.float64]:
        """What the policy believes of every edge for a product, exploration included, in graph order.

        ``product`` is as :meth:`ask` takes it, so that ``("lamp", "email")`` gives the belief for a strategy.
        """
        with self._lock:
            vectors = self._context(product).vectors
            with self.store.read() as session:
                self._synced(session)
                self._check_sizes(session, [vector.size for vector in vectors])
            return self._model.policy.score(contexts(vectors, None)[0])

    def add_users(
        self,
        ids: ArrayLike,
        features: ArrayLike | None = None,
        sources: ArrayLike = (),
        targets: ArrayLike = (),
        *,
        costs: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> None:
        """Add users (possibly none) and edges ``sources → targets`` between any users.

        The model is learned again on the new network. Rounds that were asked before do not take a new edge's silence
        for a "no". In a campaign with a `UserProfile`, ``features`` are those of the profile, or a profile: what it
        leaves out of taste, credit, exposure and coordinates is zero.
        """
        now = self.clock()
        with self._lock, self._prepared(now).write() as session:
            world, campaign = self._current(session), self._record.campaign
            self._close_due(session, now)
            grown = add_users(world, ids, features, sources, targets, costs, groups, self._ledger.next_number())
            fresh = as_id_array(ids, "ids")
            if fresh.size:
                session.add_users(campaign, grown.keys[world.keys.size :], fresh.tolist())
            self._put_world(session, grown)
            counts = {"users": int(fresh.size), "edges": grown.graph.n_edges - world.graph.n_edges}
            session.append_event(campaign, "users_added", None, {**counts, "world": grown.revision}, now)

    def import_history(self, responses: Any, product: Any = None) -> HistoryReport:
        """Learn from past campaigns; see :func:`tensorucb.campaign._history.import_history`."""
        from tensorucb.campaign._history import import_history

        return import_history(self, responses, product)

    def lift(self) -> Lift:
        """Compare followers of contacted and of held-out users; see :class:`~tensorucb.campaign.Lift`."""
        from tensorucb.campaign._lift import lift

        return lift(self)

    def export(self, directory: str | os.PathLike[str]) -> list[Path]:
        """Write rounds, responses, node events, the log, users, products and strategies as Parquet files, by ids."""
        from tensorucb.campaign._export import export

        return export(self, directory)

    def forget(self, user: int | str) -> ForgetReport:
        """Remove a person from the log and the model, and prove it by replay."""
        from tensorucb.campaign._forget import forget

        self.expire()
        return forget(self, user)
