"""Pause and resume: whether the pending jobs of a queue, or of a kind, are claimable.

A delivery that met the pause was deleted: at the resume whoever is due and has no message waiting
gets one, in the resume's own statement, so that no pause can come between the two halves. It asks
for no other stop: two resumes at once would each leave the job to the other.
"""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.audit import Action, noted
from shared.database import find_by_index
from shared.jobs.staging import staged_due

# A pause of what is paused is no act, and leaves no row.
PAUSE_QUEUE = text(f"""
    WITH stopped AS (
        UPDATE chot.queues SET paused = true WHERE name = :queue AND NOT paused RETURNING name),
    {noted(Action.QUEUE_PAUSE, "stopped", target="stopped.name")}
    SELECT name FROM chot.queues WHERE name = :queue""")


async def pause_queue(conn: AsyncConnection, queue: str) -> bool:
    """Stop claims of this queue's jobs; running ones go on. False means no such queue.

    Model: action pause_queue.
    """
    return (await conn.execute(PAUSE_QUEUE, {"queue": queue})).one_or_none() is not None


RUNNING_OF_QUEUE = text("""
    SELECT count(*) FROM chot.jobs WHERE state = 'running' AND queue = :queue""")


async def running_of_queue(conn: AsyncConnection, queue: str) -> int:
    """How many jobs of the queue go on running. Ask it once the pause has committed."""
    return int(await conn.scalar(RUNNING_OF_QUEUE, {"queue": queue}) or 0)


# A second resume stages nothing.
RESUME_QUEUE = text(f"""
    WITH resumed AS (
        UPDATE chot.queues SET paused = false WHERE name = :queue AND paused RETURNING name),
    {noted(Action.QUEUE_RESUME, "resumed", target="resumed.name")},
    {staged_due("resumed JOIN chot.jobs j ON j.queue = resumed.name")}
    SELECT (SELECT count(*) FROM staged) AS staged
      FROM chot.queues WHERE name = :queue""")


async def resume_queue(conn: AsyncConnection, queue: str) -> int | None:
    """Make the queue's jobs claimable again; answers how many messages were staged for it.

    None means no such queue.

    Model: action resume_queue.
    """
    await find_by_index(conn)
    row = (await conn.execute(RESUME_QUEUE, {"queue": queue})).one_or_none()
    return None if row is None else int(row.staged)


PAUSE_KIND = text(f"""
    WITH stopped AS (
        UPDATE chot.kinds SET paused = true WHERE name = :kind AND NOT paused RETURNING name),
    {noted(Action.KIND_PAUSE, "stopped", target="stopped.name")}
    SELECT name FROM chot.kinds WHERE name = :kind""")
RUNNING_OF_KIND = text("""
    SELECT count(*) FROM chot.jobs WHERE state = 'running' AND kind = :kind""")


async def pause_kind(conn: AsyncConnection, kind: str) -> bool:
    """Stop claims of this kind's jobs, in whatever queue; False means no such kind."""
    return (await conn.execute(PAUSE_KIND, {"kind": kind})).one_or_none() is not None


async def running_of_kind(conn: AsyncConnection, kind: str) -> int:
    """How many jobs of the kind go on running. Ask it once the pause has committed."""
    return int(await conn.scalar(RUNNING_OF_KIND, {"kind": kind}) or 0)


RESUME_KIND = text(f"""
    WITH resumed AS (
        UPDATE chot.kinds SET paused = false WHERE name = :kind AND paused RETURNING name),
    {noted(Action.KIND_RESUME, "resumed", target="resumed.name")},
    {staged_due("resumed JOIN chot.jobs j ON j.kind = resumed.name")}
    SELECT (SELECT count(*) FROM staged) AS staged
      FROM chot.kinds WHERE name = :kind""")


async def resume_kind(conn: AsyncConnection, kind: str) -> int | None:
    """Make the kind's jobs claimable again, as resume_queue() does; None means no such kind."""
    await find_by_index(conn)
    row = (await conn.execute(RESUME_KIND, {"kind": kind})).one_or_none()
    return None if row is None else int(row.staged)
