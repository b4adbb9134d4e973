"""Load the sample company: `python -m dev.sample_company --movements 200000 --seed 7`.

Four brands, 50 shops, 2,000 articles and one month of movements, the same for the same seed. One
transaction: after a crash nothing of it is there. Memory does not grow with the number of rows.
"""

import argparse
import asyncio
import calendar
import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import islice
from time import monotonic

import asyncpg
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from dev.sample_catalogue import BRANDS, COMPANY_NAME, ITEMS, Item, catalogue, shops
from dev.sample_movements import COLUMNS, HABITS, Habits, Month
from shared.database import driver_connection, open_engine, transaction

BATCH = 50_000
DEFAULT_MOVEMENTS = 200_000
DEFAULT_PERIOD = "2026-01"
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What to make: the same sample is the same rows."""

    seed: int
    movements: int
    company: str
    period: str
    items: int = ITEMS
    habits: Habits = HABITS


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSummary:
    """What the database holds of the company now; `existed` when nothing had to be loaded."""

    company: str
    period: str
    brands: int
    stores: int
    items: int
    movements: int
    by_kind: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    existed: bool = False


async def load_sample(
    database: str | AsyncEngine,
    *,
    seed: int = 7,
    movements: int = DEFAULT_MOVEMENTS,
    company: str = "SAMPLE",
    period: str = DEFAULT_PERIOD,
    items: int = ITEMS,
    habits: Habits = HABITS,
    progress: Progress | None = None,
) -> SampleSummary:
    """Load the company as role app, unless a company of that code is there already.

    `progress` is called with 0 and the whole once there is something to load, then after each
    batch. The database is a URL or an open engine. The same seed, size and period give the same
    rows; ids are consecutive where nobody else writes movements meanwhile.
    """
    sample = Sample(
        seed=seed, movements=movements, company=company, period=period, items=items, habits=habits
    )
    if isinstance(database, AsyncEngine):
        return await _load(database, sample, progress)
    engine = open_engine(database, pool_size=1, application_name="chot sample")
    try:
        return await _load(engine, sample, progress)
    finally:
        await engine.dispose()


async def _load(engine: AsyncEngine, sample: Sample, progress: Progress | None) -> SampleSummary:
    began = monotonic()
    dice = random.Random(sample.seed)
    items = catalogue(dice, sample.items)
    async with transaction(engine, lock_timeout=10) as conn:
        if await _exists(conn, sample.company):
            return await _found(conn, sample.company, sample.period)
        driver = await driver_connection(conn)
        await _write_company(driver, sample, items)
        kinds = await _write_movements(driver, sample, dice, items, progress)
    return SampleSummary(
        company=sample.company,
        period=sample.period,
        brands=len(BRANDS),
        stores=len(shops()),
        items=len(items),
        movements=kinds.total(),
        by_kind=dict(sorted(kinds.items())),
        seconds=round(monotonic() - began, 2),
    )


async def _exists(conn: AsyncConnection, company: str) -> bool:
    """Two loaders take turns: the second finds the first one's company."""
    await conn.execute(text("SELECT pg_advisory_xact_lock(hashtextextended('books.sample', 0))"))
    found = await conn.execute(
        text("SELECT 1 FROM books.companies WHERE code = :company"), {"company": company}
    )
    return found.one_or_none() is not None


COUNT_COMPANY = text("""
    SELECT (SELECT count(*) FROM books.brands WHERE company = :company) AS brands,
           (SELECT count(*) FROM books.stores WHERE company = :company) AS stores,
           (SELECT count(*) FROM books.items WHERE company = :company) AS items""")

COUNT_MOVEMENTS = text("""
    SELECT kind, count(*) AS movements FROM books.stock_movements
     WHERE company = :company GROUP BY kind ORDER BY kind""")


async def _found(conn: AsyncConnection, company: str, period: str) -> SampleSummary:
    counts = (await conn.execute(COUNT_COMPANY, {"company": company})).one()
    kinds = (await conn.execute(COUNT_MOVEMENTS, {"company": company})).all()
    return SampleSummary(
        company=company,
        period=period,
        brands=counts.brands,
        stores=counts.stores,
        items=counts.items,
        movements=sum(row.movements for row in kinds),
        by_kind={row.kind: row.movements for row in kinds},
        existed=True,
    )


