"""Whether two asks with one ``request_id`` are the same question."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import numpy as np

from tensorucb.campaign._ask import Request
from tensorucb.campaign._store import RoundRecord
from tensorucb.campaign._world import World
from tensorucb.errors import InputError

__all__ = ["check_same", "fingerprint"]


def fingerprint(world: World, request: Request, deadline: Any) -> dict[str, str]:
    """A digest of each argument by what it means; arguments that were left out, or mean the same, are not in it.

    Lists of users are sets, and an empty one of users to exclude or to include is none. Users count by key, so that
    the digest of somebody who is forgotten says nothing. ``deadline`` is as the caller gave it: one from now on must
    not differ because time goes by.
    """
    means: dict[str, Any] = {
        "product": [vector.tolist() for vector in request.vectors],
        "k": request.k,
        "exclude": _keys(world, request.exclude) or None,
        "candidates": _keys(world, request.candidates),
        "must_include": _keys(world, request.must_include) or None,
        "cooldown": request.cooldown,
        "costs": _column(request.costs, world.costs),
        "budget": None if request.budget is None else float(request.budget),
        "groups": _column(request.groups, world.groups),
        "quotas": _quotas(request.quotas),
        "holdout": request.holdout or None,
        "shadow": _keys(world, request.shadow),
        "window": request.window,
        "deadline": ["from now", deadline.total_seconds()] if isinstance(deadline, timedelta) else request.deadline,
        "credit": request.credit,
        "objective": request.objective,
        "epsilon": request.epsilon,
    }
    return {name: _digest(value) for name, value in means.items() if value is not None}


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


def _keys(world: World, ids: Any) -> list[int] | None:
    return None if ids is None else np.unique(world.keys[world.graph.rows(ids)]).tolist()


def _column(values: Any, default: Any) -> list[Any] | None:
    if values is None or (default is not None and np.array_equal(np.asarray(values), default)):
        return None
    return [value if isinstance(value, int | float) else str(value) for value in np.asarray(values).tolist()]


def _quotas(quotas: Any) -> Any:
    if isinstance(quotas, Mapping):
        return sorted([str(label), int(most)] for label, most in quotas.items())
    return None if quotas is None else int(quotas)


def check_same(record: RoundRecord, request: Request, found: Mapping[str, str]) -> None:
    """An error that names the arguments in which this request differs from the one that opened the round."""
    held = record.payload.get("request")
    if held is None:
        # Opened by an earlier version, which kept no more than this.
        same = record.payload["product"]["vectors"] == [vector.tolist() for vector in request.vectors]
        differs = ([] if same else ["product"]) + ([] if record.payload["k"] == request.k else ["k"])
    else:
        differs = [name for name in {**held, **found} if held.get(name) != found.get(name)]
    if differs:
        raise InputError(
            f"request_id {request.request_id!r} has opened round {record.id} with other values of "
            f"{', '.join(differs)}. Use a new request_id for a new question."
        )
