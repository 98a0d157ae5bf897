"""What rounds lost against the best choice, where that is known: in a sandbox, whose truth is.

The numbers lie in the store, as the campaign's blob ``regret``: whoever plays a campaign by a known truth writes them
there, and ``GET /campaigns/{name}/regret`` gives them to the page. Of a real campaign nobody knows the truth.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from tensorucb.service._desk import Desk
from tensorucb.service._problems import responses
from tensorucb.service._shared import CAMPAIGN, ForReader
from tensorucb.store import SQLStore as Store

_BLOB = "regret"
router = APIRouter(prefix=CAMPAIGN, tags=["progress"], responses=responses(404))


class RoundRegret(BaseModel):
    """What a round lost against the best choice by the truth, in expected responders."""

    round: str = Field(description="The round's id.")
    number: int
    reach: float = Field(description="Expected responders to the users that were chosen, held-out ones included.")
    best: float = Field(description="Expected responders to as many users, chosen with the truth known.")
    regret: float = Field(description="best - reach.")


class RegretDocument(BaseModel):
    """The regret of all rounds."""

    known: bool = Field(description="Whether the truth is known; only that of a sandbox is.")
    rounds: list[RoundRegret] = Field(description="By number; empty if the truth is not known.")


def write_regret(store: Store, name: str, rounds: Sequence[RoundRegret]) -> None:
    """Keep the regret of a campaign's rounds."""
    with store.write() as session:
        record = session.campaign(name)
        if record is not None:
            content = json.dumps([entry.model_dump() for entry in rounds])
            session.put_blob(record.campaign, _BLOB, content.encode())


def read_regret(desk: Desk, name: str) -> list[dict[str, Any]] | None:
    """The regret of a campaign's rounds as it was kept; None if the truth is not known."""
    number = desk.record(name).campaign
    with desk.store.read() as session:
        kept = session.blob(number, _BLOB)
    return None if kept is None else list(json.loads(kept))


@router.get("/regret", response_model=RegretDocument)
async def regret(at: ForReader) -> Any:
    """What each round lost against the best choice; known of the sandbox of `tensorucb demo --serve` alone."""
    found = await at.desk.aside(lambda: read_regret(at.desk, at.name))
    return {"known": found is not None, "rounds": found or []}
