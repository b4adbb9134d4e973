"""Which later results rest on numbers that have changed: stale, or sound again.

Period after period: a result is stale if the one it opens with is, or closes with something else
than it has read. It stops where nothing changes, so that a re-run that comes to the same closing
leaves the later periods alone, and one that comes back to the old closing frees them again. What
brands were costed together for is stale for all of them.
"""

from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from worker.records.cost_runs import CostRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Aged:
    """How many results of later periods have become stale, and how many are sound again."""

    stale: int
    sound: int


# Shared, and in their order: a run of such a period that is being activated is waited for, and
# its new rows are seen; movements enter meanwhile. Also of periods without results: the first ones
# of a period may be written at this very moment.
LOCK_LATER = text("""
    SELECT period, pg_advisory_xact_lock_shared(books.period_gate_key(company, period))
      FROM (SELECT p.company, p.period FROM books.periods p
             WHERE p.company = :company AND p.period > :period AND p.status <> 'closed'
             ORDER BY p.period) AS later""")
AGE_PERIOD = text("""
    WITH own AS MATERIALIZED (
        SELECT a.brand, a.item, a.tied,
               (a.stale AND a.refers) OR (p.item IS NOT NULL AND (
                   p.stale OR coalesce(p.closing_digest <> a.opening_digest, true))) AS stale
          FROM books.brands b
          JOIN books.active_results a
            ON a.company = b.company AND a.brand = b.code AND a.period = :period
           AND a.item IN (SELECT w.item FROM books.cost_run_items w WHERE w.run_id = :run_id)
          LEFT JOIN books.active_results p
            ON p.company = a.company AND p.brand = a.brand AND p.period = :previous_period
           AND p.item = a.item
         WHERE b.company = :company),
    judged AS MATERIALIZED (
        SELECT brand, item, bool_or(stale) OVER (
                   PARTITION BY item, CASE WHEN tied THEN '' ELSE brand END) AS stale
          FROM own)
    UPDATE books.active_results a SET stale = j.stale
      FROM judged j
     WHERE a.company = :company AND a.period = :period AND a.brand = j.brand AND a.item = j.item
       AND a.stale <> j.stale
    RETURNING a.stale""")
# What refers to earlier movements rests on their costs, not only on the closing: any change of
# the item counts, and only another run of that period makes it sound again. What a brand cannot
# cost keeps the result it has: nothing changes for it.
AGE_REFERRING = text("""
    UPDATE books.active_results a SET stale = true
     WHERE a.company = :company AND a.period > :period AND a.refers AND NOT a.stale
       AND a.item IN (
           SELECT w.item FROM books.cost_run_items w
             LEFT JOIN books.active_results old
               ON old.company = :company AND old.brand = w.brand AND old.period = :period
              AND old.item = w.item
            WHERE w.run_id = :run_id AND old.digest IS DISTINCT FROM w.digest
              AND (NOT w.out_of_scope OR old.run_id IS NULL))
       AND EXISTS (SELECT FROM books.periods p
                    WHERE p.company = a.company AND p.period = a.period AND p.status <> 'closed')
    RETURNING a.period""")


async def age_referring(conn: AsyncConnection, run: CostRun) -> int:
    """Later results that refer to movements whose costs change; called before the run speaks."""
    await conn.execute(LOCK_LATER, run.binds)
    return (await conn.execute(AGE_REFERRING, run.binds)).rowcount


async def age_later(conn: AsyncConnection, run: CostRun, referring: int) -> Aged:
    """Judge the run's items in every later open period that is costed, until nothing changes."""
    stale, sound = referring, 0
    previous = run.period
    for period in (await conn.execute(LOCK_LATER, run.binds)).scalars().all():
        binds = {**run.binds, "period": period, "previous_period": previous}
        judged = (await conn.execute(AGE_PERIOD, binds)).scalars().all()
        stale += sum(judged)
        sound += len(judged) - sum(judged)
        if not judged and not referring:
            break
        previous = period
    return Aged(stale=stale, sound=sound)
