"""What dead jobs died of: counted together by kind, code, type and message."""

from typing import Annotated, Any

from fastapi import Query, Response
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import RowMapping

from api.bodies import job_url, show_instant
from api.dependencies import Ready, Who
from api.description import problems
from api.queries import Limit
from api.responses import json_response
from api.routers import keyed_router
from shared.jobs.causes import list_causes
from shared.json_text import portable

router = keyed_router(prefix="/v1/dead-letters", tags=["dead letters"])


class CausesQuery(BaseModel):
    """Which causes."""

    model_config = ConfigDict(extra="forbid")

    kind: str | None = Field(None, max_length=100, pattern=r"^[a-z0-9_.]*$")
    limit: Limit = 50


class ExampleView(BaseModel):
    """The newest of the jobs, with the error that buried it."""

    id: str
    company: str
    brand: str | None
    error: dict[str, Any] | None
    links: dict[str, str]


class CauseView(BaseModel):
    """Dead jobs that died of the same thing: equal kind, code, type and message.

    Of a message count its first 300 characters, without what differs from job to job: `#` stands
    for each word that holds a digit, be it a number, an id or an instant.
    """

    cause: str = Field(description="what a redrive and the list of dead letters call it")
    kind: str
    code: str | None = Field(description="the error's code, else its type")
    type: str | None = Field(description="the type of the error")
    message: str
    jobs: int
    lost_all_leases: int = Field(
        description="those of them whose lease ran out as often as may be: they may kill workers"
    )
    first_at: str = Field(description="when the first of them died")
    last_at: str
    example: ExampleView


class CausePage(BaseModel):
    """Those that bury most, largest first; `total_jobs` and `total_causes` count the others too."""

    causes: list[CauseView]
    total_jobs: int
    total_causes: int


@router.get("/causes", response_class=Response, responses=problems() | {200: {"model": CausePage}})
async def causes(query: Annotated[CausesQuery, Query()], resources: Ready, who: Who) -> Response:
    """Count dead jobs by what they died of, the most frequent cause first."""
    async with resources.reading() as conn:
        found = await list_causes(conn, kind=query.kind, limit=query.limit, scope=who.scope)
    body = {
        "causes": [cause_view(row) for row in found.rows],
        "total_jobs": found.jobs,
        "total_causes": found.causes,
    }
    return json_response(body)


def cause_view(row: RowMapping) -> dict[str, Any]:
    """What CauseView describes, of a row of list_causes()."""
    url = job_url(row["example"])
    return {
        "cause": row["cause"],
        "kind": row["kind"],
        "code": row["code"] or None,
        "type": row["type"] or None,
        "message": row["message"],
        "jobs": row["jobs"],
        "lost_all_leases": row["killers"],
        "first_at": show_instant(row["first_at"]),
        "last_at": show_instant(row["last_at"]),
        "example": {
            "id": str(row["example"]),
            "company": row["example_company"],
            "brand": row["example_brand"],
            "error": portable(row["example_error"]),
            "links": {"self": url, "redrive": f"{url}/redrive"},
        },
    }
