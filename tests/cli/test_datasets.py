"""``tensorucb datasets`` from the outside."""

from __future__ import annotations

import json
from pathlib import Path

from cli.commands import invoke
from tensorucb.data import checksum, prepare, read_dataset


def test_list() -> None:
    result = invoke("datasets", "list")
    assert result.exit_code == 0
    assert "flixster_like" in result.stdout
    assert set(json.loads(invoke("datasets", "list", "--json").stdout)["generated"]) == {
        "digg_like",
        "flixster_like",
        "sandbox",
        "shop",
    }


def test_windows_are_texts_for_people_and_seconds_for_machines(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n2,3\n")
    for window in ('"7d"', '"168h"'):
        (tmp_path / "dataset.json").write_text(f'{{"name": "tiny", "window": {window}}}')
        table = invoke("datasets", "describe", str(tmp_path)).stdout
        assert "activation window" in table
        assert table.split("activation window")[1].split()[0] == "7d"
        shown = json.loads(invoke("datasets", "describe", str(tmp_path), "--json").stdout)
        assert shown["figures"]["window"] == 604_800.0
    (tmp_path / "dataset.json").write_text('{"name": "tiny", "window": "7 days"}')
    refused = invoke("datasets", "describe", str(tmp_path))
    assert refused.exit_code == 1
    assert "'7d'" in refused.stderr


def test_make_then_describe(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    made = invoke("datasets", "make", "sandbox", "--out", out, "--scale", "0.2", "--seed", "3", "--json")
    assert made.exit_code == 0, made.output
    told = json.loads(made.stdout)
    assert checksum(read_dataset(out)) == told["checksum"]
    shown = json.loads(invoke("datasets", "describe", out, "--json").stdout)
    assert shown["checksum"] == told["checksum"]
    assert shown["figures"]["n_users"] == told["n_users"] == 100
    assert [file["file"] for file in shown["report"]["files"]] == ["edges.parquet", "actions.parquet"]
    said = invoke("datasets", "make", "sandbox", "--out", out, "--scale", "0.2", "--seed", "3").stdout
    assert said.startswith("sandbox: 100 users, ")
    assert said.endswith(f"Next: tensorucb datasets describe {out}\n")
    table = invoke("datasets", "describe", out)
    assert table.exit_code == 0
    assert "edges |E|" in table.stdout
    fewer = json.loads(invoke("datasets", "describe", out, "--min-actions", "3", "--json").stdout)
    assert fewer["checksum"] == checksum(prepare(read_dataset(out), min_interactions=3)) != told["checksum"]
    again = invoke(
        "datasets", "make", "sandbox", "--out", str(tmp_path / "b"), "--scale", "0.2", "--seed", "3", "--csv", "--json"
    )
    assert json.loads(again.stdout)["checksum"] == told["checksum"]


def test_describe_names_malformed_rows(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n3\n")
    result = invoke("datasets", "describe", str(tmp_path))
    assert result.exit_code == 0
    assert "1 left out: wrong number of fields (line 3: '3')" in result.stdout
    strict = invoke("datasets", "describe", str(tmp_path), "--strict")
    assert strict.exit_code == 1
    assert "line 3" in strict.stderr
    assert "Traceback" not in strict.output


def test_failures_are_one_sentence(tmp_path: Path) -> None:
    for arguments, code in (
        (["describe", str(tmp_path / "absent")], 1),
        (["describe", str(tmp_path)], 1),
        (["make", "netflix", "--out", str(tmp_path / "x")], 2),
        (["make", "sandbox", "--out", str(tmp_path / "x"), "--scale", "-1"], 1),
        (["make", "sandbox"], 2),
        (["make", "sandbox", "--out", str(tmp_path / "x"), "--dirty"], 2),
        (["describe"], 2),
    ):
        result = invoke("datasets", *arguments)
        assert result.exit_code == code, arguments
        assert result.stderr
    assert not (tmp_path / "x").exists()
