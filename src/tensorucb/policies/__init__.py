"""Policies: what to believe of every edge, and who to seed next. One file each, one protocol for all."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tensorucb.policies._base import BasePolicy as BasePolicy
from tensorucb.policies._base import Grid as Grid
from tensorucb.policies._base import Oracle as Oracle
from tensorucb.policies._base import Policy as Policy
from tensorucb.policies._base import PolicyState as PolicyState
from tensorucb.policies._base import Product as Product
from tensorucb.policies.registry import class_files

# For editors and type checkers; a name that is missing here works, and is Any to them.
if TYPE_CHECKING:
    from tensorucb.policies.beliefs import Beliefs as Beliefs
    from tensorucb.policies.beliefs import expected_probabilities as expected_probabilities
    from tensorucb.policies.check import check_policy as check_policy
    from tensorucb.policies.coin import COIN as COIN
    from tensorucb.policies.cucb import CUCB as CUCB
    from tensorucb.policies.dilinucb import DILinUCB as DILinUCB
    from tensorucb.policies.dilinucb_original import DILinUCBOriginal as DILinUCBOriginal
    from tensorucb.policies.drift import DriftAlarm as DriftAlarm
    from tensorucb.policies.drift import DriftState as DriftState
    from tensorucb.policies.drift import ForgetOnDrift as ForgetOnDrift
    from tensorucb.policies.gamma_counts import GammaCounts as GammaCounts
    from tensorucb.policies.high_degree import HighDegree as HighDegree
    from tensorucb.policies.imfb import IMFB as IMFB
    from tensorucb.policies.imlinucb import IMLinUCB as IMLinUCB
    from tensorucb.policies.linucb import LinUCB as LinUCB
    from tensorucb.policies.logistic_ucb import LogisticUCB as LogisticUCB
    from tensorucb.policies.online_tensor_ucb import FixedPointWarning as FixedPointWarning
    from tensorucb.policies.online_tensor_ucb import OnlineTensorUCB as OnlineTensorUCB
    from tensorucb.policies.random import Random as Random
    from tensorucb.policies.tensor_ucb import TensorUCB as TensorUCB
    from tensorucb.policies.thompson import Thompson as Thompson

# Public name -> the file it lives in; loaded on first use, since some bring compiled kernels with them.
_EXPORTS: dict[str, str] = {
    **class_files(),
    "Beliefs": "beliefs",
    "DriftAlarm": "drift",
    "DriftState": "drift",
    "FixedPointWarning": "online_tensor_ucb",
    "ForgetOnDrift": "drift",
    "OnlineTensorUCB": "online_tensor_ucb",
    "check_policy": "check",
    "expected_probabilities": "beliefs",
}

__all__ = ["BasePolicy", "Grid", "Oracle", "Policy", "PolicyState", "Product", *_EXPORTS]


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        value = getattr(importlib.import_module(f"tensorucb.policies.{_EXPORTS[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'tensorucb.policies' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS})
