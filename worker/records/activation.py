"""Activation: a finished run becomes visible whole, behind the period's gate, or not at all."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from worker.records.cost_runs import CostRun, closed_period

# The gates of two periods are taken in their order, as every writer takes them. The earlier one
# is only kept from changing under us: its closing is our opening.
LOCK_PREVIOUS = text("""
    SELECT pg_advisory_xact_lock_shared(books.period_gate_key(:company, :period))""")
LOCK_GATE = text("SELECT pg_advisory_xact_lock(books.period_gate_key(:company, :period))")
LOCK_PERIOD = text("""
    SELECT status FROM books.periods
     WHERE company = :company AND period = :period FOR UPDATE""")


async def close_gate(conn: AsyncConnection, run: CostRun) -> None:
    """Hold the period for this transaction: no movement enters it until the commit.

    Waits for writers that passed the gate before. Raises PermanentError PERIOD_CLOSED when the
    period is no longer open. Check nothing before this.
    """
    if run.previous_period is not None:
        previous = {"company": run.company, "period": run.previous_period}
        await conn.execute(LOCK_PREVIOUS, previous)
    scope = {"company": run.company, "period": run.period}
    await conn.execute(LOCK_GATE, scope)
    # A new statement: one that waited for the lock would still see the period as it was.
    status = (await conn.execute(LOCK_PERIOD, scope)).scalar_one_or_none()
    if status != "open":
        raise closed_period(run.company, run.period, status)


SPEAK = text("""
    INSERT INTO books.active_results (company, brand, period, item, run_id, failed)
    SELECT r.company, w.brand, r.period, w.item, r.id, w.failed
      FROM books.cost_runs r JOIN books.cost_run_items w ON w.run_id = r.id
     WHERE r.id = :run_id AND r.status = 'building'
     ORDER BY w.brand, w.item
    ON CONFLICT (company, brand, period, item)
    DO UPDATE SET run_id = excluded.run_id, failed = excluded.failed, stale = false""")
SILENCE = text("""
    DELETE FROM books.active_results a
     WHERE a.company = :company AND a.period = :period AND a.run_id <> :run_id
       AND (CAST(:brand AS text) IS NULL OR a.brand = :brand)""")
SUPERSEDE = text("""
    UPDATE books.cost_runs r SET status = 'superseded'
     WHERE r.company = :company AND r.period = :period AND r.status = 'active'
       AND NOT EXISTS (SELECT FROM books.active_results a WHERE a.run_id = r.id)""")
ACTIVATE = text("""
    UPDATE books.cost_runs SET status = 'active', activated_at = clock_timestamp(), fence = :fence
     WHERE id = :run_id AND status = 'building'""")
AGE_LATER = text("""
    UPDATE books.active_results a SET stale = true
      FROM books.periods p
     WHERE a.company = :company AND a.period > :period AND NOT a.stale
       AND (CAST(:brand AS text) IS NULL OR a.brand = :brand)
       AND p.company = a.company AND p.period = a.period AND p.status <> 'closed'""")


async def activate(conn: AsyncConnection, run: CostRun, fence: int) -> int:
    """Let the run speak for every item of its scope; returns how many later results are now stale.

    Earlier runs that no item is left to are superseded. The caller holds the gate and has found
    nothing changed since the run's snapshot.
    """
    binds = {
        "run_id": run.id,
        "company": run.company,
        "brand": run.brand,
        "period": run.period,
        "fence": fence,
    }
    await conn.execute(SPEAK, binds)
    await conn.execute(SILENCE, binds)
    await conn.execute(SUPERSEDE, binds)
    activated = await conn.execute(ACTIVATE, binds)
    assert activated.rowcount == 1, "only a run that is being built becomes active"
    aged = await conn.execute(AGE_LATER, binds)
    return aged.rowcount


FIND_LEFTOVERS = text("""
    SELECT r.id FROM books.cost_runs r
     WHERE r.company = :company AND r.status IN ('superseded', 'failed')
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


async def fail_run(conn: AsyncConnection, job_id: object) -> None:
    """End the run that a job left half-built, with everything it wrote. Idempotent."""
    for run_id in (await conn.execute(FAIL_RUN, {"job_id": job_id})).scalars().all():
        await drop_storage(conn, run_id)
