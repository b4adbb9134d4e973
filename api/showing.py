"""A job as GET answers it: at once, or when it has ended; with its ETag and when to come again."""

import asyncio
import hashlib
from datetime import datetime
from time import monotonic
from uuid import UUID

from fastapi import Request, Response

from api.actions import job_not_found
from api.authentication import Caller
from api.bodies import job_view
from api.event_stream import until_gone
from api.gate import token_of
from api.patience import retry_after
from api.problems import ProblemRaised
from api.resources import Resources
from api.watching import Hub
from shared.jobs.pace import Row, pace_of
from shared.jobs.read import show_job
from shared.json_text import to_json
from shared.types import TERMINAL, JobState


async def show_now(resources: Resources, job_id: UUID, caller: Caller) -> Row:
    """The job as it is; ProblemRaised where there is none for this caller."""
    async with resources.reading() as conn:
        row = await show_job(conn, job_id, scope=caller.scope)
    if row is None:
        raise ProblemRaised(job_not_found(job_id))
    return row


async def show_awaited(
    hub: Hub, request: Request, job_id: UUID, caller: Caller, seconds: float
) -> Row:
    """The job once it has ended, or after so many seconds; at once when this process ends.

    ProblemRaised as soon as the caller's key, role or scope does not allow it any more.
    """
    deadline = monotonic() + seconds
    settings = hub.resources.settings
    patience = settings.api_command_timeout_seconds + settings.api_pool_timeout_seconds
    with hub.watch(job_id, caller, token_of(request)) as watcher:
        sighting = await watcher.first(patience)
        gone = asyncio.create_task(until_gone(request.receive), name="client gone")
        gone.add_done_callback(lambda _: watcher.wake())
        try:
            while not (sighting.rendering.ended or hub.stopping or gone.done()):
                if not await watcher.changed(deadline - monotonic()):
                    break
                problem = watcher.refuse()
                if problem is not None:
                    raise ProblemRaised(problem)
                assert watcher.sighting is not None, "what is not there was refused"
                sighting = watcher.sighting
        finally:
            gone.cancel()
        # Of the newest look: it may have been news that nothing has changed.
        row = await hub.show(watcher.sighting or sighting)
        problem = watcher.refuse()
    if problem is not None or row is None:
        raise ProblemRaised(problem or job_not_found(job_id))
    return row


def shown(row: Row, known: str, caller: Caller) -> Response:
    """The answer for a row of show_job(); 304 where the client has it (`known`: If-None-Match)."""
    content = to_json(job_view(row, everywhere=caller.scope.is_everything)).encode()
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {"ETag": etag}
    if row["state"] not in TERMINAL:
        headers["Retry-After"] = str(come_again(row))
    tags = {tag.strip().removeprefix("W/") for tag in known.split(",")}
    if etag in tags or "*" in tags:
        return Response(status_code=304, headers=headers)
    return Response(content, 200, headers, media_type="application/json")


def come_again(row: Row) -> int:
    """Retry-After of an active job, of a row of show_job()."""
    if row["state"] != JobState.RUNNING:
        return retry_after(due_in=row["due_in"])
    now: datetime = row["read_at"]
    eta = pace_of(row).eta
    began = row["attempts"][-1]["started_at"] if row["attempts"] else None
    return retry_after(
        due_in=0,
        going_for=0 if began is None else _seconds(now, datetime.fromisoformat(began)),
        done_in=None if eta is None else _seconds(eta, now),
    )


def _seconds(later: datetime, earlier: datetime) -> float:
    return max(0.0, (later - earlier).total_seconds())
