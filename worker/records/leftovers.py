"""Rows that nobody reads any more: of superseded runs, of failed ones, of previews that ended."""

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.database import CONFLICTS, sqlstate_of
from shared.logs import log
from shared.telling import told

FIND_LEFTOVERS = text("""
    SELECT r.id FROM books.cost_runs r
     WHERE r.company = :company AND r.status IN ('superseded', 'failed', 'previewed')
       AND to_regclass('books.movement_costs_r' || r.id) IS NOT NULL
       AND NOT EXISTS (SELECT FROM books.active_results a WHERE a.run_id = r.id)
     ORDER BY r.id LIMIT 20""")
DROP_STORAGE = text("SELECT books.drop_run_storage(:run_id)")
FAIL_RUN = text("""
    UPDATE books.cost_runs SET status = 'failed' WHERE job_id = :job_id AND status = 'building'
    RETURNING id""")


async def find_leftovers(conn: AsyncConnection, company: str) -> list[int]:
    """Runs of the company whose rows nobody reads any more."""
    return list((await conn.execute(FIND_LEFTOVERS, {"company": company})).scalars())


async def drop_storage(conn: AsyncConnection, run_id: int) -> None:
    """Drop the rows of such a run; gives up within a second when somebody reads the tables."""
    await conn.execute(DROP_STORAGE, {"run_id": run_id})


async def try_drop_storage(conn: AsyncConnection, run_id: int) -> None:
    """As drop_storage(), but where somebody reads the tables they are left to a later job."""
    try:
        async with conn.begin_nested():
            await drop_storage(conn, run_id)
    except DBAPIError as error:
        if sqlstate_of(error) not in CONFLICTS:
            raise
        log.info("costing.leftover_in_use", run_id=run_id, error=told(error))


async def fail_run(conn: AsyncConnection, job_id: object) -> None:
    """End the run that a job left half-built, with everything it wrote. Idempotent."""
    for run_id in (await conn.execute(FAIL_RUN, {"job_id": job_id})).scalars().all():
        await drop_storage(conn, run_id)
