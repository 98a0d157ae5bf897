"""Campaigns by the address of their store: create, load, list, copy, delete."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tensorucb.campaign._campaign import Campaign
from tensorucb.campaign._catalogue import PLURAL, Catalogue
from tensorucb.campaign._credit import check_credit
from tensorucb.campaign._handle import ERASING, find_campaign
from tensorucb.campaign._model import SERVED, SNAPSHOTS
from tensorucb.campaign._policy import build_policy, policy_spec
from tensorucb.campaign._request import span
from tensorucb.campaign._world import World, make_world, world_to_blob
from tensorucb.checks import (
    check_callable,
    check_choice,
    check_count,
    check_flag,
    check_mapping,
    check_path,
    check_share,
    check_text,
    shown,
)
from tensorucb.errors import InputError, StoreError, UnknownIdError
from tensorucb.graph import Graph
from tensorucb.graph._arguments import check_graph
from tensorucb.moments import check_moment
from tensorucb.policies import Policy
from tensorucb.store import open_store
from tensorucb.store._protocol import Store

STORAGE = "sqlite:///campaigns.db"


@dataclass(frozen=True)
class CampaignInfo:
    """One line of `list_campaigns`."""

    name: str
    policy: str
    created: float
    rounds: int
    open: int


@contextmanager
def _opened(
    storage: str | os.PathLike[str] | Store, *, make: bool, keep: bool = False, name: str = "storage"
) -> Iterator[Store]:
    """The store at an address, closed after the block; with ``keep`` only if the block fails.

    A store that the caller opened is left open.
    """
    if isinstance(storage, os.PathLike):
        store: Store = open_store(f"sqlite:///{check_path(name, storage)}", create=make)
    elif isinstance(storage, str):
        store = open_store(storage, create=make)
    elif hasattr(storage, "read") and hasattr(storage, "write"):
        yield storage
        return
    else:
        raise InputError(
            f"{name} must be a storage URL, the path of a SQLite file or an open store; got {shown(storage)}."
        )
    try:
        yield store
    except BaseException:
        store.close()
        raise
    if not keep:
        store.close()


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
        The network, and features, one row per user in the order of ``graph.ids``: an (n, d) array or a
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
    with _opened(storage, make=True, keep=True) as store:
        if load_if_exists and _exists(store, name):
            return Campaign(store, name, policy=policy, clock=clock)
        check_graph(graph)
        check_callable("clock", clock, "a function that gives unix seconds")
        settings = {
            "format": 1,
            "seed": check_count("seed", seed, 0, 2**63 - 1),
            "policy": policy_spec(policy),
            "objective": check_choice("objective", objective, ("cascade", "direct")),
            "credit": check_credit(credit),
            "window": span("window", window),
            "epsilon": check_share("epsilon", epsilon, zero=False, one=False),
            "snapshot_every": check_count("snapshot_every", snapshot_every, 1),
        }
        world = make_world(graph, users, costs, groups)
        catalogues = [_catalogue("product", products, None), _catalogue("strategy", strategies, strategy_costs)]
        try:
            _write(store, name, settings, policy, world, catalogues, check_moment("the clock's time", clock()))
        except InputError:
            # Somebody else may have created it since we looked.
            if not (load_if_exists and _exists(store, name)):
                raise
        return Campaign(store, name, policy=policy, clock=clock)


def _write(
    store: Store,
    name: str,
    settings: Mapping[str, Any],
    policy: Policy,
    world: World,
    catalogues: Sequence[Catalogue],
    now: float,
) -> None:
    if not name.strip():
        raise InputError(f"a campaign needs a name; got {shown(name)}.")
    # What the policy objects to must be said now, not at the first ask.
    rng = np.random.default_rng([settings["seed"], 0])
    build_policy(settings["policy"], policy).bind(world.graph, world.users, rng)
    with store.write() as session:
        number = session.insert_campaign(name, settings, now).campaign
        session.add_users(number, world.keys, world.graph.ids.tolist())
        session.put_blob(number, f"world-{world.revision:08d}", world_to_blob(world))
        for catalogue in catalogues:
            session.put_blob(number, PLURAL[catalogue.kind], catalogue.to_blob())
        counts = {"users": world.graph.n_nodes, "edges": world.graph.n_edges}
        session.append_event(number, "created", None, counts, now)


def _catalogue(
    kind: str, entries: Mapping[int | str, Sequence[float]] | None, costs: Mapping[int | str, float] | None
) -> Catalogue:
    """The catalogue at the start: features by id, and costs by id where there are any."""
    many = PLURAL[kind]
    named = {} if entries is None else check_mapping(many, entries, f"a mapping of {kind} ids to features")
    prices = {} if costs is None else check_mapping(f"{kind}_costs", costs, f"a mapping of {kind} ids to costs")
    strange = [entry for entry in prices if entry not in named]
    if strange:
        raise UnknownIdError(f"{kind}_costs names {shown(strange[0])}, which is not among the {many}.")
    if not named:
        return Catalogue(kind)
    return Catalogue(kind).extended(list(named), list(named.values()), [prices.get(entry, 0.0) for entry in named])


def load_campaign(
    name: str,
    *,
    storage: str | os.PathLike[str] | Store = STORAGE,
    policy: Policy | None = None,
    clock: Callable[[], float] = time.time,
) -> Campaign:
    """Load a campaign; everything it needs is in the store, except a policy of another package."""
    check_text("name", name)
    with _opened(storage, make=False, keep=True) as store:
        return Campaign(store, name, policy=policy, clock=clock)


def list_campaigns(storage: str | os.PathLike[str] | Store = STORAGE) -> list[CampaignInfo]:
    """List the campaigns of a store, oldest first."""
    with _opened(storage, make=False) as store, store.read() as session:
        lines = []
        for record in session.campaigns():
            states = [r.status for r in session.rounds(record.campaign)]
            policy = str(record.settings["policy"]["type"])
            lines.append(CampaignInfo(record.name, policy, record.created, len(states), states.count("open")))
        return lines


def copy_campaign(
    name: str,
    new_name: str,
    *,
    storage: str | os.PathLike[str] | Store = STORAGE,
    to: str | os.PathLike[str] | Store | None = None,
) -> None:
    """Copy a campaign with its whole log under a new name, into the same store or another one.

    Snapshots of the model are not copied: the copy makes its own.
    """
    check_text("name", name)
    if name == check_text("new_name", new_name) and to is None:
        raise InputError(f"a copy in the same store needs another name than {shown(name)}.")
    with _opened(storage, make=False) as source:
        if to is None:
            _copy(source, name, source, new_name)
            return
        with _opened(to, make=True, name="to") as target:
            _copy(source, name, target, new_name)


def _copy(source: Store, name: str, target: Store, new_name: str) -> None:
    with source.read() as old:
        record = find_campaign(old, source, name)
        users, rounds, events = old.users(record.campaign), old.rounds(record.campaign), old.events(record.campaign)
        names = [n for n in old.blobs(record.campaign) if not n.startswith((SNAPSHOTS, SERVED, ERASING))]
        blobs = {name: old.blob(record.campaign, name) for name in names}
        told = {r.number: old.edge_responses(record.campaign, r.number) for r in rounds}
        acted = {r.number: old.node_events(record.campaign, r.number) for r in rounds}
    with target.write() as new:
        number = new.insert_campaign(new_name, record.settings, record.created).campaign
        new.add_users(number, *users)
        for blob_name, data in blobs.items():
            new.put_blob(number, blob_name, data or b"")
        seqs = {e.seq: new.append_event(number, e.kind, e.round, e.payload, e.created) for e in events}
        last = max(seqs.values(), default=0)
        for r in rounds:
            new.put_round(number, replace(r, revision=seqs.get(r.revision, last)))
            new.add_edge_responses(number, r.number, told[r.number], last)
            new.add_node_events(number, r.number, acted[r.number], last)


def delete_campaign(name: str, *, storage: str | os.PathLike[str] | Store = STORAGE) -> None:
    """Delete a campaign with its users, rounds, responses and log; it cannot be undone.

    The store's files are rewritten, so that nothing of the campaign stays in them. Exports and backups are not touched.
    """
    check_text("name", name)
    with _opened(storage, make=False) as store:
        with store.write() as session:
            session.delete_campaign(find_campaign(session, store, name).campaign)
        try:
            store.purge()
        except StoreError as error:
            raise StoreError(
                f"the campaign {name!r} is deleted, but the store's files may still hold parts of it ({error}) "
                "Then call tensorucb.store.open_store(…).purge()."
            ) from error
