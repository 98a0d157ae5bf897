"""Our default policy with parts of its model off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from tensorucb.checks import check_choice
from tensorucb.features import UserProfile
from tensorucb.graph import Graph
from tensorucb.learner import response
from tensorucb.policies import OnlineTensorUCB, Policy, TensorUCB
from tensorucb.policies._base import Floats, Ints
from tensorucb.rng import RngLike

__all__ = ["PARTS", "Ablated", "ablations"]

# Weights with so small a variance stay at zero, and zero weights keep the variance so small.
_OFF = 1e-9
_NEVER = float(np.finfo(np.float32).max)

PARTS: dict[str, Mapping[str, float]] = {
    "context main effects β": {"context_variance": _OFF},
    "interactions between modes": {"joint_variance": _OFF},
    "source features α": {"source_variance": _OFF, "trust": 0.0},
    "source features × context M": {"response_variance": _OFF},
    "own effect d_i": {"own_variance": _OFF},
    "own response d_i·x": {"own_response_variance": _OFF},
    "target features γ": {"target_variance": _OFF},
    "target offsets b_j": {"offset_variance": _OFF},
    "target taste g": {"taste_variance": _OFF},
    "trust in past influence": {"trust": 0.0},
    "learned variances": {"variance_weight": _NEVER, "unit_weight": _NEVER},
    "refits": {"growth": 1e9},
    "past influence": {},
    "past taste": {},
    "Kalman steps": {},
    "exploration": {},
}
"""Parts of the model, and the constants without each; the last four are no constants."""


class Ablated(TensorUCB):
    """`TensorUCB` with some parts off.

    Parameters
    ----------
    off
        Names of `PARTS`.
    """

    name = "TensorUCB, ablated"

    def __init__(self, off: tuple[str, ...] = ()) -> None:
        super().__init__(exploration_kind="greedy" if "exploration" in off else "ucb")
        self.off = [check_choice("off", part, tuple(PARTS)) for part in off]

    def bind(self, graph: Graph, users: ArrayLike | None, rng: RngLike = None) -> None:
        """Start again, with what is left of the profile."""
        if isinstance(users, UserProfile):
            hidden = {"taste"} if "past taste" in self.off else set()
            hidden |= {"credit", "exposure"} if "past influence" in self.off else set()
            users = UserProfile(**{name: part for name, part in users.parts().items() if name not in hidden})
        super().bind(graph, users, rng)

    def _model(self) -> response.ResponseSettings:
        changes: dict[str, float] = {}
        for part in self.off:
            changes |= PARTS[part]
        return replace(super()._model(), **changes)  # type: ignore[arg-type]

    def _learn(self, modes: tuple[Floats, ...], edges: Ints, outcomes: Floats) -> None:
        before = self._knowledge(modes)
        super()._learn(modes, edges, outcomes)
        told = self._state
        # Between refits, only the log grows.
        if "Kalman steps" in self.off and told is not None and before.rounds + 1 < before.next_fit:
            self._state = replace(before, context=told.context, log=told.log, rounds=told.rounds)


def ablations() -> dict[str, Policy]:
    """Our defaults, the defaults without each part, and some parts together."""
    several = {
        "no own effects at all": ("own effect d_i", "own response d_i·x"),
        "nothing about targets": ("target features γ", "target offsets b_j", "target taste g"),
        "no past at all": ("past influence", "past taste"),
    }
    return {
        "TensorUCB": TensorUCB(),
        **{f"without {part}": Ablated((part,)) for part in PARTS},
        **{name: Ablated(parts) for name, parts in several.items()},
        "Thompson sampling instead of optimism": TensorUCB(exploration_kind="thompson"),
        "sample by sample (OnlineTensorUCB)": OnlineTensorUCB(),
    }
