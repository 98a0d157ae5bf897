from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tensorucb.cli import main
from tensorucb.cli._app import COMMANDS, load_command
from tensorucb.errors import InputError

HEAVY = ("numpy", "numba", "scipy", "altair", "polars", "sklearn", "sqlalchemy")


LAUNCH = [sys.executable, "-c", "from tensorucb.cli import main; main()"]


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*LAUNCH, *args], capture_output=True, text=True, timeout=120)


def test_help_names_every_command_and_loads_nothing_heavy():
    code = (
        "import sys\nfrom tensorucb.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as stop:\n    assert not stop.code\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stderr.strip() == "[]"
    for name in COMMANDS:
        assert name in done.stdout


def test_help_is_quick():
    def seconds() -> float:
        before = os.times()
        assert run("--help").returncode == 0
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    # CPU time, since the machine may be busy; the best of three
    assert min(seconds() for _ in range(3)) < 0.3


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_loads_and_has_help(name, capsys):
    assert load_command(name).name == name
    with pytest.raises(SystemExit) as stop:
        main([name, "--help"])
    assert not stop.value.code
    assert "Usage" in capsys.readouterr().out


def test_version(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out.startswith("tensorucb ")


@pytest.mark.parametrize("args", [["nonsense"], ["demo", "--rounds", "x"], ["demo", "--rounds", "0"], ["reproduce"]])
def test_wrong_use_exits_with_2(args, capsys):
    with pytest.raises(SystemExit) as stop:
        main(args)
    assert stop.value.code == 2
    assert capsys.readouterr().out == ""


def test_an_error_is_one_sentence_on_stderr(monkeypatch, capsys):
    import tensorucb.cli._demo

    def fail(*args: object, **options: object) -> None:
        raise InputError("the moon is full; wait.")

    monkeypatch.setattr(tensorucb.cli._demo, "demo_environment", fail)
    with pytest.raises(SystemExit) as stop:
        main(["demo"])
    assert stop.value.code == 1
    captured = capsys.readouterr()
    assert captured.err == "tensorucb: the moon is full; wait.\n"
    assert captured.out == ""


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
def test_out_that_cannot_be_written_is_refused_before_anything_is_computed(args, tmp_path, capsys):
    (tmp_path / "file").write_text("kept")
    with pytest.raises(SystemExit) as stop:
        main([*args, "--out", str(tmp_path / "file" / "deeper")])
    assert stop.value.code == 1
    error = capsys.readouterr().err
    assert error.startswith("tensorucb: --out ")
    assert error.count("\n") == 1
    assert (tmp_path / "file").read_text() == "kept"


def test_a_full_disk_is_one_sentence(monkeypatch, capsys, tmp_path):
    import tensorucb.cli._demo

    def fail(*args: object, **options: object) -> None:
        raise OSError(28, "No space left on device", "x.csv")

    monkeypatch.setattr(tensorucb.cli._demo, "demo_environment", fail)
    with pytest.raises(SystemExit) as stop:
        main(["demo", "--out", str(tmp_path)])
    assert stop.value.code == 1
    assert capsys.readouterr().err == "tensorucb: No space left on device: 'x.csv'.\n"


def test_interrupt_exits_with_130(tmp_path):
    with subprocess.Popen(
        [*LAUNCH, "demo", "--out", str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        time.sleep(3.0)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert out == b""


def test_json_is_the_only_thing_on_stdout(tmp_path):
    done = run("demo", "--quick", "--rounds", "2", "--runs", "1", "--json", "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["results"][0]["policy"] == "TensorUCB"
    assert len(document["seeds"]) == 10
    assert done.stderr == ""
