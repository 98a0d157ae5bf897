"""Topics and user features."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.features import lda_mixtures
from tensorucb.data import ActionLog, read_dataset
from tensorucb.errors import InputError
from tensorucb.features import TopicModel, degree_features, held_out_items, user_profile
from tensorucb.graph import Graph

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"
N = 60


@pytest.fixture(scope="module")
def log() -> ActionLog:
    """Two crowds: even items are voted by users below 30, odd items by the others."""
    rng = np.random.default_rng(0)
    users = [rng.choice(30, 12, replace=False) + 30 * (item % 2) for item in range(40)]
    items = np.repeat(np.arange(40), 12)
    return ActionLog.from_arrays(np.concatenate(users), items, np.arange(480), np.arange(40))


@pytest.fixture(scope="module")
def graph() -> Graph:
    rng = np.random.default_rng(1)
    ring = np.arange(N)
    return Graph.from_edges(
        np.concatenate([ring, ring]), np.concatenate([(ring + 1) % N, (ring + rng.integers(2, 30)) % N])
    )


def test_topics_of_held_out_items_carry_over(log: ActionLog) -> None:
    model = TopicModel.fit(log, np.arange(20), n_topics=2, n_nodes=N, rng=0)
    mixtures = model.transform(log, np.arange(20, 40))
    np.testing.assert_allclose(mixtures.sum(axis=1), 1)
    crowd = mixtures.argmax(axis=1)
    assert len(set(crowd[::2])) == len(set(crowd[1::2])) == 1
    assert crowd[0] != crowd[1]
    np.testing.assert_allclose(model.topics.sum(axis=1), 1)


def test_the_model_sees_held_out_items_only(log: ActionLog) -> None:
    others = log.items >= 20
    changed = ActionLog.from_arrays(
        np.where(others, (log.users + 7) % N, log.users), log.items, log.times, log.item_ids
    )
    one = TopicModel.fit(log, np.arange(20), n_topics=3, n_nodes=N, rng=2)
    two = TopicModel.fit(changed, np.arange(20), n_topics=3, n_nodes=N, rng=2)
    np.testing.assert_array_equal(one.topics, two.topics)
    ring = Graph.from_edges(np.arange(N), (np.arange(N) + 1) % N)
    first, second = (user_profile(ring, which, np.arange(20), one.transform(log)) for which in (log, changed))
    np.testing.assert_array_equal(first.matrix(), second.matrix())


def topic_mixtures(log: ActionLog, n_topics: int = 10, held_out: object = None, **options: object) -> np.ndarray:
    return TopicModel.fit(log, held_out, n_topics=n_topics, **options).transform(log)  # type: ignore[arg-type]


def test_topics_repeat_and_follow_the_seed(log: ActionLog) -> None:
    first = topic_mixtures(log, 4, held_out=np.arange(20), rng=3)
    np.testing.assert_array_equal(first, topic_mixtures(log, 4, held_out=np.arange(20), rng=3))
    assert not np.array_equal(first, topic_mixtures(log, 4, held_out=np.arange(20), rng=4))
    assert first.shape == (40, 4)


def test_an_item_without_votes_gets_equal_shares(log: ActionLog) -> None:
    more = ActionLog(log.users, log.items, log.times, np.arange(41))
    np.testing.assert_allclose(TopicModel.fit(log, n_topics=4).transform(more, [40]), 0.25)


def test_topics_are_those_of_scikit_learn() -> None:
    """Up to rounding. The steps of an item end at a tolerance, so an item on its edge may take one step more."""
    rng = np.random.default_rng(5)
    users, items = rng.integers(0, N, 900) // rng.integers(1, 4, 900), rng.integers(0, 150, 900)
    some = ActionLog.from_arrays(users, items, np.arange(900), np.arange(150))
    told: list[tuple[int, int, str]] = []
    found = topic_mixtures(some, 5, n_nodes=N, rng=7, report=lambda *state: told.append(state))
    np.testing.assert_allclose(found, lda_mixtures(some, 5, N, 7), atol=2e-3)
    assert np.abs(found - lda_mixtures(some, 5, N, 7)).mean() < 1e-5
    assert told[-1] == (30, 30, "topics")


def test_topics_do_not_depend_on_threads(log: ActionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensorucb.features._items._CHUNK", 7)
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("TENSORUCB_THREADS", threads)
        found.append(topic_mixtures(log, 3, rng=1))
    np.testing.assert_array_equal(*found)


def test_topics_refuse_nonsense(log: ActionLog) -> None:
    for bad in ([], [99], [-1], [1, 1], [0.5]):
        with pytest.raises(InputError, match="items"):
            TopicModel.fit(log, bad)
    with pytest.raises(InputError, match="n_topics"):
        TopicModel.fit(log, n_topics=0)
    with pytest.raises(InputError, match="no actions"):
        TopicModel.fit(ActionLog.empty())
    with pytest.raises(InputError, match="n_nodes is 10"):
        TopicModel.fit(log, n_nodes=10)


def test_held_out_items(log: ActionLog) -> None:
    items = held_out_items(log, 0.25, rng=1)
    assert items.size == 10 == np.unique(items).size
    np.testing.assert_array_equal(items, held_out_items(log, 0.25, rng=1))
    assert held_out_items(log, 1e-9).size == 1
    assert held_out_items(log, 0.999).size == 39
    with pytest.raises(InputError, match="share"):
        held_out_items(log, 1.0)


def test_taste_counts_held_out_actions_by_topic(log: ActionLog, graph: Graph) -> None:
    held = np.arange(0, 40, 3)
    mixtures = topic_mixtures(log, 3, held_out=held, n_nodes=N, rng=0)
    profile = user_profile(graph, log, held, mixtures)
    for user in (0, 31):
        liked = np.intersect1d(held, log.items[log.users == user])
        np.testing.assert_allclose(profile.parts()["taste"][user], mixtures[liked].sum(axis=0))


def test_columns_of_the_network(log: ActionLog, graph: Graph) -> None:
    held, mixtures = held_out_items(log), topic_mixtures(log, 3)
    both = user_profile(graph, log, held, mixtures, dim=4).parts()
    np.testing.assert_allclose(np.linalg.norm(both["coordinates"], axis=1), 1)
    np.testing.assert_array_equal(both["features"][:, :2], 0.5 * degree_features(graph))
    neither = user_profile(graph, log, held, mixtures, kinds=()).parts()
    assert "coordinates" not in neither
    np.testing.assert_array_equal(neither["features"], both["features"][:, 2:])
    with pytest.raises(InputError, match="kinds"):
        user_profile(graph, log, held, mixtures, kinds=("zip code",))  # type: ignore[arg-type]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 7), st.integers(1, 7)), min_size=1, max_size=30))
def test_degrees_are_standardised(pairs: list[tuple[int, int]]) -> None:
    sources, steps = (np.array(part) for part in zip(*pairs, strict=True))
    columns = degree_features(Graph.from_edges(sources, (sources + steps) % 8, nodes=range(8)))
    np.testing.assert_allclose(columns.mean(axis=0), 0, atol=1e-12)
    deviation = columns.std(axis=0)
    assert (np.isclose(deviation, 1) | (deviation == 0)).all()


@pytest.mark.slow
def test_real_data_to_features_in_well_under_40_seconds() -> None:
    if not (DATA / "digg_core").is_dir():
        pytest.skip("the shared data sets are not on this machine")
    start = time.process_time()
    for name in ("digg_core", "christianity"):
        data = read_dataset(DATA / name)
        held = held_out_items(data.log)
        products = topic_mixtures(data.log, n_nodes=data.graph.n_nodes)
        assert np.isfinite(user_profile(data.graph, data.log, held, products).matrix()).all()
        assert products.shape == (data.log.n_items, 10)
    assert time.process_time() - start < 40
