import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorucb.data.sandbox import Sandbox, digg_like, flixster_like, make_sandbox
from tensorucb.diffusion import direct_spread
from tensorucb.errors import InputError


def greedy(box: Sandbox, p: np.ndarray, k: int = 10) -> np.ndarray:
    graph, seeds = box.graph, []
    miss = np.ones(graph.n_nodes)
    for _ in range(k):
        gain = miss + np.bincount(graph.sources, weights=p * miss[graph.targets], minlength=graph.n_nodes)
        gain[seeds] = -1
        v = int(gain.argmax())
        seeds.append(v)
        edges = slice(graph.out_offsets[v], graph.out_offsets[v + 1])
        miss[graph.targets[edges]] *= 1 - p[edges]
        miss[v] = 0
    return np.array(seeds)


def same(a: Sandbox, b: Sandbox) -> bool:
    return (
        np.array_equal(a.graph.targets, b.graph.targets)
        and np.array_equal(a.users, b.users)
        and np.array_equal(a.products, b.products)
        and np.array_equal(a.truth.edge_topics, b.truth.edge_topics)
    )


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 60), st.data())
def test_sizes_are_exact_and_nobody_is_isolated(n: int, data: st.DataObject) -> None:
    m = data.draw(st.integers(n, n * (n - 1)))
    box = make_sandbox(n, m, 3, 4, rng=data.draw(st.integers(0, 99)))
    graph = box.graph
    assert (graph.n_nodes, graph.n_edges) == (n, m)
    assert (graph.out_degree >= 1).all()
    assert (graph.sources != graph.targets).all()
    assert np.array_equal(graph.ids, np.arange(n))
    assert box.truth.edge_topics.shape == (m, 4)
    assert len(box.user_columns) == box.users.shape[1]
    assert np.linalg.norm(box.users, axis=1).max() <= 1 + 1e-12
    assert np.isfinite(box.users).all()
    np.testing.assert_allclose(box.products.sum(axis=1), 1)
    np.testing.assert_allclose(box.mixtures.sum(axis=1), 1)
    p = box.probabilities(1)
    assert p.dtype == np.float64
    assert ((p >= 0) & (p <= 1)).all()


def test_a_seed_fixes_everything() -> None:
    assert same(make_sandbox(200, 2000, 5, rng=3), make_sandbox(200, 2000, 5, rng=3))
    assert not same(make_sandbox(200, 2000, 5, rng=3), make_sandbox(200, 2000, 5, rng=4))


@pytest.fixture(scope="module")
def digg() -> Sandbox:
    return digg_like()


def test_digg_like_has_the_papers_size_and_a_skewed_degree(digg: Sandbox) -> None:
    graph = digg.graph
    assert (graph.n_nodes, graph.n_edges, len(digg.names)) == (2_843, 75_895, 1_000)
    percentiles = np.percentile(graph.out_degree, [50, 90, 99, 100])
    np.testing.assert_allclose(percentiles, [2, 95, 277, 457], rtol=0.12)
    assert digg.truth.edge_topics.mean(dtype=np.float64) == pytest.approx(0.02, rel=1e-3)


def test_degree_alone_is_beaten_by_the_truth(digg: Sandbox) -> None:
    by_degree = np.argsort(-digg.graph.out_degree, kind="stable")[:10]
    shares = []
    for product in range(10):
        p = digg.probabilities(product)
        best = direct_spread(digg.graph, p, greedy(digg, p))
        shares.append(direct_spread(digg.graph, p, by_degree) / best)
    assert np.mean(shares) < 0.7


def test_communities_are_dense_inside(digg: Sandbox) -> None:
    inside = digg.communities[digg.graph.sources] == digg.communities[digg.graph.targets]
    share = np.square(np.bincount(digg.communities) / digg.communities.size).sum()
    assert inside.mean() > 3 * share


def test_features_show_what_drives_the_truth(digg: Sandbox) -> None:
    graph = digg.graph
    p = digg.truth.edge_topics
    tried = graph.out_degree >= 20
    logit = np.log(p.mean(axis=1))
    mean_logit = np.bincount(graph.sources, weights=logit, minlength=graph.n_nodes) / graph.out_degree
    column = digg.user_columns.index("influence")
    # Influence is seen with noise of half its own size, next to the other effects.
    assert np.corrcoef(mean_logit[tried], digg.users[tried, column])[0, 1] > 0.6
    topic = digg.user_columns.index("taste 1")
    tilt = np.log(p[:, 0]) - np.log(p).mean(axis=1)
    assert np.corrcoef(tilt, digg.users[graph.sources, topic])[0, 1] > 0.3


def test_flixster_like_has_the_papers_size() -> None:
    box = flixster_like()
    assert (box.graph.n_nodes, box.graph.n_edges, len(box.names)) == (29_384, 371_722, 100)
    p50, p90, p99 = np.percentile(box.graph.out_degree, [50, 90, 99])
    assert p90 >= 10 * p50
    assert p99 >= 10 * p90


def test_scale_shrinks_all_sizes() -> None:
    box = flixster_like(scale=0.02)
    assert (box.graph.n_nodes, box.graph.n_edges, len(box.names)) == (588, 7_434, 2)
    with pytest.raises(InputError, match="scale"):
        digg_like(scale=0)


