"""The response model: a function of the log; kernels and steps against plain NumPy; what it learns; odd input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import response as plain
from reference.rounds import TOPICS, crowd, rounds_of
from tensorucb.errors import InputError, ShapeError
from tensorucb.graph import Graph
from tensorucb.learner import response

# private: kernels and single steps of the fit against plain NumPy
from tensorucb.learner.response import _features, _fit, _kernels, _log

MODEL = response.ResponseSettings(base_logit=-1.0)
CASES = [((3,), True), ((3,), False), ((3, 2), True), ((1,), False), ((2, 1, 2), False)]


def network(rng, n=12, m=60):
    pairs = np.unique(rng.integers(0, n, (m, 2)), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return Graph.from_edges(pairs[:, 0], pairs[:, 1])


def users_of(rng, n, k=3, past=True):
    """Raw inputs: the model's features of them, and the reference's."""
    raw = [rng.normal(size=(n, 2)), None, None, None]
    if past:
        raw[1:] = rng.poisson(2.0, (n, k)) * 1.0, rng.random((n, k)) * 4, rng.random((n, k)) * 30
    return response.node_features(*raw), plain.Users(*raw)


def log_of(graph, rounds, max_rows=10**6, nodes=None):
    nodes = nodes or no_past(graph)
    log = ()
    for number, (vectors, edges, outcomes) in enumerate(rounds, 1):
        log = response.with_round(log, response.told(graph, nodes, vectors, edges, outcomes, number), max_rows)
    return log


def no_past(graph):
    return response.node_features(np.arange(graph.n_nodes)[:, None] * 1.0, None, None, None)


def small_world(sizes=(3,), past=True, rounds=4, rows=14, seed=0):
    """A network, features of users, and rounds with edges told twice."""
    rng = np.random.default_rng(seed)
    graph = network(rng)
    nodes, users = users_of(rng, graph.n_nodes, sizes[0], past)
    told = []
    for _ in range(rounds):
        edges = rng.integers(0, graph.n_edges, rows)
        told.append((0.2 + rng.random(sum(sizes)), edges, rng.integers(0, 2, rows).astype(float)))
    return graph, nodes, users, told, rng


def off_the_optimum(sizes=(3,), past=True, redundancy=0.6, **options):
    """Where a fit could stand, and the same for the reference."""
    graph, nodes, users, told, rng = small_world(sizes, past, **options)
    log = log_of(graph, told, nodes=nodes)
    context = _features.context_of(sizes, MODEL.rank, np.array([r.vectors for r in log]))
    data, prior = _log.design_of(nodes, context, log), _fit.prior_of(MODEL, nodes, context)
    point = _fit.Point(
        prior.means + 0.3 * rng.normal(size=prior.means.size) * np.sqrt(prior.variance("weights")),
        rng.normal(0, 0.3, (data.pulls.seen.size, 1 + context.k)),
        rng.normal(0, 0.1, prior.groups["target_weights"].size),
        rng.normal(0, 0.3, data.observed.size),
        rng.normal(0, 0.1, len(log)),
        0.3,
    )
    d = nodes.as_source.shape[1]
    part = slice(d, d + data.contexts.shape[1])
    now = _fit.Stand(MODEL, data, part, prior, point, _fit.rows_at(data, point, _fit.dose_of(data, redundancy)))
    return now, users, plain.Rounds(graph, told)


def predictions(graph, nodes, fitted, contexts):
    """Logits and deviations of every edge's source and target in some contexts, with what rounds share and ρ."""
    parts = []
    for vectors in contexts:
        logits = response.node_logits(nodes, fitted, fitted.context.scaled(vectors[None])[0])
        parts += [logits.mean[graph.sources] + logits.target[graph.targets], logits.deviation, logits.apart]
        parts.append([logits.level, logits.doubt, fitted.overlap])
    return np.concatenate(parts)


# -- a function of the log --


