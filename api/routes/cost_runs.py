"""Cost runs: which there are, and what proves each."""

from typing import Annotated, Any, Literal

from fastapi import Query, Response
from pydantic import BaseModel, ConfigDict, Field

from api.authentication import Caller
from api.cost_pages import (
    Code,
    Cursor,
    Period,
    RunId,
    brands_of,
    refuse_unknown_place,
    required_run,
)
from api.cost_run_views import RunSummary, RunView, run_summary, run_view
from api.cursors import as_number, read_cursor, write_cursor
from api.dependencies import Ready, Who
from api.description import problems
from api.queries import Limit
from api.resources import Resources
from api.responses import json_response
from api.routers import keyed_router
from shared.costs.runs import count_items, list_runs, prove

router = keyed_router(prefix="/v1/cost-runs", tags=["costs"])


class RunsQuery(BaseModel):
    """Which runs."""

    model_config = ConfigDict(extra="forbid")

    company: Code = Field(examples=["SAMPLE"])
    period: Period | None = None
    status: Literal["building", "active", "superseded", "previewed", "failed"] | None = None
    cursor: Cursor = None
    limit: Limit = 50


class RunPage(BaseModel):
    """Runs, newest first; `next_cursor` is null at the end."""

    runs: list[RunSummary]
    next_cursor: str | None


@router.get(
    "",
    response_class=Response,
    responses=problems("unknown-company") | {200: {"model": RunPage}},
)
async def runs(query: Annotated[RunsQuery, Query()], resources: Ready, who: Who) -> Response:
    """List a company's cost runs, newest first; an account with some brands sees its part."""
    return json_response(await read_runs(query, resources, who))


async def read_runs(query: RunsQuery, resources: Resources, who: Caller) -> dict[str, Any]:
    """What RunPage describes; ProblemRaised for a company or period that is none."""
    before = None if query.cursor is None else _run_before(query.cursor)
    async with resources.transaction() as conn:
        rows = await list_runs(
            conn,
            who.scope,
            company=query.company,
            period=query.period,
            status=query.status,
            before=before,
            limit=query.limit + 1,
        )
        if not rows:
            await refuse_unknown_place(conn, who.scope, query.company, query.period)
    page = rows[: query.limit]
    following = write_cursor(str(page[-1]["id"])) if len(rows) > query.limit else None
    shown = [run_summary(row, brands_of(row, who.scope)) for row in page]
    return {"runs": shown, "next_cursor": following}


def _run_before(cursor: str) -> int:
    return as_number(read_cursor(cursor, keys=1)[0], cursor)


@router.get(
    "/{run_id}",
    response_class=Response,
    responses=problems("cost-run-not-found") | {200: {"model": RunView}},
)
async def show(run_id: RunId, resources: Ready, who: Who) -> Response:
    """Show a cost run with its proof, which is made anew from its rows each time.

    One that was superseded keeps its totals, its checksum and what it was computed from.
    """
    return json_response(await read_run_view(run_id, resources, who))


async def read_run_view(run_id: int, resources: Resources, who: Caller) -> dict[str, Any]:
    """What RunView describes; ProblemRaised where there is no such run for this caller."""
    async with resources.transaction() as conn:
        run = await required_run(conn, run_id, who)
        brands = brands_of(run, who.scope)
        counts = proven = None
        if run["status"] == "active":
            counts = await count_items(conn, run_id, brands)
            proven = await prove(conn, run_id, brands)
            again = await required_run(conn, run_id, who)
            if again["status"] != "active":  # its rows may have gone while they were counted
                run, counts, proven = again, None, None
    return run_view(run, brands, counts, proven)
