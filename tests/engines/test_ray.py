"""The same answers on a cluster of two nodes as on this machine."""

from __future__ import annotations

import importlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engines.conftest import network
from engines.here import HereEngine
from reference.oracle import select_pairs, select_seeds
from tensorucb import SeedOracle, create_campaign
from tensorucb.data import make_sandbox
from tensorucb.diffusion import LiveEdgePool, simulate_cascades, simulate_gains
from tensorucb.engines import RayEngine
from tensorucb.errors import InputError
from tensorucb.experiments import Environment, WorldSettings, run_experiment, tune
from tensorucb.policies import CUCB, HighDegree, TensorUCB
from tensorucb.truth import fit_topic_aware_ic

K = 12


def same(a: Any, b: Any) -> None:
    for field in fields(a):
        assert np.array_equal(getattr(a, field.name), getattr(b, field.name)), field.name


def test_selections_evaluations_and_experiments_are_the_same_bit_for_bit(engine: RayEngine) -> None:
    # One test of all that goes through an engine, by default: a cluster takes some ten seconds to start.
    assert engine.workers == 2
    graph, p = network(1500, 9000)
    same(select_seeds(graph, p, K, rng=3, engine=engine), select_seeds(graph, p, K, rng=3))
    # Short walks, whose seeds are chosen by chances in place of hits.
    short = np.full(graph.n_edges, 0.1)
    same(select_seeds(graph, short, K, rng=3, engine=engine), select_seeds(graph, short, K, rng=3))
    rows = np.arange(5)
    cascades: Any = {"runs": 50, "rng": 1}
    assert np.array_equal(
        simulate_cascades(graph, p, rows, engine=engine, **cascades), simulate_cascades(graph, p, rows, **cascades)
    )
    world = Environment.from_sandbox(make_sandbox(60, 400, 8, rng=0), settings=WorldSettings(k=3))
    plays: Any = {"rounds": 8, "runs": 2}
    policies = {"ours": TensorUCB(), "degree": HighDegree()}
    steps: list[int] = []
    there = run_experiment(world, policies, engine=engine, report=lambda done, total, what: steps.append(done), **plays)
    here = run_experiment(world, policies, **plays)
    played = ["policy", "run", "product", "regret"]
    assert there.frame.select(played).equals(here.frame.select(played))
    assert steps == list(range(1, 33))
    with pytest.raises(InputError, match="probabilities must be in"):
        select_seeds(graph, np.full(graph.n_edges, 2.0), K, engine=engine)


VARIANTS: list[dict[str, Any]] = [
    {"algorithm": "tim"},
    {"k": 60},
    {"k": 1, "quality": 0.0},
    {"must_include": [7, 9], "exclude": [0, 1]},
    {"values": np.linspace(0.0, 2.0, 1500)},
    {"costs": np.linspace(1.0, 3.0, 1500), "budget": 20.0},
    {"groups": np.arange(1500) % 3, "quotas": 4},
    {"groups": np.arange(1500) % 3, "quotas": 4, "costs": np.linspace(1.0, 3.0, 1500), "budget": 20.0},
    {"groups": np.arange(1500) % 3, "minima": {1: 6}},
    {"groups": np.arange(1500) % 3, "minima": {1: 4}, "costs": np.linspace(1.0, 3.0, 1500), "budget": 20.0},
    {"max_memory": 2.0**20},
    {"redundancy": 0.7},
    {"redundancy": 0.7, "algorithm": "tim", "must_include": [7, 9]},
]


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: "-".join(v))
def test_every_kind_of_selection_is_the_same(engine: RayEngine, variant: dict[str, Any]) -> None:
    graph, p = network(1500, 9000)
    k = variant.get("k", K)
    rest = {name: value for name, value in variant.items() if name != "k"}
    there, here = (select_seeds(graph, p, k, rng=5, engine=where, **rest) for where in (engine, None))
    same(there, here)
    if "max_memory" in variant:
        assert "stopped at the memory limit" in here.guarantee


@pytest.mark.slow
def test_walks_that_cover_most_of_the_graph_are_the_same(engine: RayEngine) -> None:
    graph, _ = network(1500, 9000)
    p = np.full(graph.n_edges, 0.4)
    same(select_seeds(graph, p, K, rng=0, engine=engine), select_seeds(graph, p, K, rng=0))


@pytest.mark.slow
def test_pairs_and_a_row_of_rounds_are_the_same(engine: RayEngine) -> None:
    graph, p = network(800, 4000)
    both = np.stack([p, p**2])
    same(select_pairs(graph, both, 5, rng=1, engine=engine), select_pairs(graph, both, 5, rng=1))
    oracles = [SeedOracle(graph, rng=4, engine=where) for where in (engine, HereEngine(), None)]
    for _ in range(3):
        first, *others = [oracle(p, 5) for oracle in oracles]
        assert all(np.array_equal(first, other) for other in others)


