from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tensorucb.errors import FileFormatError, InputError
from tensorucb.graph import Graph

TEXT = "source,target,p,note\nb,c,0.2,x\na,b,0.1,y\n"
EXPECTED = Graph.from_edges(["a", "b"], ["b", "c"], attributes={"p": [0.1, 0.2]})


def write(folder: Path, name: str, content: str) -> Path:
    path = folder / name
    data = content.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize("name", ["e.csv", "e.csv.gz", "E.CSV", "e.tsv", "e.tsv.gz"])
def test_text_files(tmp_path, name):
    content = TEXT.replace(",", "\t") if "tsv" in name else TEXT
    assert Graph.read(write(tmp_path, name, content), attributes=["p"]) == EXPECTED


def test_parquet(tmp_path):
    EXPECTED.to_frame().write_parquet(tmp_path / "e.parquet")
    assert Graph.read(tmp_path / "e.parquet", attributes=["p"]) == EXPECTED
    assert Graph.read(str(tmp_path / "e.parquet")).n_edges == 2


def test_large_parquet_matches_arrays(tmp_path):
    rng = np.random.default_rng(1)
    s = rng.integers(0, 10**15, 5000)
    t = rng.permutation(s)
    keep = s != t
    frame = pl.DataFrame({"source": s[keep], "target": t[keep], "w": rng.random(keep.sum())})
    frame.write_parquet(tmp_path / "e.parquet", row_group_size=700)
    graph = Graph.read(tmp_path / "e.parquet", attributes=["w"])
    assert graph == Graph.from_edges(s[keep], t[keep], attributes={"w": frame["w"]})


def test_separator_names_nodes_and_loops(tmp_path):
    path = write(tmp_path, "e.csv", "leader;follower\n3;1\n1;1\n")
    graph = Graph.read(path, source="leader", target="follower", separator=";", nodes=[3, 2, 1], self_loops="drop")
    assert graph == Graph.from_edges([3], [1], nodes=[3, 2, 1])


def test_types_of_ids(tmp_path):
    path = write(tmp_path, "e.csv", "source,target\n007,8\n7,9\n")
    assert Graph.read(path).ids.tolist() == [7, 8, 9]
    assert Graph.read(path, id_type="str").ids.tolist() == ["007", "7", "8", "9"]
    # One column of strings makes the other one strings too, exactly as written.
    late = write(tmp_path, "late.csv", "source,target\n" + "007,8\n" * 2000 + "7,x\n")
    assert Graph.read(late).ids.tolist() == ["007", "7", "8", "x"]
    with pytest.raises(FileFormatError, match=r"column 'target' must hold integers; got 'x' \(row 2001\)"):
        Graph.read(late, id_type="int")
    pl.DataFrame({"source": ["1"], "target": ["2"]}).write_parquet(tmp_path / "e.parquet")
    assert Graph.read(tmp_path / "e.parquet", id_type="int").ids.tolist() == [1, 2]
    assert Graph.read(tmp_path / "e.parquet").ids.tolist() == ["1", "2"]
    pl.DataFrame({"source": [1], "target": [2]}).write_parquet(tmp_path / "i.parquet")
    assert Graph.read(tmp_path / "i.parquet", id_type="str").ids.tolist() == ["1", "2"]


BAD_TEXT = {
    "missing column": ("source,goal\n1,2\n", "no column target; its columns are source, goal"),
    "missing id": ("source,target\n1,2\n2,\n", r"target is empty \(line 3\)"),
    "self-loop": ("source,target\n1,2\n2,2\n", "1 self-loop, the first in row 2"),
    "only a header": ("source,target\n", "the edge list is empty"),
    "nothing": ("", "e.csv is empty"),
    "ragged": ("source,target\n1,2\n1,2,3,4\n", r"e.csv: .*wrong number of fields \(line 3: '1,2,3,4'"),
    "short": ("source,target,weight\n1,2\n3,4,5\n", r"e.csv: .*wrong number of fields \(line 2: '1,2'"),
    "long": ("source,target,weight\n1,2,3\n4,5,6,7\n", r"e.csv: .*wrong number of fields \(line 3: '4,5,6,7'"),
    "blank": ("\nsource,target\n1,x,2\n", r"wrong number of fields \(line 3"),
}


