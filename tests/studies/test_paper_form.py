from __future__ import annotations

from studies.paper_form import FORMS, row
from tensorucb.cli.demo import demo_environment


def test_the_papers_form_believes_in_one_half_and_a_logistic_one_in_rare_responses():
    world = demo_environment(0, quick=True)
    _, paper, connected = row(world, FORMS["paper: Gaussian, sigmoid"], 6, 1)
    assert 0.35 < paper[1] < 0.65
    assert 0 <= connected <= world.settings.k
    regret, logistic, _ = row(world, FORMS["the same with effects of single users"], 6, 1)
    assert logistic[1] < 0.15
    assert regret > 0
    assert row(world, FORMS["HighDegree"], 2, 1)[2] >= world.settings.k - 1
