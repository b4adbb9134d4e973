"""Renew: what an ended group does again. Under its row's lock, in the redrive's transaction."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.approvals import Approval
from shared.errors import PlatformError
from shared.groups.counter import join_staged, moved
from shared.groups.fill import make_join
from shared.groups.group import GroupId, WorkActive
from shared.jobs.back import ACTIVE_TWIN, redrive_statement
from shared.jobs.enqueue import Submit
from shared.types import JobId, JobState


class NotCleanedUp(PlatformError):
    """What the dead attempts left behind is still being removed."""


class Gone(PlatformError):
    """What would have to be done again is no longer there; nothing was written."""


# Its message is staged by the end of the group.
REDRIVE_JOIN = redrive_statement("j.id = :job_id AND j.joins IS NOT NULL", staged="false")
# It may have waited for groups of its own since.
JOIN_AGAIN = text("""
    UPDATE chot.jobs j SET joins = :group_id
     WHERE j.id = :job_id AND j.state = 'pending' AND j.joins <> :group_id""")
# Archived ones have ended well, or been cancelled.
READ_JOIN = text(f"""
    SELECT j.id, j.kind, j.company, j.brand, j.state, j.priority, j.principal, j.payload_version,
           j.trace, p.payload::text AS payload, {ACTIVE_TWIN} AS twin
      FROM chot.groups g JOIN chot.jobs j ON j.id = g.join_job_id
      JOIN chot.job_payloads p ON p.job_id = j.id
     WHERE g.id = :group_id
    UNION ALL
    SELECT j.id, j.kind, j.company, j.brand, j.state, j.priority, j.principal, j.payload_version,
           j.trace, a.payload::text, NULL
      FROM chot.groups g JOIN chot.archived_jobs a ON a.id = g.join_job_id,
           jsonb_populate_record(NULL::chot.jobs, a.job) AS j
     WHERE g.id = :group_id""")


async def renew_join(
    conn: AsyncConnection, group_id: GroupId, *, approval: Approval | None = None
) -> JobId | None:
    """Make the group's join wait for it again: a dead one in place, one that is over as a new job.

    One that still waits goes on waiting. Raises NotCleanedUp, WorkActive where another job does
    the join's work, Gone where a join has left the archive. Answers the join's id.
    """
    row = (await conn.execute(READ_JOIN, {"group_id": group_id})).one_or_none()
    if row is None:
        has = await conn.scalar(HAS_JOIN, {"group_id": group_id})
        if has:
            raise Gone(f"job {has} has left the archive")
        return None
    if row.state == JobState.PENDING:
        return JobId(row.id)
    if row.state == JobState.DEAD and row.twin is not None:
        raise WorkActive(f"job {row.twin} does the work of the group's join", row.twin)
    if row.state == JobState.DEAD:
        binds = {
            "job_id": row.id,
            "approver": approval and approval.approver,
            "approval_id": approval and approval.id,
        }
        if (await conn.execute(REDRIVE_JOIN, binds)).one_or_none() is None:
            raise NotCleanedUp(f"job {row.id} is still being cleaned up")
        await conn.execute(JOIN_AGAIN, {"job_id": row.id, "group_id": group_id})
        return JobId(row.id)
    again = Submit(
        kind=row.kind,
        company=row.company,
        brand=row.brand,
        payload=row.payload,
        priority=row.priority,
        principal=row.principal,
        trace=row.trace,
        payload_version=row.payload_version,
    )
    return await make_join(conn, group_id, again)


HAS_JOIN = text("SELECT join_job_id FROM chot.groups WHERE id = :group_id")

# With nothing left to do it ends at once, and its join may run.
SETTLE = text(f"""
    WITH settled AS (
        UPDATE chot.groups g SET {moved()}
         WHERE g.id = :group_id AND g.state = 'sealed'
        RETURNING g.*),
    staged AS (
        INSERT INTO chot.outbox (job_id, queue, kind, company, brand, trace, priority, next_send_at)
        {join_staged("settled")})
    SELECT state FROM settled""")


async def settle_group(conn: AsyncConnection, group_id: GroupId) -> None:
    """End a sealed group of which nothing is left to be done, and stage its join."""
    await conn.execute(SETTLE, {"group_id": group_id})
