"""Products, strategies and users of a campaign over HTTP, and what is imported from the past."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, TypeAdapter

from tensorucb.campaign import Campaign, Follower, HistoryReport
from tensorucb.campaign._catalogue import by_text
from tensorucb.campaign._grow import entries_from, users_from
from tensorucb.service._bodies import Body, Costs, Id, Number, Row, Users, checked, few_entries
from tensorucb.service._learned import expected_of, offered
from tensorucb.service._problems import Refusal, responses
from tensorucb.service._shared import (
    CAMPAIGN,
    After,
    At,
    ForOperator,
    ForReader,
    Limit,
    OfRows,
    Page,
    Search,
    page,
    product_named,
    user_named,
    users_beginning,
)
from tensorucb.service._uploads import (
    FORMS,
    described,
    form_described,
    form_of,
    received_file,
    received_form,
    received_rows,
)

router = APIRouter(prefix=CAMPAIGN, tags=["catalogues"], responses=responses(404, 409, 413))

_STRONGEST = 10
_FILES = tuple(form for form in FORMS if form != "application/json")
_TABLES = ("users", "edges")


class Entry(BaseModel):
    """A product, a strategy or a user."""

    id: Id
    name: str | None = Field(None, description="What people call it; null if that is not known, or not for you.")
    cost: float | None = Field(None, description="What it adds to the cost of a contact; null if nothing has a cost.")


class UserDocument(BaseModel):
    """What is known of a user."""

    id: Id
    name: str | None = Field(description="What the user is called; null if that is not known, or not for you.")
    followers: int
    cost: float | None
    group: Id | None
    rounds: list[int] = Field(description="Numbers of the rounds in which they were contacted, oldest first.")
    why_not: str | None = Field(description="Why they may not be contacted now, by the campaign's defaults; else null.")
    expected: float | None = Field(description="For the product: expected responses if contacted alone.")
    strongest: list[Follower] = Field(description="For the product: the strongest followers.")


class Grown(BaseModel):
    """How many were added, and how many there are now."""

    added: int
    known: int = Field(description="How many of those sent were there before.")
    total: int
    report: list[str] = Field([], description="Of a file: what was read and what was left out, a line each.")


class GrownNetwork(BaseModel):
    """What was added to the network, and how large it is now."""

    users_added: int
    edges_added: int
    users: int
    edges: int
    report: list[str] = Field([], description="Of files: what was read and what was left out, a line each.")


class Closed(BaseModel):
    """Rounds that were due."""

    closed: list[str] = Field(description="Ids of the rounds that were closed.")


class CostsBody(Body):
    """What strategies cost from now on."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": {"costs": {"letter": 1.5}}})

    costs: Annotated[dict[str, Number], BeforeValidator(few_entries)] = Field(description="By id.")


class CatalogueBody(Body):
    """New products or strategies: ids, a row of features for each; strategies may have costs, products values."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": {"ids": ["jam"], "features": [[0.5, 0.5]]}})

    ids: Annotated[list[Id], Field(min_length=1, max_length=100_000, fail_fast=True)]
    features: Annotated[list[Row], Field(max_length=100_000, fail_fast=True)]
    costs: Costs | None = None
    values: Costs | None = None


class UsersBody(Body):
    """New users and edges between any users."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"ids": [], "sources": ["ann"], "targets": ["bob"]}}
    )

    ids: Users = Field(default_factory=list)
    features: Annotated[list[Row], Field(max_length=1_000_000, fail_fast=True)] | None = None
    sources: Users = Field(default_factory=list)
    targets: Users = Field(default_factory=list)
    costs: Costs | None = None
    groups: Users | None = None
    values: Costs | None = None
    consent: Annotated[list[StrictBool], Field(max_length=1_000_000, fail_fast=True)] | None = None


def _json(model: type[BaseModel]) -> dict[str, Any]:
    """What a route says in the OpenAPI document about the JSON that it reads itself."""
    schema = TypeAdapter(model).json_schema(ref_template="#/components/schemas/{model}")
    return {"application/json": {"schema": schema, "example": schema.get("example")}}


