"""Read what a chunk of items is costed from: movements, openings, and what returns refer to.

Everything is read through the run's snapshot: each chunk and each attempt sees the same rows.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from shared.database import driver_connection
from worker.costing.chunk import Unit
from worker.costing.movements import Reference
from worker.costing.problems import Code
from worker.records.cost_runs import METHOD, CostRun, PendingItem

# Bulk reads go through the driver: a row object a movement is what SQLAlchemy would add.
READ_MOVEMENTS = """
    SELECT m.brand, m.item, m.id, m.posting_date, m.posting_seq, m.kind, m.store, m.to_store,
           m.qty_base, m.value, m.ref_movement_id, m.cost_basis, m.reverses_movement_id
      FROM unnest($2::text[], $3::text[]) AS w (brand, item)
     CROSS JOIN LATERAL (
           SELECT * FROM books.stock_movements s
            WHERE s.company = $1 AND s.brand = w.brand AND s.item = w.item
              AND s.posting_date BETWEEN $4 AND $5) m
     WHERE pg_visible_in_snapshot(m.xid, (SELECT snapshot FROM books.cost_runs WHERE id = $6))"""

READ_ARRIVALS = """
    SELECT w.brand, m.item, m.id, m.posting_date, m.posting_seq, m.kind, m.store, m.to_store,
           m.qty_base, m.value, m.ref_movement_id, m.cost_basis, m.reverses_movement_id
      FROM unnest($2::text[], $3::text[]) AS w (brand, item)
     CROSS JOIN LATERAL (
           SELECT * FROM books.stock_movements s
            WHERE s.company = $1 AND s.to_brand = w.brand AND s.to_brand <> s.brand
              AND s.item = w.item AND s.posting_date BETWEEN $4 AND $5) m
     WHERE pg_visible_in_snapshot(m.xid, (SELECT snapshot FROM books.cost_runs WHERE id = $6))"""

READ_OPENINGS = """
    SELECT b.brand, b.item, b.store, b.q_closing, b.v_closing
      FROM unnest($1::text[], $2::text[], $3::bigint[]) AS w (brand, item, run_id)
      JOIN books.store_balances b
        ON b.run_id = w.run_id AND b.brand = w.brand AND b.item = w.item
     WHERE b.run_id = ANY ($3::bigint[]) AND (b.q_closing <> 0 OR b.v_closing <> 0)"""

# The cost of an earlier movement is what the active run of its period says, else its own value;
# a receipt carries the freight that was known before this period.
READ_REFERENCES = """
    SELECT o.id, o.kind, o.store, o.qty_base,
           coalesce(c.value, o.value) + CASE WHEN o.kind IN ('receipt', 'opening', 'produce') THEN (
               SELECT coalesce(sum(l.value), 0) FROM books.stock_movements l
                WHERE l.ref_movement_id = o.id AND l.kind = 'landed_cost'
                  AND l.posting_date < $2 AND l.reverses_movement_id IS NULL
                  AND pg_visible_in_snapshot(l.xid, r.snapshot)
                  AND NOT EXISTS (SELECT FROM books.stock_movements x
                                   WHERE x.reverses_movement_id = l.id)) ELSE 0 END AS value,
           (SELECT coalesce(sum(b.qty_base), 0) FROM books.stock_movements b
             WHERE b.ref_movement_id = o.id AND b.kind IN ('sales_return', 'purchase_return')
               AND b.posting_date < $2 AND b.reverses_movement_id IS NULL
               AND pg_visible_in_snapshot(b.xid, r.snapshot)
               AND NOT EXISTS (SELECT FROM books.stock_movements x
                                WHERE x.reverses_movement_id = b.id)) AS returned
      FROM books.cost_runs r
      JOIN books.stock_movements o
        ON o.id = ANY ($1::bigint[]) AND pg_visible_in_snapshot(o.xid, r.snapshot)
      LEFT JOIN books.periods p
        ON p.company = o.company AND o.posting_date BETWEEN p.starts_on AND p.ends_on
       AND o.posting_date < $2
      LEFT JOIN books.active_results a
        ON a.company = o.company AND a.brand = o.brand AND a.period = p.period
       AND a.item = o.item AND NOT a.failed
      LEFT JOIN books.movement_costs c
        ON c.run_id = a.run_id AND c.brand = o.brand AND c.item = o.item AND c.movement_id = o.id
     WHERE r.id = $3"""


async def load_units(
    conn: AsyncConnection, run: CostRun, pending: Sequence[PendingItem]
) -> list[Unit]:
    """Everything the pending items are costed from, as of the run's snapshot.

    `conn` must be in a transaction. Rows that committed after the snapshot are not seen.
    """
    driver = await driver_connection(conn)
    brands, items = [p.brand for p in pending], [p.item for p in pending]
    scope = (run.company, brands, items, run.starts_on, run.ends_on, run.id)
    movements: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
    for query in (READ_MOVEMENTS, READ_ARRIVALS):
        for row in await driver.fetch(query, *scope):
            movements.setdefault((row[0], row[1]), []).append(tuple(row)[2:])
    openings: dict[tuple[str, str], list[tuple[str, int, int]]] = {}
    runs = [p.opening_run_id for p in pending]
    if any(run_id is not None for run_id in runs):
        for row in await driver.fetch(READ_OPENINGS, brands, items, runs):
            openings.setdefault((row[0], row[1]), []).append(tuple(row)[2:])
    references = await _references(driver, run, movements)
    return [_unit(p, movements, openings, references) for p in pending]


_ID, _REF, _REVERSES = 0, 8, 10


async def _references(
    driver: Any, run: CostRun, movements: dict[tuple[str, str], list[tuple[Any, ...]]]
) -> dict[int, Reference]:
    """Movements outside their own unit that it refers to: earlier periods, other brands."""
    wanted: set[int] = set()
    for rows in movements.values():
        named = {row[column] for row in rows for column in (_REF, _REVERSES)} - {None}
        if named:
            wanted |= named - {row[_ID] for row in rows}
    if not wanted:
        return {}
    found = await driver.fetch(READ_REFERENCES, sorted(wanted), run.starts_on, run.id)
    return {
        row["id"]: Reference(
            kind=row["kind"],
            store=row["store"],
            qty=row["qty_base"],
            value=None if row["value"] is None else int(row["value"]),
            returned=int(row["returned"]),
        )
        for row in found
    }


def _unit(
    pending: PendingItem,
    movements: dict[tuple[str, str], list[tuple[Any, ...]]],
    openings: dict[tuple[str, str], list[tuple[str, int, int]]],
    references: dict[int, Reference],
) -> Unit:
    key = (pending.brand, pending.item)
    rows = movements.get(key, [])
    named = {row[column] for row in rows for column in (_REF, _REVERSES)} - {None}
    refusal: str | None = None
    if pending.opening_failed:
        refusal = Code.OPENING_NOT_COSTED.value
    elif pending.costing_method != METHOD:
        refusal = Code.METHOD_MISMATCH.value
    return Unit(
        brand=pending.brand,
        item=pending.item,
        openings=openings.get(key, []),
        movements=rows,
        references={i: references[i] for i in named if i in references},
        refusal=refusal,
    )
