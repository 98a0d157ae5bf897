"""A graph as a dictionary of sets, the slow and obvious way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class DictGraph:
    """Sorted nodes, successors and predecessors; repeats merged."""

    def __init__(self, sources: Sequence[Any], targets: Sequence[Any], nodes: Sequence[Any] | None = None) -> None:
        self.ids = list(nodes) if nodes is not None else sorted({*sources, *targets})
        self.row = {node: row for row, node in enumerate(self.ids)}
        self.successors: dict[int, set[int]] = {row: set() for row in range(len(self.ids))}
        self.predecessors: dict[int, set[int]] = {row: set() for row in range(len(self.ids))}
        for source, target in zip(sources, targets, strict=True):
            self.successors[self.row[source]].add(self.row[target])
            self.predecessors[self.row[target]].add(self.row[source])

    @property
    def edges(self) -> list[tuple[int, int]]:
        """Edges by source, then target."""
        return [(s, t) for s in self.successors for t in sorted(self.successors[s])]

    @property
    def incoming(self) -> list[tuple[int, int]]:
        """Edges by target, then source."""
        return [(s, t) for t in self.predecessors for s in sorted(self.predecessors[t])]
