"""A posting's work list is there as long as its job is known, in the archive, too."""

from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

MOST_ROWS = 5_000
REMOVE = text("""
    WITH list AS MATERIALIZED (
        SELECT i.job_id FROM books.posting_items i WHERE i.job_id > CAST(:after AS uuid)
         ORDER BY i.job_id LIMIT 1),
    old AS (
        SELECT i.job_id, i.seq FROM list l JOIN books.posting_items i ON i.job_id = l.job_id
         WHERE (SELECT true FROM chot.jobs j WHERE j.id = l.job_id) IS NULL
           AND (SELECT true FROM chot.archived_jobs a WHERE a.id = l.job_id) IS NULL
         ORDER BY i.seq LIMIT :most),
    gone AS (
        DELETE FROM books.posting_items i USING old o
         WHERE i.job_id = o.job_id AND i.seq = o.seq RETURNING i.seq)
    SELECT l.job_id, (SELECT count(*) FROM gone) AS removed FROM list l""")


async def remove_list(
    engine: AsyncEngine, after: UUID, *, most: int = MOST_ROWS
) -> tuple[UUID, int] | None:
    """Look at the next job's list after that one; its job, and how many rows of it are gone now.

    None: there is no other. `engine` is in autocommit; where `most` are gone there may be more.
    """
    async with engine.connect() as conn:
        row = (await conn.execute(REMOVE, {"after": after, "most": most})).one_or_none()
    return None if row is None else (row.job_id, row.removed)
