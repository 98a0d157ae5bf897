"""Policies: what to believe of every edge, and who to seed next. One protocol for all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorucb._lazy import lazy_names
from tensorucb.policies._base import Grid, Oracle, Policy, PolicyState, Product, UCBPolicy
from tensorucb.policies.prediction import Prediction
from tensorucb.policies.registry import class_files

# For editors and type checkers; a name that is missing here works, and is Any to them.
if TYPE_CHECKING:
    from tensorucb.policies.check import check_policy as check_policy
    from tensorucb.policies.counts import COIN as COIN
    from tensorucb.policies.counts import CUCB as CUCB
    from tensorucb.policies.counts import IMFB as IMFB
    from tensorucb.policies.counts import DegreeCover as DegreeCover
    from tensorucb.policies.counts import GammaCounts as GammaCounts
    from tensorucb.policies.counts import HighDegree as HighDegree
    from tensorucb.policies.counts import Random as Random
    from tensorucb.policies.counts import Thompson as Thompson
    from tensorucb.policies.drift import DriftAlarm as DriftAlarm
    from tensorucb.policies.drift import DriftState as DriftState
    from tensorucb.policies.drift import ForgetOnDrift as ForgetOnDrift
    from tensorucb.policies.linear import DILinUCB as DILinUCB
    from tensorucb.policies.linear import DILinUCBOriginal as DILinUCBOriginal
    from tensorucb.policies.linear import IMLinUCB as IMLinUCB
    from tensorucb.policies.linear import LinUCB as LinUCB
    from tensorucb.policies.linear import LogisticUCB as LogisticUCB
    from tensorucb.policies.paper_tensor_ucb import FixedPointWarning as FixedPointWarning
    from tensorucb.policies.paper_tensor_ucb import PaperTensorUCB as PaperTensorUCB
    from tensorucb.policies.tensor_ucb import TensorUCB as TensorUCB

# Public name -> the file it lives in; loaded on first use, since some bring compiled kernels with them.
_FILES: dict[str, str] = {
    **{name: f".{file}" for name, file in class_files().items()},
    "DriftAlarm": ".drift",
    "DriftState": ".drift",
    "FixedPointWarning": ".paper_tensor_ucb",
    "ForgetOnDrift": ".drift",
    "check_policy": ".check",
}

__all__ = ["Grid", "Oracle", "Policy", "PolicyState", "Prediction", "Product", "UCBPolicy", *_FILES]

__getattr__, __dir__ = lazy_names(__name__, _FILES)
