"""What routes share: the campaign in the address as the caller may use it, and pages of lists."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Generic, NoReturn, TypeVar

import numpy as np
from fastapi import Depends, Header, Path, Query, Request
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from tensorucb.campaign import Campaign, CampaignProgress
from tensorucb.campaign._catalogue import by_text
from tensorucb.campaign._segments import UserColumns
from tensorucb.errors import InputError, argument, call
from tensorucb.service._auth import Mask, demand, mask_for
from tensorucb.service._open import OpenCampaigns
from tensorucb.service._problems import KEY, Refusal, missing
from tensorucb.service._tokens import Principal, Role

T = TypeVar("T")

_NOBODY = "the campaign has no such user; ", call("users"), " lists them."
CAMPAIGN = "/campaigns/{name}"
Name = Annotated[str, Path(description="The campaign's name.", max_length=100, examples=["spring"])]
Round = Annotated[str, Path(description="The round: its id or its number.", max_length=200, examples=["1"])]
Limit = Annotated[int, Query(ge=1, le=500, description="The most entries of a page.")]
After = Annotated[str | None, Query(description="Where the page begins: `next` of the page before.", max_length=400)]
Search = Annotated[str, Query(description="Only ids that begin with this, and names that hold it.", max_length=1000)]


def _campaigns(request: Request) -> OpenCampaigns:
    campaigns: OpenCampaigns = request.app.state.campaigns
    return campaigns


async def _writable(request: Request) -> None:
    if request.method != "GET" and request.app.state.settings.read_only:
        raise Refusal(403, "the service is read-only; nothing can be changed through it.", kind="StateError")


async def _reader(request: Request) -> Principal:
    return demand(request, "read")


async def _admin(request: Request) -> Principal:
    return demand(request, "admin")


Opened = Annotated[OpenCampaigns, Depends(_campaigns)]
WRITING = [Depends(_writable)]
"""Dependencies of routes that write: with a service that is read-only they refuse."""
Key = Annotated[
    str | None,
    Header(
        alias=KEY,
        description="A text of your own. Sent again with the same request, it finds what the first one made.",
        min_length=1,
        max_length=200,
        pattern="^[!-~]+$",
    ),
]
Reader = Annotated[Principal, Depends(_reader)]
Admin = Annotated[Principal, Depends(_admin)]


class At:
    """A campaign for one caller; ``mask`` shows its users."""

    def __init__(self, campaigns: OpenCampaigns, name: str, who: Principal, mask: Mask) -> None:
        self.campaigns, self.name, self.who, self.mask = campaigns, name, who, mask

    def pseudonyms(self, campaign: Campaign) -> NDArray[np.bytes_] | None:
        """What the users are called to those who may only read, by row; None for a caller who sees their ids.

        One takes microseconds, those of a million users seconds: they are made once for each state of the network.
        """
        if self.who.may("operate"):
            return None
        with campaign._handle.read() as view:
            tag = view.number, view.network.revision
            ids = view.network.graph.ids
        return self.campaigns.kept(
            "pseudonyms", self.name, tag, lambda: np.array([self.mask(user) for user in ids.tolist()], dtype=np.bytes_)
        )

    def named(self, campaign: Campaign) -> UserColumns | None:
        """What users are called, by row; None if that is not known, or nothing for this caller."""
        if not self.who.may("operate"):
            return None
        with campaign._handle.read() as view:
            return view.user_columns

    def names_of(self, campaign: Campaign, users: Sequence[Any]) -> list[str | None] | None:
        """What these users are called; None if no names are known, or none for this caller."""
        columns = self.named(campaign)
        if columns is None or not any(columns.names):
            return None
        return [columns.name(row) for row in campaign.graph.rows(list(users)).tolist()] if len(users) else []

    def read(self, call: Callable[[Campaign], T], *, chooses: bool = False) -> Awaitable[T]:
        """Run a call that only reads: all of it in one session."""

        def reading(campaign: Campaign) -> T:
            handle = campaign._handle
            with handle.learned() if chooses else handle.read():
                return call(campaign)

        return self.campaigns.aside(lambda: self.campaigns.call(self.name, reading), chooses=chooses)

    def tell(self, call: Callable[[Campaign], T]) -> Awaitable[T]:
        """Run a call that stores what came."""
        return self.campaigns.aside(lambda: self.campaigns.call(self.name, call))

    def choose(self, call: Callable[[Campaign], T]) -> Awaitable[T]:
        """Run a call that chooses users or learns."""
        return self.campaigns.aside(lambda: self.campaigns.call(self.name, call), chooses=True)


def _campaign_for(role: Role) -> Any:
    """A dependency of a route: the campaign in the address, for somebody with this role or a higher one."""

    async def at(name: Name, request: Request) -> At:
        who = demand(request, role)
        return At(_campaigns(request), name, who, mask_for(request, who))

    return Depends(at)


ForReader = Annotated[At, _campaign_for("read")]
ForOperator = Annotated[At, _campaign_for("operate")]
ForAdmin = Annotated[At, _campaign_for("admin")]


class Page(BaseModel, Generic[T]):
    """A part of a list."""

    items: list[T]
    next: str | None = Field(description="Where the next page begins: give it as `after`. Null on the last page.")


def page(
    entries: Sequence[Any], limit: int, after: str | None, place: Callable[[Any], str] | None = None
) -> tuple[list[Any], str | None]:
    """A page of a list, and where the next one begins.

    ``place`` names an entry, so that entries which come in front meanwhile shift nothing; a list that only grows at its
    end needs none.
    """
    start = 0
    if after is not None:
        last = _opened(after)
        if place is None:
            start = int(last) if re.fullmatch("[0-9]{1,12}", last) else _strange()
        else:
            start = next((at for at, entry in enumerate(entries, 1) if place(entry) == last), 0) or _strange()
    found, end = list(entries[start : start + limit]), start + limit
    if end >= len(entries):
        return found, None
    following = str(end) if place is None else place(found[-1])
    return found, base64.urlsafe_b64encode(following.encode()).decode()


def _opened(after: str) -> str:
    try:
        return base64.urlsafe_b64decode(after.encode()).decode()
    except (binascii.Error, ValueError):
        _strange()


def _strange() -> NoReturn:
    raise Refusal(422, argument("after"), " is not from a page of this list; begin again without it.")


def product_named(campaign: Campaign, text: str | None) -> int | str | None:
    """The id of a product in an address, where a number looks like its text."""
    return None if text is None else by_text(campaign.products()).get(text, text)


def _only(what: str) -> Any:
    return Query(description=f"Only rounds {what}.", max_length=1000)


class Selected:
    """Which rounds are counted, as the query of a request says."""

    def __init__(
        self,
        product: Annotated[str | None, _only("for this product")] = None,
        strategy: Annotated[str | None, _only("with this strategy")] = None,
        since: Annotated[str | None, _only("that were opened from this moment on, such as 2026-11-17")] = None,
        until: Annotated[str | None, _only("that were opened before this moment")] = None,
        segment: Annotated[
            str | None, Query(description="Split by this column of the table of users.", max_length=1000)
        ] = None,
    ) -> None:
        self.product = product
        self.strategy = strategy
        self.since = since
        self.until = until
        self.segment = segment

    def progress(self, campaign: Campaign) -> CampaignProgress:
        """How the campaign is going, by these rounds."""
        strategies = by_text(campaign.strategies())
        return campaign.progress(
            product=product_named(campaign, self.product),
            strategy=None if self.strategy is None else strategies.get(self.strategy, self.strategy),
            since=self.since,
            until=self.until,
            segment=self.segment,
        )


OfRounds = Annotated[Selected, Depends(Selected)]


def users_beginning(campaign: Campaign, text: str, at: At) -> Sequence[int]:
    """Rows of the users whose ids, as the caller sees them, begin with a text, then of those whose names hold it."""
    pseudonyms, columns = at.pseudonyms(campaign), at.named(campaign)
    if pseudonyms is None:
        found = [row for row, user in enumerate(campaign.graph.ids.tolist()) if str(user).startswith(text)]
        return list(dict.fromkeys([*found, *([] if columns is None else columns.rows_named(text))]))
    wanted = text.encode("utf-8", "replace")
    found = np.flatnonzero(pseudonyms.astype(f"S{len(wanted)}") == wanted).tolist()
    return found


def user_named(campaign: Campaign, text: str, at: At) -> int | str:
    """The id of a user in an address, where a number looks like its text; to some, users have other names."""
    ids, names = campaign.graph.ids, at.pseudonyms(campaign)
    if names is not None:
        rows = np.flatnonzero(names == text.encode("utf-8", "replace"))
        if not rows.size:
            raise missing(*_NOBODY)
        user: int | str = ids[rows[0]].item()
        return user
    whole = ids.dtype.kind != "U" and re.fullmatch("0|-?[1-9][0-9]{0,17}", text)
    known: int | str = int(text) if whole else text
    try:
        campaign.graph.rows([known])
    except InputError:
        raise missing(*_NOBODY) from None
    return known
