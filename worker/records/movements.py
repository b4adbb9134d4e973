"""Read what a chunk of families is costed from: movements, openings, and what they refer to.

Everything is read through the run's snapshot: each chunk and each attempt sees the same rows.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from shared.database import driver_connection
from worker.costing.movements import Kind, Reference
from worker.costing.units import ID, REF, REVERSES, TO_STORE, Node, Row, State, Unit, group
from worker.records.cost_runs import CostRun
from worker.records.openings import read_states
from worker.records.work_list import PendingItem

COLUMNS = """m.id, m.posting_date, m.posting_seq, m.kind, m.store, m.to_store, m.qty_base, m.value,
           m.ref_movement_id, m.cost_basis, m.reverses_movement_id, m.lot_id"""
# Bulk reads go through the driver: a row object a movement is what SQLAlchemy would add.
READ_MOVEMENTS = f"""
    SELECT w.n, {COLUMNS}
      FROM unnest($1::int[], $2::text[], $3::text[]) AS w (n, brand, item)
     CROSS JOIN LATERAL (
           SELECT * FROM books.stock_movements s
            WHERE s.company = $4 AND s.brand = w.brand AND s.item = w.item
              AND s.posting_date BETWEEN $5 AND $6) m
     WHERE pg_visible_in_snapshot(m.xid, (SELECT snapshot FROM books.cost_runs WHERE id = $7))"""
# Only a run of one brand looks for them: a run of the company has them where they leave.
READ_ARRIVALS = """
    SELECT w.n, m.id
      FROM unnest($1::int[], $2::text[], $3::text[]) AS w (n, brand, item)
     CROSS JOIN LATERAL (
           SELECT * FROM books.stock_movements s
            WHERE s.company = $4 AND s.to_brand = w.brand AND s.to_brand <> s.brand
              AND s.item = w.item AND s.posting_date BETWEEN $5 AND $6) m
     WHERE pg_visible_in_snapshot(m.xid, (SELECT snapshot FROM books.cost_runs WHERE id = $7))"""

# A production without a value is made of what its document consumes, if it is the only one there
# and all of that lies in the period. Rows that were taken back, or take back, count nowhere.
READ_SOURCES = """
    WITH run AS MATERIALIZED (SELECT snapshot FROM books.cost_runs WHERE id = $4),
    documents AS (
        SELECT DISTINCT company, doc_id FROM books.stock_movements WHERE id = ANY ($1::bigint[])),
    rows AS (
        SELECT m.id, m.company, m.doc_id, m.kind, m.value, m.brand,
               m.posting_date BETWEEN $2 AND $3 AS within
          FROM documents d
          JOIN books.stock_movements m ON m.company = d.company AND m.doc_id = d.doc_id
           AND m.kind IN ('produce', 'consume') AND m.reverses_movement_id IS NULL
           AND pg_visible_in_snapshot(m.xid, (SELECT snapshot FROM run))
         WHERE NOT EXISTS (SELECT FROM books.stock_movements x
                            WHERE x.reverses_movement_id = m.id
                              AND pg_visible_in_snapshot(x.xid, (SELECT snapshot FROM run))))
    SELECT min(id) FILTER (WHERE kind = 'produce' AND value IS NULL) AS made,
           array_agg(id ORDER BY id) FILTER (WHERE kind = 'consume') AS used,
           array_agg(DISTINCT brand) AS brands
      FROM rows GROUP BY company, doc_id
    HAVING count(*) FILTER (WHERE kind = 'produce' AND value IS NULL) = 1
       AND bool_and(within) AND bool_or(kind = 'consume')"""

# The cost of an earlier movement is what the active run of its period says, else its own value;
# a receipt carries the freight that was known before this period.
READ_REFERENCES = """
    SELECT o.id, o.kind, o.store, o.qty_base, o.brand, o.posting_date,
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


class _Read(NamedTuple):
    item: PendingItem
    state: State | None
    rows: list[Row]
    crossing: set[int]


class _Found(NamedTuple):
    reference: Reference
    crosses: bool


