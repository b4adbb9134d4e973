"""Outcome: how an attempt ends in the database. Every write names fence and token."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import asyncpg
from pydantic import ValidationError
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.database import sqlstate_of
from shared.errors import PlatformError
from shared.exact_json import dump_exact
from shared.jobs.exits import exit_statement
from shared.jobs.guards import lock_guards
from shared.jobs.states import CHARGED
from worker.error_frames import frames_of
from worker.lease import SET_PROGRESS, HeldLease, Progress, progress_binds

# Bytes. Together they stay below the 16 KiB that the column holds.
LONGEST_MESSAGE = 4000
LONGEST_NAME = 200
LONGEST_DETAILS_BYTES = 4000
# After this many uncharged releases at one and the same checkpoint they are charged.
FREE_RELEASES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Succeeded:
    """The handler returned; its result is stored with the completion."""

    result: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The attempt is charged. `permanent` buries the job at once, else `delay_seconds` decides
    when it runs again, as long as attempts are left.
    """

    error: BaseException | str
    code: str
    permanent: bool
    delay_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """The job goes back to pending, uncharged, due after `delay_seconds` or at `until`.

    `type` is what the attempt's row calls it.
    """

    reason: str
    delay_seconds: float = 0.0
    until: datetime | None = None
    type: str = "Released"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The job is no longer ours: nothing is written, nothing deleted."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """The handler has completed the job itself, together with its last effects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """The handler has handed the job back itself, until those that it has spawned have ended."""


Outcome = Succeeded | Failed | Released | Lost | Completed | Waits

OURS = """j.id = :job_id AND j.fence = :fence AND j.lease_token = :token
           AND j.state = 'running'"""
LEAVES = "lease_token = NULL, lease_expires_at = NULL, worker_id = NULL"

_COMPLETE = f"""
    UPDATE chot.jobs j
       SET state = 'succeeded', finished_at = clock_timestamp(), {LEAVES},
           checkpoint_no = j.checkpoint_no + 1, {SET_PROGRESS}
     WHERE {OURS} AND j.checkpoint_no = :checkpoint_no"""
COMPLETE_JOB = exit_statement(_COMPLETE, outcome="'succeeded'")
COMPLETE_LOCKED = exit_statement(_COMPLETE, outcome="'succeeded'", wakes=True)


async def complete_job(
    conn: AsyncConnection,
    held: HeldLease,
    result: str | None,
    progress: Progress | None = None,
) -> bool:
    """Running → succeeded under our fence and at the checkpoint we know; False: not ours.

    Without `progress` the job keeps what it has reported last.

    Model: action complete.
    """
    await lock_guards(conn, held.guards)
    statement = COMPLETE_LOCKED if held.guards.roots else COMPLETE_JOB
    binds = _ours(held) | progress_binds(held, progress or held.progress)
    binds |= {"checkpoint_no": held.checkpoint_no, "result": result, "error": None}
    return (await conn.execute(statement, binds)).one_or_none() is not None


_MAY_RETRY = f"(NOT CAST(:permanent AS boolean) AND {CHARGED} < j.max_attempts)"
_FAIL = f"""
    UPDATE chot.jobs j
       SET state = CASE WHEN {_MAY_RETRY} THEN 'pending' ELSE 'dead' END, {LEAVES},
           finished_at = CASE WHEN {_MAY_RETRY} THEN NULL ELSE clock_timestamp() END,
           cleanup_due = NOT {_MAY_RETRY},
           available_at = clock_timestamp() + make_interval(secs => :delay)
     WHERE {OURS}"""
FAIL_JOB = exit_statement(_FAIL, outcome="'failed'")
FAIL_LOCKED = exit_statement(_FAIL, outcome="'failed'", wakes=True)


async def fail_job(conn: AsyncConnection, held: HeldLease, failed: Failed) -> Any:
    """Running → pending with a wait, or dead; the row that left, None when it was not ours.

    Model: action fail.
    """
    await lock_guards(conn, held.guards)
    statement = FAIL_LOCKED if held.guards.roots else FAIL_JOB
    binds = _ours(held) | {
        "permanent": failed.permanent,
        "delay": failed.delay_seconds,
        "result": None,
        "error": error_json(failed.error, failed.code),
    }
    return (await conn.execute(statement, binds)).one_or_none()


# Free as long as fewer than so many releases stand at this very checkpoint, this claim included.
_FREE = f"""((SELECT count(*) FROM chot.attempts x
              WHERE x.job_id = j.id AND x.claimed_checkpoint_no = j.checkpoint_no
                AND x.outcome = 'released') < {FREE_RELEASES})"""
