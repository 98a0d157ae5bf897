"""The campaign commands from the outside, in files and JSON."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import polars as pl
import pytest

from campaign.blobs import close_with_features
from cli.commands import run, run_json
from tensorucb.campaign import UnlearnableRoundWarning, load_campaign
from tensorucb.policies import LinUCB

LAUNCH = [sys.executable, "-c", "from tensorucb.cli import main; main()"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A directory with a network, features and products."""
    monkeypatch.chdir(tmp_path)
    names = [f"0{i}-member" for i in range(12)]
    pairs = [(names[i], names[(i * 5 + j) % 12]) for i in range(12) for j in range(1, 4) if (i * 5 + j) % 12 != i]
    pl.DataFrame(pairs, schema=["source", "target"], orient="row").write_csv(tmp_path / "edges.csv")
    users = {
        "user": names,
        "age": range(12),
        "height": [1.0 + i / 7 for i in range(12)],
        "cost": [1.0] * 12,
        "group": ["a", "b"] * 6,
    }
    pl.DataFrame(users).write_csv(tmp_path / "users.csv")
    pl.DataFrame({"product": ["tea", "soap"], "x": [1.0, 0.0], "y": [0.0, 1.0]}).write_csv(tmp_path / "products.csv")
    return tmp_path


def make(*more):
    files = ("--edges", "edges.csv", "--users", "users.csv", "--products", "products.csv")
    return run_json(
        "create", "spring", *files, "--id-type", "str", "--policy", "LinUCB", "--objective", "direct", *more
    )


def first_edges(folder, seeds):
    edges = pl.read_csv(folder / "edges.csv", schema_overrides={"source": pl.String, "target": pl.String})
    return edges.filter(pl.col("source").is_in(seeds))


def test_a_whole_campaign_through_files_and_json(folder):
    made = make()
    assert (made["users"], made["products"], made["policy"]) == (12, 2, "LinUCB")
    assert (folder / "campaigns.db").exists()
    (folder / "out.txt").write_text("01-member\n02-member\n")
    ask = run_json("ask", "spring", "--product", "tea", "-k", 3, "--exclude", "@out.txt", "--exclude", "03-member")
    assert len(ask["seeds"]) == 3
    assert not {"01-member", "02-member", "03-member"} & set(ask["seeds"])
    assert ask["explanation"]["left_out"]["excluded"] == 3
    assert ask["reach"]["low"] <= ask["reach"]["mean"] <= ask["reach"]["high"]

    rows = first_edges(folder, ask["seeds"]).with_columns(outcome=1)
    rows.write_csv(folder / "r.csv")
    assert run_json("tell", "spring", ask["id"], "r.csv")["accepted"] == rows.height
    assert run_json("tell", "spring", ask["id"], "r.csv")["duplicates"] == rows.height
    line = json.dumps({**rows.row(0, named=True), "outcome": 0})
    clash = run_json("tell", "spring", ask["id"], "-", input=line + "\n")["contradictions"]
    assert [(c["kept"], c["told"]) for c in clash] == [(1, 0)]

    closed = run_json("close", "spring", ask["id"])
    assert (closed["status"], len(closed["model"])) == ("closed", 64)
    request = ("ask", "spring", "--features", "0.5,0.5", "-k", 2, "--request-id", "x")
    second = run_json(*request, "--quota", "a=1")
    assert run_json(*request, "--quota", "a=1")["id"] == second["id"]
    assert "other values of quotas" in run(*request, code=1).stderr
    assert run_json("close", "spring", second["id"], "--cancel")["status"] == "cancelled"

    history = first_edges(folder, ["05-member"]).with_columns(outcome=1, product=pl.lit("tea"))
    history.write_ndjson(folder / "h.ndjson")
    assert run_json("import-history", "spring", "h.ndjson") == {
        "rounds": 1,
        "responses": history.height,
        "known_rounds": 0,
        "unknown": 0,
        "used": 0,
        "other": 0,
        "left_out": [],
        "remarks": [],
    }
    assert run_json("import-history", "spring", "h.ndjson")["known_rounds"] == 1

    status = run_json("status", "spring")
    assert [entry["status"] for entry in status["rounds"]] == ["closed", "cancelled", "closed"]
    assert run_json("status")["campaigns"][0]["name"] == "spring"
    files = run_json("export", "spring", "--out", "exported")["files"]
    assert pl.read_parquet("exported/responses.parquet").height == rows.height + history.height
    assert len(files) == 11
    assert files[-1].endswith("manifest.json")
    gone = run_json("forget", "spring", "05-member", "--yes")
    assert gone["model_after"] == gone["replay"]


