"""The period gate and the movements' own rules, as an ERP writing with role app meets them."""

import asyncio
from datetime import date

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import sqlstate_of
from tests.costing_books import Books, open_books
from tests.factories import eventually, execute, fetch, scalar
from tests.services import Database


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """Company ACME with items and two open periods."""
    assert company == "ACME"
    return await open_books(engine, read_engine)


async def _refused(books: Books, kind: str, qty: int, **more: object) -> str | None:
    with pytest.raises(DBAPIError) as refused:
        await books.move(kind, qty, **more)  # type: ignore[arg-type]  # whatever a test tries
    return sqlstate_of(refused.value)


async def test_a_movement_enters_an_open_period_and_no_other(books: Books) -> None:
    await books.move("receipt", 1, value=5)
    assert await _refused(books, "receipt", 1, value=5, day=date(2027, 1, 1)) == "CH102"
    await execute(books.app, "UPDATE books.periods SET status = 'closing' WHERE period = '2026-01'")
    assert await _refused(books, "receipt", 1, value=5) == "CH101"
    await books.move("receipt", 1, value=5, day=date(2026, 2, 1))


async def test_a_close_waits_for_a_writer_that_passed_the_gate(
    books: Books, database: Database
) -> None:
    """Who takes the gate exclusively sees every movement that passed it before."""
    closer = await asyncpg.connect(database.app_url)
    async with books.app.begin() as writer:
        await writer.execute(
            text("""
            INSERT INTO books.stock_movements (company, brand, item, store, kind, doc_id, doc_line,
                   posting_date, qty_base, value)
            VALUES ('ACME', 'RED', 'A', 'R1', 'receipt', 'T', 1, '2026-01-05', 1, 5)""")
        )
        gate = closer.execute(
            "SELECT pg_advisory_xact_lock(books.period_gate_key('ACME', '2026-01'))"
        )
        waiting = asyncio.create_task(gate)
        await _blocked(books)
        assert not waiting.done()
    await waiting
    assert await closer.fetchval("SELECT count(*) FROM books.stock_movements") == 1
    await closer.close()


async def _blocked(books: Books) -> None:
    query = """SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""
    await eventually(lambda: scalar(books.app, query))


async def test_a_writer_behind_a_closing_gate_meets_the_closed_period(books: Books) -> None:
    """The row is read in a new statement after the gate: the old answer would let it through."""
    async with books.app.begin() as closer:
        await closer.execute(
            text("SELECT pg_advisory_xact_lock(books.period_gate_key('ACME', '2026-01'))")
        )
        waiting = asyncio.create_task(_refused(books, "receipt", 1, value=5))
        await _blocked(books)
        await closer.execute(
            text("UPDATE books.periods SET status = 'closed' WHERE period = '2026-01'")
        )
    assert await waiting == "CH101"


@pytest.mark.usefixtures("books")
async def test_a_transaction_above_read_committed_is_refused(database: Database) -> None:
    connection = await asyncpg.connect(database.app_url)
    with pytest.raises(asyncpg.PostgresError) as refused:
        async with connection.transaction(isolation="repeatable_read"):
            await connection.execute("""
                INSERT INTO books.stock_movements (company, brand, item, store, kind, doc_id,
                       doc_line, posting_date, qty_base, value)
                VALUES ('ACME', 'RED', 'A', 'R1', 'receipt', 'T', 1, '2026-01-05', 1, 5)""")
    assert refused.value.sqlstate == "CH104"
    await connection.close()


async def test_what_a_movement_names_must_exist_and_fit(books: Books) -> None:
    receipt = await books.move("receipt", 4, value=5)
    assert await _refused(books, "receipt", 1, item="Z", value=5) == "CH103"
    assert await _refused(books, "purchase_return", 1, item="B", ref=receipt) == "CH103"
    assert await _refused(books, "purchase_return", 1, ref=receipt + 99) == "CH103"
    assert await _refused(books, "receipt", 3, value=5, reverses=receipt) == "CH103"
    reversal = await books.move("receipt", 4, value=5, reverses=receipt)
    assert await _refused(books, "receipt", 4, value=5, reverses=receipt) == "23505"
    assert await _refused(books, "receipt", 4, value=5, reverses=reversal) == "CH103"


async def test_a_store_of_another_brand_is_refused(books: Books) -> None:
    with pytest.raises(DBAPIError, match="STORE_UNKNOWN"):
        await execute(
            books.app,
            """INSERT INTO books.stock_movements (company, brand, item, store, kind, doc_id,
                      doc_line, posting_date, qty_base, value)
               VALUES ('ACME', 'BLUE', 'A', 'R1', 'receipt', 'T', 1, '2026-01-05', 1, 5)""",
        )


@pytest.mark.parametrize(
    ("kind", "qty", "more"),
    [
        ("gift", 1, {}),
        ("issue", 0, {}),
        ("issue", 1, {"value": 5}),
        ("receipt", 1, {"value": -5}),
        ("transfer", 1, {}),
        ("transfer", 1, {"to_store": "R1"}),
        ("issue", 1, {"to_store": "R2"}),
        ("landed_cost", 1, {"value": 5}),
        ("issue", 1, {"ref": 1}),
        ("issue", 1, {"basis": "average"}),
    ],
)
async def test_a_movement_that_makes_no_sense_breaks_a_check(
    books: Books, kind: str, qty: int, more: dict[str, object]
) -> None:
    assert await _refused(books, kind, qty, **more) == "23514"


async def test_movements_are_facts_that_app_cannot_change(books: Books) -> None:
    await books.move("receipt", 4, value=5)
    for statement in (
        "UPDATE books.stock_movements SET value = 6",
        "DELETE FROM books.stock_movements",
        "TRUNCATE books.stock_movements",
        """INSERT INTO books.stock_movements (company, brand, item, store, kind, doc_id, doc_line,
                  posting_date, qty_base, value, xid)
           VALUES ('ACME', 'RED', 'A', 'R1', 'receipt', 'T', 1, '2026-01-05', 1, 5, '3')""",
    ):
        with pytest.raises(DBAPIError, match="permission denied"):
            await execute(books.app, statement)
    rows = await fetch(books.app, "SELECT value FROM books.stock_movements")
    assert [row.value for row in rows] == [5]


async def test_overlapping_or_disordered_periods_are_refused(books: Books) -> None:
    for name, first, last in (
        ("2026-03", "2026-02-28", "2026-03-31"),
        ("2026-03", "2025-03-01", "2025-03-31"),
    ):
        with pytest.raises(DBAPIError, match="PERIOD_OVERLAP"):
            await execute(
                books.app,
                "INSERT INTO books.periods (company, period, starts_on, ends_on)"
                f" VALUES ('ACME', '{name}', '{first}', '{last}')",
            )
