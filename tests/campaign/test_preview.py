"""A preview, what is opened of it, and rounds opened with a list that a person made."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from campaign.worlds import Clock, answers, small_campaign, small_graph
from tensorucb.campaign import load_campaign
from tensorucb.errors import InputError, StateError, UnknownIdError
from tensorucb.policies import HighDegree, TensorUCB
from tensorucb.store import open_store

STRATEGIES = {"strategies": {"email": [1.0, 0.0], "letter": [0.0, 1.0]}, "strategy_costs": {"letter": 2.0}}


@pytest.mark.parametrize("policy", [TensorUCB(), HighDegree()])
@pytest.mark.parametrize("objective", ["direct", "cascade"])
def test_an_ask_straight_after_a_preview_gives_the_same(policy, objective):
    campaign = small_campaign(policy=policy, objective=objective)
    ask = campaign.ask("tea", 4)
    campaign.tell(ask.id, answers(campaign, ask))
    campaign.close(ask.id)
    events = campaign.status().events
    first = campaign.preview("tea", 4, cooldown="10s")
    assert campaign.preview("tea", 4, cooldown="10s") == first
    assert campaign.status().events == events
    opened = campaign.ask("tea", 4, cooldown="10s")
    assert (opened.seeds, opened.reach, opened.cost) == (first.seeds, first.reach, first.cost)
    assert opened.explain() == first.explanation
    assert first.best == first.reach
    assert not set(first.seeds) & set(ask.seeds)


@pytest.mark.parametrize("users", [None, [f"person-{i:03d}" for i in range(10)]])
def test_a_preview_is_the_round_that_is_opened_with_the_campaign_s_defaults_in_it(users):
    campaign = small_campaign(window="7d", ask={"k": 10, "holdout": 0.3, "cooldown": "1d"})
    first = campaign.preview("tea", users=users)
    opened = campaign.ask("tea", users=users)
    assert len(opened.held_out) == 3
    for name in ("seeds", "held_out", "reach", "cost", "deadline"):
        assert getattr(first, name) == getattr(opened, name)
    assert opened.explain() == first.explanation
    # They rest now, which the next proposal knows.
    assert not set(campaign.preview("tea").seeds) & set(opened.seeds)


def test_a_preview_counts_due_rounds_as_closed_and_writes_nothing(tmp_path):
    clock = Clock()
    url = f"sqlite:///{tmp_path}/c.db"
    with small_campaign(url, clock=clock, policy=TensorUCB(), snapshot_every=1) as campaign:
        ask = campaign.ask("tea", 4, deadline=clock.now + 5.0)
        campaign.tell(ask.id, answers(campaign, ask))
        clock.now += 10.0
        events = campaign.status().events
        with open_store(url, read_only=True) as store:
            seen = load_campaign("spring", storage=store, clock=clock).preview("tea", 3)
        with campaign.store.write():  # the writer's lock is somebody else's
            assert campaign.preview("tea", 3) == seen
        assert campaign.status().events == events
        assert campaign.rounds()[0].status == "open"
        opened = campaign.ask("tea", 3)
        assert (opened.seeds, opened.reach) == (seen.seeds, seen.reach)
        assert campaign.model_hash() == campaign.replay_hash()


# -- a proposal that somebody accepts --


def both(preview, ask):
    names = ("seeds", "strategies", "held_out", "product", "cost", "reach", "deadline", "fatigue", "return_on_cost")
    assert {name: getattr(preview, name) for name in names} == {name: getattr(ask, name) for name in names}


def test_the_accepted_proposal_is_opened_as_shown():
    offers = {"mail": [1.0, 0.0], "call": [0.0, 1.0]}
    asks = {"k": 6, "holdout": 0.34, "cooldown": "3d", "audience_rest": "1d"}
    caps = {"contact_cap": "5/30d", "contact_group": "all"}
    with small_campaign(strategies=offers, strategy_costs={"call": 2.0}, window="9d", ask=asks, **caps) as campaign:
        question = {"product": "tea", "strategies": "all", "per_user": True, "deadline": "5d"}
        preview = campaign.preview(**question)
        assert preview.terms == {
            "k": 6,
            "strategies": ["mail", "call"],
            "per_user": True,
            "cooldown": "3d",
            "audience_rest": "1d",
            "holdout": 0.34,
            "window": "9d",
            "credit": "any",
            "objective": "direct",
            "epsilon": 0.1,
            **caps,
        }
        both(preview, campaign.ask(**question, proposal=preview.proposal))


def test_nothing_is_opened_if_others_would_be_chosen_by_now():
    with small_campaign() as campaign:
        preview = campaign.preview("tea", k=4)
        campaign.opt_out([preview.seeds[0]])
        with pytest.raises(StateError, match="other users would be chosen or held out"):
            campaign.ask("tea", k=4, proposal=preview.proposal)
        assert campaign.rounds() == ()
        campaign.opt_in([preview.seeds[0]])
        with pytest.raises(StateError, match="the question is another one"):
            campaign.ask("tea", k=4, window="2d", proposal=preview.proposal)
        both(preview, campaign.ask("tea", k=4, proposal=preview.proposal))


# -- lists --


def test_a_list_is_judged_beside_the_best_choice():
    campaign = small_campaign(policy=HighDegree())
    best = campaign.preview("tea", 3)
    graph = campaign.graph
    worst = graph.ids[np.argsort(graph.out_degree, kind="stable")[:3]].tolist()
    judged = campaign.preview("tea", users=worst)
    assert judged.seeds == tuple(worst)
    assert judged.best == best.reach
    assert judged.difference == judged.reach.mean - best.reach.mean < 0.0
    assert campaign.preview("tea", users=list(best.seeds)).difference == pytest.approx(0.0)


def test_a_list_is_learned_and_explained_as_what_it_is(tmp_path):
    url = f"sqlite:///{tmp_path}/c.db"
    campaign = small_campaign(url)
    chosen = campaign.preview("tea", 2).seeds
    users = [f"person-{i:03d}" for i in (3, 7, 11)]
    ask = campaign.ask("tea", users=users)
    assert (ask.kind, ask.seeds, ask.contacted) == ("ask", tuple(users), tuple(users))
    assert ask.explain("person-003").text.startswith("'person-003' was put on the list by a person as number 1: adds")
    other = next(user for user in chosen if user not in users)
    assert "a person made the list of this round; would add" in ask.explain(other).text
    campaign.tell(ask.id, answers(campaign, ask))
    before = campaign.model_hash()
    campaign.close(ask.id)
    assert campaign.model_hash() != before
    assert campaign.replay_hash() == campaign.model_hash()
    assert campaign.progress().rounds[0].expected == ask.reach
    with load_campaign("spring", storage=url) as again:
        assert again.round(1).seeds == tuple(users)


def test_the_hold_out_of_a_list_is_drawn_like_any_other():
    users = [f"person-{i:03d}" for i in range(10)]
    campaign = small_campaign()
    asks = [campaign.ask("tea", users=users, holdout=0.3) for _ in range(20)]
    drawn = {user for ask in asks for user in ask.held_out}
    assert all(len(ask.held_out) == 3 for ask in asks)
    assert len(drawn) > 6
    assert all(user not in ask.held_out for ask in asks[:1] for user in ask.seeds)


def test_strategies_of_a_list():
    campaign = small_campaign(**STRATEGIES)
    users = ["person-001", "person-002"]
    one = campaign.preview("tea", users=users, strategies="all")
    assert one.strategies is not None
    assert len(set(one.strategies)) == 1
    cheap = campaign.preview("tea", users=users, strategies="all", budget=1.0)
    assert (cheap.strategies, cheap.cost) == (("email", "email"), 0.0)
    both = dict(zip(users, ("letter", "email"), strict=True))
    assert campaign.ask("tea", users=both, strategies="all", per_user=True).strategies == ("letter", "email")
    with pytest.raises(InputError, match="per_user"):
        campaign.ask("tea", users=both, strategies="all")
    with pytest.raises(InputError, match="Name these strategies in strategies"):
        campaign.ask(("tea", "email"), users=both)
    best = campaign.preview("tea", 3, strategies="all", per_user=True)
    taken = dict(zip(best.seeds, best.strategies or (), strict=True))
    assert campaign.preview("tea", users=taken, strategies="all", per_user=True).reach.mean == pytest.approx(
        best.reach.mean
    )


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"users": []}, "at least one"),
        ({"users": ["person-001"] * 2}, "twice"),
        ({"users": ["person-001"], "k": 2}, "k = 2, but users names 1"),
        ({"users": ["person-001"], "exclude": ["person-001"]}, "the list in users names 'person-001', who is excluded"),
        ({"users": ["person-001"], "must_include": ["person-002"]}, "left out 'person-002'"),
        ({"users": ["person-001"], "shadow": ["person-002"]}, "shadow"),
    ],
)
def test_lists_that_are_refused(wrong, said):
    campaign = small_campaign(ask={"k": 5})
    with pytest.raises(InputError, match=said):
        campaign.ask("tea", **wrong)
    assert campaign.rounds() == ()


def test_previews_that_are_refused():
    campaign = small_campaign()
    with pytest.raises(TypeError, match="colour"):
        campaign.preview("tea", 3, colour="red")
    with pytest.raises(InputError, match="shadow"):
        campaign.preview("tea", 3, shadow=["person-001"])
    with pytest.raises(UnknownIdError, match="nobody"):
        campaign.preview("tea", users=["nobody"])
    with pytest.raises(InputError, match="quota"):
        small_campaign(groups=["a"] * 30).preview("tea", users=["person-001", "person-002"], quotas=1)


def test_the_same_request_with_another_list_is_another_question():
    campaign = small_campaign()
    first = campaign.ask("tea", users=["person-001", "person-002"], request_id="a")
    assert campaign.ask("tea", users=["person-002", "person-001"], request_id="a") == first
    with pytest.raises(InputError, match="other values of users"):
        campaign.ask("tea", users=["person-003", "person-001"], request_id="a")


def test_rounds_are_named_by_number_too():
    campaign = small_campaign()
    ask = campaign.ask("tea", 2)
    assert campaign.round(1) == campaign.round("1") == ask
    with pytest.raises(UnknownIdError, match="no round 2"):
        campaign.close(2)
    with pytest.raises(InputError):
        campaign.round(True)
    assert campaign.close(1).status == "closed"


def test_the_library_logs_what_happens_and_names_nobody(caplog):
    caplog.set_level(logging.INFO, "tensorucb.campaign")
    clock = Clock()
    campaign = small_campaign(clock=clock, graph=small_graph())
    ask = campaign.ask("tea", 4, holdout=0.25)
    campaign.tell(ask.id, answers(campaign, ask))
    campaign.tell_log([])
    for _ in range(2):
        campaign.close(ask.id)
    campaign.ask("tea", 1, deadline=clock.now + 1.0)
    clock.now += 2.0
    campaign.expire()
    said = [record.getMessage().removeprefix("campaign 'spring': ") for record in caplog.records]
    assert said[0] == "round 1 opened, 3 contacted, 1 held out"
    assert said[1].startswith("round 1 told, ")
    assert said[2:5] == ["0 rounds told, 0 new, 0 known", "round 1 closed", "1 rounds learned"]
    assert said[5].startswith("round 2 opened")
    assert said[-1] == "1 rounds closed by their deadline"
    assert not any("person" in line for line in said)
