"""Chunks of a run overlap: while one is written the next ones are under way, and no more of them."""

import asyncio
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.costing_books import Books, open_books
from tests.factories import expire_lease, scalar
from worker.handlers import costing_chunks

ITEMS = "ABCD"
WAIT = 20.0
DONE = "SELECT count(*) FROM books.cost_run_items WHERE done"


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """Company ACME with a receipt of each of four items, a chunk each."""
    assert company == "ACME"
    books = await open_books(engine, read_engine)
    for item in ITEMS:
        await books.move("receipt", 4, item=item, value=40)
    return books


async def test_a_chunk_is_written_while_the_next_ones_are_under_way(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first write waits for the third read: one after the other they would wait for ever."""
    load, write = (getattr(costing_chunks, name) for name in ("load_units", "write_results"))
    third = asyncio.Event()
    read = written = most = 0

    async def loaded(*args: Any) -> Any:
        nonlocal read, most
        units = await load(*args)
        read += 1
        most = max(most, read - written)
        if read == 3:
            third.set()
        return units

    async def wrote(*args: Any) -> None:
        nonlocal written
        async with asyncio.timeout(WAIT):
            await third.wait()
        await write(*args)
        written += 1

    monkeypatch.setattr(costing_chunks, "load_units", loaded)
    monkeypatch.setattr(costing_chunks, "write_results", wrote)
    result = await books.cost(chunk_movements=1)
    assert (result["items"]["costed"], written) == (4, 4)
    assert most == 3, "one that is written, one that is computed, one that is read"


@pytest.mark.parametrize("where", ["load_units", "cost_chunk", "write_results"])
async def test_a_chunk_that_breaks_ends_the_others_and_leaves_what_is_committed(
    books: Books, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    real = getattr(costing_chunks, where)
    calls = 0

    def breaks(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise RuntimeError("broken")
        return real(*args)

    monkeypatch.setattr(costing_chunks, where, breaks)
    before = asyncio.all_tasks()
    job_id = await books.submit(chunk_movements=1)
    with pytest.raises(RuntimeError, match="broken"):
        await books.attempt(job_id)
    assert asyncio.all_tasks() <= before, "nothing goes on behind the attempt's back"
    assert await scalar(books.app, DONE) in {0, 1, 2}
    # An error of a later chunk may come before the write of an earlier one; none of it is lost.
    monkeypatch.setattr(costing_chunks, where, real)
    await expire_lease(books.app, job_id)
    await books.attempt(job_id)
    assert (await books.result(job_id))["items"]["costed"] == 4
