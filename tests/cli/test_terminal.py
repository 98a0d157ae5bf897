"""Long commands in a real terminal and without one: progress, and Ctrl-C in the middle."""

from __future__ import annotations

import json
import re

import pytest

from campaign.worlds import small_campaign
from cli.commands import run, write_tiny_data
from cli.terminal import Ended, in_pipe, in_terminal

DEMO = ("demo", "--quick", "--rounds", "2", "--runs", "1", "--out", "out")
SMALL = ("--rounds", "2", "--runs", "1", "--out", "out")
LONG = {
    "demo": DEMO,
    "compare": ("compare", "--data", "data", "--validation-rounds", "1", *SMALL),
    "tune": ("tune", "--data", "data", "--policy", "LinUCB", "--rounds", "60", "--k", "3", "--out", "out.toml"),
    "reproduce": ("reproduce", "fig-runtime", "--data", "data", "--quick", *SMALL),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tiny")
    write_tiny_data(directory / "data")
    return directory


def fits(ended: Ended, columns: int) -> bool:
    """Whether what was drawn over stayed on one line, and the lines that stayed are not longer than the terminal.

    Paths and commands to copy stay whole.
    """
    drawn = all(len(line) <= columns and line.isprintable() for line in ended.drawn)
    wrapped = [line for line in ended.lines if "/" not in line and not line.startswith("Next: ")]
    return drawn and all(len(line) <= columns for line in wrapped)


def check_progress(ended: Ended, columns: int) -> None:
    """The command ended well, and its bar was drawn, kept to one line and went away."""
    assert ended.code == 0, ended.text
    assert fits(ended, columns)
    assert any(re.search(r"━+╸? +\d+% \d+:\d\d:\d\d", line) for line in ended.drawn)
    assert not any("━" in line for line in ended.lines)


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        pytest.param(name, columns, marks=[] if (name, columns) == ("demo", 80) else pytest.mark.slow)
        for name in LONG
        for columns in (80, 120)
    ],
)
def test_progress_in_a_terminal(name, columns, data, tmp_path):
    (tmp_path / "data").symlink_to(data / "data")
    check_progress(in_terminal(*LONG[name], columns=columns, cwd=tmp_path), columns)


@pytest.mark.slow
@pytest.mark.parametrize("columns", [80, 120])
def test_other_long_commands_show_their_clock_in_a_terminal(columns, tmp_path):
    made = in_terminal("datasets", "make", "flixster_like", "--scale", "3", "--out", "f", columns=columns, cwd=tmp_path)
    lines = (
        ("datasets", "describe", "f"),
        ("select", "f/edges.parquet", "--uniform", "0.1"),
        ("create", "a", "--edges", "f/edges.parquet"),
        ("ask", "a", "--features", "1,0", "-k", "5", "--objective", "direct"),
        ("export", "a", "--out", "e"),
    )
    clocks = []
    for ended in (made, *(in_terminal(*line, columns=columns, cwd=tmp_path) for line in lines)):
        assert ended.code == 0, ended.text
        assert fits(ended, columns)
        clocks.append(any(re.search(r"\d+:\d\d:\d\d +working", line) for line in ended.drawn))
        assert not any("━" in line for line in ended.lines)
    # On a quick machine one or the other is done before a clock is worth drawing, but not these two.
    made_clock, _, _, created_clock, _, _ = clocks
    assert made_clock
    assert created_clock


def test_json_on_a_pipe_beside_the_bar_on_a_terminal(data, tmp_path):
    (tmp_path / "data").symlink_to(data / "data")
    ended = in_terminal(*LONG["tune"], "--json", columns=120, pipe=True, cwd=tmp_path)
    assert json.loads(ended.stdout)["trials"][0]["policy"] == "LinUCB"
    check_progress(ended, 120)
    assert "".join(ended.lines).strip() == ""