def test_product_effect_sets_how_much_the_product_matters() -> None:
    none, some, strong = (make_sandbox(1000, 15000, 20, product_effect=e, rng=0) for e in (0.0, 0.5, 2.0))
    assert np.ptp(none.truth.edge_topics, axis=1).max() == 0.0
    lost = []
    for box in (some, strong):
        blind = greedy(box, box.truth.edge_topics.mean(axis=1).astype(float), 5)
        own = [(box.probabilities(i), greedy(box, box.probabilities(i), 5)) for i in range(20)]
        # Users won beyond the five seeds, which count whatever the product.
        won = [(direct_spread(box.graph, p, blind) - 5, direct_spread(box.graph, p, best) - 5) for p, best in own]
        lost.append(1 - np.sum(won, axis=0)[0] / np.sum(won, axis=0)[1])
    assert 0 <= lost[0] < 0.1
    assert lost[1] > 0.15


def test_strategies_leave_the_rest_of_the_world_as_it_is() -> None:
    plain, box = make_sandbox(200, 2000, 5, rng=3), make_sandbox(200, 2000, 5, n_strategies=3, rng=3)
    assert np.array_equal(plain.graph.targets, box.graph.targets)
    assert np.array_equal(plain.products, box.products)
    assert np.array_equal(plain.probabilities(2), box.probabilities(2))
    assert box.user_columns == (*plain.user_columns, *(f"liking of strategy {s}" for s in (1, 2, 3)))
    assert box.users.shape[1] == plain.users.shape[1] + 3
    assert (plain.strategies.shape, box.strategies.shape) == ((0, 0), (3, 3))


def test_a_strategy_moves_logits_by_source_and_by_product_with_the_weight_asked() -> None:
    """The formula of the docstring, from the logits of the truth with and without a strategy."""
    box = make_sandbox(2000, 20_000, 40, n_strategies=6, strategy_effect=0.8, rng=0)

    def logit(p: np.ndarray) -> np.ndarray:
        return np.log(p) - np.log1p(-p)

    first = box.graph.out_offsets[:-1]
    moved = np.array(
        [[(logit(box.probabilities(i, s)) - logit(box.probabilities(i)))[first] for s in range(6)] for i in range(40)]
    )
    by_product, by_source = moved.mean(axis=2, keepdims=True), moved.mean(axis=0, keepdims=True)
    # No interaction of source and product beyond the two sums.
    np.testing.assert_allclose(moved, by_product + by_source - by_source.mean(axis=2, keepdims=True), atol=1e-6)
    each = 0.8 / 3**0.5
    main = moved.mean(axis=(0, 2))
    assert main.mean() == pytest.approx(0.0, abs=0.02)
    # The tails of the users' part are clipped, so it is a little below.
    parts = by_source[0] - main[:, None], (by_product - by_product.mean(axis=0))[:, :, 0], main
    np.testing.assert_allclose([part.std() for part in parts], each, rtol=0.05)
    # Users' features show the liking through noise of half its size.
    seen = box.users[:, box.user_columns.index("liking of strategy 4")]
    assert np.corrcoef(seen, by_source[0, 3])[0, 1] == pytest.approx(1 / 1.25**0.5, abs=0.03)


def test_at_effect_zero_no_strategy_matters() -> None:
    box = make_sandbox(200, 2000, 5, n_strategies=3, strategy_effect=0.0, rng=3)
    for strategy in range(3):
        assert np.array_equal(box.probabilities(1, strategy), box.probabilities(1))


def test_action_log_holds_one_cascade_an_item() -> None:
    box = make_sandbox(300, 3000, 20, base_rate=0.1, rng=0)
    users, items, times = box.action_log([4, 2, 7], rng=1, starters=3)
    assert users.shape == items.shape == times.shape
    assert set(items) == {2, 4, 7}
    assert np.unique(items * 300 + users).size == users.size
    edges = set(zip(box.graph.sources.tolist(), box.graph.targets.tolist(), strict=True))
    for item in (2, 4, 7):
        mine = items == item
        assert (times[mine] == 0).sum() == 3
        step = dict(zip(users[mine].tolist(), times[mine].tolist(), strict=True))
        for user, when in step.items():
            assert when == 0 or any((v, user) in edges and step[v] == when - 1 for v in step)
    again = box.action_log([4, 2, 7], rng=1, starters=3)
    assert all(np.array_equal(a, b) for a, b in zip(again, (users, items, times), strict=True))
    assert box.action_log([], rng=0)[0].size == 0


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"n_edges": 10}, "n_edges"),
        ({"n_users": 0}, "n_users"),
        ({"base_rate": 0.0}, "base_rate"),
        ({"n_strategies": -1}, "n_strategies"),
        ({"strategy_effect": -1.0}, "strategy_effect"),
        ({"degree_shape": (5.0, 2.0, 3.0, 4.0)}, "degree_shape"),
    ],
)
def test_bad_settings_are_named(settings_: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_sandbox(**{"n_users": 50, "n_edges": 400, "n_products": 2, "rng": 0, **settings_})  # type: ignore[arg-type]


def test_bad_items_are_named() -> None:
    box = make_sandbox(50, 400, 3, rng=0)
    with pytest.raises(InputError, match="product_index"):
        box.probabilities(3)
    with pytest.raises(InputError, match="no strategies"):
        box.probabilities(0, 0)
    with pytest.raises(InputError, match="strategy must be"):
        make_sandbox(50, 400, 3, n_strategies=2, rng=0).probabilities(0, 2)
    with pytest.raises(InputError, match="distinct"):
        box.action_log([1, 1])
    with pytest.raises(InputError, match="starters"):
        box.action_log([1], starters=0)
