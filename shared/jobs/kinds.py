"""A plain read of the kinds: what the database knows of each, and how many of it run."""

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.access import EVERYTHING, IN_SCOPE, Scope

LIST_KINDS = text(f"""
    SELECT k.name, k.queue, k.paused, k.payload_version, k.on_duplicate, k.max_attempts,
           k.timeout_seconds, k.max_running, k.internal, k.made_by, k.approval,
           coalesce(r.running, 0) AS running
      FROM chot.kinds k
      LEFT JOIN (
        SELECT j.kind, count(*) AS running FROM chot.jobs j
         WHERE j.state = 'running' AND {IN_SCOPE} GROUP BY j.kind) AS r ON r.kind = k.name
     ORDER BY k.name""")


async def list_kinds(conn: AsyncConnection, *, scope: Scope = EVERYTHING) -> list[RowMapping]:
    """Every kind; `running` counts the jobs of this scope only."""
    return list((await conn.execute(LIST_KINDS, scope.binds())).mappings().all())
