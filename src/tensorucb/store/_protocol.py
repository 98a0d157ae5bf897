"""What a campaign needs of a store: a protocol, and the plain records that cross it.

A store keeps rows and bytes; it knows nothing of graphs, policies or learning. Users appear by their *key*, an integer
that stays theirs for the life of the campaign. All changes happen inside :meth:`Store.write`, which is serialised
against other writers of the same store, and durable when its block ends without an error; otherwise nothing of it is
kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

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

    sources: NDArray[np.int64]
    targets: NDArray[np.int64]
    outcomes: NDArray[np.float64]
    times: NDArray[np.float64]
    event_ids: Sequence[str | None]


@dataclass(frozen=True)
class NodeEvents:
    """Who acted when, as columns of one length."""

    users: NDArray[np.int64]
    times: NDArray[np.float64]
    event_ids: Sequence[str | None]


class Session(Protocol):
    """Reads and, inside :meth:`Store.write`, writes; one consistent view from beginning to end."""

    def campaigns(self) -> list[CampaignRecord]:
        """All campaigns, oldest first."""

    def campaign(self, name: str) -> CampaignRecord | None:
        """The campaign of that name, if there is one."""

    def insert_campaign(self, name: str, settings: Mapping[str, Any], created: float) -> CampaignRecord:
        """A new campaign; a name that exists is an :class:`~tensorucb.errors.InputError`."""

    def delete_campaign(self, campaign: int) -> None:
        """Remove a campaign and all that belongs to it."""

    def blobs(self, campaign: int, prefix: str = "") -> list[str]:
        """Names of the stored blobs that start with ``prefix``, sorted."""

    def blob(self, campaign: int, name: str) -> bytes | None:
        """A stored blob, if there is one."""

    def put_blob(self, campaign: int, name: str, data: bytes) -> None:
        """Store or replace a blob."""

    def delete_blobs(self, campaign: int, names: Iterable[str]) -> None:
        """Remove blobs; names that do not exist are fine."""

    def users(self, campaign: int) -> tuple[NDArray[np.int64], list[int | str]]:
        """Keys (ascending) and ids of all users."""

    def add_users(self, campaign: int, keys: NDArray[np.int64], ids: Sequence[int | str]) -> None:
        """New users."""

    def append_event(
        self, campaign: int, kind: str, round_number: int | None, payload: Mapping[str, Any], created: float
    ) -> int:
        """Append to the log; returns the event's sequence number."""

    def events(self, campaign: int, since: int = 0, limit: int | None = None) -> list[EventRecord]:
        """Events with ``seq > since`` in order."""

    def rounds(self, campaign: int) -> list[RoundRecord]:
        """All rounds by number."""

    def round(self, campaign: int, round_id: str) -> RoundRecord | None:
        """The round of that id, if there is one."""

    def round_by_request(self, campaign: int, request_id: str) -> RoundRecord | None:
        """The round opened by that request, if there is one."""

    def put_round(self, campaign: int, record: RoundRecord) -> None:
        """Insert a round, or replace the one of the same number."""

    def edge_responses(self, campaign: int, round_number: int) -> EdgeResponses:
        """All edge responses of a round, by source key, then target key."""

    def add_edge_responses(self, campaign: int, round_number: int, rows: EdgeResponses, seq: int) -> None:
        """Insert rows; the caller has made sure that no (round, source, target) and no event id is there already."""

    def node_events(self, campaign: int, round_number: int) -> NodeEvents:
        """All node events of a round, by user key, then time, then event id (None first)."""

    def add_node_events(self, campaign: int, round_number: int, rows: NodeEvents, seq: int) -> None:
        """Insert rows; the caller has made sure that they are new."""

    def known_event_ids(
        self, campaign: int, event_ids: Sequence[str]
    ) -> dict[str, tuple[int, str, int, int | None, float | None, float | None]]:
        """What is stored under these event ids: (round, "edge" or "node", source or user, target, outcome, time)."""

    def replace_event_payload(self, campaign: int, seq: int, payload: Mapping[str, Any]) -> None:
        """Rewrite an event's payload: only for removing a person."""

    def erase_user(self, campaign: int, key: int) -> int:
        """Remove the user's row and every response that names them; returns how many responses went."""


class Store(Protocol):
    """Where campaigns live."""

    @property
    def url(self) -> str:
        """The address that opens this store again, with the password where there is one."""

    @property
    def masked_url(self) -> str:
        """The address as it may be shown: without a password and without options."""

    def write(self) -> AbstractContextManager[Session]:
        """A write transaction: waits for its turn; durable at the end of the block, or nothing of it."""

    def read(self) -> AbstractContextManager[Session]:
        """A read-only view; never blocks a writer."""

    def purge(self, timeout: float | None = None) -> None:
        """Make deleted content unrecoverable from the store's files (SQLite: checkpoint and vacuum).

        An error if somebody reads the store for longer than ``timeout`` seconds; None: the store's own.
        """

    def close(self) -> None:
        """Release connections and files."""
