"""What routes share: who asks, the campaign in the address as they may use it, pages of lists, parts of the query.

A route on a campaign is a plain function that gets an `At`, the campaign for the one who asks. Its decorator says how
it runs: `reads`, `tells` or `chooses`.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Annotated, Any, Generic, ParamSpec, TypeVar

import numpy as np
from fastapi import Depends, Header, HTTPException, Path, Query, Request
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from tensorucb.campaign import Ask, Campaign, CampaignProgress, Explanation, RoundExplanation
from tensorucb.campaign._catalogue import by_text
from tensorucb.campaign._handle import Handle
from tensorucb.checks import shown
from tensorucb.errors import InputError, UnknownIdError, argument, call
from tensorucb.service._open import OpenCampaigns
from tensorucb.service._problems import KEY, Refusal, missing
from tensorucb.service._tokens import Principal, Role

P = ParamSpec("P")
T = TypeVar("T")
Id = int | str

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


# -- who asks --


class Caller:
    """Somebody with a role or a higher one, and the campaigns; ``mask`` shows users as this caller may see them.

    Those who may only read see stable pseudonyms. A service that is read-only answers what ``reads``.
    """

    def __init__(self, request: Request, role: Role, *, reads: bool = False) -> None:
        state = request.app.state
        if state.settings.read_only and not (reads or request.method == "GET"):
            raise Refusal(403, "the service is read-only; nothing can be changed through it.", kind="StateError")
        principal: Principal | None = request.state.principal
        if principal is None:
            detail = (
                "this needs a token: send the header `Authorization: Bearer TOKEN`, or log in on the page. The command "
                "`tensorucb token add` makes tokens."
            )
            if not state.book.demanded:
                detail = (
                    "the request came through a proxy, so that anybody may have sent it, and the store holds no token "
                    "yet. Make one with `tensorucb token add STORAGE NAME --role admin`, and send it in the header "
                    "`Authorization: Bearer TOKEN` or log in with it on the page."
                )
            raise HTTPException(401, detail, {"WWW-Authenticate": "Bearer"})
        if not principal.may(role):
            detail = f"this needs the role {role}; your token {principal.name!r} has the role {principal.role}."
            raise HTTPException(403, detail)
        self.role = principal.role
        self.campaigns: OpenCampaigns = state.campaigns
        self.sees_users = principal.may("operate")
        self.mask: Callable[[Id], Id] = (lambda user: user) if self.sees_users else state.book.masked

    def masked(self, record: T) -> T:
        """A record of the library with users as this caller may see them; whoever sees pseudonyms sees no names."""
        if self.sees_users:
            return record
        changed: dict[str, Any] = {}
        match record:
            case Ask():
                changed = {
                    name: tuple(map(self.mask, getattr(record, name))) for name in ("seeds", "held_out", "contacted")
                }
            case RoundExplanation():
                changed = {"seeds": tuple(map(self.masked, record.seeds))}
            case Explanation():
                return record.renamed(self.mask)
            case CampaignProgress():
                users = [
                    each if each.id is None else replace(each, id=self.mask(each.id), name=None)
                    for each in record.users
                ]
                changed = {"users": tuple(users)}
        return replace(record, **changed)  # type: ignore[type-var]


class At(Caller):
    """The campaign in the address, for one caller."""

    campaign: Campaign
    """As it is now; known within a call."""

    def __init__(self, request: Request, name: str, role: Role, *, reads: bool = False) -> None:
        super().__init__(request, role, reads=reads)
        self.name = name

    def _work(self, work: Callable[[], T], session: Callable[[Handle], AbstractContextManager[Any]] = nullcontext) -> T:
        def call(campaign: Campaign) -> T:
            self.campaign = campaign
            with session(campaign._handle):
                return work()

        return self.campaigns.call(self.name, call)

    def read(self, work: Callable[[], T], *, learned: bool = False) -> Awaitable[T]:
        """Do work that only reads: all of it in one session, and from a model that has ``learned`` all if need be."""
        session = Handle.learned if learned else Handle.read
        return self.campaigns.aside(lambda: self._work(work, session), chooses=learned)

    def read_together(self, kind: str, work: Callable[[], T]) -> Awaitable[T]:
        """The same for what many ask for: those who see as much as this caller share the result."""
        return self.campaigns.together((kind, self.name, self.sees_users), lambda: self._work(work, Handle.read))

    def change(self, work: Callable[[], T], *, chooses: bool = False) -> Awaitable[T]:
        """Do work that stores what came, or ``chooses`` users or learns."""
        return self.campaigns.aside(lambda: self._work(work), chooses=chooses)

    def kept(self, kind: str, state: Any, make: Callable[[], T]) -> T:
        """What was made of the campaign in this state for those who see as much as this caller; else it is made now."""
        return self.campaign._handle.memory.cached(f"{kind}, served", state, make, key=self.sees_users, most=2)

    def names(self, rows: Sequence[int]) -> list[str | None]:
        """What these users are called; None for those of whom that is not known, or not to be seen by this caller."""
        with self.campaign._handle.read() as view:
            return [view.name(row) if self.sees_users else None for row in rows]

    def product(self, text: str | None) -> Id | None:
        """The id of a product in an address, where a number looks like its text."""
        return None if text is None else by_text(self.campaign.products()).get(text, text)

    def round(self, round: str) -> Ask:
        """A round by its id or its number; an answer with status 404 if there is none."""
        try:
            return self.campaign.round(round)
        except UnknownIdError:
            of = f"campaign {shown(self.campaign.name)} has no such round; "
            raise missing(of, call("rounds"), " lists them.") from None

    def user(self, text: str) -> Id:
        """The id of a user in an address, where a number looks like its text, or who has a pseudonym there."""
        graph = self.campaign.graph
        pseudonyms = self._pseudonyms()
        if pseudonyms is not None:
            rows = np.flatnonzero(pseudonyms == text.encode("utf-8", "replace"))
            named = graph.ids[rows].tolist()
        else:
            whole = graph.ids.dtype.kind != "U" and re.fullmatch("0|-?[1-9][0-9]{0,18}", text)
            named = [int(text) if whole else text]
        try:
            user: Id = named[0]
            graph.rows([user])
        except (IndexError, InputError):
            raise missing("the campaign has no such user; ", call("users"), " lists them.") from None
        return user

    def users_beginning(self, text: str) -> Sequence[int]:
        """Rows of the users whose ids, as the caller sees them, begin with a text, then of those with it in a name."""
        pseudonyms = self._pseudonyms()
        if pseudonyms is not None:
            wanted = text.encode("utf-8", "replace")
            rows: list[int] = np.flatnonzero(pseudonyms.astype(f"S{len(wanted)}") == wanted).tolist()
            return rows
        rows = [row for row, user in enumerate(self.campaign.graph.ids.tolist()) if str(user).startswith(text)]
        with self.campaign._handle.read() as view:
            named = [] if view.user_columns is None else view.user_columns.rows_named(text)
        return list(dict.fromkeys([*rows, *named]))

    def _pseudonyms(self) -> NDArray[np.bytes_] | None:
        """What the users are called to those who may only read, by row; None for a caller who sees their ids.

        One takes microseconds, those of a million users seconds: they are made once for each state of the network.
        """
        if self.sees_users:
            return None
        with self.campaign._handle.read() as view:
            network = view.network
        ids = network.graph.ids.tolist()
        return self.kept("pseudonyms", network.revision, lambda: np.array(list(map(self.mask, ids)), dtype=np.bytes_))


def _caller(role: Role) -> Any:
    async def caller(request: Request) -> Caller:
        return Caller(request, role)

    return Depends(caller)


def _campaign_for(role: Role, *, reads: bool = False) -> Any:
    async def at(name: Name, request: Request) -> At:
        return At(request, name, role, reads=reads)

    return Depends(at)


Reader = Annotated[Caller, _caller("read")]
Admin = Annotated[Caller, _caller("admin")]
ForReader = Annotated[At, _campaign_for("read")]
ForOperator = Annotated[At, _campaign_for("operate")]
ForPreview = Annotated[At, _campaign_for("operate", reads=True)]
ForAdmin = Annotated[At, _campaign_for("admin")]


def _decorator(run: Callable[..., Awaitable[Any]]) -> Callable[[Callable[P, T]], Callable[P, Awaitable[T]]]:
    """Lets a method of `At` run a route, which must have the parameter ``at``."""

    def decorate(route: Callable[P, T]) -> Callable[P, Awaitable[T]]:
        @functools.wraps(route)
        async def in_thread(*args: P.args, **given: P.kwargs) -> T:
            answer: T = await run(given["at"], functools.partial(route, *args, **given))
            return answer

        # The framework would look for the types of parameters among the names of this module, not of the route's.
        in_thread.__signature__ = inspect.signature(route, eval_str=True)  # type: ignore[attr-defined]
        return in_thread

    return decorate


reads = _decorator(At.read)
"""A route that only reads, in one session."""
reads_learned = _decorator(functools.partial(At.read, learned=True))
"""A route that reads from a model that has learned everything."""
tells = _decorator(At.change)
"""A route that stores what came."""
chooses = _decorator(functools.partial(At.change, chooses=True))
"""A route that chooses users or learns."""


# -- lists, and parts of the query --


class Page(BaseModel, Generic[T]):
    """A part of a list."""

    items: list[T]
    next: str | None = Field(description="Where the next page begins: give it as `after`. Null on the last page.")


def page(
    entries: Sequence[T], limit: int, after: str | None, place: Callable[[T], str] | None = None
) -> tuple[list[T], str | None]:
    """A page of a list, and where the next one begins.

    ``place`` names an entry, so that entries which come in front meanwhile shift nothing; a list that only grows at its
    end needs none.
    """
    start: int | None = 0
    if after is not None and place is None:
        start = int(after) if re.fullmatch("[0-9]{1,12}", after) else None
    elif after is not None and place is not None:
        start = next((at for at, entry in enumerate(entries, 1) if place(entry) == after), None)
    if start is None:
        raise Refusal(422, argument("after"), " is not from a page of this list; begin again without it.")
    end = start + limit
    items = list(entries[start:end])
    if end >= len(entries):
        return items, None
    return items, str(end) if place is None else place(items[-1])


def _only(what: str) -> Any:
    return Query(description=f"Only rounds {what}.", max_length=1000)


async def _selection(
    product: Annotated[str | None, _only("for this product")] = None,
    strategy: Annotated[str | None, _only("with this strategy")] = None,
    since: Annotated[str | None, _only("that were opened from this moment on, such as 2026-11-17")] = None,
    until: Annotated[str | None, _only("that were opened before this moment")] = None,
    segment: Annotated[
        str | None, Query(description="Split by this column of the table of users.", max_length=1000)
    ] = None,
) -> Callable[[At], CampaignProgress]:
    """How a campaign is going by those rounds that the query of a request names."""

    def progress(at: At) -> CampaignProgress:
        about = at.product(product)
        used = strategy and by_text(at.campaign.strategies()).get(strategy, strategy)
        return at.campaign.progress(product=about, strategy=used, since=since, until=until, segment=segment)

    return progress


Progress = Annotated[Callable[[At], CampaignProgress], Depends(_selection)]
