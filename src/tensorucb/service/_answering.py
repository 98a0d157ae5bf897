"""What routers share: who asks, which desk, pages of lists, and the names of things in the address."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, NoReturn, TypeVar

from fastapi import Depends, Path, Query, Request
from pydantic import BaseModel, Field

from tensorucb.campaign import Campaign
from tensorucb.errors import InputError
from tensorucb.service._auth import Principal, admin, mask_for, operator, reader
from tensorucb.service._desk import Desk
from tensorucb.service._documents import Mask
from tensorucb.service._problems import Refusal, missing

T = TypeVar("T")

Name = Annotated[str, Path(description="The campaign's name.", max_length=10_000, examples=["spring"])]
Round = Annotated[str, Path(description="The round: its id or its number.", max_length=200, examples=["1"])]
Reader = Annotated[Principal, Depends(reader)]
Operator = Annotated[Principal, Depends(operator)]
Admin = Annotated[Principal, Depends(admin)]
Limit = Annotated[int, Query(ge=1, le=500, description="The most entries of a page.")]
After = Annotated[str | None, Query(description="Where the page begins: `next` of the page before.", max_length=400)]
Search = Annotated[str, Query(description="Only ids that begin with this.", max_length=1000)]


def _desk(request: Request) -> Desk:
    desk: Desk = request.app.state.desk
    return desk


AtDesk = Annotated[Desk, Depends(_desk)]


def _masked(request: Request, principal: Reader) -> Mask:
    return mask_for(request, principal)


Masked = Annotated[Mask, Depends(_masked)]


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


def _strange() -> NoReturn:
    raise Refusal(422, "after is not from a page of this list; begin again without it.")


def _opened(after: str) -> str:
    try:
        return base64.urlsafe_b64decode(after.encode()).decode()
    except (binascii.Error, ValueError):
        _strange()


def user_named(campaign: Campaign, text: str, mask: Mask) -> int | str:
    """The id of a user in an address, where a number looks like its text; to some, users have other names."""
    ids = campaign.graph.ids
    whole = ids.dtype.kind != "U" and re.fullmatch("0|-?[1-9][0-9]{0,17}", text)
    known: int | str = int(text) if whole else text
    if mask(known) == known:
        try:
            campaign.graph.rows([known])
        except InputError:
            raise missing("the campaign has no such user; GET …/users lists them.") from None
        return known
    found = next((user for user in ids.tolist() if mask(user) == text), None)
    if found is None:
        raise missing("the campaign has no such user; GET …/users lists them.")
    return found  # type: ignore[no-any-return]
