"""Topics and user features."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from reference.features import lda_mixtures
from tensorucb._columns import standardised
from tensorucb.data import ActionLog, read_dataset
from tensorucb.errors import InputError
from tensorucb.features import (
    TopicModel,
    activity_features,
    degree_features,
    held_out_items,
    taste_features,
    topic_mixtures,
    user_features,
)
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
    for kind in ("activity", "taste"):
        first, second = (
            user_features(Graph.from_edges(np.arange(N), (np.arange(N) + 1) % N), which, np.arange(20), kinds=(kind,))
            for which in (log, changed)
        )
        np.testing.assert_array_equal(first, second)


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


def test_activity_counts(log: ActionLog) -> None:
    counts = np.bincount(log.users[log.items < 7], minlength=N)
    expected = np.log1p(counts)
    expected = (expected - expected.mean()) / expected.std()
    np.testing.assert_allclose(activity_features(log, np.arange(7), N)[:, 0], expected)
    with pytest.raises(InputError, match=r"Pass graph\.n_nodes"):
        activity_features(log, None, 10)


def test_taste_is_the_mean_of_items_liked(log: ActionLog) -> None:
    held = np.arange(0, 40, 3)
    model = TopicModel.fit(log, held, n_topics=3, n_nodes=N + 1, rng=0)
    profile = taste_features(model, log, held, N + 1)
    mixtures = model.transform(log, held)
    for user in (0, 31, N):
        liked = mixtures[np.isin(held, log.items[log.users == user])]
        expected = np.vstack([liked, mixtures.mean(axis=0)]).mean(axis=0)
        np.testing.assert_allclose(profile[user], expected)


def test_degrees_and_stack(log: ActionLog, graph: Graph) -> None:
    held = held_out_items(log)
    users = user_features(
        graph, log, held, kinds=("eigenmap", "degree", "activity", "taste", "constant"), dim=4, n_topics=5
    )
    assert users.shape == (N, 4 + 2 + 1 + 5 + 1)
    np.testing.assert_allclose(np.linalg.norm(users[:, :4], axis=1), 1)
    np.testing.assert_array_equal(users[:, 4:6], 0.5 * degree_features(graph))
    np.testing.assert_allclose(users[:, 6].std(), 0.5)
    np.testing.assert_allclose((users[:, 7:12] ** 2).sum(axis=1).mean(), 1)
    assert (users[:, 12] == 1).all()
    with pytest.raises(InputError, match="held_out"):
        user_features(graph, log, kinds=("activity",))
    with pytest.raises(InputError, match="kinds"):
        user_features(graph, kinds=("zip code",))  # type: ignore[arg-type]


numbers = st.floats(-1e6, 1e6)


@settings(deadline=None)
@given(arrays(float, st.tuples(st.integers(1, 8), st.integers(1, 4)), elements=numbers))
def test_standardised_columns(values: np.ndarray) -> None:
    scaled = standardised(values)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-6)
    deviation = scaled.std(axis=0)
    assert (np.isclose(deviation, 1) | (deviation == 0)).all()
    np.testing.assert_array_equal(standardised(np.full((5, 1), 0.1)), 0)


@pytest.mark.slow
def test_real_data_to_features_in_well_under_40_seconds() -> None:
    if not (DATA / "digg_core").is_dir():
        pytest.skip("the shared data sets are not on this machine")
    start = time.process_time()
    for name in ("digg_core", "christianity"):
        data = read_dataset(DATA / name)
        held = held_out_items(data.log)
        users = user_features(data.graph, data.log, held, kinds=("eigenmap", "degree", "activity", "taste"))
        products = topic_mixtures(data.log, n_nodes=data.graph.n_nodes)
        assert np.isfinite(users).all()
        assert products.shape == (data.log.n_items, 10)
    assert time.process_time() - start < 40
