"""Graphs kept on disk: the same graph as from the file, never a damaged or an outdated one."""

import logging

import numpy as np
import polars as pl
import pytest

from tensorucb.errors import FileFormatError, InputError
from tensorucb.graph import Graph


@pytest.fixture(params=["integers", "strings"])
def file(request, tmp_path):
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 50, (2, 400))
    ends = ends[:, ends[0] != ends[1]]
    columns = {"source": ends[0] * 7, "target": ends[1] * 7}
    frame = pl.DataFrame(columns).unique(maintain_order=True).with_row_index("weight")
    if request.param == "strings":
        frame = frame.with_columns(
            pl.format("üser {}", "source").alias("source"), pl.format("üser {}", "target").alias("target")
        )
    path = tmp_path / "edges.parquet"
    frame.write_parquet(path)
    return path


def _same(one, other):
    names = ("ids", "sources", "targets", "out_offsets", "in_offsets", "in_edges", "in_sources")
    for name in names:
        a, b = getattr(one, name), getattr(other, name)
        assert a.dtype == b.dtype
        assert not a.flags.writeable
        assert np.array_equal(a, b), name
    assert list(one.attributes) == list(other.attributes)
    assert all(np.array_equal(one.attributes[name], other.attributes[name]) for name in other.attributes)
    return True


def _kept(folder):
    return sorted(folder.glob("*.graph"))


def test_a_kept_graph_is_the_graph_of_the_file(file, tmp_path):
    plain, folder = Graph.read(file, attributes=["weight"]), tmp_path / "cache"
    first = Graph.read(file, attributes=["weight"], cache=folder)
    [kept] = _kept(folder)
    written = kept.stat().st_mtime_ns
    second = Graph.read(file, attributes=["weight"], cache=folder)
    assert _same(first, plain)
    assert _same(second, plain)
    assert second.rows(plain.ids[:3]).tolist() == [0, 1, 2]
    assert kept.stat().st_mtime_ns == written


def test_the_environment_names_the_directory_and_other_arguments_make_another_graph(file, tmp_path, monkeypatch):
    monkeypatch.setenv("TENSORUCB_CACHE", str(tmp_path / "cache"))
    Graph.read(file)
    Graph.read(file, attributes=["weight"])
    turned = Graph.read(file, source="target", target="source")
    assert len(_kept(tmp_path / "cache")) == 3
    assert _same(Graph.read(file, source="target", target="source"), turned)


def test_a_file_that_changed_is_read_again_even_with_the_same_size_and_time(file, tmp_path):
    import os

    folder, csv = tmp_path / "cache", tmp_path / "edges.csv"
    csv.write_text("source,target\n1,2\n2,3\n")
    before = csv.stat()
    assert Graph.read(csv, cache=folder).ids.tolist() == [1, 2, 3]
    csv.write_text("source,target\n1,2\n2,4\n")
    os.utime(csv, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert Graph.read(csv, cache=folder).ids.tolist() == [1, 2, 4]


@pytest.mark.parametrize("part", ["about.npz", "in_edges.npy"])
@pytest.mark.parametrize("harm", ["flip", "header", "cut", "empty", "absent"])
def test_a_damaged_file_is_not_used(file, tmp_path, caplog, part, harm):
    plain, folder = Graph.read(file), tmp_path / "cache"
    Graph.read(file, cache=folder)
    [kept] = _kept(folder)
    harmed = kept / part
    data = bytearray(harmed.read_bytes())
    if harm == "flip":
        data[len(data) // 2] ^= 4
    elif harm == "header":
        data[0] ^= 1
    harmed.write_bytes({"cut": data[:-64], "empty": b""}.get(harm, data))
    if harm == "absent":
        harmed.unlink()
    if (part, harm) == ("about.npz", "absent"):
        assert _same(Graph.read(file, cache=folder), plain)  # as if it had never been kept
        return
    with caplog.at_level(logging.WARNING, "tensorucb.graph"):
        assert _same(Graph.read(file, cache=folder), plain)
    assert "is read again" in caplog.text
    caplog.clear()
    assert _same(Graph.read(file, cache=folder), plain)
    assert not caplog.text


def test_what_cannot_be_kept_is_read_all_the_same(file, tmp_path, caplog):
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    with caplog.at_level(logging.WARNING, "tensorucb.graph"):
        assert _same(Graph.read(file, cache=blocked / "cache"), Graph.read(file))
    assert "cannot keep" in caplog.text


def test_errors_are_those_of_reading(file, tmp_path):
    with pytest.raises(FileFormatError, match="cannot read"):
        Graph.read(tmp_path / "absent.csv", cache=tmp_path)
    with pytest.raises(FileFormatError, match="no column wrong; its columns are"):
        Graph.read(file, source="wrong", cache=tmp_path)
    with pytest.raises(InputError, match="id_type"):
        Graph.read(file, id_type="float", cache=tmp_path)
    assert not _kept(tmp_path)