@pytest.mark.parametrize(("sizes", "rank"), [((3,), 100), ((3, 2), 100), ((3, 2), 3), ((2, 2, 2), 4)])
def test_neither_the_order_of_rounds_nor_of_rows_matters(sizes, rank):
    """More contexts than ``rank``, edges told twice in a round: predictions are equal to 1e-8."""
    graph, nodes, _, told, rng = small_world(sizes, rounds=9)
    model = replace(MODEL, rank=rank)
    contexts = [vectors for vectors, *_ in told[:2]] + [0.2 + rng.random(sum(sizes))]
    found = []
    for order in (np.arange(9), rng.permutation(9), np.arange(9)[::-1]):
        shuffled = []
        for t in order:
            vectors, edges, outcomes = told[t]
            rows = rng.permutation(edges.size)
            shuffled.append((vectors, edges[rows], outcomes[rows]))
        fitted = response.fit(model, nodes, sizes, log_of(graph, shuffled, nodes=nodes))
        found.append(predictions(graph, nodes, fitted, contexts))
    np.testing.assert_allclose(found[1], found[0], rtol=0, atol=1e-8)
    np.testing.assert_allclose(found[2], found[0], rtol=0, atol=1e-8)


def test_the_log_goes_through_arrays():
    graph, _, _, told, _ = small_world(rounds=12)
    log = log_of(graph, told, max_rows=80)
    assert {r.level for r in log} > {0}
    arrays = response.log_to_arrays(log, 3)
    again = response.log_to_arrays(response.log_from_arrays(arrays, graph, no_past(graph), 3), 3)
    assert set(again) == set(arrays)
    assert all(np.array_equal(again[name], arrays[name]) and again[name].dtype == arrays[name].dtype for name in arrays)


@pytest.mark.parametrize(
    ("name", "change", "error"),
    [
        ("log_sizes", lambda x: x[1:], ShapeError),
        ("log_sizes", lambda x: -x, ShapeError),
        ("log_level", lambda x: x + 4, InputError),
        ("log_number", lambda x: x - 99, InputError),
        ("log_vectors", lambda x: x[:, 1:], ShapeError),
        ("log_edges", lambda x: x + 10**6, InputError),
        ("log_edges", lambda x: x[::-1], InputError),
        ("log_edges", lambda x: x[1:], ShapeError),
        ("log_outcomes", lambda x: x + 1.5, InputError),
        ("log_trials", lambda x: 0.0 * x, InputError),
        ("log_doses", lambda x: 0 * x, InputError),
    ],
)
def test_a_log_that_cannot_be_is_refused(name, change, error):
    graph, _, _, told, _ = small_world()
    arrays = response.log_to_arrays(log_of(graph, told), 3)
    with pytest.raises(error, match=r"log_|malformed"):
        response.log_from_arrays({**arrays, name: change(arrays[name])}, graph, no_past(graph), 3)


# -- thinning --


def rare(rounds=60, rate=0.05, seed=0):
    """Rounds over one network with few responses."""
    rng = np.random.default_rng(seed)
    graph = network(rng, 60, 900)
    told = []
    for _ in range(rounds):
        edges = graph.out_edges(rng.choice(graph.n_nodes, 8, replace=False))
        told.append((rng.dirichlet(np.ones(3)), edges, (rng.random(edges.size) < rate).astype(float)))
    return graph, told, rng


def test_thinned_zeros_count_as_many_as_there_were():
    graph, told, _ = rare()
    log, full = log_of(graph, told, max_rows=3000), log_of(graph, told)
    kept = {r.number: r for r in log}
    assert sum(r.edges.size for r in log) <= 3000 < sum(r.edges.size for r in full)
    assert kept[60].level == 0
    assert {r.level for r in log} & {1, 2}
    zeros, weight = 0, 0.0
    for whole in full:
        record = kept.get(whole.number)
        if record is None:
            continue
        # Responses are never thinned, nor do they count more than once.
        assert np.array_equal(record.edges[record.outcomes > 0], whole.edges[whole.outcomes > 0])
        assert (record.weights[record.outcomes > 0] == 1.0).all()
        assert np.isin(record.edges, whole.edges).all()
        assert np.array_equal(record.doses, whole.doses[np.searchsorted(whole.edges, record.edges)])
        zeros += int((whole.outcomes == 0).sum())
        weight += float(record.weights[record.outcomes == 0].sum())
    assert weight == pytest.approx(zeros, rel=0.03)


