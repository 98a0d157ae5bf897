"""What happens when a worker, a node or the whole cluster is lost, and when it was never there."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engines.conftest import LOOPBACK, network, started
from engines.test_ray import same
from reference.oracle import select_seeds
from tensorucb.data import make_sandbox
from tensorucb.engines import RayEngine
from tensorucb.errors import EngineError, InputError, MissingExtraError, StateError
from tensorucb.experiments import Environment, WorldSettings, run_experiment
from tensorucb.policies import HighDegree, TensorUCB


def after_calls(engine: RayEngine, method: str, number: int, event: Callable[[], None]) -> None:
    """Let something happen right before the ``number``-th call of a shard's method."""
    crew, calls = engine._crew, 0
    usual = crew.on_shards

    def on_shards(given: Any) -> list[Any]:
        nonlocal calls
        calls += given[0][1][0] == method
        if calls == number and given[0][1][0] == method:
            event()
        return usual(given)

    crew.on_shards = on_shards  # type: ignore[method-assign]


def pids(engine: RayEngine) -> list[int]:
    ray = engine._crew.ray
    return [ray.get(worker.__ray_call__.remote(lambda self: os.getpid())) for worker in engine._crew._workers.values()]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "number"), [("draw", 3), ("cover", 7), ("hits", 1)])
def test_a_node_killed_in_the_middle_of_a_selection(method: str, number: int) -> None:
    graph, p = network(1500, 9000)
    here = select_seeds(graph, p, 12, rng=3)
    with started(2) as cluster, RayEngine(cluster.address) as engine:
        second = next(node for node in cluster.worker_nodes)
        after_calls(engine, method, number, lambda: cluster.remove_node(second, allow_graceful=False))
        same(select_seeds(graph, p, 12, rng=3, engine=engine), here)
        same(select_seeds(graph, p, 12, rng=3, engine=engine), here)


@pytest.mark.slow
def test_a_node_killed_in_the_middle_of_an_experiment() -> None:
    world = Environment.from_sandbox(make_sandbox(60, 400, 8, rng=0), settings=WorldSettings(k=3))
    policies = {"ours": TensorUCB(), "degree": HighDegree()}
    here = run_experiment(world, policies, rounds=12, runs=4)
    killed: list[Any] = []
    with started(2) as cluster, RayEngine(cluster.address) as engine:

        def report(done: int, total: int, what: str) -> None:
            if not killed:
                killed.append(next(node for node in cluster.worker_nodes))
                cluster.remove_node(killed[0], allow_graceful=False)

        there = run_experiment(world, policies, rounds=12, runs=4, engine=engine, report=report)
    assert there.frame["regret"].equals(here.frame["regret"])


@pytest.mark.slow
def test_killed_workers_are_replaced_when_none_is_left() -> None:
    graph, p = network(1500, 9000)
    with started(1) as cluster, RayEngine(cluster.address) as engine:
        after_calls(engine, "cover", 3, lambda: [os.kill(pid, signal.SIGKILL) for pid in pids(engine)][:0])
        same(select_seeds(graph, p, 12, rng=3, engine=engine), select_seeds(graph, p, 12, rng=3))


def _die(shared: tuple[Any, ...], start: int, stop: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)  # as the operating system does where memory runs out


@pytest.mark.slow
def test_work_that_kills_every_worker_is_given_up() -> None:
    gives_up = pytest.raises(EngineError, match="lost the same piece of work 4 times")
    with started(1) as cluster, RayEngine(cluster.address) as engine, gives_up:
        engine.map(_die, (), [0, 1])


@pytest.mark.slow
def test_other_versions_are_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray._private.ray_constants import KV_NAMESPACE_CLUSTER
    from ray._raylet import GcsClient

    with started(1) as cluster:
        with monkeypatch.context() as patch:
            patch.setattr("tensorucb.engines._crew.__version__", "99.0")
            with pytest.raises(EngineError, match=r"have tensorucb [0-9.]+ and this process has 99\.0; install"):
                RayEngine(cluster.address)
        # What the head wrote down of itself, as a head of another version would have.
        store = GcsClient(address=cluster.address)
        key = b"CLUSTER_METADATA"
        about = json.loads(store.internal_kv_get(key, namespace=KV_NAMESPACE_CLUSTER))
        store.internal_kv_put(
            key, json.dumps({**about, "ray_version": "2.1.0"}).encode(), True, namespace=KV_NAMESPACE_CLUSTER
        )
        with pytest.raises(EngineError, match=r"runs Ray 2\.1\.0 and Python 3\S+, and this process Ray 2\.[0-9.]+ and"):
            RayEngine(cluster.address)


