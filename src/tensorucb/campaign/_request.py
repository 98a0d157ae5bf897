"""The question of an ask: its arguments, with the campaign's defaults, checked once and in graph rows."""

from __future__ import annotations

import difflib
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import I64
from tensorucb.campaign._catalogue import Catalogue, Context, read_contacts, read_context, read_strategies
from tensorucb.campaign._network import Network
from tensorucb.campaign._told import check_credit
from tensorucb.checks import (
    check_choice,
    check_count,
    check_flag,
    check_mapping,
    check_number,
    check_share,
    check_text,
    refusal,
    shown,
)
from tensorucb.errors import InputError, argument
from tensorucb.graph._arguments import check_values
from tensorucb.graph._ids import id_array
from tensorucb.moments import check_moment, duration, duration_text, is_moment
from tensorucb.store._protocol import RoundRecord

_USERS = ("exclude", "candidates", "must_include")
_SINGLE = ("k", "per_user", "cooldown", "budget", "holdout", "window", "credit", "objective", "epsilon")
_SETTINGS = ("credit", "objective", "epsilon", "window")  # that a campaign always has
_SPANS = ("cooldown", "window")
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


@dataclass(frozen=True)
class Request:
    """The arguments of `Campaign.ask`: users as graph rows, and the campaign's settings for what was left out.

    ``shadow_strategies`` and ``user_strategies`` are the places of the strategies, among those offered, that go to
    ``shadow`` and to ``users``, the list that a person accepted.
    ``fingerprint`` is a digest of each argument, to recognise the same question; empty without a ``request_id``.
    """

    context: Context
    strategies: Catalogue | None
    per_user: bool
    k: int | None
    exclude: I64 | None
    candidates: I64 | None
    must_include: I64 | None
    cooldown: float | None
    costs: NDArray[np.float64] | None
    budget: float | None
    groups: NDArray[Any] | None
    quotas: Mapping[Any, int] | int | None
    holdout: float
    shadow: I64 | None
    shadow_strategies: tuple[int, ...] | None
    users: I64 | None
    user_strategies: tuple[int, ...] | None
    window: float | None
    deadline: float | None
    credit: str
    objective: str
    epsilon: float
    request_id: str | None
    fingerprint: Mapping[str, str]

    @property
    def sizes(self) -> list[int]:
        """Lengths of the feature vectors of the context: of the product, the strategy if there is one, and the rest."""
        first, *rest = [int(vector.size) for vector in self.context.vectors]
        offered = None if self.strategies is None else self.strategies.features
        return [first, *rest] if offered is None else [first, int(offered.shape[1]), *rest]


def _deadline(value: Any, now: float) -> float | None:
    """Unix seconds of a number, a datetime (UTC without a zone) or a span from now; it must be in the future."""
    if value is None:
        return None
    try:
        at = now + duration("deadline", value) if _from_now(value) else check_moment("deadline", value)
    except InputError:
        at = math.nan
    if not is_moment(at):
        wanted = "unix seconds, a datetime, or a span from now such as '3d' or a timedelta; in the years 1 to 9999"
        raise refusal("deadline", wanted, value)
    if at <= now:
        raise refusal("deadline", "in the future", value, "To end a round now, close or cancel it.")
    return at


def _from_now(deadline: Any) -> bool:
    return isinstance(deadline, timedelta | str)


def read_request(
    given: Mapping[str, Any],
    settings: Mapping[str, Any],
    network: Network,
    catalogues: tuple[Catalogue, Catalogue],
    now: float,
) -> Request:
    """Check the arguments of `Campaign.ask`, given by name, and look up the users, products and strategies they name.

    ``settings`` are the campaign's, for what was left out, its defaults of `ask` first; ``catalogues`` are of products
    and of strategies.
    """
    context, wanted = read_context(given["product"], *catalogues), given["k"]
    # To seconds first: the campaign keeps its own as seconds.
    lengths = {name: duration(name, given[name], zero=name == "cooldown") for name in _SPANS if given[name] is not None}
    given = {**given, **lengths}
    given = with_defaults(given, settings.get("ask", {}), network, has_strategy=context.strategy is not None)
    given = {**given, **{name: settings[name] for name in _SETTINGS if given[name] is None}}
    plain: dict[str, Any] = {
        # A cooldown of 0 is none, whatever the campaign's default.
        "cooldown": given["cooldown"] or None,
        "window": given["window"],
        "deadline": _deadline(given["deadline"], now),
        "credit": check_credit(given["credit"]),
        "objective": check_choice("objective", given["objective"], ("cascade", "direct")),
        "epsilon": check_share("epsilon", given["epsilon"], zero=False, one=False),
        "k": None if given["k"] is None else check_count("k", given["k"], 1),
        "budget": None if given["budget"] is None else check_number("budget", given["budget"], strict=True),
        "request_id": None if given["request_id"] is None else check_text("request_id", given["request_id"]),
        "holdout": 0.0 if given["holdout"] is None else check_share("holdout", given["holdout"], one=False),
    }
    if given["shadow"] is not None and plain["holdout"]:
        raise InputError("contacts nobody, so there is no hold-out; leave one of them out.", argument="shadow")
    offered = read_strategies(given["strategies"], catalogues[1])
    per_user = given["per_user"] is not None and check_flag("per_user", given["per_user"])
    if per_user and offered is None:
        advice = "Give ", argument("strategies"), ": 'all', or ids from the campaign's catalogue."
        raise InputError("needs strategies.", argument="per_user", advice=advice)
    if offered is not None and context.strategy is not None:
        raise InputError(
            f"names the strategy {shown(context.strategy)}, and ",
            argument("strategies"),
            " asks for a choice. Leave one of them out.",
            argument="product",
        )
    others, theirs = read_contacts("shadow", given["shadow"], offered)
    listed, gets = read_contacts("users", given["users"], offered)
    lists = {name: given[name] for name in ("exclude", "candidates", "must_include")}
    users = {**lists, "shadow": others, "users": listed}
    rows: dict[str, Any] = {name: None if ids is None else network.graph.rows(ids) for name, ids in users.items()}
    if rows["users"] is not None:
        plain["k"] = _length(rows["users"], wanted, others)
    elif rows["shadow"] is not None and plain["k"] is None and plain["budget"] is None:
        plain["k"] = rows["shadow"].size  # what we would have chosen is as many
    request = Request(
        context=context,
        strategies=offered,
        per_user=per_user,
        shadow_strategies=theirs,
        user_strategies=gets,
        quotas=_checked_quotas(given["quotas"]),
        costs=network.costs if given["costs"] is None else check_values(network.graph, given["costs"], "costs"),
        groups=network.groups if given["groups"] is None else id_array(given["groups"], "groups"),
        fingerprint={},
        **rows,
        **plain,
    )
    return request if request.request_id is None else replace(request, fingerprint=_digests(network, request, given))


