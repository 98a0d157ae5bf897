"""Strategies on the command line: a catalogue from a file, one for a round, one for each user, and one given."""

from __future__ import annotations

import polars as pl
import pytest

from cli.commands import run, run_json
from tensorucb.campaign import load_campaign


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A directory with a campaign that has three strategies."""
    monkeypatch.chdir(tmp_path)
    pairs = [(f"u{i}", f"u{(i * 5 + j) % 12}") for i in range(12) for j in range(1, 4) if (i * 5 + j) % 12 != i]
    pl.DataFrame(pairs, schema=["source", "target"], orient="row").write_csv("edges.csv")
    users = {"user": [f"u{i}" for i in range(12)], "age": range(12), "cost": [1.0] * 12}
    pl.DataFrame(users).write_csv("users.csv")
    pl.DataFrame({"product": [7, 8], "x": [1.0, 0.0], "y": [0.0, 1.0]}).write_csv("products.csv")
    pl.DataFrame(
        {"strategy": ["email", "visit", "call"], "cost": [0.0, 2.0, 0.5], "x": [1, 0, 0], "y": [0, 1, 0]}
    ).write_csv("strategies.csv")
    files = ("--edges", "edges.csv", "--users", "users.csv", "--products", "products.csv")
    made = run_json("create", "spring", *files, "--strategies", "strategies.csv", "--policy", "LogisticUCB")
    assert (made["products"], made["strategies"]) == (2, 3)
    return tmp_path


def test_a_round_trip_with_a_strategy_for_each_user(folder):
    ask = run_json("ask", "spring", "--product", 7, "-k", 4, "--strategies", "all", "--per-user", "--budget", 9)
    assert len(ask["strategies"]) == len(ask["seeds"]) == 4
    costs = {"email": 0.0, "visit": 2.0, "call": 0.5}
    assert ask["cost"] == sum(1.0 + costs[strategy] for strategy in ask["strategies"]) <= 9
    for seed, strategy in zip(ask["explanation"]["seeds"], ask["strategies"], strict=True):
        assert seed["strategy"] == strategy
        assert {offer["strategy"]: offer["cost"] for offer in seed["offers"]} == costs
    edges = pl.read_csv("edges.csv").filter(pl.col("source").is_in(ask["seeds"]))
    edges.with_columns(outcome=1).write_csv("r.csv")
    assert run_json("tell", "spring", ask["id"], "r.csv")["accepted"] == edges.height
    run("close", "spring", ask["id"])
    run("export", "spring", "--out", "out")
    held = pl.read_parquet("out/seeds.parquet").filter(pl.col("role") == "seed")
    assert held["strategy"].to_list() == ask["strategies"]
    text = run("status", "spring", "--explain", ask["id"], "--user", ask["seeds"][0]).stdout
    assert f"Gets '{ask['strategies'][0]}'" in text
    status = run_json("status", "spring")
    assert status["strategies"] == 3
    assert status["rounds"][0]["strategies"] == ask["strategies"]
    assert "3 strategies" in run("status", "spring").stdout
    with load_campaign("spring", storage="sqlite:///campaigns.db") as campaign:
        assert campaign.model_hash() == campaign.replay_hash()


def test_the_table_shows_the_strategy_of_each_user(folder):
    shown = run("ask", "spring", "--product", 7, "-k", 3, "--strategies", "email,call").stdout
    ask = run_json("status", "spring")["rounds"][0]
    lines = shown.splitlines()
    header = next(line for line in lines if "Strategy" in line)
    assert header.split()[:2] == ["User", "Strategy"]
    for user, strategy in zip(ask["seeds"], ask["strategies"], strict=True):
        assert any(line.split()[1:3] == [user, strategy] for line in lines)
    assert f"Contacting them costs {ask['cost']:.2f}." in shown


def test_one_strategy_may_be_given(folder):
    ask = run_json("ask", "spring", "--product", 7, "-k", 2, "--strategy", "visit")
    assert ask["strategies"] == ["visit", "visit"]
    by_features = run_json("ask", "spring", "--features", "1,0", "-k", 2, "--strategy", "visit")
    assert by_features["seeds"] == ask["seeds"]
    shadow = run_json("ask", "spring", "--product", 7, "-k", 2, "--strategy", "visit", "--shadow", "u1")
    assert (shadow["contacted"], shadow["cost"]) == (["u1"], 3.0)
    pairs = pl.read_csv("edges.csv").head(5).with_columns(outcome=1, product=7, strategy=pl.lit("call"))
    pairs.write_csv("h.csv")
    assert run_json("import-history", "spring", "h.csv")["rounds"] == 1


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ((), 1, "strategies"),
        (("--strategy", "post"), 1, "'post'"),
        (("--strategy", "email", "--strategies", "all"), 2, "not both"),
        (("--per-user",), 1, "--per-user needs strategies"),
        (("--strategy", "email", "--per-user"), 2, "--per-user needs --strategies"),
        (("--strategies", "all", "--shadow", "u1"), 2, "who got which"),
    ],
)
def test_what_does_not_go_together_is_refused(folder, options, code, words):
    found = run("ask", "spring", "--product", 7, "-k", 2, *options, code=code)
    assert words in " ".join(found.output.replace("│", " ").split())


def test_strategies_without_features_are_each_of_a_kind_of_their_own(folder):
    pl.DataFrame({"strategy": ["email", "visit"], "cost": [1.0, 2.0]}).write_csv("bare.csv")
    found = run("create", "other", "--edges", "edges.csv", "--strategies", "bare.csv")
    assert "bare.csv: 2 rows, 2 kept" in found.stdout
    assert "Strategies: 2, each of a kind of its own." in found.stdout
    ask = run_json("ask", "other", "-k", 2, "--strategies", "all", "--per-user")
    assert set(ask["strategies"]) <= {"email", "visit"}
