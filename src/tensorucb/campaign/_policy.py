"""Policies in a campaign: stored by name and settings, and rebuilt."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from tensorucb import policies
from tensorucb.errors import InputError, StateError
from tensorucb.policies import Policy, PolicyState
from tensorucb.policies._base import check_policy_object


def policy_spec(policy: Policy) -> dict[str, Any]:
    """The policy's type and arguments as JSON; a policy among the arguments is described in the same way.

    A policy of this package can be built again from it. One of another package, or around one of another package, can
    only be recognised by it.
    """
    check_policy_object("policy", policy)
    kind, settings = type(policy), getattr(policy, "settings", None)
    name, arguments = kind.__name__, dict(settings()) if callable(settings) else {}
    if name not in policies.__all__ or getattr(policies, name) is not kind:
        return {"type": f"{kind.__module__}:{kind.__qualname__}", "own": False, "arguments": arguments}
    inner = {key: policy_spec(value) for key in arguments if isinstance(value := getattr(policy, key, None), Policy)}
    foreign = [spec["type"] for spec in inner.values() if not spec["own"]]
    title = f"{name} around {', '.join(foreign)}" if foreign else name
    return {"type": title, "own": not foreign, "arguments": {**arguments, **inner}}


def build_policy(spec: Mapping[str, Any], given: Policy | None) -> Policy:
    """The policy of a spec; one of another package must be ``given`` and fit."""
    if given is not None:
        found = policy_spec(given)
        if json.dumps(found, sort_keys=True) != json.dumps(dict(spec), sort_keys=True):
            raise InputError(
                f"the campaign was created with policy {spec['type']} and arguments {spec['arguments']}; "
                f"got {found['type']} with {found['arguments']}. Pass the same, or none for one of this package."
            )
        if not spec["own"]:
            return given
    if not spec["own"]:
        raise StateError(
            f"the campaign's policy {spec['type']} is not of this package. Pass it again: load_campaign(…, policy=…)."
        )
    arguments = dict(spec["arguments"])
    for name, value in arguments.items():
        if isinstance(value, Mapping) and set(value) == {"type", "own", "arguments"}:  # a policy inside the policy
            arguments[name] = build_policy(value, None)
    built: Policy = getattr(policies, spec["type"])(**arguments)
    return built


def state_hash(state: PolicyState) -> str:
    """SHA-256 of a policy's state in canonical form."""
    digest = hashlib.sha256(json.dumps(dict(state.settings), sort_keys=True).encode())
    for name in sorted(state.arrays):
        array = np.ascontiguousarray(state.arrays[name])
        digest.update(f"|{name}:{array.dtype.str}:{array.shape}|".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
