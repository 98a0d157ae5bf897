"""A network on disk, partition by partition: the same choice and the same sums as from the whole graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from engines.conftest import network
from engines.test_ray import same
from tensorucb import Constraints, Graph, select_seeds
from tensorucb.engines import LocalEngine, PartitionedGraph, RayEngine, write_partitions
from tensorucb.errors import FileFormatError, InputError, UnknownIdError
from tensorucb.work import Engine


@pytest.fixture
def graph() -> Graph:
    return network(300, 2000)[0]


def numbers(graph: Graph) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A number per source and per target, and the probabilities that follow."""
    rng = np.random.default_rng(1)
    a, b = rng.normal(-2.0, 1.0, graph.n_nodes), rng.normal(0.0, 1.0, graph.n_nodes)
    u = a[graph.sources] + b[graph.targets]
    return a, b, 1.0 / (1.0 + np.exp(-u))


def compare(graph: Graph, parts: PartitionedGraph, engine: Engine | None) -> None:
    a, b, p = numbers(graph)
    rules = Constraints(exclude=graph.ids[:3], must_include=graph.ids[9:11])
    options: Any = {"constraints": rules}
    options["values"] = np.linspace(0.5, 2.0, graph.n_nodes)
    for redundancy in (0.0, 0.8):
        options["redundancy"] = redundancy
        there = parts.select_direct(12, sources=a, targets=b, engine=engine, **options)
        here = select_seeds(graph, p, 12, objective="direct", **options)
        assert np.array_equal(there.seeds, here.seeds)
        # Factors of the odds of targets have 32 bits.
        assert there.spread == pytest.approx(here.spread, rel=1e-6)
        assert there.upper == pytest.approx(here.upper, rel=1e-6)
        same(there, parts.select_direct(12, sources=a, targets=b, **options))


def check_sums(graph: Graph, parts: PartitionedGraph, engine: Engine | None) -> None:
    users = np.random.default_rng(2).normal(size=(graph.n_nodes, 3))
    contacted = np.array([0, 4, 5, 200])
    edges = graph.out_edges(contacted)
    fired = edges[::3]
    told = graph.ids[graph.sources[fired]], graph.ids[graph.targets[fired]]
    found = parts.learning_sums(users, graph.ids[contacted], told, engine)
    x = np.hstack([users[graph.sources[edges]], users[graph.targets[edges]]])
    assert found.trials == edges.size
    assert np.allclose(found.precision, x.T @ x)
    assert np.allclose(found.response, x.T @ np.isin(edges, fired))


@pytest.mark.parametrize("most", [20, 300, 10**6])
@pytest.mark.parametrize("engine", [None, LocalEngine(2)])
def test_the_same_choice_and_sums_for_any_number_of_partitions(
    graph: Graph, tmp_path: Path, most: int, engine: Engine | None
) -> None:
    parts = write_partitions(graph, tmp_path / "network", edges_per_part=most)
    assert (parts.n_nodes, parts.n_edges) == (graph.n_nodes, graph.n_edges)
    assert (parts.n_parts > 1) == (most < graph.n_edges)
    compare(graph, parts, engine)
    check_sums(graph, parts, engine)


@pytest.mark.slow
def test_partitions_on_a_cluster(engine: RayEngine, graph: Graph, tmp_path: Path) -> None:
    parts = write_partitions(graph, tmp_path / "network", edges_per_part=300)
    compare(graph, parts, engine)
    check_sums(graph, parts, engine)


@pytest.mark.parametrize("strings", [False, True])
def test_partitions_of_a_parquet_file_are_those_of_the_graph(tmp_path: Path, strings: bool) -> None:
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 50, (2, 700))
    columns = [[f"u{x}é" for x in end] if strings else end * 7 - 20 for end in ends]
    file = tmp_path / "edges[1].parquet"  # a name, not a pattern
    pl.DataFrame({"from": columns[0], "to": columns[1]}).write_parquet(file)
    whole = Graph.read(file, source="from", target="to", self_loops="drop")
    parts = write_partitions(file, tmp_path / "p", source="from", target="to", edges_per_part=100)
    assert parts.n_parts > 3
    assert np.array_equal(parts.ids, whole.ids)
    assert np.array_equal(parts.out_offsets, whole.out_offsets)
    assert np.array_equal(np.concatenate([parts.part(i).targets for i in range(parts.n_parts)]), whole.targets)


def test_what_is_damaged_or_missing_is_said(graph: Graph, tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"holds no partitions: 'partitions\.json' is not there"):
        PartitionedGraph(tmp_path)
    parts = write_partitions(graph, tmp_path / "p", edges_per_part=300)
    with pytest.raises(UnknownIdError):
        parts.rows([10**6])
    with pytest.raises(InputError, match="sources"):
        parts.select_direct(3, sources=[1.0], targets=np.zeros(graph.n_nodes))
    file = tmp_path / "p" / "targets-00001.npy"
    held = np.load(file)
    np.save(file, np.full_like(held, graph.n_nodes))
    zeros = np.zeros(graph.n_nodes)
    with pytest.raises(FileFormatError, match="damaged: unknown targets"):
        PartitionedGraph(tmp_path / "p").select_direct(3, sources=zeros, targets=zeros)
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(FileFormatError, match="wrong size"):
        PartitionedGraph(tmp_path / "p")
    file.unlink()
    with pytest.raises(FileFormatError, match=r"'targets-00001\.npy' is not there"):
        PartitionedGraph(tmp_path / "p")
    pl.DataFrame({"a": [1], "b": [2]}).write_parquet(tmp_path / "edges.parquet")
    with pytest.raises(InputError, match="has no column 'source'"):
        write_partitions(tmp_path / "edges.parquet", tmp_path / "q")
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "edges.parquet").read_bytes()[:-9])
    for absent in ("cut.parquet", "none.parquet"):
        with pytest.raises(FileFormatError, match=f"cannot read .*{absent}"):
            write_partitions(tmp_path / absent, tmp_path / "q")
    assert not (tmp_path / "q").exists()
