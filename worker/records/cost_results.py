"""Write what a chunk cost, take back what changed, and add up a finished run."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import asyncpg
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.database import driver_connection
from worker.costing.chunk import ChunkResults, Mark
from worker.records.cost_runs import CostRun

KEY = ("run_id", "brand", "item")


def _flows(*names: str) -> tuple[str, ...]:
    return tuple(f"{side}_{name}" for name in names for side in ("q", "v"))


LINES = (*KEY, "movement_id", "value", "variance", "qty_diff", "true_up")
POOLS = (
    *KEY,
    "pool",
    *_flows("opening", "receipt", "gain", "sales_return"),
    *_flows("issue", "usage", "purchase_return", "closing"),
    *_flows("transfer_in", "transfer_out"),
    "v_rounding",
    "v_variance",
    "v_true_up",
    "price_num",
    "price_den",
    "pushes",
    "dipped",
    "scc_size",
    *_flows("owed"),
)
STORES = (
    *KEY,
    "store",
    "pool",
    *_flows("opening", "in", "out", "transfer_in", "transfer_out", "closing"),
    "v_averaging",
)
LAYERS = (
    *KEY,
    "pool",
    "number",
    "lot",
    "qty",
    "value",
    "origin_movement_id",
    "received_on",
)
ERRORS = (*KEY, "number", "pool", "code", "detail", "movement_ids")

MARK_DONE = text("""
    UPDATE books.cost_run_items w
       SET done = true, failed = c.failed, out_of_scope = c.out_of_scope, tied = c.tied,
           refers = c.refers, digest = c.digest, opening_digest = c.opening_digest,
           closing_digest = c.closing_digest
      FROM unnest(CAST(:brand AS text[]), CAST(:item AS text[]), CAST(:failed AS boolean[]),
                  CAST(:out_of_scope AS boolean[]), CAST(:tied AS boolean[]),
                  CAST(:refers AS boolean[]), CAST(:digest AS bytea[]),
                  CAST(:opening_digest AS bytea[]), CAST(:closing_digest AS bytea[]))
           AS c (brand, item, failed, out_of_scope, tied, refers, digest, opening_digest,
                 closing_digest)
     WHERE w.run_id = :run_id AND w.brand = c.brand AND w.item = c.item AND NOT w.done""")


async def write_results(conn: AsyncConnection, run: CostRun, results: ChunkResults) -> None:
    """Store the rows of a chunk and mark its items done, in the caller's transaction.

    All or nothing of a chunk is there, so a chunk that is done again meets no row of its own.
    """
    driver = await driver_connection(conn)
    for table, columns, rows in (
        ("movement_costs", LINES, results.lines),
        ("store_balances", STORES, results.stores),
        ("pool_results", POOLS, results.pools),
        ("cost_layers", LAYERS, results.layers),
        ("item_errors", ERRORS, results.errors),
    ):
        await _copy(driver, run, table, columns, rows)
    columns_of_marks = zip(*results.marks, strict=True)
    binds = {n: list(column) for n, column in zip(Mark._fields, columns_of_marks, strict=True)}
    marked = await conn.execute(MARK_DONE, {"run_id": run.id, **binds})
    assert marked.rowcount == len(results.marks), "each item of a chunk is done once"


async def _copy(
    driver: asyncpg.Connection,
    run: CostRun,
    table: str,
    columns: Sequence[str],
    rows: Sequence[tuple[Any, ...]],
) -> None:
    if rows:
        await driver.copy_records_to_table(
            table,
            schema_name="books",
            columns=columns,
            records=((run.id, *row) for row in rows),
        )


# Brands are named as well, or the keys of the tables would not be used. None: a shared pool's.
TAKE_BACK = """
    DELETE FROM books.{table} t
     WHERE t.run_id = :run_id AND t.item = ANY (CAST(:items AS text[]))
       AND t.brand = ANY (ARRAY(SELECT code FROM books.brands WHERE company = :company
                                UNION ALL SELECT ''))"""
RESULT_TABLES = (
    "movement_costs",
    "store_balances",
    "pool_results",
    "cost_layers",
    "item_errors",
    "cost_run_items",
)


async def take_back(conn: AsyncConnection, run: CostRun, items: set[str]) -> None:
    """Remove these items of all brands from the building run, results and work list alike."""
    binds = {"run_id": run.id, "company": run.company, "items": sorted(items)}
    for table in RESULT_TABLES:
        await conn.execute(text(TAKE_BACK.format(table=table)), binds)


# The checksum covers every item's digest in the order of brand and item: it depends neither on
# chunks, nor on who computed them, nor on where the run was resumed.
SEAL_RUN = text("""
    UPDATE books.cost_runs r
       SET items_total = w.items, items_failed = w.failed, movements_total = w.movements,
           checksum = w.checksum,
           v_opening = p.v_opening, v_receipt = p.v_receipt, v_gain = p.v_gain,
           v_sales_return = p.v_sales_return, v_issue = p.v_issue, v_usage = p.v_usage,
           v_purchase_return = p.v_purchase_return, v_rounding = p.v_rounding,
           v_true_up = p.v_true_up,
           v_variance = p.v_variance, v_closing = p.v_closing
      FROM (SELECT count(*) AS items, count(*) FILTER (WHERE failed) AS failed,
                   count(*) FILTER (WHERE NOT done) AS undone,
                   coalesce(sum(movements), 0) AS movements,
                   sha256(coalesce(string_agg(digest, CAST('' AS bytea) ORDER BY brand, item),
                                   CAST('' AS bytea))) AS checksum
              FROM books.cost_run_items WHERE run_id = :run_id) w,
           (SELECT coalesce(sum(v_opening), 0) AS v_opening,
                   coalesce(sum(v_receipt), 0) AS v_receipt,
                   coalesce(sum(v_gain), 0) AS v_gain,
                   coalesce(sum(v_sales_return), 0) AS v_sales_return,
                   coalesce(sum(v_issue), 0) AS v_issue,
                   coalesce(sum(v_usage), 0) AS v_usage,
                   coalesce(sum(v_purchase_return), 0) AS v_purchase_return,
                   coalesce(sum(v_rounding), 0) AS v_rounding,
                   coalesce(sum(v_true_up), 0) AS v_true_up,
                   coalesce(sum(v_variance), 0) AS v_variance,
                   coalesce(sum(v_closing), 0) AS v_closing
              FROM books.pool_results WHERE run_id = :run_id) p
     WHERE r.id = :run_id AND r.status = 'building'
    RETURNING w.undone, r.items_total, r.items_failed, r.movements_total, r.rounds, r.checksum,
              r.v_opening, r.v_receipt, r.v_gain, r.v_sales_return, r.v_issue, r.v_usage,
              r.v_purchase_return, r.v_rounding, r.v_true_up, r.v_variance, r.v_closing,
              (SELECT minor_digits FROM books.companies WHERE code = r.company) AS minor_digits,
              (SELECT count(*) FROM books.pool_results WHERE run_id = r.id AND dipped) AS dipped,
              (SELECT count(*) FROM books.pool_results
                WHERE run_id = r.id AND q_closing < 0) AS negative,
              EXISTS (SELECT FROM books.active_results a
                       WHERE a.company = r.company AND a.period = r.previous_period AND a.stale
                         AND (r.brand IS NULL OR a.brand = r.brand)) AS previous_stale""")

FIRST_ERRORS = text("""
    SELECT brand, item, pool, code, detail, movement_ids FROM books.item_errors
     WHERE run_id = :run_id ORDER BY brand, item, number LIMIT :most""")
MOST_ERRORS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """A finished run added up; all values in minor units of the company."""

    totals: Any
    errors: list[dict[str, Any]]


async def seal_run(conn: AsyncConnection, run: CostRun) -> Sealed:
    """Store totals and checksum of the run, all of whose items are done, and return them.

    A run whose values do not add up is refused by a CHECK, whatever computed it.
    """
    totals = (await conn.execute(SEAL_RUN, {"run_id": run.id})).one()
    assert totals.undone == 0, "a run is added up when all of its items are done"
    binds = {"run_id": run.id, "most": MOST_ERRORS}
    errors = (await conn.execute(FIRST_ERRORS, binds)).mappings().all()
    return Sealed(totals=totals, errors=[dict(error) for error in errors])


def shown(value: Decimal, minor_digits: int) -> str:
    """A value in minor units as a decimal string of the currency."""
    return f"{Decimal(int(value)).scaleb(-minor_digits):f}"