def _listed(entries: Sequence[Any], search: str, limit: int, after: str | None) -> dict[str, Any]:
    """A page of entries whose ids begin with a text, or whose names hold it."""
    entries = [entry for entry in entries if _matches(entry, search)] if search else entries
    items, following = page(entries, limit, after)
    return {"items": items, "next": following}


def _matches(entry: dict[str, Any], search: str) -> bool:
    return str(entry["id"]).startswith(search) or search.casefold() in (entry["name"] or "").casefold()


@router.get("/products", response_model=Page[Entry])
async def products(at: ForReader, limit: Limit = 50, after: After = None, search: Search = "") -> Any:
    """Products of the catalogue."""

    def call(campaign: Campaign) -> dict[str, Any]:
        names = campaign.names("products")
        entries = [{"id": product, "name": names.get(product)} for product in campaign.products()]
        return _listed(entries, search, limit, after)

    return await at.read(call)


@router.post(
    "/products", response_model=Grown, status_code=201, openapi_extra=described(*_FILES, more=_json(CatalogueBody))
)
async def add_products(at: ForOperator, request: Request) -> Any:
    """Add products: ids and features as JSON, or a file with the columns of the product table."""
    if form_of(request) == "application/json":
        body = checked(CatalogueBody, await request.body())
        if body.costs is not None:
            raise Refusal(422, "products have no costs of their own; strategies and users do.")
        entries = body.ids, body.features, body.values
        return await at.tell(lambda it: _grown(it.products, body, partial(it.add_products, *entries)))
    async with received_file(request) as path:

        def call(campaign: Campaign) -> dict[str, Any]:
            added = entries_from(campaign, "product", path)
            return {"total": added.pop("products"), **added}

        return await at.tell(call)


def _grown(entries: Callable[[], Sequence[Any]], body: CatalogueBody, add: Callable[[], None]) -> dict[str, int]:
    before = len(entries())
    add()
    total = len(entries())
    return {"added": total - before, "known": len(body.ids) - total + before, "total": total}


@router.get("/strategies", response_model=Page[Entry])
async def strategies(at: ForReader, limit: Limit = 50, after: After = None, search: Search = "") -> Any:
    """Strategies of the catalogue, with their costs."""

    def call(campaign: Campaign) -> dict[str, Any]:
        names = campaign.names("strategies")
        costs = campaign.strategy_costs()
        entries = [{"id": entry, "name": names.get(entry), "cost": cost} for entry, cost in costs.items()]
        return _listed(entries, search, limit, after)

    return await at.read(call)


@router.post("/strategies", response_model=Grown, status_code=201, openapi_extra=described(more=_json(CatalogueBody)))
async def add_strategies(at: ForOperator, request: Request) -> Any:
    """Add strategies: ids, features and optionally costs."""
    body = checked(CatalogueBody, await request.body())
    if body.values is not None:
        raise Refusal(422, "strategies have no values; products and users do.")
    return await at.tell(
        lambda it: _grown(it.strategies, body, partial(it.add_strategies, body.ids, body.features, body.costs))
    )


@router.post("/strategies/costs", response_model=Page[Entry])
async def set_costs(at: ForOperator, body: CostsBody) -> Any:
    """Change what strategies cost from now on; past rounds keep what they have spent."""

    def call(campaign: Campaign) -> dict[str, Any]:
        ids_by_text = by_text(campaign.strategies())
        costs = {ids_by_text.get(entry, entry): cost for entry, cost in body.costs.items()}
        campaign.set_costs(costs)
        now = campaign.strategy_costs()
        return {"items": [{"id": entry, "cost": now[entry]} for entry in costs], "next": None}

    return await at.tell(call)


@router.get("/users", response_model=Page[Entry])
async def users(at: ForReader, limit: Limit = 50, after: After = None, search: Search = "") -> Any:
    """Users of the network."""

    def call(campaign: Campaign) -> dict[str, Any]:
        ids = campaign.graph.ids
        costs = campaign.costs
        rows, following = page(users_beginning(campaign, search, at) if search else range(len(ids)), limit, after)
        items = [
            {"id": at.mask(user), "name": name, "cost": None if costs is None else float(costs[row])}
            for row, user, name in zip(rows, ids[rows].tolist(), at.names(campaign, rows), strict=True)
        ]
        return {"items": items, "next": following}

    return await at.read(call)


