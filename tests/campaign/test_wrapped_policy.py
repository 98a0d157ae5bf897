"""A policy inside a policy survives in a campaign."""

from __future__ import annotations

import pytest

from campaign.worlds import Clock, answers, small_campaign
from tensorucb.campaign import load_campaign
from tensorucb.errors import StateError
from tensorucb.policies import ForgetOnDrift, LinUCB


def _learned(campaign, rounds=7):
    for _ in range(rounds):
        ask = campaign.ask("tea", 4)
        campaign.tell(ask.id, answers(campaign, ask))
        campaign.close(ask.id)
    return campaign.model_hash()


def test_it_is_built_again_from_the_store_with_its_arguments(tmp_path):
    url = f"sqlite:///{tmp_path}/c.db"
    policy = ForgetOnDrift(LinUCB(exploration=0.25), warm_up=3, memory=50)
    with small_campaign(url, policy=policy) as campaign:
        learned = _learned(campaign)
    with load_campaign("spring", storage=url, clock=Clock()) as again:
        assert again.model_hash() == again.replay_hash() == learned
        rebuilt = again._handle.model.policy
        assert isinstance(rebuilt, ForgetOnDrift)
        assert isinstance(rebuilt.policy, LinUCB)
        assert rebuilt.settings() == policy.settings()


class Mine(LinUCB):
    """A policy of another package."""


def test_around_a_policy_of_another_package_it_must_be_given_again(tmp_path):
    url = f"sqlite:///{tmp_path}/c.db"
    with small_campaign(url, policy=ForgetOnDrift(Mine())) as campaign:
        learned = _learned(campaign, 2)
    with pytest.raises(StateError, match="Mine is not of this package"):
        load_campaign("spring", storage=url)
    with load_campaign("spring", storage=url, policy=ForgetOnDrift(Mine()), clock=Clock()) as again:
        assert again.model_hash() == learned
