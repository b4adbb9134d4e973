"""Periods of a company's books: see how they stand, close one, reopen the latest."""

import re
from typing import Annotated, Any
from uuid import UUID

from fastapi import Path, Query, Request, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from api.authentication import Caller
from api.bodies import SubmitAnswer
from api.company_wide import refuse_others, unknown_company
from api.cursors import read_cursor, write_cursor
from api.dependencies import Ready, Who
from api.description import OF_A_BODY, problems
from api.parsing import described_body, read_model
from api.period_views import (
    PeriodPage,
    PeriodView,
    ReopenedView,
    period_not_found,
    period_summary,
)
from api.periods import Act, asked_close, reopened, shown_period
from api.problems import ProblemRaised
from api.queries import Limit, refuse_nul
from api.resources import Resources
from api.responses import json_response
from api.routers import keyed_router
from shared.kinds.costing import PERIOD
from shared.periods import PeriodKey, is_seen, list_periods

router = keyed_router(prefix="/v1/periods", tags=["periods"])
WHOLE = "a period is closed for all of its brands"
OnePeriod = Annotated[str, Path(description="YYYY-MM")]
Company = Annotated[str, Field(min_length=1, max_length=100), BeforeValidator(refuse_nul)]
Approval = Annotated[UUID, Field(strict=False)]


class PeriodsQuery(BaseModel):
    """Whose periods."""

    model_config = ConfigDict(extra="forbid")

    company: Company
    cursor: str | None = Field(None, max_length=200, description="`next_cursor` of the last page")
    limit: Limit = 24


class PeriodQuery(BaseModel):
    """Whose period."""

    model_config = ConfigDict(extra="forbid")

    company: Company


class CloseBody(BaseModel):
    """Whose period to close."""

    model_config = ConfigDict(extra="forbid", strict=True)

    company: str = Field(min_length=1, max_length=100)
    reason: str | None = Field(None, min_length=1, max_length=500, description="for the audit")
    approval: Approval | None = Field(
        None, description="id of another account's approval, where one is asked for"
    )


class ReopenBody(CloseBody):
    """Whose period to reopen, and why."""

    reason: str = Field(min_length=1, max_length=500, description="for the audit")


@router.get(
    "",
    response_class=Response,
    responses=problems("unknown-company") | {200: {"model": PeriodPage}},
)
async def periods(query: Annotated[PeriodsQuery, Query()], resources: Ready, who: Who) -> Response:
    """Show a company's periods, newest first, with how the costs of each stand."""
    return json_response(await read_periods(query, resources, who))


async def read_periods(query: PeriodsQuery, resources: Resources, who: Caller) -> dict[str, Any]:
    """What PeriodPage describes; ProblemRaised for a company that is none of this caller's."""
    before = None if query.cursor is None else read_cursor(query.cursor, keys=1)[0]
    async with resources.reading() as conn:
        if not await is_seen(conn, query.company, scope=who.scope):
            raise ProblemRaised(unknown_company(query.company))
        rows = await list_periods(
            conn, query.company, scope=who.scope, limit=query.limit + 1, before=before
        )
    page = rows[: query.limit]
    more = write_cursor(page[-1]["period"]) if len(rows) > query.limit else None
    return {"periods": [period_summary(row) for row in page], "next_cursor": more}


@router.get(
    "/{period}",
    response_class=Response,
    responses=problems("period-not-found") | {200: {"model": PeriodView}},
)
async def show(
    period: OnePeriod, query: Annotated[PeriodQuery, Query()], resources: Ready, who: Who
) -> Response:
    """Show a period, what became of it, and what its reopening would affect."""
    return json_response(await shown_period(resources, _key(query.company, period), who))


@router.post(
    "/{period}/close",
    status_code=202,
    response_class=Response,
    responses=problems(
        *OF_A_BODY, "approval-required", "unknown-company", "period-not-found", "period-state"
    )
    | {
        202: {
            "model": SubmitAnswer,
            "description": "The job that closes it, or says why not.",
        },
        200: {"model": SubmitAnswer, "description": "The job that is closing it already."},
    },
    openapi_extra=described_body(
        CloseBody, {"company": "SAMPLE", "reason": "month end of January"}
    ),
)
async def close(period: OnePeriod, request: Request, resources: Ready, who: Who) -> Response:
    """Ask for a period's close: a job checks it behind its gate and closes it, or tells why not.

    Asking while a close is under way answers that one's job.
    """
    act = _act(request, period, await read_model(request, CloseBody), who)
    created, view = await resources.finish(asked_close(resources, act), name="close a period")
    answer = json_response(view, status=202 if created else 200)
    answer.headers["Location"] = view["status_url"]
    answer.headers["Retry-After"] = "1"
    return answer


@router.post(
    "/{period}/reopen",
    response_class=Response,
    responses=problems(
        *OF_A_BODY,
        "approval-required",
        "unknown-company",
        "period-not-found",
        "period-state",
        "later-period-closed",
    )
    | {200: {"model": ReopenedView}},
    openapi_extra=described_body(
        ReopenBody, {"company": "SAMPLE", "reason": "a supplier's invoice of January came late"}
    ),
)
async def open_again(period: OnePeriod, request: Request, resources: Ready, who: Who) -> Response:
    """Reopen the latest closed period, at once; the answer lists what was built on it."""
    act = _act(request, period, await read_model(request, ReopenBody), who)
    view: dict[str, Any] = await resources.finish(reopened(resources, act), name="reopen a period")
    return json_response(view)


def _act(request: Request, period: str, body: CloseBody, who: Who) -> Act:
    refuse_others(request, who, body.company, WHOLE)
    key = _key(body.company, period)
    return Act(key=key, who=who, reason=body.reason, approval_id=body.approval)


def _key(company: str, period: str) -> PeriodKey:
    """ProblemRaised for a name that no period can have, as for one that none has."""
    key = PeriodKey(company=company, period=period)
    if not re.fullmatch(PERIOD, period):
        raise ProblemRaised(period_not_found(key))
    return key