def test_without_a_terminal_progress_is_plain_lines_and_stdout_is_json_alone(tmp_path):
    done = in_pipe(*DEMO, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["results"][0]["policy"] == "TensorUCB"
    assert len(document["seeds"]) == 10
    first, *_, last = done.stderr.decode().splitlines()
    assert re.fullmatch(
        r"tensorucb demo: (0 of 5, \d+:\d\d:\d\d: first rounds of TensorUCB|still working, 0:00:10\.)", first
    )
    assert re.fullmatch(r"tensorucb demo: done after \d+:\d\d:\d\d\.", last)
    assert all(line.isprintable() for line in done.stderr.decode().splitlines())


def test_a_dumb_terminal_gets_plain_lines(tmp_path):
    ended = in_terminal("datasets", "make", "sandbox", "--out", "s", env={"TERM": "dumb"}, cwd=tmp_path)
    assert ended.code == 0
    assert "\x1b" not in ended.text


def interrupted(ended: Ended, *words: str) -> None:
    assert ended.code == 130, ended.text
    assert "Traceback" not in ended.text
    assert "Exception" not in ended.text
    told = [line for line in ended.lines if line.startswith("tensorucb: stopped")]
    assert len(told) == 1, ended.text
    said = " ".join(ended.lines)
    assert all(word in said for word in words), said


def test_ctrl_c_in_the_middle(tmp_path):
    ended = in_terminal("demo", "--out", "out", keys=[("%", "\x03")], cwd=tmp_path)
    interrupted(ended, "Run the same command again")
    assert not (tmp_path / "out" / "report.html").exists()


def test_an_early_close_asks_at_a_terminal_and_needs_an_option_in_a_pipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edges.csv").write_text("source,target\nann,bob\nbob,cid\n")
    run("create", "spring", "--edges", "edges.csv", "--window", "14d", "--policy", "HighDegree")
    run("ask", "spring", "-k", "1")
    refused = run("close", "spring", "1", code=1)
    assert "may come for another 14 days" in refused.stderr
    assert "--early" in refused.stderr
    asked = in_terminal("close", "spring", "1", keys=[("[y/N]", "n\n")], cwd=tmp_path)
    assert asked.code == 1
    assert "nothing was closed" in asked.text
    # Somebody who takes a while to answer still sees the question.
    meant = in_terminal("close", "spring", "1", keys=[("[y/N]", "y\n")], delay=3.0, cwd=tmp_path)
    assert meant.code == 0
    assert "Close it now? [y/N]: y" in meant.lines
    assert "is closed" in meant.text


def test_ctrl_c_at_a_question_removes_nobody(tmp_path):
    # Once is enough, even if it comes between the question and the reading of the answer.
    campaign = small_campaign(f"sqlite:///{tmp_path}/campaigns.db")
    ended = in_terminal("forget", "spring", "person-001", keys=[("[y/N]", "\x03")], cwd=tmp_path)
    interrupted(ended, "Run the same command again")
    assert "person-001" in campaign.graph.ids


def test_an_error_is_wrapped_on_a_terminal_and_whole_in_a_pipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small_campaign(f"sqlite:///{tmp_path}/campaigns.db").disconnect()
    line = ("ask", "spring", "--product", "tea", "-k", "3", "--exclude", "nobody")
    said = run(*line, code=1).stderr.splitlines()[-1]
    assert len(said) > 60
    ended = in_terminal(*line, columns=60, cwd=tmp_path)
    assert ended.code == 1
    lines = [text.strip() for text in ended.lines]
    assert max(map(len, lines)) <= 60
    assert said in " ".join(lines)


def test_a_command_to_copy_is_one_line_on_a_narrow_terminal(tmp_path):
    ended = in_terminal("datasets", "make", "shop", "--dirty", "--out", "shop", columns=60, cwd=tmp_path)
    following = [line for line in ended.lines if line.startswith("Next: ")]
    assert len(following) == 1
    assert following[0].endswith("--consent email_optin")


def test_a_table_of_rounds_keeps_its_numbers_whole_in_80_columns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("datasets", "make", "shop", "--dirty", "--out", "shop")
    columns = ("actions.user=buyer", "actions.item=article", "actions.time=bought_on")
    named = [word for column in columns for word in ("--column", column)]
    run("create", "spring", "--data", "shop", *named)
    asked = in_terminal("ask", "spring", "--product", "p0000", "-k", "5", "--strategies", "all", cwd=tmp_path)
    assert sum(bool(re.match(r"\d +u\d", line)) for line in asked.lines) == 5
    assert not any(re.match(r" +\d\.\d\d *$", line) for line in asked.lines)  # a number alone in a line
    run("tell", "spring", "shop/purchases-week1.csv")
    shown = in_terminal("status", "spring", cwd=tmp_path)
    assert shown.code == 0, shown.text
    assert any(re.search(r"\d+\.\d \([\d,]+ to [\d,]+\)", line) for line in shown.lines)


def test_ctrl_c_twice_is_as_quiet_as_once(tmp_path):
    ended = in_terminal("demo", "--out", "out", keys=[("%", "\x03\x03"), ("stopped", "\x03")], cwd=tmp_path)
    interrupted(ended, "Run the same command again")


def test_the_first_command_says_that_it_compiles(tmp_path):
    keys = [("compiling, once", "\x03")]
    env = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    interrupted(in_terminal("demo", "--quick", "--out", "out", keys=keys, env=env, cwd=tmp_path), "start over")


@pytest.mark.slow
def test_ctrl_c_then_the_same_command_goes_on(data, tmp_path):
    (tmp_path / "data").symlink_to(data / "data")
    line = ("compare", "--data", "data", "--rounds", "60", "--runs", "2", "--validation-rounds", "2", "--out", "out")
    interrupted(in_terminal(*line, keys=[("decisions: ", "\x03")], cwd=tmp_path), "finished runs are kept", "--out")
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "runs").glob("*.npz")}
    assert kept
    again = in_terminal(*line, cwd=tmp_path)
    assert again.code == 0
    assert all(path.stat().st_mtime_ns == at for path, at in kept.items())


@pytest.mark.slow
@pytest.mark.parametrize("cold", [False, True])
def test_ctrl_c_in_every_phase(cold, tmp_path):
    """From the first import over compilation to the figures: every 0.3 s, with and without compiled kernels."""
    tries = 0
    for tenths in range(6, 60, 3):
        folder = tmp_path / str(tenths)
        folder.mkdir()
        env = {"NUMBA_CACHE_DIR": str(folder / "cache")} if cold else {}
        ended = in_terminal(
            "demo", "--quick", "--out", "out", keys=[("", "\x03")], delay=tenths / 10, env=env, cwd=folder
        )
        if ended.code == 0 and "Report:" in ended.text:
            break
        interrupted(ended, "again")
        tries += 1
    assert tries >= 5
