"""``tensorucb select`` from the outside."""

from __future__ import annotations

import gzip
import json

import numpy as np
import polars as pl
import pytest

from cli import commands


@pytest.fixture
def star(tmp_path):
    path = tmp_path / "edges.csv"
    rows = [f"hub,leaf{i},{0.9 if i else 0.8}" for i in range(12)] + ["other,leaf1,0.5", "leaf1,leaf2,0.1"]
    path.write_text("source,target,p\n" + "\n".join(rows) + "\n")
    return path


def run(*arguments, code=0):
    return commands.run("select", *arguments, code=code)


def picked(*arguments):
    return commands.run_json("select", *arguments)


def test_table_and_certificate(star):
    said = run(star, "--k", 2).stdout
    assert "hub" in said
    assert "Out-degree" in said
    assert "Certificate: the seeds reach at least" in said


def test_json_is_one_object_and_repeats(star):
    first, again = (run(star, "--k", 2, "--json", "--seed", 3, "--threads", t) for t in (1, 2))
    assert first.stdout == again.stdout
    told = json.loads(first.stdout)
    assert told["seeds"][0] == "hub"
    assert told["nodes"] == 14
    assert told["edges"] == 14
    assert told["lower"] <= told["spread"]
    assert 0.0 < told["ratio"] <= 1.0


def test_redundancy_counts_the_strongest_edge_alone(star):
    arguments = (star, "--k", 2, "--objective", "direct", "--probability", "p")
    plain = picked(*arguments)
    redundant = picked(*arguments, "--redundancy", 1)
    assert plain["spread"] == pytest.approx(1 + 0.8 + 11 * 0.9 + 1 + 0.1 * 0.5)
    assert redundant["spread"] == pytest.approx(1 + 0.8 + 11 * 0.9 + 1)
    for bad in ("1.5", "-0.1", "nan"):
        assert "--redundancy" in run(*arguments, "--redundancy", bad, code=2).stderr


def test_probabilities_from_a_column_uniform_or_degrees(star):
    direct = {
        name: picked(star, "--k", 1, "--objective", "direct", *options)["spread"]
        for name, options in {
            "column": ["--probability", "p"],
            "uniform": ["--uniform", "0.25"],
            "wc": ["--weighted-cascade"],
            "default": [],
        }.items()
    }
    assert direct["column"] == pytest.approx(1 + 0.8 + 11 * 0.9)
    assert direct["uniform"] == pytest.approx(1 + 12 * 0.25)
    assert direct["wc"] == direct["default"] == pytest.approx(1 + 10 + 2 * 0.5)


@pytest.mark.parametrize("algorithm", ["opim", "tim"])
def test_algorithms(star, algorithm):
    told = picked(star, "--k", 1, "--algorithm", algorithm, "--epsilon", 0.3)
    assert told["algorithm"] == algorithm
    assert told["seeds"] == ["hub"]


def test_linear_thresholds(star):
    told = picked(star, "--k", 1, "--model", "lt")
    assert told["model"] == "lt"
    assert told["seeds"] == ["hub"]
    refused = run(star, "--model", "lt", "--redundancy", 0.5, code=2)
    assert "--model lt goes with" in " ".join(refused.output.split())


def test_exclude_ids_and_files(star, tmp_path):
    opted_out = tmp_path / "out.txt"
    opted_out.write_text("hub\n\nleaf1\n")
    told = picked(star, "--k", 3, "--exclude", f"@{opted_out}", "--exclude", "other")
    assert not {"hub", "leaf1", "other"} & set(told["seeds"])


def test_other_formats_and_column_names(tmp_path):
    frame = pl.DataFrame({"from": [1, 1, 1, 2], "to": [2, 3, 4, 4]})
    frame.write_parquet(tmp_path / "e.parquet")
    with gzip.open(tmp_path / "e.csv.gz", "wb") as file:
        file.write(frame.write_csv().encode())
    for name in ("e.parquet", "e.csv.gz"):
        told = picked(tmp_path / name, "--k", 1, "--source", "from", "--target", "to")
        assert told["seeds"] == [1]


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["--k", "99"], 1, "only 14 nodes"),
        (["--probability", "weight"], 1, "weight"),
        (["--exclude", "nobody"], 1, "--exclude: ids not in the graph: 'nobody'"),
        (["--algorithm", "celf"], 2, "--algorithm"),
        (["--objective", "foo"], 2, "--objective"),
        (["--objective", "direct", "--algorithm", "tim"], 2, "--algorithm tim"),
        (["--epsilon", "0"], 2, "--epsilon"),
        (["--epsilon", "-1"], 2, "--epsilon"),
        (["--epsilon", "0.9"], 2, "--epsilon"),
        (["--k", "0"], 2, "--k"),
        (["--uniform", "2"], 2, "--uniform"),
        (["--uniform", "0.1", "--weighted-cascade"], 2, "exclude each"),
    ],
)
def test_failures_are_one_sentence(star, arguments, code, sentence):
    result = run(star, *arguments, code=code)
    assert sentence in result.stderr
    assert "Traceback" not in result.output
    if code == 1:
        assert result.stderr.count("\n") == 1


def test_absent_file_and_bad_numbers(tmp_path):
    absent = run(tmp_path / "absent.csv", code=1)
    assert "absent.csv" in absent.stderr
    (tmp_path / "bad.csv").write_text("source,target,p\n1,2,0.5\n1,3,1.5\n")
    bad = run(tmp_path / "bad.csv", "--k", 1, "--probability", "p", code=1)
    assert "1 -> 3" in bad.stderr
    wrong = run(tmp_path / "bad.csv", "--k", 1, "--exclude", "ann", code=1)
    assert "--exclude 'ann' is not an id of this network, whose ids are whole numbers" in wrong.stderr
    dashes = run(tmp_path / "bad.csv", "--k", 1, "--exclude=--5", code=1)
    assert "--exclude '--5' is not an id" in dashes.stderr
    (tmp_path / "latin.txt").write_bytes("Zoë\n".encode("latin-1"))
    latin = run(tmp_path / "bad.csv", "--k", 1, "--exclude", f"@{tmp_path / 'latin.txt'}", code=1)
    assert "is not UTF-8 text" in latin.stderr


def test_self_loops_and_repeats_are_left_out_and_counted(tmp_path):
    (tmp_path / "loops.csv").write_text("source,target\n1,2\n2,2\n1,3\n1,3\n1,2\n")
    told = picked(tmp_path / "loops.csv", "--k", 1)
    assert told["dropped_self_loops"] == 1
    assert told["merged_edges"] == 2
    assert "Left out: 1 self-loop and 2 repeated edges." in run(tmp_path / "loops.csv", "--k", 1).stdout
    assert np.isclose(told["spread"], 3.0)
