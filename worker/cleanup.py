"""Cleanup: what a dead or cancelled job left half-built is removed, before any redrive."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.database import transaction
from shared.logs import log
from shared.settings import LeaseTiming
from worker.claim import job_of
from worker.context import CleanupContext
from worker.handlers import Handler

LOCK_ONE_DUE = text("""
    SELECT j.id, j.kind, j.company, j.brand, j.queue, j.payload_version, j.attempt,
           j.max_attempts, j.principal, j.trace, j.created_at, j.group_id, j.joins
      FROM chot.jobs j
     WHERE j.cleanup_due AND j.state IN ('cancelled', 'dead') AND j.kind = ANY(:kinds)
     ORDER BY j.available_at, j.id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED""")
READ_LEFT = text("""
    SELECT p.payload, o.checkpoint FROM chot.job_payloads p
      LEFT JOIN chot.job_outputs o ON o.job_id = p.job_id WHERE p.job_id = :job_id""")
CLEANED = text("""
    WITH done AS (
        UPDATE chot.jobs SET cleanup_due = false
         WHERE id = :job_id AND cleanup_due AND state IN ('cancelled', 'dead') RETURNING id)
    UPDATE chot.job_outputs o SET checkpoint = NULL FROM done WHERE o.job_id = done.id""")
# An inactive job has no other use for its due time: here it is its place in the queue.
GO_BEHIND = text("""
    UPDATE chot.jobs SET available_at = (SELECT max(o.available_at) + interval '1 microsecond'
                                           FROM chot.jobs o WHERE o.cleanup_due)
     WHERE id = :job_id AND cleanup_due AND state IN ('cancelled', 'dead')""")


async def clean_up_one(
    engine: AsyncEngine, handlers: Mapping[str, Handler], timing: LeaseTiming
) -> bool:
    """Clean up after one job; False when none is due. Kind's rows and the flag are one commit.

    The job row is locked first and is still cancelled or dead, so that nothing can start it.
    Whatever a kind's cleanup raises is raised, after the job has gone behind the others: one that
    fails for ever does not keep them waiting.

    Model: action clean_up.
    """
    row = None
    try:
        async with transaction(
            engine, lock_timeout=timing.lock_timeout, idle_timeout=timing.idle_in_transaction
        ) as conn:
            row = (await conn.execute(LOCK_ONE_DUE, {"kinds": list(handlers)})).one_or_none()
            if row is None:
                return False
            handler = handlers[row.kind]
            if handler.cleanup is not None:
                await handler.cleanup(await _context(conn, row))
            await conn.execute(CLEANED, {"job_id": row.id})
    except Exception:
        if row is not None:
            async with transaction(engine, lock_timeout=timing.lock_timeout) as conn:
                await conn.execute(GO_BEHIND, {"job_id": row.id})
        raise
    log.info("job.cleaned_up", job_id=str(row.id), kind=row.kind)
    return True


async def _context(conn: AsyncConnection, row: Any) -> CleanupContext:
    left = (await conn.execute(READ_LEFT, {"job_id": row.id})).one()
    job = job_of(row, payload=left.payload)
    return CleanupContext(job=job, checkpoint=left.checkpoint, connection=conn)
