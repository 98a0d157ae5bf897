"""Writing a network in partitions, from a graph or from a Parquet file that is never read as a whole."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import I32, I64
from tensorucb.checks import check_count, check_path, shown_path
from tensorucb.engines._partitions import HEADER, PartitionedGraph, part_file
from tensorucb.errors import InputError
from tensorucb.files import staged
from tensorucb.graph import Graph
from tensorucb.graph._ids import id_array
from tensorucb.tables import PARQUET, file_errors, panics_kept_quiet

_EDGES = 2**24  # of a partition: 64 MB of targets, and 128 MB of probabilities while it is scored


def write_partitions(
    edges: Graph | str | os.PathLike[str],
    directory: str | os.PathLike[str],
    *,
    source: str = "source",
    target: str = "target",
    edges_per_part: int = _EDGES,
) -> PartitionedGraph:
    """Write a network in partitions by source, of about ``edges_per_part`` edges each.

    Parameters
    ----------
    edges
        A graph; or a Parquet file with one row per edge, which is read partition by partition and never as a whole.
        Repeated edges are merged, and self-loops are left out.
    directory
        Where to write. It appears when all of it is written, or not at all.
    source, target
        Columns of the Parquet file.

    Examples
    --------
    >>> from tensorucb import Graph
    >>> from tensorucb.engines import write_partitions
    >>> graph = Graph.from_edges(["ann", "ann", "bob"], ["bob", "cid", "cid"])
    >>> write_partitions(graph, "network", edges_per_part=1).n_parts
    2
    """
    most = check_count("edges_per_part", edges_per_part, 1, 2**31 - 1)
    made = _of_graph(edges, most) if isinstance(edges, Graph) else _of_parquet(edges, source, target, most)
    ids, bounds, parts = made
    folder = check_path("directory", directory)
    with staged(folder, HEADER) as place:
        degrees, sizes = [], []
        for number, (degree, targets) in enumerate(parts):
            np.save(place / part_file(number), targets)
            sizes.append((place / part_file(number)).stat().st_size)
            degrees.append(degree)
        offsets = np.append(0, np.cumsum(np.concatenate([*degrees, np.empty(0, dtype=np.int64)])))
        np.save(place / "ids.npy", ids)
        np.save(place / "offsets.npy", offsets)
        header = {"bounds": bounds, "edges": int(offsets[-1]), "bytes": sizes}
        (place / HEADER).write_text(json.dumps(header), encoding="utf-8")
    return PartitionedGraph(folder)


_Parts = Iterator[tuple[I64, I32]]


def _cut(degrees: I64, most: int) -> list[int]:
    """Bounds of runs of sources with about ``most`` edges each; a source is never split."""
    ends = np.cumsum(degrees)
    places = np.searchsorted(ends, np.arange(most, ends[-1] if ends.size else 0, most), side="left") + 1
    return [0, *np.unique(places[places < degrees.size]).tolist(), int(degrees.size)]


def _of_graph(graph: Graph, most: int) -> tuple[NDArray[Any], list[int], _Parts]:
    bounds, offsets = _cut(graph.out_degree, most), graph.out_offsets
    parts = ((graph.out_degree[a:b], graph.targets[offsets[a] : offsets[b]]) for a, b in pairwise(bounds))
    return graph.ids, bounds, parts


def _of_parquet(
    path: str | os.PathLike[str], source: str, target: str, most: int
) -> tuple[NDArray[Any], list[int], _Parts]:
    import polars as pl

    file = check_path("edges", path)
    table = pl.scan_parquet(file, glob=False)
    with file_errors(file, PARQUET), panics_kept_quiet():
        known = table.collect_schema()
    missing = [name for name in (source, target) if name not in known]
    if missing:
        raise InputError(f"{shown_path(file)} has no column {missing[0]!r}; it has {', '.join(known)}.")
    ends = table.select(source=source, target=target).filter(pl.col("source") != pl.col("target"))
    both = pl.concat([ends.select(id="source"), ends.select(id="target")]).unique().sort("id")
    ids = both.collect(engine="streaming")["id"]
    counts = ends.group_by("source").len().rename({"source": "id"})
    degrees = ids.to_frame().lazy().join(counts, on="id", how="left", maintain_order="left").collect(engine="streaming")
    bounds = _cut(degrees["len"].fill_null(0).to_numpy().astype(np.int64), most)
    rows = ids.to_frame().with_row_index("row")

    def parts() -> _Parts:
        for a, b in pairwise(bounds):
            chosen = ends.filter(pl.col("source").is_between(pl.lit(ids[a]), pl.lit(ids[b - 1]))).unique()
            found = chosen.collect(engine="streaming")
            for name in ("source", "target"):
                found = found.join(rows.rename({"id": name, "row": f"{name}_row"}), on=name)
            found = found.sort("source_row", "target_row")
            degree = np.bincount(found["source_row"].to_numpy() - a, minlength=b - a)
            yield degree, found["target_row"].to_numpy().astype(np.int32)

    return id_array(ids, source), bounds, parts()
