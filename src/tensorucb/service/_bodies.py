"""What callers send as JSON, and how it becomes arguments of a campaign."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from fastapi.exceptions import RequestValidationError
from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from tensorucb.checks import shown
from tensorucb.choices import Credit, Objective
from tensorucb.errors import InputError
from tensorucb.moments import duration
from tensorucb.question import help_of

B = TypeVar("B", bound=BaseModel)
Id = Annotated[StrictInt, Field(ge=-(2**63), lt=2**63)] | Annotated[StrictStr, Field(min_length=1, max_length=10_000)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Count = Annotated[StrictInt, Field(ge=0)]


def _with_unit(value: Any) -> Any:
    """A duration; a number without a unit is refused in the library's own words."""
    try:
        if isinstance(value, int | float) and value > 0:
            duration("it", value)
    except InputError as error:
        raise PydanticCustomError("duration", "{said}", {"said": str(error)}) from None
    return value


Span = Annotated[StrictStr, BeforeValidator(_with_unit), Field(examples=["7d", "12h"], max_length=100)]


_MOST_FIELDS = 100
_MOST_GROUPS = 10_000


def few_entries(values: Any) -> Any:
    """Refuse a mapping with very many names."""
    if isinstance(values, Mapping) and len(values) > _MOST_GROUPS:
        raise ValueError(f"there may be at most {_MOST_GROUPS:,} groups; got {len(values):,}")
    return values


class Body(BaseModel, extra="forbid"):
    """What a caller sends: nothing but the fields named."""

    @model_validator(mode="before")
    @classmethod
    def _check_fields(cls, content: Any) -> Any:
        # A report of each strange field would take a hundred times the memory of what came.
        if isinstance(content, Mapping) and len(content) > _MOST_FIELDS:
            raise ValueError(f"there are {len(content):,} fields; /api/docs lists those that it may have")
        for name in content if isinstance(content, Mapping) else ():
            if name not in cls.model_fields:
                near = difflib.get_close_matches(str(name), cls.model_fields, 1, 0.7)
                advice = f"perhaps {near[0]} is meant" if near else f"there are {', '.join(cls.model_fields)}"
                raise ValueError(f"there is no field {shown(name)}; {advice}")
        return content


class Contact(Body):
    """A user and the strategy that they get."""

    user: Id
    strategy: Id


# Lists end at their first fault: a report of each would take hundreds of times the memory of what came.
Users = Annotated[list[Id], Field(max_length=1_000_000, fail_fast=True)]
Contacts = Users | Annotated[list[Contact], Field(max_length=1_000_000, fail_fast=True)]
Costs = Annotated[list[Number], Field(max_length=1_000_000, fail_fast=True)]
ByGroup = Annotated[dict[str, Count] | Count | None, BeforeValidator(few_entries)]
Row = Annotated[list[Number], Field(min_length=1, max_length=10_000, fail_fast=True)]


class QuestionBody(Body, json_schema_extra={"example": {"product": "tea", "k": 5}}):
    """A question: what `Campaign.ask` takes. What is left out is the campaign's default.

    The Idempotency-Key of a call that opens a round is its request_id. Costs and groups are lists in the order in which
    GET …/users lists the users.
    """

    product: Id | list[Any] | None = Field(None, description=help_of("product"))
    k: Annotated[StrictInt, Field(ge=1)] | None = Field(None, description=help_of("k"))
    strategies: Users | Literal["all"] | None = Field(None, description=help_of("strategies"))
    per_user: StrictBool | None = Field(None, description=help_of("per_user"))
    exclude: Users | None = Field(None, description=help_of("exclude"))
    candidates: Users | None = Field(None, description=help_of("candidates"))
    must_include: Users | None = Field(None, description=help_of("must_include"))
    cooldown: Span | None = Field(None, description=help_of("cooldown"))
    audience_rest: Span | None = Field(None, description=help_of("audience_rest"))
    costs: Costs | None = Field(None, description=help_of("costs"))
    budget: Number | None = Field(None, description=help_of("budget"))
    groups: Users | None = Field(None, description=help_of("groups"))
    quotas: ByGroup | None = Field(None, description=help_of("quotas"))
    minima: ByGroup | None = Field(None, description=help_of("minima"))
    holdout: Number | None = Field(None, description=help_of("holdout"))
    shadow: Contacts | None = Field(None, description=help_of("shadow"))
    users: Contacts | None = Field(None, description=help_of("users"))
    window: Span | None = Field(None, description=help_of("window"))
    deadline: Number | StrictStr | None = Field(None, description=help_of("deadline"))
    credit: Credit | None = Field(None, description=help_of("credit"))
    objective: Objective | None = Field(None, description=help_of("objective"))
    epsilon: Number | None = Field(None, description=help_of("epsilon"))
    proposal: Annotated[StrictStr, Field(max_length=100)] | None = Field(None, description=help_of("proposal"))

    def arguments(self) -> dict[str, Any]:
        """The arguments of `Campaign.ask`: what JSON cannot say is put back."""
        arguments: dict[str, Any] = {name: getattr(self, name) for name in self.model_fields_set}
        for name in ("users", "shadow"):
            listed = arguments.get(name)
            if listed and isinstance(listed[0], Contact):
                arguments[name] = {contact.user: contact.strategy for contact in listed}
        return arguments


def checked(model: type[B], text: str | bytes, *place: str) -> B:
    """JSON that a route reads itself, checked; ``place`` is where it stands in the request."""
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        raise RequestValidationError(
            [{**detail, "loc": (*place, *detail["loc"])} for detail in error.errors()]
        ) from None
