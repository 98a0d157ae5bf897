"""Products, strategies and users of a campaign over HTTP, and what is imported from the past."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, TypeAdapter, ValidationError

from tensorucb.campaign import Campaign
from tensorucb.campaign._additions import products_from, users_from
from tensorucb.campaign._catalogue import by_text
from tensorucb.campaign._documents import fields
from tensorucb.service._answering import (
    After,
    AtDesk,
    Limit,
    Masked,
    Name,
    Operator,
    Page,
    Reader,
    Search,
    page,
    user_named,
)
from tensorucb.service._answers import PARAMETER, Once
from tensorucb.service._bodies import CatalogueBody, UsersBody
from tensorucb.service._documents import (
    Closed,
    Entry,
    Grown,
    GrownNetwork,
    HistoryDocument,
    UserDocument,
)
from tensorucb.service._learned import expected_of, offered
from tensorucb.service._problems import Refusal, responses
from tensorucb.service._rounds import Columns, Unknown, column_names
from tensorucb.service._uploads import check_size, described, form_of, reading, received, rows_of, saved

reads = APIRouter(prefix="/campaigns/{name}", tags=["catalogues"], responses=responses(404, 409))
writes = APIRouter(
    prefix="/campaigns/{name}",
    tags=["catalogues"],
    responses=responses(404, 409, 413),
    route_class=Once,
)

_KEYED: dict[str, Any] = {"parameters": [PARAMETER]}
_STRONGEST = 10
_FILES = ("application/x-ndjson", "text/csv", "application/vnd.apache.parquet")


def _either(model: type[BaseModel], *files: str) -> dict[str, Any]:
    """What a route says that takes a JSON document or a file."""
    schema = TypeAdapter(model).json_schema(ref_template="#/components/schemas/{model}")
    more = {"application/json": {"schema": schema, "example": schema.get("example")}}
    return (
        {**described(*files, more=more), **_KEYED}
        if files
        else {"requestBody": {"required": True, "content": more}, **_KEYED}
    )


async def _document(request: Request, model: type[BaseModel]) -> Any:
    """A JSON body, checked."""
    try:
        return model.model_validate_json(await request.body())
    except ValidationError as error:
        found = error.errors()[0]
        place = ".".join(map(str, found["loc"])) or "the body"
        raise Refusal(422, f"{place}: {found['msg'][:1].lower()}{found['msg'][1:]}.") from None


def _beginning(ids: Any, search: str) -> list[Any]:
    return [entry for entry in ids if str(entry).startswith(search)] if search else list(ids)


@reads.get("/products", response_model=Page[Entry])
async def products(
    name: Name, desk: AtDesk, who: Reader, limit: Limit = 50, after: After = None, search: Search = ""
) -> Any:
    """Products of the catalogue."""

    def call(campaign: Campaign) -> dict[str, Any]:
        found, following = page(_beginning(campaign.products(), search), limit, after)
        return {"items": [{"id": entry} for entry in found], "next": following}

    return await desk.read(name, call)


@writes.post("/products", response_model=Grown, status_code=201, openapi_extra=_either(CatalogueBody, *_FILES))
async def add_products(name: Name, request: Request, desk: AtDesk, who: Operator) -> Any:
    """Add products: ids and features as JSON, or a file with the columns of the product table."""
    if form_of(request) == "application/json":
        body: CatalogueBody = await _document(request, CatalogueBody)
        if body.costs is not None:
            raise Refusal(422, "products have no costs of their own; strategies and users do.")
        return await desk.tell(
            name, lambda it: _grown(it.products, body, partial(it.add_products, body.ids, body.features))
        )
    async with received(request) as path:

        def call(campaign: Campaign) -> dict[str, int]:
            check_size(path)
            with reading(path.parent):
                found = products_from(campaign, path)
            return {"added": found["added"], "known": found["known"], "total": found["products"]}

        return await desk.tell(name, call)


def _grown(known: Callable[[], Sequence[Any]], body: CatalogueBody, add: Callable[[], None]) -> dict[str, int]:
    before = len(known())
    add()
    total = len(known())
    return {"added": total - before, "known": len(body.ids) - total + before, "total": total}


@reads.get("/strategies", response_model=Page[Entry])
async def strategies(
    name: Name, desk: AtDesk, who: Reader, limit: Limit = 50, after: After = None, search: Search = ""
) -> Any:
    """Strategies of the catalogue, with their costs."""

    def call(campaign: Campaign) -> dict[str, Any]:
        costs = campaign.strategy_costs()
        found, following = page(_beginning(costs, search), limit, after)
        return {"items": [{"id": entry, "cost": costs[entry]} for entry in found], "next": following}

    return await desk.read(name, call)


@writes.post("/strategies", response_model=Grown, status_code=201, openapi_extra=_either(CatalogueBody))
async def add_strategies(name: Name, request: Request, desk: AtDesk, who: Operator) -> Any:
    """Add strategies: ids, features and optionally costs."""
    body: CatalogueBody = await _document(request, CatalogueBody)

    def call(campaign: Campaign) -> dict[str, int]:
        add = partial(campaign.add_strategies, body.ids, body.features, body.costs)
        return _grown(campaign.strategies, body, add)

    return await desk.tell(name, call)


@reads.get("/users", response_model=Page[Entry])
async def users(
    name: Name,
    desk: AtDesk,
    who: Reader,
    mask: Masked,
    limit: Limit = 50,
    after: After = None,
    search: Search = "",
) -> Any:
    """Users of the network."""

    def call(campaign: Campaign) -> dict[str, Any]:
        ids, costs = campaign.graph.ids.tolist(), campaign.costs
        rows: Any = range(len(ids))
        if search:
            rows = [row for row in rows if str(mask(ids[row])).startswith(search)]
        found, following = page(rows, limit, after)
        items = [{"id": mask(ids[row]), "cost": None if costs is None else float(costs[row])} for row in found]
        return {"items": items, "next": following}

    return await desk.read(name, call)


_NETWORK = {
    "multipart/form-data": {
        "schema": {
            "type": "object",
            "required": ["users"],
            "additionalProperties": False,
            "properties": {table: {"type": "string", "format": "binary"} for table in ("users", "edges")},
        }
    }
}


@writes.post(
    "/users",
    response_model=GrownNetwork,
    status_code=201,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {**_either(UsersBody)["requestBody"]["content"], **_NETWORK},
        },
        **_KEYED,
    },
)
async def add_users(name: Name, request: Request, desk: AtDesk, who: Operator) -> Any:
    """Add users and edges: as JSON, or as a form with a file users and optionally a file edges."""
    if form_of(request) == "multipart/form-data":
        async with request.form(max_files=2, max_fields=1) as form:
            with tempfile.TemporaryDirectory(prefix="tensorucb-") as folder:
                files = await saved(form, Path(folder), ("users", "edges"))
                return await desk.tell(name, lambda campaign: _joined(campaign, Path(folder), files))
    body: UsersBody = await _document(request, UsersBody)

    def call(campaign: Campaign) -> dict[str, int]:
        before = campaign.graph
        campaign.add_users(**body.model_dump())
        after = campaign.graph
        added = {"users_added": after.n_nodes - before.n_nodes, "edges_added": after.n_edges - before.n_edges}
        return {**added, "users": after.n_nodes, "edges": after.n_edges}

    return await desk.tell(name, call)


def _joined(campaign: Campaign, folder: Path, files: dict[str, Path]) -> dict[str, int]:
    if "users" not in files:
        raise Refusal(422, "the form needs a file users: a table with the columns of the table of users.")
    with reading(folder):
        for path in files.values():
            check_size(path)
        return users_from(campaign, files["users"], files.get("edges"))


@reads.get("/users/{user:path}", response_model=UserDocument)
async def user(
    name: Name,
    user: str,
    desk: AtDesk,
    who: Reader,
    mask: Masked,
    product: Annotated[
        str | None, Query(description="For this product: expected responses.", max_length=10_000)
    ] = None,
) -> Any:
    """What is known of a user."""

    def call(campaign: Campaign) -> dict[str, Any]:
        known = user_named(campaign, user, mask)
        graph, costs, groups = campaign.graph, campaign.costs, campaign.groups
        row = int(graph.rows([known])[0])
        contacted = [a.number for a in campaign.rounds() if a.status != "cancelled" and known in a.contacted]
        found = {
            "id": mask(known),
            "followers": int(graph.out_offsets[row + 1] - graph.out_offsets[row]),
            "cost": None if costs is None else float(costs[row]),
            "group": None if groups is None else groups[row].item(),
            "rounds": contacted,
            "expected": None,
            "strongest": [],
        }
        return found if product is None else {**found, **_followers(campaign, row, product, mask)}

    return await desk.count(name, call)


def _followers(campaign: Campaign, row: int, product: str, mask: Any) -> dict[str, Any]:
    """What is expected of a user for a product, with the best strategy for them."""
    about, graph = by_text(campaign.products()).get(product, product), campaign.graph
    out = slice(int(graph.out_offsets[row]), int(graph.out_offsets[row + 1]))
    handle = campaign._handle
    with handle.read() as view:
        handle.model.sync(view)
        p = max((each[out] for each in expected_of(handle, view, about, offered(view))), key=np.sum)
    best = np.argsort(-p, kind="stable")[:_STRONGEST]
    followers = graph.ids[graph.targets[out][best]].tolist()
    strongest = [{"user": mask(user), "probability": q} for user, q in zip(followers, p[best].tolist(), strict=True)]
    return {"expected": float(p.sum()), "strongest": strongest}


@writes.post("/history", response_model=HistoryDocument, openapi_extra={**described(), **_KEYED})
async def history(
    name: Name,
    request: Request,
    desk: AtDesk,
    who: Operator,
    unknown: Unknown = "refuse",
    columns: Columns = [],  # noqa: B006
    product: Annotated[str | None, Query(description="The product of all rows.", max_length=10_000)] = None,
    window: Annotated[
        str | None, Query(description="How long after a purchase a response counts: 7d.", max_length=100)
    ] = None,
) -> Any:
    """Learn from past campaigns or from a log of purchases, before everything else in the order of learning."""
    async with received(request) as path:

        def call(campaign: Campaign) -> Any:
            about = None if product is None else by_text(campaign.products()).get(product, product)
            with reading(path.parent):
                found = campaign.import_history(
                    rows_of(path), about, window=_span(window), unknown=unknown, columns=column_names(columns)
                )
            return fields(found)

        return await desk.choose(name, call)


def _span(text: str | None) -> float | str | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


@writes.post("/expire", response_model=Closed, openapi_extra=_KEYED)
async def expire(name: Name, desk: AtDesk, who: Operator) -> Any:
    """Close the rounds whose deadline has passed; the service does so by itself."""
    return await desk.choose(name, lambda campaign: {"closed": campaign.expire()})
