"""Work that needs more memory than is free is refused before it begins, with what is needed and what is free."""

import os
import re
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from tensorucb import memory
from tensorucb.campaign import create_campaign
from tensorucb.errors import InputError, MemoryLimitError
from tensorucb.graph import Graph
from tensorucb.oracle import select_seeds
from tensorucb.policies import TensorUCB


@pytest.fixture(scope="module")
def graph():
    """1,000,000 users in a ring with a chord: large enough that steps are not taken for small ones."""
    rows = np.arange(1_000_000)
    return Graph.from_edges(np.tile(rows, 2), np.concatenate([np.roll(rows, -1), np.roll(rows, -2)]))


def test_free_memory_is_less_than_the_machine_has():
    free, total = memory.free_memory(), memory.total_memory()
    assert free is not None
    assert total is not None
    assert 0 < free < total


def test_a_limit_of_ones_own_counts_what_is_held(monkeypatch):
    monkeypatch.setenv("TENSORUCB_MEMORY", "1M")
    assert memory.free_memory() == 0
    free = {}
    for size in ("1.5 GiB", "2g"):
        monkeypatch.setenv("TENSORUCB_MEMORY", size)
        free[size] = memory.free_memory()
    assert abs(free["2g"] - free["1.5 GiB"] - 2**29) < 2**26


@pytest.mark.parametrize("text", ["much", "-1G", "1e9", "8 G B", "9" * 40])
def test_a_limit_that_is_no_size_is_refused(monkeypatch, text):
    monkeypatch.setenv("TENSORUCB_MEMORY", text)
    with pytest.raises(InputError, match="TENSORUCB_MEMORY must be a size such as 8G"):
        memory.free_memory()


def test_every_door_refuses_before_it_begins(graph, tmp_path, monkeypatch):
    users, p = np.ones((graph.n_nodes, 3)), np.full(graph.n_edges, 0.1)
    path = tmp_path / "edges.parquet"
    pl.DataFrame({"source": graph.sources, "target": graph.targets}).write_parquet(path)
    doors = {
        "a network of 2,000,000 edges": lambda: Graph.from_edges(graph.sources, graph.targets),
        "TensorUCB on a network of 1,000,000 users": lambda: TensorUCB().bind(graph, users),
        "choosing seeds in a network": lambda: select_seeds(graph, p, 1),
        "a campaign on 1,000,000 users": lambda: create_campaign(
            "c", graph=graph, users=users, storage=tmp_path / "c.db"
        ),
    }
    monkeypatch.setenv("TENSORUCB_MEMORY", "1M")
    for words, call in doors.items():
        with pytest.raises(MemoryLimitError, match=rf"{words}.* needs about [\d.]+ [MG]B of memory, and 0 MB are free"):
            call()
    monkeypatch.delenv("TENSORUCB_MEMORY")
    assert not (tmp_path / "c.db").exists()


def test_the_command_says_it_in_one_line(tmp_path):
    rows = np.arange(2_500_000)
    path = tmp_path / "edges.parquet"
    pl.DataFrame({"source": rows, "target": np.roll(rows, -1)}).write_parquet(path)
    command, limited = (
        [sys.executable, "-m", "tensorucb", "select", path.name],
        {**os.environ, "TENSORUCB_MEMORY": "50M"},
    )
    done = subprocess.run(command, cwd=tmp_path, env=limited, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.fullmatch(
        r"tensorucb: reading 'edges\.parquet' needs about 76 MB of memory, and 0 MB are free\. Close .*\n", done.stderr
    ), done.stderr


@pytest.mark.slow
def test_estimates_are_above_what_is_taken():
    """In a process of its own, whose peak the system measures."""
    code = """
import numpy as np, re
from tensorucb import memory
from tensorucb.graph import Graph
from tensorucb.policies import TensorUCB
def peak():
    # What getrusage says is at least what the process that started this one took.
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])
rows = np.arange(1_000_000)
s, t = np.tile(rows, 2), np.concatenate([np.roll(rows, -1), np.roll(rows, -2)])
users = np.random.default_rng(0).normal(size=(rows.size, 8))
small = Graph.from_edges([0, 1, 2], [1, 2, 0])
policy = TensorUCB()
policy.bind(small, users[:3])
policy.score(np.ones(4))
start = peak()
graph = Graph.from_edges(s, t)
built = peak()
policy.bind(graph, users)
policy.score(np.ones(4))
bound = peak()
print(built - start, memory.building(s.size, 0, strings=False))
print(bound - built, memory.binding(graph.n_nodes, graph.n_edges, 8))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    pairs = np.array([line.split() for line in done.stdout.splitlines()], dtype=float)
    assert (pairs[:, 0] < pairs[:, 1]).all(), done.stdout
    assert (pairs[:, 1] < 6 * np.maximum(pairs[:, 0], 2**26)).all(), done.stdout
