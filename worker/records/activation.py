"""Activation: a finished run becomes visible whole, behind the period's gate, or not at all."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from worker.records.cost_runs import CostRun, closed_period
from worker.records.staleness import Aged, age_later, age_referring

# The gates of periods are taken in their order, as every writer takes them. The earlier one is
# only kept from changing under us: its closing is our opening.
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


# Where the previous period is stale itself, what was built on it is no better.
SPEAK = text("""
    INSERT INTO books.active_results AS a
           (company, brand, period, item, run_id, failed, stale, method, tied, refers, digest,
            opening_digest, closing_digest, xid)
    SELECT CAST(:company AS text), w.brand, CAST(:period AS text), w.item, w.run_id, w.failed,
           coalesce(bool_or(p.stale) OVER (
               PARTITION BY w.item, CASE WHEN w.tied THEN '' ELSE w.brand END), false),
           w.method, w.tied, w.refers, w.digest, w.opening_digest, w.closing_digest,
           pg_current_xact_id()
      FROM books.cost_run_items w
      LEFT JOIN books.active_results p
        ON p.company = :company AND p.brand = w.brand AND p.period = :previous_period
       AND p.item = w.item
     WHERE w.run_id = :run_id AND (NOT w.out_of_scope OR NOT EXISTS (
           SELECT FROM books.active_results o
            WHERE o.company = :company AND o.brand = w.brand AND o.period = :period
              AND o.item = w.item))
     ORDER BY w.brand, w.item
    ON CONFLICT (company, brand, period, item)
    DO UPDATE SET run_id = excluded.run_id, failed = excluded.failed, stale = excluded.stale,
                  method = excluded.method, tied = excluded.tied, refers = excluded.refers,
                  digest = excluded.digest, opening_digest = excluded.opening_digest,
                  closing_digest = excluded.closing_digest, xid = excluded.xid""")
SILENCE = text("""
    DELETE FROM books.active_results a
     WHERE a.company = :company AND a.period = :period AND a.run_id <> :run_id
       AND (CAST(:brand AS text) IS NULL OR a.brand = :brand)
       AND (CAST(:items AS text[]) IS NULL OR a.item = ANY (CAST(:items AS text[])))
       AND NOT EXISTS (SELECT FROM books.cost_run_items w
                        WHERE w.run_id = :run_id AND w.brand = a.brand AND w.item = a.item)""")
FORGET_LATE = text("""
    DELETE FROM books.late_movements l
     USING books.cost_run_items w, books.cost_runs r
     WHERE r.id = :run_id AND w.run_id = :run_id AND NOT w.out_of_scope
       AND l.company = :company AND l.period = :period AND l.brand = w.brand AND l.item = w.item
       AND pg_visible_in_snapshot(l.xid, r.snapshot)""")
SUPERSEDE = text("""
    UPDATE books.cost_runs r SET status = 'superseded'
     WHERE r.company = :company AND r.period = :period AND r.status = 'active'
       AND NOT EXISTS (SELECT FROM books.active_results a WHERE a.run_id = r.id)""")
ACTIVATE = text("""
    UPDATE books.cost_runs SET status = 'active', activated_at = clock_timestamp(), fence = :fence
     WHERE id = :run_id AND status = 'building' AND NOT dry_run""")


async def activate(conn: AsyncConnection, run: CostRun, fence: int) -> Aged:
    """Let the run speak for every item it has costed; returns how later results fare.

    Items of its scope that are no more fall silent, and no others. What it could not cost because
    it crosses to another brand keeps the result it had. Earlier runs that no item is left to are
    superseded. The caller holds the gate and has found nothing changed since the run's snapshot.
    """
    binds = {**run.binds, "items": run.scope_items, "fence": fence}
    referring = await age_referring(conn, run)
    await conn.execute(SPEAK, binds)
    await conn.execute(SILENCE, binds)
    await conn.execute(FORGET_LATE, binds)
    activated = await conn.execute(ACTIVATE, binds)
    assert activated.rowcount == 1, "only a run that is being built becomes active"
    await conn.execute(SUPERSEDE, binds)
    return await age_later(conn, run, referring)
