"""Dead letters: dead jobs and dead messages, one page for the operator."""

from uuid import UUID

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.access import EVERYTHING, IN_SCOPE, Scope
from shared.jobs.causes import CAUSE_OF_JOB, LOST_ALL_LEASES

LIST_DEAD_JOBS = text(f"""
    SELECT j.id, j.kind, j.company, j.brand, j.attempt, j.lost_leases, j.finished_at, o.error,
           {LOST_ALL_LEASES} AS lost_all_leases
      FROM chot.jobs j LEFT JOIN chot.job_outputs o ON o.job_id = j.id
     WHERE j.state = 'dead' AND {IN_SCOPE}
       AND (CAST(:kind AS text) IS NULL OR j.kind = :kind)
       AND (CAST(:cause AS text) IS NULL OR CAST(:cause AS text) = {CAUSE_OF_JOB})
       AND (CAST(:before AS uuid) IS NULL OR j.id < CAST(:before AS uuid))
     ORDER BY j.id DESC LIMIT :limit""")


async def list_dead_jobs(
    conn: AsyncConnection,
    *,
    kind: str | None,
    before: UUID | None,
    limit: int,
    cause: str | None = None,
    scope: Scope = EVERYTHING,
) -> list[RowMapping]:
    """Dead jobs of this scope, newest first, each with the error that buried it.

    `cause` is one that list_causes() has told.
    """
    binds = {"kind": kind, "cause": cause, "before": before, "limit": limit, **scope.binds()}
    return list((await conn.execute(LIST_DEAD_JOBS, binds)).mappings().all())


LIST_DEAD_MESSAGES = text("""
    SELECT id, queue, message_id, body, attributes, reason, receive_count, created_at
      FROM chot.dead_messages
     WHERE CAST(:before AS bigint) IS NULL OR id < CAST(:before AS bigint)
     ORDER BY id DESC LIMIT :limit""")


async def list_dead_messages(
    conn: AsyncConnection, *, limit: int, before: int | None = None
) -> list[RowMapping]:
    """Dead messages, newest first, with body (bytes), attributes and reason."""
    binds = {"before": before, "limit": limit}
    return list((await conn.execute(LIST_DEAD_MESSAGES, binds)).mappings().all())


STORE_DEAD_MESSAGE = text("""
    INSERT INTO chot.dead_messages (queue, message_id, body, attributes, reason, receive_count)
    VALUES (:queue, :message_id, :body, CAST(:attributes AS jsonb), :reason, :receive_count)
    ON CONFLICT (queue, message_id) DO NOTHING RETURNING id""")


async def store_dead_message(
    conn: AsyncConnection,
    *,
    queue: str,
    message_id: str,
    body: bytes,
    attributes: str,
    reason: str,
    receive_count: int,
) -> bool:
    """Keep a message before it is deleted from SQS; False when it is kept already."""
    binds = {
        "queue": queue,
        "message_id": message_id,
        "body": body,
        "attributes": attributes,
        "reason": reason[:2000],
        "receive_count": receive_count,
    }
    return (await conn.execute(STORE_DEAD_MESSAGE, binds)).one_or_none() is not None
