"""A campaign on a server: the same ask, tell and close as a campaign in a database."""

from __future__ import annotations

from tensorucb.client._campaign import RemoteCampaign
from tensorucb.client._client import Client, Session

__all__ = ["Client", "RemoteCampaign", "Session"]
