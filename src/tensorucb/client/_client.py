"""`Client`: the door to a service."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Self

from tensorucb.campaign import CampaignInfo
from tensorucb.checks import check_text
from tensorucb.client._bodies import as_json, record, upload_of
from tensorucb.client._campaign import RemoteCampaign, request_key
from tensorucb.client._http import Connection
from tensorucb.moments import Duration

_TABLES = ("edges", "actions", "products", "users", "strategies")
_NO_SETTINGS = ("self", "key", "request_id")


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


class Client:
    """A service and its campaigns, over HTTP.

    Parameters
    ----------
    url
        Its address, such as ``http://127.0.0.1:8000``.
    token
        What ``tensorucb token add`` printed; a service on loopback may need none.
    timeout
        Seconds to wait for an answer, for each attempt.

    Notes
    -----
    A request is sent again, for about 20 s, if the connection is lost or the service says that it is busy. Nothing is
    done twice: a new round or campaign is found by a key that stays the same, responses that came before are counted as
    duplicates, and what has ended stays so. Errors are the library's own,
    with the service's words; :class:`~tensorucb.errors.ServiceError` is about the service itself. One client may be
    used by several threads.

    Examples
    --------
    >>> with Client(url) as client:
    ...     [each.name for each in client.campaigns()]
    ['spring']
    """

    def __init__(self, url: str, token: str | None = None, *, timeout: float = 120.0) -> None:
        self._connection = Connection(url, token, timeout)

    def session(self) -> Session:
        """Who the service takes us for, and its release."""
        return record(Session, self._connection.get("session"))

    def campaigns(self) -> list[CampaignInfo]:
        """The campaigns, oldest first."""
        return [record(CampaignInfo, item) for item in self._connection.pages("campaigns")]

    def campaign(self, name: str) -> RemoteCampaign:
        """The campaign of this name; an error if there is none."""
        self._connection.get("campaigns", check_text("name", name))
        return RemoteCampaign(self._connection, name)

    def create_campaign(
        self,
        name: str,
        *,
        edges: Any,
        actions: Any = None,
        products: Any = None,
        users: Any = None,
        strategies: Any = None,
        columns: Mapping[str, Mapping[str, str]] | None = None,
        kinds: Mapping[str, Mapping[str, str]] | None = None,
        consent: str | None = None,
        id_type: str | None = None,
        timezone: str | None = None,
        strict: bool | None = None,
        max_left_out: float | None = None,
        policy: str | None = None,
        policy_settings: Mapping[str, Any] | None = None,
        metric: str | None = None,
        objective: str | None = None,
        credit: str | None = None,
        window: Duration | None = None,
        epsilon: float | None = None,
        ask: Mapping[str, Any] | None = None,
        contact_group: str | None = None,
        contact_cap: str | None = None,
        seed: int | None = None,
        snapshot_every: int | None = None,
        request_id: str | None = None,
    ) -> RemoteCampaign:
        """Create a campaign from tables; needs the role ``admin``.

        Parameters
        ----------
        name
            How it is called.
        edges, actions, products, users, strategies
            Paths of .csv, .ndjson or .parquet files, or polars, pandas or Arrow frames, with the columns that
            :func:`~tensorucb.campaign.read_campaign_data` wants; all but ``edges`` may be left out.
        columns, kinds, consent, id_type, timezone, strict, max_left_out
            As in :func:`~tensorucb.campaign.read_campaign_data`.
        policy, policy_settings
            The name of a policy of this package, and its arguments.
        metric, objective, credit, window, epsilon, ask, contact_group, contact_cap, seed, snapshot_every
            As in :func:`~tensorucb.campaign.create_campaign`.
        request_id
            Creating again with the same one, the same tables and the same settings finds the same campaign.

        Returns
        -------
        RemoteCampaign
            Its ``report`` says, a line each, what was used and what was left out.
        """
        check_text("name", name)
        key = request_key(request_id)
        arguments = {name: value for name, value in locals().items() if name not in _NO_SETTINGS and value is not None}
        tables = {table: arguments.pop(table) for table in _TABLES if table in arguments}
        settings = json.dumps({key: as_json(key, value) for key, value in arguments.items()})
        with ExitStack() as opened:
            files = {table: opened.enter_context(upload_of(table, rows)) for table, rows in tables.items()}
            made = self._connection.send("POST", "campaigns", key=key, files=files, data={"settings": settings}).json()
        return RemoteCampaign(self._connection, name, report=tuple(made["report"]))

    def delete_campaign(self, name: str) -> None:
        """Delete a campaign with its users, rounds, responses and log; needs the role ``admin``, cannot be undone."""
        self._connection.send("DELETE", "campaigns", check_text("name", name))

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._connection.url!r})"
