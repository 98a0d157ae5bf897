"""A preview that somebody accepts is opened as it was shown, or nothing is."""

from __future__ import annotations

import pytest

from campaign.worlds import small_campaign
from tensorucb.errors import StateError


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
