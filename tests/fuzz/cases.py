"""Public callables with valid arguments, of which the fuzz replaces one at a time."""
# ruff: noqa: PIE800  (several entries on one line)

from __future__ import annotations

import inspect
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tensorucb import data, diffusion, experiments, features, oracle, plots, policies, truth
from tensorucb.campaign import (
    Campaign,
    copy_campaign,
    create_campaign,
    delete_campaign,
    list_campaigns,
    load_campaign,
    plan_lift,
    read_campaign_data,
)
from tensorucb.files import read_state, write_state
from tensorucb.graph import Graph
from tensorucb.learner import TensorRegression
from tensorucb.policies.registry import class_files
from tensorucb.rng import as_generator, stream_key
from tensorucb.store import MemoryStore, open_store


@dataclass(frozen=True)
class Case:
    """A callable by keyword, its valid arguments, and what of its result must hold."""

    call: Callable[..., Any]
    valid: dict[str, Any]
    signature: Any = None
    unit: bool = False
    infinite: bool = False
    writes: bool = False
    raises: tuple[type[BaseException], ...] = ()


class World:
    """Small things of every kind, made once."""

    def __init__(self) -> None:
        self.sandbox = data.make_sandbox(12, 40, 4, 3, rng=0)
        self.graph = self.sandbox.graph
        self.users = self.sandbox.users
        self.product = self.sandbox.products[0]
        self.p = self.sandbox.probabilities(0)
        self.users_log, self.items, self.times = self.sandbox.action_log(None, 0)
        self.log = data.ActionLog.from_arrays(self.users_log, self.items, self.times, range(4))
        self.dataset = data.Dataset(self.graph, self.log, "small", "1s")
        self.mixtures = self.sandbox.mixtures
        self.settings = experiments.WorldSettings(k=2, worlds=4)
        self.environment = experiments.Environment.from_sandbox(self.sandbox, settings=self.settings)
        self.experiment = experiments.run_experiment(
            self.environment, {"Random": policies.Random()}, rounds=2, runs=2, seed=0
        )

    @cached_property
    def campaign(self) -> Campaign:
        made = new_campaign(self, MemoryStore())
        made.tell(made.ask([0.2, 0.3, 0.5], 2).id, [])
        return made

    def fingerprint(self) -> Any:
        campaign = self.campaign
        return campaign.status(), campaign.products(), [(r.id, r.status) for r in campaign.rounds()]


def new_campaign(world: World, store: Any, name: str = "spring", **more: Any) -> Campaign:
    options: dict[str, Any] = {
        **{"graph": world.graph, "users": world.users, "policy": policies.LinUCB(), "objective": "direct"},
        **{"products": {"tea": [0.1, 0.2, 0.7], "mate": [0.5, 0.3, 0.2]}, "costs": np.ones(12), "groups": ["x"] * 12},
        **{"credit": "any", "window": None, "epsilon": 0.5, "seed": 0, "snapshot_every": 5, "clock": lambda: 1e9},
    }
    return create_campaign(name, storage=store, **{**options, **more})


CASES: dict[str, Callable[[World], Case]] = {}


def case(name: str) -> Callable[[Callable[[World], Case]], Callable[[World], Case]]:
    def keep(make: Callable[[World], Case]) -> Callable[[World], Case]:
        CASES[name] = make
        return make

    return keep


def simple(name: str, call: Callable[..., Any], valid: Callable[[World], dict[str, Any]], **flags: Any) -> None:
    CASES[name] = lambda world: Case(call, valid(world), **flags)


# -- graph --

_IDS = {"sources": ["ann", "bob"], "targets": ["bob", "cid"]}
simple(
    "graph.Graph.from_edges",
    Graph.from_edges,
    lambda w: {**_IDS, "nodes": ["cid", "bob", "ann"], "self_loops": "error", "attributes": {"weight": [1.0, 2.0]}},
)
simple(
    "graph.Graph",
    Graph,
    lambda w: {
        **{"n_nodes": 2, "sources": np.array([0], np.int32), "targets": np.array([1], np.int32), "ids": np.arange(2)},
        **{"edge_attributes": {"a": np.ones(1)}, "merged_edges": 0, "dropped_self_loops": 0},
    },
)


@case("graph.Graph.read kept")
def _(w: World) -> Case:
    pl.DataFrame({"source": [0, 1], "target": [1, 2], "weight": [1.0, 2.0]}).write_csv("edges.csv")
    rules = {"nodes": None, "self_loops": "drop", "id_type": "auto", "separator": ",", "cache": "kept"}
    columns = {"source": "source", "target": "target", "attributes": ["weight"]}
    return Case(Graph.read, {"path": "edges.csv", **columns, **rules}, writes=True)


@case("graph.Graph.read")
def _(w: World) -> Case:
    pl.DataFrame({"source": [0, 1], "target": [1, 2], "weight": [1.0, 2.0]}).write_csv("edges.csv")
    return Case(
        Graph.read,
        {
            **{
                "path": "edges.csv",
                "source": "source",
                "target": "target",
                "attributes": ["weight"],
                "nodes": [0, 1, 2],
            },
            **{"self_loops": "drop", "id_type": "auto", "separator": ",", "cache": None},
        },
    )


_FRAME = pl.DataFrame({"source": [0, 1], "target": [1, 2], "weight": [1.0, 2.0]})
simple(
    "graph.Graph.from_frame",
    Graph.from_frame,
    lambda w: {
        **{"frame": _FRAME, "source": "source", "target": "target", "attributes": ["weight"], "nodes": [0, 1, 2]},
        "self_loops": "drop",
    },
)


