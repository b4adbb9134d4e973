"""Rows of a run by keyset pages, in the order (brand, item, …): its results, and its errors.

`after` is the key of the last row before the page; `brands` of what is wanted are those whose rows
may be seen (None: all of them).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.costs.flows import BESIDE, FLOWS

Key = tuple[str, str, str]
FIRST: Key = ("", "", "")
COLUMNS = ", ".join(
    [f"p.{side}_{name}" for name in FLOWS for side in ("q", "v")]
    + [f"p.v_{name}" for name in (*BESIDE, "variance")]
)
RESULT = f"""
    p.run_id, p.brand, p.item, p.pool, i.name, i.base_uom, i.qty_scale, {COLUMNS}, p.price_num,
    p.price_den, p.pushes, p.scc_size, p.dipped"""
# By the brands of the company, which are few: a pool that brands share has a row of none, and what
# speaks for it are the items of all of its brands.
STATE = """
      LEFT JOIN LATERAL (
           SELECT min(w.method) AS method, count(a.run_id) > 0 AS speaks,
                  coalesce(bool_or(a.stale), false) AS stale
             FROM books.brands b
             JOIN books.cost_run_items w
               ON w.run_id = p.run_id AND w.brand = b.code AND w.item = p.item
             LEFT JOIN books.active_results a
               ON a.company = b.company AND a.brand = b.code AND a.period = :period
              AND a.item = p.item AND a.run_id = p.run_id
            WHERE b.company = :company AND p.brand IN ('', b.code)) AS state ON true"""
WANTED = """
       AND (p.brand, p.item, p.pool) > (:brand_after, :item_after, :pool_after)
       AND (CAST(:brands AS text[]) IS NULL OR p.brand = ANY (CAST(:brands AS text[])))
       AND (CAST(:item AS text) IS NULL OR p.item = :item)
       AND (CAST(:items AS text[]) IS NULL OR p.item = ANY (CAST(:items AS text[])))
       AND (CAST(:pool AS text) IS NULL OR p.pool = :pool)
       AND (CAST(:store AS text) IS NULL OR EXISTS (
            SELECT FROM books.store_balances b
             WHERE b.run_id = p.run_id AND b.item = p.item AND b.store = :store
               AND b.pool = p.pool AND b.brand = (
                   SELECT s.brand FROM books.stores s
                    WHERE s.company = :company AND s.code = :store)))"""

RUN_RESULTS = text(f"""
    SELECT {RESULT}, state.method, state.speaks, state.stale
      FROM books.pool_results p
      JOIN books.items i ON i.company = :company AND i.code = p.item{STATE}
     WHERE p.run_id = CAST(:run_id AS bigint){WANTED}
     ORDER BY p.brand, p.item, p.pool LIMIT :most""")

# Brand by brand: the key of active_results begins with the brand. What brands share comes first.
ACTIVE_RESULTS = text(f"""
    SELECT found.*
      FROM (SELECT '' AS code WHERE :brand_after = ''
            UNION ALL
            SELECT code FROM books.brands WHERE company = :company AND code >= :brand_after) AS b
     CROSS JOIN LATERAL (
           SELECT {RESULT}, state.method, state.speaks, state.stale
             FROM (SELECT a.item, a.run_id FROM books.active_results a
                    WHERE a.company = :company AND a.brand = b.code AND a.period = :period
                      AND NOT a.failed AND (b.code, a.item) >= (:brand_after, :item_after)
                   UNION ALL
                   SELECT DISTINCT a.item, a.run_id FROM books.active_results a
                    WHERE b.code = '' AND a.company = :company AND a.period = :period
                      AND NOT a.failed AND a.item >= :item_after) AS a
             JOIN books.pool_results p
               ON p.run_id = a.run_id AND p.brand = b.code AND p.item = a.item
             JOIN books.items i ON i.company = :company AND i.code = p.item{STATE}
            WHERE true{WANTED}
            ORDER BY a.item, p.pool LIMIT :most) AS found
     ORDER BY found.brand, found.item, found.pool LIMIT :most""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which results: of an item or several, of a pool, of the pools that a store lies in."""

    company: str
    period: str
    brands: Sequence[str] | None = None
    item: str | None = None
    items: Sequence[str] | None = None
    pool: str | None = None
    store: str | None = None

    def binds(self, after: Key, limit: int) -> dict[str, Any]:
        """What the statements above are bound to."""
        return {
            "company": self.company,
            "period": self.period,
            "brands": None if self.brands is None else [*self.brands],
            "item": self.item,
            "items": None if self.items is None else [*self.items],
            "pool": self.pool,
            "store": self.store,
            "brand_after": after[0],
            "item_after": after[1],
            "pool_after": after[2],
            "most": limit,
        }


async def run_results(
    conn: AsyncConnection, run_id: int, wanted: Wanted, *, after: Key = FIRST, limit: int
) -> Sequence[RowMapping]:
    """A page of the run's results, one row an item and pool; `speaks`: no later run replaced it."""
    binds = wanted.binds(after, limit) | {"run_id": run_id}
    return (await conn.execute(RUN_RESULTS, binds)).mappings().all()


async def active_results(
    conn: AsyncConnection, wanted: Wanted, *, after: Key = FIRST, limit: int
) -> Sequence[RowMapping]:
    """A page of the results that are active in the period, whichever run found each."""
    return (await conn.execute(ACTIVE_RESULTS, wanted.binds(after, limit))).mappings().all()