@pytest.mark.parametrize(("content", "message"), BAD_TEXT.values(), ids=BAD_TEXT)
def test_bad_text(tmp_path, content, message):
    with pytest.raises(FileFormatError, match=message) as caught:
        Graph.read(write(tmp_path, "e.csv", content))
    assert "e.csv" in str(caught.value)


BAD_VALUES = {
    "missing": ("1,2,\n", "'p' has 1 missing value, the first in row 1"),
    "infinite": ("1,2,inf\n", r"'p' must be finite; got inf \(row 1\)"),
    "text": ("1,2,high\n", "'p' must hold numbers"),
    "contradiction": ("1,2,3\n1,2,4\n", "rows 1 and 2 with different values of 'p': 3 and 4"),
}


@pytest.mark.parametrize(("content", "message"), BAD_VALUES.values(), ids=BAD_VALUES)
def test_bad_values(tmp_path, content, message):
    path = write(tmp_path, "e.csv", "source,target,p\n" + content)
    with pytest.raises(FileFormatError, match=message):
        Graph.read(path, attributes=["p"])


def test_files_that_are_not_there_or_foreign(tmp_path):
    with pytest.raises(FileFormatError, match=r"cannot read .*none.csv"):
        Graph.read(tmp_path / "none.csv")
    with pytest.raises(FileFormatError, match=r"cannot read .*none.parquet"):
        Graph.read(tmp_path / "none.parquet")
    with pytest.raises(FileFormatError, match=r"does not end in one of \.csv, .*\.parquet"):
        Graph.read(tmp_path / "edges.xlsx")
    with pytest.raises(FileFormatError, match="cannot read"):
        Graph.read(write(tmp_path, "text.parquet", TEXT))
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(FileFormatError, match="cannot read"):
        Graph.read(tmp_path / "folder.csv")


@pytest.mark.parametrize("name", ["e.parquet", "e.csv.gz"])
def test_damaged_files_give_one_error_or_a_graph(tmp_path, name):
    whole = tmp_path / name
    frame = pl.DataFrame({"source": range(300), "target": range(1, 301)})
    if name.endswith("gz"):
        write(tmp_path, name, frame.write_csv())
    else:
        frame.write_parquet(whole)
    data = whole.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(60):
        bad = bytearray(data[: rng.integers(1, len(data))] if rng.random() < 0.5 else data)
        bad[rng.integers(len(bad))] ^= int(rng.integers(1, 256))
        (tmp_path / f"bad-{name}").write_bytes(bad)
        try:
            Graph.read(tmp_path / f"bad-{name}")
        except FileFormatError:
            refused += 1
    assert refused > 20


def test_wrong_arguments_are_not_the_files_fault(tmp_path):
    path = write(tmp_path, "e.csv", TEXT)
    with pytest.raises(InputError, match="self_loops must be"):
        Graph.read(path, self_loops="keep")
    with pytest.raises(InputError, match="nodes must be distinct"):
        Graph.read(path, nodes=["a", "a"])
    with pytest.raises(InputError, match="id_type must be"):
        Graph.read(path, id_type="float")
    with pytest.raises(InputError, match="separator is one character"):
        Graph.read(path, separator="::")
    with pytest.raises(FileFormatError, match="targets not in nodes: 'c'"):
        Graph.read(path, nodes=["a", "b"])


def test_the_benchmark_command(tmp_path):
    root = Path(__file__).resolve().parents[2]
    page = tmp_path / "page.md"
    command = [sys.executable, "-m", "benchmarks", "--quick", "--only", "graph", "--write", str(page)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "| graph | Parquet to Graph" in page.read_text(encoding="utf-8")
    assert 'make bench ARGS="--quick --only graph' in page.read_text(encoding="utf-8")
