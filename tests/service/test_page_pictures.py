"""What the page draws, over HTTP: places of users, the network's picture, what was learned."""

from __future__ import annotations

import json

import httpx
import numpy as np
import pytest

from campaign.worlds import answers, small_campaign, small_graph
from service.serving import serving
from service.shops import shop
from tensorucb.campaign import Campaign, load_campaign
from tensorucb.graph import Graph

# private: a network of 12,000 users takes longer to draw than all other tests here
from tensorucb.service import _picture


def two_groups(n: int = 60) -> Graph:
    """Two halves, each densely connected, with one edge between them."""
    rng = np.random.default_rng(3)
    ends = rng.integers(0, n // 2, (8 * n, 2)) + (n // 2) * rng.integers(0, 2, (8 * n, 1))
    ends = np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0)
    return Graph.from_edges([*ends[:, 0], 0], [*ends[:, 1], n - 1], nodes=range(n))


@pytest.fixture
def storage(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/c.db"


def play(campaign: Campaign) -> None:
    for product in ("tea", "soap", "tea"):
        ask = campaign.ask(product, k=4, holdout=0.25)
        campaign.tell(ask.id, answers(campaign, ask))
        campaign.close(ask.id)


def shown(storage: str, what: str, **query: object) -> dict:
    """What a new service answers about the campaign."""
    with serving(storage) as url:
        answer = httpx.get(f"{url}/api/v1/campaigns/spring/{what}", params=query, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()


def places_of(storage: str, graph: Graph) -> np.ndarray:
    """(users, 2) positions in the picture, one row per user of the graph."""
    found = shown(storage, "network")
    assert found["users"] == graph.ids.tolist()
    places = np.stack([found["x"], found["y"]], axis=1)
    assert ((places >= 0.0) & (places <= 1.0)).all()
    return places


def test_groups_stand_apart_and_the_same_network_looks_the_same(storage):
    graph = two_groups()
    small_campaign(storage, graph=graph).disconnect()
    places = places_of(storage, graph)
    halves = places[:30], places[30:]
    apart = np.linalg.norm(halves[0].mean(axis=0) - halves[1].mean(axis=0))
    within = max(np.linalg.norm(half - half.mean(axis=0), axis=1).mean() for half in halves)
    assert apart > 1.5 * within
    np.testing.assert_array_equal(places, places_of(storage, graph))


def test_users_beyond_the_bound_stand_beside_their_neighbours(storage, monkeypatch):
    monkeypatch.setattr(_picture, "_PLACED", 20)
    graph = small_graph(60, 300)
    small_campaign(storage, graph=graph).disconnect()
    assert len(np.unique(places_of(storage, graph), axis=0)) == 60


@pytest.mark.parametrize("edges", [(["a"], ["b"]), (["a", "b"], ["b", "c"])])
def test_tiny_networks_have_places(storage, edges):
    graph = Graph.from_edges(*edges, nodes=["a", "b", "c"])
    small_campaign(storage, graph=graph).disconnect()
    assert places_of(storage, graph).shape == (3, 2)


def test_the_picture_marks_the_users_of_a_round(storage):
    with small_campaign(storage) as campaign:
        play(campaign)
        ask = campaign.rounds()[-1]
        responders = campaign.progress().rounds[-1].responders
    found = shown(storage, "network")
    users = found["users"]
    assert found["round"] == ask.number
    assert {users[place] for place in found["seeds"]} == set(ask.seeds)
    assert {users[place] for place in found["held_out"]} == set(ask.held_out)
    assert len(found["reached"]) == responders
    sources = {users[place] for place in found["edges"]["source"]}
    assert sources <= set(ask.seeds)
    assert found["edges"]["probability"] is None


def test_a_bounded_picture_keeps_the_users_of_the_round(storage):
    with small_campaign(storage) as campaign:
        play(campaign)
        ask = campaign.rounds()[0]
    found = shown(storage, "network", round=ask.id, product="soap", limit=12)
    assert len(found["users"]) == 12
    assert len(found["edges"]["source"]) <= 12
    assert found["users_in_all"] == 30
    strengths = found["edges"]["probability"]
    assert strengths == sorted(strengths, reverse=True)
    assert {*ask.seeds, *ask.held_out} <= set(found["users"])


def test_before_the_first_round_there_is_a_picture_without_marks(storage):
    small_campaign(storage).disconnect()
    found = shown(storage, "network")
    assert (found["round"], found["seeds"], found["edges"]["source"]) == (None, [], [])


def test_what_was_learned_compares_users_and_products(storage):
    with small_campaign(storage) as campaign:
        play(campaign)
        believed = {
            name: np.bincount(campaign.graph.sources, campaign.probabilities(name)) for name in campaign.products()
        }
    found = shown(storage, "learned")
    assert found["rounds"] == 3
    # The one with more closed rounds first.
    assert [(entry["product"], entry["rounds"]) for entry in found["products"]] == [("tea", 2), ("soap", 1)]
    assert np.shape(found["affinity"]) == (len(found["users"]), 2)
    for entry in found["products"]:
        values = [user["expected"] for user in entry["users"]]
        assert values == sorted(values, reverse=True)
        assert values[0] == pytest.approx(believed[entry["product"]].max())


def test_what_was_not_tried_is_marked_and_stands_last(storage):
    offers = {"mail": [1.0, 0.0], "call": [0.0, 1.0]}
    with small_campaign(storage, strategies=offers, products={"tea": [1.0, 0.0], "soap": [0.0, 1.0]}) as campaign:
        ask = campaign.ask("soap", k=3, strategies=["call"])
        campaign.tell(ask, answers(campaign, ask))
        campaign.close(ask)
        campaign.ask("tea", k=3, strategies=["mail"])  # is still open, so nothing was learned of it
    found = shown(storage, "learned")
    assert [(entry["product"], entry["rounds"]) for entry in found["products"]] == [("soap", 1), ("tea", 0)]
    assert (found["strategies"], found["strategy_rounds"]) == (["call", "mail"], [1, 0])
    drawn = json.dumps(shown(storage, "figures/strategies-by-product"))
    assert "tea (not tried)" in drawn
    assert "mail (not tried)" in drawn
    assert "soap (not tried)" not in drawn


def test_what_was_learned_of_strategies(storage):
    with small_campaign(storage, strategies={"mail": [1.0, 0.0], "call": [0.0, 1.0]}) as campaign:
        ask = campaign.ask("tea", k=3, strategies=["mail"])
        campaign.tell(ask.id, answers(campaign, ask, every=1))
        campaign.close(ask.id)
    found = shown(storage, "learned")
    assert found["strategies"] == ["mail", "call"]
    assert found["products"][0]["strategy"] == "mail"
    figure = shown(storage, "figures/strategies-by-product")
    share = f"{100 * found['products'][0]['share']:.1f} %"
    assert f"{share}, is expected to respond to tea with mail" in figure["description"]


def test_a_campaign_without_products_has_one_column(storage):
    small_campaign(storage, products=None).disconnect()
    assert [entry["product"] for entry in shown(storage, "learned")["products"]] == [None]


def test_the_figure_says_what_goes_together(storage):
    with small_campaign(storage) as campaign:
        play(campaign)
    learned = shown(storage, "learned")
    affinity = np.array(learned["affinity"])
    user, product = np.unravel_index(affinity.argmax(), affinity.shape)
    names = learned["users"][user], learned["products"][product]["product"]
    said = f"{names[0]} and {names[1]} go together best: {affinity.max():.1f} times"
    assert said in shown(storage, "figures/together")["description"]


def test_no_figure_is_offered_of_segments_of_which_nothing_was_expected(storage):
    shop(storage, "spring", 1)
    with load_campaign("spring", storage=storage) as campaign:
        ask = campaign.ask("p1", strategies=["s1"], shadow=campaign.graph.ids[:4].tolist())
        campaign.tell(ask.id, answers(campaign, ask))
        campaign.close(ask.id)
    for since, offered in (("2026-01-01", True), ("2026-01-02", False)):
        selected = {"segment": "country", "since": since}
        assert len(shown(storage, "progress", **selected)["segments"]) == 2
        names = [line["figure"] for line in shown(storage, "figures", **selected)["items"]]
        assert ("segments" in names) == offered
