"""The arguments of an ask become a `Question`: the campaign's defaults filled in, checked once, users in graph rows."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tensorucb.arrays import I64
from tensorucb.campaign._catalogue import Catalogue, Contacts, read_contacts, read_context, read_strategies
from tensorucb.campaign._network import Network
from tensorucb.campaign._round import UNKNOWN_LIST, Round
from tensorucb.checks import (
    check_choice,
    check_count,
    check_flag,
    check_mapping,
    check_number,
    check_share,
    check_slug,
    check_text,
    plain,
    refusal,
    shown,
)
from tensorucb.errors import InputError, ShapeError, argument, call
from tensorucb.graph._arguments import check_values
from tensorucb.graph._ids import id_array
from tensorucb.moments import check_zone, duration, duration_text, is_moment, unix_seconds
from tensorucb.question import ARGUMENTS, SETTINGS, STORED, USER_LISTS, Argument, Question, metadata_of

_CAP = re.compile("([1-9][0-9]{0,8})/(.+)")
_NO_TERMS = (*USER_LISTS, "deadline")
_ONE_EACH = "One entry per user, in the order of ", call("users"), "."


@dataclass(frozen=True)
class Reader:
    """What reads questions: it knows the campaign's settings, its network and catalogues, and the time."""

    settings: Mapping[str, Any]
    network: Network
    catalogues: tuple[Catalogue, Catalogue]
    now: float

    def read(self, arguments: Mapping[str, Any]) -> Question:
        """The question of these arguments of `Campaign.ask`; those left out, or None, are the campaign's defaults."""
        product = read_context(arguments.get("product"), *self.catalogues)
        all_arguments = self._with_defaults(arguments, has_strategy=product.strategy is not None)
        read: dict[str, Any] = {"product": product}
        for name, about in ARGUMENTS.items():
            if name not in read:
                read[name] = self._value(name, about, all_arguments.get(name), read)
        question = Question(**_consistent(read, arguments.get("k")))
        if question.request_id is None:
            return question
        return replace(question, fingerprint=self._digests(question, all_arguments))

    def stored(self, question: Question, named: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, I64]]:
        """Defaults as the store keeps them: JSON in the settings, and lists of users, which the network keeps."""
        values = {name: getattr(question, name) for name in named if getattr(question, name) is not None}
        users = {name: value for name, value in values.items() if name in USER_LISTS}
        kept = {name: self._plain(name, value, named[name]) for name, value in values.items() if name not in users}
        if isinstance(named.get("strategies"), str):
            kept["strategies"] = "all"  # those that are added later as well
        return kept, users

    def terms(self, question: Question) -> dict[str, Any]:
        """What a round is opened with beside its users and its deadline, as JSON; what is not used is not there."""
        terms = {name: self._plain(name, getattr(question, name), None) for name in STORED if name not in _NO_TERMS}
        caps = {name: self.settings[name] for name in ("contact_cap", "contact_group") if name in self.settings}
        return {name: value for name, value in terms.items() if value not in (None, False, 0.0)} | caps

    def _with_defaults(self, arguments: Mapping[str, Any], *, has_strategy: bool) -> dict[str, Any]:
        """The arguments, with the stored defaults for those left out.

        What the caller says comes first, and a default that contradicts it is not used: a shadow round has no hold-out,
        and there is nothing to choose where the product or the shadow names the strategy.
        """
        caller_arguments = {name: value for name, value in arguments.items() if value is not None}
        unused: set[str] = set()
        if "shadow" in caller_arguments:
            unused.add("holdout")
        if has_strategy or not isinstance(caller_arguments.get("shadow", {}), Mapping):
            unused |= {"strategies", "per_user"}
        kept = {name: value for name, value in self.settings.get("ask", {}).items() if name not in unused}
        return {**shown_defaults(kept, self.network), **caller_arguments}

    def _value(self, name: str, about: Argument, value: Any, read: Mapping[str, Any]) -> Any:
        """One argument, read; ``read`` are those before it."""
        if value is None:
            if about.kind in ("costs", "groups"):
                return getattr(self.network, name)
            return self.settings[name] if about.setting else about.default
        match about.kind:
            case "moment":
                return _moment(name, value, self.now)
            case "users":
                rows = self.network.rows(name, value)
                return rows if rows.size or not about.zero else None
            case "contacts":
                return read_contacts(name, value, read["strategies"], self.network)
            case "strategies":
                return read_strategies(value, self.catalogues[1])
            case "costs":
                return check_values(self.network.graph, value, name, _ONE_EACH)
            case "groups":
                labels = id_array(value, name)
                if labels.size != self.network.graph.n_nodes:
                    wanted = f"must have {self.network.graph.n_nodes} entries; got {labels.size}."
                    raise ShapeError(wanted, argument=name, advice=_ONE_EACH)
                return labels
            case "by_group":
                return _by_group(name, value, read["groups"])
        return read_plain(name, value)

    def _plain(self, name: str, value: Any, raw_value: Any) -> Any:
        """What an argument means as JSON, so that it can be stored and compared."""
        match ARGUMENTS[name].kind, value:
            case _, None:
                return None
            case "product", _:
                return [[vector.tolist() for vector in value.vectors], value.cost]
            case "strategies", _:
                return list(value.ids)
            case "users", _:
                return self.network.ids(value)
            case "contacts", _:
                ids = self.network.ids(value.rows)
                return sorted(ids if value.places is None else map(list, zip(ids, value.places, strict=True)))
            case "costs" | "groups", _:
                own = getattr(self.network, name)
                return None if own is not None and np.array_equal(value, own) else value.tolist()
            case "by_group", Mapping():
                return {str(label): number for label, number in value.items()}
            case "span", _:
                return duration_text(value)
            case "moment", _:
                span = _from_now(raw_value)  # must not differ because time goes by
                return value if span is None else duration_text(span)
        return value

    def _digests(self, question: Question, arguments: Mapping[str, Any]) -> dict[str, str]:
        """A digest of each argument by what it means; arguments left out, or that mean the same, are not in it."""
        digests = {}
        for name, about in ARGUMENTS.items():
            meaning = self._plain(name, getattr(question, name), arguments.get(name))
            if about.kind == "users" and meaning is not None:
                meaning = sorted(set(meaning))
            if about.compared and meaning is not None and meaning != about.default:
                text = json.dumps(meaning, sort_keys=True)
                digests[name] = hashlib.sha256(text.encode()).hexdigest()[:16]
        return digests