def test_a_file_named_like_a_user_is_never_read_in_their_place(folder):
    make()
    (folder / "05-member").write_text("07-member\n")
    run_json("forget", "spring", "05-member", "--yes")
    run_json("export", "spring", "--out", "exported")
    left = pl.read_parquet("exported/users.parquet")["user"].to_list()
    assert "05-member" not in left
    assert "07-member" in left
    (folder / "06-member").write_text("07-member\n")
    ask = run_json("ask", "spring", "--product", "tea", "-k", 1, "--candidates", "06-member")
    assert ask["seeds"] == ["06-member"]


@pytest.mark.parametrize(
    ("inner", "exploration"),
    [('"LinUCB"', LinUCB().exploration), ('{"type": "LinUCB", "arguments": {"exploration": 0.5}}', 0.5)],
)
def test_a_policy_inside_a_policy(folder, inner, exploration):
    settings = ("--policy", "ForgetOnDrift", "--settings", f'{{"policy": {inner}, "warm_up": 5}}')
    assert make(*settings)["policy"] == "ForgetOnDrift"
    with load_campaign("spring") as campaign:
        spec = campaign.settings["policy"]["arguments"]
    assert spec["warm_up"] == 5
    assert spec["policy"]["type"] == "LinUCB"
    assert LinUCB(**spec["policy"]["arguments"]).settings()["exploration"] == exploration
    ask = run_json("ask", "spring", "--product", "tea", "-k", 3)
    assert run_json("close", "spring", ask["id"])["status"] == "closed"
    wrong = run("create", "x", "--edges", "edges.csv", "--policy", "Guess", code=1).stderr
    assert "ForgetOnDrift" in wrong
    assert not any(name in wrong for name in ("DriftAlarm", "DriftState", "UCBPolicy", "PolicyState", "Oracle"))


def test_groups_that_are_numbers_take_quotas(folder):
    users = pl.read_csv("users.csv").with_columns(group=pl.Series([1, 2, 3] * 4))
    users.write_csv("users.csv")
    make()
    run_json("ask", "spring", "--product", "tea", "-k", 3, "--quota", "1=1", "--quota", "2=1", "--quota", "3=1")
    ask = run_json("ask", "spring", "--product", "tea", "-k", 2, "--quota", "1=0", "--quota", "2=0")
    members = dict(zip(users["user"], users["group"], strict=True))
    assert {members[user] for user in ask["seeds"]} == {3}
    wrong = run("ask", "spring", "--product", "tea", "-k", 2, "--quota", "9=1", code=1).stderr
    assert "--quota must be for groups that somebody is in" in wrong
    wrong = run("ask", "spring", "--product", "tea", "-k", 2, "--minimum", "1=3", code=1).stderr
    assert "--minimum must be at most" in wrong


def test_creating_again_with_the_same_request_finds_the_same_campaign(folder):
    first = make("--request-id", "monday", "--epsilon", "0.2", "--snapshot-every", "3")
    assert make("--request-id", "monday")["name"] == first["name"]
    with load_campaign("spring") as campaign:
        assert (campaign.settings["epsilon"], campaign.settings["snapshot_every"]) == (0.2, 3)
    other = ("create", "spring", "--edges", "edges.csv", "--policy", "HighDegree", "--request-id", "tuesday")
    assert "already" in run(*other, code=1).stderr


def test_minima_lists_and_columns_of_one_round(folder):
    make()
    line = ("ask", "spring", "--product", "tea")
    plain = run_json(*line, "-k", 4)
    table = pl.read_csv("users.csv").with_columns(cost=2.0)
    chosen = table["user"].is_in(plain["seeds"]).to_list()
    table = table.with_columns(group=pl.Series(["x" if each else "y" for each in chosen]))
    table.sample(fraction=1.0, shuffle=True, seed=0).write_csv("other.csv")
    ask = run_json(*line, "-k", 4, "--groups", "other.csv", "--minimum", "y=3")
    assert len(set(ask["seeds"]) & set(plain["seeds"])) == 1
    assert "The minima cost at most" in ask["explanation"]["certificate"]
    assert "Certificate: " in run(*line, "-k", 4, "--minimum", 1).stdout
    assert run_json(*line, "--costs", "other.csv", "--budget", 4, "--epsilon", "0.2")["cost"] == 4.0
    assert run_json(*line, "--users", "04-member", "--users", "07-member")["seeds"] == ["04-member", "07-member"]
    assert "--minimum must look like north=3" in run(*line, "-k", 4, "--minimum", "a", code=2).stderr
    table.drop("cost").write_csv("other.csv")
    assert "other.csv has no column 'cost'" in run(*line, "--budget", 4, "--costs", "other.csv", code=1).stderr


