"""What the triggers on movements read, where statistics say that the tables are empty."""

import asyncpg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.costing_books import Books, open_books
from tests.factories import fetch
from tests.services import Database

RECEIPTS = """
    INSERT INTO books.stock_movements (id, company, brand, item, store, kind, doc_id, doc_line,
           posting_date, qty_base, value)
    SELECT 1000000 + n, 'ACME', 'RED', 'A', 'R1', 'receipt', 'T', 1, '2026-01-05', 9, 90
      FROM generate_series(1, 3000) AS n"""
RETURNS = """
    INSERT INTO books.stock_movements (company, brand, item, store, kind, doc_id, doc_line,
           posting_date, qty_base, ref_movement_id)
    SELECT 'ACME', 'RED', 'A', 'R1', 'purchase_return', 'T', 1, '2026-01-05', 1, 1000000 + n
      FROM generate_series(1, 300) AS n"""
REVERSALS = """
    INSERT INTO books.stock_movements (company, brand, item, store, kind, doc_id, doc_line,
           posting_date, qty_base, value, reverses_movement_id)
    SELECT 'ACME', 'RED', 'A', 'R1', 'receipt', 'T', 1, '2026-01-05', 9, 90, 1001000 + n
      FROM generate_series(1, 300) AS n"""
# Of this transaction alone, so far.
READ = """
    SELECT coalesce(sum(seq_tup_read), 0) + coalesce(sum(idx_tup_fetch), 0)
      FROM pg_stat_xact_user_tables WHERE schemaname = 'books' AND relname = $1"""


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """Company ACME with items and two open periods."""
    assert company == "ACME"
    return await open_books(engine, read_engine)


@pytest.mark.parametrize("statement", [RETURNS, REVERSALS])
@pytest.mark.usefixtures("books")
async def test_a_load_that_is_analyzed_half_way_still_looks_up_by_id(
    database: Database, statement: str
) -> None:
    """All that is loaded is uncommitted, so the statistics of it are of an empty table."""
    loader = await asyncpg.connect(database.app_url)
    owner = await asyncpg.connect(database.owner_url)
    transaction = loader.transaction()
    await transaction.start()
    await loader.execute(RECEIPTS)
    await owner.execute("ANALYZE books.stock_movements")
    before = await loader.fetchval(READ, "stock_movements")
    await loader.execute(statement)
    read = await loader.fetchval(READ, "stock_movements") - before
    await transaction.rollback()
    await loader.close()
    await owner.close()
    assert 300 <= read <= 1_200, "one movement a reference, by two indexes at most"


async def test_whether_a_period_is_costed_is_not_read_from_all_results(
    books: Books, database: Database
) -> None:
    """A year of results, none of them of this period: they are not walked through."""
    owner = await asyncpg.connect(database.owner_url)
    await books.move("receipt", 1, value=5)
    run = (await books.cost())["run_id"]
    await owner.execute(
        """INSERT INTO books.active_results (run_id, company, brand, period, item, failed)
           SELECT $1, 'ACME', 'RED', '2025-' || lpad(m::text, 2, '0'), 'I' || n, false
             FROM generate_series(1, 12) AS m, generate_series(1, 500) AS n""",
        run,
    )
    await owner.execute("ANALYZE books.active_results")
    async with owner.transaction():
        await owner.execute(
            """INSERT INTO books.stock_movements (company, brand, item, store, kind, doc_id,
                      doc_line, posting_date, qty_base, value)
               VALUES ('ACME', 'RED', 'A', 'R1', 'receipt', 'T', 1, '2026-02-05', 1, 5)"""
        )
        assert await owner.fetchval(READ, "active_results") <= 10
    await owner.close()
    assert await fetch(books.app, "SELECT item FROM books.late_movements") == []