def read_plain(name: str, value: Any, title: str = "") -> Any:
    """An argument or a setting that needs no network to be read; ``title`` is what errors call it, if not its name."""
    about = metadata_of(name)
    title = title or name
    match about.kind:
        case "count":
            return check_count(title, value, 1)
        case "seed":
            return check_count(title, value, 0, 2**63 - 1)
        case "number":
            return check_number(title, value, strict=True)
        case "share":
            return check_share(title, value, zero=about.zero, one=False)
        case "flag":
            return check_flag(title, value)
        case "span":
            return duration(title, value, zero=about.zero) or None
        case "choice":
            return check_choice(title, value, about.words)
        case "zone":
            return check_zone(title, value)
        case "slug":
            return check_slug(title, value)
        case "cap":
            return _cap(title, value)
    return check_text(title, value)


def read_settings(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The settings among the arguments of `create_campaign`, read; what is left out and has no default is not there.

    Nor are consent and the defaults of an ask, which need the network.
    """
    return {
        name: read_plain(name, arguments[name])
        for name, about in SETTINGS.items()
        if about.stored and (arguments[name] is not None or about.default is not None)
    }


def _cap(title: str, value: Any) -> str:
    """A contact cap in its usual spelling: ``2/7d`` is at most two contacts in seven days."""
    parts = _CAP.fullmatch(value) if isinstance(value, str) else None
    if parts is None:
        raise refusal(title, "a number and a duration such as '2/7d': at most 2 contacts of a user in 7 days", value)
    return f"{int(parts[1])}/{duration_text(duration(title, parts[2]))}"


def check_defaults(ask: Any) -> dict[str, Any]:
    """The defaults that a caller gave, by argument of `Campaign.ask`; None counts as left out."""
    named = check_mapping("ask", ask, "a mapping of arguments of Campaign.ask to values")
    for name in named:
        if name not in STORED:
            near = difflib.get_close_matches(str(name), STORED, 1)
            hint = f"Did you mean {near[0]}?" if near else f"There are {', '.join(STORED)}."
            raise InputError(f"ask has no default {shown(name)}. {hint}")
    defaults = {name: value for name, value in named.items() if value is not None}
    if "deadline" in defaults and _from_now(defaults["deadline"]) is None:
        raise refusal("the deadline in ask", "a span from now such as '3d', for all rounds", defaults["deadline"])
    return defaults


def shown_defaults(kept: Mapping[str, Any], network: Network) -> dict[str, Any]:
    """Stored defaults as a caller gives them."""
    users = {name: network.ids(rows) for name, rows in network.defaults.items()}
    defaults = {**kept, **users}
    return {name: defaults[name] for name in STORED if name in defaults}


def _from_now(deadline: Any) -> float | None:
    """Seconds of a deadline that counts from now on; None of a moment, or of what is neither."""
    try:
        return duration("deadline", deadline)
    except InputError:
        return None


def _moment(name: str, value: Any, now: float) -> float:
    """Unix seconds of a number, a datetime, an ISO time (both UTC without a zone) or a span from now."""
    span = _from_now(value)
    at = unix_seconds(plain(value)) if span is None else now + span
    if not is_moment(at):
        wanted = "a span from now such as '3d', a datetime, a time such as '2030-01-31T12:00', or unix seconds"
        raise refusal(name, f"{wanted}, in the years 1 to 9999", value)
    return at


def _by_group(name: str, value: Any, groups: Any) -> Mapping[Any, int] | int:
    """One number for every group, or a number by the groups' own labels, which may be numbers.

    JSON, TOML and the command have texts for labels.
    """
    if not isinstance(value, Mapping):
        return check_count(name, value, 0, 2**62)
    labels = {} if groups is None else {str(label): label for label in np.unique(groups).tolist()}
    what = {"quotas": "quota", "minima": "minimum"}[name]
    return {
        labels.get(label, label): check_count(f"the {what} of group {shown(label)}", number, 0, 2**62)
        for label, number in check_mapping(name, value, "a mapping of groups to counts").items()
    }


def _consistent(read: dict[str, Any], k: Any) -> dict[str, Any]:
    """Refuse arguments that contradict each other; with a list of users, ``k`` is how many it names."""
    strategy, offered = read["product"].strategy, read["strategies"]
    users, shadow = read["users"], read["shadow"]
    if shadow is not None and read["holdout"]:
        raise InputError("contacts nobody, so there is no hold-out; leave one of them out.", argument="shadow")
    if read["per_user"] and offered is None:
        advice = "Give ", argument("strategies"), ": 'all', or ids from the campaign's catalogue."
        raise InputError("needs strategies.", argument="per_user", advice=advice)
    if offered is not None and strategy is not None:
        raise InputError(
            f"names the strategy {shown(strategy)}, and ",
            argument("strategies"),
            " asks for a choice. Leave one of them out.",
            argument="product",
        )
    if users is not None:
        return {**read, "k": _length(users, k, shadow)}
    if shadow is not None and read["k"] is None and read["budget"] is None:
        return {**read, "k": shadow.rows.size}  # what we would have chosen is as many
    return read


def _length(users: Contacts, k: Any, shadow: Contacts | None) -> int:
    """How many users a list names; an error if the rest of the question does not fit to a list."""
    if shadow is not None:
        raise InputError(
            "are to be contacted, and ",
            argument("shadow"),
            " were contacted by others; leave one of them out.",
            argument="users",
        )
    if not users.rows.size:
        raise InputError("must name at least one user; leave it out to have them chosen.", argument="users")
    if k is not None and k != users.rows.size:
        raise InputError(f"= {k}, but ", argument("users"), f" names {users.rows.size}. Leave it out.", argument="k")
    return int(users.rows.size)


def check_same(record: Round, question: Question) -> None:
    """An error that names the arguments in which this request differs from the one that opened the round."""
    held = record.request
    now = question.fingerprint
    differs = [name for name in ARGUMENTS if held.get(name) not in (now.get(name), UNKNOWN_LIST)]
    if differs:
        raise InputError(
            f"{question.request_id!r} has opened round {record.id} with other values of {', '.join(differs)}.",
            argument="request_id",
            advice="Use a new one for a new question.",
        )
