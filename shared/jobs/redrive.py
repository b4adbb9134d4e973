"""Redrive: dead → pending, by an operator's explicit word; the budget is raised, history kept."""

from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.approvals import Approval
from shared.audit import Action, noted_job
from shared.types import JobId, JobState

# Counters only grow, so the budget rises above what has been used of it. A follow-up has become
# a job of its own when this one died and must not be born twice.
REDRIVE_JOB = text(f"""
    WITH back AS (
        UPDATE chot.jobs j
           SET state = 'pending', finished_at = NULL, available_at = clock_timestamp(),
               followup_payload = NULL, followup_version = NULL, followup_principal = NULL,
               progress_done = NULL, progress_message = NULL, started_at = NULL,
               redriven_at = clock_timestamp(),
               redriven_by = (SELECT a.principal FROM chot.actor() AS a),
               redriven_approver = CAST(:approver AS text),
               max_attempts = greatest(j.attempt - j.lost_leases - j.interruptions,
                                       (j.lost_leases + 1) / 2)
                            + coalesce((SELECT k.max_attempts FROM chot.kinds k
                                         WHERE k.name = j.kind), 1)
         WHERE j.id = :job_id AND j.state = 'dead' AND NOT j.cleanup_due
        RETURNING j.*),
    {
    noted_job(
        Action.JOB_REDRIVE,
        "back",
        approver="CAST(:approver AS text)",
        approval_id="CAST(:approval_id AS uuid)",
    )
}
    INSERT INTO chot.outbox (job_id, queue, kind, company, brand, trace, priority, next_send_at)
    SELECT id, queue, kind, company, brand, trace, priority, available_at FROM back
    RETURNING job_id""")

# Over `j`: the job that does the same work and is active, or NULL.
ACTIVE_TWIN = """(SELECT t.id FROM chot.jobs t
             WHERE t.fingerprint = j.fingerprint AND t.state IN ('pending', 'running'))"""
READ_REDRIVABLE = text(f"""
    SELECT j.state, j.cleanup_due, {ACTIVE_TWIN} AS twin
      FROM chot.jobs j WHERE j.id = :job_id""")


@dataclass(frozen=True, slots=True)
class Redriven:
    """The job is pending again, with a fresh budget."""


@dataclass(frozen=True, slots=True)
class NotDead:
    """There is nothing to redrive: the job is in this state."""

    state: JobState


@dataclass(frozen=True, slots=True)
class CleanupPending:
    """What the dead attempts left behind is still being removed; ask again in a moment."""


@dataclass(frozen=True, slots=True)
class TwinActive:
    """The same work is already active as another job."""

    job_id: JobId


RedriveAnswer = Redriven | NotDead | CleanupPending | TwinActive | None


async def redrive_job(
    conn: AsyncConnection, job_id: JobId, *, approval: Approval | None = None
) -> RedriveAnswer:
    """Put a dead job back to pending, and audit it; None means there is no such job.

    Row by row: a twin that is active again blocks only itself. Must run in a transaction of its
    own, which has used the approval if there is one; the refusal by a twin is contained in a
    savepoint.

    Model: action redrive.
    """
    binds = {
        "job_id": job_id,
        "approver": approval and approval.approver,
        "approval_id": approval and approval.id,
    }
    try:
        async with conn.begin_nested():
            if (await conn.execute(REDRIVE_JOB, binds)).one_or_none() is not None:
                return Redriven()
    except IntegrityError as error:
        if "jobs_active_fingerprint_key" not in str(error.orig):
            raise
    row = (await conn.execute(READ_REDRIVABLE, {"job_id": job_id})).one_or_none()
    if row is None:
        return None
    if row.state == JobState.DEAD and row.twin is not None:
        return TwinActive(JobId(row.twin))
    if row.state == JobState.DEAD:
        return CleanupPending()
    return NotDead(JobState(row.state))
