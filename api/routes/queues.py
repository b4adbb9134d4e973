"""Queues and workers: depth, age, who runs what; pause and resume."""

from dataclasses import asdict
from datetime import datetime
from typing import Any

from fastapi import Response
from pydantic import BaseModel, Field
from sqlalchemy import RowMapping

from api.bodies import end_of_id, show_instant
from api.dependencies import Ready, Who
from api.description import problems
from api.problems import Problem, ProblemRaised
from api.resources import Resources
from api.responses import json_response
from api.routers import keyed_router
from shared.jobs.pause import pause_queue, resume_queue, running_of_queue
from shared.jobs.queues import list_queues, list_workers
from shared.jobs.weights import read_weights

router = keyed_router(prefix="/v1", tags=["queues"])
LONGEST_NAME = 40


class QueueView(BaseModel):
    """Depth by state; `due` are the pending jobs whose time has come. Both count to 10,000."""

    name: str
    paused: bool
    pending: int
    due: int
    running: int
    dead: int
    oldest_due_seconds: float | None
    alone_worker: str | None
    weights: list[dict[str, Any]] | None = Field(
        description="of brands whose turn is not 1 message; for a key of all companies"
    )


class QueueList(BaseModel):
    """Every queue."""

    queues: list[QueueView]


@router.get("/queues", response_class=Response, responses=problems() | {200: {"model": QueueList}})
async def queues(resources: Ready, who: Who) -> Response:
    """Show every queue with its depth and the age of its oldest due job, of the caller's jobs."""
    async with resources.reading() as conn:
        rows = await list_queues(conn, scope=who.scope)
    everywhere = who.scope.is_everything
    return json_response({"queues": [_queue_view(row, everywhere=everywhere) for row in rows]})


def _queue_view(row: RowMapping, *, everywhere: bool) -> dict[str, Any]:
    weights = [asdict(each) for each in read_weights(row["weights"])]
    view = dict(row) | {
        "oldest_due_seconds": _rounded(row["oldest_due_seconds"]),
        "weights": weights if everywhere else None,
    }
    alone = row["alone_worker"]
    if alone is not None and not everywhere:
        view["alone_worker"] = end_of_id(alone)
    return view


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


class PauseAnswer(BaseModel):
    """The queue as it is now; `running` jobs of it go on, `staged` messages were written."""

    name: str
    paused: bool
    running: int
    staged: int


@router.post(
    "/queues/{queue}/pause",
    response_class=Response,
    responses=problems("queue-not-found") | {200: {"model": PauseAnswer}},
)
async def pause(queue: str, resources: Ready) -> Response:
    """Stop claims of this queue's jobs; those that run go on. Repeating it changes nothing."""
    refuse_strange(queue)
    running = await resources.finish(_pause(resources, queue), name="pause")
    if running is None:
        raise ProblemRaised(queue_not_found(queue))
    return json_response({"name": queue, "paused": True, "running": running, "staged": 0})


@router.post(
    "/queues/{queue}/resume",
    response_class=Response,
    responses=problems("queue-not-found") | {200: {"model": PauseAnswer}},
)
async def resume(queue: str, resources: Ready) -> Response:
    """Let the queue's jobs be claimed again; due ones without a message get a new one."""
    refuse_strange(queue)
    found = await resources.finish(_resume(resources, queue), name="resume")
    if found is None:
        raise ProblemRaised(queue_not_found(queue))
    staged, running = found
    return json_response({"name": queue, "paused": False, "running": running, "staged": staged})


async def _pause(resources: Resources, queue: str) -> int | None:
    async with resources.transaction() as conn:
        if not await pause_queue(conn, queue):
            return None
    async with resources.reading() as conn:
        return await running_of_queue(conn, queue)


async def _resume(resources: Resources, queue: str) -> tuple[int, int] | None:
    async with resources.transaction() as conn:
        staged = await resume_queue(conn, queue)
        running = await running_of_queue(conn, queue)
    resources.relay.wake()
    return None if staged is None else (staged, running)


def refuse_strange(queue: str) -> None:
    """ProblemRaised for what can be no queue's name."""
    if len(queue) > LONGEST_NAME or not queue.isprintable():
        raise ProblemRaised(queue_not_found("of that name"))


def queue_not_found(queue: str) -> Problem:
    """The 404 of a queue that is not there."""
    return Problem(slug="queue-not-found", detail=f"queue {queue} is unknown here")


class WorkerView(BaseModel):
    """A worker that has registered; `live` while its own promise to be seen again holds.

    Where it is, is for accounts of all companies; others get null, and the end of its id.
    """

    worker_id: str
    host: str | None
    pid: int | None
    state: str
    live: bool
    code_version: str
    started_at: str
    seen_at: str
    kinds: dict[str, int]
    queues: list[dict[str, object]]
    running: list[dict[str, object]]


class WorkerList(BaseModel):
    """Every worker."""

    workers: list[WorkerView]


@router.get(
    "/workers", response_class=Response, responses=problems() | {200: {"model": WorkerList}}
)
async def workers(resources: Ready, who: Who) -> Response:
    """Show every worker: where it is, what it knows, its slots, and which jobs it runs."""
    async with resources.reading() as conn:
        rows = await list_workers(conn, scope=who.scope)
    everywhere = who.scope.is_everything
    return json_response({"workers": [_worker_view(row, everywhere=everywhere) for row in rows]})


def _worker_view(row: RowMapping, *, everywhere: bool) -> dict[str, Any]:
    running = [
        job | {"started_at": show_instant(datetime.fromisoformat(job["started_at"]))}
        for job in row["running"]
    ]
    instants = {name: show_instant(row[name]) for name in ("started_at", "seen_at")}
    view = dict(row) | instants | {"running": running}
    if not everywhere:
        view |= {"worker_id": end_of_id(row["worker_id"]), "host": None, "pid": None}
    return view
