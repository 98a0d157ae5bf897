"""A campaign on a server: the same ask, tell and close as a campaign in a database."""

from __future__ import annotations

from tensorucb.client._client import Client, RemoteCampaign, Session

__all__ = ["Client", "RemoteCampaign", "Session"]
