"""Checks of what every experiment is given: a world, policies, rounds, runs and a seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorucb.checks import check_callable, check_count, check_instance, check_mapping, check_text, shown
from tensorucb.errors import InputError
from tensorucb.experiments._environment import Environment
from tensorucb.policies import Policy
from tensorucb.policies._base import check_policy_object


def check_environment(environment: Any) -> Environment:
    """An `Environment`."""
    return check_instance(
        "environment", environment, Environment, "an Environment", "Environment.from_sandbox makes one."
    )


def check_policies(policies: Any) -> Mapping[str, Policy]:
    """Policies by label, at least one."""
    found = check_mapping("policies", policies, "a mapping of labels to policies")
    for label, policy in found.items():
        check_policy_object(f"policies[{shown(label)}]", policy)
        check_text("the label of a policy", label)
    if not found:
        raise InputError("policies must hold at least one policy; got none.")
    return found


def check_rounds(name: str, value: Any, low: int = 1) -> int:
    """A number of rounds or runs."""
    return check_count(name, value, low, 10_000_000)


def check_seed(name: str, value: Any) -> int:
    """A seed, or the number of a run."""
    return check_count(name, value, 0, 2**63 - 1)


def check_report(name: str, value: Any) -> None:
    """A function that is told how far the work is, or None."""
    if value is not None:
        check_callable(name, value, "a function, or None")
