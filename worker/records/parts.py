"""Parts of a run: its families shared out to jobs that cost them side by side."""

from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from worker.records.cost_runs import CostRun

# Families in their order, cut where so many movements have come together: each part is a range, and
# no part is larger than the others by more than a family. An item without movements is work, too.
# A row finds its part among the first families of the parts. A join of so many fresh rows, of which
# no statistics tell, would be nested loops: hours for what takes seconds.
SHARE_OUT = text("""
    WITH weighed AS (
        SELECT family, sum(movements) + count(*) AS weight FROM books.cost_run_items
         WHERE run_id = :run_id AND NOT done GROUP BY family),
    placed AS (
        SELECT family, CAST(floor((sum(weight) OVER (ORDER BY family) - weight) * :parts
                                  / sum(weight) OVER ()) AS integer) AS part
          FROM weighed),
    firsts AS (SELECT part, min(family) AS family FROM placed GROUP BY part),
    bounds AS MATERIALIZED (
        SELECT array_agg(part ORDER BY family) AS parts,
               array_agg(family ORDER BY family) AS families
          FROM firsts),
    shared AS (
        UPDATE books.cost_run_items w
           SET part = b.parts[width_bucket(w.family, b.families)]
          FROM bounds b
         WHERE w.run_id = :run_id AND NOT w.done)
    SELECT part FROM firsts ORDER BY part""")
SHARED_BY = text("""
    UPDATE books.cost_runs SET parts_group = :group_id
     WHERE id = :run_id AND status = 'building'""")
# The lock keeps the run from ending before the part's transaction has: whoever ends it waits.
HOLD_RUN = text("""
    SELECT r.id FROM books.cost_runs r
     WHERE r.id = :run_id AND r.status = 'building' AND r.parts_group = :group_id
       AND EXISTS (SELECT FROM chot.groups g WHERE g.id = :group_id AND g.state = 'sealed')
       FOR SHARE OF r""")


READ_PRIORITY = text("SELECT priority FROM chot.jobs WHERE id = :job_id")


async def read_priority(conn: AsyncConnection, job_id: UUID) -> int:
    """The priority of the run's job: its parts are as urgent."""
    return int((await conn.execute(READ_PRIORITY, {"job_id": job_id})).scalar_one())


async def share_out(conn: AsyncConnection, run: CostRun, parts: int) -> list[int]:
    """Give each family that is left to do to one of so many parts; answers those that got any."""
    found = await conn.execute(SHARE_OUT, {"run_id": run.id, "parts": parts})
    return list(found.scalars())


async def note_group(conn: AsyncConnection, run: CostRun, group_id: UUID) -> None:
    """Say which group's jobs may write into the run."""
    await conn.execute(SHARED_BY, {"run_id": run.id, "group_id": group_id})


async def hold_run(conn: AsyncConnection, run_id: int, group_id: UUID) -> bool:
    """Keep the run as it is until the transaction ends; False: it is over, or not this group's."""
    binds = {"run_id": run_id, "group_id": group_id}
    return (await conn.execute(HOLD_RUN, binds)).one_or_none() is not None