async def load_units(
    conn: AsyncConnection, run: CostRun, pending: Sequence[PendingItem]
) -> list[Unit]:
    """Everything the pending families are costed from, as of the run's snapshot.

    `conn` must be in a transaction. Rows that committed after the snapshot are not seen.
    """
    driver = await driver_connection(conn)
    scope = (
        list(range(len(pending))),
        [p.brand for p in pending],
        [p.item for p in pending],
        run.company,
        run.starts_on,
        run.ends_on,
        run.id,
    )
    rows: list[list[Row]] = [[] for _ in pending]
    for row in await driver.fetch(READ_MOVEMENTS, *scope):
        rows[row[0]].append(row[1:])
    crossing: list[set[int]] = [set() for _ in pending]
    if run.brand is not None:
        for row in await driver.fetch(READ_ARRIVALS, *scope):
            crossing[row[0]].add(row[1])
    states = await read_states(driver, pending)
    found = await _references(driver, run, pending, rows)
    sources = await _sources(driver, run, rows, crossing)
    read = [
        _Read(item=item, state=states[n], rows=rows[n], crossing=crossing[n])
        for n, item in enumerate(pending)
    ]
    nodes = [_node(run, each, found) for each in read]
    return group(nodes, run.layout, sources, whole_company=run.brand is None)


async def _references(
    driver: Any, run: CostRun, pending: Sequence[PendingItem], rows: Sequence[list[Row]]
) -> dict[int, _Found]:
    """Movements outside their own item that it refers to: earlier periods, other brands."""
    by_item: dict[str, tuple[set[int], list[int]]] = {}
    for n, item in enumerate(pending):
        named = {row[column] for row in rows[n] for column in (REF, REVERSES)} - {None}
        wanted, members = by_item.setdefault(item.item, (set(), []))
        wanted |= named
        members.append(n)
    outside: set[int] = set()
    for wanted, members in by_item.values():
        if wanted:
            outside |= wanted - {row[ID] for n in members for row in rows[n]}
    if not outside:
        return {}
    found = await driver.fetch(READ_REFERENCES, sorted(outside), run.starts_on, run.id)
    return {
        row["id"]: _Found(
            Reference(
                kind=row["kind"],
                store=row["store"],
                qty=row["qty_base"],
                value=None if row["value"] is None else int(row["value"]),
                returned=int(row["returned"]),
            ),
            row["brand"] != run.brand and run.starts_on <= row["posting_date"] <= run.ends_on,
        )
        for row in found
    }


async def _sources(
    driver: Any, run: CostRun, rows: Sequence[list[Row]], crossing: Sequence[set[int]]
) -> dict[int, tuple[int, ...]]:
    """What each production without a value is made of."""
    owner = {
        row[ID]: n
        for n, of_node in enumerate(rows)
        for row in of_node
        if row[_KIND] == Kind.PRODUCE and row[_VALUE] is None and row[REVERSES] is None
    }
    if not owner:
        return {}
    found = await driver.fetch(READ_SOURCES, sorted(owner), run.starts_on, run.ends_on, run.id)
    sources = {row["made"]: tuple(row["used"]) for row in found}
    if run.brand is not None:
        for row in found:
            if row["made"] in owner and set(row["brands"]) != {run.brand}:
                crossing[owner[row["made"]]].add(row["made"])
    return sources


_KIND, _VALUE = 3, 7


def _node(run: CostRun, read: _Read, found: Mapping[int, _Found]) -> Node:
    references: dict[int, Reference] = {}
    crossing = set(read.crossing)
    if found:
        for row in read.rows:
            for named in (row[REF], row[REVERSES]):
                if named in found:
                    references[named] = found[named].reference
                    if run.brand is not None and found[named].crosses:
                        crossing.add(row[ID])
    if run.brand is not None:
        crossing |= _leaving(run, read)
    return Node(
        brand=read.item.brand,
        item=read.item.item,
        method=read.item.method,
        state=read.state,
        movements=read.rows,
        references=references,
        crossing=tuple(sorted(crossing)),
        out_of_scope=read.item.tied,
    )


def _leaving(run: CostRun, read: _Read) -> set[int]:
    brand_of = run.layout.brand_of
    return {
        row[ID]
        for row in read.rows
        if row[TO_STORE] is not None and brand_of[row[TO_STORE]] != read.item.brand
    }
