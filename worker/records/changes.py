"""What changed under a run since its snapshot: movements, openings, methods, earlier costs."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from worker.costing.carry import EMPTY
from worker.records.cost_runs import CostRun

# By the snapshot, never by the largest id: a smaller id may commit later. An xid below the
# snapshot's xmin was visible to it, so the index leaves only the newest rows to look at.
# An opening that another run replaced counts when its digest differs, or nobody has read it yet.
# Costs of earlier periods count for items that refer to them.
FIND_CHANGED = text("""
    WITH run AS MATERIALIZED (SELECT snapshot FROM books.cost_runs WHERE id = :run_id),
    fresh AS MATERIALIZED (
        SELECT m.brand, m.to_brand, m.item FROM books.stock_movements m
         WHERE m.company = :company
           AND m.xid >= (SELECT pg_snapshot_xmin(snapshot) FROM run)
           AND m.posting_date BETWEEN :starts_on AND :ends_on
           AND NOT pg_visible_in_snapshot(m.xid, (SELECT snapshot FROM run))),
    listed AS MATERIALIZED (
        SELECT brand, item, opening_run_id, opening_digest, method, refers
          FROM books.cost_run_items WHERE run_id = :run_id)
    SELECT DISTINCT item FROM (
        SELECT brand, item FROM fresh
        UNION
        SELECT to_brand, item FROM fresh WHERE to_brand <> brand
        UNION
        SELECT brand, item FROM listed w
          FULL JOIN (SELECT a.brand, a.item, a.run_id, a.closing_digest FROM books.active_results a
                      WHERE a.company = :company AND a.period = :previous_period
                        AND (CAST(:brand AS text) IS NULL OR a.brand = :brand)) a
                 USING (brand, item)
         WHERE w.opening_run_id IS DISTINCT FROM a.run_id
           AND coalesce(w.opening_digest <> CASE WHEN a.run_id IS NULL THEN CAST(:empty AS bytea)
                                                 ELSE a.closing_digest END, true)
        UNION
        SELECT w.brand, w.item FROM listed w
          JOIN books.items i ON i.company = :company AND i.code = w.item
         WHERE w.method <> coalesce(
               (SELECT m.method FROM books.costing_methods m
                 WHERE m.company = :company AND m.item = w.item AND m.valid_from <= :starts_on
                 ORDER BY m.valid_from DESC, m.id DESC LIMIT 1), i.costing_method)
        UNION
        SELECT w.brand, w.item FROM listed w
         WHERE w.refers AND EXISTS (
               SELECT FROM books.brands b
                 JOIN books.active_results a
                   ON a.company = b.company AND a.brand = b.code AND a.period < :period
                  AND a.item = w.item
                WHERE b.company = :company
                  AND NOT pg_visible_in_snapshot(a.xid, (SELECT snapshot FROM run)))) AS changed
     WHERE (CAST(:brand AS text) IS NULL OR brand = :brand)
       AND (CAST(:items AS text[]) IS NULL OR item = ANY (CAST(:items AS text[])))
     ORDER BY item""")
# Without statistics on xid the planner takes a third of the table for new and reads all of it,
# behind a closed gate.
BY_INDEX = text("SELECT set_config('enable_seqscan', :setting, true)")


async def find_changed(conn: AsyncConnection, run: CostRun) -> set[str]:
    """Items of the scope whose input is no longer what the run has read."""
    binds = {**run.binds, "items": run.scope_items, "empty": EMPTY}
    await conn.execute(BY_INDEX, {"setting": "off"})
    rows = (await conn.execute(FIND_CHANGED, binds)).scalars().all()
    await conn.execute(BY_INDEX, {"setting": "on"})
    return set(rows)


TOGETHER = text("""
    SELECT item FROM books.cost_run_items
     WHERE run_id = :run_id AND family IN (
           SELECT family FROM books.cost_run_items
            WHERE run_id = :run_id AND item = ANY (CAST(:items AS text[])))""")


async def costed_together(conn: AsyncConnection, run: CostRun, items: set[str]) -> set[str]:
    """The items with all others of their families, as the run has listed them."""
    rows = await conn.execute(TOGETHER, {"run_id": run.id, "items": sorted(items)})
    return items | set(rows.scalars())
