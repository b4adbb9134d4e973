"""Cancel: pending or running → cancelled, conditional; after the answer no effect commits."""

from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.audit import Action, noted_job
from shared.jobs.exits import exit_statement
from shared.jobs.guards import lock_guards, read_guards
from shared.types import JobId, JobState

_CANCEL = """
    UPDATE chot.jobs j
       SET state = 'cancelled', finished_at = clock_timestamp(), blocked_by = NULL,
           lease_token = NULL, lease_expires_at = NULL, worker_id = NULL,
           cleanup_due = (j.attempt > 0)
     WHERE j.id = :job_id AND j.state IN ('pending', 'running')"""
_NOTED = noted_job(Action.JOB_CANCEL, "gone")
CANCEL_JOB = exit_statement(_CANCEL, outcome="'cancelled'", also=_NOTED)
CANCEL_LOCKED = exit_statement(_CANCEL, outcome="'cancelled'", also=_NOTED, wakes=True)
# A claim may be on its way: the statement after this one sees the attempt that it has opened.
LOCK_JOB = text("SELECT id FROM chot.jobs WHERE id = :job_id FOR NO KEY UPDATE")


async def cancel_job(conn: AsyncConnection, job_id: JobId) -> bool:
    """Cancel an active job, and audit it; False: it was too late (or there is no such job).

    The owner's fence dies with the same UPDATE: whatever it has not committed it cannot commit.
    A commit that is on its way is waited for, within the transaction's lock timeout.

    Model: action cancel.
    """
    guards = await read_guards(conn, job_id)
    await lock_guards(conn, guards)
    await conn.execute(LOCK_JOB, {"job_id": job_id})
    statement = CANCEL_LOCKED if guards.roots else CANCEL_JOB
    binds = {"job_id": job_id, "result": None, "error": None}
    return (await conn.execute(statement, binds)).one_or_none() is not None


READ_STATE = text("SELECT state FROM chot.jobs WHERE id = :job_id")


async def read_state(conn: AsyncConnection, job_id: UUID) -> JobState | None:
    """The job's state now; None when there is no such job."""
    state = await conn.scalar(READ_STATE, {"job_id": job_id})
    return None if state is None else JobState(state)
