"""What became of each document of a job: of postings and unpostings."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import Query, Response
from pydantic import BaseModel, ConfigDict, Field

from api.actions import job_not_found
from api.authentication import Caller
from api.cursors import as_number, read_cursor, refused_cursor, write_cursor
from api.dependencies import Facts, Ready, Who
from api.description import problems
from api.problems import ProblemRaised
from api.queries import Limit
from api.resources import Resources
from api.responses import json_response
from api.routers import keyed_router
from shared.jobs.outcomes import list_outcomes
from shared.jobs.read import get_job
from shared.ledger.rules import DocumentType

router = keyed_router(prefix="/v1/jobs", tags=["jobs"])
CODES = r"^[A-Z]+(_[A-Z]+)*(,[A-Z]+(_[A-Z]+)*)*$"
LARGEST_PLACE = 2**31 - 1


class OutcomesQuery(BaseModel):
    """Which of the job's documents."""

    model_config = ConfigDict(extra="forbid")

    outcome: str | None = Field(
        None,
        max_length=400,
        pattern=CODES,
        description="one, or several with commas between",
        examples=["PERIOD_CLOSED,UNBALANCED"],
    )
    failed: bool = Field(False, description="only those that did not end well")
    cursor: str | None = Field(None, max_length=200, description="`next_cursor` of the last page")
    limit: Limit = 100


class OutcomeView(BaseModel):
    """One document of the job: what became of it, and all that was wrong with it."""

    place: int = Field(description="in the job's list")
    document_id: int
    type: DocumentType | None = Field(description="null: none of the books that the job is of")
    doc_no: str | None
    version: int | None = Field(description="that was selected; null: there was no such document")
    outcome: str | None = Field(description="null: not done yet")
    codes: list[str] = Field(description="everything in its way; the first is its outcome")
    detail: str | None
    entry_id: int | None = Field(description="the entry that it got, or that took it back")


class OutcomePage(BaseModel):
    """Documents in the order of the job's list; `next_cursor` is null at its end."""

    outcomes: list[OutcomeView]
    next_cursor: str | None


@router.get(
    "/{job_id}/outcomes",
    response_class=Response,
    responses=problems("job-not-found") | {200: {"model": OutcomePage}},
)
async def outcomes(
    job_id: UUID,
    query: Annotated[OutcomesQuery, Query()],
    resources: Ready,
    facts: Facts,
    who: Who,
) -> Response:
    """List what became of each document of a posting or unposting, while it runs and afterwards."""
    facts.job_id = str(job_id)
    return json_response(await read_outcomes(job_id, query, resources, who))


async def read_outcomes(
    job_id: UUID, query: OutcomesQuery, resources: Resources, who: Caller
) -> dict[str, Any]:
    """What OutcomePage describes; ProblemRaised where there is no such job for this caller."""
    after = 0 if query.cursor is None else _after(query.cursor)
    wanted = None if query.outcome is None else query.outcome.split(",")
    async with resources.reading() as conn:
        job = await get_job(conn, job_id, scope=who.scope)
        if job is None:
            raise ProblemRaised(job_not_found(job_id))
        rows = await list_outcomes(
            conn, job, outcomes=wanted, failed=query.failed, after=after, limit=query.limit + 1
        )
    page = rows[: query.limit]
    more = write_cursor(str(page[-1]["seq"])) if len(rows) > query.limit else None
    found = [{"place": row["seq"]} | {k: row[k] for k in row if k != "seq"} for row in page]
    return {"outcomes": found, "next_cursor": more}


def _after(cursor: str) -> int:
    place = as_number(read_cursor(cursor, keys=1)[0], cursor)
    if place > LARGEST_PLACE:
        raise refused_cursor(cursor)
    return place
