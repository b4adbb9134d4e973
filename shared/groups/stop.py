"""Stop: a group that is cancelling ends member by member, and a join that must not run ends, too.

An operator's cancel only marks the group's row, in a short transaction: from then on no member is
claimed. Maintenance ends the members: those without lock roots by batches, the others each in a
transaction of its own that locks its roots first.
"""

from uuid import UUID

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.audit import Action, noted
from shared.database import CONFLICTS, sqlstate_of, transaction
from shared.groups.counter import moved
from shared.groups.group import BEGINNING, LOCK_GROUP
from shared.jobs.exits import exit_statement
from shared.jobs.guards import Guards, guards_of, lock_guards, read_guards
from shared.logs import alert, log
from shared.settings import LeaseTiming
from shared.telling import told

BATCH = 100
MOST_GROUPS = 20

CANCEL_GROUP = text(f"""
    WITH stopped AS (
        UPDATE chot.groups g SET {moved(stopped="true")}
         WHERE g.id = :group_id AND g.state IN ('open', 'sealed')
        RETURNING g.*),
    {
    noted(
        Action.GROUP_CANCEL,
        "stopped",
        target="stopped.id::text",
        company="stopped.company",
        brand="stopped.brand",
        facts="jsonb_build_object('total', stopped.total, 'remaining', stopped.remaining)",
    )
}
    SELECT id FROM stopped""")


async def cancel_group(conn: AsyncConnection, group_id: UUID) -> bool:
    """Mark an open or sealed group as cancelling, and audit it; one without members ends at once.

    False: it is cancelling already, or has ended. Its members are ended by stop_groups().

    Model: action cancel_group.
    """
    return (await conn.execute(CANCEL_GROUP, {"group_id": group_id})).one_or_none() is not None


FIND_DUE = text(f"""
    SELECT id, join_job_id, join_due FROM chot.groups
     WHERE state = 'cancelling' OR join_due ORDER BY random() LIMIT {MOST_GROUPS}""")
# Why, in the words of the job that is ended for it.
WHY = """jsonb_build_object(
        'type', 'GroupStopped',
        'code', CASE gs.outcome WHEN 'failed' THEN 'GROUP_FAILED' ELSE 'GROUP_CANCELLED' END,
        'group', gs.id,
        'message', CASE gs.outcome
            WHEN 'failed' THEN gs.dead || ' of its group''s ' || gs.total || ' members died and '
                               || gs.cancelled || ' were cancelled'
            ELSE 'its group was cancelled' END)"""
_ERROR = f"(SELECT {WHY} FROM chot.groups gs WHERE gs.id = :group_id)"
LEAVES = "lease_token = NULL, lease_expires_at = NULL, worker_id = NULL, blocked_by = NULL"
_CANCELLED = f"state = 'cancelled', finished_at = clock_timestamp(), {LEAVES}"
# Judged under the group's lock: it may have ended since it was found, and been redriven.
_CANCELLING = """EXISTS (
                       SELECT FROM chot.groups cg
                        WHERE cg.id = :group_id AND cg.state = 'cancelling')"""

# Rows that a fence holds at this moment are passed over, and met by the next look. Locked by a
# statement before: a claim may be on its way, and the one after sees the attempt it has opened.
LOCK_MEMBERS = text(f"""
    SELECT e.id FROM chot.jobs e
     WHERE e.group_id = :group_id AND e.state IN ('pending', 'running') AND {_CANCELLING}
       AND e.id > :after
       AND e.lock_roots IS NULL
     ORDER BY e.id LIMIT {BATCH} FOR NO KEY UPDATE SKIP LOCKED""")
LOCK_MEMBER = text("SELECT id FROM chot.jobs WHERE id = :job_id FOR NO KEY UPDATE")
CANCEL_MEMBERS = exit_statement(
    f"""
    UPDATE chot.jobs j SET {_CANCELLED}, cleanup_due = (j.attempt > 0)
     WHERE j.id = ANY(CAST(:ids AS uuid[])) AND j.group_id = :group_id
       AND j.state IN ('pending', 'running')""",
    outcome="'cancelled'",
    error=_ERROR,
)
CANCEL_MEMBER = exit_statement(
    f"""
    UPDATE chot.jobs j SET {_CANCELLED}, cleanup_due = (j.attempt > 0)
     WHERE j.id = :job_id AND j.group_id = :group_id AND j.state IN ('pending', 'running')
       AND {_CANCELLING}""",
    outcome="'cancelled'",
    error=_ERROR,
    wakes=True,
)
FIND_ROOTED = text(f"""
    SELECT e.id, e.lock_roots, e.group_id FROM chot.jobs e
     WHERE e.group_id = :group_id AND e.state IN ('pending', 'running')
       AND e.id > :after
       AND e.lock_roots IS NOT NULL
     ORDER BY e.id LIMIT {BATCH}""")
