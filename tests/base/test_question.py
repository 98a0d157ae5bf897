"""Every door takes every argument of an ask, and every setting of a new campaign."""

from __future__ import annotations

import inspect
import re

import httpx
import pytest

from cli.commands import config_keys
from service.serving import serving
from tensorucb.campaign import Campaign, create_campaign, read_campaign_data
from tensorucb.cli.create import create
from tensorucb.cli.rounds import ask, preview
from tensorucb.client import Client, RemoteCampaign
from tensorucb.question import ARGUMENTS, SETTINGS, STORED
from tensorucb.service import ServiceSettings, create_app

QUESTION = set(ARGUMENTS)
TABLES = {"edges", "actions", "products", "users", "strategies"}
# What only a program in the same process can give: arrays, a policy or a store that is open, a clock, an engine.
IN_PROCESS = {"graph", "data", "users", "products", "strategies", "strategy_costs", "costs", "groups"}
IN_PROCESS |= {"values", "product_values"}
IN_PROCESS |= {"policy", "storage", "load_if_exists", "clock", "engine"}


def names(function, *, without=()):
    return {name for name in inspect.signature(function).parameters if name != "self"} - set(without)


def created():
    """What a campaign that is made of files takes."""
    settings = names(create_campaign, without=IN_PROCESS)
    data = names(read_campaign_data, without=("directory", "progress", "queries"))
    return settings | data | {"policy", "policy_settings"}


def sent_settings(folder):
    """The settings of a new campaign over HTTP, as the message about a wrong one lists them."""
    parts = {"edges": ("edges.csv", b"source,target\nann,bob\n"), "settings": (None, b'{"zzz": 1}')}
    with serving(f"sqlite:///{folder}/c.db") as url:
        said = httpx.post(f"{url}/api/v1/campaigns", files=parts, timeout=60).json()["detail"]
    return set(re.findall(r"\w+", said.partition("there are ")[2]))


@pytest.mark.parametrize(
    ("door", "other"),
    [
        (Campaign.ask, ()),
        (Campaign.preview, ()),
        (RemoteCampaign.ask, ()),
        (RemoteCampaign.preview, ()),
        # A product may be given by its features, and one strategy by its own option.
        (ask, ("campaign", "features", "strategy", "storage")),
        (preview, ("campaign", "features", "strategy", "storage")),
    ],
)
def test_every_door_of_a_question_takes_all_arguments(door, other):
    assert names(door, without=other) == QUESTION
    assert set(other) <= names(door)


def test_the_body_over_http_takes_all_arguments():
    described = create_app(ServiceSettings("memory://")).openapi()["components"]["schemas"]["QuestionBody"][
        "properties"
    ]
    assert set(described) == QUESTION - {"request_id"}  # that is the header Idempotency-Key
    assert {name: field["description"] for name, field in described.items()} == {
        name: ARGUMENTS[name].help for name in described
    }


def test_the_docstring_of_ask_explains_all_arguments():
    text = inspect.getdoc(Campaign.ask).split("Parameters\n")[1]
    entries = {name for line in text.split("\n") if not line.startswith(" ") for name in line.split(", ")}
    assert entries >= QUESTION


def test_the_settings_are_those_of_create_campaign_and_have_its_defaults():
    parameters = inspect.signature(create_campaign).parameters
    assert names(create_campaign, without={*IN_PROCESS, "name", "request_id"}) == set(SETTINGS)
    assert {name: parameters[name].default for name in SETTINGS} == {
        name: about.default for name, about in SETTINGS.items()
    }


def test_the_command_says_of_each_setting_what_it_means():
    options = inspect.signature(create).parameters
    for name in set(SETTINGS) - {"ask", "window", "seed"}:  # a section of the file, and options of other commands too
        option = options[name].default
        assert (option.default, option.help) == (SETTINGS[name].default, SETTINGS[name].help)


def test_every_door_takes_all_settings_of_a_campaign(tmp_path):
    assert names(Client.create_campaign) == created()
    assert sent_settings(tmp_path) | TABLES == created() - {"request_id"}
    # The command has the policy's arguments as JSON, and defaults of ask in its file, which has all the rest too.
    # A service asks no database that a stranger names.
    command = (created() - {"policy_settings", "ask"}) | {"settings", "queries"}
    assert names(create, without=("config", "data", "storage", "json")) == command
    in_file = config_keys("campaign", tmp_path) | config_keys("data", tmp_path)
    # How dirty files may be is said with them, and is no setting of a campaign.
    of_this_call = {"columns", "kinds", "request_id", "queries", "strict", "max_left_out"}
    assert in_file - {"storage", "directory"} == command - of_this_call


def test_a_campaign_keeps_defaults_of_what_is_not_about_one_round():
    assert QUESTION - set(STORED) == {"product", "costs", "groups", "shadow", "users", "request_id", "proposal"}
