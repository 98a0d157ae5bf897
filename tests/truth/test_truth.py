from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import truth as reference
from tensorucb.data.sandbox import make_sandbox
from tensorucb.errors import InputError, ShapeError
from tensorucb.graph import Graph
from tensorucb.truth import TopicAwareIC, activations, fit_topic_aware_ic

DIGG = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "digg_core"
windows = st.sampled_from([None, "1s", "2.5s"])


def seconds(window: str | None) -> float | None:
    return None if window is None else float(window.removesuffix("s"))


def random_log(seed: int, n: int = 12, m: int = 40, actions: int = 60, n_items: int = 8, topics: int = 3):
    rng = np.random.default_rng(seed)
    source, target = rng.integers(0, n, m), rng.integers(0, n, m)
    source[0], target[0] = 0, 1
    graph = Graph.from_edges(source[source != target], target[source != target])
    # Few distinct times and repeated actions: ties and duplicates happen.
    log = rng.integers(0, graph.n_nodes, actions), rng.integers(0, n_items, actions), rng.integers(0, 8, actions)
    return graph, log, rng.dirichlet(np.full(topics, 0.7), size=n_items)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), windows)
def test_trials_equal_the_plain_transcription(seed: int, window: str | None) -> None:
    graph, log, _ = random_log(seed)
    found = activations(graph, *log, window, threads=1)
    plain = reference.trials(graph, *(c.tolist() for c in log), seconds(window))
    assert list(zip(found.edges, found.items, found.successes, strict=True)) == plain
    again = activations(graph, *log, window, threads=3)
    assert np.array_equal(again.edges, found.edges)
    assert np.array_equal(again.successes, found.successes)
    acted = {(u, i) for u, i in zip(*log[:2], strict=True)}
    assert found.exposures == sum(int(graph.out_degree[u]) for u, _ in acted)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), windows, st.sampled_from([(1.0, 1.0), (1.1, 3.0), (2.0, 1.0)]))
def test_penalised_likelihood_never_falls(seed: int, window: str | None, prior: tuple[float, float]) -> None:
    graph, log, mixtures = random_log(seed)
    fit = fit_topic_aware_ic(graph, *log, mixtures, window=window, prior=prior, max_iterations=40, tolerance=0.0)
    curve = fit.penalised_log_likelihood
    assert curve.size == fit.log_likelihood.size == fit.iterations + 1
    assert np.diff(curve).min() >= -1e-10 * max(1.0, np.abs(curve).max())


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10_000), windows)
def test_each_iteration_equals_enumeration_of_the_hidden_coins(seed: int, window: str | None) -> None:
    graph, log, mixtures = random_log(seed)
    prior = (1.1, 3.0)
    found = reference.trials(graph, *(c.tolist() for c in log), seconds(window))
    one, two = (
        fit_topic_aware_ic(graph, *log, mixtures, window=window, max_iterations=k, tolerance=0.0) for k in (1, 2)
    )
    p = one.model.edge_topics
    assert one.log_likelihood[-1] == pytest.approx(reference.log_likelihood(graph, found, mixtures, p), rel=1e-9)
    total = reference.log_likelihood(graph, found, mixtures, p) + reference.log_prior(p, prior)
    assert one.penalised_log_likelihood[-1] == pytest.approx(total, rel=1e-9)
    if two.iterations == 2:
        expected = reference.em_step(graph, found, mixtures, p, prior)
        np.testing.assert_allclose(two.model.edge_topics, expected, rtol=1e-9, atol=1e-12)


def test_the_end_is_a_stationary_point() -> None:
    graph, log, mixtures = random_log(5)
    found = reference.trials(graph, *(c.tolist() for c in log))
    fit = fit_topic_aware_ic(graph, *log, mixtures, prior=(2.0, 3.0), max_iterations=5000, tolerance=0.0)
    p = fit.model.edge_topics
    for e, k in np.random.default_rng(0).integers(0, p.shape, (20, 2)):
        values = []
        for step in (-1e-5, 1e-5):
            moved = p.copy()
            moved[e, k] += step
            values.append(
                reference.log_likelihood(graph, found, mixtures, moved) + reference.log_prior(moved, (2.0, 3.0))
            )
        assert abs(values[1] - values[0]) / 2e-5 < 1e-3


def test_threads_do_not_change_the_fit() -> None:
    box = make_sandbox(200, 2000, 30, 4, base_rate=0.1, rng=0)
    log = box.action_log(rng=1)
    one, two = (fit_topic_aware_ic(box.graph, *log, box.mixtures, window="1s", threads=t) for t in (1, 3))
    assert np.array_equal(one.model.edge_topics, two.model.edge_topics)
    assert np.array_equal(one.penalised_log_likelihood, two.penalised_log_likelihood)


