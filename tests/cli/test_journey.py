"""A marketer's week: from dirty files to the second round, the lift and a report, in ten commands and without glue.

The commands are those of the page, each a process in a terminal of 80 columns. What they say is compared with the files
themselves, which are read here by nothing but the csv module, and between all doors.
"""

from __future__ import annotations

import ast
import csv
import html
import re
import shlex
from pathlib import Path

import polars as pl
import pytest

from cli.commands import run, run_json
from cli.terminal import in_terminal
from service.serving import serving
from tensorucb import load_campaign
from tensorucb.client import Client
from tensorucb.data import make_shop

HOWTO = Path(__file__).resolve().parents[2] / "docs" / "howto"
PAGE = (HOWTO / "marketers-week.md").read_text(encoding="utf-8")
PRODUCT = "p0045"


def commands() -> list[list[str]]:
    """The commands of the page, as a shell would split them."""
    blocks = "\n".join(re.findall(r"^```sh\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE))
    lines = blocks.replace("\\\n", " ").splitlines()
    return [shlex.split(line)[1:] for line in lines if line.startswith("tensorucb ")]


@pytest.fixture(scope="module")
def week(tmp_path_factory):
    """The directory, and what each command left on the terminal, in order."""
    directory = tmp_path_factory.mktemp("week")
    printed = []
    for words in commands():
        ended = in_terminal(*words, columns=80, cwd=directory)
        assert ended.code == 0, f"{words}\n{ended.text}"
        # Paths and commands to copy stay whole.
        wrapped = [line for line in ended.lines if str(directory) not in line and not line.startswith("Next: ")]
        assert all(len(line) <= 80 for line in wrapped), ended.text
        printed.append(" ".join("\n".join(ended.lines).split()))
    return directory, printed


@pytest.fixture
def campaign(week, monkeypatch):
    monkeypatch.chdir(week[0])
    with load_campaign("spring") as campaign:
        yield campaign


def rows_of(path, separator=";"):
    """The rows of a file that have as many fields as its header."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        names, *rows = csv.reader(file, delimiter=separator)
    return [dict(zip(names, row, strict=True)) for row in rows if len(row) == len(names)]


def orders(shop, file):
    """Who bought the product on which day, each once, by the shop's export."""
    rows = [row for row in rows_of(shop / file) if row["article"] == PRODUCT]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", row["bought_on"]) for row in rows)
    return {(row["buyer"], row["bought_on"]) for row in rows}


def test_ten_commands():
    words = [each[0] for each in commands()]
    assert len(words) == 10
    assert words == ["datasets", "create", "opt-out", "ask", "tell", "close", "tell", "ask", "lift", "report"]


def test_what_is_left_out_is_counted_with_its_lines(week):
    directory, (_, created, opted, *_) = week
    shop = directory / "shop"
    for said in (
        "For example, u00000 influences u00093.",
        "followers.csv: 5,004 rows, 5,000 kept",
        "1 left out: wrong number of fields (line 1671: 'u00001')",
        "1 left out: Followee is empty (line 4173)",
        "1 left out: a link from a user to itself (line 2505)",
        "1 left out: a repeated link (line 3339)",
        "begins with a byte order mark, which is skipped fields are separated by semicolons",
        "1 left out: buyer is empty (line 481)",
        "(lines 721, 961: '2026-02-31', 'soon')",
        "1 left out: a user without a link (line 1201)",
        "products.csv: 63 rows, 60 kept 1 left out: sku is empty",
        "price is read as amounts: '€22.26' is 22.26",
        "users.csv: 402 rows, 401 kept",
        "age has 4 cells such as 'n/a', read as empty",
        "strategies.csv: 2 rows, 2 kept cost is read as amounts: '€0.10' is 0.1",
        "Columns used: city (category), age (number).",
    ):
        assert said in created, said
    lines = (shop / "purchases.csv").read_text(encoding="utf-8-sig").splitlines()
    assert "2026-02-31" in lines[720]
    assert "soon" in lines[960]
    numbers = re.search(r"purchases.csv: ([\d,]+) rows, ([\d,]+) kept", created).groups()
    read, kept = (int(number.replace(",", "")) for number in numbers)
    assert read == sum(bool(line) for line in lines) - 1
    assert kept == make_shop().purchases.height
    assert opted.startswith("12 users opted out for this campaign, and 1 who is no user, kept in case they join;")


def test_nobody_is_asked_who_said_no_or_never_yes(week, campaign):
    shop = week[0] / "shop"
    consent = {row["customer_id"]: row["email_optin"] for row in rows_of(shop / "users.csv", ",")}
    silent = {user for user, answer in consent.items() if answer not in ("yes", "Yes", "TRUE", "1")}
    gone = {row["customer_id"] for row in rows_of(shop / "optouts.csv")}
    asked = {user for ask in campaign.rounds() for user in (*ask.seeds, *ask.held_out)}
    assert len(asked) >= 30
    assert not asked & (silent | gone)
    best = run_json("preview", "spring", "--product", PRODUCT, "-k", 1, "--strategies", "all")["seeds"][0]
    for user, reason in ((min(gone - {"u99998"}), "has opted out"), (min(silent - gone), "has given no consent")):
        said = run("ask", "spring", "--product", PRODUCT, "--strategies", "all", "--users", user, code=1).stderr
        assert f"the list in --users names '{user}', who {reason}." in said
        assert run("status", "spring", "--user", user).stdout == f"{user} {reason}.\n"
    assert run("status", "spring", "--user", best).stdout == f"{best} may be contacted now.\n"


def test_late_and_repeated_orders_change_what_they_should(week, campaign):
    directory, (_, _, _, _, first_told, _, later_told, *_) = week
    shop = directory / "shop"
    follows = {(row["Follower"], row["Followee"]) for row in rows_of(shop / "followers.csv")}
    first = campaign.rounds()[0]
    chosen = {*first.seeds, *first.held_out}
    counting = chosen | {fan for fan, leader in follows if leader in chosen}
    soon, later = ({each for each in orders(shop, f"purchases-week{n}.csv") if each[0] in counting} for n in (1, 2))
    assert 0 < len(soon) < len(later)
    assert f"{len(soon)} accepted (0 late), 0 told before, 0 contradictions." in first_told
    new = len(later - soon)
    assert f"{new} accepted ({new} late), {len(soon)} told before, 0 contradictions." in later_told
    assert "(Europe/Lisbon), also the day of the contact" in first_told
    contacted = set(first.contacted)
    responders = {user for user, _ in later if any((user, leader) in follows for leader in contacted)} - contacted
    assert campaign.progress().rounds[0].responders == len(responders) > 0
    # The rows of the file are all accounted for.
    left = [int(number) for number in re.findall(r"(\d+) (?:left out|rows of no round)", first_told.replace(",", ""))]
    lines = (shop / "purchases-week1.csv").read_text(encoding="utf-8-sig").splitlines()
    assert len(soon) + sum(left) == sum(bool(line) for line in lines) - 1


def test_the_numbers_agree_at_every_door(week, campaign):
    directory, (_, _, _, first_asked, _, _, _, second_asked, lift, _) = week
    progress = campaign.progress()
    status = " ".join(run("status", "spring").stdout.split())
    page = (directory / "report.html").read_text(encoding="utf-8")
    page = " ".join(html.unescape(re.sub(r"<[^>]+>", " ", re.sub(r"<style.*?</style>", "", page, flags=re.S))).split())
    for asked, entry in zip((first_asked, second_asked), progress.rounds, strict=True):
        mean, low, high = (
            f"{number:,.{places}f}" for number, places in zip(_parts(entry.expected), (1, 0, 0), strict=True)
        )
        assert f"Expected reach {mean} users, 90% between {low} and {high} " in asked
        assert f"{entry.contacted} {mean} ({low} to {high}) {entry.responders}" in status
        assert f"{entry.number} {entry.responders} {mean} {low} – {high} {entry.status} {entry.contacted}" in page
        assert f"Contacting them costs {entry.spend:.2f}." in asked
    spend = sum(entry.spend for entry in progress.rounds)
    assert f"Spend: {spend:.2f} (" in status
    assert f"{spend:.2f} spent on contacts" in page
    revenue = f"{progress.revenue.closed:,.2f}"
    price = {row["sku"]: row["price"] for row in rows_of(directory / "shop" / "products.csv", ",")}[PRODUCT]
    assert progress.revenue.closed == pytest.approx(progress.rounds[0].responders * float(price.removeprefix("€")))
    assert f"Revenue: {revenue} in closed rounds" in status
    assert f"{revenue} revenue of closed rounds" in page
    assert campaign.lift().text in lift
    assert campaign.lift().text in status
    assert campaign.lift().text[1:] in page
    with serving(campaign.store.url) as url, Client(url) as client:
        remote = client.campaign("spring")
        assert remote.progress() == progress
        assert remote.lift() == campaign.lift()
        assert remote.status() == campaign.status()
        assert [ask.reach for ask in remote.rounds()] == [ask.reach for ask in campaign.rounds()]


def _parts(expected):
    return expected.mean, expected.low, expected.high


def test_the_plan_assumes_what_the_round_expects(week, campaign):
    """Before enough has come, followers are assumed to respond as often as the forecast says."""
    plan = campaign.plan_lift(PRODUCT, 20, holdout=0.3, rounds=10)
    preview = campaign.preview(PRODUCT, 20, strategies="all")
    graph = campaign.graph
    seeds = graph.rows(list(preview.seeds))
    audience = set(graph.targets[graph.out_edges(seeds)].tolist()) - set(seeds.tolist())
    assert plan.rate == pytest.approx(preview.reach.mean / len(audience))


def test_export_agrees(week, campaign, tmp_path):
    run("export", "spring", "--out", tmp_path, "--csv")
    assert pl.read_csv(tmp_path / "rounds.csv")["status"].to_list() == ["closed", "open"]
    seeds = pl.read_csv(tmp_path / "seeds.csv").filter(pl.col("role") == "contacted")
    first = campaign.rounds()[0]
    contacted = set(first.contacted)
    assert contacted <= set(seeds["user"].to_list())
    credited = pl.read_csv(tmp_path / "credited_edges.csv")
    responders = set(credited["target"].to_list()) - contacted  # those contacted do not count
    assert len(responders) == campaign.progress().rounds[0].responders


@pytest.mark.parametrize(("page", "most"), [("marketers-week.md", 12), ("own-data.md", 15)])
def test_the_same_takes_a_dozen_lines_of_python(page, most):
    # tests/docs/test_pages.py runs the page's blocks as they are printed.
    script = (HOWTO / page).read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    calls = {node.attr for node in ast.walk(ast.parse(script)) if isinstance(node, ast.Attribute)}
    assert {"create_campaign", "ask", "tell_log", "close", "progress"} <= calls
    assert len([line for line in script.splitlines() if line]) <= most
