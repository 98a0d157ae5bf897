"""A store with two small campaigns, and clients of a real server on it; one browser and one server for the page."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from campaign.worlds import small_campaign
from service.serving import WEB, serving
from service.shops import shop

API = "/api/v1"
Serve = Callable[..., httpx.Client]


def fill(url: str) -> None:
    """Create ``spring``, and ``autumn`` with strategies."""
    small_campaign(url, clock=time.time).disconnect()
    strategies = {"email": [1.0, 0.0], "letter": [0.0, 1.0]}
    costs = {"letter": 2.0}
    small_campaign(url, name="autumn", clock=time.time, strategies=strategies, strategy_costs=costs).disconnect()


@pytest.fixture(scope="session", autouse=True)
def _web_closed() -> Iterator[None]:
    yield
    WEB.close()


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts servers, and stops them after the test; each call gives a client of a new one."""
    with ExitStack() as running:

        def start(storage: str, **settings: Any) -> httpx.Client:
            url = running.enter_context(serving(storage, **settings))
            return running.enter_context(httpx.Client(base_url=f"{url}{API}", timeout=60.0))

        yield start


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with these campaigns, to be copied."""
    path = tmp_path_factory.mktemp("filled") / "campaigns.db"
    fill(f"sqlite:///{path}")
    return path


@pytest.fixture
def storage(tmp_path: Path, filled: Path) -> str:
    """A store of the test's own with these campaigns."""
    return f"sqlite:///{shutil.copy(filled, tmp_path)}"


@pytest.fixture
def client(serve: Serve, storage: str) -> httpx.Client:
    """A client of a server with that store."""
    return serve(storage)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, filled: Path) -> Iterator[httpx.Client]:
    """A client of one server for all tests of a module whose requests are refused."""
    storage = f"sqlite:///{shutil.copy(filled, tmp_path_factory.mktemp('shared'))}"
    with serving(storage) as url, httpx.Client(base_url=f"{url}{API}", timeout=60.0) as client:
        yield client


class Pages(NamedTuple):
    """The server that all tests of the page share, whose campaigns have different names."""

    storage: str
    url: str


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    """A server on a store to which each fixture below adds its campaigns when a test first needs them."""
    storage = f"sqlite:///{tmp_path_factory.mktemp('pages')}/c.db"
    with serving(storage) as url:
        yield Pages(storage, url)


@pytest.fixture(scope="session")
def shops(pages: Pages) -> Pages:
    """``shop`` has six rounds and names of everything, ``stall`` none."""
    shop(pages.storage, "shop", 6)
    shop(pages.storage, "stall", 0)
    return pages


@pytest.fixture(scope="session")
def seventy(shops: Pages) -> Pages:
    """``autumn`` has seventy rounds."""
    shop(shops.storage, "autumn", 70)
    return shops
