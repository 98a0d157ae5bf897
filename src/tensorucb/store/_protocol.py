"""The plain records that cross between a campaign and its store.

A store keeps rows and bytes; it knows nothing of graphs, policies or learning. Users appear by their row, a number
that changes only when somebody before them is erased.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tensorucb.arrays import F64, I64

Status = Literal["open", "closed", "cancelled"]


@dataclass(frozen=True)
class CampaignRecord:
    """One campaign: its number in the store, its name, JSON settings and the moment it was created (unix seconds)."""

    campaign: int
    name: str
    settings: Mapping[str, Any]
    created: float


@dataclass(frozen=True)
class EventRecord:
    """One line of the append-only log; ``seq`` grows by commit order within a campaign."""

    seq: int
    kind: str
    round: int | None
    payload: Mapping[str, Any]
    created: float


@dataclass(frozen=True)
class RoundRecord:
    """One round. ``revision`` is the event number of the last change to what the model learns from it."""

    number: int
    id: str
    status: Status
    opened: float
    deadline: float | None
    closed: float | None
    revision: int
    request_id: str | None
    payload: Mapping[str, Any]


@dataclass(frozen=True)
class EdgeResponses:
    """Outcomes by edge, as columns of one length; ``times`` holds NaN and ``event_ids`` None where none was given."""

    sources: I64
    targets: I64
    outcomes: F64
    times: F64
    event_ids: Sequence[str | None]


@dataclass(frozen=True)
class NodeEvents:
    """Who acted when, as columns of one length."""

    users: I64
    times: F64
    event_ids: Sequence[str | None]


@dataclass(frozen=True)
class TokenRecord:
    """Somebody who may use the service: a name, a role, and the SHA-256 of their token, never the token itself."""

    name: str
    role: str
    hash: str
    created: float
