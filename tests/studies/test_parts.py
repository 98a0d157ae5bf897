"""The studies of the model's parts and of exploration, on a tiny setting."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from studies import ablation, exploration, worlds
from studies.kept import Run
from tensorucb.experiments import Environment
from tensorucb.features import UserProfile
from tensorucb.policies import TensorUCB


def test_the_joint_design_is_of_resolution_four():
    """Every factor is off in half of the models, and is mixed up with no other one and with no two others together."""
    signs = 1 - 2 * ablation.design().astype(int)
    assert signs.shape == (32, 16)
    assert np.array_equal(signs.T @ signs, 32 * np.eye(16))
    triples = np.einsum("ra,rb,rc->abc", signs, signs, signs)
    assert not triples.any()


def test_effects_of_the_joint_design_are_those_put_in(monkeypatch, tmp_path):
    """A part that multiplies regret by 1.5 when it goes, and two that hurt only together, are found as such."""

    def regret(self, name, draw, off):
        together = {"own effect d_i", "own response d_i·x"} <= set(off)
        return (1.0 + draw) * (1.5 if "source features α" in off else 1.0) * (2.0 if together else 1.0)

    monkeypatch.setattr(ablation.Runs, "regret", regret)
    rows = ablation.joint(ablation.Runs(tmp_path / "runs.csv"), ("effect 0",), 2)
    found = {row.split("|")[1].strip(): row.split("|")[2].split()[0] for row in rows[2 : 2 + len(ablation.FACTORS)]}
    assert found["source features α"] == "+50"
    # √2 each: together in half of the models with either.
    assert found["own effect d_i"] == found["own response d_i·x"] == "+41"
    assert found["exploration"] == "+0"
    assert "own effect d_i & own response d_i·x" in rows[-1]
    assert rows[-1].split("|")[3].split()[0] == "+41"


@pytest.mark.slow
def test_the_ablation_plays_and_reads_its_runs_again(tmp_path):
    file = tmp_path / "runs.csv"
    runs = ablation.Runs(file, rounds=2, scale=0.05)
    rows = ablation.one_at_a_time(runs, ("four modes",), 2)
    assert len(rows) == 4 + len(ablation.SINGLE)
    again = ablation.Runs(file, rounds=2, scale=0.05)
    assert again.kept.runs == runs.kept.runs
    assert len(ablation.backward(again, ("four modes",), 2, 1)) == 3


@pytest.mark.parametrize("part", ablation.PARTS)
def test_parts_that_are_off_stay_at_zero(part):
    place = worlds.world("four modes", 0, scale=0.05)
    users = np.abs(place.users) + 0.1
    profile = UserProfile(place.users, users[:, :10], users[:, :10], users[:, :10] + 1.0)
    policy, whole = ablation.Ablated((part,)), TensorUCB()
    for one in (policy, whole):
        one.bind(place.graph, profile, rng=0)
        rng = np.random.default_rng(0)
        for t in range(8):
            product, rows = int(rng.choice(place.product_rows)), rng.choice(place.graph.n_nodes, 10, replace=False)
            edges, outcomes = place.observe(product, rows, seed=0, run=0, round_number=t)
            # A user's answer is told to all contacts, so that there is redundancy.
            _, first, number = np.unique(place.graph.targets[edges], return_index=True, return_inverse=True)
            one.update(place.products[product], edges, outcomes[first][number])
    context = place.products[0]
    assert whole.prediction(context).redundancy > 0.1
    if part == "redundancy ρ in the choice":
        assert policy.prediction(context).redundancy == 0.0
    else:
        assert not np.allclose(policy.score(context), whole.score(context), rtol=1e-6)


def test_worlds_where_greedy_may_fail_differ_in_what_they_say():
    place, rng = worlds.world("effect 0", 0, scale=0.05), np.random.default_rng(0)
    other = exploration.no_features(place, rng)
    assert isinstance(other, Environment)
    assert np.array_equal(np.sort(other.users[:, 0]), np.sort(place.users[:, 0]))
    assert not np.array_equal(other.users, place.users)
    assert exploration.seeds(2)(place, rng).settings.k == 2
    credit = np.arange(20.0).reshape(10, 2)
    graph_users = UserProfile(np.ones((10, 1)), None, credit, np.ones((10, 2)))
    small = Environment.__new__(Environment)
    small.users = graph_users
    small.with_users = lambda users: users
    assert np.array_equal(exploration.past(exploration.turned)(small, rng).credit, credit[::-1])


@pytest.mark.parametrize("name", ["effect 0, features say nothing", "effect 1.5, newcomers"])
def test_a_choice_of_exploration_plays(name):
    found = exploration.played(
        exploration.CONDITIONS[name], "c = 0.3", 0, data=Path("nowhere"), cache=None, rounds=4, scale=0.05
    )
    assert 0.0 < found.reach <= found.best + 1e-9


def test_the_table_of_choices_names_the_best_of_each_world():
    def runs(regret):
        return [Run(reach=10.0 - regret, first=0.0, last=0.0, best=10.0, regret=regret)] * 2

    labels = (*exploration.CHOICES, exploration.DEGREE)
    found = {
        world: {label: runs(1.0 + (number if world == "b" else 0.0)) for number, label in enumerate(labels)}
        for world in ("a", "b")
    }
    rows = exploration.table(found)
    assert rows[3].startswith("| b | **1.0** (90) | 2.0 (80) |")
    assert rows[-1].split("|")[2:4] == [" 1.00 ", " 2.00 "]
