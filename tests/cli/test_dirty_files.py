"""Files as they come, through the real command: renamed columns, semicolons, amounts, dirty rows, days, a database."""

from __future__ import annotations

import sqlite3
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from cli.commands import run, run_json

FOLLOWS = "\ufeffFollower;Followee;since\nC2;C1;2020\nC3;C1;2021\n\nC3;C2;\nC4;C3;2022\nC4\nC1;C4;2020\nC2;C1;2020\n"
PRODUCTS = (
    'sku;price;kind\ntea;"€12,99";food\nlamp;"€1.299,00";home\njam;"€3,50";food\ntea;"€9,99";food\n;"€1,00";food\n'
)
CUSTOMERS = 'customer_id,age,cost\nC1,31,$1.50\nC2,24,$2\nC3,45,"$1,000.00"\nC4,38,$3\n'
SALES = "buyer,sku,bought_at\nC1,tea,2026-01-05\nC2,tea,2026-01-06 10:00\nC3,tea,soon\nC9,lamp,2026-01-07\n"
NAMES = ("--column", "actions.user=buyer", "--column", "actions.time=bought_at")


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in (("edges", FOLLOWS), ("products", PRODUCTS), ("users", CUSTOMERS), ("actions", SALES)):
        (tmp_path / f"{name}.csv").write_text(text, encoding="utf-8")
    return tmp_path


def test_from_dirty_files_to_responses_without_glue(files):
    said = run("create", "spring", "--data", ".", *NAMES, "--window", "7d", "--timezone", "Europe/Berlin").stdout
    for line in (
        "For example, C1 influences C2.",
        "begins with a byte order mark, which is skipped",
        "fields are separated by semicolons",
        "1 left out: wrong number of fields (line 7: 'C4')",
        "1 left out: a repeated link (line 9)",
        "1 left out: bought_at is not a time in seconds or such as 2026-05-31T12:00 (line 4: 'soon')",
        "1 left out: a user without a link (line 5)",
        "products.csv: 5 rows, 3 kept\n  1 left out: sku is empty (line 6)",
        "  1 left out: a product that came before (line 5: 'tea')\n",
        "  price is read with a decimal comma: '€12,99' is 12.99",
        "users.csv: 4 rows, 4 kept\n  cost is read as amounts: '$1.50' is 1.5",
    ):
        assert line in said, line
    ask = run_json("ask", "spring", "--product", "tea", "-k", 1, "--candidates", "C1")
    today = datetime.fromtimestamp(ask["opened"], ZoneInfo("Europe/Berlin"))
    rows = [
        f"C2,tea,{today:%Y-%m-%d}",
        f"C3,tea,{ask['opened'] + 60}",
        f"C3,tea,{ask['opened'] + 60}",
        "guest,tea,2026-01-01",
        "C3,tea,32.13.2026",
        "",
    ]
    (files / "late.csv").write_text("buyer,sku,bought_at\n" + "\n".join(rows) + "\n")
    refused = run("tell", "spring", ask["id"], "late.csv", "--strict", code=1).stderr
    assert "late.csv: 2 of 5 rows cannot be used" in refused
    told = run("tell", "spring", ask["id"], "late.csv").stdout
    assert "2 accepted (0 late), 1 told before, 0 contradictions." in told
    for line in (
        "bought_at is not a time in seconds or such as 2026-05-31T12:00 (line 6: '32.13.2026')",
        "a user who is not in the network (line 5: 'guest')",
        "1 left out: told before (line 4)",
        "dates without a time: 2; each counts for its whole day (Europe/Berlin), also the day of the contact",
    ):
        assert line in told, line


def test_gaps_among_numbers_are_empty_cells(files):
    (files / "users.csv").write_text("user,age,diet\nC1,31,none\nC2,n/a,vegan\nC3,45,none\nC4,-,vegan\n")
    said = run("create", "x", "--edges", "edges.csv", "--users", "users.csv", "--policy", "HighDegree").stdout
    assert "users.csv: 4 rows, 4 kept\n  age has 2 cells such as 'n/a', read as empty\n" in said
    assert "Columns used: age (number), diet (category)." in said


def test_rows_that_are_left_out_later_are_said_too(files):
    run("create", "x", "--data", ".", *NAMES, "--policy", "HighDegree")
    said = run("add-products", "x", "products.csv").stdout
    assert "products.csv: 5 rows, 3 kept\n  1 left out: sku is empty (line 6)\n" in said
    assert said.endswith("0 products added, 3 known before; the catalogue has 3.\n")
    (files / "more.csv").write_text("customer_id,age,cost\nC5,20,$1\nC5,21,$1\n")
    (files / "links.csv").write_text("follower,followee\nC5,C1\nC5\n")
    said = run("add-users", "x", "--users", "more.csv", "--edges", "links.csv").stdout
    for line in (
        "more.csv: 2 rows, 1 kept",
        "a user that came before (line 3: 'C5')",
        "wrong number of fields (line 3",
    ):
        assert line in said, line
    assert "1 user and 1 edge added." in said


def test_a_round_that_is_closed_early_says_how(files):
    run("create", "x", "--edges", "edges.csv", "--window", "7d", "--policy", "HighDegree")
    run("ask", "x", "-k", 1)
    assert run("close", "x", 1, code=1).stderr.endswith("If you mean it, give --early.\n")
    run("close", "x", 1, "--early")


def test_a_share_of_bad_rows_refuses_a_campaign(files):
    (files / "edges.csv").write_text("source,target\nC1,C2\nC3\nC4\n")
    said = run("create", "x", "--edges", "edges.csv", code=1).stderr
    assert "edges.csv: 2 of 3 rows cannot be used: wrong number of fields (lines 3, 4: 'C3', 'C4')." in said
    assert "--max-left-out 1.0" in said
    run("create", "x", "--edges", "edges.csv", "--max-left-out", 0.7, "--policy", "HighDegree")
    (files / "edges.csv").write_text("source,target\nC1,C2\nC2,C3\nC4\n")
    assert "without --strict" in run("create", "y", "--edges", "edges.csv", "--strict", code=1).stderr


def test_a_campaign_from_a_database(files):
    with sqlite3.connect(files / "shop.db") as connection:
        connection.execute("create table links (leader text, fan text)")
        connection.executemany("insert into links values (?, ?)", [("C1", "C2"), ("C2", "C3"), ("C3", "C1")])
    connection.close()
    query = "edges=select leader as source, fan as target from links where fan != 'x'"
    made = run_json("create", "x", "--data", "sqlite:shop.db", "--query", query, "--policy", "HighDegree")
    assert (made["users"], made["edges"]) == (3, 3)
    assert "--query must look like" in run("create", "y", "--data", "sqlite:shop.db", "--query", "edges", code=2).stderr
    wrong = run("create", "y", "--data", "postgresql://mia:tops3cret@127.0.0.1:1/x", "--query", query, code=1)
    assert "tops3cret" not in wrong.stderr + wrong.stdout
