"""Campaigns beside each other: their numbers with intervals, and the figure of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from campaign.worlds import answers, small_campaign

# private: the service draws these figures, and has no library call for them
from tensorucb.plots._side_by_side import measures, side_by_side


def played(name: str, rounds: int, **settings: object):
    campaign = small_campaign(name=name, **settings)
    for number in range(rounds):
        ask = campaign.ask("tea", 4)
        campaign.tell(ask, answers(campaign, ask, every=2 + number % 3))
        campaign.close(ask)
    return campaign.progress()


def test_intervals_are_as_wide_as_rounds_differ():
    progress = played("spring", 6, costs=np.full(30, 2.0))
    reach, cost = measures(progress)
    assert (reach.what, reach.value, cost.what, cost.value) == (
        "reach",
        progress.reached,
        "cost",
        progress.cost_per_responder,
    )
    assert reach.low < reach.value < reach.high
    assert cost.low < cost.value < cost.high
    # Rounds that all bring the same say the cost exactly.
    alike = replace(progress, rounds=(progress.rounds[0],) * 6)
    low, high = ((measure.low, measure.high) for measure in measures(alike))
    assert low == (pytest.approx(progress.reached), pytest.approx(progress.reached))
    assert high[0] == pytest.approx(high[1])


def test_one_round_has_no_interval_and_a_campaign_without_costs_no_cost():
    (reach,) = measures(played("spring", 1))
    assert (reach.low, reach.high) == (None, None)
    assert [measure.value for measure in measures(small_campaign().progress())] == [0]


def test_one_figure_has_a_part_for_each_number_and_a_row_for_each_campaign():
    measured = [*measures(played("spring", 3, costs=np.full(30, 2.0))), *measures(played("autumn", 3))]
    document = side_by_side(measured).to_dict()
    assert len(document["hconcat"]) == 2
    for part in document["hconcat"]:
        places = [layer["encoding"]["y"] for layer in part["layer"] if "y" in layer["encoding"]]
        assert all(place["scale"]["domain"] == ["spring", "autumn"] for place in places)
    assert "spring" in document["description"]
    assert "Cost per responder: spring" in document["description"]
