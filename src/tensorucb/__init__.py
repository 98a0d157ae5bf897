"""Online influence maximisation: learns which users influence which others, for each product, and picks seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorucb._lazy import lazy_names

# For editors and type checkers; at run time the names below are loaded on first use.
if TYPE_CHECKING:
    from tensorucb.campaign import copy_campaign as copy_campaign
    from tensorucb.campaign import create_campaign as create_campaign
    from tensorucb.campaign import delete_campaign as delete_campaign
    from tensorucb.campaign import list_campaigns as list_campaigns
    from tensorucb.campaign import load_campaign as load_campaign
    from tensorucb.graph import Graph as Graph
    from tensorucb.learner import TensorRegression as TensorRegression
    from tensorucb.oracle import Constraints as Constraints
    from tensorucb.oracle import PairSelection as PairSelection
    from tensorucb.oracle import Sampling as Sampling
    from tensorucb.oracle import SeedOracle as SeedOracle
    from tensorucb.oracle import Selection as Selection
    from tensorucb.oracle import select_pairs as select_pairs
    from tensorucb.oracle import select_seeds as select_seeds
    from tensorucb.policies import TensorUCB as TensorUCB

__version__ = "0.1.0"

_ROOMS = (
    *("campaign", "client", "data", "diffusion", "engines", "errors", "experiments", "features", "graph"),
    *("learner", "oracle", "plots", "policies", "rng", "service", "store", "truth"),
)
_NAMES = {
    **dict.fromkeys(("copy_campaign", "create_campaign", "delete_campaign"), ".campaign"),
    **dict.fromkeys(("list_campaigns", "load_campaign"), ".campaign"),
    "Graph": ".graph",
    "TensorRegression": ".learner",
    **dict.fromkeys(("Constraints", "PairSelection", "Sampling", "SeedOracle", "Selection"), ".oracle"),
    **dict.fromkeys(("select_pairs", "select_seeds"), ".oracle"),
    "TensorUCB": ".policies",
}

__all__ = sorted(_NAMES)

__getattr__, __dir__ = lazy_names(__name__, _NAMES, submodules=_ROOMS)
