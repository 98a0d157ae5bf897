"""The arguments of an ask, checked; and whether two asks with one ``request_id`` are the same question."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import numpy as np

from tensorucb.campaign._ask import Request
from tensorucb.campaign._catalogue import Catalogue, read_context, read_shadow, read_strategies
from tensorucb.campaign._credit import check_credit
from tensorucb.campaign._world import World
from tensorucb.checks import check_choice, check_count, check_flag, check_number, check_share, check_text, shown
from tensorucb.errors import InputError
from tensorucb.store._protocol import RoundRecord

__all__ = ["check_same", "fingerprint", "make_request"]


def make_request(
    settings: Mapping[str, Any],
    products: Catalogue,
    known: Catalogue,
    *,
    product: Any,
    strategies: Any,
    per_user: bool,
    shadow: Any,
    holdout: float,
    **given: Any,
) -> Request:
    """The arguments of `Campaign.ask`, checked, with the campaign's settings for what was left out."""
    for name in ("credit", "objective", "epsilon", "window"):
        if given[name] is None:
            given[name] = settings[name]
    check_credit(given["credit"])
    check_choice("objective", given["objective"], ("cascade", "direct"))
    given["epsilon"] = check_share("epsilon", given["epsilon"], zero=False, one=False)
    given["k"] = None if given["k"] is None else check_count("k", given["k"], 1)
    if given["budget"] is not None:
        given["budget"] = check_number("budget", given["budget"], strict=True)
    if given["request_id"] is not None:
        check_text("request_id", given["request_id"])
    holdout = check_share("holdout", holdout, one=False)
    if shadow is not None and holdout:
        raise InputError("a shadow round contacts nobody, so it has no hold-out; leave one of them out.")
    context, offered = read_context(product, products, known), read_strategies(strategies, known)
    per_user = check_flag("per_user", per_user)
    if per_user and offered is None:
        raise InputError("per_user=True needs strategies: 'all', or ids from the campaign's catalogue.")
    if offered is not None and context.strategy is not None:
        raise InputError(
            f"the product names the strategy {shown(context.strategy)}, and strategies= asks for a choice. "
            "Leave one of them out."
        )
    others, theirs = read_shadow(shadow, offered)
    return Request(
        context=context,
        strategies=offered,
        per_user=per_user,
        shadow=others,
        shadow_strategies=theirs,
        holdout=holdout,
        **given,
    )


def fingerprint(world: World, request: Request, deadline: Any) -> dict[str, str]:
    """A digest of each argument by what it means; arguments that were left out, or mean the same, are not in it.

    Lists of users are sets, and an empty one of users to exclude or to include is none. Users count by key, so that
    the digest of somebody who is forgotten says nothing. ``deadline`` is as the caller gave it: one from now on must
    not differ because time goes by.
    """
    means: dict[str, Any] = {
        "product": _product(request),
        "strategies": None if request.strategies is None else list(request.strategies.ids),
        "per_user": request.per_user or None,
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
        "shadow": _shadow(world, request),
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


def _product(request: Request) -> list[Any]:
    """Its features; a strategy of the catalogue that costs something is more than its features."""
    vectors = [vector.tolist() for vector in request.context.vectors]
    return [vectors, request.context.cost] if request.context.cost else vectors


def _shadow(world: World, request: Request) -> list[Any] | None:
    if request.shadow is None or request.shadow_strategies is None:
        return _keys(world, request.shadow)
    keys = world.keys[world.graph.rows(request.shadow)].tolist()
    return sorted([key, place] for key, place in zip(keys, request.shadow_strategies, strict=True))


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
        same = record.payload["product"]["vectors"] == [vector.tolist() for vector in request.context.vectors]
        differs = ([] if same else ["product"]) + ([] if record.payload["k"] == request.k else ["k"])
    else:
        differs = [name for name in {**held, **found} if held.get(name) != found.get(name)]
    if differs:
        raise InputError(
            f"request_id {request.request_id!r} has opened round {record.id} with other values of "
            f"{', '.join(differs)}. Use a new request_id for a new question."
        )
