"""Every door takes every argument of an ask, and every setting of a new campaign."""

from __future__ import annotations

import inspect

import pytest

from tensorucb.campaign import Campaign, create_campaign, read_campaign_data
from tensorucb.cli._config import _CAMPAIGN, _DATA
from tensorucb.cli.create import create
from tensorucb.cli.rounds import ask
from tensorucb.client import Client, RemoteCampaign
from tensorucb.question import ARGUMENTS, STORED
from tensorucb.service._bodies import NewCampaign, QuestionBody

QUESTION = set(ARGUMENTS)
TABLES = {"edges", "actions", "products", "users", "strategies"}
# What only a program in the same process can give: arrays, a policy or a store that is open, a clock, an engine.
IN_PROCESS = {"graph", "data", "users", "products", "strategies", "strategy_costs", "costs", "groups"}
IN_PROCESS |= {"policy", "storage", "load_if_exists", "clock", "engine"}


def names(function, *, without=()):
    return {name for name in inspect.signature(function).parameters if name != "self"} - set(without)


def created():
    """What a campaign that is made of files takes."""
    settings = names(create_campaign, without=IN_PROCESS)
    data = names(read_campaign_data, without=("directory", "progress"))
    return settings | data | {"policy", "policy_settings"}


@pytest.mark.parametrize(
    ("door", "other"),
    [
        (Campaign.ask, ()),
        (Campaign.preview, ()),
        (RemoteCampaign.ask, ()),
        (RemoteCampaign.preview, ()),
        # A product may be given by its features, and one strategy by its own option.
        (ask, ("name", "features", "strategy", "storage", "json")),
    ],
)
def test_every_door_of_a_question_takes_all_arguments(door, other):
    assert names(door, without=other) == QUESTION
    assert set(other) <= names(door)


def test_the_body_over_http_takes_all_arguments():
    assert set(QuestionBody.model_fields) == QUESTION - {"request_id"}  # that is the header Idempotency-Key
    assert {name: field.description for name, field in QuestionBody.model_fields.items()} == {
        name: ARGUMENTS[name].help for name in QuestionBody.model_fields
    }


def test_the_docstring_of_ask_explains_all_arguments():
    text = inspect.getdoc(Campaign.ask).split("Parameters\n")[1]
    entries = {name for line in text.split("\n") if not line.startswith(" ") for name in line.split(", ")}
    assert entries >= QUESTION


def test_every_door_takes_all_settings_of_a_campaign():
    assert names(Client.create_campaign) == created()
    assert set(NewCampaign.model_fields) | TABLES == created() - {"request_id"}
    # The command has the policy's arguments as JSON, and defaults of ask in its file, which has all the rest too.
    command = (created() - {"policy_settings", "ask"}) | {"settings"}
    assert names(create, without=("config", "data", "storage", "json")) == command
    assert {*_CAMPAIGN, *_DATA} - {"storage", "directory"} == command - {"columns", "kinds", "request_id"}


def test_a_campaign_keeps_defaults_of_what_is_not_about_one_round():
    assert QUESTION - set(STORED) == {"product", "costs", "groups", "shadow", "users", "request_id"}