def test_no_edge_loses_the_zeros_of_all_rounds():
    """Each edge told 40 times: the weights of its zeros sum to 40 within what 40 coins allow."""
    graph = network(np.random.default_rng(0), 30, 200)
    edges = np.arange(graph.n_edges)
    told = [(np.ones(3), edges, np.zeros(edges.size))] * 40
    log = log_of(graph, told, max_rows=40 * edges.size * 3 // 4)
    total = np.zeros(edges.size)
    for record in log:
        total[record.edges] += record.weights
    thinned = sum(r.level > 0 for r in log)
    assert thinned >= 15
    assert np.abs(total - 40).max() < 4.5 * np.sqrt(thinned)
    assert total.mean() == pytest.approx(40, rel=0.02)


def test_the_same_zeros_stay_whatever_happened_in_between():
    """A late response changes nothing but its own row; a log that went through a file goes on as it was."""
    graph, told, _ = rare()
    log = log_of(graph, told, max_rows=3000)
    half = log_of(graph, told[:30], max_rows=3000)
    loaded = response.log_from_arrays(response.log_to_arrays(half, 3), graph, no_past(graph), 3)
    for number, (vectors, edges, outcomes) in enumerate(told[30:], 31):
        record = response.told(graph, no_past(graph), vectors, edges, outcomes, number)
        loaded = response.with_round(loaded, record, 3000)
    arrays = [response.log_to_arrays(each, 3) for each in (log, loaded)]
    assert all(np.array_equal(arrays[0][name], arrays[1][name]) for name in arrays[0])
    vectors, edges, outcomes = told[0]
    late = outcomes.copy()
    late[np.flatnonzero(outcomes == 0)[0]] = 1.0
    amended = log_of(graph, [(vectors, edges, late), *told[1:]], max_rows=3000)
    assert np.setxor1d(amended[0].edges, log[0].edges).size <= 1


def test_old_rounds_go_in_the_end_and_the_newest_stays_whole():
    graph, told, _ = rare(rounds=40, rate=0.5)
    log = log_of(graph, told, max_rows=500)
    assert sum(r.edges.size for r in log) <= 500
    assert log[-1].number == 40
    assert log[-1].edges.size == told[-1][1].size
    assert log_of(graph, told[:1], max_rows=1)[0].level == 0


def test_a_thinned_log_says_nearly_what_the_whole_one_says():
    graph, told, rng = rare(rounds=80, rate=0.15)
    nodes, _ = users_of(rng, graph.n_nodes)
    fitted = [response.fit(MODEL, nodes, (3,), log_of(graph, told, rows, nodes)) for rows in (10**6, 4000)]
    p = []
    for each in fitted:
        logits = response.node_logits(nodes, each, np.array([0.5, 0.3, 0.2]))
        p.append(1.0 / (1.0 + np.exp(-logits.mean[graph.sources] - logits.target[graph.targets])))
    assert abs(p[0] - p[1]).mean() < 0.02


# -- sums, steps and covariances --


@pytest.mark.parametrize(("sizes", "past"), CASES)
def test_the_log_posterior_and_its_sums_are_the_plain_ones(sizes, past):
    now, users, rounds = off_the_optimum(sizes, past)
    want = plain.log_posterior(MODEL, now.prior, now.point, users, rounds, 0.6, sizes)
    assert now.value == pytest.approx(want, rel=1e-11)
    pulls, cells = plain.sums(now.point, users, rounds, 0.6, sizes)
    tolerance = {"rtol": 1e-9, "atol": 1e-12}
    found = np.column_stack([now.rows.curvature, now.rows.slope])
    np.testing.assert_allclose(found, [pulls[key] for key in sorted(pulls)], **tolerance)
    # Rows of a pull have one number for all: curvatures and slopes of targets are seen where the step leads to.
    direction = _fit.target_step(now).direction
    curvature, slope = plain.by_target(cells, rounds)
    offsets, variance = now.point.offsets, now.prior.variance("offsets")[0]
    part = direction["offsets"] * (curvature + 1.0 / variance) - slope + offsets / variance
    moved = {name: direction[name] for name in ("target_weights", "saturation")}
    want = -plain.crossed(cells, users, rounds, now.point, 0.6, sizes, moved)
    np.testing.assert_allclose(part, want, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("sizes", [(3,), (3, 2)])
def test_newton_steps_have_the_right_slope(sizes):
    """Along δ = H⁻¹∇ the slope is ∇ᵀH⁻¹∇ and the curvature −∇ᵀH⁻¹∇; q enters by a linearised term, so 5 %."""
    now, _, _ = off_the_optimum(sizes)
    h = 3e-3
    for step, tolerance in ((_fit.source_step, 5e-3), (_fit.target_step, 5e-2), (_fit.round_step, 5e-3)):
        direction = step(now).direction
        low, mid, high = (now.moved(direction, size).value for size in (-h, 0.0, h))
        slope, curvature = (high - low) / (2 * h), (high - 2 * mid + low) / h**2
        assert slope > 0, step.__name__
        assert curvature == pytest.approx(-slope, rel=tolerance), step.__name__


@pytest.mark.parametrize("sizes", [(3,), (2, 2)])
def test_a_fit_ends_where_no_direction_leads_up(sizes):
    """Finite differences of the plain log posterior at the end of a long fit, with the variances it learned."""
    graph, nodes, users, told, _ = small_world(sizes, rounds=6)
    fitted = response.fit(replace(MODEL, sweeps=60), nodes, sizes, log_of(graph, told, nodes=nodes))
    rounds = plain.Rounds(graph, told)

    r, prior = fitted.redundancy, fitted.prior

    def value(point):
        return plain.log_posterior(MODEL, prior, point, users, rounds, r, sizes)

    point = fitted.point
    best, h = value(point), 1e-4
    for name in ("weights", "effects", "target_weights", "offsets", "rounds", "saturation"):
        part = np.asarray(getattr(point, name), dtype=np.float64)
        for at in range(min(part.size, 8)):
            step = np.zeros(part.size)
            step[at] = h
            step = step.reshape(part.shape)
            there, back = (value(replace(point, **{name: part + sign * step})) for sign in (1, -1))
            assert abs(there - back) / (2 * h) < 2e-3, name
            assert max(there, back) < best + 1e-7, name


@pytest.mark.parametrize("sizes", [(3,), (3, 2), (2, 2, 2)])
def test_predictions_are_the_plain_ones(sizes):
    graph, nodes, users, told, rng = small_world(sizes, rounds=5)
    fitted = response.fit(MODEL, nodes, sizes, log_of(graph, told, nodes=nodes))
    own = 0.2 + rng.random(sum(sizes))
    logits = response.node_logits(nodes, fitted, own)
    p = 1.0 / (1.0 + np.exp(-logits.mean[graph.sources] - logits.target[graph.targets]))
    np.testing.assert_allclose(p, plain.edge_scores(fitted, users, graph, own, sizes), rtol=1e-9)
    rounds = plain.Rounds(graph, told)
    keys = sorted({(t, i) for t, i, *_ in rounds.rows})
    curvature = dict(zip(keys, fitted.curvature, strict=True))
    want = plain.deviations(fitted, users, rounds, curvature, nodes.n, own, sizes)
    np.testing.assert_allclose(logits.deviation, want, rtol=1e-7)
    features = plain.context(own, sizes)
    square = fitted.prior.variance("rounds")[0] + features @ fitted.level_covariance @ features
    assert np.hypot(logits.level, logits.doubt) == pytest.approx(np.sqrt(square))
    level, start = np.zeros(fitted.point.weights.size), nodes.as_source.shape[1]
    level[start : start + features.size] = features
    want = plain.deviations(fitted, users, rounds, curvature, nodes.n, own, sizes, known=level)
    np.testing.assert_allclose(logits.apart, want, rtol=1e-6)


def test_before_the_first_round_the_prior_speaks():
    _, nodes, users, _, rng = small_world()
    own = rng.random(3) + 0.2
    fitted = response.fit(MODEL, nodes, (3,), (), like=own)
    logits = response.node_logits(nodes, fitted, own)
    # Of a target only its past is known.
    np.testing.assert_allclose(logits.target, users.readiness, rtol=1e-12)
    for i in range(nodes.n):
        x, z = plain.source_row(users, i, own, (3,)), np.append(1.0, own)
        variance = x**2 @ fitted.prior.variance("weights") + z**2 @ fitted.prior.variance("effects")
        assert logits.mean[i] == pytest.approx(x @ fitted.prior.means)
        assert logits.deviation[i] == pytest.approx(np.sqrt(variance))
    assert fitted.overlap == 0.0


def test_kernels_are_the_plain_sums():
    """Sources with one, two and more pulls, in an order that is not theirs."""
    rng = np.random.default_rng(2)
    place = np.array([0, 2, 1, 2, 3, 2, 1], dtype=np.int64)
    X = rng.normal(size=(7, 5))
    Z = rng.normal(size=(7, 3))
    w = rng.random(7)
    n = 4
    variances = np.array([0.5, 1.0, 2.0])
    V, H = np.tile(np.diag(variances), (n, 1, 1)), np.zeros(Z.shape)
    _kernels.learn_effects(place, Z, w, V, H)
    plain_V, plain_H = plain.learn_effects(place, Z, w, variances, n)
    np.testing.assert_allclose(V, plain_V, rtol=1e-10)
    np.testing.assert_allclose(H, plain_H, rtol=1e-10)
    order = np.argsort(place, kind="stable")
    begin = np.searchsorted(place[order], np.arange(n + 1))
    K, left = plain.gains(place, H, X, n), np.empty_like(X)
    _kernels.without_effects(order, begin, H, X, Z, left)
    np.testing.assert_allclose(left, X - np.einsum("qcd,qc->qd", K[place], Z), rtol=1e-10, atol=1e-12)
    root = rng.normal(size=(5, 5))
    S, squares = root @ root.T, np.ones(3)
    _kernels.gain_squares(order, begin, H, X, X @ S, squares)
    np.testing.assert_allclose(squares, 1.0 + np.einsum("icd,de,ice->c", K, S, K), rtol=1e-10)


# -- what is learned --


def fitted_to(kind, seed, **options):
    graph, users = crowd(seed)
    told, own = rounds_of(graph, users, kind, seed=seed, **options)
    nodes = response.node_features(users, None, None, None)
    fitted = response.fit(response.ResponseSettings(), nodes, (TOPICS,), log_of(graph, told, nodes=nodes))
    return graph, nodes, fitted, own


@pytest.mark.parametrize("seed", [0, 1])
def test_how_far_outcomes_of_one_target_are_the_same_is_learned(seed):
    """Coins: r and ρ near 0. One answer told to all: both near 1. Contacts that add up, told per user: r, but not q."""
    coins, answer, adding = (fitted_to(kind, seed)[2] for kind in ("coins", "one answer", "adding up"))
    assert coins.redundancy < 0.05
    assert coins.overlap < 0.05
    assert answer.redundancy > 0.9
    assert answer.overlap > 0.75
    assert adding.redundancy > 0.9
    assert adding.point.saturation < 0.1
    assert adding.overlap < 0.1


def test_what_is_particular_to_a_round_is_learned():
    """Rounds that differ by one logit: σ_u² near 1. Rounds that do not: it stays near its start."""
    still, noisy = (fitted_to("coins", 3, rounds=60, noise=noise)[2] for noise in (0.0, 1.0))
    assert still.prior.variance("rounds")[0] < 0.2
    assert 0.5 < noisy.prior.variance("rounds")[0] < 1.7


@pytest.mark.parametrize(("rounds", "spread"), [(20, 0.2), (120, 0.4)])
def test_deviations_cover(rounds, spread):
    """Three worlds, 450 sources: 90 % intervals cover 80 to 98 %; sources that differ more than usual take longer."""
    inside = []
    for seed in range(3):
        graph, nodes, fitted, own = fitted_to("coins", seed, rounds=rounds, spread=spread)
        source, deviation, target, *_ = response.node_logits(nodes, fitted, np.ones(TOPICS) / TOPICS)
        # Targets are all alike here, so that their mean belongs to the level.
        error = source + target[graph.targets].mean() - own
        inside += (abs(error - np.median(error)) < 1.645 * deviation).tolist()
    assert 0.8 <= np.mean(inside) <= 0.98


def test_variances_of_groups_follow_the_data():
    """Where features decide the response to a product, their variance grows; where nothing does, it shrinks."""
    found = {}
    for strength in (0.0, 1.5):
        rng = np.random.default_rng(4)
        graph = network(rng, 60, 900)
        nodes, _ = users_of(rng, graph.n_nodes, past=False)
        told = []
        for _ in range(40):
            own = rng.dirichlet(np.full(3, 0.3))
            edges = graph.out_edges(rng.choice(graph.n_nodes, 8, replace=False))
            u = strength * (own[0] - own[1]) * nodes.as_target[graph.sources[edges], 0] - 1.0
            told.append((own, edges, (rng.random(edges.size) < 1 / (1 + np.exp(-u))) * 1.0))
        found[strength] = response.fit(MODEL, nodes, (3,), log_of(graph, told, nodes=nodes))
    still, moved = (found[strength].prior.variance("weights") for strength in (0.0, 1.5))
    assert moved[-1] > 0.05 > 0.011 >= still[-1]  # source features times the product
    assert still[0] < 0.02  # source features
    M = found[1.5].point.weights[-6:].reshape(3, 2)
    assert M[0, 0] - M[1, 0] == pytest.approx(3.0, abs=1.2)
    assert abs(M[:, 1]).max() < 0.5 * abs(M[:2, 0]).min()


# -- features --


def test_rows_in_any_order_and_repeated_edges_count():
    graph = Graph.from_edges([0, 0, 1, 2], [1, 2, 2, 0])
    record = response.told(graph, no_past(graph), np.ones(1), np.array([2, 1, 2, 0]), np.array([1.0, 0.0, 0.0, 0.5]), 1)
    assert record.edges.tolist() == [0, 1, 2]
    assert record.outcomes.tolist() == [0.5, 0.0, 0.5]
    assert record.trials.tolist() == [1, 1, 2]
    assert record.doses.tolist() == [1, 2, 2]


def test_features_of_any_scale_are_standardised():
    rng = np.random.default_rng(0)
    users = np.column_stack(
        [rng.normal(size=50), rng.normal(size=50) * 1e200, rng.normal(size=50) * 1e-200, np.ones(50)]
    )
    nodes = response.node_features(np.hstack([users, users[:, :1] * 3 + 1]), None, None, None)
    # A constant and a repeated column go.
    assert nodes.as_target.shape == (50, 3)
    np.testing.assert_allclose(nodes.as_target.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(nodes.as_target.std(axis=0), 1, rtol=1e-9)


def test_many_features_are_crossed_by_their_leading_axes():
    rng = np.random.default_rng(0)
    wide = response.node_features(rng.normal(size=(200, 30)), None, None, None)
    np.testing.assert_array_equal(wide.crossing(3), np.eye(30))
    few = wide.as_target @ wide.crossing(40)
    assert few.shape == (200, 10)
    spread = np.linalg.eigvalsh(wide.as_target.T @ wide.as_target)
    assert (few**2).sum() == pytest.approx(spread[-10:].sum())


@pytest.mark.parametrize("sizes", [(4, 3), (2, 3, 2)])
def test_a_large_interaction_is_the_kronecker_product_in_a_basis_of_the_contexts_told(sizes):
    rng = np.random.default_rng(1)
    told, other = rng.normal(size=(7, sum(sizes))), rng.normal(size=(5, sum(sizes)))
    told[4] = told[1]  # adds no direction
    small = _features.context_of(sizes, 6, told)
    assert len(small.landmarks) == 6
    assert small.widths == tuple(min(w, 6) for w in _features.context_of(sizes, 99, told).widths)
    ends = np.cumsum([0, *small.widths])
    both = np.vstack([told, other])
    got = small.features(both)[:, 1 + sum(sizes) :]
    for g, group in enumerate(small.interactions):
        modes = [np.split(both, np.cumsum(sizes)[:-1], axis=1)[m] for m in group]
        full = np.array([np.kron(a, b) for a, b in zip(modes[0], modes[1], strict=True)])
        if len(group) == 3:
            full = np.array([np.kron(a, b) for a, b in zip(full, modes[2], strict=True)])
        part = got[:, ends[g] : ends[g + 1]]
        # Inner products among contexts told are those of the whole Kronecker products; no other is longer.
        np.testing.assert_allclose(part[:7] @ part[:7].T, full[:7] @ full[:7].T, rtol=1e-6, atol=1e-7)
        assert ((part**2).sum(axis=1) <= (full**2).sum(axis=1) * (1 + 1e-9)).all()


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from(["zeros", "ones", "random"]), st.floats(-12, 12), st.booleans())
def test_nothing_diverges(seed, outcomes, magnitude, past):
    rng = np.random.default_rng(seed)
    graph = network(rng, int(rng.integers(2, 15)), int(rng.integers(3, 80)))
    if not graph.n_edges:
        return
    sizes = tuple(rng.integers(1, 4, int(rng.integers(1, 4))).tolist())
    model = response.ResponseSettings(rank=int(rng.integers(1, 9)), max_rows=40)
    users = rng.standard_cauchy((graph.n_nodes, 3)) * 10.0**magnitude
    pasts = [rng.pareto(1.0, (graph.n_nodes, sizes[0])) for _ in range(3)] if past else [None] * 3
    nodes = response.node_features(users, *pasts)
    log = ()
    for number in range(1, 7):
        vectors = rng.standard_cauchy(sum(sizes)) * 10.0 ** (magnitude * rng.random())
        edges = rng.integers(0, graph.n_edges, int(rng.integers(1, 30)))
        y = {"zeros": np.zeros, "ones": np.ones, "random": rng.random}[outcomes](edges.size)
        log = response.with_round(log, response.told(graph, nodes, vectors, edges, y, number), model.max_rows)
        fitted = response.fit(model, nodes, sizes, log)
        assert np.isfinite(predictions(graph, nodes, fitted, [vectors])).all()
        assert 0.0 <= fitted.overlap <= 1.0
