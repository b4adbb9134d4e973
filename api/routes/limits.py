"""Running limits: how many jobs may run at once, of a kind, of a brand, of a kind there."""

from typing import Annotated, Any, Self

from fastapi import Query, Request, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from sqlalchemy import RowMapping

from api.bodies import show_instant
from api.dependencies import Ready, Who
from api.description import OF_A_BODY, problems
from api.parsing import described_body, read_model
from api.problems import ProblemRaised, field_problem
from api.queries import refuse_nul
from api.resources import Resources
from api.responses import json_response
from api.routers import keyed_router
from shared.jobs.limiting import Limited, Unknown, list_limits, remove_limit, set_limit

router = keyed_router(prefix="/v1/limits", tags=["limits"])
MOST = 100_000
EXAMPLE = {"kind": "costing.run", "company": "SAMPLE", "brand": "LUA", "max_running": 2}
Name = Annotated[str, Field(min_length=1, max_length=100), BeforeValidator(refuse_nul)]
Code = Annotated[str, Field(min_length=1, max_length=40), BeforeValidator(refuse_nul)]
RULES = {
    "kind": "is no kind that this api's database knows",
    "company": "must be the code of a company",
    "brand": "must be the code of a brand of this company",
}


class LimitedBy(BaseModel):
    """What a limit holds for; what is not given may be any. A brand needs its company."""

    model_config = ConfigDict(extra="forbid")

    kind: Name | None = None
    company: Code | None = None
    brand: Code | None = None

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if self.brand is not None and self.company is None:
            raise ValueError("a brand needs its company")
        if self.kind is None and self.company is None:
            raise ValueError("must name a kind, a company, or both")
        return self

    @property
    def limited(self) -> Limited:
        """What the limits' own functions take."""
        return Limited(kind=self.kind, company=self.company, brand=self.brand)


class LimitBody(LimitedBy):
    """A limit: as many of its jobs may run at once. None at all: pause or freeze them."""

    model_config = ConfigDict(extra="forbid", strict=True)

    max_running: int = Field(ge=1, le=MOST)


class LimitView(BaseModel):
    """A limit that holds for some job of the caller's."""

    kind: str | None
    company: str | None
    brand: str | None
    max_running: int
    running: int | None = Field(description="that hold a place; for a key of all companies")
    principal: str
    set_at: str


class LimitList(BaseModel):
    """Every limit an operator has set; the maximum of a kind's code is with GET /v1/kinds."""

    limits: list[LimitView]


@router.get("", response_class=Response, responses=problems() | {200: {"model": LimitList}})
async def limits(resources: Ready, who: Who) -> Response:
    """Show the running limits, and how much of each is in use."""
    async with resources.reading() as conn:
        rows = await list_limits(conn, scope=who.scope)
    return json_response({"limits": [_limit_view(row) for row in rows]})


def _limit_view(row: RowMapping) -> dict[str, Any]:
    return dict(row) | {"set_at": show_instant(row["set_at"])}


class LimitAnswer(BaseModel):
    """The limit as it is now; `max_running` is null where there is none."""

    kind: str | None
    company: str | None
    brand: str | None
    max_running: int | None


@router.put(
    "",
    response_class=Response,
    responses=problems(*OF_A_BODY, "unknown-kind", "unknown-company", "unknown-brand")
    | {200: {"model": LimitAnswer}},
    openapi_extra=described_body(LimitBody, EXAMPLE),
)
async def put(request: Request, resources: Ready) -> Response:
    """Set how many of these jobs may run at once. It holds for every claim from now on.

    What runs already goes on. Repeating it changes nothing.
    """
    body = await read_model(request, LimitBody)
    unknown = await resources.finish(_set(resources, body), name="limit")
    if unknown is not None:
        value = getattr(body, unknown.field)
        problem = field_problem(
            f"unknown-{unknown.field}", unknown.field, RULES[unknown.field], value
        )
        raise ProblemRaised(problem)
    return json_response(body.limited.binds() | {"max_running": body.max_running})


@router.delete("", response_class=Response, responses=problems() | {200: {"model": LimitAnswer}})
async def delete(which: Annotated[LimitedBy, Query()], resources: Ready) -> Response:
    """Take the limit of exactly these jobs away. Repeating it changes nothing."""
    await resources.finish(_remove(resources, which.limited), name="limit")
    return json_response(which.limited.binds() | {"max_running": None})


async def _set(resources: Resources, body: LimitBody) -> Unknown | None:
    async with resources.transaction() as conn:
        unknown = await set_limit(conn, body.limited, body.max_running)
    resources.relay.wake()
    return unknown


async def _remove(resources: Resources, limited: Limited) -> None:
    async with resources.transaction() as conn:
        await remove_limit(conn, limited)
    resources.relay.wake()
