"""Profiles of users: checks, the flat matrix, and past influence against a plain count."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.features import count_past, matched_columns
from tensorucb.data import make_sandbox
from tensorucb.errors import InputError, ShapeError
from tensorucb.features import UserProfile, user_profile

# private: the counts alone, against plain loops
from tensorucb.features._users import _count_past
from tensorucb.graph import Graph


def plain_counts(graph, users, items, times, mixtures, held_out):
    """Credit and exposure by topic, followed and exposed items, by loops over items and edges."""
    n, k = graph.n_nodes, mixtures.shape[1]
    credit = np.zeros((n, k))
    exposure = np.zeros((n, k))
    followed = np.zeros(n)
    exposed = np.zeros(n)
    for item in held_out:
        first = {}
        for u, i, t in zip(users, items, times, strict=True):
            if i == item:
                first[u] = min(t, first.get(u, np.inf))
        trials = [
            (s, t)
            for s, t in zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)
            if s in first and first.get(t, np.inf) > first[s]
        ]
        for s, t in trials:
            exposure[s] += mixtures[item]
            if t in first:
                credit[s] += mixtures[item] / sum(other == t for _, other in trials)
        for t in {t for _, t in trials}:
            exposed[t] += 1
            followed[t] += t in first
    return credit, exposure, followed, exposed


@dataclass
class Log:
    users: np.ndarray
    items: np.ndarray
    times: np.ndarray
    n_items: int


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6))
def test_past_influence_is_the_plain_count(seed):
    rng = np.random.default_rng(seed)
    pairs = np.unique(rng.integers(0, 8, (20, 2)), axis=0)
    pairs = np.vstack([pairs[pairs[:, 0] != pairs[:, 1]], [[0, 1]]])
    graph = Graph.from_edges(pairs[:, 0], pairs[:, 1])
    n, size = graph.n_nodes, int(rng.integers(0, 40))
    users, items, times = rng.integers(0, n, size), rng.integers(0, 5, size), rng.integers(0, 6, size)
    mixtures, held = rng.dirichlet(np.ones(3), 5), np.array([0, 3])
    credit, exposure, followed, exposed = plain_counts(graph, users, items, times, mixtures, held)
    found = user_profile(graph, Log(users, items, times, 5), held, mixtures, kinds=())
    np.testing.assert_allclose(found.credit, credit, atol=1e-12)
    np.testing.assert_allclose(found.exposure, exposure, atol=1e-12)
    # The only feature is how often users followed, as a log ratio with standard deviation one half.
    rate = followed.sum() / max(exposed.sum(), 1.0)
    response = np.log((followed + 3.0) / (exposed * rate + 3.0))
    want = (response - response.mean()) / (2 * response.std()) if np.ptp(response) > 1e-12 else np.zeros(n)
    np.testing.assert_allclose(found.features[:, 0], want, atol=1e-9)


@pytest.mark.parametrize("piece", [1, 300, 10**6])
def test_counts_in_pieces_are_those_item_by_item_bit_for_bit(piece, monkeypatch):
    monkeypatch.setattr("tensorucb.features._users._PIECE", piece)
    rng = np.random.default_rng(0)
    graph = make_sandbox(80, 900, 4, rng=0).graph
    users, items, times = rng.integers(0, 80, 1500), rng.integers(0, 60, 1500), rng.integers(0, 40, 1500)
    log, mixtures = Log(users, items, times, 70), rng.dirichlet(np.ones(4), 70)  # the last ten without an action
    held_out = rng.permutation(70)[:50]
    for found, expected in zip(
        _count_past(graph, log, mixtures, held_out), count_past(graph, log, mixtures, held_out), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def test_a_profile_from_a_log_counts_held_out_items_alone():
    rng = np.random.default_rng(0)
    graph = Graph.from_edges(rng.integers(0, 20, 150), rng.integers(0, 20, 150), self_loops="drop")
    users, items, times = rng.integers(0, graph.n_nodes, 200), rng.integers(0, 10, 200), rng.permutation(200)
    mixtures, held = rng.dirichlet(np.ones(3), 10), np.array([0, 5])
    found = user_profile(graph, Log(users, items, times, 10), held, mixtures, dim=4)
    inside = np.isin(items, held)
    alone = user_profile(graph, Log(users[inside], items[inside], times[inside], 10), held, mixtures, dim=4)
    assert {name: part.shape[1] for name, part in found.parts().items()} == {
        "features": 3,
        "taste": 3,
        "credit": 3,
        "exposure": 3,
        "chances": 3,
        "coordinates": 4,
    }
    for name, part in found.parts().items():
        np.testing.assert_array_equal(alone.parts()[name], part)
    np.testing.assert_allclose(found.taste.sum(axis=1), np.bincount(users[inside], minlength=graph.n_nodes))


def test_the_matrix_holds_everything():
    rng = np.random.default_rng(1)
    n, k = 30, 4
    users = UserProfile(
        rng.normal(size=(n, 2)), rng.poisson(2, (n, k)), rng.random((n, k)), rng.random((n, k)) * 5, rng.random((n, 3))
    )
    matrix = users.matrix()
    assert matrix.shape == users.shape == (n, 3 + 2 + 1 + k + 1 + k)
    assert (users.n, users.k) == (n, k)
    np.testing.assert_array_equal(np.asarray(users), matrix)
    np.testing.assert_array_equal(matrix[:, :3], users.coordinates)
    np.testing.assert_array_equal(matrix[:, 3:5], users.features)
    np.testing.assert_allclose(matrix[:, 5].std(), 0.5)
    np.testing.assert_allclose(matrix[:, 6:10].std(axis=0), 0.5)
    bare = UserProfile(users.features)
    np.testing.assert_array_equal(bare.matrix(), users.features)
    assert bare.k is None
    some = users.select(np.arange(n) % 2 == 0)
    np.testing.assert_array_equal(some.credit, users.credit[::2])
    with pytest.raises(ValueError, match="read-only"):
        matrix[0, 0] = 1.0


@pytest.mark.parametrize("product", [[0.2, 0.5, 0.3], [2.0, 0.0, 0.0], [-1.0, 3.0, 1.0], [0.0, 0.0, 0.0]])
def test_matched_columns_are_the_past_on_items_like_the_product(product):
    rng = np.random.default_rng(3)
    taste, credit = rng.poisson(2, (20, 3)), rng.random((20, 3))
    profile = UserProfile(rng.normal(size=(20, 2)), taste, credit, rng.random((20, 3)) * 9, rng.random((20, 4)))
    np.testing.assert_allclose(profile.matched(product), matched_columns(profile, product), atol=1e-12)


def test_totals_leave_out_coordinates_and_topics():
    rng = np.random.default_rng(4)
    profile = UserProfile(rng.normal(size=(9, 2)), rng.poisson(3, (9, 3)), *rng.random((2, 9, 3)), rng.random((9, 4)))
    matrix, totals = profile.matrix(), profile.totals()
    np.testing.assert_array_equal(totals, matrix[:, [4, 5, 6, 10]])
    bare = UserProfile(profile.features)
    assert bare.matched([1.0, 0.0]).shape == (9, 0)
    np.testing.assert_array_equal(bare.totals(), profile.features)
    taste_alone = UserProfile(profile.features, profile.taste)
    np.testing.assert_allclose(taste_alone.matched([1.0, 0.0, 0.0])[:, 0], profile.matched([1.0, 0.0, 0.0])[:, 1])


def test_constant_pasts_are_no_information():
    profile = UserProfile(np.ones((4, 1)), np.ones((4, 2)), np.zeros((4, 2)), np.zeros((4, 2)))
    np.testing.assert_array_equal(profile.matched([0.3, 0.7]), np.zeros((4, 2)))


def test_a_product_with_other_topics_is_refused():
    profile = UserProfile(np.ones((4, 1)), np.ones((4, 2)))
    with pytest.raises(ShapeError, match="knows 2 topics"):
        profile.matched([0.3, 0.3, 0.4])


@pytest.mark.parametrize(
    ("parts", "error", "message"),
    [
        ({"features": np.ones(3)}, ShapeError, "features"),
        ({"features": np.full((3, 1), np.nan)}, InputError, "finite"),
        ({"features": "abc"}, InputError, "array of numbers"),
        ({"taste": np.ones((2, 2))}, ShapeError, "one shape"),
        ({"taste": -np.ones((3, 2))}, InputError, "at least 0"),
        ({"credit": np.ones((3, 2))}, InputError, "both or neither"),
        ({"taste": np.ones((3, 1)), "credit": np.ones((3, 2)), "exposure": np.ones((3, 2))}, ShapeError, "one shape"),
        ({"coordinates": np.ones((4, 2))}, ShapeError, "coordinates"),
    ],
)
def test_bad_profiles_are_refused(parts, error, message):
    with pytest.raises(error, match=message):
        UserProfile(**{"features": np.ones((3, 1)), **parts})


def test_bad_logs_are_refused():
    graph, column = Graph.from_edges([0], [1]), np.array

    def profile(users, items, times, mixtures=((0.5, 0.5),)):
        return user_profile(graph, Log(column(users), column(items), column(times), 1), [0], mixtures, kinds=())

    with pytest.raises(ShapeError, match="one length"):
        profile([0, 1], [0], [0])
    with pytest.raises(InputError, match="users must lie in"):
        profile([7], [0], [0])
    with pytest.raises(ShapeError, match="One row for each item"):
        profile([0], [0], [0], np.ones((2, 2)))


def test_a_profile_is_shown_on_one_line():
    profile = UserProfile(np.zeros((1200, 3)), taste=np.ones((1200, 5)), coordinates=np.zeros((1200, 10)))
    assert repr(profile) == "UserProfile(1,200 users, features 3, taste 5, coordinates 10)"
