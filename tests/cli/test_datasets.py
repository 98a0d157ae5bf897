"""``tensorucb datasets`` from the outside."""

from __future__ import annotations

from cli.commands import run, run_json
from tensorucb.data import checksum, prepare, read_dataset


def test_list():
    assert "flixster_like" in run("datasets", "list").stdout
    assert set(run_json("datasets", "list")["generated"]) == {"digg_like", "flixster_like", "sandbox", "shop"}


def test_windows_are_texts_for_people_and_seconds_for_machines(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n2,3\n")
    for window in ('"7d"', '"168h"'):
        (tmp_path / "dataset.json").write_text(f'{{"name": "tiny", "window": {window}}}')
        table = run("datasets", "describe", tmp_path).stdout
        assert "activation window" in table
        assert table.split("activation window")[1].split()[0] == "7d"
        assert run_json("datasets", "describe", tmp_path)["figures"]["window"] == 604_800.0
    (tmp_path / "dataset.json").write_text('{"name": "tiny", "window": "7 days"}')
    assert "'7d'" in run("datasets", "describe", tmp_path, code=1).stderr


def test_make_then_describe(tmp_path):
    out = tmp_path / "out"
    sizes = ("--scale", "0.2", "--seed", "3")
    told = run_json("datasets", "make", "sandbox", "--out", out, *sizes)
    assert checksum(read_dataset(out)) == told["checksum"]
    shown = run_json("datasets", "describe", out)
    assert shown["checksum"] == told["checksum"]
    assert shown["figures"]["n_users"] == told["n_users"] == 100
    assert [file["file"] for file in shown["report"]["files"]] == ["edges.parquet", "actions.parquet"]
    said = run("datasets", "make", "sandbox", "--out", out, *sizes).stdout
    assert said.startswith("sandbox: 100 users, ")
    assert said.endswith(f"Next: tensorucb datasets describe {out}\n")
    assert "edges |E|" in run("datasets", "describe", out).stdout
    fewer = run_json("datasets", "describe", out, "--min-actions", "3")
    assert fewer["checksum"] == checksum(prepare(read_dataset(out), min_interactions=3)) != told["checksum"]
    again = run_json("datasets", "make", "sandbox", "--out", tmp_path / "b", *sizes, "--csv")
    assert again["checksum"] == told["checksum"]


def test_describe_names_malformed_rows(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n3\n")
    said = run("datasets", "describe", tmp_path).stdout
    assert "1 left out: wrong number of fields (line 3: '3')" in said
    strict = run("datasets", "describe", tmp_path, "--strict", code=1)
    assert "line 3" in strict.stderr
    assert "Traceback" not in strict.output


def test_failures_are_one_sentence(tmp_path):
    for arguments, code in (
        (["describe", tmp_path / "absent"], 1),
        (["describe", tmp_path], 1),
        (["make", "netflix", "--out", tmp_path / "x"], 2),
        (["make", "sandbox", "--out", tmp_path / "x", "--scale", "-1"], 1),
        (["make", "sandbox"], 2),
        (["make", "sandbox", "--out", tmp_path / "x", "--dirty"], 2),
        (["describe"], 2),
    ):
        assert run("datasets", *arguments, code=code).stderr
    assert not (tmp_path / "x").exists()
