"""How a campaign is going, on the command line: a table for 80 columns, lift, expire, report and exports."""

from __future__ import annotations

import csv
import json
import re

import numpy as np
import polars as pl
import pytest

from cli.commands import run, run_json
from cli.terminal import in_terminal
from tensorucb.campaign import create_campaign, load_campaign
from tensorucb.data import make_sandbox
from tensorucb.graph import Graph
from tensorucb.policies import LinUCB

LONG = "a product whose name is far too long for a column of a table in a terminal"
PRODUCTS = {"tea": [1.0, 0.0], LONG: [0.0, 1.0]}
STORAGE = "sqlite:///campaigns.db"


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A campaign of 24 rounds with costs and hold-outs: 22 closed, one cancelled, one open."""
    folder, now = tmp_path_factory.mktemp("played"), [1_700_000_000.0]
    sandbox, rng = make_sandbox(n_users=300, n_edges=900, n_products=2, rng=1), np.random.default_rng(2)
    names = np.array([f"member-{i:03d}" for i in range(300)])
    graph = Graph.from_edges(names[sandbox.graph.sources], names[sandbox.graph.targets], nodes=names)
    with create_campaign(
        "spring",
        graph=graph,
        users=sandbox.users,
        policy=LinUCB(),
        products=PRODUCTS,
        costs=np.ones(300),
        window="3600s",
        storage=f"sqlite:///{folder / 'campaigns.db'}",
        clock=lambda: now[0],
    ) as campaign:
        for number in range(24):
            ask = campaign.ask("tea" if number % 3 else LONG, 8, holdout=0.25)
            followers = np.unique(graph.targets[graph.out_edges(np.sort(graph.rows(list(ask.contacted))))])
            acting = followers[rng.random(followers.size) < 0.3]
            campaign.tell(ask.id, [{"user": names[row], "time": now[0] + 60.0} for row in acting])
            if number == 3:
                campaign.cancel(ask.id)
            elif number < 23:
                campaign.close(ask.id)
            now[0] += 7200.0 if number < 23 else 0.0
    return folder


@pytest.fixture
def folder(played, tmp_path, monkeypatch):
    """A copy of it to work in."""
    (tmp_path / "campaigns.db").write_bytes((played / "campaigns.db").read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_status_fits_80_columns_with_responses_beside_expectation(played):
    ended = in_terminal("status", "spring", cwd=played)
    assert ended.code == 0
    lines = [line.rstrip() for line in ended.lines if line.strip()]
    assert max(map(len, lines)) <= 80
    with load_campaign("spring", storage=f"sqlite:///{played / 'campaigns.db'}") as campaign:
        progress = campaign.progress()
    head = next(i for i, line in enumerate(lines) if line.startswith("Round"))
    assert lines[head].split() == ["Round", "Opened", "Status", "Product", "Users", "Expected", "Responded"]
    for entry in progress.rounds[-20:]:
        row = next(line for line in lines if re.match(rf" *{entry.number}  ", line))
        reach = entry.expected
        assert f"{reach.mean:,.1f} ({reach.low:,.0f} to {reach.high:,.0f})" in row
        sign = {True: "", None: "", False: "+" if entry.responders > reach.high else "-"}[entry.within]
        assert row.split()[-1] == f"{entry.responders}{sign}"
    sums = next(line for line in lines if "22 rounds" in line)
    assert sums.split()[-2:] == [f"{progress.closed.expected:,.1f}", f"{progress.closed.compared:,}"]
    text = " ".join(lines)
    assert f"{progress.reached} different users responded" in text
    assert f"Spend: {progress.spend:,.2f}" in text
    assert f"{100 * progress.lift.low:+.2f} to {100 * progress.lift.high:+.2f}" in text
    assert f"the interval held in {progress.calibration.held} of 22 closed rounds" in text
    assert "Model: up to date" in text
    assert "the sums count 4 earlier ones too" in text


def test_status_in_json_has_everything(folder):
    document = run_json("status", "spring")
    assert len(document["rounds"]) == len(document["progress"]["rounds"]) == 24
    first = document["progress"]["rounds"][0]
    assert {"responders", "responses", "expected", "spend", "within", "held_out"} <= first.keys()
    assert document["progress"]["calibration"]["rounds"] == 22
    assert document["progress"]["lift"] == run_json("lift", "spring")
    assert [group["id"] for group in document["progress"]["products"]] == ["tea", LONG]


def test_lift_says_it_in_words_and_speaks_of_commands(folder):
    found = run_json("lift", "spring")
    said = run("lift", "spring").stdout
    assert f"{100 * found['difference']:+.2f} percentage points" in said
    assert ("may change nothing" in said) == (found["low"] <= 0.0 <= found["high"])
    pl.DataFrame({"source": ["a", "b"], "target": ["b", "c"]}).write_csv("edges.csv")
    run("create", "plain", "--edges", "edges.csv", "--policy", "HighDegree")
    wrong = run("lift", "plain", code=1).stderr
    assert "Open rounds with one, such as 0.2, to measure the lift" in wrong
    assert "ask(" not in wrong
    assert "No rounds yet.\nNext: tensorucb ask plain" in run("status", "plain").stdout
    assert "Lift" not in run("status", "plain").stdout


def test_expire_closes_what_is_due_and_says_which(folder):
    open_id = run_json("status", "spring")["rounds"][-1]["id"]
    said = run("expire", "spring").stdout
    assert f"Closed, since their deadline has passed: {open_id}." in said
    assert "Still open" not in said
    assert run_json("status", "spring")["rounds"][-1]["status"] == "closed"
    assert "No round is due" in run("expire", "spring").stdout
    assert run_json("expire", "spring") == {"closed": [], "open": 0}
    assert "no campaign 'autumn'" in run("expire", "autumn", code=1).stderr


def test_a_webhook_is_set_shown_and_removed(folder):
    said = run("webhook", "spring", "--url", "http://127.0.0.1:9/").stdout
    assert "whsec_" in said
    assert "0 rounds told, 0 to tell" in said
    found = run_json("webhook", "spring")
    assert found["webhook"]["url"] == "http://127.0.0.1:9/"
    assert found["secret"] is None
    assert "Nobody is told" in run("webhook", "spring", "--remove").stdout
    assert "--secret needs --url" in run("webhook", "spring", "--secret", "x", code=2).stderr
    assert "url must be" in run("webhook", "spring", "--url", "shop", code=1).stderr
    assert "not both" in run("webhook", "spring", "--url", "https://shop.example/", "--remove", code=2).stderr


def test_the_report_is_one_file(folder):
    assert run("report", "spring", "--out", "pages/spring.html").stdout == "Report: pages/spring.html\n"
    page = (folder / "pages" / "spring.html").read_text(encoding="utf-8")
    assert "How is spring going?" in page
    assert LONG in page
    assert [path.name for path in (folder / "pages").iterdir()] == ["spring.html"]
    assert "is a directory; name a file" in run("report", "spring", "--out", "pages", code=1).stderr


def test_an_export_for_a_spreadsheet(folder):
    files = run_json("export", "spring", "--out", "tables", "--csv")["files"]
    assert all(path.endswith(".csv") for path in files[:-1])
    with (folder / "tables" / "credited_edges.csv").open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["round", "source", "target", "product", "strategy", "credit", "time"]
    manifest = json.loads((folder / "tables" / "manifest.json").read_text())
    assert {line["name"]: line["rows"] for line in manifest["files"]}["credited_edges.csv"] == len(rows) > 22


def test_status_splits_users_by_a_column_and_says_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    users = [f"member-{i:02d}" for i in range(20)]
    edges = [(users[i], users[(i + step) % 20]) for i in range(20) for step in (1, 2, 5)]
    pl.DataFrame(edges, schema=["source", "target"], orient="row").write_csv("edges.csv")
    pl.DataFrame({"user": users, "country": ["France", "Spain"] * 10}).write_csv("users.csv")
    pl.DataFrame({"product": ["p1", "p2"], "title": ["Green tea", "Soap"]}).write_csv("products.csv")
    tables = [word for name in ("edges", "users", "products") for word in (f"--{name}", f"{name}.csv")]
    run("create", "spring", *tables, "--column", "products.name=title", "--policy", "HighDegree")
    asked = run_json("ask", "spring", "--product", "p1", "-k", "6")
    run("close", "spring", str(asked["number"]))
    printed = run("status", "spring", "--segment", "country").stdout
    assert "Green tea (p1)" in printed
    assert "France *" in printed
    assert "too few to tell" in printed
    split = run_json("status", "spring", "--segment", "country")["progress"]
    assert sum(entry["contacts"] for entry in split["segments"]) == 6
    run("report", "spring", "--segment", "country")
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "By country" in page
    assert "France: too few to tell" in page
    assert "Green tea" in page
