"""Who may do what in schema books, and how the rows of a run come and go."""

import pytest
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import open_engine
from tests.costing_books import Books, open_books
from tests.factories import execute, fetch, scalar
from tests.services import Database

TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'books' ORDER BY 1"


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """Company ACME with items and two open periods."""
    assert company == "ACME"
    return await open_books(engine, read_engine)


async def test_role_read_sees_every_table_and_writes_none(
    owner_engine: AsyncEngine, books: Books
) -> None:
    tables = [row.tablename for row in await fetch(owner_engine, TABLES)]
    assert len(tables) >= 14
    for table in tables:
        await fetch(books.engines.read, f"SELECT * FROM books.{table} LIMIT 0")
        for right in ("INSERT", "UPDATE", "DELETE", "TRUNCATE"):
            held = f"SELECT has_table_privilege('chot_read', 'books.{table}', '{right}')"
            assert not await scalar(owner_engine, held)


async def test_role_enqueue_sees_nothing_of_the_books(database: Database, books: Books) -> None:
    await books.move("receipt", 1, value=5)
    enqueue_only = open_engine(database.enqueue_url, pool_size=0)
    with pytest.raises(DBAPIError, match="permission denied"):
        await fetch(enqueue_only, "SELECT * FROM books.stock_movements")


async def test_app_makes_no_table_and_owns_none(books: Books) -> None:
    with pytest.raises(DBAPIError, match="permission denied"):
        await execute(books.app, "CREATE TABLE books.mine (n int)")
    owned = "SELECT count(*) FROM pg_tables WHERE tableowner = 'chot_app'"
    await books.move("receipt", 1, value=5)
    await books.cost()
    assert await scalar(books.app, owned) == 0


async def test_storage_opens_only_for_a_run_that_is_being_built(books: Books) -> None:
    with pytest.raises(DBAPIError, match="RUN_NOT_BUILDING"):
        await execute(books.app, "SELECT books.open_run_storage(4711)")
    await books.move("receipt", 1, value=5)
    result = await books.cost()
    with pytest.raises(DBAPIError, match="RUN_NOT_BUILDING"):
        await execute(books.app, "SELECT books.open_run_storage(:run)", run=result["run_id"])


async def test_a_run_whose_values_do_not_add_up_is_refused_by_the_database(books: Books) -> None:
    await books.move("receipt", 4, value=5)
    result = await books.cost()
    run = result["run_id"]
    with pytest.raises(DBAPIError, match="pool_results_value_check"):
        await execute(
            books.app,
            """INSERT INTO books.pool_results
               SELECT (p).* FROM (SELECT jsonb_populate_record(r,
                      '{"item": "B", "v_closing": 6}') AS p FROM books.pool_results r
                       WHERE r.run_id = :run) AS forged""",
            run=run,
        )
    with pytest.raises(DBAPIError, match="cost_runs_conserved_check"):
        await execute(books.app, "UPDATE books.cost_runs SET v_closing = v_closing + 1")
