"""Defaults of `Campaign.ask` that a campaign keeps: given when it is created, used for arguments left out later."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorucb.campaign._network import Network
from tensorucb.checks import check_mapping, refusal, shown
from tensorucb.errors import InputError
from tensorucb.moments import duration, duration_text

if TYPE_CHECKING:
    from tensorucb.campaign._request import Request

_USERS = ("exclude", "candidates", "must_include")
_SINGLE = ("k", "per_user", "cooldown", "budget", "holdout", "window", "credit", "objective", "epsilon")
NAMES = (*_SINGLE, *_USERS, "strategies", "quotas", "deadline")


def named_defaults(ask: Any) -> dict[str, Any]:
    """The defaults that a caller gave, by argument of `Campaign.ask`; None counts as left out."""
    named = check_mapping("ask", ask, "a mapping of arguments of Campaign.ask to values")
    for name in named:
        if name not in NAMES:
            near = difflib.get_close_matches(str(name), NAMES, 1)
            hint = f"Did you mean {near[0]}?" if near else f"There are {', '.join(NAMES)}."
            raise InputError(f"ask has no default {shown(name)}. {hint}")
    given = {name: value for name, value in named.items() if value is not None}
    if not isinstance(given.get("deadline", ""), str | timedelta):
        raise refusal("the deadline in ask", "a span from now such as '3d', for all rounds", given["deadline"])
    return given


def stored_defaults(named: Mapping[str, Any], request: Request, network: Network) -> dict[str, Any]:
    """Defaults as the store keeps them, from a request that was read with them: JSON, users by key.

    A key says nothing once its user is forgotten. A deadline is kept as text, since a number would be a moment.
    """
    kept = {name: getattr(request, name) for name in _SINGLE}
    for name in _USERS:
        rows = getattr(request, name)
        kept[name] = None if rows is None else network.keys[rows].tolist()
    kept["strategies"] = "all"  # those that are added later as well
    if request.strategies is not None and not isinstance(named["strategies"], str):
        kept["strategies"] = list(request.strategies.ids)
    kept["quotas"] = request.quotas
    if isinstance(request.quotas, Mapping):
        kept["quotas"] = {str(label): most for label, most in request.quotas.items()}
    if "deadline" in named:
        kept["deadline"] = duration_text(duration("deadline", named["deadline"]))
    return {name: kept[name] for name in named}


def shown_defaults(kept: Mapping[str, Any], network: Network) -> dict[str, Any]:
    """Stored defaults with users by id; those of users who are gone are left out."""
    return {name: network.ids(kept[name]) if name in _USERS else kept[name] for name in NAMES if name in kept}


def with_defaults(
    given: Mapping[str, Any], kept: Mapping[str, Any], network: Network, *, has_strategy: bool
) -> dict[str, Any]:
    """The arguments of an ask, with the stored defaults for those left out.

    What the caller says comes first, and a default that contradicts it is not used: a shadow round has no hold-out,
    and there is nothing to choose where the product or the shadow names the strategy.
    """
    used = {name: value for name, value in shown_defaults(kept, network).items() if given[name] is None}
    unused = set()
    if given["shadow"] is not None:
        unused.add("holdout")
    if has_strategy or not (given["shadow"] is None or isinstance(given["shadow"], Mapping)):
        unused |= {"strategies", "per_user"}
    if isinstance(used.get("quotas"), Mapping):
        used["quotas"] = _by_label(used["quotas"], network.groups if given["groups"] is None else given["groups"])
    return {**given, **{name: value for name, value in used.items() if name not in unused}}


def _by_label(quotas: Mapping[str, int], groups: Any) -> dict[int | str, int]:
    """Quotas by the groups' own labels, which may be numbers; JSON and TOML have texts there."""
    numbers = groups is not None and np.asarray(groups).dtype.kind in "iu"
    return {
        int(label) if numbers and label.removeprefix("-").isdecimal() else label: most for label, most in quotas.items()
    }
