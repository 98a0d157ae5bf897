"""A shop's own files through tell and import-history: other names, guests, purchases of several rounds."""

from __future__ import annotations

import csv

import pytest

from cli.commands import run, run_json
from cli.terminal import in_terminal

NAMES = ("--column", "user=buyer", "--column", "product=sku", "--column", "time=bought_at")


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A campaign with a round of tea (ann is chosen) and one of soap (bob is), and what was bought since."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edges.csv").write_text("source,target\nann,bob\nann,cid\nbob,cid\ncid,dan\ndan,ann\n")
    (tmp_path / "users.csv").write_text("user,age\nann,31\nbob,24\ncid,45\ndan,38\n")
    (tmp_path / "products.csv").write_text("product,hot,clean\ntea,1,0\nsoap,0,1\n")
    files = ("--edges", "edges.csv", "--users", "users.csv", "--products", "products.csv")
    run("create", "summer", *files, "--policy", "LinUCB", "--window", "7d")
    opened = [
        run_json("ask", "summer", "--product", product, "-k", 1, "--candidates", who)["opened"]
        for product, who in (("tea", "ann"), ("soap", "bob"))
    ]
    later = opened[1] + 60
    bought = [
        ("bob", "tea", later),
        ("cid", "soap", later),
        ("guest-17", "tea", later),
        ("dan", "tea", later),  # follows nobody who was chosen
        ("guest-18", "lamp", later),
        ("ann", "tea", 5),
    ]
    write(tmp_path / "log.csv", bought)
    write(tmp_path / "lamps.csv", [("bob", "lamp", 7)])
    return tmp_path


def write(path, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("buyer", "sku", "bought_at"), *rows])


def test_a_log_is_told_to_all_its_rounds(shop):
    report = run_json("tell", "summer", "log.csv", *NAMES)
    assert [report[name] for name in ("accepted", "unknown", "other", "late")] == [2, 1, 3, 0]
    assert [entry["accepted"] for entry in report["rounds"].values()] == [1, 1]
    again = run_json("tell", "summer", "log.csv", *NAMES)
    assert (again["accepted"], again["duplicates"]) == (0, 2)
    # Told to one round, what was bought of other products does not count.
    assert "2 left out: of another product than " in run("tell", "summer", "1", "log.csv", *NAMES).stdout


def test_a_log_on_stdin(shop):
    rows = '{"user": "bob", "item": "tea", "timestamp": 9999999999}\n{"user": "bob", "round": 1, "timestamp": 7}\n'
    report = run_json("tell", "summer", "-", input=rows)
    assert (report["accepted"], report["other"], report["outside_window"]) == (1, 1, 1)


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ("{", "line 2 of {} is no JSON object; each line is one row."),
        ("[1]", "line 2 of {} is no JSON object; each line is one row."),
        ('{"user": "\\ud800"}', "no valid Unicode"),
        (
            '\n{"user": 7, "item": "tea", "timestamp": "soon"}',
            "{}: 1 of 2 rows cannot be used: timestamp is not",
        ),
    ],
)
def test_what_is_wrong_on_stdin_is_said_as_of_a_file(shop, second, said):
    rows = f'{{"user": "bob", "item": "tea", "timestamp": 9999999999}}\n{second}\n'
    (shop / "log.ndjson").write_text(rows)
    on_stdin = run("tell", "summer", "-", "--strict", input=rows, code=1).stderr
    assert said.format("stdin") in on_stdin
    assert run("tell", "summer", "log.ndjson", "--strict", code=1).stderr == on_stdin.replace("stdin", "log.ndjson")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (
            ("log.csv", *NAMES, "--strict"),
            1,
            "log.csv: 1 of 6 rows cannot be used: a user who is not in the network (line 4: 'guest-17').",
        ),
        (("log.csv", *NAMES, "--strict"), 1, "or leave them out: without --strict."),
        (("log.csv", *NAMES, "--max-left-out", 0.1), 1, "or allow a larger share with --max-left-out 1.0."),
        (("1", "lamps.csv", *NAMES), 1, "Tell them without naming a round"),
        (("1", "log.csv"), 1, "got ['bought_at', 'buyer', 'sku']. Say which is which with --column user=NAME."),
        (("1", "log.csv", *NAMES[:2]), 1, "Say which column it is with --column time=NAME."),
        (
            ("1", "log.csv", "--column", "user=who"),
            1,
            "log.csv has no column who; its columns are buyer, sku, bought_at. Say which column",
        ),
        (("1", "log.csv", *NAMES, "--max-left-out", 2), 1, "--max-left-out must be a number in [0, 1]; got 2.0."),
        (("1", "log.csv", "--column", "buyer"), 2, "--column must look like user=buyer; got 'buyer'."),
        (("1", "log.csv", "--column", "user=a", "--column", "user=b"), 2, "names a field twice"),
        (("1", "2", "log.csv"), 2, "give a ROUND and a FILE, or a FILE alone"),
    ],
)
def test_what_is_wrong_is_said_in_the_words_of_the_command(shop, arguments, code, said):
    before = run_json("status", "summer")
    stderr = run("tell", "summer", *arguments, code=code).stderr
    assert said in stderr
    assert not any(word in stderr for word in ("max_left_out=", "columns=", "add_users", "import_history"))
    assert run_json("status", "summer") == before


def test_a_log_is_imported_as_history(shop):
    options = NAMES
    write(
        shop / "past.csv",
        [
            ("ann", "tea", "2025-01-01"),
            ("bob", "tea", "2025-01-03"),
            ("guest", "tea", "2025-01-04"),
            ("cid", "hat", "2025-01-04"),
        ],
    )
    assert "without --strict" in run("import-history", "summer", "past.csv", *NAMES, "--strict", code=1).stderr
    report = run_json("import-history", "summer", "past.csv", *options, "--window", "1d")
    guest = report.pop("left_out")[0]
    assert (guest["reason"], guest["first_lines"]) == ("a user who is not in the network", [4])
    counts = {"rounds": 1, "responses": 3, "known_rounds": 0, "unknown": 1, "other": 1, "used": 0}
    assert report == {**counts, "remarks": []}
    said = run("import-history", "summer", "past.csv", *options, "--window", "1d").stdout
    assert "0 rounds with 0 responses imported, 1 round known before." in said
    assert "1 row left out: the product is not in the catalogue." in said
    grown = run("import-history", "summer", "past.csv", *options, "--window", "7d", code=1).stderr
    assert (
        "purchases of product 'tea' from 2025-01-01 00:00:00 to 2025-01-03 00:00:00 UTC were imported before" in grown
    )


@pytest.mark.slow
def test_what_is_told_fits_a_terminal(shop):
    told = in_terminal("tell", "summer", "log.csv", *NAMES, cwd=shop)
    assert told.code == 0
    lines = [line.strip() for line in told.lines if line.strip()]
    assert lines[0] == "2 accepted (0 late), 0 told before, 0 contradictions."
    assert lines[1].split() == ["Round", "Accepted", "Late", "Told", "before"]
    assert lines[-2:] == [
        "3 rows of no round are left out.",
        "1 left out: a user who is not in the network (line 4: 'guest-17')",
    ]
    assert all(len(line) <= 80 for line in told.lines)
    usage = in_terminal("tell", "--help", cwd=shop)
    assert "[ROUND] FILE" in usage.text
    assert all(len(line) <= 80 for line in usage.lines)
