"""What routes share: who asks, the campaign in the address as they may use it, pages of lists, parts of the query."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any, Generic, NoReturn, TypeVar

import numpy as np
from fastapi import Depends, Header, HTTPException, Path, Query, Request
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from tensorucb.campaign import Ask, Campaign, CampaignProgress, Explanation, RoundExplanation
from tensorucb.campaign._catalogue import by_text
from tensorucb.campaign._explain import strongest
from tensorucb.errors import InputError, argument, call
from tensorucb.service._open import OpenCampaigns
from tensorucb.service._problems import KEY, Refusal, missing
from tensorucb.service._tokens import Principal, Role

T = TypeVar("T")

_NOBODY = "the campaign has no such user; ", call("users"), " lists them."
CAMPAIGN = "/campaigns/{name}"
COOKIE = "tensorucb_session"
Name = Annotated[str, Path(description="The campaign's name.", max_length=100, examples=["spring"])]
Round = Annotated[str, Path(description="The round: its id or its number.", max_length=200, examples=["1"])]
Limit = Annotated[int, Query(ge=1, le=500, description="The most entries of a page.")]
After = Annotated[str | None, Query(description="Where the page begins: `next` of the page before.", max_length=400)]
Search = Annotated[str, Query(description="Only ids that begin with this, and names that hold it.", max_length=1000)]
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


# -- who asks --

LOGINS = {
    "HTTPBearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token made with `tensorucb token add STORAGE NAME`.",
    },
    "APIKeyCookie": {"type": "apiKey", "in": "cookie", "name": COOKIE, "description": "The login of the page."},
}
"""For the API's description. Who asks is found before any route."""
OPEN_TO_ALL: dict[str, Any] = {"security": []}
"""What a route says there that asks for no login."""


def _check_role(request: Request, role: Role, reads: bool = False) -> Principal:
    """Who asks: somebody with this role or a higher one. A service that is read-only answers what ``reads``."""
    if request.app.state.settings.read_only and not (reads or request.method == "GET"):
        raise Refusal(403, "the service is read-only; nothing can be changed through it.", kind="StateError")
    principal: Principal | None = request.state.principal
    if principal is None:
        detail = (
            "this needs a token: send the header `Authorization: Bearer TOKEN`, or log in on the page. The command "
            "`tensorucb token add` makes tokens."
        )
        if not request.app.state.book.demanded:
            detail = (
                "the request came through a proxy, so that anybody may have sent it, and the store holds no token yet. "
                "Make one with `tensorucb token add STORAGE NAME --role admin`, and send it in the header "
                "`Authorization: Bearer TOKEN` or log in with it on the page."
            )
        raise HTTPException(401, detail, {"WWW-Authenticate": "Bearer"})
    if not principal.may(role):
        raise HTTPException(
            403, f"this needs the role {role}; your token {principal.name!r} has the role {principal.role}."
        )
    return principal


def _campaigns(request: Request) -> OpenCampaigns:
    campaigns: OpenCampaigns = request.app.state.campaigns
    return campaigns


def _caller(role: Role) -> Any:
    async def caller(request: Request) -> Principal:
        return _check_role(request, role)

    return Depends(caller)


Opened = Annotated[OpenCampaigns, Depends(_campaigns)]
Reader = Annotated[Principal, _caller("read")]
Admin = Annotated[Principal, _caller("admin")]


# -- users as a caller may see them --

Mask = Callable[[int | str], int | str]
"""How the id of a user is shown to the one who asks."""


def mask_for(request: Request, principal: Principal) -> Mask:
    """Ids of users as they are, or as stable pseudonyms for those who may only read."""
    return (lambda user: user) if principal.may("operate") else request.app.state.book.masked


def masked_ask(ask: Ask, mask: Mask) -> Ask:
    """A round."""
    lists: dict[str, Any] = {name: tuple(map(mask, getattr(ask, name))) for name in ("seeds", "held_out", "contacted")}
    return replace(ask, **lists)


def masked_reasons(reasons: RoundExplanation, mask: Mask) -> RoundExplanation:
    """Why every seed was chosen."""
    return replace(reasons, seeds=tuple(masked_reason(seed, mask) for seed in reasons.seeds))


def masked_reason(reason: Explanation, mask: Mask) -> Explanation:
    """Why a user was chosen or not; the text begins with the user, and lists the strongest followers.

    Whoever sees pseudonyms sees no names.
    """
    user = mask(reason.user)
    if user == reason.user:
        return reason
    followers = tuple(replace(each, user=mask(each.user), name=None) for each in reason.followers)
    rest = reason.text.removeprefix(repr(reason.user)).replace(strongest(reason.followers), strongest(followers))
    return replace(reason, user=user, name=None, text=f"{user!r}{rest}", followers=followers)


def masked_progress(progress: CampaignProgress, rounds: int, mask: Mask) -> CampaignProgress:
    """How a campaign is going, with its last rounds."""
    users = []
    for user in progress.users:
        pseudonym = None if user.id is None else mask(user.id)
        users.append(user if pseudonym == user.id else replace(user, id=pseudonym, name=None))
    return replace(progress, rounds=progress.rounds[-rounds:], users=tuple(users))


