"""Movements of a period that no result speaks for: what its costs, as they stand, leave out."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from worker.records.cost_plan import CostPeriod

# By item and not by brand: it is the item that is costed again.
UNREAD = text("""
    WITH moved AS MATERIALIZED (
        SELECT m.brand, m.item, m.xid FROM books.stock_movements m
         WHERE m.company = :company AND m.posting_date BETWEEN :starts_on AND :ends_on
        UNION ALL
        SELECT m.to_brand, m.item, m.xid FROM books.stock_movements m
         WHERE m.company = :company AND m.posting_date BETWEEN :starts_on AND :ends_on
           AND m.to_brand <> m.brand)
    SELECT count(DISTINCT m.item) FILTER (WHERE a.run_id IS NULL) AS uncosted,
           count(DISTINCT m.item) FILTER (WHERE NOT pg_visible_in_snapshot(m.xid, r.snapshot))
               AS late
      FROM moved m
      LEFT JOIN books.active_results a
        ON a.company = :company AND a.period = :period AND a.brand = m.brand AND a.item = m.item
      LEFT JOIN books.cost_runs r ON r.id = a.run_id""")


async def count_unread(conn: AsyncConnection, costs: CostPeriod) -> dict[str, int]:
    """How many items of the period have movements and no result, and how many have later ones.

    Reads each movement of the period once; by the same words as a close that refuses for them.
    """
    row = (await conn.execute(UNREAD, costs.binds())).one()
    return {"NOT_COSTED": row.uncosted, "LATE_MOVEMENTS": row.late}
