"""Fill: a group is opened, gets its members by batches, and is sealed.

Each in the caller's transaction, which locks the group's row before any job.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.audit import Action, noted
from shared.errors import Busy, EnqueueRefused
from shared.groups.counter import join_staged, moved
from shared.groups.group import GroupId, GroupRefused, GroupState, Policy, WorkActive, lock_group
from shared.jobs.enqueue import Submit, enqueue, listed_jobs, refusal_of
from shared.types import JobId, JobState

OPEN_GROUP = text(f"""
    WITH opened AS (
        INSERT INTO chot.groups (id, company, brand, policy, principal)
        SELECT coalesce(CAST(:group_id AS uuid), chot.uuid7()), c.code, CAST(:brand AS text),
               CAST(:policy AS text),
               coalesce(CAST(:principal AS text), 'sql:' || session_user)
          FROM books.companies c
         WHERE c.code = :company
           AND (CAST(:brand AS text) IS NULL OR EXISTS (
                   SELECT FROM books.brands b WHERE b.company = c.code AND b.code = :brand))
        RETURNING *),
    {
    noted(
        Action.GROUP_OPEN,
        "opened",
        target="opened.id::text",
        company="opened.company",
        brand="opened.brand",
        facts="jsonb_build_object('policy', opened.policy)",
    )
}
    SELECT id FROM opened""")
# Its message is staged by the end of the group: until then nobody may claim it.
WAIT_FOR_GROUP = text("""
    WITH waiting AS (
        UPDATE chot.jobs j SET joins = :group_id
         WHERE j.id = :job_id AND j.state = 'pending' AND j.fence = 0 AND j.group_id IS NULL
        RETURNING j.id),
    unstaged AS (
        DELETE FROM chot.outbox o USING waiting w WHERE o.job_id = w.id)
    UPDATE chot.groups g SET join_job_id = w.id FROM waiting w WHERE g.id = :group_id
    RETURNING g.id""")


async def open_group(
    conn: AsyncConnection,
    *,
    company: str,
    brand: str | None = None,
    policy: Policy = Policy.FINISH,
    principal: str | None = None,
    join: Submit | None = None,
    group_id: UUID | None = None,
) -> GroupId:
    """Open a group; its `join` exists from now on and starts once, when all members have ended.

    Audited. Raises EnqueueRefused for a company, brand or join that breaks a rule, WorkActive when
    the join's work is active already, Busy as enqueue() does; roll back then.
    """
    binds = {
        "group_id": group_id,
        "company": company,
        "brand": brand,
        "policy": policy.value,
        "principal": principal,
    }
    opened = await conn.scalar(OPEN_GROUP, binds)
    if opened is None:
        field, value = ("company", company) if brand is None else ("brand", brand)
        raise EnqueueRefused(f"{field} {value!r} is unknown", field=field, code="CH005")
    if join is not None:
        await make_join(conn, opened, join)
    return GroupId(opened)


async def make_join(conn: AsyncConnection, group_id: UUID, join: Submit) -> JobId:
    """Make the job that the group ends in; errors as open_group() has them."""
    accepted = await enqueue(conn, join)
    binds = {"group_id": group_id, "job_id": accepted.job_id}
    made = accepted.created and await conn.scalar(WAIT_FOR_GROUP, binds)
    if not made:
        words = f"job {accepted.job_id} does the join's work already"
        raise WorkActive(words, accepted.job_id)
    return accepted.job_id


# A group before it is committed: nobody else sees it, and the job waits for it from that commit on.
JOIN_SELF = text("""
    UPDATE chot.groups g SET join_job_id = :job_id, self_join = true
     WHERE g.id = :group_id AND g.join_job_id IS NULL""")


async def join_self(conn: AsyncConnection, group_id: UUID, job_id: UUID) -> None:
    """Make the running job that opens the group its join; it has to wait from this commit on."""
    await conn.execute(JOIN_SELF, {"group_id": group_id, "job_id": job_id})


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A job of the group; `created` is False for one that it had already."""

    job_id: JobId
    state: JobState
    created: bool


Appended = Member | WorkActive | EnqueueRefused

APPEND = text("""
    SELECT job_id, created, state, code, field, message, twin
      FROM chot.append_each(CAST(:group_id AS uuid), CAST(:jobs AS jsonb)) ORDER BY ordinal""")


async def append_each(conn: AsyncConnection, group_id: UUID, listed: str) -> list[Appended]:
    """Make members of the jobs that listed_jobs() wrote; answers in the order given.

    A work that the group has already is that member, whatever its state, and counts once. Whether
    the group takes members is the caller's to see, under its lock. Call it last in the
    transaction. Raises Busy as enqueue() does.
    """
    try:
        rows = (await conn.execute(APPEND, {"group_id": group_id, "jobs": listed})).all()
    except DBAPIError as error:
        raise refusal_of(error) from error
    return [_appended(row) for row in rows]


def _appended(row: Any) -> Appended:
    if row.code == "CH006":
        raise Busy(row.message)
    if row.code == "CH010":
        return WorkActive(row.message, row.twin)
    if row.code is not None:
        return EnqueueRefused(row.message, field=row.field, code=row.code)
    return Member(job_id=JobId(row.job_id), state=JobState(row.state), created=row.created)


async def append_jobs(
    conn: AsyncConnection, group_id: UUID, jobs: Sequence[Submit]
) -> list[Appended]:
    """Lock the group, then append as append_each() does; GroupRefused unless it is open.

    Model: action append.
    """
    group = await lock_group(conn, group_id)
    if group is None or group.state != GroupState.OPEN:
        raise GroupRefused(group_id, GroupState.ENDED if group is None else group.state)
    return await append_each(conn, group_id, listed_jobs(jobs))


# A row that an exit holds is waited for and judged anew: one of the two finds nothing left.
SEAL = text(f"""
    WITH sealed AS (
        UPDATE chot.groups g SET {moved(sealed="true")}
         WHERE g.id = :group_id AND g.state = 'open'
        RETURNING g.*),
    {
    noted(
        Action.GROUP_SEAL,
        "sealed",
        target="sealed.id::text",
        company="sealed.company",
        brand="sealed.brand",
        facts="jsonb_build_object('total', sealed.total)",
    )
},
    staged AS (
        INSERT INTO chot.outbox (job_id, queue, kind, company, brand, trace, priority, next_send_at)
        {join_staged("sealed")})
    SELECT id FROM sealed""")


async def seal_group(conn: AsyncConnection, group_id: UUID) -> bool:
    """Close an open group, and audit it; without a member that runs it ends in the same statement.

    False: it was no longer open.

    Model: action seal.
    """
    return (await conn.execute(SEAL, {"group_id": group_id})).one_or_none() is not None
