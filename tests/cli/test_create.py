"""`create --data`, `add-products` and `add-users`, from files as a team has them to the next command."""

from __future__ import annotations

import shlex

import polars as pl
import pytest

from cli.commands import run, run_json
from cli.terminal import in_terminal
from tensorucb.campaign import load_campaign


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A directory with a small shop."""
    folder = tmp_path_factory.mktemp("made")
    run("datasets", "make", "shop", "--scale", "0.4", "--out", folder / "shop")
    return folder / "shop"


@pytest.fixture
def shop(made, tmp_path, monkeypatch):
    """An empty current directory; returns the shop's."""
    monkeypatch.chdir(tmp_path)
    return made


@pytest.mark.slow
def test_from_the_files_to_the_first_round_in_a_terminal(shop, tmp_path):
    created = in_terminal("create", "spring", "--data", str(shop), cwd=tmp_path)
    assert created.code == 0, created.text
    assert any("━" in line and "%" in line for line in created.drawn)
    assert max(len(line) for line in created.lines if "campaigns.db" not in line) <= 80
    told = " ".join(" ".join(created.lines).split())
    assert "Columns used: name (text), category (category), tags (tags), price (number)" in told
    assert "Nobody has bought 6 of the products yet." in told
    following = next(line for line in created.lines if line.startswith("Next: ")).removeprefix("Next: ")
    assert following == "tensorucb ask spring --product p0018 -k 10"
    asked = in_terminal(*shlex.split(following)[1:], cwd=tmp_path)
    assert asked.code == 0
    assert "Expected reach" in asked.text


def test_the_report_as_json(shop):
    made = run_json("create", "spring", "--data", shop, "--policy", "HighDegree")
    assert (made["users"], made["products"]) == (160, 24)
    assert any("Columns used" in line for line in made["report"])
    assert made["next"] == "tensorucb ask spring --product p0018 -k 10"
    again = run("create", "spring", "--data", shop, code=1).stderr
    assert "there is a campaign called 'spring' already" in again


def test_columns_kinds_and_files_one_by_one(shop, tmp_path):
    pl.read_csv(shop / "purchases.csv").rename({"user": "buyer", "time": "bought at"}).write_csv("sales.csv")
    names = ("--column", "actions.user=buyer", "--column", "actions.time=bought at")
    made = run_json(
        *("create", "spring", "--data", shop, "--actions", "sales.csv", *names, "--policy", "HighDegree"),
        *("--kind", "products.price=ignore", "--kind", "users.age=category", "--storage", "sqlite:///my shop.db"),
    )
    told = "\n".join(made["report"])
    assert "sales.csv" in told
    assert "Left out: column price, since as told." in told
    assert made["next"].endswith("--storage 'sqlite:///my shop.db'")
    with load_campaign("spring", storage="sqlite:///my shop.db") as campaign:
        assert campaign.settings["columns"] == {"actions": {"user": "buyer", "time": "bought at"}}


def test_an_edge_list_alone_is_enough(shop):
    made = run_json("create", "spring", "--edges", shop / "followers.csv")
    assert made["next"] == "tensorucb ask spring -k 10"
    assert len(run_json(*shlex.split(made["next"])[1:])["seeds"]) == 10


def test_products_and_users_that_come_later(shop, tmp_path):
    run("create", "spring", "--data", shop)
    products = pl.read_csv(shop / "products.csv")
    fresh = products.tail(2).with_columns(product=pl.Series(["new1", "new2"]))
    pl.concat([products, fresh]).write_parquet("more.parquet")
    added = run_json("add-products", "spring", "more.parquet")
    assert added == {"added": 2, "known": 24, "products": 26, "report": ["more.parquet: 26 rows, 26 kept"]}
    assert "0 products added, 26 known before" in run("add-products", "spring", "more.parquet").stdout
    assert len(run_json("ask", "spring", "--product", "new2", "-k", 3)["seeds"]) == 3
    (tmp_path / "people.csv").write_text("user,group,age,cost\nzoe,Porto,33,1\nu00001,Faro,20,5\n")
    (tmp_path / "links.csv").write_text("source,target\nzoe,u00001\nu00002,zoe\n")
    grown = run_json("add-users", "spring", "--users", "people.csv", "--edges", "links.csv")
    assert (grown["users_added"], grown["edges_added"], grown["users"]) == (1, 2, 161)
    ask = run_json("ask", "spring", "--product", "new1", "-k", 2, "--must-include", "zoe")
    assert "zoe" in ask["seeds"]
    with load_campaign("spring") as campaign:
        assert campaign.model_hash() == campaign.replay_hash()


