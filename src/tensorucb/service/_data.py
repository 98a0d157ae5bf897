"""The files of a new campaign: received by a form, and looked at before there is a campaign."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from tensorucb.campaign import read_campaign_data
from tensorucb.campaign._tables import NAMES, with_consent
from tensorucb.errors import FileFormatError, InputError, TensorUCBError
from tensorucb.service._bodies import Reading, checked
from tensorucb.service._problems import ApiWords, Refusal, as_parts, responses, without
from tensorucb.service._shared import WRITING, Admin, Opened
from tensorucb.service._uploads import described, form_described, form_of, received_form
from tensorucb.tables import TABLES, candidate_columns, find_columns, first_rows

router = APIRouter(tags=["campaigns"], responses=responses(409, 413), dependencies=WRITING)

R = TypeVar("R", bound=Reading)
_FIRST = 6  # rows that are shown
_LONGEST = 200  # characters of a cell


def form_of_tables(*required: str) -> dict[str, Any]:
    """What a route says in the OpenAPI document about the form with files and settings."""
    form = form_described(NAMES, list(required), settings={"type": "string"})
    form["multipart/form-data"]["encoding"] = {"settings": {"contentType": "application/json"}}
    return described(more=form)


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
    def of(cls, error: TensorUCBError, folder: Path) -> Fault:
        """What a reader said of files in a folder of ours."""
        parts = without(f"{folder}/", error)
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


@router.post("/preview-data", response_model=DataPreview, openapi_extra=form_of_tables("edges"))
async def preview_data(request: Request, opened: Opened, who: Admin) -> DataPreview:
    """Look at the files of a campaign before it is created: first rows, columns by meaning, what would be left out.

    The form is that of a new campaign; `settings` may hold those fields that say how files are read, and no name.
    Nothing is kept.
    """
    async with tables_received(request, Reading) as (files, wanted):
        return await opened.aside(lambda: _looked_at(files, wanted))


def _looked_at(files: dict[str, Any], wanted: Reading) -> DataPreview:
    columns = with_consent(wanted.columns, wanted.consent)
    looks = [_table(table, path, columns.get(table)) for table, path in files.items()]
    found = DataPreview(tables=looks, users=None, edges=None, products=None, example=None, report=[], problem=None)
    if any(look.problem is not None for look in looks):
        return found
    try:
        data = read_campaign_data(**files, **wanted.arguments())
    except (InputError, FileFormatError) as error:
        return found.model_copy(update={"problem": Fault.of(error, files["edges"].parent)})
    graph = data.graph
    ends = graph.ids[graph.sources[0]], graph.ids[graph.targets[0]]
    counts = {"users": graph.n_nodes, "edges": graph.n_edges, "products": len(data.products)}
    return found.model_copy(update={**counts, "example": list(map(str, ends)), "report": list(data.report)})


def _table(table: str, path: Path, named: Mapping[str, str] | None) -> TablePreview:
    """The first rows of a file, and which column is which; what is wrong with its columns is a part of the answer."""
    frame = first_rows(table, path, _FIRST)
    fields = TABLES[table]
    problem = None
    try:
        find_columns(path.name, frame.columns, fields, named, part_of=table)
    except FileFormatError as error:
        problem = Fault.of(error, path.parent)
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
