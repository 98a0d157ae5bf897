"""Campaigns by the address of their store: create, load, list, copy."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from tensorucb.campaign import Campaign, CampaignInfo
from tensorucb.campaign._create import copy, create, infos
from tensorucb.campaign._store import Store
from tensorucb.errors import InputError
from tensorucb.store._open import open_store

if TYPE_CHECKING:
    from tensorucb.graph import Graph
    from tensorucb.policies import Policy

__all__ = ["copy_campaign", "create_campaign", "list_campaigns", "load_campaign"]

STORAGE = "sqlite:///campaigns.db"


def _opened(storage: str | Store, *, make: bool) -> Store:
    return open_store(storage, create=make) if isinstance(storage, str) else storage


def _exists(store: Store, name: str) -> bool:
    with store.read() as session:
        return session.campaign(name) is not None


def create_campaign(
    name: str,
    *,
    graph: Graph,
    users: ArrayLike | None = None,
    policy: Policy,
    storage: str | Store = STORAGE,
    load_if_exists: bool = False,
    products: Mapping[int | str, Sequence[float]] | None = None,
    costs: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    objective: str = "direct",
    credit: str = "any",
    window: float | timedelta | None = None,
    epsilon: float = 0.1,
    seed: int = 0,
    snapshot_every: int = 10,
    clock: Callable[[], float] = time.time,
) -> Campaign:
    """Create a campaign in a store.

    Parameters
    ----------
    name
        How it is called there.
    graph, users
        The network, and features of one row a user in the order of ``graph.ids``: an (n, d) array or a
        :class:`~tensorucb.features.UserProfile`. Both are stored.
    policy
        The policy; one of this package is stored by its settings, another must be passed to ``load_campaign`` again.
    storage
        ``sqlite:///file.db``, ``postgresql://…``, ``memory://``, or an open store.
    load_if_exists
        Load the campaign of that name, if there is one, instead of an error. The other arguments are not used then.
    products
        A catalogue: features by product id. More can be added at any time.
    costs, groups
        For each user what contacting costs, and a label; for budgets and quotas.
    objective
        What the choice counts. ``"direct"``, the default: responses of the contacted users' own followers. These are
        what a campaign observes, learns from and is judged by. ``"cascade"``: everybody who would become active in an
        independent cascade from there. Most of that happens on edges that the campaign never sees, so it stands on
        beliefs that no response corrects; choose it if responses are known to travel further.
    credit
        Who gets the credit for a node event: ``"any"`` contacted user with an edge to the one who acted, the
        ``"last"`` to act, or ``"shared"`` by believed probability.
    window
        How long after the contact an action counts, and after which a round closes by itself; None: no limit.
    epsilon
        Accuracy of the cascade objective's oracle.
    seed
        Seed of everything random.
    snapshot_every
        Rounds between snapshots of the model.
    clock
        Gives the time in unix seconds.

    Examples
    --------
    >>> from tensorucb.graph import Graph
    >>> from tensorucb.policies import HighDegree
    >>> graph = Graph.from_edges(["ann", "ann", "bob"], ["bob", "cid", "cid"])
    >>> campaign = create_campaign("spring", graph=graph, policy=HighDegree(), storage="memory://")
    >>> campaign.ask([1.0], 1).seeds
    ('ann',)
    """
    store = _opened(storage, make=True)
    try:
        if load_if_exists and _exists(store, name):
            return Campaign(store, name, policy=policy, clock=clock)
        try:
            return create(
                store,
                name,
                graph=graph,
                users=users,
                policy=policy,
                products=products,
                costs=costs,
                groups=groups,
                objective=objective,
                credit=credit,
                window=window,
                epsilon=epsilon,
                seed=seed,
                snapshot_every=snapshot_every,
                clock=clock,
            )
        except InputError:
            # Somebody else may have created it since we looked.
            if load_if_exists and _exists(store, name):
                return Campaign(store, name, policy=policy, clock=clock)
            raise
    except BaseException:
        if isinstance(storage, str):
            store.close()
        raise


def load_campaign(
    name: str,
    *,
    storage: str | Store = STORAGE,
    policy: Policy | None = None,
    clock: Callable[[], float] = time.time,
) -> Campaign:
    """Load a campaign; everything it needs is in the store, but for a policy of another package."""
    store = _opened(storage, make=False)
    try:
        return Campaign(store, name, policy=policy, clock=clock)
    except BaseException:
        if isinstance(storage, str):
            store.close()
        raise


def list_campaigns(storage: str | Store = STORAGE) -> list[CampaignInfo]:
    """The campaigns of a store, oldest first."""
    store = _opened(storage, make=False)
    try:
        return infos(store)
    finally:
        if isinstance(storage, str):
            store.close()


def copy_campaign(name: str, new_name: str, *, storage: str | Store = STORAGE, to: str | Store | None = None) -> None:
    """Copy a campaign with its whole log under a new name, into the same store or another one."""
    if name == new_name and to is None:
        raise InputError(f"a copy in the same store needs another name than {name!r}.")
    source = _opened(storage, make=False)
    target = source if to is None else _opened(to, make=True)
    try:
        copy(source, name, target, new_name)
    finally:
        if isinstance(storage, str):
            source.close()
        if isinstance(to, str):
            target.close()
