"""The list of jobs, page by page."""

from datetime import datetime
from typing import Annotated, Any, Self
from uuid import UUID

from fastapi import Query, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from api.authentication import Caller
from api.bodies import JobSummary, job_summary, parse_instant
from api.cursors import read_job_cursor, write_cursor
from api.dependencies import Ready, Who
from api.description import problems
from api.groups import required
from api.problems import ProblemRaised, field_problem
from api.queries import Limit
from api.resources import Resources
from api.responses import json_response
from api.routers import keyed_router
from shared.access import Scope
from shared.jobs.listing import JobFilter, list_jobs
from shared.types import JobState

router = keyed_router(prefix="/v1/jobs", tags=["jobs"])
STATES = tuple(state.value for state in JobState)
ONE_STATE = f"({'|'.join(STATES)})"
INSTANT = {"type": "string", "format": "date-time", "examples": ["2026-01-31T00:00:00+07:00"]}
Instant = Annotated[datetime | None, BeforeValidator(parse_instant)]


class ListQuery(BaseModel):
    """Filters of a list of jobs; a name that is none of them is refused."""

    model_config = ConfigDict(extra="forbid")

    state: str | None = Field(
        None,
        description="one, or several with commas between",
        json_schema_extra={
            "pattern": f"^{ONE_STATE}(,{ONE_STATE})*$",
            "examples": ["dead,running"],
        },
    )
    kind: str | None = Field(None, max_length=100)
    company: str | None = Field(None, max_length=100)
    brand: str | None = Field(None, max_length=100)
    group: UUID | None = Field(None, description="members of this group")
    submitter: str | None = Field(None, max_length=200, description="the account that submitted it")
    created_from: Instant = Field(None, description="from this instant on, with an offset")
    created_to: Instant = Field(None, description="before this instant, with an offset")
    cursor: str | None = Field(None, max_length=200, description="`next_cursor` of the last page")
    limit: Limit = 50

    @field_validator("state")
    @classmethod
    def _known_states(cls, value: str | None) -> str | None:
        if value is not None and not set(value.split(",")) <= set(STATES):
            raise ValueError(f"must be one of {', '.join(STATES)}, or several with commas between")
        return value

    @field_validator("kind", "company", "brand", "submitter")
    @classmethod
    def _storable(cls, value: str | None) -> str | None:
        if value is not None and "\x00" in value:
            raise ValueError("must not hold U+0000")
        return value

    @model_validator(mode="after")
    def _from_before_to(self) -> Self:
        if self.created_from and self.created_to and self.created_from >= self.created_to:
            raise ValueError("created_from must lie before created_to")
        return self

    @property
    def wanted(self) -> JobFilter:
        """What is asked for."""
        return JobFilter(
            states=frozenset(map(JobState, self.state.split(",") if self.state else ())),
            kind=self.kind,
            company=self.company,
            brand=self.brand,
            group=self.group,
            submitter=self.submitter,
            created_from=self.created_from,
            created_to=self.created_to,
        )


class JobPage(BaseModel):
    """Jobs, newest first. `next_cursor` is null at the end; a short page is not always the last."""

    jobs: list[JobSummary]
    next_cursor: str | None


@router.get(
    "",
    response_class=Response,
    responses=problems("unknown-kind", "unknown-company", "unknown-brand", "group-not-found")
    | {200: {"model": JobPage}},
)
async def list_page(query: Annotated[ListQuery, Query()], resources: Ready, who: Who) -> Response:
    """List jobs, newest first; paging neither repeats nor skips one while they change."""
    return json_response(await read_page(query, resources, who))


async def read_page(query: ListQuery, resources: Resources, who: Caller) -> dict[str, Any]:
    """What JobPage describes; ProblemRaised for a kind, group, company or brand that is none."""
    before = None if query.cursor is None else read_job_cursor(query.cursor)
    async with resources.transaction() as conn:
        await _refuse_unknown_kind(conn, resources, query.kind)
        if query.group is not None:
            await required(conn, query.group, who.scope)
        page = await list_jobs(
            conn, query.wanted, limit=query.limit, before=before, scope=who.scope
        )
        if not page.rows and before is None and page.next_before is None:
            await _refuse_unknown_place(conn, query, who.scope)
    return {
        "jobs": [job_summary(row) for row in page.rows],
        "next_cursor": write_cursor(str(page.next_before)) if page.next_before else None,
    }


KIND_IS_KNOWN = text("SELECT EXISTS (SELECT FROM chot.kinds WHERE name = :kind)")


async def _refuse_unknown_kind(
    conn: AsyncConnection, resources: Resources, kind: str | None
) -> None:
    """ProblemRaised for a kind that nobody ever declared: an empty list would hide the slip."""
    if kind is None or kind in resources.kinds:
        return
    if not await conn.scalar(KIND_IS_KNOWN, {"kind": kind}):
        rule = f"is no kind that was ever declared here; there are {', '.join(resources.kinds)}"
        raise ProblemRaised(field_problem("unknown-kind", "kind", rule, kind))


# Whether there is such a company, and such a brand (of it), among those that the account sees.
PLACE_IS_KNOWN = text("""
    SELECT EXISTS (SELECT FROM books.companies c
                    WHERE c.code = CAST(:company AS text)) AS company,
           EXISTS (SELECT FROM books.brands b
                    WHERE b.code = CAST(:brand AS text)
                      AND b.company = coalesce(CAST(:company AS text), CAST(:scope_company AS text),
                                               b.company)) AS brand""")


async def _refuse_unknown_place(conn: AsyncConnection, query: ListQuery, scope: Scope) -> None:
    """ProblemRaised for a company or brand that is none, of an empty list only: it may be a slip.

    What lies outside the scope gets the words of what is not there. Where there are jobs the names
    need not be looked up: those of a brand that is gone are listed as before.
    """
    binds = {"company": query.company, "brand": query.brand, "scope_company": scope.company}
    known = (await conn.execute(PLACE_IS_KNOWN, binds)).one()
    if query.company is not None and not (known.company and scope.covers_company(query.company)):
        rule = "is no company whose jobs this account may see"
        raise ProblemRaised(field_problem("unknown-company", "company", rule, query.company))
    in_scope = scope.brands is None or query.brand in scope.brands
    if query.brand is not None and not (known.brand and in_scope):
        rule = "is no brand whose jobs this account may see"
        raise ProblemRaised(field_problem("unknown-brand", "brand", rule, query.brand))
