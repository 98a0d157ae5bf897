"""What an ask would choose and what to expect of it; nothing is opened."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from tensorucb.campaign._ask import prepare, propose
from tensorucb.campaign._catalogue import strategy_names
from tensorucb.campaign._explain import RoundExplanation, explain_seeds
from tensorucb.campaign._handle import Handle
from tensorucb.campaign._reach import Reach
from tensorucb.errors import InputError


@dataclass(frozen=True)
class Preview:
    """Who would be chosen in a round, and what would be expected of it.

    A hold-out is drawn only when the round is opened. So ``seeds`` holds everybody who would be chosen, and ``reach``
    and ``cost`` are what to expect if all of them are contacted.

    Attributes
    ----------
    seeds
        Ids of the users in the order of choice, or as they were given.
    strategies
        For each of ``seeds`` the id of the strategy they would get; None without strategies of the catalogue.
    product
        The product's id, if it was given by id.
    reach
        How many users will respond, with an interval.
    best
        The same of the campaign's own choice; ``reach`` itself if no users were given.
    cost
        What contacting them costs; None if nothing has a cost.
    explanation
        Why each of them was chosen.

    Examples
    --------
    >>> import tensorucb as tu
    >>> graph = tu.Graph.from_edges(["ann", "ann", "bob"], ["bob", "cid", "cid"])
    >>> campaign = tu.create_campaign("spring", graph=graph, storage="memory://")
    >>> campaign.preview(k=1).seeds, campaign.preview(users=["bob"]).difference < 0.0
    (('ann',), True)
    """

    seeds: tuple[int | str, ...]
    strategies: tuple[int | str, ...] | None
    product: int | str | None
    reach: Reach
    best: Reach
    cost: float | None
    explanation: RoundExplanation

    @property
    def difference(self) -> float:
        """Expected reach minus that of the campaign's own choice: -0.8 means 0.8 responders fewer.

        It may be above 0: the campaign's own choice also counts what there is to learn.
        """
        return self.reach.mean - self.best.mean


def preview(handle: Handle, given: Mapping[str, Any]) -> Preview:
    """What `Campaign.ask` with these arguments would choose now.

    It only reads the store: an ask would close due rounds first, so they count as closed here.
    """
    if given["shadow"] is not None:
        raise InputError(
            "has users who were contacted by others, and a preview is of users to contact.",
            argument="shadow",
            advice="Leave it out.",
        )
    with handle.lock, ExitStack() as until_chosen:
        now = handle.clock()
        with handle.read() as view:
            until_chosen.enter_context(view.ledger.with_due_closed(now))
            network = view.network
            request, past, _, _ = prepare(handle, view, {**given, "request_id": None}, now)
        request = replace(request, holdout=0.0)
        record, evidence = propose(handle, network, request, past, now)
        best = record
        if request.users is not None:
            best, _ = propose(handle, network, replace(request, users=None, user_strategies=None), past, now)
    payload = record.payload
    names = strategy_names(payload, "seeds")
    return Preview(
        seeds=tuple(network.ids(payload["seeds"])),
        strategies=None if names is None else tuple(names[key] for key in payload["seeds"]),
        product=payload["product"]["id"],
        reach=Reach(**payload["reach"]),
        best=Reach(**best.payload["reach"]),
        cost=payload["cost"],
        explanation=explain_seeds(network, record, evidence),
    )
