"""Redrive: dead → pending, by an operator's explicit word; the budget is raised, history kept."""

from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.approvals import Approval
from shared.groups.group import GroupId, GroupState, WorkActive, lock_group
from shared.groups.renew import Gone, NotCleanedUp, renew_join
from shared.jobs.back import ACTIVE_TWIN, redrive_statement
from shared.jobs.guards import read_guards
from shared.types import JobId, JobState

# A job that joins a group is redriven with its group: its own state says nothing of what it waits
# for.
REDRIVE_JOB = redrive_statement("j.id = :job_id AND j.joins IS NULL")

READ_REDRIVABLE = text(f"""
    SELECT j.state, j.cleanup_due, j.joins, {ACTIVE_TWIN} AS twin
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


@dataclass(frozen=True, slots=True)
class JoinsGroup:
    """The job is the join of this group: it is redriven with it."""

    group_id: GroupId


@dataclass(frozen=True, slots=True)
class GroupStops:
    """The job's group is being cancelled; ask again once it has ended."""

    group_id: GroupId


@dataclass(frozen=True, slots=True)
class JoinRuns:
    """The join of the job's group is running, on what became of its members."""

    job_id: JobId


RedriveAnswer = (
    Redriven
    | NotDead
    | CleanupPending
    | TwinActive
    | JoinsGroup
    | GroupStops
    | JoinRuns
    | Gone
    | None
)


async def redrive_job(
    conn: AsyncConnection, job_id: JobId, *, approval: Approval | None = None
) -> RedriveAnswer:
    """Put a dead job back to pending, and audit it; None means there is no such job.

    Row by row: a twin that is active again blocks only itself. A member's group counts it again;
    one that had ended is in a new generation, and ends in its join again. Must run in a transaction
    of its own, which has used the approval if there is one; the refusal by a twin is contained in
    a savepoint.

    Model: actions redrive, redrive_child.
    """
    try:
        async with conn.begin_nested():
            answer = await _redrive(conn, job_id, approval)
        if answer is not None:
            return answer
    except IntegrityError as error:
        if "jobs_active_fingerprint_key" not in str(error.orig):
            raise
    except WorkActive as error:
        return TwinActive(error.job_id)
    except NotCleanedUp:
        return CleanupPending()
    except Gone as error:
        return error
    return await _why_not(conn, job_id)


async def _redrive(
    conn: AsyncConnection, job_id: JobId, approval: Approval | None
) -> RedriveAnswer:
    """Redriven, or what of its group stands against it; None where the job itself does."""
    group_id = (await read_guards(conn, job_id)).group
    kept = None if group_id is None else await _kept_by(conn, GroupId(group_id))
    if kept is not None:
        return kept
    binds = {
        "job_id": job_id,
        "approver": approval and approval.approver,
        "approval_id": approval and approval.id,
    }
    if (await conn.execute(REDRIVE_JOB, binds)).one_or_none() is None:
        return None
    if group_id is not None:
        await renew_join(conn, GroupId(group_id), approval=approval)
    return Redriven()


async def _why_not(conn: AsyncConnection, job_id: JobId) -> RedriveAnswer:
    row = (await conn.execute(READ_REDRIVABLE, {"job_id": job_id})).one_or_none()
    if row is None:
        return None
    if row.state != JobState.DEAD:
        return NotDead(JobState(row.state))
    if row.joins is not None:
        return JoinsGroup(GroupId(row.joins))
    return CleanupPending() if row.twin is None else TwinActive(JobId(row.twin))


async def _kept_by(conn: AsyncConnection, group_id: GroupId) -> GroupStops | JoinRuns | None:
    """What of its group keeps a member from being redriven; locks the group's row."""
    group = await lock_group(conn, group_id)
    if group is None:
        return None
    if group.state == GroupState.CANCELLING:
        return GroupStops(group_id)
    if group.join_job_id is not None and group.join_state == JobState.RUNNING:
        return JoinRuns(group.join_job_id)
    return None
