"""`Campaign`: ask, tell, close. A thin shell around the log; everything it knows can be learned again from there."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.campaign._catalogue import check_sizes, contexts, read_context
from tensorucb.campaign._explain import explain
from tensorucb.campaign._forget import ForgetReport, forget
from tensorucb.campaign._grow import add_products, add_users, extend
from tensorucb.campaign._handle import Handle
from tensorucb.campaign._history import HistoryReport, import_history
from tensorucb.campaign._lift import Lift, lift
from tensorucb.campaign._network import Network
from tensorucb.campaign._progress import CampaignProgress, CampaignStatus, keep_tally, progress, status
from tensorucb.campaign._question import shown_defaults
from tensorucb.campaign._round import Ask, Explanation, Preview, Round, RoundExplanation
from tensorucb.campaign._tell import TellReport, tell
from tensorucb.campaign._tell_log import TellLogReport, tell_log
from tensorucb.campaign._webhook import deliver, remove_webhook, set_webhook
from tensorucb.graph import Graph
from tensorucb.moments import Duration, check_moment
from tensorucb.policies import Policy

if TYPE_CHECKING:
    from tensorucb.store import SQLStore as Store
    from tensorucb.work import Engine


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
    processes may work on one campaign. Within a process threads share one object: those that read or tell wait for
    nobody, those that choose or learn take turns.

    Examples
    --------
    >>> import tensorucb as tu
    >>> graph = tu.Graph.from_edges(["ann", "ann", "bob"], ["bob", "cid", "cid"])
    >>> campaign = tu.create_campaign("spring", graph=graph, storage="memory://")
    >>> ask = campaign.ask(k=1, exclude=["bob"])
    >>> campaign.tell(ask.id, [{"source": "ann", "target": "bob", "outcome": 1}]).accepted
    1
    >>> campaign.close(ask.id).status
    'closed'
    """

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        policy: Policy | None = None,
        clock: Callable[[], float] = time.time,
        engine: Engine | None = None,
    ) -> None:
        self._handle = Handle(store, name, policy, clock, engine)

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
    def created(self) -> float:
        """When it was created, in unix seconds."""
        return self._handle.record.created

    @property
    def settings(self) -> Mapping[str, Any]:
        """Settings made at the creation; ``ask`` holds the defaults of :meth:`ask`, if there are any."""
        settings = self._handle.record.settings
        if "ask" not in settings:
            return settings
        with self._handle.read() as view:
            return {**settings, "ask": shown_defaults(settings["ask"], view.network)}

    @property
    def graph(self) -> Graph:
        """The network as it is now."""
        with self._handle.read() as view:
            return view.network.graph

    @property
    def groups(self) -> NDArray[Any] | None:
        """The label of each user, in the order of ``graph.ids``; None if the campaign has no groups."""
        with self._handle.read() as view:
            return view.network.groups

    @property
    def costs(self) -> NDArray[np.float64] | None:
        """What contacting each user costs, in the order of ``graph.ids``; None if the campaign has no costs."""
        with self._handle.read() as view:
            return view.network.costs

    def products(self) -> tuple[int | str, ...]:
        """Ids of the catalogue's products."""
        with self._handle.read() as view:
            return view.catalogue("product").ids

    def strategies(self) -> tuple[int | str, ...]:
        """Ids of the catalogue's strategies."""
        with self._handle.read() as view:
            return view.catalogue("strategy").ids

    def strategy_costs(self) -> dict[int | str, float]:
        """What each strategy of the catalogue adds to the cost of contacting a user."""
        with self._handle.read() as view:
            known = view.catalogue("strategy")
            return dict(zip(known.ids, known.costs.tolist(), strict=True))

    def status(self) -> CampaignStatus:
        """Numbers of users, products and rounds."""
        return status(self._handle)

    def progress(self) -> CampaignProgress:
        """How it is going: responses beside expectation by round and in total, reach, spend, lift, calibration."""
        return progress(self._handle)

    def rounds(self) -> tuple[Ask, ...]:
        """All rounds by number, imported history included."""
        with self._handle.read() as view:
            return tuple(record.seen(view.network).of(self) for record in view.rounds())

    def round(self, round_id: str | int) -> Ask:
        """One round, by its id or its number."""
        with self._handle.read() as view:
            return view.round(round_id).seen(view.network).of(self)

    def ask(
        self,
        product: Any = None,
        k: int | None = None,
        *,
        strategies: Sequence[int | str] | str | None = None,
        per_user: bool | None = None,
        exclude: ArrayLike | None = None,
        candidates: ArrayLike | None = None,
        must_include: ArrayLike | None = None,
        cooldown: Duration | None = None,
        costs: ArrayLike | None = None,
        budget: float | None = None,
        groups: ArrayLike | None = None,
        quotas: Mapping[Any, int] | int | None = None,
        minima: Mapping[Any, int] | int | None = None,
        holdout: float | None = None,
        shadow: ArrayLike | Mapping[Any, int | str] | None = None,
        users: ArrayLike | Mapping[Any, int | str] | None = None,
        window: Duration | None = None,
        deadline: float | Duration | datetime | None = None,
        credit: str | None = None,
        objective: str | None = None,
        epsilon: float | None = None,
        request_id: str | None = None,
    ) -> Ask:
        """Open a round: choose ``k`` users for a product.

        An argument that is left out, or None, is the campaign's default if ``create_campaign(ask=…)`` gave one.

        Parameters
        ----------
        product
            An id from the catalogue or a feature vector; or a sequence of the product, a strategy and whatever else
            describes the round, each a vector. The first two may be ids: ``("lamp", "email")``, ``("lamp", [1, 0])``. A
            sequence of nothing but numbers is one vector. In a campaign without a catalogue it may be left out.
        k
            How many users; may be left out with a budget.
        strategies
            Ids of the catalogue's strategies, or ``"all"``: choose the best of them together with the users.
        per_user
            Whether each user gets the best strategy for them; by default all get the same one.
        exclude, candidates, must_include
            Ids: who must not be chosen, the only ones who may, and who has to be.
        cooldown
            Leave out users contacted less than this long ago (``"12h"`` or a timedelta), in rounds not
            cancelled; 0 for nobody.
        costs, budget
            What each user costs (in the order of ``graph.ids``; default the campaign's) and the most to spend; a
            strategy of the catalogue adds its own cost.
        groups, quotas, minima
            A label for each user (default the campaign's), and the most and the fewest users of each, those held out
            included: a mapping or one number. The certificate of :meth:`explain` says what minima cost at most.
        holdout
            Share of the chosen users, drawn at random, who are not contacted, so that :meth:`lift` can compare.
        shadow
            Ids of users chosen and contacted by somebody else: the round only records and learns, and says who
            we would have chosen.
            With ``strategies``, a mapping that says who got which: ``{"ann": "email"}``.
        users
            Contact exactly these users, such as those of a :meth:`preview` that a person changed; the other
            constraints must hold for them. The round learns, forecasts and draws its hold-out as any other does, and
            says that a person made the list. With ``strategies``, optionally a mapping that says who gets which.
        window
            How long after the contact an action counts, such as ``"7d"`` (default the campaign's).
        deadline
            When the round closes by itself: a span from now, which is a text such as ``"3d"`` or a timedelta, a
            datetime, an ISO time as text, or unix seconds; by default at the end of the window, if there is one.
        credit, objective, epsilon
            As in ``create_campaign``, for this round.
        request_id
            Asking again with the same one returns the same round. All arguments must mean the same then: lists of users
            in any order, and an argument left out is the same as its default given. Another value is an error that
            names the argument.
        """
        arguments = {name: value for name, value in locals().items() if name != "self"}
        from tensorucb.campaign._ask import open_round  # compiled kernels, which nothing else here needs

        return self._seen(*open_round(self._handle, arguments))

    def preview(
        self,
        product: Any = None,
        k: int | None = None,
        *,
        strategies: Sequence[int | str] | str | None = None,
        per_user: bool | None = None,
        exclude: ArrayLike | None = None,
        candidates: ArrayLike | None = None,
        must_include: ArrayLike | None = None,
        cooldown: Duration | None = None,
        costs: ArrayLike | None = None,
        budget: float | None = None,
        groups: ArrayLike | None = None,
        quotas: Mapping[Any, int] | int | None = None,
        minima: Mapping[Any, int] | int | None = None,
        holdout: float | None = None,
        shadow: ArrayLike | Mapping[Any, int | str] | None = None,
        users: ArrayLike | Mapping[Any, int | str] | None = None,
        window: Duration | None = None,
        deadline: float | Duration | datetime | None = None,
        credit: str | None = None,
        objective: str | None = None,
        epsilon: float | None = None,
        request_id: str | None = None,
    ) -> Preview:
        """What :meth:`ask` with the same arguments would choose now, and what to expect of it; nothing is opened.

        With ``users``, what to expect of exactly these users, beside the campaign's own choice. Asking straight after
        a preview gives the same seeds. A preview only reads the store, also where rounds are due: they stay open, and
        count as closed.
        """
        arguments = {name: value for name, value in locals().items() if name != "self"}
        from tensorucb.campaign._ask import preview

        return preview(self._handle, arguments)

    def explain(self, round_id: str | int, user: int | str | None = None) -> Explanation | RoundExplanation:
        """Say why a user was or was not chosen in a round; without a user, explain all seeds."""
        with self._handle.read() as view:
            return explain(view, round_id, user)

    def tell(
        self,
        round_id: str | int,
        responses: Any,
        *,
        unknown: Literal["refuse", "skip"] = "refuse",
        columns: Mapping[str, str] | None = None,
    ) -> TellReport:
        """Store responses of a round, durably; again, late or in any order.

        Parameters
        ----------
        round_id
            The id that :meth:`ask` returned, or the round's number.
        responses
            Edges (``source``, ``target``, ``outcome`` 0 or 1; optionally ``time``, ``event_id``) or node events
            (``user``, ``time``; optionally ``event_id``), as a polars, pandas or Arrow frame, a mapping of columns, a
            list of mappings, or the path of a CSV, NDJSON or Parquet file. Errors and contradictions name a row by its
            number, counted from 1; the header of a CSV file is not a row.
        unknown
            What to do if rows name a user or an edge that is not in the network: ``"refuse"`` the whole batch, or
            ``"skip"`` these rows and count them.
        columns
            Names of columns by field, where they are not called so: ``{"user": "buyer", "time": "bought_at"}``. A
            time may also be called ``timestamp``.

        Returns
        -------
        TellReport
            A row that was told before is counted as duplicate. One that disagrees with an earlier one is reported
            with both values, and the earlier one stands. A source that was not contacted or a malformed row refuses
            the whole batch.
        """
        return tell(self._handle, round_id, responses, unknown, columns)

    def tell_log(
        self,
        responses: Any,
        *,
        unknown: Literal["refuse", "skip"] = "refuse",
        columns: Mapping[str, str] | None = None,
    ) -> TellLogReport:
        """Store the rows of a log that belong to rounds, such as all purchases since yesterday.

        A row belongs to the round that its field ``round`` names, by id or by number. Without that, a node event with
        a field ``product`` (or ``item``) belongs to each round of that product, not cancelled, in whose window its
        time lies, if the user can count there: somebody chosen in that round, or a follower of theirs. All other rows
        are counted (``other``) and nothing is stored of them.

        Parameters
        ----------
        responses
            Rows as :meth:`tell` takes them. Responses by edge need the field ``round``.
        unknown, columns
            As in :meth:`tell`; ``unknown`` is about rows that belong to a round.

        Returns
        -------
        TellLogReport
            Everything is stored, or nothing. Sending the same log again, in any order and in any parts, changes
            nothing.
        """
        return tell_log(self._handle, responses, unknown, columns)

    def close(self, round_id: str | int) -> Ask:
        """Close a round: silence becomes "no", and the model learns it. Closing again changes nothing."""
        network, record = self._handle.close(round_id)
        keep_tally(self._handle)
        return self._seen(network, record)

    def cancel(self, round_id: str | int) -> Ask:
        """Cancel an open round: nobody counts as contacted, nothing is learned. Cancelling again changes nothing.

        A closed round can be cancelled only if it could not be learned (``status().quarantined`` names such rounds).
        """
        return self._seen(*self._handle.cancel(round_id))

    def expire(self, now: float | None = None) -> list[str]:
        """Close the rounds whose deadline has passed; returns their ids. Other calls do so by themselves."""
        return self._handle.close_due(self.clock() if now is None else check_moment("now", now))

    def probabilities(self, product: Any) -> NDArray[np.float64]:
        """What is believed of every edge for a product, exploration left out, in graph order.

        The numbers behind `Ask.reach` and `explain`: a user's expected responses alone are the sum over their edges.

        ``product`` is as :meth:`ask` takes it, so that ``("lamp", "email")`` gives the belief for a strategy.
        """
        with self._handle.learned() as view:
            vectors = read_context(product, *view.catalogues()).vectors
            check_sizes(view.ledger, view.catalogues(), [vector.size for vector in vectors])
            return self._handle.model.policy.prediction(contexts(vectors, None)[0]).expected()

    def add_products(self, ids: ArrayLike, features: Any) -> None:
        """Add products to the catalogue.

        Parameters
        ----------
        ids
            Their ids.
        features
            One row of numbers each; or, in a campaign that was created from files, a polars, pandas or Arrow table with
            the columns of the product table. The features are made from these in the same way as at the creation, and
            products that the catalogue has already keep theirs. A column ``product`` (or ``id``) of a table says whose
            each row is; without it rows are in the order of ``ids``.
        """
        add_products(self._handle, ids, features)

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
        extend(self._handle, "strategy", ids, features, costs)

    def add_users(
        self,
        ids: ArrayLike,
        features: Any = None,
        sources: ArrayLike = (),
        targets: ArrayLike = (),
        *,
        costs: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> None:
        """Add users (possibly none) and edges ``sources → targets`` between any users.

        The model is learned again on the new network. Rounds that were asked before do not take a new edge's silence
        for a "no". In a campaign with a `UserProfile`, ``features`` are those of the profile, or a profile: what it
        leaves out of taste, credit, exposure and coordinates is zero. In a campaign that was created from files,
        ``features`` may be a polars, pandas or Arrow table with the columns of the table of users, or be left out:
        what it does not tell (degrees, past response) is that of an average user. A column ``user`` (or ``id``) of a
        table says whose each row is; without it rows are in the order of ``ids``.
        """
        add_users(self._handle, ids, features, (sources, targets), costs, groups)

    def import_history(
        self,
        responses: Any,
        product: Any = None,
        *,
        window: Duration | None = None,
        unknown: Literal["refuse", "skip"] = "refuse",
        columns: Mapping[str, str] | None = None,
    ) -> HistoryReport:
        """Learn from past campaigns or from a log of purchases, before everything else in the order of learning.

        Parameters
        ----------
        responses
            Edge responses as :meth:`tell` takes them, with a field ``product`` (an id of the catalogue) unless the
            argument is given, optionally a field ``strategy`` (an id of that catalogue), and a field ``round`` that
            tells past rounds of one product apart. Only the edges told are learned: silence need not have been a "no".

            Or a log of purchases: ``user``, ``time`` and ``product`` (or ``item``). A buyer showed the product to each
            follower who had not bought it yet; a follower who bought it within the window after that responded, the
            others did not. Rows whose product is not in the catalogue are counted and left out.
        product
            The product of all rows, as :meth:`ask` takes it: an id or features, alone or with a strategy.
        window
            For a log: how long after a purchase a follower's own one is a response (default the campaign's; if that
            has none, any later purchase is).
        unknown, columns
            As in :meth:`tell`.

        Returns
        -------
        HistoryReport
            Importing the same again changes nothing.
        """
        return import_history(self._handle, responses, product, window, unknown, columns)

    def lift(self) -> Lift:
        """Compare followers of contacted and of held-out users; see :class:`~tensorucb.campaign.Lift`."""
        return lift(self._handle)

    def export(self, directory: str | os.PathLike[str], format: str = "parquet") -> list[Path]:
        """Write the campaign as tables for a spreadsheet or a warehouse, by the caller's ids.

        Parameters
        ----------
        directory
            Where to. The tables are rounds, seeds, responses, node events, credited edges, the log, users, edges,
            products and strategies.
        format
            ``parquet``, or ``csv``, in which a text that a spreadsheet would take for a formula gets an apostrophe.

        Returns
        -------
        list of Path
            The files; the last one is ``manifest.json``, with the columns, rows and checksum of each of the others.
        """
        # polars takes a while to load, and most processes never export.
        from tensorucb.campaign._export import export

        return export(self._handle, directory, format)

    def forget(self, user: int | str) -> ForgetReport:
        """Remove a person from the log and the model, and prove it by replay."""
        return forget(self._handle, user)

    def set_webhook(self, url: str, secret: str | None = None) -> str:
        """Tell another system of every round that closes from now on, by a signed request.

        Parameters
        ----------
        url
            Where to: ``https://shop.example/rounds``.
        secret
            What requests are signed with: ``whsec_`` and at least 16 bytes in base64; by default a new one.

        Returns
        -------
        str
            The secret, for the receiver. A running service sends the requests; without one, call :meth:`deliver`.
        """
        return set_webhook(self._handle, url, secret)

    def remove_webhook(self) -> None:
        """Tell no other system any more."""
        remove_webhook(self._handle)

    def deliver(self) -> int:
        """Send what is due to the webhook; returns how many requests were taken. ``status().webhook`` tells the rest.

        A request that fails is sent again by later calls, eight times in about ten minutes; then it is given up. It may
        come twice, with the same ``Webhook-Id``, which is the round's id.
        """
        return deliver(self._handle)

    def sync(self) -> int:
        """Bring the model up to date with the log and store due snapshots; returns how many rounds it learned.

        :meth:`ask` and :meth:`close` do so too, but late responses to a long past wait until a round closes and a
        twentieth of the rounds has changed; this call takes them in now.
        """
        learned = self._handle.learn("sync")
        keep_tally(self._handle)
        return learned

    def model_hash(self) -> str:
        """SHA-256 of everything the policy has learned from the log as it is now."""
        return self._handle.model_hash()

    def replay_hash(self) -> str:
        """The same, learned again from the whole log without snapshots, by a policy of its own."""
        return self._handle.replay_hash()

    def disconnect(self) -> None:
        """Release the store's connections and files."""
        self.store.close()

    def _seen(self, network: Network, record: Round) -> Ask:
        return record.seen(network).of(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect()

    def __repr__(self) -> str:
        return f"Campaign({self.name!r}, {self.store.masked_url})"
