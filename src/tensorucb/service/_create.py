"""A new campaign: its files received by a form, looked at before there is a campaign, and made into one."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field, StrictBool, StrictInt

from tensorucb._delimited import KEPT
from tensorucb.campaign import create_campaign, read_campaign_data
from tensorucb.campaign._model import policy_named
from tensorucb.campaign._stored import campaign_exists
from tensorucb.campaign._tables import NAMES, with_consent
from tensorucb.choices import Credit, Metric, Objective
from tensorucb.errors import FileFormatError, InputError, TensorUCBError, argument
from tensorucb.question import SETTINGS
from tensorucb.service._bodies import Body, Number, Span, checked
from tensorucb.service._campaigns import CampaignDocument, campaign_facts
from tensorucb.service._open import OpenCampaigns
from tensorucb.service._problems import ApiWords, Refusal, as_parts, leads_to, parts_of, responses
from tensorucb.service._shared import Admin, Key
from tensorucb.service._uploads import described, form_described, form_of, received_form
from tensorucb.tables import TABLES, candidate_columns, find_columns, first_rows

router = APIRouter(tags=["campaigns"], responses=responses(404, 409, 413))

R = TypeVar("R", bound="Reading")
_FIRST = 6  # rows that are shown
_LONGEST = 200  # characters of a cell


def _setting(name: str, **more: Any) -> Any:
    """The field of a setting of a campaign."""
    return Field(SETTINGS[name].default, description=SETTINGS[name].help, **more)


class Reading(Body):
    """How the files of a new campaign are read."""

    window: Span | None = _setting("window")
    consent: str | None = _setting("consent", max_length=500)
    columns: dict[str, dict[str, str]] | None = Field(None, description="Names of columns by table and meaning.")
    kinds: dict[str, dict[str, str]] | None = Field(None, description="What columns hold, by table and column.")
    id_type: Literal["auto", "int", "str"] = "auto"
    timezone: str = Field("UTC", max_length=100, description=SETTINGS["timezone"].help)
    strict: StrictBool = Field(False, description="Refuse tables of which a single row cannot be used.")
    max_left_out: Annotated[float, Field(ge=0, le=1)] = Field(0.5, description="Refuse them above this share of rows.")

    def arguments(self) -> dict[str, Any]:
        """The arguments of `read_campaign_data`."""
        return {name: getattr(self, name) for name in Reading.model_fields}


class NewCampaign(Reading):
    """The settings of a new campaign."""

    name: str = Field(max_length=100, description="1 to 100 letters, digits, '-', '_' or '.'", examples=["spring"])
    policy: str = "TensorUCB"
    policy_settings: dict[str, Any] = Field(default_factory=dict, description="Arguments of the policy.")
    metric: Metric = _setting("metric")
    objective: Objective = _setting("objective")
    credit: Credit = _setting("credit")
    epsilon: Number = _setting("epsilon")
    ask: dict[str, Any] | None = _setting("ask")
    contact_group: str | None = _setting("contact_group", max_length=100)
    contact_cap: str | None = _setting("contact_cap", max_length=100, examples=["2/7d"])
    seed: Annotated[StrictInt, Field(ge=0, lt=2**63)] = _setting("seed")
    snapshot_every: Annotated[StrictInt, Field(ge=1)] = _setting("snapshot_every")

    def options(self) -> dict[str, Any]:
        """The settings, as `create_campaign` takes them; the column of consent is read with the files."""
        return {name: getattr(self, name) for name in SETTINGS if name != "consent"}


@dataclass(frozen=True)
class Created(CampaignDocument):
    """A new campaign.

    Attributes
    ----------
    report
        What was used of the files and what was left out.
    """

    report: list[str]


@asynccontextmanager
async def tables_received(request: Request, model: type[R]) -> AsyncIterator[tuple[dict[str, Path], R]]:
    """The files of a form by table, and its settings; the files are gone after the block."""
    if form_of(request) != "multipart/form-data":
        raise Refusal(415, "a campaign is created by a form (multipart/form-data) with files and the field settings.")
    async with received_form(request, NAMES, "edges") as (form, files):
        settings = form.get("settings", "{}")
        if not isinstance(settings, str):
            raise Refusal(422, 'the field settings must be JSON such as {"name": "spring"}; got a file.')
        yield files, checked(model, settings, "settings")


class Fault(BaseModel):
    """Why something cannot be used."""

    detail: str = Field(description="What is wrong, and what to do.")
    parts: list[str | dict[str, Any]] = Field(description="The same in parts, as in a problem.")

    @classmethod
    def of(cls, request: Request, error: TensorUCBError) -> Fault:
        """What a reader said of the files of a request."""
        parts = parts_of(request, error)
        return cls(detail=ApiWords().said(parts), parts=as_parts(parts))


class FieldPreview(BaseModel):
    """A column by its meaning."""

    name: str
    needed: bool = Field(description="Whether a table without it is refused.")
    column: str | None = Field(description="The column that it would be; null if there is none, or could be several.")
    candidates: list[str] = Field(description="The columns that it could be.")


class TablePreview(BaseModel):
    """A file as it came, and what its columns mean."""

    table: str
    columns: list[str]
    first: list[list[str | None]] = Field(description="The first rows, a text for each column.")
    fields: list[FieldPreview]
    problem: Fault | None = Field(description="Why it cannot be used; null if it can be.")


class DataPreview(BaseModel):
    """What a campaign would be made of."""

    tables: list[TablePreview]
    users: int | None = Field(description="How many there would be; null if the files cannot be used.")
    edges: int | None
    products: int | None
    example: list[str] | None = Field(description="An edge: the one who influences, and the one influenced.")
    report: list[str] = Field(description="What would be used of the files and what left out, as for a new campaign.")
    problem: Fault | None = Field(description="Why the files together cannot be used; null if they can be.")


@router.post(
    "/campaigns",
    status_code=201,
    openapi_extra=described(more=form_described(NAMES, "edges", "settings", settings=True)),
    responses={201: leads_to("campaigns", "one", "progress", "export", "delete", name="name")},
)
async def create(request: Request, caller: Admin, key: Key = None) -> Created:
    """Create a campaign from files: edges (source, target), and optionally actions, products, users and strategies.

    The field `settings` is JSON: `{"name": "spring", "window": "7d"}`; beside these policy, policy_settings,
    metric, objective, credit, epsilon, ask, columns, kinds, id_type, consent, contact_group, contact_cap, seed and
    snapshot_every. The same form with the same Idempotency-Key finds the campaign that it has created.
    """
    async with tables_received(request, NewCampaign) as (files, wanted):
        return await caller.campaigns.aside(lambda: _created(caller.campaigns, files, wanted, key))


def _created(opened: OpenCampaigns, files: dict[str, Any], wanted: NewCampaign, key: str | None) -> Created:
    """The new campaign; or the one that the same call created before, if its answer was lost."""
    policy = policy_named(wanted.policy, wanted.policy_settings)
    data = read_campaign_data(**files, **wanted.arguments())
    request_id = None if key is None else f"{key} {_digest(files, wanted)}"
    try:
        campaign = create_campaign(
            wanted.name,
            data=data,
            policy=policy,
            storage=opened.store,
            request_id=request_id,
            **wanted.options(),
        )
    except InputError:
        if not campaign_exists(wanted.name, opened.store):
            raise
        taken = "there is a campaign of this name already"
        if key is None:
            raise Refusal(409, f"{taken}; choose another name.") from None
        made = ", and what created it had another ", argument("request_id"), ", other settings or other files; "
        raise Refusal(409, taken, *made, "choose another name.") from None
    facts = campaign_facts(campaign, lambda user: user)
    return Created(**vars(campaign.status()), **facts, report=list(data.report))


def _digest(files: dict[str, Path], wanted: NewCampaign) -> str:
    """The content of a form: with another one, a key is another call's."""
    digest = hashlib.sha256(wanted.model_dump_json().encode())
    for table, path in sorted(files.items()):
        with path.with_name(path.name.removesuffix(KEPT)).open("rb") as file:
            digest.update(f"{table} {hashlib.file_digest(file, 'sha256').hexdigest()}".encode())
    return digest.hexdigest()


