"""Pools of a closed period stay those that it was costed by."""

import asyncio
from typing import Any

import pytest
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import sqlstate_of
from tests.costing_books import FEBRUARY, JANUARY, Books, open_books
from tests.factories import execute
from tests.period_books import ask, attempt, close, refused, status
from tests.protocol.sessions import until_waiting
from worker.handlers import periods
from worker.records.periods import end_closing


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """A January that is costed for RED, and an open February."""
    assert company == "ACME"
    books = await open_books(engine, read_engine)
    await books.move("receipt", 5, value=1000)
    await books.cost()
    return books


async def _refused(books: Books, store: str, since: str) -> None:
    with pytest.raises(DBAPIError, match="PERIOD_CLOSED") as found:
        await books.pooled(store, "outlet", since=since)
    assert sqlstate_of(found.value) == "CH101"


async def test_no_store_is_moved_where_its_period_is_closed(books: Books) -> None:
    await books.pooled("R1", "central")
    assert list(await refused(books)) == ["POOLS_CHANGED"]
    await books.cost()
    await close(books)
    for since in ("2025-07-01", "2026-01-01"):
        await _refused(books, "R2", since)
    await books.pooled("R1", "outlet", since="2025-07-01")  # it does not count in January
    await books.pooled("R2", "outlet", since="2026-02-01")
    await books.pooled("B1", "outlet")  # nobody has costed BLUE there


async def test_a_store_that_is_moved_while_its_period_closes_waits_for_it(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the last look nothing may change any more."""
    moving: list[asyncio.Task[None]] = []

    async def meanwhile(*arguments: object) -> None:
        moving.append(asyncio.create_task(_refused(books, "R2", "2026-01-01")))
        await until_waiting(books.app)
        await end_closing(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(periods, "end_closing", meanwhile)
    await close(books)
    await moving[0]
    assert await status(books) == "closed"


async def test_a_close_waits_for_a_store_that_is_being_moved(books: Books) -> None:
    job_id = await ask(books.app)
    async with books.app.begin() as conn:
        await conn.exec_driver_sql(
            "INSERT INTO books.cost_pool_map (company, store, valid_from, pool)"
            " VALUES ('ACME', 'R2', '2026-01-01', 'outlet')"
        )
        closing = asyncio.create_task(attempt(books, job_id))
        await until_waiting(books.app)
    with pytest.raises(Exception, match="POOLS_CHANGED"):
        await closing
    assert await status(books) == "open"


async def test_history_that_nobody_costed_here_takes_pools(books: Books) -> None:
    await execute(books.app, "UPDATE books.periods SET status = 'closed' WHERE period < '2026-02'")
    await books.pooled("B1", "outlet", since=f"{JANUARY}-01")
    await books.pooled("R2", "outlet", since=f"{FEBRUARY}-01")


async def test_a_run_by_other_pools_than_the_map_says_so_and_keeps_its_period_open(
    books: Books,
) -> None:
    """The map, one pool of R1 and R2; then a store each; then one item by the map again."""
    await books.move("receipt", 5, item="B", value=10)
    by_store = await books.cost(pool="store")
    assert codes(by_store) == {"POOLS_NOT_OF_MAP"}
    assert list(await refused(books)) == ["POOLS_CHANGED"]
    again = await books.cost(items=["A"])
    (warned,) = [each for each in again["warnings"] if each["code"] == "POOLS_DIFFER"]
    assert (codes(again), warned["runs"]) == ({"POOLS_DIFFER"}, [by_store["run_id"]])
    assert list(await refused(books)) == ["POOLS_CHANGED"]
    assert codes(await books.cost()) == set()
    await close(books)


def codes(result: dict[str, Any]) -> set[str]:
    """What a run warns of its pools."""
    return {each["code"] for each in result["warnings"] if each["code"].startswith("POOLS_")}
