"""What journeys look at: jobs, effects, messages, processes. All waiting is by condition."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncEngine

from dev.processes import Child
from shared.jobs.enqueue import Submit, enqueue
from shared.messages import JobMessage
from shared.types import JobId
from tests.factories import NUMBERS, eventually, fetch, job_row, scalar
from tests.fleet import log_lines


async def limited_job(engine: AsyncEngine, kind: str, max_attempts: int, **payload: Any) -> JobId:
    """Submit one probe job with a number of attempts of its own; answers its id."""
    submit = Submit(
        kind=kind,
        company="ACME",
        brand="RED",
        payload={"number": next(NUMBERS)} | payload,
        max_attempts=max_attempts,
    )
    async with engine.begin() as conn:
        return (await enqueue(conn, submit)).job_id


async def reached(engine: AsyncEngine, job_id: UUID, *states: str, seconds: float = 25) -> Any:
    """Wait until the job is in one of these states; its row."""

    async def there() -> Any:
        row = await job_row(engine, job_id)
        return row if row.state in states else None

    return await eventually(there, seconds=seconds)


async def all_reached(
    engine: AsyncEngine, ids: Iterable[UUID], state: str, *, seconds: float = 30
) -> None:
    """Wait until every one of these jobs is in that state."""
    wanted = list(ids)

    async def there() -> bool:
        count = await scalar(
            engine,
            "SELECT count(*) FROM chot.jobs WHERE id = ANY(:ids) AND state = :state",
            ids=wanted,
            state=state,
        )
        return bool(count == len(wanted))

    await eventually(there, seconds=seconds, every=0.1)


async def checkpointed(
    engine: AsyncEngine, job_id: UUID, number: int = 1, *, seconds: float = 20
) -> Any:
    """Wait until the job has committed so many chunks; its row."""

    async def there() -> Any:
        row = await job_row(engine, job_id)
        return row if row.checkpoint_no >= number else None

    return await eventually(there, seconds=seconds, every=0.02)


async def fenced(engine: AsyncEngine, job_id: UUID, fence: int, *, seconds: float = 20) -> Any:
    """Wait until the job has been claimed so many times; its row."""

    async def there() -> Any:
        row = await job_row(engine, job_id)
        return row if row.fence >= fence else None

    return await eventually(there, seconds=seconds, every=0.02)


async def stamped(engine: AsyncEngine, job_id: UUID, attempt: int = 1) -> None:
    """Wait until this attempt of a misbehaving probe is about to misbehave."""

    async def there() -> Any:
        return await scalar(
            engine,
            "SELECT count(*) FROM probe.stamps WHERE job_id = :id AND attempt = :attempt",
            id=job_id,
            attempt=attempt,
        )

    await eventually(there, every=0.02)


async def effects(engine: AsyncEngine, job_id: UUID) -> list[tuple[int, int]]:
    """(chunk, fence) of the job's effects, in the order they were written."""
    rows = await fetch(
        engine, "SELECT chunk, fence FROM probe.effects WHERE job_id = :id ORDER BY n", id=job_id
    )
    return [(row.chunk, row.fence) for row in rows]


async def outcomes(engine: AsyncEngine, job_id: UUID) -> list[str | None]:
    """How each attempt of the job ended, in order."""
    rows = await fetch(
        engine, "SELECT outcome FROM chot.attempts WHERE job_id = :id ORDER BY fence", id=job_id
    )
    return [row.outcome for row in rows]


async def error_of(engine: AsyncEngine, job_id: UUID) -> dict[str, Any]:
    """The error that stands with the job."""
    found = await scalar(engine, "SELECT error FROM chot.job_outputs WHERE job_id = :id", id=job_id)
    assert isinstance(found, dict), "a failed job has an error"
    return found


async def result_of(engine: AsyncEngine, job_id: UUID) -> Any:
    """The result that stands with the job."""
    return await scalar(engine, "SELECT result FROM chot.job_outputs WHERE job_id = :id", id=job_id)


async def said(child: Child, event: str, *, seconds: float = 20) -> dict[str, Any]:
    """Wait until the process has logged this event; its first line."""

    async def there() -> dict[str, Any] | None:
        return next((line for line in log_lines(child) if line.get("event") == event), None)

    found = await eventually(there, seconds=seconds)
    assert isinstance(found, dict), "a log line is an object"
    return found


async def working(*children: Child, seconds: float = 30) -> None:
    """Wait until these workers have started to receive; fail at once when one ends instead."""
    for child in children:

        async def started_or_ended(child: Child = child) -> bool:
            ended = not child.alive
            started = any(line.get("event") == "worker.started" for line in log_lines(child))
            assert started or not ended, f"{child.name} ended:\n{child.last_words()}"
            return started

        await eventually(started_or_ended, seconds=seconds)


async def exited(child: Child, *, seconds: float = 20) -> int:
    """Wait for the process to end, without holding the test's loop up; its exit code."""

    async def gone() -> bool:
        return not child.alive

    await eventually(gone, seconds=seconds)
    code = child.exit_code
    assert code is not None, "it has ended"
    return code


def alerts(children: Sequence[Child], event: str) -> list[dict[str, Any]]:
    """The alerts with this name that any of the processes has raised."""
    lines = (line for child in children for line in log_lines(child))
    return [line for line in lines if line.get("alert") and line["event"] == event]


async def computing_child(parent: Child) -> int:
    """Wait until the worker's one child process is past its start and computes; its pid."""

    async def there() -> int | None:
        return next((pid for pid in children_of(parent.pid) if _processor_ticks(pid) > 60), None)

    found = await eventually(there)
    assert isinstance(found, int), "a pid is a number"
    return found


def children_of(parent: int) -> list[int]:
    """The processes that the process has started and that still run."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        fields = _stat(int(stat.parent.name))
        if fields and int(fields[1]) == parent and fields[0] not in "ZX":
            found.append(int(stat.parent.name))
    return found


def _processor_ticks(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[11]) + int(fields[12]) if fields else 0


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name: state, parent, …; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def lives(pid: int) -> bool:
    """Whether a process runs; one that has ended and is only not yet waited for does not."""
    fields = _stat(pid)
    return bool(fields) and fields[0] not in "ZX"


def queued(sqs: Any, url: str) -> tuple[int, int]:
    """Messages in the queue: (visible, in flight)."""
    names = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=list(names))["Attributes"]
    return int(found[names[0]]), int(found[names[1]])


async def queue_is(sqs: Any, url: str, wanted: tuple[int, int], *, seconds: float = 15) -> None:
    """Wait until the queue holds so many visible and so many messages in flight."""

    async def there() -> bool:
        return queued(sqs, url) == wanted

    await eventually(there, seconds=seconds, every=0.1)


async def message_for(engine: AsyncEngine, job_id: UUID) -> str:
    """The body that the relay sends for this job."""
    deployment = await scalar(engine, "SELECT deployment_id FROM chot.deployment")
    row = await job_row(engine, job_id)
    return JobMessage(
        job_id=JobId(job_id),
        kind=row.kind,
        brand=row.brand,
        trace=row.trace,
        deployment_id=deployment,
    ).to_body()
