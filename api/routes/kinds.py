"""Kinds: what each one is, whether it is paused; pause and resume."""

from fastapi import Response
from pydantic import BaseModel, Field

from api.dependencies import Ready, Who
from api.description import problems
from api.problems import Problem, ProblemRaised
from api.resources import Resources
from api.responses import json_response
from api.routers import keyed_router
from shared.jobs.kinds import list_kinds
from shared.jobs.pause import pause_kind, resume_kind, running_of_kind

router = keyed_router(prefix="/v1/kinds", tags=["kinds"])
LONGEST_NAME = 100


class KindView(BaseModel):
    """A kind as the database knows it; `running` are the caller's jobs of it."""

    name: str
    queue: str
    paused: bool
    payload_version: int
    on_duplicate: str
    max_attempts: int
    timeout_seconds: float
    max_running: int | None = Field(description="of its code; others: GET /v1/limits")
    internal: bool = Field(description="its jobs are not submitted")
    made_by: str | None = Field(description="of an internal kind: what makes its jobs")
    approval: str | None = Field(description="the act that its jobs are, which may ask for one")
    running: int


class KindList(BaseModel):
    """Every kind."""

    kinds: list[KindView]


@router.get("", response_class=Response, responses=problems() | {200: {"model": KindList}})
async def kinds(resources: Ready, who: Who) -> Response:
    """Show every kind: its queue, whether it is paused, its maximum, how many of it run."""
    async with resources.reading() as conn:
        rows = await list_kinds(conn, scope=who.scope)
    return json_response({"kinds": [dict(row) for row in rows]})


class KindPauseAnswer(BaseModel):
    """The kind as it is now; `running` jobs of it go on, `staged` messages were written."""

    name: str
    paused: bool
    running: int
    staged: int


@router.post(
    "/{kind}/pause",
    response_class=Response,
    responses=problems("kind-not-found") | {200: {"model": KindPauseAnswer}},
)
async def pause(kind: str, resources: Ready) -> Response:
    """Stop claims of this kind's jobs, in every queue; those that run go on. May be repeated."""
    _refuse_strange(kind)
    running = await resources.finish(_pause(resources, kind), name="pause")
    if running is None:
        raise ProblemRaised(_not_found(f"kind {kind}"))
    return json_response({"name": kind, "paused": True, "running": running, "staged": 0})


@router.post(
    "/{kind}/resume",
    response_class=Response,
    responses=problems("kind-not-found") | {200: {"model": KindPauseAnswer}},
)
async def resume(kind: str, resources: Ready) -> Response:
    """Let the kind's jobs be claimed again; due ones without a message get a new one."""
    _refuse_strange(kind)
    found = await resources.finish(_resume(resources, kind), name="resume")
    if found is None:
        raise ProblemRaised(_not_found(f"kind {kind}"))
    staged, running = found
    return json_response({"name": kind, "paused": False, "running": running, "staged": staged})


async def _pause(resources: Resources, kind: str) -> int | None:
    async with resources.transaction() as conn:
        if not await pause_kind(conn, kind):
            return None
    async with resources.reading() as conn:
        return await running_of_kind(conn, kind)


async def _resume(resources: Resources, kind: str) -> tuple[int, int] | None:
    async with resources.transaction() as conn:
        staged = await resume_kind(conn, kind)
        running = await running_of_kind(conn, kind)
    resources.relay.wake()
    return None if staged is None else (staged, running)


def _refuse_strange(kind: str) -> None:
    if len(kind) > LONGEST_NAME or not kind.isprintable():
        raise ProblemRaised(_not_found("a kind of that name"))


def _not_found(what: str) -> Problem:
    return Problem(slug="kind-not-found", detail=f"{what} is unknown here")
