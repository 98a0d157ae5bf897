"""One question, one number: whatever door it is asked at."""

from __future__ import annotations

import numpy as np
import pytest

from campaign.worlds import answers, small_campaign
from tensorucb.policies import LogisticUCB, TensorUCB
from tensorucb.service._learned import what_was_learned


@pytest.mark.parametrize("policy", [TensorUCB(), LogisticUCB()], ids=lambda policy: policy.name)
def test_every_door_gives_the_same_numbers(policy):
    """Ask, preview, the stored round, progress, explanations, probabilities and what was learned, over some rounds."""
    campaign = small_campaign(policy=policy)
    graph = campaign.graph
    for number in range(4):
        product = ("tea", "soap")[number % 2]
        before = campaign.preview(product=product, k=3)
        believed = np.bincount(graph.sources, campaign.probabilities(product), graph.n_nodes)
        learned = what_was_learned(campaign)
        ask = campaign.ask(product, 3)
        assert before.seeds == ask.seeds
        assert before.reach == ask.reach == campaign.round(ask.id).reach == campaign.progress().rounds[-1].expected
        explained = ask.explain().seeds
        assert sum(seed.gain for seed in explained) == pytest.approx(ask.reach.mean, rel=1e-6)
        for seed, previewed in zip(explained, before.explanation.seeds, strict=True):
            alone = believed[graph.rows([seed.user])[0]]
            assert seed.score == pytest.approx(previewed.score, rel=1e-9)
            assert seed.score == pytest.approx(alone, rel=1e-6)
            # A user alone, not contacted themselves: nobody else's followers overlap.
            assert campaign.preview(product=product, users=[seed.user]).reach.mean == pytest.approx(alone, rel=1e-6)
        column = list(learned.products).index(product)
        shown = learned.users.index(explained[0].user)
        assert learned.expected[shown][column] == pytest.approx(explained[0].score, rel=1e-6)
        campaign.tell(ask.id, answers(campaign, ask, every=3))
        campaign.close(ask.id)
