"""The block learner: kernels against plain NumPy, steps against finite differences, absorption, odd input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import blocks as plain
from tensorucb.errors import InputError, ShapeError
from tensorucb.graph import Graph
from tensorucb.learner import blocks
from tensorucb.learner.blocks._fit import climb, product_step, source_step, target_step, taste_step
from tensorucb.learner.blocks._problem import load
from tensorucb.learner.blocks._state import with_sources


def network(rng, n=12, m=60):
    pairs = np.unique(rng.integers(0, n, (m, 2)), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return Graph.from_edges(pairs[:, 0], pairs[:, 1])


def nodes_of(rng, n, k=3, past=True):
    users = rng.normal(size=(n, 2))
    if not past:
        return blocks.node_features(users, None, None, None)
    return blocks.node_features(users, rng.poisson(2.0, (n, k)) * 1.0, rng.random((n, k)) * 4, rng.random((n, k)) * 30)


def world(sizes=(3,), past=True, rounds=3, seed=0, rank=4, rows=12):
    """A state with some rounds told, off its optimum, and the problem of those rounds."""
    rng = np.random.default_rng(seed)
    graph = network(rng)
    nodes, model = nodes_of(rng, graph.n_nodes, sizes[0], past), blocks.BlockSettings(rank=rank, base_logit=-1.0)
    vectors = tuple(rng.random(size) for size in sizes)
    state = blocks.start(model, nodes, vectors, rng)
    for _ in range(rounds):
        product = blocks.scaled_product(state.scales, tuple(rng.random(size) for size in sizes))
        edges = rng.integers(0, graph.n_edges, rows)
        record = blocks.make_round(
            product, graph.sources[edges].astype(np.int64), graph.targets[edges], rng.random(rows)
        )
        state = replace(state, log=(*state.log, record), rounds=state.rounds + 1)
    state = with_sources(state, np.unique(np.concatenate([r.sources for r in state.log])) if rounds else state.seen)
    precisions = [np.diag(precision) for precision in state.prior.precisions]
    precisions[0] = (precisions[0] + state.prior.group_precisions())[: state.point.weights[0].size]
    weights = tuple(
        w + 0.3 * (rng.normal(size=w.size) / np.sqrt(precision)).reshape(w.shape)
        for w, precision in zip(state.point.weights, precisions, strict=True)
    )
    point = blocks.Point(
        weights,
        rng.normal(0, 0.3, state.point.effects.shape),
        rng.normal(0, 0.1, state.point.responses.shape),
        rng.normal(0, 0.3, nodes.n),
        0.4,
    )
    prior = replace(state.prior, effect_naturals=rng.normal(0, 0.2, state.point.effects.shape))
    return graph, nodes, model, replace(state, point=point, prior=prior), rng


def problem_of(nodes, state, sizes):
    return load(nodes, state.prior, state.seen, state.log, sizes[0])


CASES = [((3,), True), ((3,), False), ((3, 2), True), ((1,), False), ((2, 1, 2), False)]


@pytest.mark.parametrize(("sizes", "past"), CASES)
def test_the_log_posterior_is_the_plain_one(sizes, past):
    _, nodes, _, state, _ = world(sizes, past)
    want = plain.log_posterior(state.prior, state.point, nodes, state.seen, state.log, sizes)
    assert problem_of(nodes, state, sizes).value(state.point).total == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize("block", [0, 1, 2])
@pytest.mark.parametrize(("sizes", "past"), CASES)
def test_sums_are_the_plain_ones(block, sizes, past):
    _, nodes, _, state, _ = world(sizes, past)
    problem = problem_of(nodes, state, sizes)
    got = problem.sums(state.point, block)
    want = plain.block_sums(state.point, nodes, state.seen, state.log, sizes, block)
    keys = [
        list(zip(problem.pull_round.tolist(), problem.sources.tolist(), strict=True)),
        problem.observed.tolist(),
        list(range(len(state.log))),
    ][block]
    assert sorted(want) == sorted(keys)
    for place, key in enumerate(keys):
        for ours, theirs in zip((got.second, got.first, got.weight, got.score, got.residual), want[key], strict=True):
            np.testing.assert_allclose(ours[place], theirs, rtol=1e-10, atol=1e-13)


def directional(problem, point, move, h=1e-5):
    """First and second derivative of the log posterior along a move, by finite differences."""
    low, mid, high = (problem.value(move(s)).total for s in (-h, 0.0, h))
    return (high - low) / (2 * h), (high - 2 * mid + low) / h**2


@pytest.mark.parametrize("sizes", [(3,), (3, 2)])
def test_newton_steps_have_the_right_slope(sizes):
    """Along δ = H⁻¹∇ the slope is ∇ᵀH⁻¹∇ and the curvature −∇ᵀH⁻¹∇ (Fisher = observed information for a block)."""
    _, nodes, _, state, _ = world(sizes)
    problem, point = problem_of(nodes, state, sizes), state.point
    moves = {
        "source": source_step(problem, point)[0],
        "target": target_step(problem, point),
        "taste": taste_step(problem, point, problem.value(point)),
        **{f"mode {m}": product_step(problem, point, m) for m in range(2, 2 + len(sizes))},
    }
    for name, move in moves.items():
        slope, curvature = directional(problem, point, move, 3e-3)
        assert slope > 0, name
        assert curvature == pytest.approx(-slope, rel=2e-3), name


@pytest.mark.parametrize("sizes", [(3,), (2, 2)])
def test_a_fit_never_loses_and_ends_where_gradients_vanish(sizes):
    _, nodes, model, state, _ = world(sizes, rounds=4)
    problem, point = problem_of(nodes, state, sizes), state.point
    value, seen = problem.value(point), []
    for _ in range(30):
        steps = [lambda p, v: source_step(problem, p)[0], lambda p, v: target_step(problem, p)]
        steps += [lambda p, v, m=m: product_step(problem, p, m) for m in range(2, 2 + len(sizes))]
        for step in [*steps, lambda p, v: taste_step(problem, p, v)]:
            point, value = climb(problem, point, value, step(point, value))
            seen.append(value.total)
    assert (np.diff(seen) >= -1e-8).all()
    slope, _ = directional(problem, point, source_step(problem, point)[0], 1e-4)
    assert abs(slope) < 1e-3
    fitted = blocks.fit(replace(model, sweeps=30), nodes, replace(state, rounds=99))
    assert problem.value(fitted.point).total == pytest.approx(value.total, abs=0.02)


def test_the_source_posterior_is_the_inverse_of_the_joint_precision():
    sizes = (3,)
    _, nodes, _, state, _ = world(sizes)
    problem, point = problem_of(nodes, state, sizes), state.point
    _, posterior = source_step(problem, point)
    # Rank 0 and rank 2 have a constant source.
    ranks, w, d = point.weights[0][[1, 3]].size, posterior.weight_covariance.shape[0], point.effects.size
    assert w == ranks + point.responses.size
    parts = point.weights[0][[1, 3]], point.responses, point.effects
    base = np.concatenate([part.ravel() for part in parts])

    def value(x):
        first = point.weights[0].copy()
        first[[1, 3]] = x[:ranks].reshape(2, -1)
        moved = replace(
            point,
            weights=(first, *point.weights[1:]),
            responses=x[ranks:w].reshape(point.responses.shape),
            effects=x[w:].reshape(point.effects.shape),
        )
        return problem.value(moved).total

    # The precision along random directions, by second differences, against the blocks the posterior implies.
    V, K, S = posterior.effect_covariances, posterior.gains, posterior.weight_covariance
    covariance = np.zeros((w + d, w + d))
    flat = -K.reshape(-1, w)
    covariance[:w, :w] = S
    covariance[w:, :w], covariance[:w, w:] = flat @ S, S @ flat.T
    covariance[w:, w:] = flat @ S @ flat.T
    k = V.shape[1]
    for i in range(len(V)):
        covariance[w + i * k : w + i * k + k, w + i * k : w + i * k + k] += V[i]
    rng = np.random.default_rng(3)
    for _ in range(5):
        # Directions in which the fixed weights (precision 1e6) do not drown the rest.
        x = covariance @ rng.normal(size=w + d)
        h = 1e-3 / max(abs(x).max(), 1e-9)
        second = (value(base + h * x) - 2 * value(base) + value(base - h * x)) / h**2
        assert -second == pytest.approx(x @ np.linalg.solve(covariance, x), rel=1e-3)


def test_scores_and_deviations_are_the_plain_ones():
    for sizes in ((3,), (3, 2)):
        graph, nodes, model, state, rng = world(sizes, rounds=4)
        state = blocks.fit(model, nodes, state)
        product = rng.random(sum(sizes))
        cap = np.sqrt(state.prior.variances @ np.append(product, 1.0) ** 2)
        got = blocks.score(nodes, state, product, graph.out_offsets, graph.targets, deviations=True)
        p = plain.edge_scores(state.point, nodes, state.seen, graph, product, sizes)
        np.testing.assert_allclose(got.probabilities, p, rtol=1e-10)
        want = plain.deviations(state, nodes, graph, product, sizes, p, cap)
        some = np.isfinite(want)
        np.testing.assert_allclose(got.deviations[some], want[some], rtol=1e-8)
        bonus = rng.normal(size=graph.n_nodes)
        raised = blocks.raised(p, graph.out_offsets, bonus)
        np.testing.assert_allclose(np.log(raised / (1 - raised)), np.log(p / (1 - p)) + bonus[graph.sources], rtol=1e-9)


def test_the_quick_step_is_the_conditional_newton_step():
    """With weights held still and no limit reached, one new pull moves d_i as one Newton step would."""
    sizes = (3,)
    _, nodes, model, state, _ = world(sizes, rounds=5)
    state = blocks.fit(
        model, nodes, replace(state, prior=replace(state.prior, effect_naturals=0 * state.point.effects))
    )
    state = replace(state, log=())
    record = blocks.make_round(
        np.array([0.2, 0.5, 0.3]), np.array([int(state.seen[0])] * 2), np.array([1, 2], np.int32), np.array([1.0, 0.0])
    )
    told = blocks.quick_step(nodes, state, record)
    problem = load(nodes, state.prior, state.seen, (record,), 3)
    sums, z, V = problem.sums(state.point, 0), problem.Z[0], state.effect_covariances[0]
    precision = np.linalg.inv(V) + sums.weight[0] * np.outer(z, z)
    np.testing.assert_allclose(told.effect_covariances[0], np.linalg.inv(precision), rtol=1e-8)
    step = np.linalg.solve(precision, sums.residual[0] * z)
    np.testing.assert_allclose(told.point.effects[0] - state.point.effects[0], step, rtol=1e-7, atol=1e-10)
    assert (told.point.effects[1:] == state.point.effects[1:]).all()


def play(max_rows, rounds=60, seed=0):
    rng = np.random.default_rng(seed)
    graph = network(rng, 40, 400)
    nodes = nodes_of(rng, graph.n_nodes)
    model = blocks.BlockSettings(max_rows=max_rows, base_logit=-1.0)
    state = blocks.start(model, nodes, (np.ones(3) / 3,), np.random.default_rng(1))
    effect = rng.normal(0, 0.5, graph.n_nodes)
    for _ in range(rounds):
        product = rng.dirichlet(np.ones(3))
        picked = rng.choice(graph.n_nodes, 5, replace=False)
        edges = np.flatnonzero(np.isin(graph.sources, picked))
        p = 1 / (1 + np.exp(1.5 - effect[graph.sources[edges]] - 2 * product[0]))
        y = (rng.random(edges.size) < p) * 1.0
        record = blocks.make_round(product, graph.sources[edges].astype(np.int64), graph.targets[edges], y)
        state = blocks.learn(model, nodes, state, record)
    product = np.array([0.6, 0.2, 0.2])
    return state, blocks.score(nodes, state, product, graph.out_offsets, graph.targets, deviations=True)


def test_absorbed_rounds_count_as_kept_ones():
    """Probabilities after 60 rounds are within 0.1 (0.02 on average) of those of the full log, deviations 25 %."""
    full_state, full = play(10**6)
    state, short = play(900)
    kept = sum(r.outcomes.size for r in state.log)
    assert len(full_state.log) == 60
    assert kept <= 900
    assert abs(short.probabilities - full.probabilities).max() < 0.1
    assert abs(short.probabilities - full.probabilities).mean() < 0.02
    assert np.corrcoef(short.probabilities, full.probabilities)[0, 1] > 0.98
    np.testing.assert_allclose(short.deviations, full.deviations, rtol=0.25)


def test_the_state_goes_through_arrays():
    state, _ = play(900, rounds=12)
    rng = np.random.default_rng(0)
    graph = network(rng, 40, 400)
    fresh = blocks.start(blocks.BlockSettings(max_rows=900), nodes_of(rng, graph.n_nodes), (np.ones(3),), rng)
    arrays = blocks.state_to_arrays(state)
    again = blocks.state_to_arrays(blocks.state_from_arrays(fresh, arrays))
    assert set(again) == set(arrays)
    assert all(np.array_equal(again[name], arrays[name]) and again[name].dtype == arrays[name].dtype for name in arrays)
    for name in arrays:
        with pytest.raises(InputError, match="must hold arrays"):
            blocks.state_from_arrays(fresh, {key: value for key, value in arrays.items() if key != name})
    with pytest.raises(ShapeError, match="gains"):
        blocks.state_from_arrays(fresh, {**arrays, "gains": arrays["gains"][1:]})
    with pytest.raises(ShapeError, match="log_"):
        blocks.state_from_arrays(fresh, {**arrays, "log_products": arrays["log_products"][1:]})


def test_rows_in_any_order_and_repeated_edges_count():
    a = blocks.make_round(
        np.ones(1), np.array([4, 2, 4, 2]), np.array([0, 1, 3, 1], np.int32), np.array([1, 0, 0.5, 1])
    )
    assert a.sources.tolist() == [2, 4]
    assert a.offsets.tolist() == [0, 1, 3]
    assert a.targets.tolist() == [1, 0, 3]
    assert a.outcomes.tolist() == [1, 1, 0.5]
    assert a.trials.tolist() == [2, 1, 1]


def test_rounds_of_one_product_are_kept_as_one():
    sizes = (3,)
    _, nodes, _, state, _ = world(sizes, rounds=6)
    products = [state.log[0].product, state.log[1].product]
    told = [replace(r, product=products[t % 2]) for t, r in enumerate(state.log)]
    joined = ()
    for record in told:
        joined = blocks.with_round(joined, record)
    assert len(joined) == 2
    assert sum(r.trials.sum() for r in joined) == sum(r.trials.sum() for r in told)
    assert sum(r.outcomes.size for r in joined) < sum(r.outcomes.size for r in told)
    apart, together = (load(nodes, state.prior, state.seen, log, 3) for log in (told, joined))
    assert together.value(state.point).total == pytest.approx(apart.value(state.point).total, rel=1e-12)
    for one, other in zip(*(vars(p.sums(state.point, 1)).values() for p in (apart, together)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-13)
    moves = [source_step(p, state.point)[0](1.0) for p in (apart, together)]
    np.testing.assert_allclose(moves[0].effects, moves[1].effects, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(moves[0].responses, moves[1].responses, rtol=1e-8, atol=1e-10)


def test_features_of_any_scale_are_standardised():
    rng = np.random.default_rng(0)
    users = np.column_stack(
        [rng.normal(size=50), rng.normal(size=50) * 1e200, rng.normal(size=50) * 1e-200, np.ones(50)]
    )
    nodes = blocks.node_features(np.hstack([users, users[:, :1] * 3 + 1]), None, None, None)
    # A constant and a repeated column go; the constant 1 is appended.
    assert nodes.target.shape == (50, 4)
    np.testing.assert_allclose(nodes.target[:, :3].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(nodes.target[:, :3].std(axis=0), 1, rtol=1e-9)


def test_variances_of_groups_follow_the_data():
    """Where features decide the response to a product, their variance grows; where nothing does, it shrinks."""
    found = {}
    for strength in (0.0, 1.5):
        rng = np.random.default_rng(4)
        graph = network(rng, 60, 900)
        nodes = nodes_of(rng, graph.n_nodes, past=False)
        model = blocks.BlockSettings(base_logit=-1.0)
        state = blocks.start(model, nodes, (np.ones(3) / 3,), rng)
        for _ in range(40):
            product = rng.dirichlet(np.full(3, 0.3))
            picked = rng.choice(graph.n_nodes, 8, replace=False)
            edges = np.flatnonzero(np.isin(graph.sources, picked))
            u = strength * (product[0] - product[1]) * nodes.target[graph.sources[edges], 0] - 1.0
            y = (rng.random(edges.size) < 1 / (1 + np.exp(-u))) * 1.0
            record = blocks.make_round(product, graph.sources[edges].astype(np.int64), graph.targets[edges], y)
            state = blocks.learn(model, nodes, state, record)
        found[strength] = state
    still, moved = found[0.0], found[1.5]
    assert moved.prior.group_variances[1] > 0.05 > 0.01 >= still.prior.group_variances[1]
    assert still.prior.group_variances[0] < 0.02
    M = moved.point.responses
    assert M[0, 0] - M[1, 0] == pytest.approx(3.0, abs=1.2)
    assert abs(M[:, 1]).max() < 0.5 * abs(M[:2, 0]).min()


def test_many_features_are_crossed_by_their_leading_axes():
    rng = np.random.default_rng(0)
    wide = blocks.node_features(rng.normal(size=(200, 30)) @ np.diag(np.ones(30)), None, None, None)
    assert wide.crossed(3).shape == (200, 30)
    np.testing.assert_array_equal(wide.crossed(3), wide.target[:, :-1])
    few = wide.crossed(40, np.array([3, 5]))
    assert few.shape == (2, 10)
    np.testing.assert_allclose(few, wide.crossed(40)[[3, 5]])
    spread = np.linalg.eigvalsh(wide.target[:, :-1].T @ wide.target[:, :-1])
    assert (wide.crossed(40) ** 2).sum() == pytest.approx(spread[-10:].sum())


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from(["zeros", "ones", "random"]), st.floats(-12, 12), st.booleans())
def test_nothing_diverges(seed, outcomes, magnitude, past):
    rng = np.random.default_rng(seed)
    graph = network(rng, int(rng.integers(2, 15)), int(rng.integers(3, 80)))
    if not graph.n_edges:
        return
    k = int(rng.integers(1, 4))
    model = blocks.BlockSettings(rank=int(rng.integers(1, 6)), max_rows=40)
    users = rng.standard_cauchy((graph.n_nodes, 3)) * 10.0**magnitude
    pasts = [rng.pareto(1.0, (graph.n_nodes, k)) for _ in range(3)] if past else [None] * 3
    nodes = blocks.node_features(users, *pasts)
    state = None
    for _ in range(9):
        product = (rng.standard_cauchy(k) * 10.0 ** (magnitude * rng.random()),)
        state = blocks.start(model, nodes, product, rng) if state is None else state
        edges = rng.integers(0, graph.n_edges, int(rng.integers(1, 30)))
        y = {"zeros": np.zeros, "ones": np.ones, "random": rng.random}[outcomes](edges.size)
        z = blocks.scaled_product(state.scales, product)
        record = blocks.make_round(z, graph.sources[edges].astype(np.int64), graph.targets[edges], y)
        state = blocks.learn(model, nodes, state, record)
        got = blocks.score(nodes, state, z, graph.out_offsets, graph.targets, deviations=True)
        assert np.isfinite(got.probabilities).all()
        assert np.isfinite(got.deviations).all()
        assert all(np.isfinite(array).all() for array in blocks.state_to_arrays(state).values())