COUNT_ACTIVE = text("""
    SELECT count(*) AS items, count(*) FILTER (WHERE a.failed) AS failed,
           count(*) FILTER (WHERE a.stale) AS stale,
           (SELECT count(DISTINCT (l.brand, l.item)) FROM books.late_movements l
             WHERE l.company = :company AND l.period = :period
               AND (CAST(:brands AS text[]) IS NULL
                    OR l.brand = ANY (CAST(:brands AS text[])))) AS late
      FROM books.active_results a
     WHERE a.company = :company AND a.period = :period
       AND (CAST(:brands AS text[]) IS NULL OR a.brand = ANY (CAST(:brands AS text[])))""")


async def count_active(conn: AsyncConnection, wanted: Wanted) -> RowMapping:
    """How many items have an active result in the period; failed, stale and late ones apart."""
    binds = wanted.binds(FIRST, 0)
    named = {name: binds[name] for name in ("company", "period", "brands")}
    return (await conn.execute(COUNT_ACTIVE, named)).mappings().one()


DIFFERENCES = text("""
    SELECT d.item, d.brand, d.account, d.before, d.after, i.name
      FROM books.cost_differences d JOIN books.items i ON i.company = :company AND i.code = d.item
     WHERE d.run_id = CAST(:run_id AS bigint)
       AND (d.item, d.brand, d.account) > (:item_after, :brand_after, :account_after)
       AND (CAST(:brands AS text[]) IS NULL OR d.brand = ANY (CAST(:brands AS text[])))
       AND (CAST(:item AS text) IS NULL OR d.item = :item)
       AND (CAST(:account AS text) IS NULL OR d.account = :account)
     ORDER BY d.item, d.brand, d.account LIMIT :most""")
BY_ACCOUNT = text("""
    SELECT d.account, sum(d.before) AS before, sum(d.after) AS after
      FROM books.cost_differences d
     WHERE d.run_id = CAST(:run_id AS bigint)
       AND (CAST(:brands AS text[]) IS NULL OR d.brand = ANY (CAST(:brands AS text[])))
     GROUP BY d.account ORDER BY d.account""")


async def run_differences(
    conn: AsyncConnection,
    run_id: int,
    wanted: Wanted,
    *,
    account: str | None = None,
    after: Key = FIRST,
    limit: int,
) -> Sequence[RowMapping]:
    """A page of what a preview would change, one row an item, brand and account."""
    binds = {
        "run_id": run_id,
        "company": wanted.company,
        "brands": None if wanted.brands is None else [*wanted.brands],
        "item": wanted.item,
        "account": account,
        "item_after": after[0],
        "brand_after": after[1],
        "account_after": after[2],
        "most": limit,
    }
    return (await conn.execute(DIFFERENCES, binds)).mappings().all()


async def differences_by_account(
    conn: AsyncConnection, run_id: int, brands: Sequence[str] | None
) -> Sequence[RowMapping]:
    """The same, added up by account."""
    binds = {"run_id": run_id, "brands": None if brands is None else [*brands]}
    return (await conn.execute(BY_ACCOUNT, binds)).mappings().all()


RUN_ERRORS = text("""
    SELECT e.brand, e.item, e.number, e.pool, e.code, e.detail, e.movement_ids, i.name
      FROM books.item_errors e JOIN books.items i ON i.company = :company AND i.code = e.item
     WHERE e.run_id = CAST(:run_id AS bigint)
       AND (e.brand, e.item, e.number) > (:brand_after, :item_after, CAST(:number_after AS integer))
       AND (CAST(:brands AS text[]) IS NULL OR e.brand = ANY (CAST(:brands AS text[])))
       AND (CAST(:item AS text) IS NULL OR e.item = :item)
       AND (CAST(:code AS text) IS NULL OR e.code = :code)
     ORDER BY e.brand, e.item, e.number LIMIT :most""")
NAMED_MOVEMENTS = text("""
    SELECT m.id, m.posting_date, m.posting_seq, m.kind, m.brand, m.store, m.to_store, m.doc_id,
           m.doc_line, m.qty_base, m.value, m.lot_id, m.ref_movement_id, m.reverses_movement_id,
           i.qty_scale
      FROM books.stock_movements m
      JOIN books.items i ON i.company = m.company AND i.code = m.item
     WHERE m.id = ANY (CAST(:ids AS bigint[])) AND m.company = :company
       AND (CAST(:brands AS text[]) IS NULL OR m.brand = ANY (CAST(:brands AS text[]))
            OR m.to_brand = ANY (CAST(:brands AS text[])))""")


async def run_errors(
    conn: AsyncConnection,
    run_id: int,
    wanted: Wanted,
    *,
    code: str | None = None,
    after: tuple[str, str, int] = ("", "", 0),
    limit: int,
) -> Sequence[RowMapping]:
    """A page of why items could not be costed."""
    binds = {
        "run_id": run_id,
        "company": wanted.company,
        "brands": None if wanted.brands is None else [*wanted.brands],
        "item": wanted.item,
        "code": code,
        "brand_after": after[0],
        "item_after": after[1],
        "number_after": after[2],
        "most": limit,
    }
    return (await conn.execute(RUN_ERRORS, binds)).mappings().all()


async def named_movements(
    conn: AsyncConnection, wanted: Wanted, ids: Sequence[int]
) -> dict[int, RowMapping]:
    """Those of the movements that may be seen, by id."""
    brands = None if wanted.brands is None else [*wanted.brands]
    binds = {"ids": [*ids], "company": wanted.company, "brands": brands}
    rows = (await conn.execute(NAMED_MOVEMENTS, binds)).mappings().all()
    return {row["id"]: row for row in rows}
