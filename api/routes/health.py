"""Health: /healthz is about the process alone, /readyz about what a submit needs."""

import asyncio
from typing import Literal

from fastapi import Response
from pydantic import BaseModel
from sqlalchemy import text

from api.dependencies import Open
from api.problems import RETRY_AFTER_SECONDS
from api.resources import Resources
from api.responses import json_response
from api.routers import open_router
from shared.database import DATABASE_ERRORS, is_unreachable

router = open_router(tags=["health"])
PROBE_SECONDS = 2.0
# A standby, and a server that was told to be read-only: it answers, and would take no submit.
READ_ONLY_NOW = text("SELECT current_setting('transaction_read_only') = 'on'")


class Health(BaseModel):
    """The process serves."""

    status: Literal["ok"]


class Readiness(BaseModel):
    """Whether a submit would be taken, and whether its message would go out."""

    status: Literal["ready", "not ready"]
    database: str
    relay: Literal["publishing", "failing"]


@router.get("/healthz", response_class=Response, responses={200: {"model": Health}})
async def healthz() -> Response:
    """200 while the process serves requests; asks neither PostgreSQL nor SQS."""
    return json_response({"status": "ok"})


@router.get(
    "/readyz",
    response_class=Response,
    responses={200: {"model": Readiness}, 503: {"model": Readiness, "description": "Not ready."}},
)
async def readyz(resources: Open) -> Response:
    """200 when jobs can be taken. SQS is told but not required: a submit does not touch it."""
    reason = resources.unready or await _database_problem(resources)
    body = {
        "status": "ready" if reason is None else "not ready",
        "database": "ok" if reason is None else reason,
        "relay": "publishing" if resources.relay.failures == 0 else "failing",
    }
    answer = json_response(body, status=200 if reason is None else 503)
    if reason is not None:
        answer.headers["Retry-After"] = str(RETRY_AFTER_SECONDS["database-unavailable"])
    return answer


async def _database_problem(resources: Resources) -> str | None:
    try:
        async with asyncio.timeout(PROBE_SECONDS), resources.reading() as conn:
            read_only = await conn.scalar(READ_ONLY_NOW)
    except DATABASE_ERRORS as error:
        if not is_unreachable(error):
            raise
        return f"the database cannot be reached: {type(error).__name__}"
    return "the database is read-only: a failover" if read_only else None
