"""`Graph`: a directed graph in compressed rows both ways, with the caller's ids."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.errors import InputError, ShapeError

__all__ = ["Graph"]


class Graph:
    """A directed graph. Build it with :meth:`from_edges`."""

    def __init__(self, n_nodes: int, sources: NDArray[np.int32], targets: NDArray[np.int32], ids: NDArray[Any]) -> None:
        self.n_nodes = n_nodes
        self.sources = sources
        self.targets = targets
        self.ids = ids

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return int(self.sources.size)

    @classmethod
    def from_edges(cls, sources: ArrayLike, targets: ArrayLike) -> Graph:
        """A graph from two arrays of ids."""
        s, t = np.asarray(sources), np.asarray(targets)
        if s.shape != t.shape or s.ndim != 1:
            raise ShapeError(f"sources and targets must be of one length; got {s.shape} and {t.shape}.")
        if s.size == 0:
            raise InputError("a graph needs at least one edge.")
        ids, rows = np.unique(np.concatenate([s, t]), return_inverse=True)
        keys = np.unique(rows[: s.size].astype(np.int64) * ids.size + rows[s.size :])
        return cls(int(ids.size), (keys // ids.size).astype(np.int32), (keys % ids.size).astype(np.int32), ids)

    @cached_property
    def out_offsets(self) -> NDArray[np.int64]:
        """Edges ``out_offsets[v]:out_offsets[v + 1]`` leave node ``v``."""
        return np.concatenate([[0], np.cumsum(np.bincount(self.sources, minlength=self.n_nodes))]).astype(np.int64)

    @cached_property
    def in_offsets(self) -> NDArray[np.int64]:
        """Positions ``in_offsets[v]:in_offsets[v + 1]`` of ``in_edges`` enter node ``v``."""
        return np.concatenate([[0], np.cumsum(np.bincount(self.targets, minlength=self.n_nodes))]).astype(np.int64)

    @cached_property
    def in_edges(self) -> NDArray[np.int64]:
        """Edge numbers sorted by target, then source."""
        return np.argsort(self.targets, kind="stable").astype(np.int64)

    @cached_property
    def in_sources(self) -> NDArray[np.int32]:
        """``sources[in_edges]``."""
        return self.sources[self.in_edges]

    @cached_property
    def out_degree(self) -> NDArray[np.int64]:
        """Number of edges out of each node."""
        return np.diff(self.out_offsets)

    @cached_property
    def in_degree(self) -> NDArray[np.int64]:
        """Number of edges into each node."""
        return np.diff(self.in_offsets)
