"""Costing methods: how an item is costed, from which day on, and who decided it."""

from datetime import date
from typing import Annotated, Literal, Self

from fastapi import Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, model_validator

from api.authentication import Caller
from api.bodies import show_instant
from api.company_wide import refuse_others
from api.cost_pages import Code as Asked
from api.dependencies import Ready, Who
from api.description import OF_A_BODY, problems
from api.parsing import described_body, read_model
from api.problems import Problem, ProblemRaised, field_problem
from api.resources import Resources
from api.responses import json_response
from api.routers import keyed_router
from shared.costs.methods import Decision, MethodRefused, decide_method, read_methods

router = keyed_router(prefix="/v1/costing-methods", tags=["costs"])
Method = Literal["periodic_avg", "moving_avg", "fifo", "specific"]
Code = Annotated[str, Field(min_length=1, max_length=40)]
EXAMPLE = {"company": "SAMPLE", "item": "LUA0001", "method": "fifo", "valid_from": "2027-01-01"}


class MethodBody(BaseModel):
    """From which day on an item is costed by which method."""

    model_config = ConfigDict(extra="forbid", strict=True)

    company: Code
    item: Code
    method: Method
    valid_from: date = Field(description="the first day of a period; of a fiscal year, else say so")
    mid_year: bool = Field(False, description="it is no first day of a fiscal year, for a reason")
    reason: str | None = Field(None, min_length=1, max_length=500, description="for the audit")

    @model_validator(mode="after")
    def _says_why(self) -> Self:
        if self.mid_year and self.reason is None:
            raise ValueError("a change within a fiscal year needs its reason")
        return self

    @property
    def decision(self) -> Decision:
        """What the database is asked for."""
        return Decision(**self.model_dump())


class MethodAnswer(BaseModel):
    """The method of that day on, and the one that was in force there before."""

    company: str
    item: str
    method: str
    former: str
    valid_from: str
    changed: bool


class DecisionView(BaseModel):
    """One decision; of two on one day the first here counts."""

    valid_from: str
    method: str
    mid_year: bool
    reason: str | None
    decided_by: str
    decided_at: str


class MethodsOfItem(BaseModel):
    """How an item has been and will be costed: `initial` before every decision."""

    company: str
    item: str
    initial: str
    decisions: list[DecisionView]


class ItemQuery(BaseModel):
    """Which item."""

    model_config = ConfigDict(extra="forbid")

    company: Asked = Field(examples=["SAMPLE"])
    item: Asked = Field(examples=["LUA0001"])


@router.get(
    "",
    response_class=Response,
    responses=problems("unknown-company", "unknown-item") | {200: {"model": MethodsOfItem}},
)
async def methods(query: Annotated[ItemQuery, Query()], resources: Ready, who: Who) -> Response:
    """Show how an item is costed, with every decision on it: who, when and why."""
    _refuse_unknown_company(who, query.company)
    async with resources.reading() as conn:
        found = await read_methods(conn, query.company, query.item)
    if found is None:
        raise ProblemRaised(_unknown_item(query.company, query.item))
    initial, rows = found
    decisions = [
        dict(row)
        | {
            "valid_from": row["valid_from"].isoformat(),
            "decided_at": show_instant(row["decided_at"]),
        }
        for row in rows
    ]
    place = {"company": query.company, "item": query.item}
    return json_response(place | {"initial": initial, "decisions": decisions})


@router.put(
    "",
    response_class=Response,
    responses=problems(*OF_A_BODY, "unknown-company", "unknown-item", "method-change-refused")
    | {200: {"model": MethodAnswer}},
    openapi_extra=described_body(MethodBody, EXAMPLE),
)
async def decide(request: Request, resources: Ready, who: Who) -> Response:
    """Decide how an item is costed from a day on; it asks for the whole company.

    Results of open periods from that day on are costed anew by the next run of what is dirty.
    Repeating it changes nothing.
    """
    body = await read_model(request, MethodBody)
    refuse_others(request, who, body.company, "all of its brands cost an item alike")
    try:
        former = await resources.finish(_decide(resources, body.decision), name="method")
    except MethodRefused as refused:
        raise ProblemRaised(_refused(body, refused)) from None
    place = {"company": body.company, "item": body.item, "method": body.method}
    day = {"valid_from": body.valid_from.isoformat()}
    return json_response(place | day | {"former": former, "changed": former != body.method})


async def _decide(resources: Resources, decision: Decision) -> str:
    async with resources.transaction() as conn:
        return await decide_method(conn, decision)


def _refuse_unknown_company(who: Caller, company: str) -> None:
    if not who.scope.covers_company(company):
        rule = "is no company whose books this account may see"
        raise ProblemRaised(field_problem("unknown-company", "company", rule, company))


def _refused(body: MethodBody, refused: MethodRefused) -> Problem:
    if refused.code == "ITEM_UNKNOWN":
        return _unknown_item(body.company, body.item)
    detail = str(refused).removeprefix(f"{refused.code}: ")
    return Problem(slug="method-change-refused", detail=detail, more={"code": refused.code})


def _unknown_item(company: str, item: str) -> Problem:
    return field_problem("unknown-item", "item", f"must be the code of an item of {company}", item)
