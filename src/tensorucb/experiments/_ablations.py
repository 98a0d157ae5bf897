"""Our default policy with one idea off at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from tensorucb.errors import InputError
from tensorucb.features import UserProfile
from tensorucb.graph import Graph
from tensorucb.learner import response
from tensorucb.policies import OnlineTensorUCB, Policy, TensorUCB
from tensorucb.rng import RngLike

__all__ = ["Ablated", "ablations"]

_OFF = 1e-6
_NEVER = float(np.finfo(np.float32).max)


class Ablated(TensorUCB):
    """`TensorUCB` with some of the learner's constants changed, or parts of the users' profile withheld.

    Parameters
    ----------
    changes
        Constants of `tensorucb.learner.response.ResponseSettings` and their values.
    withheld
        ``"taste"`` and ``"influence"``: parts of a `UserProfile` that the policy does not get to see.
    """

    name = "TensorUCB, ablated"

    def __init__(self, changes: Mapping[str, float] | None = None, withheld: tuple[str, ...] = ()) -> None:
        super().__init__()
        unknown = set(withheld) - {"taste", "influence"}
        if unknown:
            raise InputError(f"withheld names {sorted(unknown)[0]!r}; it may name 'taste' and 'influence'.")
        self.changes, self.withheld = dict(changes or {}), list(withheld)

    def bind(self, graph: Graph, users: ArrayLike | None, rng: RngLike = None) -> None:
        """Start anew, with what is left of the profile."""
        if isinstance(users, UserProfile):
            parts = dict(users.parts())
            for name in ("taste",) if "taste" in self.withheld else ():
                parts.pop(name, None)
            for name in ("credit", "exposure") if "influence" in self.withheld else ():
                parts.pop(name, None)
            users = UserProfile(**parts)
        super().bind(graph, users, rng)

    def _model(self) -> response.ResponseSettings:
        return replace(super()._model(), **self.changes)  # type: ignore[arg-type]


def ablations() -> dict[str, Policy]:
    """Our defaults, and the defaults with one idea off at a time."""
    return {
        "TensorUCB": TensorUCB(),
        "no exploration": TensorUCB(exploration_kind="greedy"),
        "Thompson sampling instead of optimism": TensorUCB(exploration_kind="thompson"),
        "no effects per source": Ablated(_no_own_effects()),
        "effects per source blind to the product": Ablated({"own_response_variance": _OFF}),
        "no effects per target": Ablated({"offset_variance": _OFF}),
        "features do not respond to products": Ablated({"response_variance": _OFF, "variance_weight": _NEVER}),
        "products have no main effect": Ablated({"context_variance": _OFF, "variance_weight": _NEVER}),
        "variances not learned": Ablated({"unit_weight": _NEVER, "variance_weight": _NEVER}),
        "no trust in past influence": Ablated({"trust": 0.0}),
        "no past influence": Ablated(withheld=("influence",)),
        "no past tastes": Ablated(withheld=("taste",)),
        "no past at all": Ablated(withheld=("influence", "taste")),
        "sample by sample (OnlineTensorUCB)": OnlineTensorUCB(),
    }


def _no_own_effects() -> dict[str, float]:
    return {"own_variance": _OFF, "own_response_variance": _OFF, "unit_weight": _NEVER}
