"""Submit: one way into the job table, inside the caller's own transaction."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import asyncpg
from sqlalchemy import Executable, Result, text
from sqlalchemy.exc import DBAPIError

from shared.database import sqlstate_of
from shared.errors import Busy, EnqueueRefused
from shared.json_text import to_json
from shared.tracing import current_trace
from shared.types import Duplicate, JobId, JobState


class Session(Protocol):
    """An AsyncConnection or an AsyncSession: whatever holds the caller's open transaction."""

    async def execute(self, statement: Executable, parameters: Any = None, /) -> Result[Any]:
        """Run one statement in the transaction."""
        ...


class JsonText(str):
    """One JSON value as to_json() has written it."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Submit:
    """One job to submit. `run_at` needs an offset; None means now.

    Decimals in the payload are stored digit for digit; a str is a payload that is JSON text
    already (a JsonText: text that was written by us, and is not looked at again).
    `payload_version` is that of the model the payload was checked against; None means the newest
    that the database knows. Without a `trace` the job is of the trace that runs now, if any.
    """

    kind: str
    company: str
    payload: dict[str, Any] | str
    brand: str | None = None
    run_at: datetime | None = None
    priority: int | None = None
    max_attempts: int | None = None
    principal: str | None = None
    trace: str | None = None
    payload_version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The answer to a submit; `duplicate` says how it met a job that was already active.

    `input_as_of` is when that job began to read its input, None while it has not.
    """

    job_id: JobId
    state: JobState
    created: bool
    duplicate: Duplicate | None
    input_as_of: datetime | None


ENQUEUE = text("""
    SELECT job_id, created, duplicate, state, input_as_of
      FROM chot.enqueue(:kind, :company, :brand, CAST(:payload AS jsonb),
                        CAST(:run_at AS timestamptz), CAST(:priority AS integer),
                        CAST(:max_attempts AS integer), CAST(:principal AS text),
                        CAST(:trace AS text), CAST(:payload_version AS integer))""")


async def enqueue(session: Session, job: Submit) -> Accepted:
    """Submit one job in the caller's open transaction; it and its message live or die with it.

    A duplicate of active work is a normal answer. Raises EnqueueRefused for a value that breaks a
    rule and Busy when the active twin's row could not be had within the lock timeout; the
    transaction is then aborted. Runs at READ COMMITTED only.

    Model: action submit.
    """
    binds = _binds(job) | {"payload": payload_text(job)}
    try:
        row = (await session.execute(ENQUEUE, binds)).one()
    except DBAPIError as error:
        raise refusal_of(error) from error
    return _accepted(row)


ENQUEUE_MANY = text("""
    SELECT ordinal, job_id, created, duplicate, state, input_as_of
      FROM chot.enqueue_many(CAST(:jobs AS jsonb)) ORDER BY ordinal""")


async def enqueue_many(session: Session, jobs: Sequence[Submit]) -> list[Accepted]:
    """Submit several jobs in one transaction, in fingerprint order; answers in the order given.

    Call it last in the transaction: opposite orders of two callers would deadlock. Errors as in
    enqueue(); one refused job refuses them all.
    """
    binds = {"jobs": listed_jobs(jobs)}
    try:
        rows = (await session.execute(ENQUEUE_MANY, binds)).all()
    except DBAPIError as error:
        raise refusal_of(error) from error
    return [_accepted(row) for row in rows]


ENQUEUE_EACH = text("""
    SELECT job_id, created, duplicate, state, input_as_of, code, field, message
      FROM chot.enqueue_each(CAST(:jobs AS jsonb)) ORDER BY ordinal""")


async def enqueue_each(session: Session, listed: str) -> list[Accepted | EnqueueRefused]:
    """As enqueue_many(), but a refused job is an answer and spoils no other one.

    `listed` is what listed_jobs() wrote. Answers in the order given; Busy as in enqueue().
    """
    try:
        rows = (await session.execute(ENQUEUE_EACH, {"jobs": listed})).all()
    except DBAPIError as error:
        raise refusal_of(error) from error
    return [
        _accepted(row)
        if row.code is None
        else EnqueueRefused(row.message, field=row.field, code=row.code)
        for row in rows
    ]


def listed_jobs(jobs: Sequence[Submit]) -> str:
    """The jobs as the JSON text that chot.enqueue_many() and enqueue_each() read.

    CPU work in proportion to the payloads; it may run in a thread, which it lets go after each.
    """
    return f"[{','.join(map(_listed, jobs))}]"


def _listed(job: Submit) -> str:
    item = _binds(job)
    if job.run_at is not None:
        item["run_at"] = job.run_at.isoformat()
    if isinstance(job.payload, str) and not isinstance(job.payload, JsonText):
        _refuse_broken(job.payload)
    return f'{to_json(item)[:-1]},"payload":{payload_text(job)}}}'


def _refuse_broken(payload: str) -> None:
    """A text that is no JSON value of its own could end its item of the list and begin another."""
    try:
        json.loads(payload, parse_int=str, parse_float=str)
    except (ValueError, RecursionError) as error:
        raise EnqueueRefused(f"payload: {error}", field="payload", code="CH003") from None


def refusal_of(error: DBAPIError | asyncpg.PostgresError) -> Exception:
    """Turn what chot.enqueue() raised into ours; anything else comes back as it is."""
    state = sqlstate_of(error)
    orig = error.orig if isinstance(error, DBAPIError) else None
    cause = error if orig is None else orig.__cause__
    message = getattr(cause, "message", None) or str(cause or orig)
    if state in {"CH001", "CH002", "CH003", "CH005"}:
        field = getattr(cause, "detail", None) or "payload"
        return EnqueueRefused(message, field=field, code=state)
    # The only CHECKs a caller can reach are those on sizes; the others: what jsonb cannot hold, be
    # it for its depth (54001).
    if state in {"23514", "22P05", "22P02", "22003", "54001"}:
        return EnqueueRefused(message, field="payload", code=state)
    if state in {"55P03", "40P01", "CH006"}:
        return Busy("the active job of this work is being written on; try again")
    return error


def _binds(job: Submit) -> dict[str, Any]:
    if job.run_at is not None and job.run_at.tzinfo is None:
        raise EnqueueRefused("run_at has no offset", field="run_at", code="CH003")
    return {
        "kind": job.kind,
        "company": job.company,
        "brand": job.brand,
        "run_at": job.run_at,
        "priority": job.priority,
        "max_attempts": job.max_attempts,
        "principal": job.principal,
        "trace": job.trace or current_trace(),
        "payload_version": job.payload_version,
    }


def payload_text(job: Submit) -> str:
    """The payload as JSON text; EnqueueRefused where it has none."""
    if isinstance(job.payload, str):
        return job.payload
    try:
        return to_json(job.payload)
    except ValueError as error:
        raise EnqueueRefused(f"payload: {error}", field="payload", code="CH003") from None


def _accepted(row: Any) -> Accepted:
    return Accepted(
        job_id=JobId(row.job_id),
        state=JobState(row.state),
        created=row.created,
        duplicate=Duplicate(row.duplicate) if row.duplicate else None,
        input_as_of=row.input_as_of,
    )
