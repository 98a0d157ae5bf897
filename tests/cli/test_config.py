"""The campaign file, ``tensorucb create --config`` and ``tensorucb init``."""

from __future__ import annotations

import re
import time
import tomllib

import pytest

from cli.commands import config_keys, run, run_json
from tensorucb.campaign import load_campaign
from tensorucb.errors import StoreError, UnknownIdError

EDGES = "source,target\nann,bob\nann,cid\nbob,cid\ncid,dan\ndan,ann\n"
ACTIONS = (
    "buyer,sku,brand,timestamp\nann,tea,1,2026-05-01T10:00\nbob,tea,1,2026-05-02T09:00\ndan,soap,2,2026-05-03T18:00\n"
)
FILE = """
[campaign]
name = "spring"
window = "7d"
policy = "LinUCB"
settings = { exploration = 0.5 }
seed = 3

[data]
edges = "edges.csv"
actions = "purchases.csv"
products = "products.csv"

[columns.actions]
user = "buyer"
item = "sku"

[kinds.products]
price = "category"

[ask]
k = 2
cooldown = "12h"
exclude = ["bob"]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A directory with a campaign file and its data, and the working directory beside it."""
    there = tmp_path / "team"
    there.mkdir()
    (there / "edges.csv").write_text(EDGES)
    (there / "purchases.csv").write_text(ACTIONS)
    (there / "products.csv").write_text("product,price\ntea,1\nsoap,2\n")
    (there / "campaign.toml").write_text(FILE)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return there


def settings(name="spring"):
    with load_campaign(name) as campaign:
        return campaign.settings


def test_a_campaign_from_a_file(folder):
    run("create", "--config", folder / "campaign.toml")
    held = settings()
    assert (held["window"], held["seed"], held["policy"]["type"]) == (604_800.0, 3, "LinUCB")
    assert held["policy"]["arguments"]["exploration"] == 0.5
    assert held["ask"] == {"k": 2, "cooldown": "12h", "exclude": ["bob"]}
    terms = "Responses count for 7d. Defaults of ask: k = 2, exclude = 1 user, cooldown = 12h."
    assert terms in run("status", "spring").stdout
    assert run_json("status", "spring")["ask"] == held["ask"]
    first = run_json("ask", "spring", "--product", "tea")
    assert len(first["seeds"]) == 2
    assert "bob" not in first["seeds"]
    assert first["deadline"] == first["opened"] + 604_800
    rested = run("ask", "spring", "--product", "tea", code=1).stderr
    assert "only 1 may be chosen" in rested
    again = run_json("ask", "spring", "--product", "tea", "-k", 3, "--cooldown", 0, "--deadline", "3d")
    assert len(again["seeds"]) == 3
    assert abs(again["deadline"] - time.time() - 3 * 86_400) < 600


def test_options_on_the_line_count_more(folder):
    more = ("--window", "1h", "--seed", 5, "--policy", "HighDegree", "--settings", "{}")
    told = run_json("create", "autumn", "--config", folder / "campaign.toml", *more, "--column", "actions.item=brand")
    assert "purchases.csv: 3 rows, 3 kept" in told["report"]
    held = settings("autumn")
    assert (held["window"], held["seed"], held["policy"]["type"]) == (3600.0, 5, "HighDegree")
    assert held["ask"]["k"] == 2
    assert held["columns"] == {"actions": {"user": "buyer", "item": "brand"}}


def test_the_storage_of_the_environment_counts_more_than_the_file(folder, monkeypatch):
    path = folder / "campaign.toml"
    path.write_text(FILE.replace('name = "spring"', 'name = "spring"\nstorage = "sqlite:///file.db"'))
    assert run_json("create", "--config", path)["storage"].endswith("file.db")
    monkeypatch.setenv("TENSORUCB_STORAGE", "sqlite:///variable.db")
    assert run_json("create", "--config", path)["storage"].endswith("variable.db")


def test_a_name_is_needed(folder):
    (folder / "campaign.toml").write_text(FILE.replace('name = "spring"', ""))
    assert "NAME, or --config" in run("create", "--config", folder / "campaign.toml", code=2).stderr
    run("create", "winter", "--config", folder / "campaign.toml")


