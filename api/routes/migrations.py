"""Migrations: where each run stands, what it could not take, pause and resume."""

import csv
import io
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import Depends, Query, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.responses import StreamingResponse

from api.cursors import as_number, read_cursor, read_job_cursor, write_cursor
from api.dependencies import Ready, Who
from api.description import problems
from api.migration_views import (
    FullMigration,
    MigrationPage,
    PauseView,
    RejectPage,
    full_migration,
    migration_not_found,
    migration_view,
)
from api.problems import Problem, ProblemRaised
from api.queries import Limit, refuse_nul, refuse_unknown
from api.resources import Resources
from api.responses import json_response
from api.routers import keyed_router
from shared.access import Scope
from shared.migrations.pausing import Paused, pause_run, resume_run
from shared.migrations.runs import list_batches, list_rejects, list_runs, read_run

router = keyed_router(prefix="/v1/migrations", tags=["migrations"])
RECENT_BATCHES = 20
CSV_PAGE = 1_000
CSV_COLUMNS = ("seq", "line", "key", "field", "value", "code", "rule")
# A spreadsheet takes what begins so for a formula and runs it.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


class MigrationsQuery(BaseModel):
    """Whose migrations."""

    model_config = ConfigDict(extra="forbid")

    company: Annotated[
        str | None, Field(min_length=1, max_length=100), BeforeValidator(refuse_nul)
    ] = None
    cursor: str | None = Field(None, max_length=200, description="`next_cursor` of the last page")
    limit: Limit = 50


class RejectsQuery(BaseModel):
    """Which page, or all of them as a file."""

    model_config = ConfigDict(extra="forbid")

    format: Literal["json", "csv"] = Field("json", description="csv: all of them, as a file")
    cursor: str | None = Field(None, max_length=200, description="`next_cursor` of the last page")
    limit: Limit = 100


@router.get("", response_class=Response, responses=problems() | {200: {"model": MigrationPage}})
async def migrations(
    query: Annotated[MigrationsQuery, Query()], resources: Ready, who: Who
) -> Response:
    """List migrations, newest first, in the account's scope."""
    before = None if query.cursor is None else read_job_cursor(query.cursor)
    async with resources.reading() as conn:
        rows = await list_runs(
            conn, scope=who.scope, company=query.company, limit=query.limit + 1, before=before
        )
    page = rows[: query.limit]
    more = write_cursor(str(page[-1]["id"])) if len(rows) > query.limit else None
    found = [migration_view(row) for row in page]
    return json_response({"migrations": found, "next_cursor": more})


@router.get(
    "/{job_id}",
    dependencies=[Depends(refuse_unknown())],
    response_class=Response,
    responses=problems("migration-not-found") | {200: {"model": FullMigration}},
)
async def show(job_id: UUID, resources: Ready, who: Who) -> Response:
    """Show a migration: how far it is, what it waits for, its newest batches, its checks."""
    async with resources.reading() as conn:
        row = await read_run(conn, job_id, scope=who.scope)
        if row is None:
            raise ProblemRaised(migration_not_found(job_id))
        batches = await list_batches(conn, job_id, limit=RECENT_BATCHES)
    return json_response(full_migration(row, batches))


@router.get(
    "/{job_id}/rejects",
    response_class=Response,
    responses=problems("migration-not-found")
    | {
        200: {
            "model": RejectPage,
            "description": "A page of them, or with `format=csv` all of them as a file.",
            "content": {
                "text/csv": {"example": "seq,line,key,field,value,code,rule\r\n"},
            },
        }
    },
)
async def rejects(
    job_id: UUID, query: Annotated[RejectsQuery, Query()], resources: Ready, who: Who
) -> Response:
    """List the rows that a migration could not take, each with the rule that it breaks."""
    after = 0
    if query.cursor is not None:
        after = as_number(read_cursor(query.cursor, keys=1)[0], query.cursor)
    async with resources.reading() as conn:
        if await read_run(conn, job_id, scope=who.scope) is None:
            raise ProblemRaised(migration_not_found(job_id))
        rows = await list_rejects(conn, job_id, limit=query.limit + 1, after=after)
    if query.format == "csv":
        named = f'attachment; filename="rejects-{job_id}.csv"'
        return StreamingResponse(
            _csv(resources, job_id),
            media_type="text/csv; charset=utf-8",
            headers={"content-disposition": named},
        )
    page = rows[: query.limit]
    more = write_cursor(str(page[-1]["seq"])) if len(rows) > query.limit else None
    return json_response({"rejects": [dict(row) for row in page], "next_cursor": more})


async def _csv(resources: Resources, job_id: UUID) -> AsyncIterator[bytes]:
    """Page by page; a connection is held only while one is read. With a mark for spreadsheets."""
    yield "\ufeff".encode() + _lines([CSV_COLUMNS])
    after = 0
    while True:
        async with resources.reading() as conn:
            rows = await list_rejects(conn, job_id, limit=CSV_PAGE, after=after)
        if rows:
            after = rows[-1]["seq"]
            yield _lines([tuple(_cell(row[name]) for name in CSV_COLUMNS) for row in rows])
        if len(rows) < CSV_PAGE:
            return


def _lines(rows: list[tuple[str, ...]]) -> bytes:
    written = io.StringIO()
    csv.writer(written).writerows(rows)
    return written.getvalue().encode()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    said = "/".join(value) if isinstance(value, list) else str(value)
    return f"'{said}" if said.startswith(FORMULA) else said


@router.post(
    "/{job_id}/pause",
    dependencies=[Depends(refuse_unknown())],
    response_class=Response,
    responses=problems("migration-not-found", "too-late") | {200: {"model": PauseView}},
)
async def pause(job_id: UUID, resources: Ready, who: Who) -> Response:
    """Pause a migration: pending it is not claimed, running it ends after its batch."""
    found = await resources.finish(_act(resources, job_id, who.scope, pauses=True), name="pause")
    return _answer(job_id, found, "paused")


@router.post(
    "/{job_id}/resume",
    dependencies=[Depends(refuse_unknown())],
    response_class=Response,
    responses=problems("migration-not-found", "too-late") | {200: {"model": PauseView}},
)
async def resume(job_id: UUID, resources: Ready, who: Who) -> Response:
    """Let a paused migration go on behind the last row that is done."""
    found = await resources.finish(_act(resources, job_id, who.scope, pauses=False), name="resume")
    resources.relay.wake()
    return _answer(job_id, found, "resumed")


async def _act(resources: Resources, job_id: UUID, scope: Scope, *, pauses: bool) -> Paused | None:
    async with resources.transaction() as conn:
        return await (pause_run if pauses else resume_run)(conn, job_id, scope)


def _answer(job_id: UUID, found: Paused | None, what: str) -> Response:
    if found is None:
        raise ProblemRaised(migration_not_found(job_id))
    if found.is_over:
        detail = f"migration {job_id} is {found.state} and cannot be {what}"
        more = {"state": found.state.value}
        raise ProblemRaised(Problem(slug="too-late", detail=detail, more=more))
    return json_response({"id": str(job_id), "state": found.state, "paused": found.paused})
