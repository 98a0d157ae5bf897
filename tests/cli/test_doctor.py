"""``tensorucb doctor``: what is there, what is wrong, in whole sentences, and the exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.commands import run, run_json


def _found(document):
    return {finding["what"]: finding["found"] for finding in document["findings"]}


def test_a_sound_installation_has_nothing_wrong(monkeypatch, tmp_path):
    monkeypatch.setenv("TENSORUCB_CACHE", str(tmp_path / "cache"))
    document = run_json("doctor")
    assert document["ok"] is True
    assert document["wrong"] == []
    found = _found(document)
    assert {"tensorucb", "Python", "numba", "threads", "BLAS", "kernels", "memory", "SQLite"} <= set(found)
    assert found["networks"].startswith("0 kept in")
    assert not (tmp_path / "cache").exists()
    assert run("doctor").stdout.rstrip().endswith("Nothing is wrong.")


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("TENSORUCB_THREADS", "many", "TENSORUCB_THREADS must be a whole number in 1..1024; got 'many'."),
        ("TENSORUCB_MEMORY", "all", "TENSORUCB_MEMORY must be a size such as 8G or 500M; got 'all'."),
        ("TENSORUCB_MEMORY", "1M", "Only 0 MB of memory are free."),
        ("TENSORUCB_CACHE", "/proc/cache", "TENSORUCB_CACHE names '/proc/cache', which cannot be written to."),
    ],
)
def test_what_is_wrong_is_said_and_is_the_exit_code(monkeypatch, name, value, sentence):
    monkeypatch.setenv(name, value)
    printed = run("doctor", code=1).stdout
    assert f"Wrong: {sentence}" in printed.replace("\n", " ")
    document = run_json("doctor", code=1)
    assert document["ok"] is False
    [wrong] = document["wrong"]
    assert wrong.startswith(sentence)


def test_missing_and_old_packages_come_with_the_way_to_get_them(tmp_path: Path):
    """The metadata of another tensorucb stand before the installed ones."""
    about = tmp_path / "tensorucb-9.dist-info"
    about.mkdir()
    lines = [
        "Metadata-Version: 2.1",
        "Name: tensorucb",
        "Version: 9",
        "Requires-Dist: nowhere-to-be-found>=1.0",
        "Requires-Dist: numpy>=1000.1",
        "Requires-Dist: scipy>=1.0",
        "Requires-Dist: absent-ray[default]>=2.40; extra == 'ray'",
        'Requires-Dist: scipy>=1.0; extra == "client"',
    ]
    (about / "METADATA").write_text("\n".join(lines) + "\n")
    paths = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    command = [sys.executable, "-m", "tensorucb", "doctor", "--json"]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    found, wrong = _found(document), " ".join(document["wrong"])
    assert "nowhere-to-be-found is not installed." in wrong
    assert "is older than 1000.1. Run `pip install --upgrade 'numpy>=1000.1'`." in wrong
    assert "scipy" not in wrong
    assert found["extra ray"] == "without absent-ray; for work on several machines: pip install 'tensorucb[ray]'"
    assert found["extra client"].startswith("installed (scipy ")


def test_where_kernels_cannot_be_kept_they_are_compiled_each_time():
    """A place that only notebooks have stands for a machine on which no directory can be written to."""
    env = {**os.environ, "NUMBA_CACHE_LOCATOR_CLASSES": "_IPythonCacheLocator"}
    # One kernel is enough, and that of a cascade is soon compiled.
    cascade = "diffusion.simulate_cascades(tu.Graph.from_edges([1], [2]), [1.0], [1], runs=1, rng=0)"
    lines = (
        ["-m", "tensorucb", "doctor", "--json"],
        ["-c", f"import tensorucb as tu; from tensorucb import diffusion; print({cascade}.size)"],
    )
    looked, used = (
        subprocess.run([sys.executable, *line], env=env, capture_output=True, text=True, check=False) for line in lines
    )
    document = json.loads(looked.stdout)
    assert looked.returncode == 1
    assert _found(document)["kernels"] == "not kept"
    assert document["wrong"][0].startswith("Compiled kernels cannot be kept. Set NUMBA_CACHE_DIR")
    assert used.stdout == "1\n", used.stderr
    assert used.stderr.count("Set NUMBA_CACHE_DIR") == 1


@pytest.mark.slow
def test_what_is_compiled_at_first_is_not_compiled_by_the_demo(tmp_path):
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "NUMBA_DEBUG_CACHE": "1"}
    lines = (("doctor", "--compile"), ("demo", "--quick", "--out", str(tmp_path / "out")))
    compiled, found = (
        subprocess.run([sys.executable, "-m", "tensorucb", *line], env=env, capture_output=True, text=True, check=True)
        for line in lines
    )
    assert "data saved" in compiled.stdout
    assert "data loaded" in found.stdout
    assert "data saved" not in found.stdout
