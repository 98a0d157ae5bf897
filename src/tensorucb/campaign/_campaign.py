"""`Campaign`: ask, tell, close. A thin shell around the log; everything it knows can be learned again from there."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.campaign._attention import Notice, attention
from tensorucb.campaign._catalogue import PLURAL, check_sizes, contexts, read_context
from tensorucb.campaign._constraints import barred_by_default
from tensorucb.campaign._explain import explain
from tensorucb.campaign._forget import ForgetReport, forget
from tensorucb.campaign._grow import add_products, add_users, extend, set_costs
from tensorucb.campaign._handle import Handle
from tensorucb.campaign._history import HistoryReport, import_history
from tensorucb.campaign._lift import Lift, lift_of
from tensorucb.campaign._lift_plan import LiftPlan, followers_of, past_rounds, plan_from, plan_lift
from tensorucb.campaign._people import OptReport, opt, said
from tensorucb.campaign._progress import CampaignProgress, CampaignStatus, progress, read_selection, status
from tensorucb.campaign._question import shown_defaults
from tensorucb.campaign._round import Ask, Explanation, Preview, RoundExplanation, named_round
from tensorucb.campaign._tally import keep_tally
from tensorucb.campaign._tell import TellLogReport, TellReport, tell, tell_log
from tensorucb.campaign._webhook import deliver, remove_webhook, set_webhook
from tensorucb.checks import check_choice, check_count, check_flag, check_id
from tensorucb.errors import EarlyCloseError, StateError, argument
from tensorucb.graph import Graph
from tensorucb.moments import Duration, check_moment
from tensorucb.policies import Policy
from tensorucb.reports import Tolerance

if TYPE_CHECKING:
    from tensorucb.store import SQLStore as Store
    from tensorucb.work import Engine

_log = logging.getLogger("tensorucb.campaign")


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
    nobody who chooses, those that choose or learn take turns, and so do those that ask for the progress.

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

    @property
    def values(self) -> NDArray[np.float64] | None:
        """What a response of each user is worth, in the order of ``graph.ids``; None if that was not given."""
        with self._handle.read() as view:
            return view.network.values

    def product_values(self) -> dict[int | str, float] | None:
        """What a response to each product of the catalogue is worth; None if that was not given."""
        with self._handle.read() as view:
            products = view.catalogue("product")
            return None if products.values is None else dict(zip(products.ids, products.values.tolist(), strict=True))

    def products(self) -> tuple[int | str, ...]:
        """Ids of the catalogue's products."""
        with self._handle.read() as view:
            return view.catalogue("product").ids

    def strategies(self) -> tuple[int | str, ...]:
        """Ids of the catalogue's strategies."""
        with self._handle.read() as view:
            return view.catalogue("strategy").ids

    def names(self, table: str) -> dict[int | str, str]:
        """What ``"products"``, ``"strategies"`` or ``"users"`` are called, by id; who has no name is left out.

        A name comes from the column ``name`` of the table, or from the one that ``columns`` of
        :func:`~tensorucb.campaign.read_campaign_data` says.
        """
        kinds = {many: kind for kind, many in PLURAL.items()}
        check_choice("table", table, (*kinds, "users"))
        with self._handle.read() as view:
            if table != "users":
                return dict(view.catalogue(kinds[table]).names)
            user_names = [] if view.user_columns is None else view.user_columns.names
            ids = view.network.graph.ids.tolist()
            return {user: name for user, name in zip(ids, user_names, strict=False) if name is not None}

    def segments(self) -> tuple[str, ...]:
        """Columns of the table of users that :meth:`progress` can split by."""
        with self._handle.read() as view:
            return () if view.user_columns is None else tuple(each.column for each in view.user_columns.segments)

    def strategy_costs(self) -> dict[int | str, float]:
        """What each strategy of the catalogue adds to the cost of contacting a user."""
        with self._handle.read() as view:
            strategies = view.catalogue("strategy")
            return dict(zip(strategies.ids, strategies.costs.tolist(), strict=True))

    def status(self) -> CampaignStatus:
        """Numbers of users, products and rounds."""
        with self._handle.read() as view:
            return status(view)

    def progress(
        self,
        *,
        product: int | str | None = None,
        strategy: int | str | None = None,
        since: float | datetime | str | None = None,
        until: float | datetime | str | None = None,
        segment: str | None = None,
    ) -> CampaignProgress:
        """How it is going: responses beside expectation by round and in total, reach, spend, lift, calibration.

        Parameters
        ----------
        product, strategy
            Only rounds for this product, and rounds in which somebody got this strategy.
        since, until
            Only rounds that were opened from one moment on and before another: unix seconds, a datetime, or a text such
            as ``2026-11-17``, by the campaign's time zone.
        segment
            A column of the table of users, one of :meth:`segments`: ``segments`` of the answer splits the numbers by
            what it says of the contacted users.
        """
        with self._handle.read() as view:
            return progress(view, read_selection(view, product, strategy, since, until, segment))

    def attention(self) -> tuple[Notice, ...]:
        """What needs a person today, the most urgent first, such as a round that is past its deadline."""
        return attention(self._handle)

    def rounds(self) -> tuple[Ask, ...]:
        """All rounds by number, imported history included."""
        with self._handle.read() as view:
            return tuple(record.seen(view.network).of(self) for record in view.rounds())

    def round(self, round_id: str | int | Ask) -> Ask:
        """One round, by its id or its number."""
        with self._handle.read() as view:
            return view.round(named_round(round_id)).seen(view.network).of(self)

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
        audience_rest: Duration | None = None,
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
        proposal: str | None = None,
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
        audience_rest
            Let followers rest: leave out users more than half of whose followers were addressed less than this long
            ago, in rounds not cancelled; 0 for nobody. ``Ask.fatigue`` suggests one when it is time.
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
        proposal
            ``Preview.proposal``: open the round of that preview. If others would be chosen by now, or other users held
            out, nothing is opened, and an error says so.
        """
        arguments = {name: value for name, value in locals().items() if name != "self"}
        from tensorucb.campaign._ask import open_round  # compiled kernels, which nothing else here needs

        network, record = open_round(self._handle, arguments)
        return record.seen(network).of(self)

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
        audience_rest: Duration | None = None,
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
        proposal: str | None = None,
    ) -> Preview:
        """What :meth:`ask` with the same arguments would choose now, and what to expect of it; nothing is opened.

        With ``users``, what to expect of exactly these users, beside the campaign's own choice. Asking straight after
        a preview gives the same seeds. A preview only reads the store, also where rounds are due: they stay open, and
        count as closed.
        """
        arguments = {name: value for name, value in locals().items() if name != "self"}
        from tensorucb.campaign._ask import preview

        return preview(self._handle, arguments)

    def explain(self, round_id: str | int | Ask, user: int | str | None = None) -> Explanation | RoundExplanation:
        """Say why a user was or was not chosen in a round; without a user, explain all seeds."""
        with self._handle.read() as view:
            return explain(view, named_round(round_id), user)

    def tell(
        self,
        round_id: str | int | Ask,
        responses: Any,
        *,
        strict: bool = False,
        max_left_out: float = 0.5,
        columns: Mapping[str, str] | None = None,
    ) -> TellReport:
        """Store responses of a round, durably; again, late or in any order.

        Parameters
        ----------
        round_id
            What :meth:`ask` returned, its id, or the round's number.
        responses
            Edges (``source``, ``target``, ``outcome`` 0 or 1; optionally ``time``, ``event_id``, ``amount``) or node
            events (``user``, ``time``; optionally ``event_id``, ``amount``), as a polars, pandas or Arrow frame, a
            mapping of columns, a list of mappings, or the path of a CSV, NDJSON or Parquet file. Errors and reports
            name the lines of a text file (its header is line 1), and of everything else the rows, counted from 1. An
            ``amount`` is what the response brought: a number that is not negative, or nothing. One that comes later
            is added to the response that had none.
        strict, max_left_out
            Rows that cannot be used are left out and counted with their lines: malformed ones, and those that name a
            user or an edge that is not in the network, or a source that was not contacted. If they are more than the
            share ``max_left_out`` of all rows, or with ``strict`` a single one, nothing is stored, and an error says
            why. Rows that were told before are no fault: telling again is always safe.
        columns
            Names of columns by field, where they are not called so: ``{"user": "buyer", "time": "bought_at"}``. Names
            that were given for ``actions`` and ``edges`` when the campaign was created need not be given again.

        Returns
        -------
        TellReport
            A row that was told before is counted as duplicate. One that disagrees with an earlier one is reported
            with both values, and the earlier one stands.
        """
        return tell(self._handle, named_round(round_id), responses, Tolerance.of(strict, max_left_out), columns)

    def tell_log(
        self,
        responses: Any,
        *,
        strict: bool = False,
        max_left_out: float = 0.5,
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
        strict, max_left_out, columns
            As in :meth:`tell`; users who are not in the network count where their rows belong to a round.

        Returns
        -------
        TellLogReport
            Everything is stored, or nothing. Sending the same log again, in any order and in any parts, changes
            nothing.
        """
        return tell_log(self._handle, responses, Tolerance.of(strict, max_left_out), columns)

    def close(self, round_id: str | int | Ask, *, early: bool = False) -> Ask:
        """Close a round: silence becomes "no", and the model learns it. Closing again changes nothing.

        In the first half of the time until its deadline or the end of its window, with more than a day left, a round
        is closed only if ``early`` says that it is meant. What comes later still counts, and is learned again.
        """
        check_flag("early", early)
        now = self.clock()
        with self._handle.change(now) as view:
            network, record = view.network, view.round(named_round(round_id))
            if record.status == "cancelled":
                raise StateError(f"round {record.number} was cancelled; there is nothing to close.")
            was_open = record.status == "open"
            if was_open and not early and record.is_early(now):
                days = round(((record.deadline or now) - now) / 86_400.0)
                raise EarlyCloseError(
                    f"responses to round {record.number} may come for another {days:,} days. Closed now, all silence "
                    'becomes a "no".',
                    advice=(
                        "Nothing was closed. Wait; it closes by itself. If you mean it, give ",
                        argument("early", True),
                        ".",
                    ),
                )
            if was_open:
                record = view.finish(record, "closed", now)
        if was_open:
            _log.info("campaign %r: round %d closed", self.name, record.number)
        self._handle.learn("close")
        keep_tally(self._handle)
        return record.seen(network).of(self)

    def cancel(self, round_id: str | int | Ask) -> Ask:
        """Cancel an open round: nobody counts as contacted, nothing is learned. Cancelling again changes nothing.

        A closed round can be cancelled only if it could not be learned (``status().quarantined`` names such rounds).
        """
        now = self.clock()
        with self._handle.change(now) as view:
            record = view.round(named_round(round_id))
            left_out = record.id in view.ledger.quarantined()
            if record.status == "closed" and not left_out:
                raise StateError(
                    f"round {record.number} is closed, or its deadline has passed: its responses are learned, and it "
                    "cannot be cancelled."
                )
            if record.status == "open" or left_out:
                record = view.finish(record, "cancelled", now)
            return record.seen(view.network).of(self)

    def expire(self, now: float | None = None) -> list[str]:
        """Close the rounds whose deadline has passed; returns their ids. Other calls do so by themselves."""
        moment = self.clock() if now is None else check_moment("now", now)
        with self._handle.read() as view:
            due = view.ledger.due(moment)
        if not due:
            return []
        with self._handle.write(moment) as view:
            return view.expired

    def probabilities(self, product: Any) -> NDArray[np.float64]:
        """What is believed of every edge for a product, exploration left out, in graph order.

        The numbers behind `Ask.reach` and `explain`: a user's expected responses alone are the sum over their edges.

        ``product`` is as :meth:`ask` takes it, so that ``("lamp", "email")`` gives the belief for a strategy.
        """
        with self._handle.learned() as view:
            context = read_context(product, *view.catalogues())
            check_sizes(view.ledger, view.catalogues(), context.sizes(None))
            return self._handle.model.policy.prediction(contexts(context.vectors, None)[0]).expected()

    def add_products(self, ids: ArrayLike, features: Any, values: ArrayLike | None = None) -> None:
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
        values
            What a response to each of them is worth, in a campaign whose products have values. A product that the
            catalogue has already gets the new value, which counts for rounds that are opened from now on.
        """
        add_products(self._handle, ids, features, values)

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
        extend(self._handle, "strategy", ids, features, costs=costs)

    def add_users(
        self,
        ids: ArrayLike,
        features: Any = None,
        sources: ArrayLike = (),
        targets: ArrayLike = (),
        *,
        costs: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        values: ArrayLike | None = None,
        consent: ArrayLike | None = None,
    ) -> None:
        """Add users (possibly none) and edges ``sources → targets`` between any users.

        The model is learned again on the new network. Rounds that were asked before do not take a new edge's silence
        for a "no". In a campaign with a `UserProfile`, ``features`` are those of the profile, or a profile: what it
        leaves out of taste, credit, exposure and coordinates is zero. In a campaign that was created from files,
        ``features`` may be a polars, pandas or Arrow table with the columns of the table of users, or be left out:
        what it does not tell (degrees, past response) is that of an average user. A column ``user`` (or ``id``) of a
        table says whose each row is; without it rows are in the order of ``ids``. ``consent`` is as in
        ``create_campaign``; a table has it in the column that was named there. Who does not come with it has not
        consented. What somebody said before they joined (:meth:`opt_out`) holds from now on. What a table says to
        people who look, names and columns that split users, is kept as at the creation.
        """
        columns = {"costs": costs, "groups": groups, "values": values, "consent": consent}
        add_users(self._handle, ids, features, (sources, targets), columns)

    def set_costs(self, costs: Mapping[int | str, float]) -> None:
        """Change what strategies (channels, offers …) cost from now on, by id; the log keeps the date and both costs.

        What past rounds have spent stays what it was.
        """
        set_costs(self._handle, costs)

    def opt_out(self, users: Any, *, everywhere: bool = False) -> OptReport:
        """Never contact these people again: no round chooses them, and a list that names them is refused.

        Parameters
        ----------
        users
            Ids, or a table with a column ``user``: a frame, or the path of a file. Those who are no users are counted
            and kept, in case they join.
        everywhere
            For all campaigns of the store, also those that are created later.

        Notes
        -----
        Of an opt-out the store keeps a keyed hash of the id, and no id. It outlives :meth:`forget`, so that the person
        is not contacted if they come back with another file; :meth:`opt_in` removes it.
        """
        return opt(self._handle, users, everywhere, "no")

    def opt_in(self, users: Any, *, everywhere: bool = False) -> OptReport:
        """Undo :meth:`opt_out`; in a campaign with ``consent`` this is consent as well.

        With ``everywhere``, for all campaigns of the store, what single campaigns were told included.
        """
        return opt(self._handle, users, everywhere, "yes")

    def opted_out(self) -> tuple[int | str, ...]:
        """Ids of the users who opted out of this campaign, or of all campaigns of the store."""
        with self._handle.read() as view:
            return tuple(view.network.ids(np.flatnonzero(said(view).opted_out)))

    def why_not(self, user: int | str) -> str | None:
        """Why a user may not be contacted now, under the campaign's defaults; None if they may.

        "has opted out", "was contacted within the cooldown, which lasts until 2026-11-20 09:00 UTC" …
        """
        with self._handle.read() as view:
            row = int(view.network.rows("user", [check_id("user", user)])[0])
            return barred_by_default(view).why(row)

    def import_history(
        self,
        responses: Any,
        product: Any = None,
        *,
        window: Duration | None = None,
        strict: bool = False,
        max_left_out: float = 0.5,
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
            others did not. Rows whose product is not in the catalogue are counted and left out. A field ``amount``
            tells what a purchase brought, as in :meth:`tell`.
        product
            The product of all rows, as :meth:`ask` takes it: an id or features, alone or with a strategy.
        window
            For a log: how long after a purchase a follower's own one is a response (default the campaign's; if that
            has none, any later purchase is).
        strict, max_left_out, columns
            As in :meth:`tell`.

        Returns
        -------
        HistoryReport
            Importing the same again changes nothing.
        """
        tolerance = Tolerance.of(strict, max_left_out)
        return import_history(self._handle, responses, product, window, tolerance, columns)

    def lift(self) -> Lift:
        """Compare followers of contacted and of held-out users; see :class:`~tensorucb.campaign.Lift`."""
        with self._handle.read() as view:
            return lift_of(view)

    def plan_lift(
        self,
        product: Any = None,
        k: int | None = None,
        *,
        holdout: float | None = None,
        rounds: int | None = None,
        effect: float | None = None,
        power: float = 0.8,
    ) -> LiftPlan:
        """Say how many rounds with a hold-out show which effect of contact, before the first round or later.

        Once ten followers have responded in rounds with a hold-out, the plan is for rounds like these. Before, it is
        for the users that would be chosen now, whose followers respond as expected without contact too: the most
        careful assumption.

        Parameters
        ----------
        product, k, holdout
            As in :meth:`ask`; by default the campaign's defaults, otherwise 10 users and a hold-out of 0.2. Users get
            the best of all strategies, if there are any.
        rounds, effect, power
            As in :func:`~tensorucb.campaign.plan_lift`: what is asked for is left out.
        """
        defaults = self.settings.get("ask", {})
        users = (defaults.get("k") or 10) if k is None else check_count("k", k, 2, 1_000)
        share = (defaults.get("holdout") or 0.2) if holdout is None else holdout
        terms: dict[str, Any] = {"users": users, "holdout": share, "rounds": rounds, "effect": effect, "power": power}
        with self._handle.read() as view:
            past = past_rounds(view)
        if past is not None:
            return plan_from(past, **terms)
        with self._handle.read() as view:
            given = read_context(product, *view.catalogues()).vectors
        offers = "all" if len(given) == 1 and self.strategies() and "strategies" not in defaults else None
        # All of them, also where the campaign's default is to hold some of them out.
        chosen = self.preview(product, users, strategies=offers, holdout=0.0)
        graph = self.graph
        rows = graph.rows(list(chosen.seeds))
        followers = followers_of(graph, rows)
        # The reach counts all their followers, not only those of exactly one of them.
        audience = np.setdiff1d(graph.targets[graph.out_edges(rows)], rows)
        return plan_lift(followers, min(chosen.reach.mean / audience.size, 0.5), **terms)

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

        :meth:`close` and late responses to a short past do so too; those to a long past wait until a round closes and a
        twentieth of the rounds has changed. This call takes them in now.
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect()

    def __repr__(self) -> str:
        return f"Campaign({self.name!r}, {self.store.masked_url})"
