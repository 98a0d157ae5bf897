"""From a follower list, a purchase log and a product table to a closed round, a report and an export, by commands.

The commands run in a terminal of 80 columns. No Python and no file by hand: the generated shop stands for the files
that a team has, and for the purchases that its shop exports later.
"""

from __future__ import annotations

import ast
from pathlib import Path

import polars as pl
import pytest

from cli.terminal import in_terminal

COMMANDS = (
    "datasets make shop --out shop",
    "create spring --data shop --window 7d",
    "ask spring --product p0055 -k 10 --holdout 0.2",
    "tell spring shop/purchases-later.csv --unknown skip",
    "close spring 1",
    "status spring",
    "lift spring",
    "report spring --out spring.html",
    "export spring --out exported --csv",
)


@pytest.fixture(scope="module")
def walk(tmp_path_factory):
    """The directory, and what each command left on the terminal."""
    directory = tmp_path_factory.mktemp("walk")
    printed = {}
    for line in COMMANDS:
        ended = in_terminal(*line.split(), columns=80, cwd=directory)
        assert ended.code == 0, f"{line}\n{ended.text}"
        assert all(len(shown) <= 80 for shown in ended.lines if str(directory) not in shown), ended.text
        printed[line.split()[0]] = "\n".join(ended.lines)
    return directory, printed


def test_at_most_ten_commands(walk):
    assert len(COMMANDS) <= 10
    assert "category (category), tags (tags), price (number)" in " ".join(walk[1]["create"].split())


def test_the_product_that_nobody_bought_gets_users_and_an_expectation(walk):
    assert "Expected reach" in walk[1]["ask"]
    assert "p0055" not in pl.read_csv(walk[0] / "shop" / "purchases.csv")["product"].to_list()


def test_status_report_and_export_agree(walk):
    directory, printed = walk
    rounds = pl.read_csv(directory / "exported" / "rounds.csv")
    assert rounds["status"].to_list() == ["closed"]
    events = pl.read_csv(directory / "exported" / "node_events.csv")
    credited = pl.read_csv(directory / "exported" / "credited_edges.csv")
    seeds = pl.read_csv(directory / "exported" / "seeds.csv")
    contacted = set(seeds.filter(pl.col("role") == "contacted")["user"].to_list())
    responders = len(set(credited["target"].to_list()) - contacted)  # those contacted do not count
    assert 0 < responders <= events["user"].n_unique()
    assert f" {responders} " in printed["status"].replace("\n", " ")
    page = (directory / "spring.html").read_text(encoding="utf-8")
    assert "</html>" in page
    assert f">{responders}<" in page


def test_the_same_takes_at_most_fifteen_lines_of_python():
    # tests/docs/test_pages.py runs the page's blocks as they are printed.
    page = Path(__file__).resolve().parents[2] / "docs" / "howto" / "own-data.md"
    script = page.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    calls = {node.attr for node in ast.walk(ast.parse(script)) if isinstance(node, ast.Attribute)}
    assert {"create_campaign", "ask", "tell_log", "close", "progress", "export"} <= calls
    assert len([line for line in script.splitlines() if line]) <= 15