def test_files_that_come_later_are_read_by_the_names_of_the_creation(shop, tmp_path):
    products = pl.read_csv(shop / "products.csv").rename({"product": "sku"})
    products.write_csv("stock.csv")
    run("create", "x", "--edges", shop / "followers.csv", "--products", "stock.csv", "--column", "products.product=sku")
    products.tail(1).with_columns(sku=pl.lit("fresh")).write_csv("one.csv")
    assert run_json("add-products", "x", "one.csv")["added"] == 1
    assert "`tensorucb add-products`" in run("ask", "x", "--product", "none", "-k", 1, code=1).stderr


def test_ids_that_look_like_numbers_are_those_of_the_catalogue(shop, tmp_path):
    (tmp_path / "stock.csv").write_text("product,kind\n007,tea\n8,tea\n9,soap\n")
    run("create", "x", "--edges", shop / "followers.csv", "--products", "stock.csv", "--policy", "HighDegree")
    (tmp_path / "more.csv").write_text("product,kind\n8,tea\n10,soap\n")
    added = run_json("add-products", "x", "more.csv")
    assert added == {"added": 1, "known": 1, "products": 4, "report": ["more.csv: 2 rows, 2 kept"]}
    with load_campaign("x") as campaign:
        assert campaign.products() == ("007", "8", "9", "10")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), 2, "give --data, or --edges, or both"),
        (("--data", "none"), 1, "--data must be a directory with an edge list; 'none' is none."),
        (("--data", "."), 1, "a campaign needs an edge list"),
        (("--edges", "e.csv", "--column", "time=at"), 2, "--column must look like actions.time=bought_at"),
        (("--edges", "e.csv", "--column", "edges.source=a", "--column", "edges.source=b"), 2, "twice"),
        (("--edges", "e.csv", "--column", "sales.user=b"), 1, "--column names the table 'sales'"),
        (("--edges", "e.csv", "--column", "edges.source=from"), 1, "e.csv has no column from"),
        (
            ("--edges", "e.csv", "--actions", "a.csv"),
            1,
            "with --column actions.item=NAME and --column actions.time=NAME.",
        ),
        (("--edges", "e.csv", "--products", "p.csv", "--kind", "products.size=big"), 1, "big"),
        (
            ("--edges", "e.csv", "--products", "p.csv", "--kind", "products.dim=text"),
            1,
            "--kind names the column 'dim'",
        ),
    ],
)
def test_errors_speak_of_commands(tmp_path, monkeypatch, arguments, code, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "e.csv").write_text("source,target\na,b\nb,c\n")
    (tmp_path / "a.csv").write_text("user,thing,when\na,x,1\n")
    (tmp_path / "p.csv").write_text("product,size\ntea,small\nsoap,large\n")
    said = run("create", "x", *arguments, code=code).stderr
    assert words in said
    assert "columns=" not in said
    assert not (tmp_path / "campaigns.db").exists() or not run_json("status")["campaigns"]


def test_the_shop_says_what_day_it_was_made_for(made):
    assert {path.name for path in made.iterdir()} == {
        "followers.csv",
        "purchases.csv",
        "products.csv",
        "users.csv",
        "purchases-later.csv",
    }
    written = run_json("datasets", "make", "shop", "--scale", "0.2", "--out", made.parent / "again")
    assert pl.read_csv(made.parent / "again" / "purchases.csv")["time"].max() < written["today"]
    assert "from 0.1 to 100" in run("datasets", "make", "shop", "--scale", "0", "--out", "x", code=2).stderr
