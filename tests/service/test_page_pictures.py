"""What the page draws, as functions of a campaign: places of users, the network's picture, what was learned."""

from __future__ import annotations

import numpy as np
import pytest

from campaign.worlds import answers, small_campaign, small_graph
from tensorucb.campaign import Campaign
from tensorucb.graph import Graph
from tensorucb.plots._together import goes_together, strategies_by_product
from tensorucb.service import _picture
from tensorucb.service._learned import what_was_learned
from tensorucb.service._picture import layout, picture


def two_groups(n: int = 60) -> Graph:
    """Two halves, each densely connected, with one edge between them."""
    rng = np.random.default_rng(3)
    ends = rng.integers(0, n // 2, (8 * n, 2)) + (n // 2) * rng.integers(0, 2, (8 * n, 1))
    ends = np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0)
    return Graph.from_edges([*ends[:, 0], 0], [*ends[:, 1], n - 1], nodes=range(n))


def played(**settings) -> Campaign:
    campaign = small_campaign(**settings)
    for product in ("tea", "soap", "tea"):
        ask = campaign.ask(product, k=4, holdout=0.25)
        campaign.tell(ask.id, answers(campaign, ask))
        campaign.close(ask.id)
    return campaign


def test_groups_stand_apart_and_the_same_network_looks_the_same():
    graph = two_groups()
    places = layout(graph)
    assert ((places >= 0.0) & (places <= 1.0)).all()
    halves = places[:30], places[30:]
    apart = np.linalg.norm(halves[0].mean(axis=0) - halves[1].mean(axis=0))
    within = max(np.linalg.norm(half - half.mean(axis=0), axis=1).mean() for half in halves)
    assert apart > 1.5 * within
    np.testing.assert_array_equal(places, layout(graph))


def test_users_beyond_the_bound_stand_beside_their_neighbours(monkeypatch):
    monkeypatch.setattr(_picture, "_PLACED", 20)
    graph = small_graph(60, 300)
    places = layout(graph)
    assert places.shape == (60, 2)
    assert np.isfinite(places).all()
    assert len(np.unique(places.round(6), axis=0)) == 60


@pytest.mark.parametrize("edges", [(["a"], ["b"]), (["a", "b"], ["b", "c"])])
def test_tiny_networks_have_places(edges):
    graph = Graph.from_edges(*edges, nodes=["a", "b", "c"])
    assert np.isfinite(layout(graph)).all()


def test_the_picture_marks_the_users_of_a_round():
    campaign = played()
    ask = campaign.rounds()[-1]
    found = picture(campaign, layout(campaign.graph))
    users = found["users"]
    assert found["round"] == ask.number
    assert {users[place] for place in found["seeds"]} == set(ask.seeds)
    assert {users[place] for place in found["held_out"]} == set(ask.held_out)
    assert len(found["reached"]) == campaign.progress().rounds[-1].responders
    sources = {users[place] for place in found["edges"]["source"]}
    assert sources <= set(ask.seeds)
    assert found["edges"]["probability"] is None


def test_a_bounded_picture_keeps_the_users_of_the_round():
    campaign = played()
    ask = campaign.rounds()[0]
    found = picture(campaign, layout(campaign.graph), round_id=ask.id, product="soap", limit=12)
    assert len(found["users"]) == 12
    assert len(found["edges"]["source"]) <= 12
    assert found["users_in_all"] == 30
    strengths = found["edges"]["probability"]
    assert strengths == sorted(strengths, reverse=True)
    assert {*ask.seeds, *ask.held_out} <= set(found["users"])


def test_before_the_first_round_there_is_a_picture_without_marks():
    campaign = small_campaign()
    found = picture(campaign, layout(campaign.graph))
    assert (found["round"], found["seeds"], found["edges"]["source"]) == (None, [], [])


def test_what_was_learned_compares_users_and_products():
    found = what_was_learned(played())
    assert found.rounds == 3
    assert found.products == ("tea", "soap")  # the one with more rounds first
    assert found.affinity.shape == found.expected.shape == (len(found.users), 2)
    for column, rows in enumerate(found.best):
        values = found.expected[list(rows), column]
        assert (np.diff(values) <= 0.0).all()
        assert values[0] == found.expected[:, column].max()


def test_what_was_learned_of_strategies():
    strategies = {"mail": [1.0, 0.0], "call": [0.0, 1.0]}
    campaign = small_campaign(strategies=strategies)
    ask = campaign.ask("tea", k=3, strategies=["mail"])
    campaign.tell(ask.id, answers(campaign, ask, every=1))
    campaign.close(ask.id)
    found = what_was_learned(campaign)
    assert found.strategies == ("mail", "call")
    assert found.shares.shape == (2, 2)
    assert found.shares[0, 0] > found.shares[1, 0]


def test_a_campaign_without_products_has_one_column():
    campaign = small_campaign(products=None)
    assert what_was_learned(campaign).products == (None,)


def test_figures_say_what_goes_together():
    chart = goes_together(["ann", "<b>"], ["tea", "soap"], np.array([[2.0, 0.5], [1.0, 1.0]])).to_dict()
    assert "ann and tea go together best: 2.0 times" in chart["description"]
    chart = strategies_by_product(["mail", "call"], ["tea"], np.array([[0.02], [0.05]])).to_dict()
    assert "5.0 %, is expected to respond to tea with call" in chart["description"]
