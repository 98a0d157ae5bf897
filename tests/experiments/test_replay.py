from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from tensorucb.data import ActionLog, Dataset, generate_dataset
from tensorucb.errors import InputError, ShapeError
from tensorucb.experiments import ReplayedLog, WorldSettings, replay_from_dataset, run_policy
from tensorucb.graph import Graph
from tensorucb.oracle import SeedOracle
from tensorucb.policies import DegreeCover, HighDegree, Random


@pytest.fixture(scope="module")
def dataset():
    return generate_dataset("sandbox", scale=0.3, rng=0)


@pytest.fixture(scope="module")
def replayed(dataset):
    return replay_from_dataset(dataset, settings=WorldSettings(k=3), n_topics=3)


def responders(dataset, item, rows):
    """Distinct followers of the contacted users, themselves left out, who acted on the item."""
    actors = set(dataset.log.users[dataset.log.items == item].tolist())
    edges = zip(dataset.graph.sources.tolist(), dataset.graph.targets.tolist(), strict=True)
    return {target for source, target in edges if source in rows and target in actors and target not in rows}


def test_reach_is_the_number_of_distinct_responders(dataset, replayed):
    rng = np.random.default_rng(0)
    for item in replayed.product_rows[:10].tolist():
        rows = rng.choice(dataset.graph.n_nodes, 3, replace=False)
        assert replayed.evaluate(item, rows) == len(responders(dataset, item, rows.tolist()))


def test_every_out_edge_of_a_contacted_user_is_told_whether_its_target_acted(dataset, replayed):
    item = int(replayed.product_rows[3])
    actors = dataset.log.users[dataset.log.items == item]
    rows = np.argsort(-dataset.graph.out_degree)[:5]
    edges, outcomes = replayed.observe(item, rows, seed=0, run=0, round_number=0)
    assert sorted(edges.tolist()) == sorted(dataset.graph.out_edges(rows).tolist())
    assert np.array_equal(outcomes, np.isin(dataset.graph.targets[edges], actors))
    again = replayed.observe(item, rows, seed=5, run=9, round_number=77)
    assert np.array_equal(again[1], outcomes)  # no coin: the log decides


def test_the_best_possible_is_greedy_cover_and_keeps_its_promise():
    rng = np.random.default_rng(1)
    pairs = np.unique(rng.integers(0, 9, size=(40, 2)), axis=0)
    sources, targets = pairs[pairs[:, 0] != pairs[:, 1]].T
    actions = np.unique(rng.integers(0, [9, 7], size=(40, 2)), axis=0)
    log = ActionLog.from_arrays(actions[:, 0], actions[:, 1], np.arange(len(actions)), np.arange(7))
    dataset = Dataset(Graph.from_edges(sources, targets, nodes=np.arange(9)), log, name="small")
    world = ReplayedLog(dataset, None, np.eye(7), settings=WorldSettings(k=3))
    for item in range(7):
        best = max(len(responders(dataset, item, rows)) for rows in combinations(range(9), 3))
        found = world.optimum(item)
        assert found.spread == len(responders(dataset, item, found.rows.tolist())) <= best
        assert found.spread + 3 >= (1.0 - 1.0 / np.e) * (best + 3)


def test_an_item_comes_again_only_after_all_others(replayed):
    size = replayed.product_rows.size
    items = replayed.draw_products(2 * size + 3, run=0, seed=0)
    for start in (0, size):
        assert np.array_equal(np.sort(items[start : start + size]), replayed.product_rows)
    assert np.array_equal(items[: size + 2], replayed.draw_products(size + 2, run=0, seed=0))
    assert not np.array_equal(items, replayed.draw_products(2 * size + 3, run=1, seed=0))


def test_items_that_describe_users_are_never_asked_about(dataset, replayed):
    assert not np.isin(np.arange(0, dataset.log.n_items, 5), replayed.product_rows).any()
    popular = replay_from_dataset(dataset, n_topics=3, min_actors=5).product_rows
    actors = np.bincount(dataset.log.items, minlength=dataset.log.n_items)
    assert np.array_equal(popular, replayed.product_rows[actors[replayed.product_rows] >= 5])


def test_policies_play_a_replayed_log_as_any_world(replayed):
    found = {policy.name: run_policy(replayed, policy, rounds=30) for policy in (HighDegree(), Random())}
    assert found["HighDegree"]["spread"].sum() > found["Random"]["spread"].sum()
    assert (found["HighDegree"]["spread"] <= found["HighDegree"]["optimum"] / (1.0 - 1.0 / np.e) + 3).all()


def test_a_log_has_no_cascades_and_needs_popular_items_to_ask_for_them(dataset):
    with pytest.raises(InputError, match="direct objective and one-hop feedback"):
        replay_from_dataset(dataset, settings=WorldSettings(objective="cascade"), n_topics=3)
    with pytest.raises(InputError, match="min_actors = 1000000"):
        replay_from_dataset(dataset, n_topics=3, min_actors=1_000_000)
    with pytest.raises(ShapeError, match="one per item"):
        ReplayedLog(dataset, None, np.eye(3))
    with pytest.raises(InputError, match="dataset must be a Dataset"):
        ReplayedLog("votes", None, np.eye(3))


def test_degree_cover_has_more_distinct_followers_than_high_degree():
    # Users 0 and 1 share all their followers; user 2 has fewer, and nobody else's.
    graph = Graph.from_edges([0] * 4 + [1] * 4 + [2] * 2, [3, 4, 5, 6] * 2 + [7, 8])
    chosen = {}
    for policy in (DegreeCover(), HighDegree()):
        policy.bind(graph, None, rng=0)
        chosen[policy.name] = policy.choose([1.0], 2, SeedOracle(graph)).tolist()
        only = policy.choose([1.0], 1, SeedOracle(graph, candidates=[1, 2])).tolist()
        assert only == [1]
    assert chosen == {"DegreeCover": [0, 2], "HighDegree": [0, 1]}
