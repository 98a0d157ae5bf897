"""The service's JSON as the library's own records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tensorucb.campaign import Explanation, RoundExplanation
from tensorucb.campaign._documents import from_json
from tensorucb.errors import FileFormatError, ServiceError

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


def record(kind: type[T], document: Any) -> T:
    """A record of the library from the service's JSON."""
    try:
        return from_json(kind, document)
    except FileFormatError as error:
        raise ServiceError(f"the service's {kind.__name__} is not ours: {error} Is its release another one?") from error


def explanation(document: Mapping[str, Any]) -> Explanation | RoundExplanation:
    """Why one user, or every seed, was chosen or not."""
    return record(RoundExplanation, document) if "seeds" in document else record(Explanation, document)