# It has not run since it was last made or redriven, and left nothing behind.
_END_JOIN = f"""
    UPDATE chot.jobs j
       SET state = CASE g.outcome WHEN 'cancelled' THEN 'cancelled' ELSE 'dead' END,
           finished_at = clock_timestamp(), {LEAVES}, cleanup_due = (j.started_at IS NOT NULL)
      FROM chot.groups g
     WHERE g.id = :group_id AND g.state = 'ended' AND g.outcome <> 'succeeded'
       AND j.id = g.join_job_id AND j.joins = g.id AND j.state = 'pending'"""
END_JOIN = exit_statement(_END_JOIN, outcome="'failed'", error=_ERROR)
END_LOCKED_JOIN = exit_statement(_END_JOIN, outcome="'failed'", error=_ERROR, wakes=True)
JOIN_DONE = text("""
    UPDATE chot.groups SET join_due = false WHERE id = :group_id AND join_due""")


async def stop_groups(engine: AsyncEngine, timing: LeaseTiming) -> int:
    """End what is left of some groups that are cancelling, and joins that must not run.

    Any number of workers may do so at once. Answers how many jobs were ended.
    """
    async with engine.connect() as conn:
        due = (await conn.execute(FIND_DUE)).all()
        await conn.rollback()
    ended = 0
    for group in due:
        try:
            if not group.join_due:
                ended += await stop_members(engine, timing, group.id)
            if group.join_job_id is not None:
                ended += await _end_join(engine, timing, group.id, group.join_job_id)
        except DBAPIError as error:
            if sqlstate_of(error) not in CONFLICTS:
                raise
            log.warning("group.stop_waits", group_id=str(group.id), error=told(error))
    return ended


async def stop_members(engine: AsyncEngine, timing: LeaseTiming, group_id: UUID) -> int:
    """Cancel what has not ended of a group that is cancelling: one walk over its members.

    Model: action stop_member.
    """
    ended, after = 0, BEGINNING
    while True:
        async with transaction(
            engine, lock_timeout=timing.lock_timeout, idle_timeout=timing.idle_in_transaction
        ) as conn:
            await conn.execute(LOCK_GROUP, {"group_id": group_id})
            binds = {"group_id": group_id, "after": after}
            ids = (await conn.scalars(LOCK_MEMBERS, binds)).all()
            these = {"group_id": group_id, "ids": list(ids), "result": None}
            ended += len((await conn.execute(CANCEL_MEMBERS, these)).all())
        if len(ids) < BATCH:
            break
        after = ids[-1]
    ended += await _stop_rooted(engine, timing, group_id)
    log.info("group.stopped", group_id=str(group_id), jobs=ended)
    return ended


async def _stop_rooted(engine: AsyncEngine, timing: LeaseTiming, group_id: UUID) -> int:
    ended, after = 0, BEGINNING
    while True:
        async with engine.connect() as conn:
            binds = {"group_id": group_id, "after": after}
            found = (await conn.execute(FIND_ROOTED, binds)).all()
            await conn.rollback()
        for row in found:
            async with transaction(
                engine, lock_timeout=timing.lock_timeout, idle_timeout=timing.idle_in_transaction
            ) as conn:
                await lock_guards(conn, guards_of(row))
                await conn.execute(LOCK_MEMBER, {"job_id": row.id})
                these = {"job_id": row.id, "group_id": group_id, "result": None}
                ended += len((await conn.execute(CANCEL_MEMBER, these)).all())
        if len(found) < BATCH:
            return ended
        after = found[-1].id


async def _end_join(engine: AsyncEngine, timing: LeaseTiming, group_id: UUID, job_id: UUID) -> int:
    """End the join of a group that has ended ill; 0 when it has been renewed meanwhile.

    Model: action end_join.
    """
    async with transaction(
        engine, lock_timeout=timing.lock_timeout, idle_timeout=timing.idle_in_transaction
    ) as conn:
        roots = (await read_guards(conn, job_id)).roots
        await lock_guards(conn, Guards(roots=roots, group=group_id))
        binds = {"group_id": group_id, "result": None}
        row = (await conn.execute(END_LOCKED_JOIN if roots else END_JOIN, binds)).one_or_none()
        await conn.execute(JOIN_DONE, {"group_id": group_id})
    if row is None:
        return 0
    if row.state == "dead":
        alert("job.dead", job_id=str(row.id), kind=row.kind, attempt=row.attempt, error="its group")
    return 1
