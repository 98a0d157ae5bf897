"""`Campaign`: ask, tell, close. A thin shell around the log; everything it knows can be learned again from there."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.campaign._ask import Ask, as_ask, open_round
from tensorucb.campaign._catalogue import PLURAL, check_fits, check_sizes, contexts, read_context
from tensorucb.campaign._explain import Evidence, Explanation, RoundExplanation, explain_round, explain_user
from tensorucb.campaign._export import export
from tensorucb.campaign._forget import ForgetReport, forget
from tensorucb.campaign._handle import Handle
from tensorucb.campaign._history import HistoryReport, import_history
from tensorucb.campaign._lift import Lift, lift
from tensorucb.campaign._model import IN_CLOSE
from tensorucb.campaign._status import CampaignStatus, status
from tensorucb.campaign._tell import TellReport, tell
from tensorucb.campaign._world import add_users, as_id_array
from tensorucb.checks import check_id
from tensorucb.errors import StateError
from tensorucb.graph import Graph
from tensorucb.moments import check_moment
from tensorucb.policies import Policy
from tensorucb.store._protocol import Store


class Campaign:
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

    def __init__(
        self, store: Store, name: str, *, policy: Policy | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self._handle = Handle(store, name, policy=policy, clock=clock)

    @property
    def store(self) -> Store:
        """Where the campaign lives."""
        return self._handle.store

    @property
    def clock(self) -> Callable[[], float]:
        """Gives the time in unix seconds."""
        return self._handle.clock

    @property
    def name(self) -> str:
        """The campaign's name."""
        return self._handle.record.name

    @property
    def settings(self) -> Mapping[str, Any]:
        """Settings made at the creation."""
        return self._handle.record.settings

    @property
    def graph(self) -> Graph:
        """The network as it is now."""
        with self._handle.read() as view:
            return view.world.graph

    @property
    def groups(self) -> NDArray[Any] | None:
        """The label of each user, in the order of ``graph.ids``; None if the campaign has no groups."""
        with self._handle.read() as view:
            return view.world.groups

    def products(self) -> tuple[int | str, ...]:
        """Ids of the catalogue's products."""
        with self._handle.read() as view:
            return view.catalogue("product").ids

    def strategies(self) -> tuple[int | str, ...]:
        """Ids of the catalogue's strategies."""
        with self._handle.read() as view:
            return view.catalogue("strategy").ids

    def status(self) -> CampaignStatus:
        """Numbers of users, products and rounds."""
        return status(self._handle)

    def rounds(self) -> tuple[Ask, ...]:
        """All rounds by number, imported history included."""
        with self._handle.read() as view:
            return tuple(as_ask(self, view.world, record) for record in view.rounds())

    def round(self, round_id: str) -> Ask:
        """One round."""
        with self._handle.read() as view:
            return as_ask(self, view.world, view.round(round_id))

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
            Ids of users chosen and contacted by somebody else: the round only records and learns, and says who
            we would have chosen.
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
        arguments = {name: value for name, value in locals().items() if name != "self"}
        return as_ask(self, *open_round(self._handle, arguments))

    def explain(self, round_id: str, user: int | str | None = None) -> Explanation | RoundExplanation:
        """Why a user was or was not chosen in a round; without a user, all seeds."""
        with self._handle.read() as view:
            world, record = view.world, view.round(round_id)
            data = view.session.blob(view.number, f"explain-{record.number:08d}")
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
        return tell(self._handle, round_id, responses)

    def close(self, round_id: str) -> Ask:
        """Close a round: silence becomes "no", and the model learns it. Closing again changes nothing."""
        with self._handle.lock:
            now = self.clock()
            with self._handle.change(now) as view:
                record = view.round(round_id)
                if record.status == "cancelled":
                    raise StateError(f"round {round_id} was cancelled; there is nothing to close.")
                if record.status == "open":
                    record = view.finish(record, "closed", now)
                closed = as_ask(self, view.world, record)
            self._handle.learn(IN_CLOSE)
            return closed

    def cancel(self, round_id: str) -> Ask:
        """Cancel an open round: nobody counts as contacted, nothing is learned. Cancelling again changes nothing.

        A closed round can be cancelled only if it could not be learned (``status().quarantined`` names such rounds).
        """
        now = self.clock()
        with self._handle.change(now) as view:
            record = view.round(round_id)
            left_out = record.id in view.ledger.quarantined()
            if record.status == "closed" and not left_out:
                raise StateError(f"round {round_id} is closed and its responses are learned; it cannot be cancelled.")
            if record.status == "open" or left_out:
                record = view.finish(record, "cancelled", now)
            return as_ask(self, view.world, record)

    def expire(self, now: float | None = None) -> list[str]:
        """Close the rounds whose deadline has passed; returns their ids. Other calls do so by themselves."""
        return self._handle.expire(self.clock() if now is None else check_moment("now", now))

    def probabilities(self, product: Any) -> NDArray[np.float64]:
        """What the policy believes of every edge for a product, exploration included, in graph order.

        ``product`` is as :meth:`ask` takes it, so that ``("lamp", "email")`` gives the belief for a strategy.
        """
        with self._handle.read() as view:
            vectors = read_context(product, *view.catalogues()).vectors
            self._handle.model.sync(view)
            check_sizes(view.ledger, view.catalogues(), [vector.size for vector in vectors])
            return self._handle.model.policy.score(contexts(vectors, None)[0])

    def add_products(self, ids: ArrayLike, features: ArrayLike) -> None:
        """Add products to the catalogue, one row of features each."""
        self._extend("product", ids, features, None)

    def add_strategies(self, ids: ArrayLike, features: ArrayLike, costs: ArrayLike | None = None) -> None:
        """Add strategies (channels, offers, discounts …) to the catalogue.

        Parameters
        ----------
        ids
            Their ids.
        features
            One row of features each. If no two strategies are alike, give each a 1 in a place of its own.
        costs
            What each adds to the cost of contacting a user; by default 0.
        """
        self._extend("strategy", ids, features, costs)

    def _extend(self, kind: str, ids: ArrayLike, features: ArrayLike, costs: ArrayLike | None) -> None:
        now, many = self.clock(), PLURAL[kind]
        with self._handle.change(now) as view:
            grown = view.catalogue(kind).extended(ids, features, costs)
            if grown.features is not None:
                check_fits(view.ledger, kind, grown.features.shape[1])
            view.session.put_blob(view.number, many, grown.to_blob())
            view.append(f"{many}_added", None, {many: len(grown.ids)}, now)

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
        with self._handle.change(now) as view:
            world = view.world
            grown = add_users(world, ids, features, sources, targets, costs, groups, view.ledger.next_number())
            fresh = as_id_array(ids, "ids")
            if fresh.size:
                view.session.add_users(view.number, grown.keys[world.keys.size :], fresh.tolist())
            view.put_world(grown)
            counts = {"users": int(fresh.size), "edges": grown.graph.n_edges - world.graph.n_edges}
            view.append("users_added", None, {**counts, "world": grown.revision}, now)

    def import_history(self, responses: Any, product: Any = None) -> HistoryReport:
        """Learn from past campaigns; see :func:`tensorucb.campaign._history.import_history`."""
        return import_history(self._handle, responses, product)

    def lift(self) -> Lift:
        """Compare followers of contacted and of held-out users; see :class:`~tensorucb.campaign.Lift`."""
        return lift(self._handle)

    def export(self, directory: str | os.PathLike[str]) -> list[Path]:
        """Write rounds, responses, node events, the log, users, products and strategies as Parquet files, by ids."""
        return export(self._handle, directory)

    def forget(self, user: int | str) -> ForgetReport:
        """Remove a person from the log and the model, and prove it by replay."""
        return forget(self._handle, user)

    def sync(self) -> int:
        """Bring the model up to date with the log and store due snapshots; returns how many rounds it learned.

        :meth:`ask` and :meth:`close` do so too, but learn a slice at a time when late responses have changed a long
        past; this call learns to the end.
        """
        with self._handle.lock:
            self._handle.learn()
            return self._handle.model.replayed

    def model_hash(self) -> str:
        """SHA-256 of everything the policy has learned from the log as it is now."""
        return self._handle.model_hash()

    def replay_hash(self) -> str:
        """The same, learned again from the whole log without snapshots, by a policy of its own."""
        return self._handle.replay_hash()

    def disconnect(self) -> None:
        """Release the store's connections and files."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect()

    def __repr__(self) -> str:
        return f"Campaign({self.name!r}, {self.store.masked_url})"
