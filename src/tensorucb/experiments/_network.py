"""What the network alone tells: the paper's table of statistics and its figure of degrees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tensorucb.experiments._files import write_csv
from tensorucb.graph import Graph

__all__ = ["NetworkTables"]

# The paper's table of network statistics; its text has 2,843 users for Digg.
PAPER_NETWORKS: Mapping[str, Mapping[str, int]] = {
    "Digg": {"users": 2_483, "edges": 75_895, "out-degree 50": 1, "out-degree 90": 8, "out-degree 99": 101},
    "Flixster": {"users": 29_384, "edges": 371_722, "out-degree 50": 9, "out-degree 90": 154, "out-degree 99": 2_064},
}


@dataclass
class NetworkTables:
    """table-network and fig-degrees of a network; each is computed once and written to ``directory``.

    Parameters
    ----------
    written
        Gets the path of every file.
    """

    name: str
    graph: Graph
    directory: Path
    written: list[Path] = field(default_factory=list)

    @cached_property
    def network(self) -> list[tuple[str, float, int, int]]:
        """table-network: (quantity, here, the paper's Digg, the paper's Flixster)."""
        here = dict(zip((50, 90, 99), np.percentile(self.graph.out_degree, (50, 90, 99)).tolist(), strict=True))
        values: dict[str, float] = {
            "users": self.graph.n_nodes,
            "edges": self.graph.n_edges,
            **{f"out-degree {m}": value for m, value in here.items()},
        }
        digg, flixster = PAPER_NETWORKS["Digg"], PAPER_NETWORKS["Flixster"]
        rows = [(name, value, digg[name], flixster[name]) for name, value in values.items()]
        columns = ("quantity", "here", "paper_digg", "paper_flixster")
        self.written.append(write_csv(self.directory / "network.csv", columns, rows))
        return rows

    @cached_property
    def degrees(self) -> NDArray[np.int64]:
        """fig-degrees: the out-degree of every user."""
        values, counts = np.unique(self.graph.out_degree, return_counts=True)
        share = np.cumsum(counts[::-1])[::-1] / counts.sum()
        rows = zip(values.tolist(), counts.tolist(), share.tolist(), strict=True)
        columns = ("out_degree", "users", "share_at_least")
        self.written.append(write_csv(self.directory / "degrees.csv", columns, rows))
        return self.graph.out_degree
