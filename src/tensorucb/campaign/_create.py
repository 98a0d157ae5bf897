"""A new campaign, and the copy of one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np
from numpy.typing import ArrayLike

from tensorucb.campaign._ask import span
from tensorucb.campaign._campaign import Campaign
from tensorucb.campaign._catalogue import PLURAL, Catalogue
from tensorucb.campaign._core import ERASING
from tensorucb.campaign._credit import check_credit
from tensorucb.campaign._model import SERVED, SNAPSHOTS
from tensorucb.campaign._policy import build_policy, policy_spec
from tensorucb.campaign._store import Store
from tensorucb.campaign._world import make_world, world_to_blob
from tensorucb.checks import check_callable, check_choice, check_count, check_mapping, check_share, check_text, shown
from tensorucb.errors import InputError, UnknownIdError
from tensorucb.graph import Graph
from tensorucb.graph._arguments import check_graph
from tensorucb.moments import check_moment
from tensorucb.policies import Policy

__all__ = ["CampaignInfo", "copy", "create", "infos"]


@dataclass(frozen=True)
class CampaignInfo:
    """One line of ``list_campaigns``."""

    name: str
    policy: str
    created: float
    rounds: int
    open: int


def create(
    store: Store,
    name: str,
    *,
    graph: Graph,
    users: ArrayLike | None,
    policy: Policy,
    products: Mapping[int | str, Sequence[float]] | None,
    strategies: Mapping[int | str, Sequence[float]] | None,
    strategy_costs: Mapping[int | str, float] | None,
    costs: ArrayLike | None,
    groups: ArrayLike | None,
    objective: str,
    credit: str,
    window: float | timedelta | None,
    epsilon: float,
    seed: int,
    snapshot_every: int,
    clock: Callable[[], float] = time.time,
) -> Campaign:
    """Write a new campaign into a store; parameters as in ``create_campaign``."""
    if not check_text("name", name).strip():
        raise InputError(f"a campaign needs a name; got {shown(name)}.")
    check_graph(graph)
    check_choice("objective", objective, ("cascade", "direct"))
    check_callable("clock", clock, "a function that gives unix seconds")
    spec = policy_spec(policy)
    seed = check_count("seed", seed, 0, 2**63 - 1)
    settings = {
        "format": 1,
        "seed": seed,
        "policy": spec,
        "objective": objective,
        "credit": check_credit(credit),
        "window": span("window", window),
        "epsilon": check_share("epsilon", epsilon, zero=False, one=False),
        "snapshot_every": check_count("snapshot_every", snapshot_every, 1),
    }
    world = make_world(graph, users, costs, groups)
    # Whatever the policy objects to shall be said now, not at the first ask.
    build_policy(spec, policy).bind(world.graph, world.users, np.random.default_rng([seed, 0]))
    catalogues = [_catalogue("product", products, None), _catalogue("strategy", strategies, strategy_costs)]
    now = check_moment("the clock's time", clock())
    with store.write() as session:
        number = session.insert_campaign(name, settings, now).campaign
        session.add_users(number, world.keys, world.graph.ids.tolist())
        session.put_blob(number, f"world-{world.revision:08d}", world_to_blob(world))
        for catalogue in catalogues:
            session.put_blob(number, PLURAL[catalogue.kind], catalogue.to_blob())
        counts = {"users": world.graph.n_nodes, "edges": world.graph.n_edges}
        session.append_event(number, "created", None, counts, now)
    return Campaign(store, name, policy=policy, clock=clock)


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


def infos(store: Store) -> list[CampaignInfo]:
    """All campaigns of a store, oldest first."""
    with store.read() as session:
        lines = []
        for record in session.campaigns():
            states = [r.status for r in session.rounds(record.campaign)]
            policy = str(record.settings["policy"]["type"])
            lines.append(CampaignInfo(record.name, policy, record.created, len(states), states.count("open")))
        return lines


def copy(source: Store, name: str, target: Store, new_name: str) -> None:
    """Copy a campaign with its whole log; snapshots are made again where it lands."""
    check_text("name", name)
    check_text("new_name", new_name)
    with source.read() as old:
        record = old.campaign(name)
        if record is None:
            raise UnknownIdError(f"there is no campaign {shown(name)} in {source.masked_url}.")
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