class At:
    """A campaign for one caller; ``mask`` shows its users."""

    def __init__(self, campaigns: OpenCampaigns, name: str, who: Principal, mask: Mask) -> None:
        self.campaigns = campaigns
        self.name = name
        self.who = who
        self.mask = mask

    def kept(self, what: str, tag: Any, make: Callable[[], T]) -> T:
        """What was made for those who see as much as this caller, if the tag is still the same; else it is made now."""
        seen = "ids" if self.who.may("operate") else "pseudonyms"
        return self.campaigns.kept(f"{what} by {seen}", self.name, tag, make)

    def pseudonyms(self, campaign: Campaign) -> NDArray[np.bytes_] | None:
        """What the users are called to those who may only read, by row; None for a caller who sees their ids.

        One takes microseconds, those of a million users seconds: they are made once for each state of the network.
        """
        if self.who.may("operate"):
            return None
        with campaign._handle.read() as view:
            tag = view.number, view.network.revision
            ids = view.network.graph.ids
        return self.kept(
            "pseudonyms", tag, lambda: np.array([self.mask(user) for user in ids.tolist()], dtype=np.bytes_)
        )

    def names(self, campaign: Campaign, rows: Sequence[int]) -> list[str | None]:
        """What these users are called; None for those of whom that is not known, or not to be seen by this caller."""
        with campaign._handle.read() as view:
            return [view.name(row) if self.who.may("operate") else None for row in rows]

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


def _campaign_for(role: Role, *, reads: bool = False) -> Any:
    """A dependency of a route: the campaign in the address, for somebody with this role or a higher one."""

    async def at(name: Name, request: Request) -> At:
        who = _check_role(request, role, reads)
        return At(_campaigns(request), name, who, mask_for(request, who))

    return Depends(at)


ForReader = Annotated[At, _campaign_for("read")]
ForOperator = Annotated[At, _campaign_for("operate")]
ForPreview = Annotated[At, _campaign_for("operate", reads=True)]
ForAdmin = Annotated[At, _campaign_for("admin")]


def users_beginning(campaign: Campaign, text: str, at: At) -> Sequence[int]:
    """Rows of the users whose ids, as the caller sees them, begin with a text, then of those whose names hold it."""
    pseudonyms = at.pseudonyms(campaign)
    if pseudonyms is not None:
        wanted = text.encode("utf-8", "replace")
        rows: list[int] = np.flatnonzero(pseudonyms.astype(f"S{len(wanted)}") == wanted).tolist()
        return rows
    rows = [row for row, user in enumerate(campaign.graph.ids.tolist()) if str(user).startswith(text)]
    with campaign._handle.read() as view:
        named = [] if view.user_columns is None else view.user_columns.rows_named(text)
    return list(dict.fromkeys([*rows, *named]))


def user_named(campaign: Campaign, text: str, at: At) -> int | str:
    """The id of a user in an address, where a number looks like its text; to some, users have other names."""
    ids = campaign.graph.ids
    pseudonyms = at.pseudonyms(campaign)
    if pseudonyms is not None:
        rows = np.flatnonzero(pseudonyms == text.encode("utf-8", "replace"))
        if not rows.size:
            raise missing(*_NOBODY)
        hidden: int | str = ids[rows[0]].item()
        return hidden
    whole = ids.dtype.kind != "U" and re.fullmatch("0|-?[1-9][0-9]{0,17}", text)
    user: int | str = int(text) if whole else text
    try:
        campaign.graph.rows([user])
    except InputError:
        raise missing(*_NOBODY) from None
    return user


# -- lists, and parts of the query --


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
    end = start + limit
    items = list(entries[start:end])
    if end >= len(entries):
        return items, None
    following = str(end) if place is None else place(items[-1])
    return items, base64.urlsafe_b64encode(following.encode()).decode()


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
        self._product = product
        self._strategy = strategy
        self._more = {"since": since, "until": until, "segment": segment}

    def progress(self, campaign: Campaign) -> CampaignProgress:
        """How the campaign is going, by these rounds."""
        strategy = self._strategy and by_text(campaign.strategies()).get(self._strategy, self._strategy)
        return campaign.progress(product=product_named(campaign, self._product), strategy=strategy, **self._more)


OfRounds = Annotated[Selected, Depends(Selected)]


class RowOptions:
    """How rows are read, as the query of a request says; ``arguments`` are those of `Campaign.tell`."""

    def __init__(
        self,
        strict: Annotated[bool, Query(description="Refuse all if a single row cannot be used.")] = False,
        max_left_out: Annotated[
            float,
            Query(ge=0, le=1, description="Rows that cannot be used are left out; above this share, refuse all."),
        ] = 0.5,
        columns: Annotated[
            list[Annotated[str, Query(pattern=".:.", max_length=1000)]],
            Query(alias="column", description="Which column is which field, such as `user:buyer`.", max_length=20),
        ] = [],  # noqa: B006
    ) -> None:
        names = dict(text.split(":", 1) for text in columns)
        self.arguments: Any = {"strict": strict, "max_left_out": max_left_out, "columns": names or None}


OfRows = Annotated[RowOptions, Depends(RowOptions)]
