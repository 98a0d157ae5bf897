from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys

import pytest

from cli.commands import command_names, write_tiny_data
from cli.commands import run as run_here
from tensorucb import __version__
from tensorucb.errors import InputError

HEAVY = ("numpy", "numba", "scipy", "altair", "polars", "sklearn", "sqlalchemy", "rich")
LAUNCH = [sys.executable, "-m", "tensorucb"]
COMMANDS = command_names()


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*LAUNCH, *args], capture_output=True, text=True, timeout=120)


def heavy_modules(code: str) -> list[str]:
    """What is loaded of the heavy modules after ``code``, in a new Python."""
    told = f"import sys\n{code}\nprint([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stderr.replace("'", '"'))


def test_import_loads_nothing_heavy():
    assert heavy_modules("import tensorucb") == []


def test_no_help_loads_anything_heavy():
    lines = [["--help"], [], *([name, "--help"] for name in COMMANDS), ["datasets", "make", "--help"]]
    code = (
        "from tensorucb.cli import main\n"
        f"for line in {lines!r}:\n    try:\n        main(line)\n"
        "    except SystemExit as stop:\n        assert not stop.code"
    )
    assert heavy_modules(code) == []


def test_a_process_ends_in_order_though_at_once():
    """Threads are waited for, what was registered for the end is called, and everything is written."""
    waiting = "threading.Thread(target=lambda: (threading.main_thread().join(), print('thread'))).start()"
    for begun in ("", waiting):
        code = (
            f"import atexit, threading\nfrom tensorucb.cli import main\natexit.register(print, 'end')\n{begun}\nmain()"
        )
        done = subprocess.run([sys.executable, "-c", code, "--version"], capture_output=True, text=True, timeout=60)
        said = [f"tensorucb {__version__}", *(["thread"] if begun else []), "end"]
        assert (done.returncode, done.stdout.split("\n")[:-1], done.stderr) == (0, said, "")


def test_python_m_is_the_command():
    done = run("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: tensorucb [OPTIONS] COMMAND")
    listed = " ".join(done.stdout.split())
    for name in ("demo", "select", "create", "ask", "tell", "close", "status", "serve"):
        summary = run(name, "--help").stdout.split("\n\n")[1]
        assert f" {name} {' '.join(summary.split())}" in listed
    assert run("--version").stdout.startswith("tensorucb ")


def test_help_prints_under_an_ascii_locale():
    env = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    for name in ("ask", "reproduce"):
        done = subprocess.run([*LAUNCH, name, "--help"], capture_output=True, env=env, timeout=60)
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.isascii()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_loads_and_has_help(name):
    assert run_here(name, "--help").stdout.startswith(f"Usage: tensorucb {name} ")


def test_help_speaks_of_numbers_and_files_not_of_python():
    for line in ([name] for name in COMMANDS):
        shown = run_here(*line, "--help").stdout
        assert not re.search(r"<(int|float|str|path|list)|range>|\d{10}", shown), shown


def test_the_help_of_a_group_has_whole_lines():
    assert "the forms that can be read." in " ".join(run_here("datasets", "--help").stdout.split())


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["ask", "spring", "-k", "ten"], "'--k' / '-k': it must be a whole number."),
        (["select", "edges.csv", "--uniform", "2"], "'--uniform': it must be less than or equal to 1"),
        (["ask", "spring", "--cooldown", "soon"], "a text such as '7d', '12h' or '30m'; got 'soon'."),
        (["demo", "--rounds", "0"], "'--rounds': it must be a whole number from 1 to 1,000,000,000."),
        (["reproduce", "figures"], "'target': 'figures' is not one of"),
    ],
)
def test_a_wrong_value_is_told_in_plain_words(args, said):
    assert said in run_here(*args, code=2).stderr


def test_version():
    assert run_here("--version").stdout.startswith("tensorucb ")


@pytest.mark.parametrize("args", [["nonsense"], ["demo", "--rounds", "x"], ["demo", "--rounds", "0"], ["reproduce"]])
def test_wrong_use_exits_with_2(args):
    assert run_here(*args, code=2).stdout == ""


def test_an_error_is_one_sentence_on_stderr(monkeypatch):
    def fail(*args: object, **options: object) -> None:
        raise InputError("the moon is full; wait.")

    monkeypatch.setattr("tensorucb.cli.demo.demo_environment", fail)
    ended = run_here("demo", code=1)
    assert (ended.stdout, ended.stderr) == ("", "tensorucb: the moon is full; wait.\n")


@pytest.mark.parametrize(
    "args",
    [
        ["demo", "--quick"],
        ["reproduce", "table-network", "--synthetic", "digg"],
        ["compare", "--synthetic", "digg"],
        ["tune", "--data", "absent"],
        ["datasets", "make", "sandbox"],
    ],
)
def test_out_that_cannot_be_written_is_refused_before_anything_is_computed(args, tmp_path):
    (tmp_path / "file").write_text("kept")
    error = run_here(*args, "--out", tmp_path / "file" / "deeper", code=1).stderr
    assert error.startswith("tensorucb: --out ")
    assert error.count("\n") == 1
    assert (tmp_path / "file").read_text() == "kept"


def test_out_in_a_file_system_that_takes_no_files_is_refused_first():
    assert "--out '/proc/out' cannot be written to" in run_here("demo", "--quick", "--out", "/proc/out", code=1).stderr


def test_a_command_that_says_how_far_it_is_runs_without_stderr(tmp_path):
    write_tiny_data(tmp_path / "data", users=40, edges=200)
    create = [*LAUNCH, "create", "spring", "--data", "data"]
    line = f"{shlex.join(create)} 2>&-"
    done = subprocess.run(line, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert "Campaign spring is ready" in done.stdout


def test_a_full_disk_is_one_sentence(monkeypatch, tmp_path):
    def fail(*args: object, **options: object) -> None:
        raise OSError(28, "No space left on device", "x.csv")

    monkeypatch.setattr("tensorucb.cli.demo.demo_environment", fail)
    assert run_here("demo", "--out", tmp_path, code=1).stderr == "tensorucb: No space left on device: 'x.csv'.\n"