def _length(users: I64, k: Any, shadow: Any) -> int:
    """How many users a list names; an error if the rest of the question does not fit to a list."""
    if shadow is not None:
        raise InputError(
            "are to be contacted, and ",
            argument("shadow"),
            " were contacted by others; leave one of them out.",
            argument="users",
        )
    if not users.size:
        raise InputError("must name at least one user; leave it out to have them chosen.", argument="users")
    if k is not None and check_count("k", k, 1) != users.size:
        raise InputError(f"= {k}, but ", argument("users"), f" names {users.size}. Leave it out.", argument="k")
    return int(users.size)


def _checked_quotas(quotas: Any) -> Mapping[Any, int] | int | None:
    if isinstance(quotas, Mapping):
        named = check_mapping("quotas", quotas, "a mapping of groups to counts").items()
        return {label: check_count(f"the quota of group {shown(label)}", most, 0, 2**62) for label, most in named}
    return None if quotas is None else check_count("quotas", quotas, 0, 2**62)


def _digests(network: Network, request: Request, given: Mapping[str, Any]) -> dict[str, str]:
    """A digest of each argument by what it means; arguments that were left out, or mean the same, are not in it.

    Lists of users are sets, and an empty one of users to exclude or to include is none. Users count by key, so that
    the digest of somebody who is forgotten says nothing. A deadline counts as the caller gave it: one from now on must
    not differ because time goes by.
    """
    deadline, quotas = given["deadline"], cast("Any", request.quotas)
    vectors = [vector.tolist() for vector in request.context.vectors]
    if isinstance(quotas, Mapping):
        quotas = sorted([str(label), most] for label, most in quotas.items())
    means: dict[str, Any] = {
        **{name: getattr(request, name) for name in ("k", "cooldown", "budget", *_SETTINGS)},
        # A strategy of the catalogue that costs something is more than its features.
        "product": [vectors, request.context.cost] if request.context.cost else vectors,
        "strategies": None if request.strategies is None else list(request.strategies.ids),
        "per_user": request.per_user or None,
        "exclude": _keys(network, request.exclude) or None,
        "candidates": _keys(network, request.candidates),
        "must_include": _keys(network, request.must_include) or None,
        "costs": _column(given["costs"], network.costs),
        "groups": _column(given["groups"], network.groups),
        "quotas": quotas,
        "holdout": request.holdout or None,
        "shadow": _contacts(network, request.shadow, request.shadow_strategies),
        "users": _contacts(network, request.users, request.user_strategies),
        "deadline": ["from now", duration("deadline", deadline)] if _from_now(deadline) else request.deadline,
    }
    used = {name: json.dumps(value) for name, value in means.items() if value is not None}
    return {name: hashlib.sha256(text.encode()).hexdigest()[:16] for name, text in used.items()}


def _keys(network: Network, rows: I64 | None) -> list[int] | None:
    return None if rows is None else np.unique(network.keys[rows]).tolist()


def _contacts(network: Network, rows: I64 | None, strategies: tuple[int, ...] | None) -> list[Any] | None:
    if rows is None or strategies is None:
        return _keys(network, rows)
    return sorted([key, place] for key, place in zip(network.keys[rows].tolist(), strategies, strict=True))


def _column(values: Any, default: Any) -> list[Any] | None:
    if values is None or (default is not None and np.array_equal(np.asarray(values), default)):
        return None
    return [value if isinstance(value, int | float) else str(value) for value in np.asarray(values).tolist()]


def check_same(record: RoundRecord, request: Request) -> None:
    """An error that names the arguments in which this request differs from the one that opened the round."""
    held = record.payload["request"]
    found = request.fingerprint
    differs = [name for name in {**held, **found} if held.get(name) != found.get(name)]
    if differs:
        raise InputError(
            f"{request.request_id!r} has opened round {record.id} with other values of {', '.join(differs)}.",
            argument="request_id",
            advice="Use a new one for a new question.",
        )