@pytest.mark.slow
def test_eight_threads_share_an_engine(engine: RayEngine) -> None:
    graph, p = network(800, 4000)
    shared, alone = SeedOracle(graph, rng=4, engine=engine), SeedOracle(graph, rng=4)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: shared(p, 5).tolist(), range(16)))
    assert sorted(found) == sorted(alone(p, 5).tolist() for _ in range(16))


@pytest.mark.slow
def test_worlds_and_gains_are_the_same(engine: RayEngine) -> None:
    graph, p = network(800, 4000)
    seeds = np.array([3, 5, 8])
    worlds = [LiveEdgePool(graph, p, 70, rng=2, engine=where).reach(seeds) for where in (engine, HereEngine(), None)]
    assert np.array_equal(worlds[0], worlds[1])
    assert np.array_equal(worlds[0], worlds[2])
    there, here = (simulate_gains(graph, p, seeds, 70, rng=2, engine=where) for where in (engine, None))
    assert np.array_equal(there, here)


@pytest.mark.slow
def test_the_fit_of_the_truth_is_the_same(engine: RayEngine) -> None:
    box = make_sandbox(120, 900, 40, rng=0)
    log = box.action_log(rng=1)
    mixtures = np.random.default_rng(0).dirichlet(np.ones(3), 40)
    fits = [
        fit_topic_aware_ic(box.graph, *log, mixtures, max_iterations=15, engine=where)
        for where in (engine, HereEngine(), None)
    ]
    for fit in fits[:2]:
        assert np.array_equal(fit.model.edge_topics, fits[2].model.edge_topics)
        assert np.array_equal(fit.penalised_log_likelihood, fits[2].penalised_log_likelihood)
        assert fit.iterations == fits[2].iterations > 3


@pytest.mark.slow
def test_a_campaign_of_cascades_asks_for_the_same(engine: RayEngine) -> None:
    graph, _ = network(400, 2500)
    asks = []
    for where in (engine, None):
        with create_campaign(
            "spring", graph=graph, policy=TensorUCB(), storage="memory://", objective="cascade", engine=where
        ) as campaign:
            asks.append([campaign.ask([1.0, 0.5], 5) for _ in range(2)])
    for there, here in zip(*asks, strict=True):
        assert there.seeds == here.seeds
        assert there.reach == here.reach


@pytest.mark.slow
def test_a_search_for_settings_is_the_same(engine: RayEngine) -> None:
    world = Environment.from_sandbox(make_sandbox(60, 400, 8, rng=0), settings=WorldSettings(k=3))
    for policies in ({"CUCB": CUCB()}, {"CUCB": CUCB(), "ours": TensorUCB()}):
        grids = {label: {"exploration": [0.1, 1.0]} for label in policies}
        there, here = (tune(world, policies, rounds=5, grids=grids, engine=where) for where in (engine, None))
        assert there.trials == here.trials


class Broken(HighDegree):
    def choose(self, product: Any, k: int, oracle: Any) -> Any:
        raise ZeroDivisionError("of one's own")


@pytest.mark.slow
def test_an_error_in_a_run_is_the_callers_own(engine: RayEngine) -> None:
    world = Environment.from_sandbox(make_sandbox(60, 400, 8, rng=0), settings=WorldSettings(k=3))
    with pytest.raises(ZeroDivisionError, match="of one's own"):
        run_experiment(world, {"degree": HighDegree(), "broken": Broken()}, rounds=3, runs=2, engine=engine)


@pytest.mark.slow
def test_runs_of_a_policy_of_ones_own_are_played_there(
    engine: RayEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No node has this module, and it is not installed.
    (tmp_path / "mine.py").write_text(
        "from tensorucb.policies import HighDegree\n\nclass Mine(HighDegree):\n    name = 'mine'\n"
        "    tunable = {'shift': [0, 1]}\n    def __init__(self, shift=0):\n        self.shift = shift\n"
        "    def settings(self):\n        return {'shift': self.shift}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    mine = importlib.import_module("mine")
    world = Environment.from_sandbox(make_sandbox(60, 400, 8, rng=0), settings=WorldSettings(k=3))
    kept = tmp_path / "runs"
    found = run_experiment(world, {"mine": mine.Mine()}, rounds=5, runs=2, engine=engine, directory=kept)
    assert len(list(kept.iterdir())) == 2
    tune(world, {"mine": mine.Mine()}, rounds=5, engine=engine, directory=kept)
    assert len(list(kept.iterdir())) == 4
    here = run_experiment(world, {"mine": mine.Mine()}, rounds=5, runs=2)
    assert found.frame["spread"].equals(here.frame["spread"])
