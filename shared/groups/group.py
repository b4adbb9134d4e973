"""What a group is: its states, policies and counts; and how it is read."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NewType
from uuid import UUID

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.access import EVERYTHING, IN_SCOPE, Scope
from shared.errors import PlatformError
from shared.types import JobId, JobState

GroupId = NewType("GroupId", UUID)


class GroupState(StrEnum):
    """open → sealed → ended; cancelling on the way, once it is to end early."""

    OPEN = "open"  # takes members; those it has run already
    SEALED = "sealed"  # has all its members
    CANCELLING = "cancelling"  # takes no more; what has not ended is cancelled
    ENDED = "ended"


class Policy(StrEnum):
    """What a member that dies or is cancelled means to the others and to the join."""

    FAIL_FAST = "fail_fast"  # the others are cancelled; the join dies
    FINISH = "finish"  # the others run to their end; the join dies
    JOIN = "join"  # the others run to their end; the join runs and reads what became of them


class GroupOutcome(StrEnum):
    """What became of the group; `succeeded` is what lets its join run."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class GroupRefused(PlatformError):
    """The group takes no more members: it is in this state."""

    def __init__(self, group_id: UUID, state: str) -> None:
        super().__init__(f"group {group_id} is {state} and takes no more members")
        self.group_id = group_id
        self.state = GroupState(state)


class WorkActive(PlatformError):
    """Another job, which is no part of the group, does this work already."""

    def __init__(self, message: str, job_id: UUID) -> None:
        super().__init__(message)
        self.job_id = JobId(job_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group at one moment. `total` are its members, `remaining` those that have not ended."""

    id: GroupId
    company: str
    brand: str | None
    state: GroupState
    policy: Policy
    outcome: GroupOutcome | None
    generation: int
    total: int
    remaining: int
    succeeded: int
    dead: int
    cancelled: int
    join_job_id: JobId | None
    principal: str
    opened_at: datetime
    sealed_at: datetime | None
    ended_at: datetime | None
    join_state: JobState | None = None


def group_of(row: Any) -> Group:
    """The group of a row that READ_GROUP or LOCK_GROUP gave."""
    return Group(
        id=GroupId(row.id),
        company=row.company,
        brand=row.brand,
        state=GroupState(row.state),
        policy=Policy(row.policy),
        outcome=None if row.outcome is None else GroupOutcome(row.outcome),
        generation=row.generation,
        total=row.total,
        remaining=row.remaining,
        succeeded=row.succeeded,
        dead=row.dead,
        cancelled=row.cancelled,
        join_job_id=None if row.join_job_id is None else JobId(row.join_job_id),
        principal=row.principal,
        opened_at=row.opened_at,
        sealed_at=row.sealed_at,
        ended_at=row.ended_at,
        join_state=None if row.join_state is None else JobState(row.join_state),
    )


# Over `j`, so that IN_SCOPE fits. The join's state: archived ones have ended. One that waits for a
# group of its own meanwhile is at its work.
_GROUP = """
    SELECT j.*, coalesce((SELECT CASE WHEN w.state = 'pending' AND w.joins <> j.id
                                      THEN 'running' ELSE w.state END
                            FROM chot.jobs w WHERE w.id = j.join_job_id),
                         (SELECT a.job ->> 'state' FROM chot.archived_jobs a
                           WHERE a.id = j.join_job_id)) AS join_state
      FROM chot.groups j"""
READ_GROUP = text(f"{_GROUP} WHERE j.id = :group_id AND {IN_SCOPE}")


async def read_group(
    conn: AsyncConnection, group_id: UUID, *, scope: Scope = EVERYTHING
) -> Group | None:
    """The group as it is now; None when there is none in this scope. Two lookups by key."""
    binds = {"group_id": group_id, **scope.binds()}
    row = (await conn.execute(READ_GROUP, binds)).one_or_none()
    return None if row is None else group_of(row)


LOCK_GROUP = text("SELECT id FROM chot.groups WHERE id = :group_id FOR NO KEY UPDATE")


async def lock_group(
    conn: AsyncConnection, group_id: UUID, *, scope: Scope = EVERYTHING
) -> Group | None:
    """Lock the group's row until the transaction ends, then read it; no member ends meanwhile.

    Lock it after lock roots and before any job.
    """
    await conn.execute(LOCK_GROUP, {"group_id": group_id})
    return await read_group(conn, group_id, scope=scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberOutcome:
    """What became of a member: its payload as sent, its result, or the error that buried it."""

    id: JobId
    kind: str
    company: str
    brand: str | None
    state: JobState
    payload: Any
    result: Any
    error: Any


def member_outcome(row: RowMapping) -> MemberOutcome:
    """The outcome of a row of list_members()."""
    state = JobState(row["state"])
    return MemberOutcome(
        id=JobId(row["id"]),
        kind=row["kind"],
        company=row["company"],
        brand=row["brand"],
        state=state,
        payload=row["payload"],
        result=row["result"] if state == JobState.SUCCEEDED else None,
        error=row["error"] if state in {JobState.DEAD, JobState.CANCELLED} else None,
    )


# Where a walk over members begins: an index goes by it, and by no NULL that may be given instead.
BEGINNING = UUID(int=0)
# By the two indexes of members, a page of each at a time: what ended well may be archived when the
# group runs again.
READ_MEMBERS = text("""
    SELECT j.id, j.kind, j.company, j.brand, j.state, j.payload_version,
           coalesce(o.result, a.result) AS result, coalesce(o.error, a.error) AS error,
           coalesce(p.payload, a.payload) AS payload
      FROM (SELECT * FROM (
                (SELECT m.id, m.kind, m.company, m.brand, m.state, m.payload_version
                   FROM chot.jobs m
                  WHERE m.group_id = :group_id AND m.id > :after ORDER BY m.id LIMIT :limit)
                UNION ALL
                (SELECT m.id, m.job ->> 'kind', m.job ->> 'company', m.job ->> 'brand',
                        m.job ->> 'state', CAST(m.job ->> 'payload_version' AS integer)
                   FROM chot.archived_jobs m
                  WHERE m.job ->> 'group_id' = CAST(CAST(:group_id AS uuid) AS text)
                    AND m.id > :after ORDER BY m.id LIMIT :limit)) AS both_kept
             ORDER BY id LIMIT :limit) AS j
      LEFT JOIN LATERAL (
          SELECT result, error FROM chot.job_outputs WHERE job_id = j.id OFFSET 0) AS o ON true
      LEFT JOIN LATERAL (
          SELECT payload FROM chot.job_payloads WHERE job_id = j.id OFFSET 0) AS p ON true
      LEFT JOIN LATERAL (
          SELECT result, error, payload FROM chot.archived_jobs WHERE id = j.id OFFSET 0) AS a
        ON true
     ORDER BY j.id""")


async def list_members(
    conn: AsyncConnection, group_id: UUID, *, after: UUID | None, limit: int
) -> list[RowMapping]:
    """Members by their ids, with payload, result and error, those that come after this id.

    Archived ones included, as long as the archive keeps them.
    """
    binds = {"group_id": group_id, "after": after or BEGINNING, "limit": limit}
    return list((await conn.execute(READ_MEMBERS, binds)).mappings().all())
