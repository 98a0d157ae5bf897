"""What people see of ids that hold anything: in a terminal, in a pipe, under an ASCII locale."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from cli.commands import invoke
from cli.commands import run as run_here
from cli.terminal import ASCII, in_pipe, in_terminal, without_progress

# private: how each id must look, wherever it stands
from tensorucb.cli._output import emit_json, shown

LONG = "x" * 200
IDS = [
    "[vip] ann",
    "[/b]",
    "\x1b[31mred\x1b[0m",
    "title\x1b]0;evil\x07",
    "wipe\x9b2J",
    "rtl\u202egnp.exe",
    "line\nbreak",
    "cr\rback",
    "tab\tstop",
    "Zoë",
    "名前",
    f"{LONG}a",
    f"{LONG}b",
    "bob",
    "bob ",
    " bob",
    "back\\x1b",
    "back\x1b",
    "back\\\x1b",
    "nbsp\xa0",
    "=1+1",
]
ESCAPES = re.compile(r"\x1b\[(?:[012]m|2K|1A|\?25[lh])")


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    pairs = [(IDS[i], IDS[(i + j) % len(IDS)]) for i in range(len(IDS)) for j in (1, 2, 5)]
    frame = pl.DataFrame(pairs, schema=["source", "target"], orient="row")
    frame.write_parquet("edges.parquet")
    pl.DataFrame({"product": ["[red]tea\x1b[31m"], "x": [1.0]}).write_parquet("products.parquet")
    frame.head(3).with_columns(outcome=1).write_parquet("yes.parquet")
    frame.head(3).with_columns(outcome=0).write_parquet("no.parquet")
    return tmp_path


def whole_life(run, name="a.b"):
    """What each command says; ``run(*arguments)`` gives text."""
    everybody = ("-k", str(len(IDS)))
    said = {"select": run("select", "edges.parquet", "--objective", "direct", *everybody)}
    make = ("--edges", "edges.parquet", "--products", "products.parquet", "--policy", "HighDegree")
    said["create"] = run("create", name, *make, "--objective", "direct")
    said["ask"] = run("ask", name, "--product", "[red]tea\x1b[31m", *everybody, "--request-id", "r")
    found = re.search(r"Round (\S+)", said["ask"])
    assert found is not None
    said["status"] = run("status", name)
    said["list"] = run("status")
    said["explain"] = run("status", name, "--explain", found[1])
    said["one"] = run("status", name, "--explain", found[1], "--user", "\x1b[31mred\x1b[0m")
    run("tell", name, found[1], "yes.parquet")
    said["tell"] = run("tell", name, found[1], "no.parquet")
    said["close"] = run("close", name, found[1])
    said["export"] = run("export", name, "--out", "o\x1b[31m")
    said["forget"] = run("forget", name, "title\x1b]0;evil\x07", "--yes")
    said["list json"] = run("status", "--json")
    return said


def harmless(text: str) -> bool:
    return all(c.isprintable() or c == "\n" for c in ESCAPES.sub("", text).replace("\r", ""))


def test_different_values_never_look_alike():
    looks = [shown(value) for value in IDS]
    assert len(set(looks)) == len(looks)
    assert all(look.isprintable() and look == look.strip() for look in looks)
    assert shown("[vip] ann") == "[vip] ann"
    assert shown("DOMAIN\\user") == "DOMAIN\\user"
    assert shown("back\\x1b") == "back\\\\x1b"
    assert shown(17) == "17"


def test_in_one_process_every_id_stands_whole(folder):
    def run(*arguments):
        return run_here(*arguments).output

    said = whole_life(run)
    assert all(harmless(text) for text in said.values())
    for name in ("select", "ask"):
        assert all(shown(value) in said[name] for value in IDS)
    assert all(repr(value) in said["explain"] for value in IDS)
    assert shown("[red]tea\x1b[31m") in said["status"]
    assert f"{shown(IDS[0])} -> {shown(IDS[1])}: 0.0 came, 1.0 stands" in said["tell"]
    assert json.loads(said["list json"])["campaigns"][0]["name"] == "a.b"
    error = invoke("ask", "a.b", "--product", "\x1b[31m\x9b\n[b]", "-k", "1")
    assert error.exit_code == 1
    assert harmless(error.stderr)
    assert error.stderr.count("\n") == 1


def test_json_is_exact_and_harmless(capsys, monkeypatch):
    for value in ({"id": IDS}, {"id": "plain é"}, {"id": "\x7f\x9b\u202e\ud800"}):
        emit_json(value)
        text = capsys.readouterr().out
        assert json.loads(text) == value
        assert harmless(text)
    monkeypatch.setattr(sys, "stdout", open("/dev/null", "w", encoding="ascii"))  # noqa: SIM115
    emit_json({"id": "Zoë 名前"})
    sys.stdout.close()


def in_mode(mode: str, folder: Path):
    def run(*arguments):
        if mode.isdigit():
            ended = in_terminal(*arguments, columns=int(mode), cwd=folder)
            code, text = ended.code, ended.text.replace("\r\n", "\n")
        else:
            done = in_pipe(*arguments, cwd=folder, env=ASCII if mode == "ascii" else {})
            code, text = done.returncode, (done.stdout + done.stderr).decode("ascii" if mode == "ascii" else "utf-8")
            text = without_progress(text)
        assert code == 0, text
        assert "Traceback" not in text
        return text

    return run


def check(mode: str, said: dict[str, str]) -> None:
    assert all(harmless(text) for text in said.values())
    for name in {"select", "ask"} & set(said):
        if mode.isdigit():
            # Wrapped: no character is lost and no line is longer than the terminal.
            assert said[name].count("x") >= 2 * len(LONG)
            lines = said[name].split("\x1b[2K")[-1].splitlines()
            assert max(len(ESCAPES.sub("", line)) for line in lines) <= int(mode)
            assert "[vip] ann" in said[name]
            assert "\u2026" not in said[name]
        else:
            looks = [shown(value) for value in IDS]
            looks = [look.encode("ascii", "backslashreplace").decode() for look in looks] if mode == "ascii" else looks
            assert all(look in said[name] for look in looks)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["80", "120", "pipe", "ascii"])
def test_every_command_as_a_process(mode, folder):
    run = in_mode(mode, folder)
    said = whole_life(run)
    run("datasets", "make", "sandbox", "--scale", "0.2", "--csv", "--out", "d [b]\x1b[31m")
    said["datasets"] = run("datasets", "describe", "d [b]\x1b[31m")
    check(mode, said)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["80", "120", "ascii"])
def test_the_demo_as_a_process(mode, folder):
    text = in_mode(mode, folder)("demo", "--quick", "--rounds", "2", "--runs", "1", "--out", "d [b]\x1b[31m")
    assert harmless(text)
    assert "d [b]\\x1b[31m/report.html" in text


@pytest.mark.parametrize("mode", ["80", "ascii"])
def test_select_as_a_process(mode, folder):
    check(mode, {"select": in_mode(mode, folder)("select", "edges.parquet", "-k", str(len(IDS)))})


def test_ids_are_also_typed_under_an_ascii_locale(folder):
    told = in_mode("ascii", folder)("select", "edges.parquet", "-k", str(len(IDS) - 1), "--exclude", "Zoë", "--json")
    assert set(IDS) - set(json.loads(told)["seeds"]) == {"Zoë"}


@pytest.mark.parametrize("redirection", [">/dev/full", ">&-"])
def test_output_that_cannot_be_written_is_one_line(redirection, folder):
    line = f"{sys.executable} -m tensorucb select edges.parquet -k 3 {redirection}"
    done = subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == (1 if "full" in redirection else 0)
    assert without_progress(done.stderr) == ("tensorucb: No space left on device.\n" if "full" in redirection else "")


def test_help_that_cannot_be_written_is_one_line():
    line = f"{sys.executable} -m tensorucb --help >/dev/full"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (1, "tensorucb: No space left on device.\n")


def test_a_reader_that_goes_away_leaves_no_traceback(folder):
    line = f"{sys.executable} -m tensorucb select edges.parquet -k 21 --json | head -c 5"
    done = subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True, timeout=60)
    assert (done.stdout, without_progress(done.stderr)) == ('{\n  "', "")
