"""Progress of a job that waits for its group, told by the members that work for it."""

from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

# Nobody waits here: of two members that report at once one is enough, and who cancels the join
# holds its row.
TELL_JOIN = text("""
    UPDATE chot.jobs j
       SET progress_done = greatest(j.progress_done, CAST(:done AS bigint)),
           progress_total = coalesce(CAST(:total AS bigint), j.progress_total),
           progress_unit = CAST(:unit AS text),
           progress_message = CASE WHEN CAST(:done AS bigint) >= coalesce(j.progress_done, 0)
                                   THEN CAST(:message AS text) ELSE j.progress_message END
      FROM (SELECT w.id FROM chot.groups g JOIN chot.jobs w ON w.id = g.join_job_id
             WHERE g.id = :group_id AND w.joins = g.id AND w.state = 'pending'
             ORDER BY w.id FOR NO KEY UPDATE OF w SKIP LOCKED) AS waiting
     WHERE j.id = waiting.id AND j.state = 'pending'""")


async def tell_join(conn: AsyncConnection, group_id: UUID, progress: dict[str, Any]) -> None:
    """Store done, total, unit and message with the job that waits for the group, if one does.

    Commits with the caller's transaction, which holds the job's row from then on: right before its
    end. Never goes backwards.
    """
    await conn.execute(TELL_JOIN, {"group_id": group_id, **progress})