@router.post(
    "/users",
    response_model=GrownNetwork,
    status_code=201,
    openapi_extra=described(more={**_json(UsersBody), **form_described(_TABLES, ["users"])}),
)
async def add_users(at: ForOperator, request: Request) -> Any:
    """Add users and edges: as JSON, or as a form with a file users and optionally a file edges."""
    if form_of(request) == "multipart/form-data":
        async with received_form(request, _TABLES, "users") as (_, files):
            return await at.tell(lambda campaign: users_from(campaign, files["users"], files.get("edges")))
    body = checked(UsersBody, await request.body())

    def call(campaign: Campaign) -> dict[str, int]:
        before = campaign.graph
        campaign.add_users(**body.model_dump())
        after = campaign.graph
        added = {"users_added": after.n_nodes - before.n_nodes, "edges_added": after.n_edges - before.n_edges}
        return {**added, "users": after.n_nodes, "edges": after.n_edges}

    return await at.tell(call)


@router.get("/users/{user:path}", response_model=UserDocument)
async def user(
    at: ForReader,
    user: str,
    product: Annotated[
        str | None, Query(description="For this product: expected responses.", max_length=10_000)
    ] = None,
) -> Any:
    """What is known of a user."""

    def call(campaign: Campaign) -> dict[str, Any]:
        named = user_named(campaign, user, at)
        graph = campaign.graph
        costs = campaign.costs
        groups = campaign.groups
        row = int(graph.rows([named])[0])
        with campaign._handle.read() as view:
            rounds = [each.number for each in view.rounds() if each.status != "cancelled" and row in each.contacted]
        return {
            "id": at.mask(named),
            "name": at.names(campaign, [row])[0],
            "followers": int(graph.out_offsets[row + 1] - graph.out_offsets[row]),
            "cost": None if costs is None else float(costs[row]),
            "group": None if groups is None else groups[row].item(),
            "rounds": rounds,
            "why_not": campaign.why_not(named),
            **_followers(campaign, row, product_named(campaign, product), at),
        }

    return await at.read(call, chooses=product is not None)


def _followers(campaign: Campaign, row: int, product: int | str | None, at: At) -> dict[str, Any]:
    """What is expected of a user for a product, with the best strategy for them."""
    if product is None:
        return {"expected": None, "strongest": []}
    graph, handle = campaign.graph, campaign._handle
    out = slice(int(graph.out_offsets[row]), int(graph.out_offsets[row + 1]))
    with handle.learned() as view:
        p = max((each[out] for each in expected_of(handle, view, product, offered(view))), key=np.sum)
    best = np.argsort(-p, kind="stable")[:_STRONGEST]
    rows = graph.targets[out][best].tolist()
    users = map(at.mask, graph.ids[rows].tolist())
    strongest = list(map(Follower, users, p[best].tolist(), at.names(campaign, rows)))
    return {"expected": float(p.sum()), "strongest": strongest}


@router.post("/history", response_model=HistoryReport, openapi_extra=described(*FORMS))
async def history(
    at: ForOperator,
    request: Request,
    options: OfRows,
    product: Annotated[str | None, Query(description="The product of all rows.", max_length=10_000)] = None,
    window: Annotated[
        str | None, Query(description="How long after a purchase a response counts: 7d.", max_length=100)
    ] = None,
) -> HistoryReport:
    """Learn from past campaigns or from a log of purchases, before everything else in the order of learning."""
    async with received_rows(request) as rows:
        return await at.choose(
            lambda campaign: campaign.import_history(
                rows(), product_named(campaign, product), window=window, **options.arguments
            )
        )


@router.post("/expire", response_model=Closed)
async def expire(at: ForOperator) -> Any:
    """Close the rounds whose deadline has passed; the service does so by itself."""
    return await at.choose(lambda campaign: {"closed": campaign.expire()})
