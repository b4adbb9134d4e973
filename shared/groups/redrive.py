"""Redrive of a whole group: a new generation of what did not succeed, and of its join.

One transaction under the group's lock, all or nothing: a group of which one member cannot run
again would fail again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.approvals import Approval
from shared.audit import Action, noted
from shared.errors import EnqueueRefused
from shared.groups.counter import REOPENED
from shared.groups.fill import Member, append_each
from shared.groups.group import Group, GroupId, GroupState, WorkActive, lock_group
from shared.groups.renew import Gone, NotCleanedUp, renew_join, settle_group
from shared.jobs.back import ACTIVE_TWIN, redrive_statement
from shared.jobs.enqueue import Submit, listed_jobs
from shared.types import JobId, JobState

PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """The group runs again: so many members, and this join (None: it has none)."""

    generation: int
    members: int
    join_job_id: JobId | None


@dataclass(frozen=True, slots=True)
class NotEnded:
    """There is nothing to redrive yet: the group is in this state, or its join runs."""

    state: str


class NothingFailed:
    """Every member succeeded, and so did the join, or it is still to run."""


@dataclass(frozen=True, slots=True)
class Unfit:
    """A member that was cancelled may not be submitted any more."""

    refused: EnqueueRefused


GroupAnswer = Again | NotEnded | NothingFailed | NotCleanedUp | WorkActive | Gone | Unfit | None

# What stands against it; each part by the index of members.
FACTS = text(f"""
    SELECT count(*) FILTER (WHERE j.state = 'dead') AS dead,
           count(*) FILTER (WHERE j.state = 'cancelled') AS cancelled,
           count(*) FILTER (WHERE j.cleanup_due) AS unclean,
           (array_agg({ACTIVE_TWIN}) FILTER (WHERE {ACTIVE_TWIN} IS NOT NULL))[1] AS twin
      FROM chot.jobs j WHERE j.group_id = :group_id AND j.state IN ('dead', 'cancelled')""")
REOPEN = text(f"""
    WITH again AS (
        UPDATE chot.groups g SET {REOPENED} WHERE g.id = :group_id AND g.state = 'ended'
        RETURNING g.*),
    {
    noted(
        Action.GROUP_REDRIVE,
        "again",
        target="again.id::text",
        company="again.company",
        brand="again.brand",
        approver="CAST(:approver AS text)",
        approval_id="CAST(:approval_id AS uuid)",
        facts="jsonb_build_object('generation', again.generation, 'dead', again.dead, "
        "'cancelled', again.cancelled)",
    )
}
    SELECT generation FROM again""")
REDRIVE_DEAD = redrive_statement("""j.id IN (
            SELECT d.id FROM chot.jobs d
             WHERE d.group_id = :group_id AND d.state = 'dead'
             ORDER BY d.id FOR NO KEY UPDATE)""")
# A cancelled job is final: a new one takes its place, and it is a member no more.
READ_CANCELLED = text(f"""
    SELECT j.id, j.kind, j.company, j.brand, j.priority, j.principal, j.payload_version, j.trace,
           p.payload::text AS payload
      FROM chot.jobs j JOIN chot.job_payloads p ON p.job_id = j.id
     WHERE j.group_id = :group_id AND j.state = 'cancelled' ORDER BY j.id LIMIT {PAGE}""")
LET_GO = text("""
    WITH former AS (
        UPDATE chot.jobs j SET group_id = NULL
         WHERE j.id = ANY(:ids) AND j.group_id = :group_id AND j.state = 'cancelled'
        RETURNING j.id)
    UPDATE chot.groups g
       SET total = g.total - f.n, cancelled = g.cancelled - f.n
      FROM (SELECT count(*) AS n FROM former) AS f
     WHERE g.id = :group_id""")


async def redrive_group(
    conn: AsyncConnection, group_id: GroupId, *, approval: Approval | None = None
) -> GroupAnswer:
    """Run again what died or was cancelled of an ended group, and its join; None: no such group.

    In a transaction of its own, which has used the approval if there is one: roll it back unless
    the answer is Again.

    Model: action redrive_group.
    """
    group = await lock_group(conn, group_id)
    if group is None:
        return None
    facts = (await conn.execute(FACTS, {"group_id": group_id})).one()
    refused = _refused(group, facts)
    if refused is not None:
        return refused
    binds = {
        "group_id": group_id,
        "approver": approval and approval.approver,
        "approval_id": approval and approval.id,
    }
    try:
        generation = int(await conn.scalar(REOPEN, binds) or 0)
        await conn.execute(REDRIVE_DEAD, binds)
        while rows := (await conn.execute(READ_CANCELLED, {"group_id": group_id})).all():
            unfit = await _replace(conn, group_id, rows)
            if unfit is not None:
                return unfit
        join = await renew_join(conn, group_id, approval=approval)
        await settle_group(conn, group_id)
    except (NotCleanedUp, WorkActive, Gone) as error:
        return error
    except IntegrityError as error:
        if "jobs_active_fingerprint_key" not in str(error.orig):
            raise
        return WorkActive("the work of a member has just become active", group_id)
    return Again(generation=generation, members=facts.dead + facts.cancelled, join_job_id=join)


def _refused(group: Group, facts: Any) -> GroupAnswer:
    """What of a group that is locked stands against its redrive."""
    if group.state != GroupState.ENDED:
        return NotEnded(group.state)
    if group.join_state == JobState.RUNNING:
        return NotEnded("joining")
    join_is_over = group.join_state in {JobState.DEAD, JobState.CANCELLED}
    if not (group.dead or group.cancelled or join_is_over):
        return NothingFailed()
    if (facts.dead, facts.cancelled) != (group.dead, group.cancelled):
        return Gone(f"{group.cancelled - facts.cancelled} cancelled members are in the archive")
    if facts.unclean:
        return NotCleanedUp(f"{facts.unclean} members are still being cleaned up")
    if facts.twin is not None:
        return WorkActive(f"job {facts.twin} does the work of a member", facts.twin)
    return None


async def _replace(
    conn: AsyncConnection, group_id: GroupId, rows: Sequence[Any]
) -> WorkActive | Unfit | None:
    """New members in the places of these cancelled ones."""
    binds = {"ids": [row.id for row in rows], "group_id": group_id}
    await conn.execute(LET_GO, binds)
    again = [
        Submit(
            kind=row.kind,
            company=row.company,
            brand=row.brand,
            payload=row.payload,
            priority=row.priority,
            principal=row.principal,
            trace=row.trace,
            payload_version=row.payload_version,
        )
        for row in rows
    ]
    for each in await append_each(conn, group_id, listed_jobs(again)):
        if isinstance(each, WorkActive):
            return each
        if isinstance(each, EnqueueRefused):
            return Unfit(each)
        assert isinstance(each, Member)
    return None
