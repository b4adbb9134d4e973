"""Spawn: jobs that a running job asks for; they commit with its fence, or not at all.

What is asked for is written right before the fence, after the body's effects: the group's row is
locked after the ERP's rows and before any job, as everywhere, and no longer than the fence takes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Final
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.audit import Actor
from shared.errors import Busy, Conflict, EnqueueRefused, PermanentError, RetryableError
from shared.groups.fill import append_each, join_self, open_group, seal_group
from shared.groups.group import GroupId, GroupState, Policy, WorkActive, lock_group
from shared.jobs.enqueue import Submit, listed_jobs
from shared.jobs.guards import Guards, lock_guards
from shared.types import ClaimedJob

MOST_CHILDREN = 10_000


class Joins(Enum):
    """Who joins what is spawned, where that is no child of its own."""

    SELF = "self"


# The job itself goes on once its children have ended: spawn(…, join=SELF).
SELF: Final = Joins.SELF


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A job to spawn: of the spawning job's company, and of its brand unless another is named.

    A job that has a brand spawns for that brand only; one of the whole company for any of its
    brands, or for none.
    """

    kind: str
    payload: dict[str, Any]
    brand: str | None = None
    priority: int | None = None
    max_attempts: int | None = None
    run_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawn:
    """What one call of spawn() asked for. Without `group_id`: members of the job's own group.

    `waits`: the job itself joins them, and leaves `running` in the same commit.
    """

    group_id: UUID | None
    children: Sequence[Submit]
    join: Submit | None
    policy: Policy
    waits: bool = False


NEW_ID = text("SELECT chot.uuid7()")
# Whoever submitted the job has asked for what it spawns.
ACT_FOR = text("SELECT set_config('chot.actor', CAST(:actor AS text), true)")


async def asked_spawn(
    conn: AsyncConnection,
    job: ClaimedJob,
    children: Sequence[Child],
    *,
    join: Child | Joins | None,
    policy: Policy,
) -> Spawn:
    """The call as it will be carried out; ValueError for what can never be."""
    if len(children) > MOST_CHILDREN:
        raise ValueError(f"spawn: {len(children)} children; at most {MOST_CHILDREN} in one call")
    if join is SELF and job.group_id is not None:
        raise ValueError("spawn: a member of a group cannot wait for a group of its own")
    is_own = join is None and job.group_id is not None
    return Spawn(
        group_id=None if is_own else await conn.scalar(NEW_ID),
        children=[_submit(job, child) for child in children],
        join=_submit(job, join) if isinstance(join, Child) else None,
        policy=Policy(policy),
        waits=join is SELF,
    )


def _submit(job: ClaimedJob, child: Child) -> Submit:
    if job.brand is not None and child.brand not in {None, job.brand}:
        raise ValueError(f"spawn: a job of brand {job.brand} spawns none of brand {child.brand}")
    return Submit(
        kind=child.kind,
        company=job.company,
        brand=child.brand or job.brand,
        payload=child.payload,
        run_at=child.run_at,
        priority=child.priority,
        max_attempts=child.max_attempts,
        principal=job.principal,
        trace=job.trace,
    )


async def carry_out(
    conn: AsyncConnection,
    job: ClaimedJob,
    spawns: Sequence[Spawn],
    guards: Guards,
) -> None:
    """Write what was asked for, in the open transaction, right before its fence.

    `guards` are locked first: those of an exit, where the fence is one. Raises PermanentError for a
    child that breaks a rule, RetryableError where another job does the work of one, Conflict when
    locks could not be had or the job's own group is being cancelled.

    Model: action spawn.
    """
    own = any(spawn.group_id is None for spawn in spawns)
    await lock_guards(conn, Guards(roots=guards.roots, group=job.group_id if own else guards.group))
    await conn.execute(ACT_FOR, {"actor": Actor(principal=job.principal).said})
    try:
        for spawn in spawns:
            await _carry_out(conn, job, spawn)
    except EnqueueRefused as error:
        raise PermanentError(
            f"a child is refused: {error}",
            code="SPAWN_REFUSED",
            details={"field": error.field, "code": error.code},
        ) from error
    except WorkActive as error:
        raise RetryableError(f"spawn: {error}") from error
    except Busy as error:
        raise Conflict(str(error)) from error


async def _carry_out(conn: AsyncConnection, job: ClaimedJob, spawn: Spawn) -> None:
    if spawn.group_id is None:
        assert job.group_id is not None, "without a group of its own a spawn makes one"
        group = await lock_group(conn, job.group_id)
        if group is None or group.state not in {GroupState.OPEN, GroupState.SEALED}:
            raise Conflict("the job's group is being cancelled")
        await _append(conn, group.id, spawn.children)
        return
    group_id = await open_group(
        conn,
        company=job.company,
        brand=job.brand,
        policy=spawn.policy,
        principal=job.principal,
        join=spawn.join,
        group_id=spawn.group_id,
    )
    if spawn.waits:
        await join_self(conn, group_id, job.id)
    await _append(conn, group_id, spawn.children)
    await seal_group(conn, group_id)


async def _append(conn: AsyncConnection, group_id: GroupId, children: Sequence[Submit]) -> None:
    """All or nothing: a spawn that makes some of its children would be believed whole."""
    if not children:
        return
    for answer in await append_each(conn, group_id, listed_jobs(children)):
        if isinstance(answer, Exception):
            raise answer