@router.post("/preview-data", openapi_extra=described(more=form_described(NAMES, "edges", settings=True)))
async def preview_data(request: Request, caller: Admin) -> DataPreview:
    """Look at the files of a campaign before it is created: first rows, columns by meaning, what would be left out.

    The form is that of a new campaign; `settings` may hold those fields that say how files are read, and no name.
    Nothing is kept.
    """
    async with tables_received(request, Reading) as (files, wanted):
        return await caller.campaigns.aside(lambda: _looked_at(request, files, wanted))


def _looked_at(request: Request, files: dict[str, Any], wanted: Reading) -> DataPreview:
    columns = with_consent(wanted.columns, wanted.consent)
    looks = [_table(request, table, path, columns.get(table)) for table, path in files.items()]
    preview = DataPreview(tables=looks, users=None, edges=None, products=None, example=None, report=[], problem=None)
    if any(look.problem is not None for look in looks):
        return preview
    try:
        data = read_campaign_data(**files, **wanted.arguments())
    except (InputError, FileFormatError) as error:
        return preview.model_copy(update={"problem": Fault.of(request, error)})
    graph = data.graph
    ends = graph.ids[graph.sources[0]], graph.ids[graph.targets[0]]
    counts = {"users": graph.n_nodes, "edges": graph.n_edges, "products": len(data.products)}
    return preview.model_copy(update={**counts, "example": list(map(str, ends)), "report": list(data.report)})


def _table(request: Request, table: str, path: Path, named: Mapping[str, str] | None) -> TablePreview:
    """The first rows of a file, and which column is which; what is wrong with its columns is a part of the answer."""
    frame = first_rows(table, path, _FIRST)
    fields = TABLES[table]
    problem = None
    try:
        find_columns(path.name.removesuffix(KEPT), frame.columns, fields, named, part_of=table)
    except FileFormatError as error:
        problem = Fault.of(request, error)
    candidates = candidate_columns(frame.columns, fields, named)
    return TablePreview(
        table=table,
        columns=frame.columns,
        first=[[None if cell is None else str(cell)[:_LONGEST] for cell in row] for row in frame.iter_rows()],
        fields=[
            FieldPreview(
                name=field.name,
                needed=not field.optional,
                column=candidates[field.name][0] if len(candidates[field.name]) == 1 else None,
                candidates=candidates[field.name],
            )
            for field in fields
        ],
        problem=problem,
    )