@pytest.mark.slow
def test_a_cluster_that_is_gone_is_one_error(tmp_path: Any) -> None:
    # In a process of its own: Ray may end the process when its cluster is gone, and that must not come first.
    script = tmp_path / "lost.py"
    script.write_text(
        "import sys\n"
        "from engines.conftest import network, started\n"
        "from engines.test_faults import after_calls\n"
        "from tensorucb import select_seeds\n"
        "from tensorucb.engines import RayEngine\n"
        "from tensorucb.errors import EngineError\n"
        "graph, p = network(1500, 9000)\n"
        "with started(2) as cluster:\n"
        "    gone = lambda: [node.kill_all_processes(check_alive=False) for node in cluster.list_all_nodes()]\n"
        "    try:\n"
        "        with RayEngine(cluster.address) as engine:\n"
        "            after_calls(engine, 'cover', 3, gone)\n"
        "            select_seeds(graph, p, 12, rng=3, engine=engine)\n"
        "    except EngineError as error:\n"
        "        print(error, flush=True)\n"
    )
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert "is gone (connection refused); nothing of this call was kept." in done.stdout, done.stderr


def test_an_address_where_nobody_is() -> None:
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))  # bound but not listening: nobody else gets it meanwhile
        address = f"{LOOPBACK}:{taken.getsockname()[1]}"
        with pytest.raises(EngineError, match=rf"there is no Ray cluster at {address} \(connection refused\)"):
            RayEngine(address)


def test_a_head_that_listens_on_loopback_alone_is_one_error_at_once() -> None:
    pytest.importorskip("ray")
    with socket.create_server(("127.0.0.1", 0)) as head:
        address = f"127.0.0.1:{head.getsockname()[1]}"
        with pytest.raises(EngineError, match=r"under this machine's own address.*--node-ip-address=ADDRESS"):
            RayEngine(address)


@pytest.mark.slow
def test_a_process_that_is_connected_already_may_call_this_machine_localhost() -> None:
    ray = pytest.importorskip("ray")
    with started(1, ray.util.get_node_ip_address()) as cluster:
        ray.init(address=cluster.address, logging_level="ERROR", log_to_driver=False)
        with RayEngine(f"localhost:{cluster.address.rpartition(':')[2]}") as engine:
            assert engine.workers == 1
        assert ray.is_initialized()  # the connection was there before
        ray.shutdown()


def test_a_head_that_never_answers_is_given_up(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    edges = tmp_path / "edges.csv"
    edges.write_text("source,target\nann,bob\n")
    # In a process of its own: what Ray goes on waiting for would disturb the other tests.
    script = (
        "import sys\n"
        "from tensorucb.cli import main\n"
        "from tensorucb.engines import _crew\n"
        "_crew._CONNECT = 2.0\n"
        "main(['select', sys.argv[2], '--engine', 'ray', '--address', sys.argv[1]])\n"
    )
    with socket.create_server((LOOPBACK, 0)) as head:
        address = f"{LOOPBACK}:{head.getsockname()[1]}"
        command = [sys.executable, "-c", script, address, str(edges)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert f"Waiting for the Ray cluster at {address}" in done.stderr
    assert "did not let this process in within 2 seconds" in " ".join(done.stderr.split())


@pytest.mark.parametrize("address", ["", "somewhere", "10.0.0.5:", "10.0.0.5:port", ":6379", "10.0.0.5:70000"])
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(InputError, match="address"):
        RayEngine(address)


def test_ray_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'tensorucb\[ray\]'"):
        RayEngine("127.0.0.1:6379")


@pytest.mark.slow
def test_an_engine_that_was_closed() -> None:
    with started(1) as cluster:
        engine = RayEngine(cluster.address)
        engine.close()
        engine.close()
        with pytest.raises(StateError, match="this engine is closed; make a new one"):
            engine.map(_die, (), [0, 1])


def test_an_engine_that_is_none() -> None:
    graph, p = network(20, 60)
    with pytest.raises(InputError, match="engine must be an engine, such as"):
        select_seeds(graph, p, 1, engine="ray")  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_drivers_memory_does_not_grow_with_the_sets() -> None:
    graph, p = network(3000, 18000)
    with started(2) as cluster, RayEngine(cluster.address) as engine:

        def peak(quality: float) -> tuple[int, int]:
            tracemalloc.start()
            found = select_seeds(graph, p, 5, rng=0, quality=quality, engine=engine)
            most = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            return found.rr_sets, most

        peak(5.0)  # first calls import and compile
        few, little = peak(5.0)
        many, more = peak(60.0)
    assert many > 30 * few
    assert more < 1.2 * little
