"""The policies of the package by the labels that tables show: the one list for commands, tests and benchmarks.

With a line here a new policy takes part in ``tensorucb compare`` and ``tune``, campaigns know it, it is
``tensorucb.policies.<Name>``, the tests check it and the benchmarks time it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorucb.policies._base import Policy

# Label -> file, class and arguments; ours first, then baselines, the simplest last.
REGISTRY: dict[str, tuple[str, str, dict[str, Any]]] = {
    "TensorUCB": ("tensor_ucb", "TensorUCB", {}),
    "TensorUCB (paper)": ("paper_tensor_ucb", "PaperTensorUCB", {}),
    "TensorUCB (paper, logistic)": ("paper_tensor_ucb", "PaperTensorUCB", {"likelihood": "logistic"}),
    "LogisticUCB": ("linear", "LogisticUCB", {}),
    "LinUCB": ("linear", "LinUCB", {}),
    "IMLinUCB": ("linear", "IMLinUCB", {}),
    "DILinUCB": ("linear", "DILinUCB", {}),
    "DILinUCB (original)": ("linear", "DILinUCBOriginal", {}),
    "GammaCounts": ("counts", "GammaCounts", {}),
    "IMFB": ("counts", "IMFB", {}),
    "COIN": ("counts", "COIN", {}),
    "COIN-HD": ("counts", "COIN", {"variant": "hd"}),
    "COIN+": ("counts", "COIN", {"variant": "plus"}),
    "CUCB": ("counts", "CUCB", {}),
    "Thompson": ("counts", "Thompson", {}),
    "DegreeCover": ("counts", "DegreeCover", {}),
    "HighDegree": ("counts", "HighDegree", {}),
    "Random": ("counts", "Random", {}),
}


def make_policy(label: str) -> Policy:
    """A new policy with its default settings, by its label."""
    file, name, arguments = REGISTRY[label]
    policy: Policy = getattr(importlib.import_module(f"tensorucb.policies.{file}"), name)(**arguments)
    return policy


def class_files() -> dict[str, str]:
    """The name of every registered class, and the file it lives in."""
    return {name: file for file, name, _ in REGISTRY.values()}