def test_an_export_holds_costs_groups_and_the_terms_of_each_round(folder):
    make("--window", "3600s", "--credit", "last")
    run_json("ask", "spring", "--product", "tea", "-k", 2)
    run_json("ask", "spring", "--product", "tea", "--budget", "3", "--credit", "shared", "--window", "60s")
    first_edges(folder, ["05-member"]).with_columns(outcome=1, product=pl.lit("tea")).write_csv("h.csv")
    run_json("import-history", "spring", "h.csv")
    run_json("export", "spring", "--out", "o")
    users, rounds = pl.read_parquet("o/users.parquet"), pl.read_parquet("o/rounds.parquet")
    given = pl.read_csv("users.csv").sort("user")
    assert users.select("user", "cost", "group").equals(given.select("user", "cost", "group"))
    asked = rounds.filter(pl.col("kind") == "ask")
    assert asked.select("k", "window", "credit").rows() == [(2, 3600.0, "last"), (None, 60.0, "shared")]


def test_deadline_credit_and_objective_of_one_round(folder):
    make()
    terms = ("--credit", "last", "--objective", "cascade")
    ask = run_json("ask", "spring", "--product", "tea", "-k", 2, "--deadline", "2100-01-01T00:00", *terms)
    assert ask["deadline"] == 4102444800.0
    assert (
        run_json("ask", "spring", "--product", "tea", "-k", 2, "--deadline", "4102444801")["deadline"] == 4102444801.0
    )
    assert ask["reach"]["objective"] == "cascade"
    run("export", "spring", "--out", "out", "--csv")
    assert pl.read_csv("out/rounds.csv")["credit"].to_list() == ["last", "any"]


def test_status_explains_a_round_and_a_user(folder):
    make()
    ask = run_json("ask", "spring", "--product", "tea", "-k", 2, "--exclude", "04-member")
    whole = run_json("status", "spring", "--explain", ask["id"])
    assert [seed["user"] for seed in whole["seeds"]] == ask["seeds"]
    one = run_json("status", "spring", "--explain", ask["id"], "--user", "04-member")
    assert one["status"] == "excluded"
    said = run("status", "spring", "--explain", ask["id"], "--user", ask["seeds"][0]).stdout
    assert "was chosen as number 1" in said
    assert "Left out beforehand: excluded 1" in run("status", "spring", "--explain", ask["id"]).stdout


def test_tables_for_people(folder):
    make("--window", "3600s")
    text = run("ask", "spring", "--product", "soap", "-k", 4, "--holdout", "0.25").stdout
    assert "Expected reach" in text
    assert "held out" in text
    round_id = text.split()[1]
    (folder / "n.csv").write_text("user,time\n04-member,1\n")
    told = run("tell", "spring", round_id, "n.csv")
    assert "1 accepted" in told.stdout
    assert "1 before the contact or after the window" in told.stderr
    assert "Next: contact them, then tensorucb tell spring FILE" in text
    closed = run("close", "spring", round_id).stdout
    assert "is closed" in closed
    assert "Next: tensorucb status spring" in closed
    assert "LinUCB, 12 users" in run("status", "spring").stdout
    assert "LinUCB, 1 round (0 open)" in run("status").stdout
    assert "edges.parquet" in run("export", "spring", "--out", "o").stdout
    history = first_edges(folder, ["05-member"]).with_columns(outcome=1, product=pl.lit("tea"))
    history.write_csv("h.csv")
    assert "1 round with" in run("import-history", "spring", "h.csv").stdout
    other = ("--edges", "edges.csv", "--policy", "HighDegree", "--storage", "sqlite:///other.db")
    assert "Next: tensorucb ask" in run("create", "b", *other).stdout
    asked = run("ask", "b", "-k", 1, "--storage", "sqlite:///other.db").stdout
    assert "then tensorucb tell b 1 FILE --storage sqlite:///other.db" in asked
    assert "no longer name" in run("forget", "spring", "07-member", input="y\n").stdout
    run("forget", "spring", "08-member", input="n\n", code=1)
    assert "08-member" in pl.read_parquet("o/users.parquet")["user"].to_list()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("ask", "nothing", "--product", "tea", "-k", 1), 1, "no campaign 'nothing'"),
        (
            ("ask", "spring", "-k", 1),
            1,
            "--product is missing: name one of the campaign's 2 products, such as 'tea', 'soap'",
        ),
        (("ask", "spring", "--product", "tea"), 1, "--k may be left out only with a budget"),
        (("ask", "spring", "--features", "a,b", "-k", 1), 2, "numbers with commas"),
        (("ask", "spring", "--product", "gin", "-k", 1), 1, "'gin'"),
        (("ask", "spring", "--product", "tea", "-k", 1, "--quota", "a"), 2, "north=3"),
        (("ask", "spring", "--product", "tea", "-k", 1, "--exclude", "@none.txt"), 1, "none.txt"),
        (("ask", "spring", "--product", "tea", "-k", 1, "--exclude", "@latin.txt"), 1, "not UTF-8"),
        (("tell", "spring", "000001-x", "none.csv"), 1, "cannot read"),
        (("close", "spring", "000001-x"), 1, "no round"),
        (("forget", "spring", "99", "--yes"), 1, "there is no user '99' in campaign 'spring'."),
        (("forget", "spring", "99"), 1, "there is no user '99' in campaign 'spring'."),
        (
            ("ask", "spring", "--product", "tea", "-k", 1, "--exclude", "nobody"),
            1,
            "--exclude names 'nobody', and the campaign has no such user. `tensorucb export NAME` lists them.",
        ),
        (("create", "spring", "--edges", "edges.csv"), 1, "already"),
        (("create", "x", "--edges", "edges.csv", "--policy", "Guess"), 1, "must be one of"),
        (("create", "x", "--edges", "edges.csv", "--policy", "LinUCB", "--settings", "{"), 1, "JSON"),
        (("create", "x", "--edges", "edges.csv", "--policy", "LinUCB", "--settings", "[1]"), 1, "JSON object"),
        (("create", "x", "--edges", "edges.csv", "--policy", "DriftAlarm"), 1, "must be one of TensorUCB"),
        (("create", "x", "--edges", "products.csv"), 1, "no column"),
        (("status", "--storage", "sqlite:///none.db"), 1, "no store"),
        (("export", "spring", "--out", "edges.csv"), 1, "'edges.csv' is a file"),
        (("create", "x", "--edges", "edges.csv", "--storage", "memory://"), 1, "ends with this command"),
        (("status", "--explain", "000001-x"), 2, "need a campaign"),
        (("status", "--user", "04-member"), 2, "need a campaign"),
        (("status", "spring", "--explain", "000001-x"), 1, "no round"),
        (("ask", "spring", "--product", "tea", "-k", 1, "--deadline", "soon"), 1, "2030-01-31"),
        (("ask", "spring", "--product", "tea", "-k", 1, "--credit", "most"), 1, "credit"),
        (("status", "--storage", "postgresql://nobody@127.0.0.1:1/x"), 1, "out of reach"),
        (("status", "--storage", "redis://x"), 1, "unknown kind of store"),
    ],
)
def test_errors_are_one_line(folder, arguments, code, message):
    make()
    (folder / "latin.txt").write_bytes(b"Zo\xeb\n")
    result = run(*arguments, code=code)
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.output
    if code == 1:
        assert result.stderr.count("\n") == 1


