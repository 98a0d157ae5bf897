"""The response model: kernels and features against plain NumPy, steps against finite differences, odd input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import response as plain
from tensorucb.errors import InputError, ShapeError
from tensorucb.graph import Graph
from tensorucb.learner import response
from tensorucb.learner.response._context import context_of
from tensorucb.learner.response._learn import (
    fit,
    quick_step,
    source_step,
    target_step,
    taste_step,
)
from tensorucb.learner.response._likelihood import Stand, load
from tensorucb.learner.response._log import with_told
from tensorucb.learner.response._state import Point, with_sources


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


def round_of(graph, own, edges, outcomes):
    return response.make_told(own, graph.sources[edges].astype(np.int64), graph.targets[edges], outcomes)


def world(sizes=(3,), past=True, rounds=3, seed=0, rows=12):
    """A state with some rounds told, off its optimum, with something absorbed."""
    rng = np.random.default_rng(seed)
    graph = network(rng)
    nodes, users = users_of(rng, graph.n_nodes, sizes[0], past)
    state = response.start(response.ResponseSettings(base_logit=-1.0), nodes, tuple(rng.random(s) for s in sizes))
    for _ in range(rounds):
        own = state.context.scaled(tuple(rng.random(size) for size in sizes))
        edges = rng.integers(0, graph.n_edges, rows)
        record = round_of(graph, own, edges, rng.random(rows))
        state = replace(state, log=(*state.log, record), rounds=state.rounds + 1)
    state = with_sources(state, np.unique(np.concatenate([r.sources for r in state.log])) if rounds else state.seen)
    point, prior = state.point, state.prior
    spread = np.sqrt(prior.variances[prior.groups])
    point = Point(
        point.weights + 0.3 * spread * rng.normal(size=spread.size),
        rng.normal(0, 0.3, point.effects.shape),
        rng.normal(0, 0.1, point.target_weights.shape),
        rng.normal(0, 0.3, nodes.n),
        0.4,
    )
    prior = replace(
        prior,
        precision=0.5 * np.eye(spread.size),
        natural=rng.normal(0, 0.1, spread.size),
        effect_naturals=rng.normal(0, 0.2, point.effects.shape),
        offset_precisions=rng.random(nodes.n),
        offset_naturals=rng.normal(0, 0.1, nodes.n),
    )
    return graph, nodes, users, replace(state, point=point, prior=prior), rng


def loaded(nodes, state):
    return Stand(load(nodes, state.context, state.seen, state.log), state.prior, state.point)


CASES = [((3,), True), ((3,), False), ((3, 2), True), ((1,), False), ((2, 1, 2), False)]


@pytest.mark.parametrize(("sizes", "past"), CASES)
def test_the_log_posterior_is_the_plain_one(sizes, past):
    _, nodes, users, state, _ = world(sizes, past)
    want = plain.log_posterior(state.prior, state.point, users, state.seen, state.log, sizes)
    assert loaded(nodes, state).value == pytest.approx(want, rel=1e-11)


@pytest.mark.parametrize(("sizes", "past"), CASES)
def test_sums_are_the_plain_ones(sizes, past):
    _, nodes, users, state, _ = world(sizes, past)
    now = loaded(nodes, state)
    data, got = now.data, now.at
    pulls, targets, taste = plain.sums(state.point, users, state.seen, state.log, sizes)
    keys = [(t, int(i)) for t, r in enumerate(state.log) for i in r.sources]
    tolerance = {"rtol": 1e-9, "atol": 1e-12}
    np.testing.assert_allclose(
        np.column_stack([got.pull_curvature, got.pull_slope]), [pulls[k] for k in keys], **tolerance
    )
    both = np.column_stack([got.target_curvature, got.target_slope])
    np.testing.assert_allclose(both, [targets[j] for j in data.observed.tolist()], **tolerance)
    np.testing.assert_allclose([got.taste_curvature, got.taste_slope], taste, **tolerance)


@pytest.mark.parametrize("sizes", [(3,), (3, 2)])
def test_newton_steps_have_the_right_slope(sizes):
    """Along δ = H⁻¹∇ the slope is ∇ᵀH⁻¹∇ and the curvature −∇ᵀH⁻¹∇."""
    _, nodes, _, state, _ = world(sizes)
    now, h = loaded(nodes, state), 3e-3
    moves = {"source": source_step(now)[0], "target": target_step(now), "taste": taste_step(now)}
    for name, move in moves.items():
        low, mid, high = (replace(now, point=move(s)).value for s in (-h, 0.0, h))
        slope, curvature = (high - low) / (2 * h), (high - 2 * mid + low) / h**2
        assert slope > 0, name
        assert curvature == pytest.approx(-slope, rel=5e-3), name


@pytest.mark.parametrize("sizes", [(3,), (2, 2)])
def test_a_long_fit_ends_where_no_direction_leads_up(sizes):
    _, nodes, users, state, rng = world(sizes, rounds=4)
    state = replace(state, rounds=99)
    model = response.ResponseSettings(base_logit=-1.0, sweeps=40)
    fitted = fit(model, nodes, state)

    def value(point):
        return plain.log_posterior(state.prior, point, users, fitted.seen, fitted.log, sizes)

    best, point = value(fitted.point), fitted.point
    assert best > value(state.point)
    for name in ("weights", "effects", "target_weights", "target_offsets", "taste_weight"):
        part = np.asarray(getattr(point, name))
        for _ in range(4):
            step = 1e-3 * rng.normal(size=part.shape)
            if name == "target_offsets":  # those never observed stay where they are
                step[np.setdiff1d(np.arange(nodes.n), np.concatenate([r.targets for r in state.log]))] = 0.0
            there, back = (value(replace(point, **{name: part + sign * step})) for sign in (1, -1))
            assert abs(there - back) < 2e-5, name
            assert max(there, back) < best + 1e-6, name


def test_the_source_posterior_is_the_inverse_of_the_joint_precision():
    _, nodes, _, state, _ = world((3,), rounds=5)
    now = loaded(nodes, state)
    data, point = now.data, state.point
    assert {1, 2, 3} <= set(np.diff(data.begin))
    _, posterior = source_step(now)
    w, d = point.weights.size, point.effects.size

    def value(x):
        moved = replace(point, weights=x[:w], effects=x[w:].reshape(point.effects.shape))
        return replace(now, point=moved).value

    S, V, H = posterior
    K = np.zeros((*point.effects.shape, w))
    np.add.at(K, data.place, H[:, :, None] * data.X[:, None, :])
    covariance, flat, k = np.zeros((w + d, w + d)), -K.reshape(-1, w), V.shape[1]
    covariance[:w, :w] = S
    covariance[w:, :w], covariance[:w, w:] = flat @ S, S @ flat.T
    covariance[w:, w:] = flat @ S @ flat.T
    for i in range(len(V)):
        covariance[w + i * k : w + i * k + k, w + i * k : w + i * k + k] += V[i]
    rng, base = np.random.default_rng(3), np.append(point.weights, point.effects)
    for _ in range(5):
        x = covariance @ rng.normal(size=w + d)
        h = 1e-2 / abs(x).max()
        second = (value(base + h * x) - 2 * value(base) + value(base - h * x)) / h**2
        assert -second == pytest.approx(x @ np.linalg.solve(covariance, x), rel=2e-3)


@pytest.mark.parametrize("sizes", [(3,), (3, 2), (2, 2, 2)])
def test_scores_and_deviations_are_the_plain_ones(sizes):
    graph, nodes, users, state, rng = world(sizes, rounds=4)
    state = fit(response.ResponseSettings(base_logit=-1.0), nodes, state)
    own = rng.random(sum(sizes))
    got = response.score(nodes, state, own, deviations=True)
    p = plain.edge_scores(state.point, users, state.seen, graph, own, sizes)
    bonus = rng.normal(size=graph.n_nodes)
    edges = graph.out_offsets, graph.targets
    mean, raised = response.edge_probabilities(*edges, [got.sources, got.sources + bonus], got.targets)
    np.testing.assert_allclose(mean, p, rtol=1e-7)
    np.testing.assert_allclose(raised / (1 - raised), p / (1 - p) * np.exp(bonus[graph.sources]), rtol=2e-7)
    assert (response.edge_probabilities(*edges, [got.sources], got.targets)[0] == mean).all()
    np.testing.assert_allclose(got.deviations, plain.deviations(state, users, nodes.n, own, sizes), rtol=1e-7)
    assert response.score(nodes, state, own, deviations=False).deviations is None


def test_logits_of_any_size_are_probabilities():
    graph = network(np.random.default_rng(0), 5, 20)
    sizes = np.array([-1e5, -90.0, 0.0, 90.0, 1e5])
    for order in (sizes, sizes[::-1]):
        p = response.edge_probabilities(graph.out_offsets, graph.targets, [sizes], order)[0]
        assert ((p >= 0.0) & (p <= 1.0)).all()


def test_the_quick_step_is_the_conditional_newton_step():
    """With θ held still and no limit reached, one new pull moves d_i as one Newton step would."""
    _, nodes, users, state, _ = world((3,), rounds=5)
    state = fit(response.ResponseSettings(), nodes, state)
    state = replace(state, log=(), point=replace(state.point, effects=state.point.effects.copy()))
    own, source = np.array([0.2, 0.5, 0.3]), int(state.seen[0])
    record = response.make_told(own, np.array([source] * 2), np.array([1, 2], np.int32), np.array([1.0, 0.0]))
    told = quick_step(nodes, state, record)
    w, e = plain.sums(state.point, users, state.seen, (record,), (3,))[0][0, source]
    z, V = np.append(1.0, own), state.effect_covariances[0]
    precision = np.linalg.inv(V) + w * np.outer(z, z)
    np.testing.assert_allclose(told.effect_covariances[0], np.linalg.inv(precision), rtol=1e-7)
    step = np.linalg.solve(precision, e * z)
    np.testing.assert_allclose(told.point.effects[0] - state.point.effects[0], step, rtol=1e-6, atol=1e-10)
    assert (told.point.effects[1:] == state.point.effects[1:]).all()


def play(max_rows, rounds=60, seed=0):
    rng = np.random.default_rng(seed)
    graph = network(rng, 40, 400)
    nodes, _ = users_of(rng, graph.n_nodes)
    model = response.ResponseSettings(max_rows=max_rows, base_logit=-1.0)
    state = response.start(model, nodes, (np.ones(3) / 3,))
    effect = rng.normal(0, 0.5, graph.n_nodes)
    for _ in range(rounds):
        own = rng.dirichlet(np.ones(3))
        edges = np.flatnonzero(np.isin(graph.sources, rng.choice(graph.n_nodes, 5, replace=False)))
        p = 1 / (1 + np.exp(1.5 - effect[graph.sources[edges]] - 2 * own[0]))
        state = response.learn(model, nodes, state, round_of(graph, own, edges, (rng.random(edges.size) < p) * 1.0))
    own = np.array([0.6, 0.2, 0.2])
    got = response.score(nodes, state, own, deviations=True)
    p = response.edge_probabilities(graph.out_offsets, graph.targets, [got.sources], got.targets)[0]
    return state, p, got.deviations


def test_absorbed_rounds_count_as_kept_ones():
    """Probabilities after 60 rounds are within 0.1 (0.02 on average) of those of the full log, deviations 25 %."""
    full_state, full_p, full_deviations = play(10**6)
    state, p, deviations = play(900)
    assert len(full_state.log) == 60
    assert sum(r.outcomes.size for r in state.log) <= 900
    assert abs(p - full_p).max() < 0.1
    assert abs(p - full_p).mean() < 0.02
    assert np.corrcoef(p, full_p)[0, 1] > 0.98
    np.testing.assert_allclose(deviations, full_deviations, rtol=0.25)


def test_the_state_goes_through_arrays():
    state, *_ = play(900, rounds=12)
    rng = np.random.default_rng(0)
    graph = network(rng, 40, 400)
    fresh = response.start(
        response.ResponseSettings(max_rows=900, base_logit=-1.0), users_of(rng, graph.n_nodes)[0], (np.ones(3),)
    )
    arrays = response.state_to_arrays(state)
    restored = response.state_from_arrays(fresh, arrays)
    again = response.state_to_arrays(restored)
    assert set(again) == set(arrays)
    assert all(np.array_equal(again[name], arrays[name]) and again[name].dtype == arrays[name].dtype for name in arrays)
    assert isinstance(restored.point.taste_weight, float)
    for name in arrays:
        with pytest.raises(InputError, match="must hold arrays"):
            response.state_from_arrays(fresh, {key: value for key, value in arrays.items() if key != name})
    with pytest.raises(ShapeError, match="log_gains"):
        response.state_from_arrays(fresh, {**arrays, "log_gains": arrays["log_gains"][1:]})
    with pytest.raises(ShapeError, match="log_"):
        response.state_from_arrays(fresh, {**arrays, "log_own": arrays["log_own"][1:]})


def test_rows_in_any_order_and_repeated_edges_count():
    a = response.make_told(
        np.ones(1), np.array([4, 2, 4, 2]), np.array([0, 1, 3, 1], np.int32), np.array([1, 0, 0.5, 1])
    )
    assert a.sources.tolist() == [2, 4]
    assert a.offsets.tolist() == [0, 1, 3]
    assert a.targets.tolist() == [1, 0, 3]
    assert a.outcomes.tolist() == [1, 1, 0.5]
    assert a.trials.tolist() == [2, 1, 1]


def test_rounds_of_one_context_are_kept_as_one():
    _, nodes, _, state, _ = world((3,), rounds=6)
    contexts = [state.log[0].own, state.log[1].own]
    told = [replace(r, own=contexts[t % 2]) for t, r in enumerate(state.log)]
    joined = ()
    for record in told:
        joined = with_told(joined, record)
    assert len(joined) == 2
    assert sum(r.trials.sum() for r in joined) == sum(r.trials.sum() for r in told)
    assert sum(r.outcomes.size for r in joined) < sum(r.outcomes.size for r in told)
    found = []
    for log in (told, joined):
        now = loaded(nodes, replace(state, log=log))
        found.append((now.at, source_step(now)[0](1.0)))
    (apart, one), (together, other) = found
    assert together.value == pytest.approx(apart.value, rel=1e-11)
    np.testing.assert_allclose(together.target_slope, apart.target_slope, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(one.effects, other.effects, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(one.weights, other.weights, rtol=1e-7, atol=1e-9)


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


def test_variances_of_groups_follow_the_data():
    """Where features decide the response to a product, their variance grows; where nothing does, it shrinks."""
    found = {}
    for strength in (0.0, 1.5):
        rng = np.random.default_rng(4)
        graph = network(rng, 60, 900)
        nodes, _ = users_of(rng, graph.n_nodes, past=False)
        model = response.ResponseSettings(base_logit=-1.0)
        state = response.start(model, nodes, (np.ones(3) / 3,))
        for _ in range(40):
            own = rng.dirichlet(np.full(3, 0.3))
            edges = np.flatnonzero(np.isin(graph.sources, rng.choice(graph.n_nodes, 8, replace=False)))
            u = strength * (own[0] - own[1]) * nodes.as_target[graph.sources[edges], 0] - 1.0
            y = (rng.random(edges.size) < 1 / (1 + np.exp(-u))) * 1.0
            state = response.learn(model, nodes, state, round_of(graph, own, edges, y))
        found[strength] = state
    still, moved = found[0.0].prior.variances, found[1.5].prior.variances
    assert moved[-1] > 0.05 > 0.01 >= still[-1]  # source features times the product
    assert still[0] < 0.02  # source features
    M = found[1.5].point.weights[-6:].reshape(3, 2)
    assert M[0, 0] - M[1, 0] == pytest.approx(3.0, abs=1.2)
    assert abs(M[:, 1]).max() < 0.5 * abs(M[:2, 0]).min()


def test_many_features_are_crossed_by_their_leading_axes():
    rng = np.random.default_rng(0)
    wide = response.node_features(rng.normal(size=(200, 30)), None, None, None)
    np.testing.assert_array_equal(wide.crossed(3), wide.as_target)
    few = wide.crossed(40, np.array([3, 5]))
    assert few.shape == (2, 10)
    np.testing.assert_allclose(few, wide.crossed(40)[[3, 5]])
    spread = np.linalg.eigvalsh(wide.as_target.T @ wide.as_target)
    assert (wide.crossed(40) ** 2).sum() == pytest.approx(spread[-10:].sum())


def landmarks(context, own):
    for x in own:
        context = context.with_landmark(x)
    return context


@pytest.mark.parametrize("sizes", [(4, 3), (2, 3, 2)])
def test_a_large_interaction_is_the_kronecker_product_in_a_basis_of_the_contexts_told(sizes):
    rng = np.random.default_rng(1)
    told, other = rng.normal(size=(7, sum(sizes))), rng.normal(size=(5, sum(sizes)))
    told[4] = told[1]  # adds no direction
    start = context_of(tuple(np.ones(s) for s in sizes), 6)
    small = landmarks(start, told)
    assert len(small.landmarks) == 6
    assert small.widths == tuple(min(w, 6) for w in context_of(tuple(np.ones(s) for s in sizes), 99).widths)
    groups = small.interactions
    ends = np.cumsum([0, *small.widths])
    both = np.vstack([told, other])
    got = small.features(both)[:, 1 + sum(sizes) :]
    for g, group in enumerate(groups):
        modes = [np.split(both, np.cumsum(sizes)[:-1], axis=1)[m] for m in group]
        full = np.array([np.kron(a, b) for a, b in zip(modes[0], modes[1], strict=True)])
        if len(group) == 3:
            full = np.array([np.kron(a, b) for a, b in zip(full, modes[2], strict=True)])
        part = got[:, ends[g] : ends[g + 1]]
        # Inner products among contexts told are those of the whole Kronecker products; no other is longer.
        np.testing.assert_allclose(part[:7] @ part[:7].T, full[:7] @ full[:7].T, rtol=1e-6, atol=1e-7)
        assert ((part**2).sum(axis=1) <= (full**2).sum(axis=1) * (1 + 1e-9)).all()
    # A landmark that joins later leaves the other coordinates as they are.
    early = landmarks(start, told[:3])
    np.testing.assert_allclose(
        early.features(both)[:, 1 + sum(sizes) :][:, :3], small.features(both)[:, 1 + sum(sizes) :][:, :3], atol=1e-9
    )


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from(["zeros", "ones", "random"]), st.floats(-12, 12), st.booleans())
def test_nothing_diverges(seed, outcomes, magnitude, past):
    rng = np.random.default_rng(seed)
    graph = network(rng, int(rng.integers(2, 15)), int(rng.integers(3, 80)))
    if not graph.n_edges:
        return
    sizes = rng.integers(1, 4, int(rng.integers(1, 4)))
    model = response.ResponseSettings(rank=int(rng.integers(1, 9)), max_rows=40)
    users = rng.standard_cauchy((graph.n_nodes, 3)) * 10.0**magnitude
    pasts = [rng.pareto(1.0, (graph.n_nodes, sizes[0])) for _ in range(3)] if past else [None] * 3
    nodes = response.node_features(users, *pasts)
    state = None
    for _ in range(9):
        vectors = tuple(rng.standard_cauchy(k) * 10.0 ** (magnitude * rng.random()) for k in sizes)
        state = response.start(model, nodes, vectors) if state is None else state
        edges = rng.integers(0, graph.n_edges, int(rng.integers(1, 30)))
        y = {"zeros": np.zeros, "ones": np.ones, "random": rng.random}[outcomes](edges.size)
        own = state.context.scaled(vectors)
        state = response.learn(model, nodes, state, round_of(graph, own, edges, y))
        got = response.score(nodes, state, own, deviations=True)
        assert all(np.isfinite(part).all() for part in got)
        p = response.edge_probabilities(graph.out_offsets, graph.targets, [got.sources], got.targets)[0]
        assert np.isfinite(p).all()
        assert all(np.isfinite(array).all() for array in response.state_to_arrays(state).values())