@pytest.mark.parametrize(
    ("line", "wrong", "message"),
    [
        ('window = "7d"', 'windw = "7d"', "[campaign] has no key 'windw'. Did you mean 'window'?"),
        ("[ask]", "[aks]", "it has no section 'aks'. Did you mean 'ask'?"),
        ('edges = "edges.csv"', 'edge = "edges.csv"', "[data] has no key 'edge'. Did you mean 'edges'?"),
        ("[columns.actions]", "[columns.action]", "[columns] has no table 'action'. Did you mean 'actions'?"),
        ("[kinds.products]", "[kinds.edges]", "[kinds] has no table 'edges'. There are 'products', 'users'."),
        ('window = "7d"', 'window = "7 days"', "window in [campaign] must be a duration above 0: a text such as '7d'"),
        ("seed = 3", 'seed = "x"', "seed in [campaign] must be a whole number"),
        ("seed = 3", 'objective = "most"', "objective in [campaign] must be 'cascade' or 'direct'; got 'most'"),
        ("settings = {", "settings = 3 # {", "campaign.settings must be a section"),
        ('user = "buyer"', "user = 3", "user in [columns.actions] must be text; got 3"),
        ("[ask]", "[[ask]]", "ask must be a section, [ask]"),
        ("[ask]", "[ask", "is not valid TOML"),
        ('cooldown = "12h"', 'cooldwon = "12h"', "[ask] has no key 'cooldwon'. Did you mean 'cooldown'?"),
        ('cooldown = "12h"', "cooldown = -3", "ask: cooldown must be a duration of at least 0"),
        ('exclude = ["bob"]', 'exclude = ["nobody"]', "nobody"),
        ('user = "buyer"', 'user = "customer"', "customer"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(folder, line, wrong, message):
    path = folder / "campaign.toml"
    path.write_text(FILE.replace(line, wrong))
    told = run("create", "--config", path, code=1).stderr
    assert message in told
    assert told.splitlines()[-1].startswith("tensorucb: ")
    with pytest.raises((StoreError, UnknownIdError)):
        load_campaign("spring")


def test_a_file_that_is_not_there(folder):
    assert "`tensorucb init` writes one" in run("create", "--config", "none.toml", code=1).stderr


# -- init --


def test_the_template_makes_a_campaign_of_a_generated_shop(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = run("init").stdout
    assert "tensorucb create --config campaign.toml" in told
    run("datasets", "make", "shop", "--out", "shop")
    run("create", "--config", "campaign.toml")
    with load_campaign("spring") as campaign:
        product = campaign.products()[-1]
    asked = run_json("ask", "spring", "--product", product)
    assert (len(asked["seeds"]), len(asked["held_out"])) == (9, 1)


def test_a_file_that_is_there_is_left_as_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text("mine")
    assert "is there already" in run("init", "mine.toml", code=1).stderr
    assert (tmp_path / "mine.toml").read_text() == "mine"
    run("init", "con fig/o'ther.toml")
    assert (tmp_path / "con fig" / "o'ther.toml").read_text().startswith("# A campaign file.")


def test_the_template_shows_every_key_and_all_of_it_can_be_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("init")
    template = (tmp_path / "campaign.toml").read_text()
    shown = re.sub(r"^# (?=\[|\w+ = )", "", template, flags=re.MULTILINE)
    content = tomllib.loads(shown)
    assert max(map(len, template.splitlines())) <= 80
    for section in ("campaign", "data", "columns", "kinds"):
        may_be_left_out = {"strategies"} if section == "columns" else set()
        assert set(content[section]) == config_keys(section, tmp_path) - may_be_left_out
    (tmp_path / "all.toml").write_text(shown)
    # What is missing is the directory that it names.
    assert "shop' is none" in run("create", "--config", tmp_path / "all.toml", code=1).stderr


def test_a_file_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "c.toml").write_bytes(b"\xff\xfe")
    assert "is not valid TOML" in run("create", "--config", tmp_path / "c.toml", code=1).stderr