def test_a_planted_truth_is_found_and_more_items_find_it_better() -> None:
    errors, agreement = [], []
    for n_items in (200, 1000, 5000):
        box = make_sandbox(60, 400, n_items, 3, base_rate=0.2, rng=0)
        log = box.action_log(rng=1, starters=8)
        fit = fit_topic_aware_ic(box.graph, *log, box.mixtures, window="1s", prior=(1.2, 1.8))
        true, found = box.truth.edge_topics.ravel(), fit.model.edge_topics.ravel()
        errors.append(np.abs(found - true).mean())
        agreement.append(np.corrcoef(found, true)[0, 1])
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.03
    assert agreement[2] > 0.97


def test_an_early_source_outside_the_window_is_a_failure() -> None:
    graph = Graph.from_edges([0, 1], [2, 2])
    found = activations(graph, [0, 1, 2], [0, 0, 0], [0, 9, 10], window="2s")
    assert found.successes.tolist() == [False, True]
    fit = fit_topic_aware_ic(graph, [0, 1, 2], [0, 0, 0], [0, 9, 10], [[1.0]], window="2s", prior=(1.0, 1.0))
    np.testing.assert_allclose(fit.model.edge_topics[:, 0], [0.0, 1.0], atol=1e-8)
    assert fit.trials.tolist() == [1, 1]
    assert fit.successes.tolist() == [0, 1]


def test_untried_edges_get_the_mode_of_the_prior() -> None:
    graph = Graph.from_edges([0, 1], [1, 2])
    fit = fit_topic_aware_ic(graph, [0], [0], [0.0], [[0.5, 0.5]], prior=(1.1, 1.9))
    np.testing.assert_allclose(fit.model.edge_topics[1], 0.1)
    assert fit.trials.tolist() == [1, 0]


def test_the_model_mixes_topics_and_keeps_its_type() -> None:
    table = np.random.default_rng(0).random((50, 4))
    mixture = np.array([0.1, 0.2, 0.3, 0.4])
    np.testing.assert_allclose(TopicAwareIC(table).probabilities(mixture), table @ mixture, rtol=1e-12)
    small = TopicAwareIC(table.astype(np.float32))
    assert small.edge_topics.dtype == np.float32
    assert small.probabilities(mixture).dtype == np.float64
    np.testing.assert_allclose(small.probabilities(mixture), table @ mixture, rtol=1e-6)


def test_bad_models_mixtures_and_logs_are_named() -> None:
    with pytest.raises(ShapeError, match=r"\(edges, topics\)"):
        TopicAwareIC(np.ones(3))
    with pytest.raises(InputError, match=r"in \[0, 1\]"):
        TopicAwareIC([[1.5]])
    model = TopicAwareIC([[0.1, 0.2]])
    with pytest.raises(ShapeError, match=r"shape \(2,\)"):
        model.probabilities([1.0])
    with pytest.raises(InputError, match="sum to 1"):
        model.probabilities([0.5, 0.6])
    with pytest.raises(InputError, match="at least 0"):
        model.probabilities([1.5, -0.5])
    graph = Graph.from_edges([0, 1], [1, 2])
    for log, message in [
        (([], [], []), "empty"),
        (([5], [0], [0]), "users must lie in"),
        (([0], [-1], [0]), "items must lie in"),
        (([0], [0], [np.nan]), "finite"),
        (([0.5], [0], [0]), "whole"),
        (([0, 1], [0], [0]), "one length"),
    ]:
        with pytest.raises(InputError, match=message):
            activations(graph, *log)
    with pytest.raises(InputError, match="window"):
        activations(graph, [0], [0], [0], window=0)
    with pytest.raises(InputError, match="prior"):
        fit_topic_aware_ic(graph, [0], [0], [0], [[1.0]], prior=(0.5, 1.0))
    with pytest.raises(InputError, match="Each item needs a row of mixtures"):
        fit_topic_aware_ic(graph, [0], [3], [0], [[1.0]])


def test_digg_core_gives_its_published_counts() -> None:
    if not DIGG.exists():
        pytest.skip("the Digg subset is not beside the project")
    edges, actions = (
        np.genfromtxt(DIGG / name, delimiter=",", skip_header=1, usecols=columns, dtype=np.int64)
        for name, columns in (("edges.csv.gz", (0, 1)), ("actions.csv.gz", (0, 1, 2)))
    )
    graph = Graph.from_edges(edges[:, 0], edges[:, 1])
    rows = np.searchsorted(graph.ids, actions[:, 0])
    items = np.unique(actions[:, 1], return_inverse=True)[1]
    found = activations(graph, rows, items, actions[:, 2])
    # Published: pairs whose source acted, and successes. 412,766 targets had acted before, 48 in the same second.
    assert found.exposures == 3_779_827
    assert found.successes.sum() == 452_020
    assert found.items.size == 3_779_827 - 412_766 - 48
