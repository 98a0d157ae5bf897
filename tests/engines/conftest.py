"""A real Ray cluster of several nodes on loopback, stopped at the end."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from tensorucb import Graph
from tensorucb.engines import RayEngine

# 127.0.0.1 stands for an interface's address to Ray; any other address of the loopback network stays there.
LOOPBACK = "127.0.0.2"
_NODE = {"num_cpus": 1, "object_store_memory": 100 * 2**20}


@contextmanager
def started(nodes: int, address: str = LOOPBACK) -> Iterator[Any]:
    """A head and further nodes, of one CPU each."""
    node = {**_NODE, "node_ip_address": address}
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    with (
        tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder,
        pytest.MonkeyPatch.context() as patch,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        # Not the argument temp_dir: with it Ray still writes one file to its default folder, which may not be there.
        patch.setenv("RAY_TMPDIR", folder)
        cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
        try:
            for _ in range(nodes - 1):
                cluster.add_node(**node)
            yield cluster
        finally:
            cluster.shutdown()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with started(2) as found:
        yield found


@pytest.fixture(scope="module")
def engine(cluster: Any) -> Iterator[RayEngine]:
    with RayEngine(cluster.address) as found:
        yield found


def network(n: int, m: int, seed: int = 0) -> tuple[Graph, np.ndarray]:
    """A random network with some users of many followers, and weighted-cascade probabilities."""
    rng = np.random.default_rng(seed)
    s, t = (n * rng.random(m) ** 2).astype(np.int64), rng.integers(0, n, m)
    graph = Graph.from_edges(s[s != t], t[s != t], nodes=np.arange(n))
    return graph, 1.0 / graph.in_degree[graph.targets]