def test_as_a_real_process(folder):
    make()
    line = [*LAUNCH, "ask", "spring", "--product", "tea", "-k", "2", "--json"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["seeds"]) == 2
    wrong = subprocess.run(
        [*LAUNCH, "ask", "none", "--product", "x", "-k", "1"], capture_output=True, text=True, cwd=folder
    )
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert wrong.stderr.startswith("tensorucb: there is no campaign")


def test_status_names_what_is_wrong_and_close_cancels_it(folder):
    make()
    asked = run_json("ask", "spring", "--product", "tea", "-k", 2)
    url = f"sqlite:///{folder}/campaigns.db"
    with load_campaign("spring", storage=url) as campaign:
        close_with_features(campaign, asked["id"], 1e200)
        with pytest.warns(UnlearnableRoundWarning):
            campaign.sync()
        with campaign.store.write() as session:
            session.put_blob(1, "purge-pending-00000001", b"")
        with campaign.store.read() as reader:
            reader.campaigns()
            shown = run("status", "spring").stdout
    assert "Round 1 could not be learned" in " ".join(shown.split())
    assert "not rewritten yet" in shown
    assert list(run_json("status", "spring")["quarantined"]) == [asked["id"]]
    assert run_json("close", "spring", asked["id"], "--cancel")["status"] == "cancelled"
    shown = run("status", "spring").stdout
    assert "could not be learned" not in shown
    assert "not rewritten yet" not in shown


def test_delete_asks_for_the_name_in_a_terminal(folder):
    make()
    refused = run("delete", "spring", code=1, input="spring\n")
    assert "nothing was deleted" in refused.stderr
    assert "--yes" in refused.stderr
    for typed, code in (("summer", 1), ("spring", 0)):
        ours, theirs = pty.openpty()
        command = [*LAUNCH, "delete", "spring"]
        with subprocess.Popen(
            command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as child:
            os.write(ours, f"{typed}\n".encode())
            out, errors = child.communicate(timeout=60)
        os.close(ours)
        os.close(theirs)
        assert child.returncode == code, (out, errors)
        assert "cannot be undone" in errors
    assert "No campaigns yet" in run("status").stdout
    make()
    assert run_json("delete", "spring", "--yes") == {"deleted": "spring"}
    assert "no campaign 'spring'" in run("delete", "spring", "--yes", code=1).stderr
