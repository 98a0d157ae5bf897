"""Campaigns by the address of their store: create, load, list, copy, delete."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from tensorucb.campaign import Campaign, CampaignInfo
from tensorucb.campaign._create import copy, create, infos
from tensorucb.campaign._store import Store
from tensorucb.checks import check_flag, check_path, check_text, shown
from tensorucb.errors import InputError, StoreError, UnknownIdError
from tensorucb.store._open import open_store

if TYPE_CHECKING:
    from tensorucb.graph import Graph
    from tensorucb.policies import Policy

__all__ = ["copy_campaign", "create_campaign", "delete_campaign", "list_campaigns", "load_campaign"]

STORAGE = "sqlite:///campaigns.db"


def _opened(storage: str | os.PathLike[str] | Store, *, make: bool, name: str = "storage") -> Store:
    if isinstance(storage, os.PathLike):
        return open_store(f"sqlite:///{check_path(name, storage)}", create=make)
    if not isinstance(storage, str) and not (hasattr(storage, "read") and hasattr(storage, "write")):
        raise InputError(
            f"{name} must be a storage URL, the path of a SQLite file or an open store; got {shown(storage)}."
        )
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
    storage: str | os.PathLike[str] | Store = STORAGE,
    load_if_exists: bool = False,
    products: Mapping[int | str, Sequence[float]] | None = None,
    strategies: Mapping[int | str, Sequence[float]] | None = None,
    strategy_costs: Mapping[int | str, float] | None = None,
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
        ``sqlite:///file.db``, ``postgresql://…``, ``memory://``, the `pathlib.Path` of a SQLite file, or an open store.
    load_if_exists
        Load the campaign of that name, if there is one, instead of an error. The other arguments are not used then.
    products
        A catalogue: features by product id. More can be added at any time.
    strategies, strategy_costs
        A catalogue of strategies (channels, offers, discounts …): features by id, and what each adds to the cost of
        contacting a user, by default 0. ``ask`` chooses among them.
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
    check_text("name", name)
    check_flag("load_if_exists", load_if_exists)
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
                strategies=strategies,
                strategy_costs=strategy_costs,
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
        if isinstance(storage, str | os.PathLike):
            store.close()
        raise


def load_campaign(
    name: str,
    *,
    storage: str | os.PathLike[str] | Store = STORAGE,
    policy: Policy | None = None,
    clock: Callable[[], float] = time.time,
) -> Campaign:
    """Load a campaign; everything it needs is in the store, but for a policy of another package."""
    check_text("name", name)
    store = _opened(storage, make=False)
    try:
        return Campaign(store, name, policy=policy, clock=clock)
    except BaseException:
        if isinstance(storage, str | os.PathLike):
            store.close()
        raise


def list_campaigns(storage: str | os.PathLike[str] | Store = STORAGE) -> list[CampaignInfo]:
    """The campaigns of a store, oldest first."""
    store = _opened(storage, make=False)
    try:
        return infos(store)
    finally:
        if isinstance(storage, str | os.PathLike):
            store.close()


def copy_campaign(
    name: str,
    new_name: str,
    *,
    storage: str | os.PathLike[str] | Store = STORAGE,
    to: str | os.PathLike[str] | Store | None = None,
) -> None:
    """Copy a campaign with its whole log under a new name, into the same store or another one."""
    check_text("name", name)
    if name == check_text("new_name", new_name) and to is None:
        raise InputError(f"a copy in the same store needs another name than {shown(name)}.")
    source = _opened(storage, make=False)
    target = source if to is None else _opened(to, make=True, name="to")
    try:
        copy(source, name, target, new_name)
    finally:
        if isinstance(storage, str | os.PathLike):
            source.close()
        if isinstance(to, str | os.PathLike):
            target.close()


def delete_campaign(name: str, *, storage: str | os.PathLike[str] | Store = STORAGE) -> None:
    """Delete a campaign with its users, rounds, responses and log; it cannot be undone.

    The store's files are rewritten, so that nothing of the campaign stays in them. Exports and backups are not touched.
    """
    check_text("name", name)
    store = _opened(storage, make=False)
    try:
        with store.write() as session:
            record = session.campaign(name)
            if record is None:
                known = [other.name for other in session.campaigns()]
                raise UnknownIdError(
                    f"there is no campaign {shown(name)} in {store.masked_url}; it holds {shown(known or 'none')}."
                )
            session.delete_campaign(record.campaign)
        try:
            store.purge()
        except StoreError as error:
            raise StoreError(
                f"the campaign {name!r} is deleted, but the store's files may still hold parts of it ({error}) "
                "Then call tensorucb.store.open_store(…).purge()."
            ) from error
    finally:
        if isinstance(storage, str | os.PathLike):
            store.close()
