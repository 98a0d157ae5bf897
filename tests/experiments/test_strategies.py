"""Worlds with strategies: the environment against plain NumPy, S* against every choice, and who chooses how."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from experiments.parts import best_strategy, references, strategy_contestants
from tensorucb.data import make_sandbox
from tensorucb.errors import InputError, ShapeError
from tensorucb.experiments import Environment, StrategyPolicy, WorldSettings, run_experiment, run_policy, tune
from tensorucb.graph import Graph
from tensorucb.policies import GammaCounts, LinUCB, Random, TensorUCB


@pytest.fixture(scope="module")
def box():
    return make_sandbox(150, 1500, 12, n_topics=4, n_strategies=3, strategy_effect=1.5, rng=2)


@pytest.fixture(scope="module")
def world(box):
    return Environment.from_sandbox(box, settings=WorldSettings(k=4))


def reached(graph, p, rows, strategies):
    """f of contacted users, edge by edge; p[s][e] is the probability of edge e with strategy s."""
    missed = np.ones(graph.n_nodes)
    for row, strategy in zip(rows, strategies, strict=True):
        for e in np.flatnonzero(graph.sources == row):
            missed[graph.targets[e]] *= 1.0 - p[strategy][e]
    missed[list(rows)] = 0.0
    return graph.n_nodes - missed.sum()


def test_each_seeds_edges_have_the_probabilities_of_its_strategy(world, box):
    rows, strategies = [5, 9, 30, 77], [2, 0, 2, 1]
    p = [box.probabilities(7, s) for s in range(3)]
    assert world.evaluate(7, rows, strategies) == pytest.approx(reached(box.graph, p, rows, strategies), rel=1e-12)
    order = [3, 1, 0, 2]
    again = world.evaluate(7, np.array(rows)[order], np.array(strategies)[order])
    assert again == pytest.approx(world.evaluate(7, rows, strategies), rel=1e-12)


def test_coins_are_common_and_a_better_strategy_only_adds_responses(world, box):
    """The coin of an edge is one number: outcomes with three strategies are those of three thresholds on it."""
    rows, draws = np.arange(150), {"seed": 3, "run": 1}
    for t in range(20):
        seen = [world.observe(0, rows, np.full(150, s), **draws, round_number=t) for s in range(3)]
        edges = seen[0][0]
        for s, other in product(range(3), repeat=2):
            higher = box.probabilities(0, s)[edges] >= box.probabilities(0, other)[edges]
            assert (seen[s][1] >= seen[other][1])[higher].all()
        mixed = world.observe(0, [8, 3], [2, 1], **draws, round_number=t)
        known = [dict(zip(e.tolist(), y.tolist(), strict=True)) for e, y in seen]
        for e, y in zip(mixed[0].tolist(), mixed[1].tolist(), strict=True):
            assert y == known[2 if box.graph.sources[e] == 8 else 1][e]


def test_responses_come_at_the_rate_of_the_strategy(world, box):
    rows = np.arange(150)
    rates = [
        np.mean([world.observe(1, rows, np.full(150, s), seed=0, run=0, round_number=t)[1] for t in range(100)])
        for s in range(3)
    ]
    # 1,500 edges × 100 rounds at rates of 2 to 10 %: standard error below 0.0008
    np.testing.assert_allclose(rates, [box.probabilities(1, s).mean() for s in range(3)], atol=0.004)
    assert np.ptp(rates) > 0.01


def test_optimum_against_every_choice_of_users_and_strategies():
    """Ten users, two strategies, two seeds: 45 pairs of users times four."""
    graph = Graph.from_edges(
        *np.array([(i, j) for i in range(10) for j in range(10) if (3 * i + 5 * j) % 7 < 3 and i != j]).T
    )
    for number in range(5):
        p = np.random.default_rng(number).beta(0.6, 1.5, size=(2, graph.n_edges))
        env = Environment(
            graph, None, np.ones((1, 1)), lambda z, s, p=p: p[s], strategies=np.eye(2), settings=WorldSettings(k=2)
        )
        best = env.optimum(0)
        everything = [
            reached(graph, p, rows, pair) for rows in combinations(range(10), 2) for pair in product(range(2), repeat=2)
        ]
        assert best.spread == pytest.approx(reached(graph, p, best.rows, best.strategies), rel=1e-12)
        # Greedy may miss the best of all; its guarantee is 1 − 1/e, and on such small worlds it is close.
        assert 0.95 * max(everything) <= best.spread <= max(everything) + 1e-9


def test_strategies_of_several_modes_become_vectors_of_the_context(box):
    channel, offer = np.repeat(np.eye(2), 2, axis=0), np.tile(np.eye(3)[:2], (2, 1))
    env = Environment(
        box.graph, box.users, box.products, lambda p, s: box.probabilities(p, s % 3), strategies=(channel, offer)
    )
    assert env.n_strategies == 4
    contexts = env.contexts(5)
    assert [tuple(map(len, context)) for context in contexts] == [(4, 2, 3)] * 4
    np.testing.assert_array_equal(contexts[3][1], [0, 1])
    np.testing.assert_array_equal(contexts[3][2], [0, 1, 0])
    found = run_policy(env, StrategyPolicy(TensorUCB()), rounds=3)
    assert found["regret"].is_finite().all()


def test_every_contestant_plays_and_nobody_is_above_the_optimum(world):
    everyone = {**strategy_contestants(), **references(world)}
    regret = {name: run_policy(world, policy, rounds=8)["regret"] for name, policy in everyone.items()}
    assert min(r.min() for r in regret.values()) > -0.5
    assert regret["truth, one strategy per round"].mean() < regret["truth, best fixed strategy"].mean()
    assert regret["truth, best fixed strategy"].mean() < regret["TensorUCB, strategies in turn"].mean()


def test_the_best_strategy_is_the_best_for_a_truth_that_all_users_share(box):
    shift = [0.3, 0.9, 0.6]
    env = Environment(box.graph, None, box.products, lambda p, s: box.probabilities(p) * shift[s], strategies=np.eye(3))
    assert best_strategy(env) == 1


class Told(GammaCounts):
    """Writes down what it is told."""

    def update(self, product, edges, outcomes):
        self.seen = [*getattr(self, "seen", []), (product, np.asarray(edges))]
        super().update(product, edges, outcomes)


@pytest.mark.parametrize("way", ["user", "round", "turn", "fixed"])
def test_a_policy_is_told_the_strategy_of_each_response_if_it_chooses(world, way):
    inner = Told()
    policy = StrategyPolicy(inner, way, strategy=1 if way == "fixed" else None)
    policy.bind(world.graph, world.users, 0)
    contexts, rows, strategies = world.contexts(0), np.array([4, 40, 90]), np.array([2, 0, 2])
    edges = world.graph.out_edges(rows)
    known = dict(zip(rows.tolist(), strategies.tolist(), strict=True))
    of_edge = np.array([known[i] for i in world.graph.sources[edges].tolist()])
    policy.update_pairs(contexts, of_edge, edges, np.zeros(edges.size))
    if way in ("turn", "fixed"):
        ((told, seen),) = inner.seen
        np.testing.assert_array_equal(told, world.products[0])
        np.testing.assert_array_equal(seen, edges)
    else:
        assert [int(np.argmax(told[1])) for told, _ in inner.seen] == [0, 2]
        assert set(world.graph.sources[inner.seen[0][1]]) == {40}
        assert set(world.graph.sources[inner.seen[1][1]]) == {4, 90}


def test_strategies_in_turn_and_fixed_ones(world):
    oracle = world.oracle(np.random.default_rng(0))
    used = {}
    for way, strategy in (("turn", None), ("fixed", 2)):
        policy = StrategyPolicy(Random(), way, strategy=strategy)
        policy.bind(world.graph, world.users, 0)
        used[way] = []
        for _ in range(5):
            rows, chosen = policy.choose_pairs(world.contexts(0), 4, oracle, world.pair_oracle)
            used[way].append(set(chosen.tolist()))
            edges = world.graph.out_edges(rows)
            policy.update_pairs(world.contexts(0), np.repeat(0, edges.size), edges, np.zeros(edges.size))
    assert used == {"turn": [{0}, {1}, {2}, {0}, {1}], "fixed": [{2}] * 5}


def test_copies_of_a_policy_learn_from_their_own_strategy_alone(world):
    policy = StrategyPolicy(GammaCounts(), separate=True)
    policy.bind(world.graph, world.users, 0)
    loudest = int(np.argmax(world.graph.out_degree))
    edges = world.graph.out_edges(np.array([loudest]))
    policy.update_pairs(world.contexts(0), np.full(edges.size, 1), edges, np.ones(edges.size))
    oracle = world.oracle(np.random.default_rng(0))
    rows, chosen = policy.choose_pairs(world.contexts(0), 1, oracle, world.pair_oracle)
    assert (rows.tolist(), chosen.tolist()) == ([loudest], [1])


def test_kept_runs_tell_ways_of_choosing_apart(world, tmp_path):
    ways = {"a": StrategyPolicy(GammaCounts()), "b": StrategyPolicy(GammaCounts(), "round")}
    first = run_experiment(world, ways, rounds=4, runs=1, directory=tmp_path)
    files = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    again = run_experiment(world, ways, rounds=4, runs=1, directory=tmp_path)
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == files
    assert first.frame["spread"].equals(again.frame["spread"])
    run_experiment(world, {"a": StrategyPolicy(GammaCounts(), "turn")}, rounds=4, runs=1, directory=tmp_path)
    assert len(list(tmp_path.iterdir())) == 3


def test_settings_of_the_policy_inside_are_tuned(world):
    found = tune(world, {"p": StrategyPolicy(LinUCB(), "round")}, rounds=2, grids={"p": {"exploration": [0.01, 1.0]}})
    chosen = found.policies["p"]
    assert isinstance(chosen, StrategyPolicy)
    assert chosen.way == "round"
    assert chosen.policy.exploration == min(found.trials["p"], key=lambda t: t.regret).arguments["exploration"]


def test_worlds_and_policies_with_and_without_strategies_are_not_mixed(world, box):
    parts = (box.graph, box.users, box.products)
    plain = Environment(*parts, box.probabilities)
    with pytest.raises(InputError, match="Say in strategies="):
        world.evaluate(0, [1, 2])
    cascade = Environment(*parts, box.probabilities, settings=WorldSettings(objective="cascade", worlds=4))
    for without in (plain, cascade):
        with pytest.raises(InputError, match="has no strategies"):
            without.evaluate(0, [1, 2], [0, 0])
    with pytest.raises(ShapeError, match="one number per seed"):
        world.evaluate(0, [1, 2], [0])
    with pytest.raises(InputError, match=r"0\.\.2"):
        world.observe(0, [1], [3], seed=0, run=0, round_number=0)
    with pytest.raises(InputError, match="needs a StrategyPolicy"):
        run_policy(world, LinUCB(), rounds=1)
    with pytest.raises(InputError, match="a policy as it is"):
        run_policy(plain, StrategyPolicy(LinUCB()), rounds=1)
    with pytest.raises(InputError, match="direct objective"):
        Environment(*parts, box.probabilities, strategies=np.eye(3), settings=WorldSettings(objective="cascade"))
    with pytest.raises(InputError, match="needed there"):
        StrategyPolicy(LinUCB(), "fixed")


def test_the_checksum_follows_the_truth_of_all_parts_of_the_campaign(box):
    def world_with(changed):
        return Environment(
            box.graph,
            None,
            box.products,
            lambda p, s: box.probabilities(p, s) * (0.5 if p == changed else 1.0),
            strategies=np.eye(3),
        )

    digests = [world_with(changed).describe()["sha256"] for changed in (None, 0, 10)]
    assert len(set(digests)) == 3
    assert world_with(None).describe()["strategies"] == 3
