"""Cancel: pending or running → cancelled, conditional; after the answer no effect commits."""

from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.audit import Action, noted_job
from shared.groups.counter import moved
from shared.jobs.exits import exit_statement
from shared.jobs.guards import guards_of, lock_guards
from shared.types import JobId, JobState

_CANCEL = """
    UPDATE chot.jobs j
       SET state = 'cancelled', finished_at = clock_timestamp(), blocked_by = NULL,
           lease_token = NULL, lease_expires_at = NULL, worker_id = NULL,
           cleanup_due = (j.attempt > 0)
     WHERE j.id = :job_id AND j.state IN ('pending', 'running')"""
# A job that waits for what it has spawned takes that with it: it was for this job alone.
_STOPPED = f"""stopped AS (
        UPDATE chot.groups g SET {moved(stopped="true")}
          FROM gone
         WHERE g.id = gone.joins AND g.self_join AND g.state IN ('open', 'sealed'))"""
_ALSO = f"{noted_job(Action.JOB_CANCEL, 'gone')}, {_STOPPED}"
CANCEL_JOB = exit_statement(_CANCEL, outcome="'cancelled'", also=_ALSO)
CANCEL_LOCKED = exit_statement(_CANCEL, outcome="'cancelled'", also=_ALSO, wakes=True)
# The group whose counter the cancel changes, or which it stops: a member waits for no group.
READ_GUARDS = text("""
    SELECT j.lock_roots,
           coalesce(j.group_id, (SELECT g.id FROM chot.groups g
                                  WHERE g.id = j.joins AND g.self_join)) AS group_id
      FROM chot.jobs j WHERE j.id = :job_id""")
# A claim may be on its way: the statement after this one sees the attempt that it has opened.
LOCK_JOB = text("SELECT id FROM chot.jobs WHERE id = :job_id FOR NO KEY UPDATE")


async def cancel_job(conn: AsyncConnection, job_id: JobId) -> bool:
    """Cancel an active job, and audit it; False: it was too late (or there is no such job).

    The owner's fence dies with the same UPDATE: whatever it has not committed it cannot commit.
    A commit that is on its way is waited for, within the transaction's lock timeout. Jobs that it
    has spawned to go on after them are cancelled by maintenance.

    Model: action cancel.
    """
    row = (await conn.execute(READ_GUARDS, {"job_id": job_id})).one_or_none()
    if row is None:
        return False
    guards = guards_of(row)
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