_MAY_RETURN = f"({_FREE} OR {CHARGED} < j.max_attempts)"
_RELEASE = f"""
    UPDATE chot.jobs j
       SET state = CASE WHEN {_MAY_RETURN} THEN 'pending' ELSE 'dead' END, {LEAVES},
           finished_at = CASE WHEN {_MAY_RETURN} THEN NULL ELSE clock_timestamp() END,
           cleanup_due = NOT {_MAY_RETURN},
           interruptions = j.interruptions + {_FREE}::integer,
           available_at = greatest(clock_timestamp() + make_interval(secs => :delay),
                                   CAST(:until AS timestamptz))
     WHERE {OURS}"""
# An interruption is no failure of the job: its attempt remembers it, the job need not.
_KEPT = "CASE WHEN state = 'dead' THEN CAST(:error AS jsonb) END"
RELEASE_JOB = exit_statement(_RELEASE, outcome="'released'", kept_error=_KEPT)
RELEASE_LOCKED = exit_statement(_RELEASE, outcome="'released'", kept_error=_KEPT, wakes=True)


async def release_job(conn: AsyncConnection, held: HeldLease, released: Released) -> Any:
    """Running → pending, not charged as a failure; the row that left, None when not ours.

    Model: action release.
    """
    await lock_guards(conn, held.guards)
    statement = RELEASE_LOCKED if held.guards.roots else RELEASE_JOB
    binds = _ours(held) | {
        "delay": released.delay_seconds,
        "until": released.until,
        "result": None,
        "error": dump_exact({"type": released.type, "message": _clean(released.reason)}),
    }
    return (await conn.execute(statement, binds)).one_or_none()


def _ours(held: HeldLease) -> dict[str, Any]:
    return {
        "job_id": held.lease.job_id,
        "fence": held.lease.fence,
        "token": held.lease.token,
    }


def error_json(error: BaseException | str, code: str) -> str:
    """An error as an operator will read it: type, message, code, where; cut to its place.

    Its code is for programs: what one of our own errors was given, the SQLSTATE of one that
    PostgreSQL reported, else `code`. An attribute of that name of anybody else's means nothing
    here (SQLAlchemy's is a page of its documentation).

    Never fails, whatever the error is made of: an outcome that cannot be written is a lost lease.
    """
    if isinstance(error, str):
        return dump_exact({"type": code, "code": code, "message": _clean(error)})
    shown: dict[str, Any] = {
        "type": _clean(type(error).__name__, LONGEST_NAME),
        "code": _clean(_own_code(error) or code, LONGEST_NAME),
        "message": _clean(_said(error)),
        "where": [_clean(frame, LONGEST_NAME) for frame in frames_of(error)],
    }
    details = getattr(error, "details", None)
    if isinstance(details, dict):
        shown["details"] = _storable(details)
    return dump_exact(shown)


def _own_code(error: BaseException) -> str | None:
    if isinstance(error, DBAPIError | asyncpg.PostgresError):
        return sqlstate_of(error)
    given = getattr(error, "code", None) if isinstance(error, PlatformError) else None
    return given if isinstance(given, str) else None


def _storable(details: dict[str, Any]) -> dict[str, Any]:
    try:
        written = dump_exact(details)
    except ValueError:
        return {"cut": "the details have no JSON form"}
    if len(written.encode()) > LONGEST_DETAILS_BYTES:
        return {"cut": "the details were too long to keep"}
    return details


def _said(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        return _said_of_models(error)
    try:
        # Without SQLAlchemy's link to its own page about such errors.
        return str(error).partition("\n(Background on this error at: ")[0]
    except Exception:  # noqa: BLE001 - an error that cannot say itself is still an error
        return f"{type(error).__name__} (its text could not be made)"


def _said_of_models(error: ValidationError) -> str:
    """Field and rule without the value: pydantic's own text quotes it, be it a password."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    told = [f"{'.'.join(map(str, item['loc'])) or 'the input'}: {item['msg']}" for item in found]
    return f"{error.title}: {'; '.join(told)}"


def _clean(words: str, most: int = LONGEST_MESSAGE) -> str:
    """The words as jsonb can hold them, in at most so many bytes as JSON."""
    # An escape that is only talked about reads as a NUL to whoever looks at the JSON text.
    whole = words.replace("\0", "\\0").replace("\\u0000", "\\0")
    cut = whole.encode("utf-8", "replace")[:most].decode("utf-8", "ignore")
    # Quotes and control characters grow when they are escaped.
    while len(dump_exact(cut).encode()) > most * 2:
        cut = cut[: len(cut) * 3 // 4]
    return cut if cut == whole.encode("utf-8", "replace").decode() else f"{cut}…"
