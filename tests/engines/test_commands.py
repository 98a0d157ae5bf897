"""Commands with ``--engine``: the same answer from a cluster, and one sentence for what is wrong."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from cli.commands import invoke
from cli.terminal import COMMAND
from engines.conftest import network, started
from engines.here import HereEngine
from service.serving import serving
from tensorucb import Graph
from tensorucb.campaign import Campaign, create_campaign
from tensorucb.errors import EngineError, InputError
from tensorucb.oracle.rr import Sampler
from tensorucb.service import ServiceSettings
from tensorucb.service import run as run_service


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    graph, _ = network(300, 1500)
    graph.to_frame().write_csv(tmp_path / "edges.csv")
    return tmp_path / "edges.csv"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--engine", "ray"], "--engine ray needs --address HOST:PORT"),
        (["--address", "10.0.0.5:6379"], "--address is for --engine ray"),
        (["--engine", "spark"], "spark"),
    ],
)
@pytest.mark.parametrize(
    "command", [["select", "edges.csv"], ["compare", "--synthetic", "digg"], ["reproduce", "all"], ["serve"]]
)
def test_options_that_do_not_fit(command: list[str], options: list[str], said: str, tmp_path: Path) -> None:
    out = [] if command[0] in ("select", "serve") else ["--out", tmp_path / "out"]
    result = invoke(*command, *options, *out)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
    assert not (tmp_path / "out").exists()


def test_a_command_without_ray(edges: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    result = invoke("select", edges, "--engine", "ray", "--address", "127.0.0.1:6379")
    assert result.exit_code == 1
    assert "pip install 'tensorucb[ray]'" in result.stderr


@pytest.mark.slow
def test_select_and_compare_on_a_cluster(cluster: Any, edges: Path, tmp_path: Path) -> None:
    there = ["--engine", "ray", "--address", cluster.address]
    picks = [invoke("select", edges, "--k", 5, "--json", *where) for where in (there, [])]
    assert picks[0].exit_code == 0, picks[0].exception
    assert json.loads(picks[0].stdout) == json.loads(picks[1].stdout)
    world = ["--synthetic", "flixster", "--scale", 0.01, "--policy", "HighDegree", "--runs", 2, "--rounds", 4]
    for name, where in (("there", there), ("here", [])):
        found = invoke("compare", *world, "--validation-rounds", 2, "--out", tmp_path / name, *where)
        assert found.exit_code == 0, found.exception
    for file in ("decisions.csv", "decisions-regret.csv", "validation.csv"):
        assert (tmp_path / "there" / file).read_bytes() == (tmp_path / "here" / file).read_bytes()


def cascade_campaign(storage: str) -> Campaign:
    graph, _ = network(60, 400)
    products = {"tea": [1.0, 0.0], "jam": [0.0, 1.0]}
    return create_campaign("spring", graph=graph, products=products, objective="cascade", seed=1, storage=storage)


def test_a_service_chooses_by_its_engine_and_says_when_that_is_gone(tmp_path: Path) -> None:
    class Gone(HereEngine):
        def sampler(self, graph: Graph, threads: int) -> Sampler:
            raise EngineError("the cluster is gone.")

    storage = f"sqlite:///{tmp_path}/campaigns.db"
    cascade_campaign(storage).disconnect()
    with serving(storage, Gone()) as url, httpx.Client(base_url=f"{url}/api/v1/campaigns/spring", timeout=60) as web:
        answer = web.post("/rounds", json={"product": "tea", "k": 2})
        assert (answer.status_code, answer.json()["detail"]) == (503, "the cluster is gone.")
        assert web.get("/progress").status_code == 200
        assert web.get("/rounds").json()["items"] == []
    with pytest.raises(InputError, match="one worker"):
        run_service(ServiceSettings(storage, workers=2), engine=HereEngine())


@pytest.mark.slow
def test_serve_on_a_cluster(tmp_path: Path) -> None:
    with cascade_campaign("memory://") as campaign:
        expected = [list(campaign.ask("tea", 4).seeds) for _ in range(2)]
    storage = f"sqlite:///{tmp_path}/campaigns.db"
    cascade_campaign(storage).disconnect()
    with started(2) as cluster, (tmp_path / "errors").open("w") as errors:
        command = [*COMMAND, "serve", storage, "--port", "0", "--engine", "ray", "--address", cluster.address]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert process.stdout is not None
        try:
            rounds = process.stdout.readline().split()[-1] + "/api/v1/campaigns/spring/rounds"
            for seeds in expected:
                answer = httpx.post(rounds, json={"product": "tea", "k": 4}, timeout=60)
                assert answer.status_code == 201, answer.text
                assert answer.json()["seeds"] == seeds
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=60)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
            print((tmp_path / "errors").read_text())
    assert "Stopped." in said
    assert process.returncode == 0
