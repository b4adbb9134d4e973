"""The costing's oracle: the same movements through the same formula, in one thread, at once."""

from typing import Any

import asyncpg

from worker.costing.engine import cost_items
from worker.costing.movements import ItemStock, Movement, Reference, in_order
from worker.costing.results import ItemCosts, Policy, ResiduePolicy

READ_MOVEMENTS = """
    SELECT id, posting_date, posting_seq, kind, store, to_store, qty_base, value, ref_movement_id,
           cost_basis, reverses_movement_id, brand, to_brand, item
      FROM books.stock_movements m JOIN books.periods p USING (company)
     WHERE company = $1 AND period = $2 AND posting_date BETWEEN starts_on AND ends_on
     ORDER BY id"""
READ_STORES = "SELECT code, brand FROM books.stores WHERE company = $1"
READ_LINES = """
    SELECT c.brand, c.item, c.movement_id, c.value, c.variance, c.qty_diff
      FROM books.active_results a JOIN books.movement_costs c
        ON c.run_id = a.run_id AND c.brand = a.brand AND c.item = a.item
     WHERE a.company = $1 AND a.period = $2 AND NOT a.failed"""
READ_BALANCES = """
    SELECT b.brand, b.item, b.store, b.q_closing, b.v_closing
      FROM books.active_results a JOIN books.store_balances b
        ON b.run_id = a.run_id AND b.brand = a.brand AND b.item = a.item
     WHERE a.company = $1 AND a.period = $2 AND NOT a.failed"""
COLUMNS = 11
POLICY = Policy(residue=ResiduePolicy.CUMULATIVE)

Named = dict[str, Any]


async def read_costed(connection: asyncpg.Connection, company: str, period: str) -> Named:
    """What readers see: each movement's cost, each store's closing stock."""
    found: Named = {}
    for row in await connection.fetch(READ_LINES, company, period):
        brand, item, movement, *values = row
        # A list: a movement that is costed twice must not hide behind its twin.
        found.setdefault(f"{brand}/{item} movement {movement}", []).append(values)
    for row in await connection.fetch(READ_BALANCES, company, period):
        brand, item, store, *values = row
        found.setdefault(f"{brand}/{item} store {store}", []).append(values)
    return found


async def compute_oracle(connection: asyncpg.Connection, company: str, period: str) -> Named:
    """The same names from the movements alone; one pool a brand, as the sample company has it."""
    rows = await connection.fetch(READ_MOVEMENTS, company, period)
    stores = await connection.fetch(READ_STORES, company)
    pool_of = {row["code"]: f"{row['brand']}/{row['brand']}" for row in stores}
    found: Named = {}
    for (brand, item), stock in _stocks(rows).items():
        costs = cost_items([stock], pool_of, POLICY)[item]
        if not isinstance(costs, ItemCosts):
            continue
        for line in costs.lines:
            name = f"{brand}/{item} movement {line.movement_id}"
            found.setdefault(name, []).append([line.value, line.variance, line.qty_diff])
        for store in costs.stores:
            closing = [store.closing.qty, store.closing.value]
            found.setdefault(f"{brand}/{item} store {store.store}", []).append(closing)
    return found


def _stocks(rows: list[Any]) -> dict[tuple[str, str], ItemStock]:
    """One stock a (brand, item): its own movements, and what arrives from other brands."""
    movements: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
    for row in rows:
        for brand in {row["brand"], row["to_brand"]} - {None}:
            movements.setdefault((brand, row["item"]), []).append(tuple(row)[:COLUMNS])
    by_id = {row["id"]: row for row in rows}
    return {
        (brand, item): ItemStock(
            item=item,
            movements=in_order(Movement(*row) for row in listed),
            references=_references(listed, by_id),
        )
        for (brand, item), listed in movements.items()
    }


def _references(listed: list[tuple[Any, ...]], by_id: dict[int, Any]) -> dict[int, Reference]:
    named = {row[column] for row in listed for column in (8, 10)} - {None}
    outside = named - {row[0] for row in listed}
    return {
        number: Reference(
            kind=by_id[number]["kind"],
            store=by_id[number]["store"],
            qty=by_id[number]["qty_base"],
            value=by_id[number]["value"],
            returned=0,
        )
        for number in outside & by_id.keys()
    }
