"""JSON that commands and the service share: records as documents, and a policy by its name and arguments."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from tensorucb import policies
from tensorucb.campaign._ask import Ask
from tensorucb.checks import refusal
from tensorucb.errors import InputError
from tensorucb.policies import Policy

_ABSTRACT = ("UCBPolicy", "Policy")


def fields(value: Any) -> Any:
    """A record as JSON; fields that refer to the running program are left out."""
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value) if not field.name.startswith("_")]
        return {name: fields(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {name: fields(entry) for name, entry in value.items()}
    return [fields(entry) for entry in value] if isinstance(value, list | tuple) else value


def ask_document(ask: Ask) -> dict[str, Any]:
    """A round as JSON."""
    document = fields(ask)
    return {"round": document.pop("id"), **document}


def policy_named(name: Any, settings: str | dict[str, Any]) -> Policy:
    """A policy by its name; an argument ``policy`` is the name of another, or its ``type`` and ``arguments``."""
    known = [each for each in policies.__all__ if hasattr(getattr(policies, each), "bind") and each not in _ABSTRACT]
    if name not in known:
        raise refusal("policy", f"one of {', '.join(known)}", name)
    wanted = f"the arguments of {name} as a JSON object"
    try:
        arguments = json.loads(settings) if isinstance(settings, str) else settings
        if not isinstance(arguments, dict):
            raise refusal("policy_settings", wanted, arguments)
        if isinstance(inner := arguments.get("policy"), str | dict):
            spec = {"type": inner} if isinstance(inner, str) else inner
            arguments = {**arguments, "policy": policy_named(spec.get("type"), spec.get("arguments", {}))}
        built: Policy = getattr(policies, name)(**arguments)
    except InputError:
        raise
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"must be {wanted} ({error}).", argument="policy_settings") from error
    return built