async def _write_company(driver: asyncpg.Connection, sample: Sample, items: list[Item]) -> None:
    company = sample.company
    await driver.execute(
        "INSERT INTO books.companies (code, name) VALUES ($1, $2)", company, COMPANY_NAME
    )
    brands = [(company, code, name) for code, name in BRANDS.items()]
    stores = [(company, store.code, store.brand, store.name) for store in shops()]
    first, last = _days(sample.period)
    await _copy(driver, "brands", ("company", "code", "name"), brands)
    await _copy(driver, "stores", ("company", "code", "brand", "name"), stores)
    await _copy(
        driver,
        "items",
        ("company", "code", "name", "base_uom", "qty_scale"),
        [(company, item.code, item.name, item.base_uom, item.qty_scale) for item in items],
    )
    await _copy(
        driver,
        "periods",
        ("company", "period", "starts_on", "ends_on"),
        [(company, sample.period, first, last)],
    )


async def _write_movements(
    driver: asyncpg.Connection,
    sample: Sample,
    dice: random.Random,
    items: list[Item],
    progress: Progress | None,
) -> "Counter[str]":
    ids: list[int] = []
    movements = sample.movements
    first, last = _days(sample.period)
    month = Month(
        dice,
        items,
        shops(),
        company=sample.company,
        first_day=first,
        last_day=last,
        movements=movements,
        next_id=ids.pop,
        habits=sample.habits,
    )
    rows = month.rows()
    kinds: Counter[str] = Counter()
    kind = COLUMNS.index("kind")
    if progress is not None:
        progress(0, movements)
    while kinds.total() < movements:
        wanted = min(BATCH, movements - kinds.total())
        ids += reversed(await _next_ids(driver, wanted))
        batch = list(islice(rows, wanted))
        assert len(batch) == wanted, "the month has the movements that were asked for"
        await _copy(driver, "stock_movements", COLUMNS, batch)
        kinds.update(str(row[kind]) for row in batch)
        if progress is not None:
            progress(kinds.total(), movements)
    return kinds


async def _next_ids(driver: asyncpg.Connection, count: int) -> list[int]:
    rows = await driver.fetch(
        "SELECT nextval('books.stock_movements_id_seq') AS id FROM generate_series(1, $1)", count
    )
    return [row["id"] for row in rows]


async def _copy(
    driver: asyncpg.Connection,
    table: str,
    columns: tuple[str, ...],
    rows: Sequence[tuple[object, ...]],
) -> None:
    await driver.copy_records_to_table(table, schema_name="books", columns=columns, records=rows)


def _days(period: str) -> tuple[date, date]:
    year, month = map(int, period.split("-"))
    return date(year, month, 1), date(year, month, calendar.monthrange(year, month)[1])


def _show(done: int, total: int) -> None:
    sys.stderr.write(f"\rmovements {done:,} of {total:,} ({100 * done // total} %)")
    sys.stderr.flush()


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m dev.sample_company", description=__doc__)
    parser.add_argument("--movements", type=int, default=DEFAULT_MOVEMENTS)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--company", default="SAMPLE")
    parser.add_argument("--period", default=DEFAULT_PERIOD, help="YYYY-MM")
    parser.add_argument("--database-url", default=os.environ.get("CHOT_DATABASE_URL"))
    options = parser.parse_args()
    if not options.database_url:
        parser.error("--database-url is not given and CHOT_DATABASE_URL is not set")
    if options.movements < 1:
        parser.error("--movements must be at least 1")
    loading = load_sample(
        options.database_url,
        seed=options.seed,
        movements=options.movements,
        company=options.company,
        period=options.period,
        progress=_show,
    )
    summary = asyncio.run(loading)
    what = "is here already" if summary.existed else f"loaded in {summary.seconds} s"
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in summary.by_kind.items())
    print(
        f"\ncompany {summary.company} {what}: {summary.brands} brands, {summary.stores} stores, "
        f"{summary.items:,} items, {summary.movements:,} movements in {summary.period} ({kinds})"
    )


if __name__ == "__main__":
    main()
