"""Movements that never stop arriving: the run ends all the same, and each counts once."""

import asyncio
from datetime import date
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.errors import RetryableError
from tests.costing_books import Books, open_books
from tests.factories import fetch, scalar
from tests.protocol.sessions import until_waiting
from worker.context import JobContext
from worker.handlers import costing, costing_rounds
from worker.handlers.costing_chunks import cost_held
from worker.records.cost_runs import CostRun

COST_HELD = "worker.handlers.costing_rounds.cost_held"


@pytest.fixture
async def books(
    engine: AsyncEngine, read_engine: AsyncEngine, company: str, monkeypatch: pytest.MonkeyPatch
) -> Books:
    """Stock of A and B, and a sale of A behind each look that a run takes at what has changed."""
    assert company == "ACME"
    books = await open_books(engine, read_engine)
    for item in "AB":
        await books.move("opening", 100, item=item, value=10_000, day=date(2026, 1, 1))
    settle = costing._settle

    async def and_sell(context: JobContext, run: CostRun) -> Any:
        settled = await settle(context, run)
        await books.move("issue", 1)
        return settled

    monkeypatch.setattr(costing, "_settle", and_sell)
    return books


async def test_a_run_ends_however_many_movements_arrive(books: Books) -> None:
    result = await books.cost()
    assert await books.closing() == [("R1", 95, 9500)]
    assert result["movements"] == 7
    assert result["recompute_rounds"] == costing.MOST_ROUNDS
    assert await scalar(books.app, "SELECT count(*) FROM books.late_movements") == 0
    again = await books.cost(chunk_movements=1)
    assert (again["movements"], await books.closing()) == (12, [("R1", 90, 9000)])
    whole = "SELECT count(*) FROM books.movement_costs WHERE run_id = :run"
    assert await scalar(books.app, whole, run=again["run_id"]) == 12, "no row stands twice"


async def test_what_comes_while_the_newest_is_costed_waits_and_is_late(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    sales: list[asyncio.Task[int]] = []

    async def with_a_sale(
        context: JobContext, conn: AsyncConnection, run: CostRun, chunk: int
    ) -> None:
        sales.append(asyncio.create_task(books.move("issue", 1)))
        await until_waiting(books.app)
        await cost_held(context, conn, run, chunk)

    monkeypatch.setattr(COST_HELD, with_a_sale)
    await books.cost()
    last = await sales[0]
    assert last not in await books.costs()
    assert await books.closing() == [("R1", 95, 9500)]
    rows = await fetch(books.app, "SELECT item FROM books.late_movements")
    assert [row.item for row in rows] == ["A"]


async def test_a_preview_ends_too_and_keeps_nobody_waiting(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle = costing._settle

    async def after_a_sale(context: JobContext, run: CostRun) -> Any:
        await books.move("issue", 1)
        return await settle(context, run)

    async def with_a_sale(
        context: JobContext, conn: AsyncConnection, run: CostRun, chunk: int
    ) -> None:
        await books.move("issue", 1)
        await cost_held(context, conn, run, chunk)

    monkeypatch.setattr(costing, "_settle", after_a_sale)

    monkeypatch.setattr(COST_HELD, with_a_sale)
    result = await books.cost(kind="costing.preview")
    assert (result["movements"], result["values"]["closing"]) == (12, "19000")


async def test_writers_are_not_kept_waiting_for_much(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costing_rounds, "MOST_BEHIND_GATE", 3)
    job = await books.submit()
    with pytest.raises(RetryableError, match="INPUT_CHANGED"):
        await books.attempt(job)
    assert await books.costs() == {}
    status = "SELECT status FROM books.cost_runs"
    assert await scalar(books.app, status) == "building", "what is costed so far is kept"
    await books.move("issue", 1)
