from __future__ import annotations

import numpy as np
import pytest

from tensorucb.diffusion import direct_spread
from tensorucb.errors import InputError, ShapeError
from tensorucb.experiments import Environment, WorldSettings


def test_direct_objective_is_exact(world):
    rows = np.array([1, 5, 9])
    assert world.evaluate(2, rows) == direct_spread(world.graph, world.probabilities(2), rows)


def test_optimum_beats_every_other_choice_tried(world):
    best = world.optimum(3)
    rng = np.random.default_rng(0)
    others = [world.evaluate(3, rng.choice(world.graph.n_nodes, 3, replace=False)) for _ in range(300)]
    assert best.spread == pytest.approx(world.evaluate(3, best.rows))
    assert best.spread >= max(others)
    assert world.optimum(3) is best


def test_cascade_objective_uses_the_same_worlds_every_time(sandbox, cascade_world):
    again = Environment.from_sandbox(sandbox, settings=cascade_world.settings)
    rows = [0, 7, 20]
    assert cascade_world.evaluate(1, rows) == again.evaluate(1, rows)
    assert again.evaluate(1, rows) >= direct_spread(again.graph, again.probabilities(1), rows) * 0.8


@pytest.mark.parametrize("which", ["world", "cascade_world"])
def test_coins_depend_on_run_round_and_edge_alone(which, request):
    env = request.getfixturevalue(which)
    wide = env.observe(0, [2, 4, 6], seed=1, run=0, round_number=5)
    narrow = env.observe(0, [6], seed=1, run=0, round_number=5)
    known = dict(zip(wide[0].tolist(), wide[1].tolist(), strict=True))
    assert narrow[0].size > 0
    assert all(known[e] == y for e, y in zip(narrow[0].tolist(), narrow[1].tolist(), strict=True))


def test_coins_change_with_the_round_and_have_the_right_rate(world):
    rows = np.arange(world.graph.n_nodes)
    outcomes = [world.observe(0, rows, seed=0, run=0, round_number=t)[1] for t in range(200)]
    edges = world.observe(0, rows, seed=0, run=0, round_number=0)[0]
    assert not np.array_equal(outcomes[0], outcomes[1])
    # 400 edges × 200 rounds at a rate of about 0.03: standard error 0.0006
    assert np.mean(outcomes) == pytest.approx(world.probabilities(0)[edges].mean(), abs=0.003)


def test_describe_follows_the_data(sandbox, world):
    other = Environment(
        sandbox.graph, sandbox.users, sandbox.products, lambda p: np.full(400, 0.1), settings=world.settings
    )
    assert world.describe()["sha256"] != other.describe()["sha256"]
    assert world.describe()["n_nodes"] == 60


def test_bad_worlds_are_refused(sandbox):
    parts = (sandbox.graph, sandbox.users, sandbox.products, sandbox.probabilities)
    with pytest.raises(InputError, match="objective"):
        WorldSettings(objective="likes")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="feedback"):
        WorldSettings(feedback="none")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="k = 61"):
        Environment(*parts, settings=WorldSettings(k=61))
    with pytest.raises(ShapeError, match="One row per node"):
        Environment(sandbox.graph, sandbox.users[:5], sandbox.products, sandbox.probabilities)
    with pytest.raises(InputError, match="product_rows"):
        Environment(*parts, product_rows=[99])
    with pytest.raises(ShapeError, match=r"shape \(400,\)"):
        Environment(sandbox.graph, None, sandbox.products, lambda p: np.zeros(3)).probabilities(0)
