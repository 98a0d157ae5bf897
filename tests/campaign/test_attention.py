"""`attention` names what needs a person, and nothing where nothing does; each door says the same."""

from __future__ import annotations

import json
import time

import pytest

from campaign.blobs import close_with_features
from campaign.worlds import Clock, answers, small_campaign
from tensorucb.campaign import UnlearnableRoundWarning
from tensorucb.cli import main
from tensorucb.policies import HighDegree


def needs(campaign):
    return [(notice.need, notice.round) for notice in campaign.attention()]


def everybody(ask, campaign):
    """All followers of those contacted respond."""
    graph = campaign.graph
    edges = graph.out_edges(graph.rows(ask.contacted))
    users = set(graph.ids[graph.targets[edges]].tolist()) - set(ask.contacted)
    return [{"user": user, "time": campaign.clock()} for user in sorted(users)]


def test_a_campaign_that_goes_as_expected_needs_nobody():
    campaign = small_campaign(clock=Clock(1000.0), window="100s")
    assert campaign.attention() == ()
    ask = campaign.ask("tea", 3)
    campaign.tell(ask.id, answers(campaign, ask))
    assert campaign.attention() == ()


def test_a_round_past_its_deadline_that_is_still_open():
    campaign = small_campaign(clock=Clock(1000.0))
    campaign.ask("tea", 3, deadline=1500.0)
    assert campaign.attention() == ()
    campaign.clock.now = 1501.0
    (notice,) = campaign.attention()
    assert (notice.need, notice.round) == ("overdue", 1)
    assert "1970-01-01 00:25 UTC" in notice.text
    campaign.expire()
    assert campaign.attention() == ()


def test_two_forecasts_that_did_not_hold_and_one_that_did_after_them():
    campaign = small_campaign(clock=Clock(1000.0))
    for number in range(1, 15):
        ask = campaign.ask("tea", 3)
        # So many rounds without a response that one miss hardly widens the interval, then two to which all respond.
        campaign.tell(ask.id, everybody(ask, campaign) if number > 12 else [])
        campaign.close(ask.id)
        campaign.clock.now += 10.0
    entries = campaign.progress().rounds
    assert [entry.within for entry in entries[-2:]] == [False, False]
    assert ("missed", 14) in needs(campaign)
    (text,) = [notice.text for notice in campaign.attention() if notice.need == "missed"]
    assert f"round 13 brought {entries[-2].responders}" in text


def test_forecasts_that_have_become_worse():
    # The beliefs of this policy do not move, so that its forecasts go on being wrong.
    campaign = small_campaign(policy=HighDegree(), clock=Clock(1000.0))
    for number in range(40):
        ask = campaign.ask("tea", 3)
        responders = everybody(ask, campaign)
        campaign.tell(ask.id, responders[: 2 + number % 2] if number < 30 else responders)
        campaign.close(ask.id)
    (at,) = [round for need, round in needs(campaign) if need == "changed"]
    assert 29 <= at <= 33


def test_responses_that_do_not_count():
    campaign = small_campaign(clock=Clock(1000.0), window="100s")
    ask = campaign.ask("tea", 3)
    pair = answers(campaign, ask)[0]
    campaign.tell(ask.id, [pair, {**pair, "outcome": 1 - pair["outcome"]}])
    campaign.tell(ask.id, [{"user": campaign.graph.ids[0].item(), "time": 10.0}])
    texts = [notice.text for notice in campaign.attention()]
    assert needs(campaign) == [("left-out", 1), ("left-out", 1)]
    assert "1 response to round 1 came before the contact or after the window." in texts[0]
    assert "said something else" in texts[1]


def test_a_round_that_cannot_be_learned():
    campaign = small_campaign(clock=Clock(1000.0))
    ask = campaign.ask("tea", 2)
    close_with_features(campaign, ask.id, 1e200)
    with pytest.warns(UnlearnableRoundWarning):
        campaign.sync()
    assert ("unlearned", 1) in needs(campaign)


def test_a_webhook_whose_receiver_is_gone():
    campaign = small_campaign(clock=Clock(1000.0))
    campaign.set_webhook("http://127.0.0.1:9/rounds")  # the discard port, where nobody listens
    campaign.close(campaign.ask("tea", 2).id)
    campaign.deliver()
    (notice,) = campaign.attention()
    assert (notice.need, notice.round) == ("webhook", None)
    assert "Rounds still to be told: 1" in notice.text


def test_the_command_says_the_same(tmp_path, capsys):
    url = f"sqlite:///{tmp_path}/c.db"
    campaign = small_campaign(url, clock=time.time)
    ask = campaign.ask("tea", 3, window="1d")
    campaign.tell(ask.id, [{"user": campaign.graph.ids[0].item(), "time": ask.opened - 10.0}])
    notices = campaign.attention()
    campaign.disconnect()
    with pytest.raises(SystemExit, match="0"):
        main(["status", "spring", "--storage", url])
    printed = " ".join(capsys.readouterr().out.split())
    assert f"Attention: {notices[0].text}" in printed
    with pytest.raises(SystemExit, match="0"):
        main(["status", "spring", "--storage", url, "--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["attention"] == [{"need": n.need, "text": n.text, "round": n.round} for n in notices]
