"""Pause and resume: whether a queue's pending jobs are claimable."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.audit import Action, noted

# A pause of what is paused is no act, and leaves no row.
PAUSE_QUEUE = text(f"""
    WITH stopped AS (
        UPDATE chot.queues SET paused = true WHERE name = :queue AND NOT paused RETURNING name),
    {noted(Action.QUEUE_PAUSE, "stopped", target="stopped.name")}
    SELECT name FROM chot.queues WHERE name = :queue""")


async def pause_queue(conn: AsyncConnection, queue: str) -> bool:
    """Stop claims of this queue's jobs; running ones go on. False means no such queue."""
    return (await conn.execute(PAUSE_QUEUE, {"queue": queue})).one_or_none() is not None


# A delivery that met the pause was deleted: whoever is due and has no message waiting gets one.
# One statement, so that no pause can come between the two halves; a second resume stages nothing.
RESUME_QUEUE = text(f"""
    WITH resumed AS (
        UPDATE chot.queues SET paused = false WHERE name = :queue AND paused RETURNING name),
    {noted(Action.QUEUE_RESUME, "resumed", target="resumed.name")},
    staged AS (
        INSERT INTO chot.outbox (job_id, queue, kind, brand, trace, priority, next_send_at)
        SELECT j.id, j.queue, j.kind, j.brand, j.trace, j.priority, j.available_at
          FROM chot.jobs j JOIN resumed ON resumed.name = j.queue
         WHERE j.state = 'pending' AND j.available_at <= clock_timestamp()
           AND NOT EXISTS (SELECT FROM chot.outbox o
                            WHERE o.job_id = j.id AND o.quarantined_at IS NULL)
        RETURNING 1)
    SELECT (SELECT count(*) FROM staged) AS staged
      FROM chot.queues WHERE name = :queue""")


async def resume_queue(conn: AsyncConnection, queue: str) -> int | None:
    """Make the queue's jobs claimable again; answers how many messages were staged for it.

    None means no such queue.
    """
    row = (await conn.execute(RESUME_QUEUE, {"queue": queue})).one_or_none()
    return None if row is None else int(row.staged)
