from __future__ import annotations

import pytest

from tensorucb.data import make_sandbox
from tensorucb.experiments import Environment, WorldSettings


@pytest.fixture(scope="session")
def sandbox():
    return make_sandbox(60, 400, 8, n_topics=4, rng=0)


@pytest.fixture(scope="session")
def world(sandbox):
    return Environment.from_sandbox(sandbox, settings=WorldSettings(k=3))


@pytest.fixture(scope="session")
def cascade_world(sandbox):
    settings = WorldSettings(k=3, objective="cascade", feedback="cascade", worlds=64)
    return Environment.from_sandbox(sandbox, settings=settings)