@case("graph.Graph.from_networkx")
def _(w: World) -> Case:
    import networkx as nx

    network = nx.DiGraph()
    network.add_edge(0, 1, weight=1.0)
    return Case(Graph.from_networkx, {"network": network, "attributes": ["weight"], "self_loops": "error"})


@case("graph.Graph.from_igraph")
def _(w: World) -> Case:
    import igraph

    network = igraph.Graph([(0, 1)], directed=True)
    return Case(Graph.from_igraph, {"network": network, "attributes": [], "self_loops": "error"})


@case("graph.Graph.from_scipy")
def _(w: World) -> Case:
    valid = {"matrix": w.graph.to_scipy(), "attribute": "weight", "nodes": w.graph.ids, "self_loops": "error"}
    return Case(Graph.from_scipy, valid)


CASES["graph.Graph.rows"] = lambda w: Case(w.graph.rows, {"ids": [0, 1]})
CASES["graph.Graph.edge_rows"] = lambda w: Case(
    w.graph.edge_rows, {"source_ids": w.graph.sources[:2], "target_ids": w.graph.targets[:2]}
)
CASES["graph.Graph.edge_between"] = lambda w: Case(w.graph.edge_between, {"source_rows": [0], "target_rows": [1]})
CASES["graph.Graph.out_edges"] = lambda w: Case(w.graph.out_edges, {"rows": [0, 1]})
CASES["graph.Graph.subgraph"] = lambda w: Case(w.graph.subgraph, {"ids": list(range(11))})
CASES["graph.Graph.to_scipy"] = lambda w: Case(w.graph.to_scipy, {"attribute": None})

# -- diffusion --

simple(
    "diffusion.direct_spread",
    diffusion.direct_spread,
    lambda w: {"graph": w.graph, "probabilities": w.p, "rows": [0, 1], "values": np.ones(12), "redundancy": 0.5},
)
simple(
    "diffusion.observe",
    diffusion.observe,
    lambda w: {
        **{"graph": w.graph, "probabilities": w.p, "rows": [0, 1], "feedback": "cascade", "rng": 0},
        "redundancy": 0.5,
        "model": "ic",
    },
    unit=False,
)
simple(
    "diffusion.simulate_cascade",
    diffusion.simulate_cascade,
    lambda w: {"graph": w.graph, "probabilities": w.p, "seeds_rows": [0], "rng": 0, "redundancy": 0.5, "model": "ic"},
)
simple(
    "diffusion.simulate_cascades",
    diffusion.simulate_cascades,
    lambda w: {
        **{"graph": w.graph, "probabilities": w.p, "seeds_rows": [0], "runs": 3, "rng": 0, "threads": 1},
        **{"values": np.ones(12), "redundancy": 0.5, "model": "ic"},
    },
)
simple(
    "diffusion.simulate_gains",
    diffusion.simulate_gains,
    lambda w: {
        **{"graph": w.graph, "probabilities": w.p, "seeds_rows": [0], "runs": 3, "rng": 0, "threads": 1},
        "redundancy": 0.5,
        "model": "ic",
    },
)
simple(
    "diffusion.spread",
    diffusion.spread,
    lambda w: {
        **{"graph": w.graph, "probabilities": w.p, "seeds_rows": [0], "runs": 3, "rng": 0, "level": 0.9},
        **{"values": None, "redundancy": 0.5, "model": "ic", "threads": 1},
    },
    infinite=True,
)
simple(
    "diffusion.LiveEdgePool",
    lambda **given: diffusion.LiveEdgePool(**given).spread([0]),
    lambda w: {
        "graph": w.graph,
        "probabilities": w.p,
        "worlds": 5,
        "rng": 0,
        "threads": 1,
        "redundancy": 0.5,
        "model": "ic",
    },
    signature=diffusion.LiveEdgePool,
)
for _name in ("reach", "spread"):
    CASES[f"diffusion.LiveEdgePool.{_name}"] = lambda w, name=_name: Case(  # type: ignore[misc]
        getattr(diffusion.LiveEdgePool(w.graph, w.p, 5, 0), name), {"rows": [0]}
    )

# -- oracle --

_SAMPLING = {"algorithm": "opim", "epsilon": 0.3, "delta": None, "quality": 10.0, "max_memory": 1e8}
_USERS = {"candidates": list(range(12)), "exclude": [11], "must_include": [0]}
_GROUPS = {"groups": ["x"] * 6 + ["y"] * 6, "quotas": {"x": 1, "y": 1}, "minima": {"y": 1}}
_MONEY = {"costs": np.ones(12), "budget": 3.0}

for _objective in ("cascade", "direct"):
    simple(
        f"oracle.select_seeds with {_objective}",
        oracle.select_seeds,
        lambda w, objective=_objective: {
            **{"graph": w.graph, "probabilities": w.p, "k": 2, "objective": objective, "values": np.ones(12)},
            **{"constraints": oracle.Constraints(**_USERS), "sampling": oracle.Sampling(**_SAMPLING)},
            **{"redundancy": 0.5, "model": "ic", "threads": 1, "rng": 0},
        },
        infinite=True,
    )
    simple(
        f"oracle.select_pairs with {_objective}",
        oracle.select_pairs,
        lambda w, objective=_objective: {
            **{"graph": w.graph, "probabilities": np.stack([w.p, w.p / 2]), "k": 2, "objective": objective},
            **{"constraints": oracle.Constraints(**_USERS), "sampling": oracle.Sampling(**_SAMPLING)},
            **{"values": None, "redundancy": 0.5, "spread": None, "count_seeds": True, "threads": 1, "rng": 0},
        },
        infinite=True,
    )
