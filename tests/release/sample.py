"""A stranger's program: every type that it relies on is written down."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import tensorucb as tu
from tensorucb.campaign import Ask, Campaign, CampaignProgress, Lift, TellReport
from tensorucb.data import make_sandbox
from tensorucb.errors import InputError
from tensorucb.experiments import Environment, Experiment, WorldSettings, compare
from tensorucb.policies import LinUCB, Policy


def played(folder: Path) -> tuple[float, CampaignProgress]:
    world = make_sandbox(100, 800, 6, rng=0)
    graph: tu.Graph = world.graph
    policy: Policy = tu.TensorUCB(exploration=0.5)
    campaign: Campaign = tu.create_campaign(
        "spring", graph=graph, users=world.users, policy=policy, storage=f"sqlite:///{folder}/campaigns.db"
    )
    ask: Ask = campaign.ask(world.products[0], k=5, exclude=[3], window="7d")
    seeds: tuple[int | str, ...] = ask.seeds
    told: TellReport = campaign.tell(ask.id, [{"user": int(graph.ids[0]), "time": ask.opened + 1.0}])
    campaign.close(ask, early=True)
    try:
        lift: Lift | None = campaign.lift()
    except InputError:
        lift = None
    beliefs: NDArray[np.float64] = campaign.probabilities(world.products[1])
    pick = tu.select_seeds(graph, beliefs, k=len(seeds), rng=0)
    spread: float = pick.spread
    assert lift is None or lift.low <= lift.high
    assert told.duplicates >= 0
    return spread, campaign.progress()


def compared() -> Experiment:
    world = Environment.from_sandbox(make_sandbox(60, 400, 12, rng=0), settings=WorldSettings(k=3))
    return compare(world, ["HighDegree", LinUCB(exploration=0.2)], rounds=10, runs=2)


learner: tu.TensorRegression = tu.TensorRegression(dims=(3, 4), rank=2, rng=0)
mean, variance = learner.predict([np.ones((1, 3)), np.ones((1, 4))])
total: float = float(mean.sum() + variance.sum())
