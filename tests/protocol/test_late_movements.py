"""Movements that come after their period was costed make its items late, whoever writes them."""

import asyncio
from datetime import date
from typing import Any

import asyncpg
import pytest
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.costing_books import FEBRUARY, Books, open_books
from tests.factories import eventually, execute, fetch, scalar
from tests.services import Database

LATE = "SELECT period, brand, item FROM books.late_movements ORDER BY 1, 2, 3"
MANY = """
    INSERT INTO books.stock_movements (company, brand, item, store, kind, doc_id, doc_line,
           posting_date, qty_base, value)
    SELECT 'ACME', 'RED', 'A', 'R1', 'receipt', 'T', 1, '2026-01-06', 1, 5
      FROM generate_series(1, 500)"""


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """Company ACME with items and two open periods, January's item A of brand RED costed."""
    assert company == "ACME"
    books = await open_books(engine, read_engine)
    await books.move("receipt", 4, value=40)
    await books.cost()
    return books


async def _late(books: Books) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in await fetch(books.app, LATE)]


async def test_nothing_is_late_before_a_result_speaks(books: Books) -> None:
    """What the first run has read is not late, nor what enters a period without results."""
    await books.move("receipt", 4, value=40, day=date(2026, 2, 3))
    await books.move("receipt", 4, value=40, store="B1")
    assert await _late(books) == []


async def test_a_movement_into_a_costed_period_makes_its_item_late_once(books: Books) -> None:
    """An item that the run has never seen is late as well; a hundred sales add no second row."""
    await books.move("issue", 1)
    await books.move("issue", 1)
    await execute(books.app, MANY)
    await books.move("receipt", 1, item="C", value=5)
    assert await _late(books) == [("2026-01", "RED", "A"), ("2026-01", "RED", "C")]


async def test_a_statement_over_two_periods_is_late_in_the_costed_one_only(books: Books) -> None:
    await execute(
        books.app,
        """INSERT INTO books.stock_movements (company, brand, item, store, kind, doc_id, doc_line,
                  posting_date, qty_base, value)
           VALUES ('ACME', 'RED', 'B', 'R1', 'receipt', 'T', 1, '2026-02-01', 1, 5),
                  ('ACME', 'RED', 'D', 'R2', 'receipt', 'T', 1, '2026-01-31', 1, 5)""",
    )
    assert await _late(books) == [("2026-01", "RED", "D")]


async def test_goods_that_cross_to_another_brand_are_late_where_they_arrive(books: Books) -> None:
    await books.move("receipt", 4, item="B", store="B1", value=40)
    await books.move("transfer", 1, item="B", store="B1", to_store="R1")
    assert await _late(books) == [("2026-01", "RED", "B")]


async def test_what_is_rolled_back_was_never_late(books: Books, database: Database) -> None:
    connection = await asyncpg.connect(database.app_url)
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(MANY)
    assert await connection.fetchval("SELECT count(*) FROM books.late_movements") == 1
    await transaction.rollback()
    await connection.close()
    assert await _late(books) == []


async def test_two_writers_at_once_wait_for_neither(books: Books, database: Database) -> None:
    """A row of one that is not committed yet keeps no other from writing its own."""
    first = await asyncpg.connect(database.app_url)
    transaction = first.transaction()
    await transaction.start()
    await first.execute(MANY)
    await books.move("issue", 1)
    await transaction.commit()
    await first.close()
    assert await _late(books) == [("2026-01", "RED", "A")] * 2


async def test_a_writer_behind_an_activation_sees_what_it_made_active(
    books: Books, database: Database
) -> None:
    """The trigger looks after the gate, in statements of its own: the old answer would miss it."""
    activation = await asyncpg.connect(database.owner_url)
    transaction = activation.transaction()
    await transaction.start()
    gate = "SELECT pg_advisory_xact_lock(books.period_gate_key('ACME', '2026-02'))"
    await activation.execute(gate)
    waiting = asyncio.create_task(books.move("receipt", 1, value=5, day=date(2026, 2, 3)))
    blocked = """SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""
    await eventually(lambda: scalar(books.app, blocked))
    await activation.execute(
        """INSERT INTO books.active_results (run_id, company, brand, period, item, failed)
           SELECT run_id, company, brand, '2026-02', item, failed FROM books.active_results"""
    )
    await transaction.commit()
    await activation.close()
    await waiting
    assert await _late(books) == [(FEBRUARY, "RED", "A")]


async def test_only_the_trigger_adds_a_row(books: Books) -> None:
    """App may take rows away, as an activation does, and add none."""
    await books.move("issue", 1)
    with pytest.raises(DBAPIError, match="permission denied"):
        await execute(
            books.app,
            "INSERT INTO books.late_movements VALUES ('ACME', '2026-01', 'RED', 'A', '3')",
        )
    await execute(books.app, "DELETE FROM books.late_movements")
    assert await _late(books) == []
