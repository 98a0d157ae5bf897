from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time

import pytest

from tensorucb.cli import main
from tensorucb.data import make_sandbox, write_dataset

ARGS = ("--synthetic", "digg", "--scale", "0.03", "--quick", "--rounds", "6", "--runs", "2")
LAUNCH = [sys.executable, "-c", "from tensorucb.cli import main; main()"]


def command(*args: str) -> None:
    with pytest.raises(SystemExit) as stop:
        main(list(args))
    assert not stop.value.code


def tables(directory):
    return {path.name: path.read_bytes() for path in directory.glob("*.csv") if "timings" not in path.name}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("finished")
    command("reproduce", "all", *ARGS, "--out", str(out))
    return out


@pytest.mark.slow
def test_all_writes_every_table_and_figure(finished):
    names = {path.name for path in finished.iterdir()}
    for stem in ("degrees", "regret", "regret-final", "rank", "rank-paper", "runtime", "bound"):
        assert {f"{stem}.png", f"{stem}.svg"} <= names
    assert set(tables(finished)) == {
        "network.csv",
        "degrees.csv",
        "validation.csv",
        "regret.csv",
        "rank.csv",
        "bound.csv",
    }
    assert {"report.html", "manifest.json", "regret-timings.csv", "runtime-timings.csv"} <= names


@pytest.mark.slow
def test_regret_table_has_the_promised_columns_and_rows(finished):
    with (finished / "regret.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["policy", "run", "round", "product", "spread", "regret", "average_regret"]
    policies = {row["policy"] for row in rows}
    assert {"TensorUCB", "TensorUCB (paper)", "COIN", "IMFB", "IMLinUCB", "DILinUCB", "Random"} <= policies
    assert len(rows) == len(policies) * 2 * 6
    products = {(row["run"], row["round"]): row["product"] for row in rows}
    assert all(products[row["run"], row["round"]] == row["product"] for row in rows)


@pytest.mark.slow
def test_killed_and_started_again_ends_with_the_same_bytes(finished, tmp_path):
    line = [*LAUNCH, "reproduce", "all", *ARGS, "--out", str(tmp_path)]
    kills = 0
    for wanted in (3, 20, 40):
        with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            deadline = time.monotonic() + 90
            while process.poll() is None and time.monotonic() < deadline:
                if len(list((tmp_path / "runs").glob("*.npz"))) >= wanted:
                    os.kill(process.pid, signal.SIGKILL)
                    kills += 1
                    break
                time.sleep(0.01)
    assert kills >= 2
    assert not (tmp_path / "report.html").exists()
    done = subprocess.run(line, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert tables(tmp_path) == tables(finished)


@pytest.mark.slow
def test_a_data_set_with_a_log(tmp_path):
    from tensorucb.data import ActionLog, Dataset

    box = make_sandbox(80, 500, 12, n_topics=3, base_rate=0.1, rng=1)
    users, items, times = box.action_log(rng=2)
    log = ActionLog.from_arrays(users, items, times, list(range(12)))
    write_dataset(Dataset(box.graph, log, "tiny"), tmp_path / "data")
    options = ("--quick", "--rounds", "3", "--runs", "1", "--out", str(tmp_path / "out"))
    command("reproduce", "fig-regret", "--data", str(tmp_path / "data"), "--objective", "cascade", *options)
    with (tmp_path / "out" / "regret.csv").open() as file:
        products = {int(row["product"]) for row in csv.DictReader(file)}
    # every fifth item is held out for features
    assert products
    assert not products & {0, 5, 10}


@pytest.mark.slow
def test_settings_from_a_file(tmp_path):
    (tmp_path / "grid.toml").write_text("[TensorUCB]\nexploration = 0.3\nrank = 3\n")
    command("reproduce", "fig-regret", *ARGS, "--settings", str(tmp_path / "grid.toml"), "--out", str(tmp_path / "out"))
    with (tmp_path / "out" / "validation.csv").open() as file:
        assert all(row["policy"] != "TensorUCB" for row in csv.DictReader(file))


@pytest.mark.parametrize("args", [[], ["--data", "x", "--synthetic", "digg"]])
def test_one_source_of_data_is_demanded(args, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", "all", *args])
    assert stop.value.code == 2
    assert "--data" in capsys.readouterr().err
