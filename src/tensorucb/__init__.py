"""Online influence maximisation: learns who influences whom, for each product, and picks the next seeds."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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

# Public name -> the room it lives in; loaded on first use, so that `import tensorucb` stays quick.
_EXPORTS: dict[str, str] = {
    "Graph": "tensorucb.graph",
    "OnlineTensorUCB": "tensorucb.policies",
    "PairSelection": "tensorucb.oracle",
    "SeedOracle": "tensorucb.oracle",
    "Selection": "tensorucb.oracle",
    "TensorRegression": "tensorucb.learner",
    "TensorUCB": "tensorucb.policies",
    "copy_campaign": "tensorucb.campaign",
    "create_campaign": "tensorucb.campaign",
    "delete_campaign": "tensorucb.campaign",
    "list_campaigns": "tensorucb.campaign",
    "load_campaign": "tensorucb.campaign",
    "select_pairs": "tensorucb.oracle",
    "select_seeds": "tensorucb.oracle",
}
_ROOMS: frozenset[str] = frozenset(
    {
        "campaign",
        "data",
        "diffusion",
        "errors",
        "experiments",
        "features",
        "graph",
        "learner",
        "oracle",
        "plots",
        "policies",
        "rng",
        "store",
        "truth",
    }
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


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        value = getattr(importlib.import_module(_EXPORTS[name]), name)
        globals()[name] = value
        return value
    if name in _ROOMS:
        return importlib.import_module(f"tensorucb.{name}")
    raise AttributeError(f"module 'tensorucb' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS, *_ROOMS})
