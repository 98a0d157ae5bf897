"""The service's JSON as the library's own records."""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from tensorucb.campaign import Ask, Explanation, Preview, RoundExplanation
from tensorucb.errors import ServiceError

if TYPE_CHECKING:
    from tensorucb.client._campaign import RemoteCampaign

T = TypeVar("T")


@dataclass(frozen=True)
class Session:
    """Who the service takes us for.

    Attributes
    ----------
    name, role
        The token's name, and what it may do: ``read``, ``operate`` or ``admin``; None for a stranger.
    read_only
        Whether the service refuses all writing calls.
    version
        The service's release; None for a stranger.

    Examples
    --------
    >>> from tensorucb.client import Client
    >>> with Client(url) as client:  # a service on this machine, without tokens
    ...     client.session().role
    'admin'
    """

    name: str | None
    role: str | None
    read_only: bool
    version: str | None


def record(kind: type[T], document: Any, **more: Any) -> T:
    """A dataclass from a JSON object, by the types of its fields; fields that it does not have are left out."""
    if not isinstance(document, Mapping):
        raise ServiceError(f"the service answered something else than {kind.__name__}. Is its release another one?")
    known = {name: _read(each, document[name]) for name, each in _fields(cast("Any", kind)).items() if name in document}
    try:
        return kind(**known, **more)
    except TypeError as error:
        raise ServiceError(
            f"the service's {kind.__name__} is not ours ({error}). Is its release another one?"
        ) from error


def as_ask(document: Mapping[str, Any], campaign: RemoteCampaign) -> Ask:
    """A round; its `explain` asks the service."""
    more: dict[str, Any] = {"_gains": _Gains(campaign, document["round"]), "_campaign": campaign}
    return record(Ask, {**document, "id": document["round"]}, **more)


def as_preview(document: Mapping[str, Any]) -> Preview:
    """What a round would be."""
    return record(Preview, {**document, "explanation": _explanation(document["explanation"])})


def as_explanation(document: Mapping[str, Any]) -> Explanation | RoundExplanation:
    """Why one user, or every seed, was chosen or not."""
    read = _explanation(document)
    return record(RoundExplanation, read) if "seeds" in read else record(Explanation, read)


def _explanation(document: Mapping[str, Any]) -> dict[str, Any]:
    """An explanation with the library's pairs in place of the service's objects."""
    if "seeds" in document:
        return {**document, "seeds": [_explanation(seed) for seed in document["seeds"]]}
    return {
        **document,
        "followers": [(each["user"], each["probability"]) for each in document["followers"]],
        "offers": [(each["strategy"], each["expected"], each["cost"]) for each in document["offers"]],
    }


class _Gains(Sequence[float]):
    """What each seed of a round adds, asked of the service when somebody looks."""

    def __init__(self, campaign: RemoteCampaign, round_id: str) -> None:
        self._campaign, self._round = campaign, round_id

    @functools.cached_property
    def _values(self) -> list[float]:
        explained = self._campaign.explain(self._round)
        seeds = explained.seeds if isinstance(explained, RoundExplanation) else ()
        return [float("nan") if seed.gain is None else seed.gain for seed in seeds]

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, place: Any) -> Any:
        return self._values[place]


@functools.cache
def _fields(kind: type) -> dict[str, Any]:
    # A name that a module imports for type checkers alone; its field is private.
    hints = get_type_hints(kind, localns={"Campaign": object})
    return {field.name: hints[field.name] for field in dataclasses.fields(cast("Any", kind))}


def _read(kind: Any, value: Any) -> Any:
    """A value of a field, by the field's type."""
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return record(kind, value)
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        made = [each for each in inner if dataclasses.is_dataclass(each) or get_origin(each) is not None]
        return _read(made[0], value) if value is not None and made else value
    if origin is tuple:
        each = inner[:1] * len(value) if inner[-1] is Ellipsis else inner
        return tuple(_read(part, entry) for part, entry in zip(each, value, strict=True))
    if origin is not None and issubclass(origin, Mapping):
        return {name: _read(inner[1], entry) for name, entry in value.items()}
    return value
