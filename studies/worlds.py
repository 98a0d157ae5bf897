"""Worlds by name: logs with a fitted truth, logs that are replayed, and generated networks.

Decisions are taken on ``part="tuning"``, which no final table shows: rounds of a log draw from the products kept for
tuning (`split_products`), with run numbers of their own, and generated networks have numbers from 5 on (the final
tables have 0 to 4). `studies.changed_worlds` makes further worlds of these: told per user, two contacts, drift ...

>>> from studies.changed_worlds import CHANGES
>>> from studies.worlds import log_environment, replay_environment
>>> replayed = replay_environment("christianity", k=10)  # doctest: +SKIP
>>> told_per_user = CHANGES["told per user"](log_environment("christianity", k=10), 100)  # doctest: +SKIP
"""

from __future__ import annotations

from functools import cache as remember
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from studies import DATA
from tensorucb.arrays import F64
from tensorucb.data import Dataset, digg_like, prepare, read_dataset
from tensorucb.experiments import (
    Environment,
    WorldSettings,
    environment_from_dataset,
    replay_from_dataset,
    split_products,
)

LOGS = ("digg_core", "christianity", "digg ≥ 10")
EFFECTS = {"effect 0": 0.0, "effect 1.5": 1.5, "effect 3": 3.0}
FOUR_MODES = "four modes"
REPLAYS = ("digg_core, replay", "christianity, replay")
WORLDS = (*LOGS, *REPLAYS, *EFFECTS, FOUR_MODES)
FIRST_RUN, FIRST_NETWORK = 2000, 5
JUDGED, TUNED = (3, 4), (1, 2)
"""Numbers of items modulo 5, for studies that judge on other items than decisions are made on."""
Part = Literal["tuning", "final"]
PARTS = get_args(Part)


def world(name: str, draw: int, *, data: Path = DATA, cache: Path | None = None, scale: float = 0.5) -> Environment:
    """A world by name, to decide on; generated ones are another network for each draw, logs are the same."""
    if name in LOGS:
        return log_environment(name, data=data, cache=cache)
    if name in REPLAYS:
        return replay_environment(name.split(",")[0], data=data, cache=cache)
    return _generated(name, draw, scale)


def run_number(name: str, draw: int) -> int:
    """The run that a draw plays: another one for each draw."""
    return FIRST_RUN + draw


@remember
def log_environment(
    name: str, *, k: int = 10, part: Part = "tuning", data: Path = DATA, cache: Path | None = None
) -> Environment:
    """A log with the truth that EM fits to it: by the name of its folder in ``data``, or by its path.

    "digg ≥ 10" is the log of those with ten actions or more.
    """
    world = environment_from_dataset(dataset_of(name, data), settings=WorldSettings(k=k), cache=cache)
    return split_products(world)[PARTS.index(part)]


@remember
def replay_environment(
    name: str,
    *,
    k: int = 10,
    part: Part = "tuning",
    min_actors: int = 1,
    data: Path = DATA,
    cache: Path | None = None,
) -> Environment:
    """A log that answers itself; the name as in `log_environment`."""
    settings = WorldSettings(k=k)
    world = replay_from_dataset(dataset_of(name, data), settings=settings, min_actors=min_actors, cache=cache)
    return split_products(world)[PARTS.index(part)]


def on_items(world: Environment, numbers: tuple[int, ...]) -> Environment:
    """The same world, whose rounds draw from the items with these numbers modulo 5."""
    return world.with_product_rows(world.product_rows[np.isin(world.product_rows % 5, numbers)])


@lru_cache(maxsize=4)
def dataset_of(name: str, data: Path) -> Dataset:
    """A log by the name of its folder; "digg ≥ 10" is the part of those with ten actions or more."""
    folder, _, least = name.partition(" ≥ ")
    dataset = read_dataset(data / folder)
    if least:
        dataset = prepare(
            dataset, min_interactions=int(least), drop_isolated=True, window="keep", n_products=None, rng=0
        )
    return dataset


@lru_cache(maxsize=4)
def _generated(name: str, draw: int, scale: float) -> Environment:
    rng = np.random.default_rng([0, FIRST_NETWORK + draw])
    box = digg_like(scale, rng, product_effect=EFFECTS.get(name, 1.5))
    if name in EFFECTS:
        return Environment.from_sandbox(box, name=name)
    return four_modes(box, rng)


class Contexts(list[tuple[F64, F64]]):
    """Pairs (product, strategy), counted as the rows of an array are."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of contexts, and of features of both modes together."""
        return len(self), sum(vector.size for vector in self[0])


def four_modes(box: Any, rng: np.random.Generator, *, strategies: int = 4, effect: float = 0.7) -> Environment:
    """The generated network with strategies, which the round gives: each context is a product and a strategy.

    To the logit of the generator's truth come, each of deviation ``effect``: the strategy's own effect, its effect in
    each topic of the product, and its effect on each source, half of which a column of the user features shows.
    """
    n, topics = box.graph.n_nodes, box.mixtures.shape[1]
    features = np.eye(strategies)
    own = effect * rng.normal(size=strategies)
    by_topic = effect * rng.normal(size=(topics, strategies)) / np.sqrt((box.mixtures**2).sum(axis=1).mean())
    shown = box.users[:, :1] / box.users[:, :1].std()
    by_source = effect * (shown * rng.normal(size=strategies) + rng.normal(size=(n, strategies))) / np.sqrt(2.0)
    pairs = [(product, s) for product in range(len(box.names)) for s in range(strategies)]

    def probabilities(number: int) -> F64:
        product, s = pairs[number]
        p = np.clip(box.probabilities(product), 1e-9, 1.0 - 1e-9)
        shift = own[s] + float(box.mixtures[product] @ by_topic[:, s]) + by_source[box.graph.sources, s]
        return np.asarray(1.0 / (1.0 + np.exp(-(np.log(p / (1.0 - p)) + shift))))

    contexts = Contexts((box.products[product], features[s]) for product, s in pairs)
    flat = np.array([np.concatenate(pair) for pair in contexts])
    found = Environment(box.graph, box.users, flat, probabilities, settings=WorldSettings(), name=FOUR_MODES)
    # An environment takes one vector per product; policies take one per mode.
    found.products = contexts  # type: ignore[assignment]
    return found
