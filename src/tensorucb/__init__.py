"""Online influence maximisation: learns who influences whom, for each product, and picks the next seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorucb._lazy import lazy_names

if TYPE_CHECKING:
    from tensorucb.campaign import (
        copy_campaign,
        create_campaign,
        delete_campaign,
        list_campaigns,
        load_campaign,
    )
    from tensorucb.graph import Graph
    from tensorucb.learner import TensorRegression
    from tensorucb.oracle import PairSelection, SeedOracle, Selection, select_pairs, select_seeds
    from tensorucb.policies import OnlineTensorUCB, TensorUCB

__version__ = "0.1.0"

_ROOMS = (
    *("campaign", "data", "diffusion", "errors", "experiments", "features", "graph", "learner", "oracle"),
    *("plots", "policies", "rng", "store", "truth"),
)

__all__ = [
    "Graph",
    "OnlineTensorUCB",
    "PairSelection",
    "SeedOracle",
    "Selection",
    "TensorRegression",
    "TensorUCB",
    "copy_campaign",
    "create_campaign",
    "delete_campaign",
    "list_campaigns",
    "load_campaign",
    "select_pairs",
    "select_seeds",
]


__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Graph": ".graph",
        "OnlineTensorUCB": ".policies",
        "PairSelection": ".oracle",
        "SeedOracle": ".oracle",
        "Selection": ".oracle",
        "TensorRegression": ".learner",
        "TensorUCB": ".policies",
        "copy_campaign": ".campaign",
        "create_campaign": ".campaign",
        "delete_campaign": ".campaign",
        "list_campaigns": ".campaign",
        "load_campaign": ".campaign",
        "select_pairs": ".oracle",
        "select_seeds": ".oracle",
    },
    submodules=_ROOMS,
)
