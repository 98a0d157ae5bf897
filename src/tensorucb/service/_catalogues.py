"""Products, strategies and users of a campaign over HTTP, and what is imported from the past."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, BeforeValidator, Field, StrictBool, TypeAdapter

from tensorucb.campaign import Follower, HistoryReport
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
    Page,
    Search,
    chooses,
    page,
    reads,
    tells,
)
from tensorucb.service._uploads import FORMS, Rows, described, form_described, form_of, received_file, received_form

router = APIRouter(prefix=CAMPAIGN, tags=["catalogues"], responses=responses(404, 409, 413))

_STRONGEST = 10
_FILES = tuple(form for form in FORMS if form != "application/json")
_TABLES = ("users", "edges")


class Entry(BaseModel):
    """A product, a strategy or a user."""

    id: Id
    name: str | None = Field(
        default=None, description="What people call it; null if that is not known, or not for you."
    )
    cost: float | None = Field(
        default=None, description="What it adds to the cost of a contact; null if nothing has a cost."
    )


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
    report: list[str] = Field(default=[], description="Of a file: what was read and what was left out, a line each.")


class GrownNetwork(BaseModel):
    """What was added to the network, and how large it is now."""

    users_added: int
    edges_added: int
    users: int
    edges: int
    report: list[str] = Field(default=[], description="Of files: what was read and what was left out, a line each.")


class Closed(BaseModel):
    """Rounds that were due."""

    closed: list[str] = Field(description="Ids of the rounds that were closed.")


class CostsBody(Body, json_schema_extra={"example": {"costs": {"letter": 1.5}}}):
    """What strategies cost from now on."""

    costs: Annotated[dict[str, Number], BeforeValidator(few_entries)] = Field(description="By id.")


class CatalogueBody(Body, json_schema_extra={"example": {"ids": ["jam"], "features": [[0.5, 0.5]]}}):
    """New products or strategies: ids, a row of features for each; strategies may have costs, products values."""

    ids: Annotated[list[Id], Field(min_length=1, max_length=100_000, fail_fast=True)]
    features: Annotated[list[Row], Field(max_length=100_000, fail_fast=True)]
    costs: Costs | None = None
    values: Costs | None = None

    def grown(self, entries: Callable[[], Sequence[Any]], add: Callable[..., None], more: Costs | None) -> Grown:
        """Add these to the entries of a campaign."""
        before = len(entries())
        add(self.ids, self.features, more)
        total = len(entries())
        return Grown(added=total - before, known=len(self.ids) - total + before, total=total)


class UsersBody(Body, json_schema_extra={"example": {"ids": [], "sources": ["ann"], "targets": ["bob"]}}):
    """New users and edges between any users."""

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


def _listed(entries: list[Entry], search: str, limit: int, after: str | None) -> Page[Entry]:
    """A page of entries whose ids begin with a text, or whose names hold it."""
    wanted = search.casefold()
    found = [each for each in entries if str(each.id).startswith(search) or wanted in (each.name or "").casefold()]
    items, following = page(found, limit, after)
    return Page(items=items, next=following)


@router.get("/products")
@reads
def products(at: ForReader, limit: Limit = 50, after: After = None, search: Search = "") -> Page[Entry]:
    """Products of the catalogue."""
    names = at.campaign.names("products")
    return _listed([Entry(id=each, name=names.get(each)) for each in at.campaign.products()], search, limit, after)


@router.post("/products", status_code=201, openapi_extra=described(*_FILES, more=_json(CatalogueBody)))
async def add_products(at: ForOperator, request: Request) -> Grown:
    """Add products: ids and features as JSON, or a file with the columns of the product table."""
    if form_of(request) == "application/json":
        body = checked(CatalogueBody, await request.body())
        if body.costs is not None:
            raise Refusal(422, "products have no costs of their own; strategies and users do.")
        return await at.change(lambda: body.grown(at.campaign.products, at.campaign.add_products, body.values))
    async with received_file(request) as path:
        added = await at.change(lambda: entries_from(at.campaign, "product", path))
    return Grown(total=added.pop("products"), **added)


@router.get("/strategies")
@reads
def strategies(at: ForReader, limit: Limit = 50, after: After = None, search: Search = "") -> Page[Entry]:
    """Strategies of the catalogue, with their costs."""
    names = at.campaign.names("strategies")
    costs = at.campaign.strategy_costs()
    entries = [Entry(id=entry, name=names.get(entry), cost=cost) for entry, cost in costs.items()]
    return _listed(entries, search, limit, after)


@router.post("/strategies", status_code=201, openapi_extra=described(more=_json(CatalogueBody)))
async def add_strategies(at: ForOperator, request: Request) -> Grown:
    """Add strategies: ids, features and optionally costs."""
    body = checked(CatalogueBody, await request.body())
    if body.values is not None:
        raise Refusal(422, "strategies have no values; products and users do.")
    return await at.change(lambda: body.grown(at.campaign.strategies, at.campaign.add_strategies, body.costs))


@router.post("/strategies/costs")
@tells
def set_costs(at: ForOperator, body: CostsBody) -> Page[Entry]:
    """Change what strategies cost from now on; past rounds keep what they have spent."""
    ids_by_text = by_text(at.campaign.strategies())
    costs = {ids_by_text.get(entry, entry): cost for entry, cost in body.costs.items()}
    at.campaign.set_costs(costs)
    now = at.campaign.strategy_costs()
    return Page(items=[Entry(id=entry, cost=now[entry]) for entry in costs], next=None)


@router.get("/users")
@reads
def users(at: ForReader, limit: Limit = 50, after: After = None, search: Search = "") -> Page[Entry]:
    """Users of the network."""
    ids = at.campaign.graph.ids
    costs = at.campaign.costs
    rows, following = page(at.users_beginning(search) if search else range(len(ids)), limit, after)
    items = [
        Entry(id=at.mask(user), name=name, cost=None if costs is None else costs[row])
        for row, user, name in zip(rows, ids[rows].tolist(), at.names(rows), strict=True)
    ]
    return Page(items=items, next=following)


@router.post(
    "/users",
    status_code=201,
    openapi_extra=described(more={**_json(UsersBody), **form_described(_TABLES, "users")}),
)
async def add_users(at: ForOperator, request: Request) -> GrownNetwork:
    """Add users and edges: as JSON, or as a form with a file users and optionally a file edges."""
    if form_of(request) == "multipart/form-data":
        async with received_form(request, _TABLES, "users") as (_, files):
            added = await at.change(lambda: users_from(at.campaign, files["users"], files.get("edges")))
        return GrownNetwork(**added)
    body = checked(UsersBody, await request.body())

    def call() -> GrownNetwork:
        before = at.campaign.graph
        at.campaign.add_users(**body.model_dump())
        after = at.campaign.graph
        return GrownNetwork(
            users_added=after.n_nodes - before.n_nodes,
            edges_added=after.n_edges - before.n_edges,
            users=after.n_nodes,
            edges=after.n_edges,
        )

    return await at.change(call)


@router.get("/users/{user:path}")
async def user(
    at: ForReader,
    user: str,
    product: Annotated[
        str | None, Query(description="For this product: expected responses.", max_length=10_000)
    ] = None,
) -> UserDocument:
    """What is known of a user."""

    def call() -> UserDocument:
        named = at.user(user)
        graph = at.campaign.graph
        costs = at.campaign.costs
        groups = at.campaign.groups
        row = int(graph.rows([named])[0])
        expected, strongest = _followers(at, row, at.product(product))
        with at.campaign._handle.read() as view:
            rounds = [each.number for each in view.rounds() if each.status != "cancelled" and row in each.contacted]
        return UserDocument(
            id=at.mask(named),
            name=at.names([row])[0],
            followers=int(graph.out_degree[row]),
            cost=None if costs is None else costs[row],
            group=None if groups is None else groups[row].item(),
            rounds=rounds,
            why_not=at.campaign.why_not(named),
            expected=expected,
            strongest=strongest,
        )

    return await at.read(call, learned=product is not None)


def _followers(at: At, row: int, product: int | str | None) -> tuple[float | None, list[Follower]]:
    """What is expected of a user for a product with the best strategy for them, and of whom most."""
    if product is None:
        return None, []
    graph, handle = at.campaign.graph, at.campaign._handle
    out = slice(int(graph.out_offsets[row]), int(graph.out_offsets[row + 1]))
    with handle.learned() as view:
        p = max((each[out] for each in expected_of(handle, view, product, offered(view))), key=np.sum)
    best = np.argsort(-p, kind="stable")[:_STRONGEST]
    rows = graph.targets[out][best].tolist()
    users = map(at.mask, graph.ids[rows].tolist())
    return float(p.sum()), list(map(Follower, users, p[best].tolist(), at.names(rows)))


@router.post("/history", openapi_extra=described(*FORMS))
@chooses
def history(
    at: ForOperator,
    rows: Rows,
    product: Annotated[str | None, Query(description="The product of all rows.", max_length=10_000)] = None,
    window: Annotated[
        str | None, Query(description="How long after a purchase a response counts: 7d.", max_length=100)
    ] = None,
) -> HistoryReport:
    """Learn from past campaigns or from a log of purchases, before everything else in the order of learning."""
    return at.campaign.import_history(product=at.product(product), window=window, **rows)


@router.post("/expire")
@chooses
def expire(at: ForOperator) -> Closed:
    """Close the rounds whose deadline has passed; the service does so by itself."""
    return Closed(closed=at.campaign.expire())