CASES["oracle.Sampling"] = lambda w: Case(
    lambda **given: oracle.select_seeds(w.graph, w.p, 2, sampling=oracle.Sampling(**given), rng=0),
    dict(_SAMPLING),
    signature=oracle.Sampling,
    infinite=True,
)
for _name, _more in (("users", _USERS), ("money", _MONEY), ("groups", _GROUPS), ("everything", _MONEY | _GROUPS)):
    CASES[f"oracle.Constraints of {_name}"] = lambda w, more=_more: Case(
        lambda **given: oracle.select_seeds(w.graph, w.p, 2, constraints=oracle.Constraints(**given), rng=0),
        dict(more),
        signature=False,
        infinite=True,
    )


def _oracle(**given: Any) -> Any:
    world_p = np.full(given["graph"].n_edges, 0.1) if isinstance(given["graph"], Graph) else []
    return oracle.SeedOracle(**given).select(world_p, 2)


simple(
    "oracle.SeedOracle",
    _oracle,
    lambda w: {
        **{"graph": w.graph, "objective": "cascade", "sampling": oracle.Sampling(**_SAMPLING)},
        **{"redundancy": 0.5, "model": "ic", "candidates": None, "threads": 1, "rng": 0},
    },
    signature=oracle.SeedOracle,
    infinite=True,
)
CASES["oracle.SeedOracle.select"] = lambda w: Case(
    oracle.SeedOracle(w.graph, rng=0, sampling=oracle.Sampling(quality=10.0)).select,
    {"probabilities": w.p, "k": 2, "candidates": list(range(12)), "must_include": [0], "redundancy": None},
    infinite=True,
)

# -- learner --


def _learner(**given: Any) -> Any:
    made = TensorRegression(**given)
    arrays = [np.ones((2, d)) for d in made.dims]
    groups = [np.zeros(2, dtype=np.int64) for _ in made.intercepts] or None
    made.update(arrays, [0.0, 1.0], groups)
    return made.predict(arrays, groups), made.bonus(arrays, groups)


simple(
    "learner.TensorRegression",
    _learner,
    lambda w: {
        **{"dims": (2, 3), "rank": 2, "likelihood": "gaussian", "noise_variance": 0.1, "prior_variance": 1.0},
        **{"init": "random", "intercepts": (), "order": "ranks"},
        **{"intercept_variance": 0.3, "tolerance": 1e-8, "max_sweeps": 20, "rng": 0},
    },
    signature=TensorRegression,
)


def _taught() -> TensorRegression:
    made = TensorRegression((2, 3), 2, intercepts=(4,), rng=0)
    made.update([np.ones((2, 2)), np.ones((2, 3))], [0.0, 1.0], [np.array([0, 1])])
    return made


_ROWS = {"features": [np.ones((2, 2)), np.ones((2, 3))], "groups": [np.array([0, 1])]}
CASES["learner.TensorRegression.update"] = lambda w: Case(_taught().update, {**_ROWS, "y": [0.0, 1.0]})
CASES["learner.TensorRegression.predict"] = lambda w: Case(_taught().predict, _ROWS)
CASES["learner.TensorRegression.bonus"] = lambda w: Case(_taught().bonus, _ROWS)
CASES["learner.TensorRegression.sample"] = lambda w: Case(_taught().sample, {"rng": 0})
CASES["learner.TensorRegression.save"] = lambda w: Case(_taught().save, {"path": "model.npz"}, writes=True)


@case("learner.TensorRegression.load")
def _(w: World) -> Case:
    _taught().save("saved.npz")
    return Case(TensorRegression.load, {"path": "saved.npz"})


# -- policies --

# Sizes that suit the small world; the other arguments are the policies' own.
SIZES: dict[str, dict[str, Any]] = {
    "DILinUCBOriginal": {"candidates": 5, "max_targets": 50},
    "IMFB": {"dim": 3},
    "LogisticUCB": {"max_rows": 1000},
    "PaperTensorUCB": {"rank": 2},
    "TensorUCB": {"rank": 2, "max_rows": 1000},
}
POLICIES: dict[str, dict[str, Any]] = {
    **{name: {**getattr(policies, name)().settings(), **SIZES.get(name, {})} for name in class_files()},
    "ForgetOnDrift": {"policy": policies.LinUCB(), "run_length": 2000.0, "warm_up": 3, "memory": 10},
}


def _bound(world: World, name: str, arguments: dict[str, Any]) -> Any:
    policy = getattr(policies, name)(**arguments)
    policy.bind(world.graph, world.users, 0)
    return policy


def _oracle_of(world: World) -> Any:
    return oracle.SeedOracle(world.graph, objective="direct", rng=0)


