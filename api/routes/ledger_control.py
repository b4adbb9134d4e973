"""Control: the ledger's value of goods against what costing says of them, and what explains it."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import Query, Response
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import RowMapping

from api.authentication import Caller
from api.cost_pages import Code, Period, minor_digits_of, refuse_unknown_place
from api.dependencies import Ready, Who
from api.description import problems
from api.queries import Limit
from api.resources import Resources
from api.responses import json_response
from api.routers import keyed_router
from shared.costs.shown import scaled
from shared.ledger.control import Controlled, compare, has_chart, list_differing, unposted
from shared.ledger.reports import days_of

router = keyed_router(prefix="/v1/ledger", tags=["ledger"])
# Of drafts so many are named.
MOST_DRAFTS = 5


class ControlQuery(BaseModel):
    """Which period, and how many differences are explained."""

    model_config = ConfigDict(extra="forbid")

    company: Code = Field(examples=["SAMPLE"])
    period: Period
    limit: Limit = 50


class Reason(BaseModel):
    """What makes a difference: `booked` less `expected`; a pool's reasons make up all of it."""

    what: Literal["document", "costs", "before"] = Field(
        description="a document's own booking; the cost documents, which posting.costs makes; what "
        "was left by earlier periods"
    )
    doc_no: str | None
    type: str | None = Field(description="of the document; null: it has booked nothing")
    expected: str
    booked: str


class Difference(BaseModel):
    """Goods of an item in a pool that the ledger values otherwise; `pool` null: not costed."""

    item: str | None
    brand: str | None = Field(description="empty: brands share the pool")
    pool: str | None
    value: str = Field(description="what costing says the goods are worth at the period's end")
    ledger: str = Field(description="the balance of the accounts that are stock, at that day")
    difference: str
    stores: list[str] = Field(description="where the two differ; of one pool it may cancel out")
    reasons: list[Reason] = Field(description="at most 20")


class ControlView(BaseModel):
    """The whole period, and the first differences. `agrees`: there is none, and no draft."""

    company: str
    period: str
    chart: bool = Field(description="false: the company has no accounts that are stock")
    agrees: bool
    value: str
    ledger: str
    pools: int = Field(description="items in pools that were compared")
    differing: int
    differences: list[Difference]
    drafts: int = Field(description="documents of the period that are not posted")
    first_drafts: list[str]


@router.get(
    "/control",
    response_class=Response,
    responses=problems("unknown-company") | {200: {"model": ControlView}},
)
async def control(query: Annotated[ControlQuery, Query()], resources: Ready, who: Who) -> Response:
    """Compare the goods of a period; an account with some brands sees the pools of these."""
    return json_response(await read_control(query, resources, who))


async def read_control(query: ControlQuery, resources: Resources, who: Caller) -> dict[str, Any]:
    """What ControlView describes; ProblemRaised for unknown books."""
    async with resources.reading() as conn:
        await refuse_unknown_place(conn, who.scope, query.company, query.period)
        days = await days_of(conn, query.company, query.period)
        assert days is not None, "the period is known"
        controlled = Controlled(
            company=query.company,
            period=query.period,
            starts_on=days[0],
            ends_on=days[1],
            brands=who.scope.brands,
        )
        digits = await minor_digits_of(conn, query.company)
        chart = await has_chart(conn, query.company)
        totals = await compare(conn, controlled, 0)
        drafts = await unposted(conn, controlled, MOST_DRAFTS)
        rows = await list_differing(conn, controlled, query.limit) if totals.differing else []
    return {
        "company": query.company,
        "period": query.period,
        "chart": chart,
        "agrees": chart and totals.differing == 0 and drafts.n == 0,
        "value": scaled(int(totals.value), digits),
        "ledger": scaled(int(totals.balance), digits),
        "pools": totals.pools,
        "differing": totals.differing,
        "differences": [_difference(row, reasons, digits) for row, reasons in rows],
        "drafts": drafts.n,
        "first_drafts": list(drafts.first or ()),
    }


def _difference(row: RowMapping, reasons: Sequence[RowMapping], digits: int) -> dict[str, Any]:
    named = {
        "item": row["item"],
        "brand": row["brand"],
        "pool": None if row["pool"] is None else row["pool"].removeprefix("/"),
    }
    amounts = {
        "value": scaled(int(row["value"]), digits),
        "ledger": scaled(int(row["balance"]), digits),
        "difference": scaled(int(row["balance"] - row["value"]), digits),
    }
    told = [
        {name: each[name] for name in ("what", "doc_no", "type")}
        | {name: scaled(int(each[name]), digits) for name in ("expected", "booked")}
        for each in reasons
    ]
    return named | amounts | {"stores": list(row["stores"]), "reasons": told}