def _taught_policy(world: World, name: str, arguments: dict[str, Any]) -> Any:
    policy = _bound(world, name, arguments)
    rows = policy.choose(world.product, 2, _oracle_of(world))
    edges = world.graph.out_edges(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", policies.FixedPointWarning)
        policy.update(world.product, edges, (np.arange(edges.size) % 2).astype(float))
    return policy


def _policy_cases(name: str, arguments: dict[str, Any]) -> None:
    kind = getattr(policies, name)

    def tried(world: World) -> Callable[..., Any]:
        return lambda **given: _taught_policy(world, name, given).score(world.product)

    def bind(world: World) -> Callable[..., Any]:
        policy = getattr(policies, name)(**arguments)

        def call(**given: Any) -> Any:
            policy.bind(**given)
            return policy.score(world.product)

        return call

    def update(world: World) -> Callable[..., Any]:
        policy = _taught_policy(world, name, arguments)

        def call(**given: Any) -> Any:
            policy.update(**given)
            return policy.score(world.product)

        return call

    def restore(world: World) -> Callable[..., Any]:
        policy = _taught_policy(world, name, arguments)

        def call(state: Any) -> Any:
            policy.restore(state)
            return policy.score(world.product)

        return call

    if arguments:
        CASES[f"policies.{name}"] = lambda w: Case(tried(w), arguments, kind, unit=True)
    CASES[f"policies.{name}.bind"] = lambda w: Case(
        bind(w), {"graph": w.graph, "users": w.users, "rng": 0}, kind.bind, unit=True
    )
    CASES[f"policies.{name}.score"] = lambda w: Case(
        _taught_policy(w, name, arguments).score, {"product": w.product}, unit=True
    )
    CASES[f"policies.{name}.choose"] = lambda w: Case(
        _taught_policy(w, name, arguments).choose, {"product": w.product, "k": 2, "oracle": _oracle_of(w)}
    )
    history = {"passive": False} if "passive" in inspect.signature(kind.update).parameters else {}
    CASES[f"policies.{name}.update"] = lambda w: Case(
        update(w),
        {"product": w.product, "edges": [0, 1], "outcomes": [0.0, 1.0], **history},
        kind.update,
        unit=True,
    )
    CASES[f"policies.{name}.restore"] = lambda w: Case(
        restore(w), {"state": _taught_policy(w, name, arguments).state()}, kind.restore, unit=True
    )


for _name, _arguments in POLICIES.items():
    _policy_cases(_name, _arguments)

CASES["policies.TensorUCB.prediction"] = lambda w: Case(
    lambda product: _taught_policy(w, "TensorUCB", {"rank": 2}).prediction(product).expected(),
    {"product": w.product},
    unit=True,
)
simple("policies.DriftAlarm", policies.DriftAlarm, lambda w: {"run_length": 100.0})
CASES["policies.DriftAlarm.update"] = lambda w: Case(policies.DriftAlarm().update, {"misfit": 1.0})
CASES["policies.check_policy"] = lambda w: Case(
    policies.check_policy,
    {"factory": policies.Random, "rounds": 2, "k": 1, "modes": 1, "seed": 0},
    raises=(AssertionError,),  # its way to say what a policy does not do
)

# -- features --

simple(
    "features.user_profile",
    features.user_profile,
    lambda w: {
        **{"graph": w.graph, "log": w.log, "held_out": [0, 1], "mixtures": w.mixtures, "kinds": ("eigenmap", "degree")},
        "dim": 2,
    },
)
simple(
    "features.UserProfile",
    lambda **given: features.UserProfile(**given).matrix(),
    lambda w: {
        **{"features": np.ones((4, 2)), "taste": np.ones((4, 3)), "credit": np.ones((4, 3))},
        **{"exposure": np.ones((4, 3)), "coordinates": np.ones((4, 1)), "chances": np.ones((4, 3))},
    },
    signature=features.UserProfile,
)
simple(
    "features.eigenmap",
    features.eigenmap,
    lambda w: {"graph": w.graph, "dim": 2, "min_component_share": 0.1, "tolerance": 1e-3},
)
simple(
    "features.laplacian_eigenmap",
    features.laplacian_eigenmap,
    lambda w: {"graph": w.graph, "dim": 2, "min_component_share": 0.1, "tolerance": 1e-3},
)
simple("features.held_out_items", features.held_out_items, lambda w: {"log": w.log, "share": 0.5, "rng": 0})

simple("features.degree_features", features.degree_features, lambda w: {"graph": w.graph})
CASES["features.TopicModel.transform"] = lambda w: Case(
    features.TopicModel.fit(w.log, n_topics=2, n_nodes=12).transform, {"log": w.log, "items": [0, 1]}
)
simple(
    "features.TopicModel.fit",
    lambda **given: features.TopicModel.fit(**given).topics,
    lambda w: {"log": w.log, "items": [0, 1], "n_topics": 2, "n_nodes": 12, "rng": 0, "report": None},
    signature=features.TopicModel.fit,
)
simple(
    "features.cached",
    features.cached,
    lambda w: {"directory": "cache", "name": "n", "key": {"a": 1}, "compute": lambda: np.ones(2)},
    writes=True,
)

# -- truth --


def _log_of(w: World) -> dict[str, Any]:
    return {"graph": w.graph, "users": w.users_log, "items": w.items, "times": w.times, "window": "1s", "threads": 1}


simple("truth.activations", truth.activations, _log_of)
simple(
    "truth.fit_topic_aware_ic",
    truth.fit_topic_aware_ic,
    lambda w: {
        **{**_log_of(w), "mixtures": w.mixtures, "prior": (1.1, 3.0), "max_iterations": 3, "tolerance": 1e-3},
        **{"report": None},
    },
)
simple("truth.TopicAwareIC", truth.TopicAwareIC, lambda w: {"edge_topics": [[0.1, 0.2], [0.3, 0.4]]}, unit=False)
CASES["truth.TopicAwareIC.probabilities"] = lambda w: Case(
    truth.TopicAwareIC([[0.1, 0.2], [0.3, 0.4]]).probabilities, {"mixture": [0.5, 0.5]}, unit=True
)

# -- data --

simple(
    "data.make_sandbox",
    data.make_sandbox,
    lambda w: {
        **{"n_users": 10, "n_edges": 30, "n_products": 3, "n_topics": 2, "base_rate": 0.03, "product_effect": 1.5},
        **{"degree_shape": (3.0, 25.0, 100.0, 250.0), "n_strategies": 2, "strategy_effect": 1.0, "rng": 0},
    },
)
# Not their scale: many a value is a right one, and a network of that size takes long. `generate_dataset` has it too.
for _name in ("digg_like", "flixster_like"):
    simple(
        f"data.{_name}",
        lambda name=_name, **given: getattr(data, name)(0.001, **given),
        lambda w: {"rng": 0, "product_effect": 1.0, "n_strategies": 2, "strategy_effect": 1.0},
        signature=False,
    )
simple("data.generate_dataset", data.generate_dataset, lambda w: {"name": "sandbox", "scale": 0.05, "rng": 0})
simple(
    "data.prepare",
    data.prepare,
    lambda w: {
        **{"dataset": w.dataset, "min_interactions": 0, "drop_isolated": True, "window": "keep", "n_products": 2},
        "rng": 0,
    },
)
simple("data.describe", data.describe, lambda w: {"dataset": w.dataset})
simple("data.checksum", data.checksum, lambda w: {"dataset": w.dataset})
simple(
    "data.Dataset",
    lambda **given: data.describe(data.Dataset(**given)),
    lambda w: {"graph": w.graph, "log": w.log, "name": "n", "window": "1s", "report": data.Report()},
    signature=data.Dataset,
)
simple(
    "data.ActionLog.from_arrays",
    data.ActionLog.from_arrays,
    lambda w: {"users": [0, 1], "items": [0, 0], "times": [5, 6], "item_ids": [9]},
)
CASES["data.ActionLog.interactions"] = lambda w: Case(w.log.interactions, {"n_nodes": 12})
CASES["data.Sandbox.probabilities"] = lambda w: Case(
    data.make_sandbox(12, 40, 4, 3, n_strategies=2, rng=0).probabilities, {"product_index": 0, "strategy": 1}, unit=True
)
CASES["data.Sandbox.action_log"] = lambda w: Case(w.sandbox.action_log, {"items": [0], "rng": 0, "starters": 2})


@case("data.write_dataset")
def _(w: World) -> Case:
    whole = data.prepare(w.dataset, min_interactions=0)
    return Case(data.write_dataset, {"dataset": whole, "directory": "written", "form": "csv"}, writes=True)


@case("data.read_dataset")
def _(w: World) -> Case:
    data.write_dataset(data.prepare(w.dataset, min_interactions=0), "small", form="csv")
    return Case(data.read_dataset, {"directory": "small", "name": "n", "strict": True})


# -- experiments --

simple(
    "experiments.WorldSettings",
    experiments.WorldSettings,
    lambda w: {
        **{"k": 2, "objective": "direct", "feedback": "one_hop", "epsilon": 0.1, "algorithm": "opim", "worlds": 4},
        "seed": 0,
    },
)
simple(
    "experiments.Environment",
    lambda **given: experiments.Environment(**given).evaluate(0, [0]),
    lambda w: {
        **{"graph": w.graph, "users": w.users, "products": w.sandbox.products, "name": "n"},
        **{
            "probabilities": w.sandbox.probabilities,
            "settings": w.settings,
            "product_rows": [0, 1],
            "strategies": None,
        },
    },
    signature=experiments.Environment,
)


def _with_strategies(w: World) -> experiments.Environment:
    table = w.sandbox.probabilities(0)
    return experiments.Environment(
        w.graph, w.users, w.sandbox.products, lambda product, strategy: table, strategies=np.eye(2)
    )


CASES["experiments.Environment.evaluate"] = lambda w: Case(
    _with_strategies(w).evaluate, {"product": 0, "rows": [0, 1], "strategies": [1, 0]}
)
CASES["experiments.Environment.observe"] = lambda w: Case(
    _with_strategies(w).observe,
    {"product": 0, "rows": [0, 1], "strategies": [1, 0], "seed": 0, "run": 0, "round_number": 1},
)
CASES["experiments.Environment.with_users"] = lambda w: Case(w.environment.with_users, {"users": w.users})
simple(
    "experiments.run_policy",
    experiments.run_policy,
    lambda w: {
        **{"environment": w.environment, "policy": policies.Random(), "rounds": 2, "run": 0, "seed": 0},
        **{"label": "r", "each_round": None},
    },
)
simple(
    "experiments.run_experiment",
    experiments.run_experiment,
    lambda w: {
        **{"environment": w.environment, "policies": {"Random": policies.Random()}, "rounds": 2, "runs": 1},
        **{"seed": 0, "jobs": 1, "directory": None, "report": None},
    },
    writes=True,
)
simple(
    "experiments.tune",
    experiments.tune,
    lambda w: {
        **{"environment": w.environment, "policies": {"CUCB": policies.CUCB()}, "rounds": 2, "seed": 0},
        **{"grids": {"CUCB": {"exploration": [0.1, 1.0]}}, "jobs": 1, "directory": None, "report": None},
    },
    writes=True,
)
simple(
    "experiments.WorldWithNewcomers",
    experiments.WorldWithNewcomers,
    lambda w: {"environment": w.environment, "share": 0.5, "arrival": 1},
)
simple("experiments.mean_interval", experiments.mean_interval, lambda w: {"values": np.ones((3, 2))})
simple("experiments.average_regret", experiments.average_regret, lambda w: {"regret": [1.0, 2.0]})
simple(
    "experiments.round_regret",
    experiments.round_regret,
    lambda w: {"optimum": [2.0, 3.0], "spread": [1.0, 2.0]},
)
simple(
    "experiments.regret_bound",
    experiments.regret_bound,
    lambda w: {
        **{"rounds": [1, 2], "n_nodes": 10, "k": 2, "dims": (2, 2), "rank": 1, "exploration": 0.1},
        **{"noise_variance": 0.1, "smoothness": 1.0},
    },
)
simple(
    "experiments.exploration_condition",
    experiments.exploration_condition,
    lambda w: {"rounds": [1, 2], "k": 2, "dims": (2, 2), "rank": 1, "largest_weight": 1.0, "noise_variance": 0.1},
)
CASES["experiments.explain_seeds"] = lambda w: Case(
    experiments.explain_seeds,
    {"graph": w.graph, "policy": _taught_policy(w, "LinUCB", {}), "product": w.product, "rows": [0, 1]},
)
simple(
    "experiments.compare",
    experiments.compare,
    lambda w: {
        **{"environment": w.environment, "policies": ["Random"], "rounds": 2, "runs": 1, "validation_rounds": 1},
        **{"seed": 0, "jobs": 1, "directory": None, "report": None},
    },
    writes=True,
)
CASES["experiments.Experiment.curve"] = lambda w: Case(w.experiment.curve, {"policy": "Random"})
CASES["experiments.Experiment.final"] = lambda w: Case(w.experiment.final, {"policy": "Random", "last": 1})
simple(
    "experiments.write_csv",
    experiments.write_csv,
    lambda w: {"path": "written.out", "table": [{"policy": "LinUCB"}]},
    writes=True,
)

# -- plots --

simple("plots.degree_distribution", plots.degree_distribution, lambda w: {"degrees": {"a": [1, 2, 3]}})
simple(
    "features.TableFeatures.fit",
    features.TableFeatures.fit,
    lambda w: {
        "table": pl.DataFrame({"kind": ["a", "b", "a"], "price": [1.0, 2.0, 3.0]}),
        "kinds": {"kind": "category"},
    },
)
simple(
    "features.ProductFeatures.fit",
    features.ProductFeatures.fit,
    lambda w: {
        **{"table": pl.DataFrame({"kind": ["a", "b"]}), "topics": [[0.5, 0.5], [0.1, 0.9]]},
        "kinds": {"kind": "category"},
    },
)
simple(
    "data.make_shop",
    data.make_shop,
    lambda w: {
        **{"n_users": 20, "n_edges": 60, "n_products": 4, "today": "2026-05-20", "rng": 0},
    },
)
simple("plots.regret_curves", plots.regret_curves, lambda w: {"experiment": w.experiment, "title": "t"})
simple("plots.final_regret", plots.final_regret, lambda w: {"experiment": w.experiment, "last": 1, "title": "t"})
simple(
    "plots.runtime_over_size",
    plots.runtime_over_size,
    lambda w: {"milliseconds": {"a": [1.0, 2.0]}, "n_nodes": [10, 20]},
)
simple("plots.campaign_report", plots.campaign_report, lambda w: {"progress": w.campaign.progress()})
simple("plots.theme", plots.theme, lambda w: {"mode": "light"})

# -- files and random numbers --


@case("files.read_state")
def _(w: World) -> Case:
    write_state("state.npz", "test", {}, {"a": np.ones(2)})
    return Case(read_state, {"path": "state.npz", "kind": "test"})


# What it writes comes from the package itself; only the path is a caller's.
simple(
    "files.write_state",
    lambda path: write_state(path, "test", {}, {"a": np.ones(2)}),
    lambda w: {"path": "new.npz"},
    writes=True,
)
simple("rng.as_generator", as_generator, lambda w: {"rng": 0})
simple("rng.stream_key", stream_key, lambda w: {"rng": np.random.default_rng(0)})

# -- stores and campaigns --

simple("store.MemoryStore", MemoryStore, lambda w: {"timeout": 1.0, "name": ""})


@case("campaigns.delete_campaign")
def _(w: World) -> Case:
    store = MemoryStore()
    new_campaign(w, store)
    return Case(delete_campaign, {"name": "spring", "storage": store}, writes=True)


simple(
    "store.open_store", open_store, lambda w: {"url": "memory://", "create": True, "timeout": 1.0, "read_only": False}
)


@case("campaigns.create_campaign")
def _(w: World) -> Case:
    def call(**given: Any) -> Any:
        if isinstance(given["storage"], str) and given["storage"] == "memory://":
            given["storage"] = MemoryStore()
        made = create_campaign(**given)
        return made.ask(([0.2, 0.3, 0.5], [1.0, 0.0]), 2).seeds

    valid = {
        **{"name": "spring", "graph": w.graph, "users": w.users, "policy": policies.LinUCB(), "storage": "memory://"},
        **{"load_if_exists": True, "products": {"tea": [0.1, 0.2, 0.7]}, "costs": np.ones(12), "groups": ["x"] * 12},
        **{"objective": "direct", "credit": "any", "window": "60s", "epsilon": 0.3, "seed": 0, "snapshot_every": 5},
        **{"strategies": {"call": [1.0, 0.0], "visit": [0.0, 1.0]}, "strategy_costs": {"visit": 2.0}},
        **{"clock": lambda: 1e9, "data": None, "timezone": "Europe/Berlin", "metric": "value", "values": np.ones(12)},
        **{"product_values": {"tea": 2.0}, "consent": [True] * 12, "contact_group": "spring", "contact_cap": "9/7d"},
        "ask": {"k": 2, "exclude": [0], "cooldown": "7d", "quotas": {"x": 2}, "deadline": "3d"},
        "request_id": "first",
    }
    return Case(call, valid, create_campaign, writes=True)


@case("campaigns.create_campaign from files")
def _(w: World) -> Case:
    made = read_campaign_data(**_tables())

    def call(**given: Any) -> Any:
        return create_campaign("spring", storage=MemoryStore(), policy=policies.HighDegree(), **given).status()

    return Case(call, {"data": made, "graph": None, "users": None, "products": None}, False, writes=True)


def _tables() -> dict[str, Any]:
    """Files of a small campaign, in a directory of their own; the current one belongs to the hostile values."""
    folder = Path(tempfile.mkdtemp())
    tables = {
        "edges": pl.DataFrame({"source": ["a", "b", "c", "d"], "target": ["b", "c", "d", "a"]}),
        "actions": pl.DataFrame({"user": ["a", "b"], "item": ["x", "x"], "time": [1, 2]}),
        "products": pl.DataFrame({"product": ["x", "y"], "kind": ["tea", "soap"]}),
        "users": pl.DataFrame({"user": ["a", "b"], "age": [3, 4], "cost": [1.0, 2.0]}),
        "strategies": pl.DataFrame({"strategy": ["call"], "size": [1.0]}),
    }
    for name, table in tables.items():
        table.write_csv(folder / f"{name}.csv")
    return {"directory": None, **{name: folder / f"{name}.csv" for name in tables}}


@case("campaigns.read_campaign_data")
def _(w: World) -> Case:
    valid = {
        **_tables(),
        **{"columns": {"users": {"user": "user"}}, "kinds": {"products": {"kind": "category"}}, "id_type": "str"},
        **{"window": "60s", "timezone": "UTC", "queries": None, "consent": None},
        **{"strict": False, "max_left_out": 0.5, "progress": None},
    }
    return Case(read_campaign_data, valid)


@case("campaigns.load_campaign")
def _(w: World) -> Case:
    store = MemoryStore()
    new_campaign(w, store)
    valid = {"name": "spring", "storage": store, "policy": None, "clock": lambda: 1e9}
    return Case(load_campaign, valid)


CASES["campaigns.list_campaigns"] = lambda w: Case(list_campaigns, {"storage": w.campaign.store})


@case("campaigns.copy_campaign")
def _(w: World) -> Case:
    valid = {"name": "spring", "new_name": "copy", "storage": w.campaign.store, "to": MemoryStore()}
    return Case(copy_campaign, valid, writes=True)


@case("campaign.Campaign.ask")
def _(w: World) -> Case:
    valid = {
        **{"product": "tea", "k": 2, "exclude": [0], "candidates": list(range(12)), "must_include": [1]},
        **{"cooldown": None, "costs": None, "budget": None, "groups": ["x"] * 12, "quotas": {"x": 2}, "holdout": 0.0},
        "minima": {"x": 1},
        **{"shadow": None, "window": "60s", "deadline": 2e9, "credit": "any", "objective": "direct", "epsilon": 0.3},
        **{"request_id": None, "strategies": None, "per_user": False, "users": None},
        **{"proposal": None, "audience_rest": None},
    }
    return Case(w.campaign.ask, valid)


@case("campaign.Campaign.ask with a list")
def _(w: World) -> Case:
    made = new_campaign(w, MemoryStore(), strategies={"call": [1.0], "visit": [0.5]}, strategy_costs={"visit": 1.0})
    valid = {
        **{"product": "tea", "k": None, "strategies": ["call", "visit"], "per_user": True, "budget": 4.0},
        **{"users": {3: "call", 4: "visit"}, "exclude": [1], "holdout": 0.5},
    }
    return Case(made.ask, valid, False)


@case("campaign.Campaign.preview")
def _(w: World) -> Case:
    valid = {"product": "tea", "k": None, "users": [1, 2], "exclude": [3], "holdout": 0.0, "cooldown": None}
    return Case(w.campaign.preview, valid, False)


@case("campaign.Campaign.ask with strategies")
def _(w: World) -> Case:
    made = new_campaign(w, MemoryStore(), strategies={"call": [1.0], "visit": [0.5]}, strategy_costs={"visit": 1.0})
    valid = {
        **{"product": "tea", "k": 2, "strategies": ["call", "visit"], "per_user": True, "budget": 4.0},
        **{"shadow": {3: "call", 4: "visit"}, "must_include": [1], "holdout": 0.0},
    }
    return Case(made.ask, valid, False)


@case("campaign.Campaign.ask with a budget")
def _(w: World) -> Case:
    valid = {
        **{"product": [0.1, 0.2, 0.7], "k": None, "cooldown": "5s", "costs": np.ones(12), "budget": 2.0},
        **{"shadow": [3, 4], "holdout": 0.0},
    }
    return Case(w.campaign.ask, valid, False)


def _open_round(w: World) -> Any:
    return w.campaign.ask([0.2, 0.3, 0.5], 2)


def _answer(w: World, asked: Any) -> dict[str, list[Any]]:
    row = w.graph.rows(list(asked.seeds))[:1]
    targets = w.graph.ids[w.graph.targets[w.graph.out_edges(row)]].tolist()
    return {"source": [asked.seeds[0]] * len(targets), "target": targets, "outcome": [1] * len(targets)}


@case("campaign.Campaign.tell")
def _(w: World) -> Case:
    asked = _open_round(w)
    return Case(
        w.campaign.tell,
        {
            "round_id": asked.id,
            "responses": _answer(w, asked),
            "strict": False,
            "max_left_out": 1.0,
            "columns": {"source": "source"},
        },
    )


def _tell_column(name: str) -> Callable[[World], Case]:
    def make(w: World) -> Case:
        asked = _open_round(w)
        answer = _answer(w, asked)
        full = {**answer, "time": [1e9 + 1] * len(answer["source"])}
        full["event_id"] = [f"{asked.id}-{i}" for i in range(len(answer["source"]))]

        def call(**given: Any) -> Any:
            return w.campaign.tell(asked.id, given)

        return Case(call, full, False)

    return make


CASES["campaign.Campaign.tell, by column"] = _tell_column("edges")


@case("campaign.Campaign.tell, by record")
def _(w: World) -> Case:
    asked = _open_round(w)
    answer = {name: values[0] for name, values in _answer(w, asked).items()}
    return Case(
        lambda **given: w.campaign.tell(asked.id, [given]), {**answer, "time": 1e9 + 1, "event_id": None}, False
    )


@case("campaign.Campaign.tell, who acted")
def _(w: World) -> Case:
    asked = _open_round(w)
    return Case(
        lambda **given: w.campaign.tell(asked.id, given),
        {"user": [0, 1], "time": [1e9, 1e9], "event_id": ["a", "b"]},
        False,
    )


def _log(w: World) -> dict[str, Any]:
    return {"user": [0, 1], "time": [1e9, 1e9], "product": ["tea", "mate"], "round": [None, _open_round(w).id]}


CASES["campaign.Campaign.tell_log"] = lambda w: Case(
    w.campaign.tell_log, {"responses": _log(w), "strict": False, "max_left_out": 1.0, "columns": {"user": "user"}}
)
CASES["campaign.Campaign.tell_log, by column"] = lambda w: Case(
    lambda **given: w.campaign.tell_log(given), _log(w), False
)


CASES["campaign.Campaign.close"] = lambda w: Case(w.campaign.close, {"round_id": _open_round(w).id, "early": True})
CASES["campaign.Campaign.cancel"] = lambda w: Case(w.campaign.cancel, {"round_id": _open_round(w).id})
_PLAN = {"holdout": 0.5, "rounds": 2, "effect": 0.1, "power": 0.8}
CASES["campaign.Campaign.plan_lift"] = lambda w: Case(w.campaign.plan_lift, {"product": "tea", "k": 2, **_PLAN})
CASES["campaign.plan_lift"] = lambda w: Case(
    plan_lift, {"followers": [3, 4], "rate": 0.1, "users": 4, "clustering": 0.1, **_PLAN}
)
CASES["campaign.Campaign.names"] = lambda w: Case(w.campaign.names, {"table": "products"})
CASES["campaign.Campaign.progress"] = lambda w: Case(
    w.campaign.progress, {"product": "tea", "strategy": None, "since": 0.0, "until": 2e9, "segment": None}
)
CASES["campaign.Campaign.round"] = lambda w: Case(w.campaign.round, {"round_id": w.campaign.rounds()[0].id})
CASES["campaign.Campaign.explain"] = lambda w: Case(
    w.campaign.explain, {"round_id": w.campaign.rounds()[0].id, "user": 0}
)
CASES["campaign.Campaign.probabilities"] = lambda w: Case(w.campaign.probabilities, {"product": "tea"}, unit=True)
CASES["campaign.Campaign.expire"] = lambda w: Case(w.campaign.expire, {"now": 1e9})
CASES["campaign.Campaign.export"] = lambda w: Case(
    w.campaign.export, {"directory": "out", "format": "csv"}, writes=True
)


def _own(w: World, method: str, valid: dict[str, Any], signature: Any = None) -> Case:
    """A campaign of its own, since the call changes it; a refusal must leave it as it was."""
    made = new_campaign(w, MemoryStore())

    def call(**given: Any) -> Any:
        before = made.status(), made.products(), made.strategies(), len(made.rounds())
        try:
            return getattr(made, method)(**given)
        except BaseException:
            after = made.status(), made.products(), made.strategies(), len(made.rounds())
            assert after == before, "a refused call left a trace"
            raise
        finally:
            product = ("tea", made.strategies()[0]) if made.strategies() else "tea"
            assert np.isfinite(made.probabilities(product)).all()

    return Case(call, valid, signature or getattr(Campaign, method))


CASES["campaign.Campaign.add_users"] = lambda w: _own(
    w,
    "add_users",
    {
        **{"ids": [100], "features": np.ones((1, w.users.shape[1])), "sources": [100], "targets": [0]},
        **{"costs": [1.0], "groups": ["x"], "consent": None, "values": None},
    },
)
CASES["campaign.Campaign.add_products"] = lambda w: _own(
    w, "add_products", {"ids": ["cocoa"], "features": [[0.1, 0.2, 0.7]], "values": None}
)
CASES["campaign.Campaign.add_strategies"] = lambda w: _own(
    w, "add_strategies", {"ids": ["call"], "features": [[0.1, 0.7]], "costs": [1.0]}
)


def _history(w: World) -> dict[str, Any]:
    s, t = w.graph.sources[:3].tolist(), w.graph.targets[:3].tolist()
    return {"source": s, "target": t, "outcome": [0, 1, 1], "round": [1, 1, 2], "product": ["tea"] * 3}


CASES["campaign.Campaign.import_history"] = lambda w: _own(
    w,
    "import_history",
    {
        "responses": _history(w),
        "product": "tea",
        "window": "5s",
        "strict": False,
        "max_left_out": 1.0,
        "columns": {"round": "round"},
    },
)


@case("campaign.Campaign.import_history, by column")
def _(w: World) -> Case:
    own = _own(w, "import_history", {})
    return Case(lambda **given: own.call(responses=given), _history(w), False)


_SECRET = "whsec_" + "QUJD" * 8
CASES["campaign.Campaign.set_webhook"] = lambda w: _own(
    w, "set_webhook", {"url": "https://shop.example/rounds", "secret": _SECRET}
)
CASES["campaign.Campaign.opt_out"] = lambda w: _own(w, "opt_out", {"users": [3, 4], "everywhere": False})
CASES["campaign.Campaign.opt_in"] = lambda w: _own(w, "opt_in", {"users": [3, 4], "everywhere": False})


@case("campaign.Campaign.set_costs")
def _(w: World) -> Case:
    made = new_campaign(w, MemoryStore(), strategies={"call": [1.0], "visit": [0.5]}, strategy_costs={"visit": 1.0})
    return Case(made.set_costs, {"costs": {"call": 2.0}})


CASES["campaign.Campaign.why_not"] = lambda w: Case(w.campaign.why_not, {"user": 3})
CASES["campaign.Campaign.progress"] = lambda w: Case(
    w.campaign.progress, {"product": "tea", "strategy": None, "since": 1e9, "until": "2030-01-01", "segment": None}
)
CASES["campaign.Campaign.forget"] = lambda w: _own(w, "forget", {"user": 3})
