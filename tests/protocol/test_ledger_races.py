"""The ledger under writers at once: no gap, no deadlock, and a close that waits for them."""

import asyncio
import random
from contextlib import suppress
from datetime import date

import pytest
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import sqlstate_of
from tests.costing_books import Books
from tests.factories import eventually, fetch, scalar
from tests.ledger_books import (
    Entry,
    append,
    cash_sale,
    entry,
    open_ledger,
    post,
    poster,
    write_lines,
)
from tests.period_books import close
from worker.lease import HeldLease

WRITERS, ROUNDS = 8, 12
CLOSED = "CH101"
# Every number once, from 1 to the last, each linked to the one before.
GAPS = """
    SELECT count(*) AS entries, max(entry_no) AS last, count(DISTINCT entry_no) AS numbers,
           count(*) FILTER (WHERE prev_hash IS DISTINCT FROM before) AS unlinked
      FROM (SELECT entry_no, prev_hash,
                   coalesce(lag(hash) OVER (ORDER BY entry_no), '') AS before
              FROM books.gl_entries WHERE company = 'ACME' AND series = 'NKC'
               AND fiscal_year = 2026) e"""


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """Company ACME with a chart and two open periods."""
    assert company == "ACME"
    return await open_ledger(engine, read_engine)


class _BackedOutError(Exception):
    """A writer that changes its mind when its numbers have been given."""


async def _back_out(books: Books, held: HeldLease, *entries: Entry) -> None:
    with suppress(_BackedOutError):
        async with books.app.begin() as conn:
            await write_lines(conn, entries)
            await append(conn, held, entries)
            raise _BackedOutError


async def test_numbers_have_no_gap_under_eight_writers(books: Books) -> None:
    """A third of all transactions are rolled back after their numbers were given."""
    told = random.Random(7)
    backs = [[told.random() < 1 / 3 for _ in range(ROUNDS)] for _ in range(WRITERS)]

    async def write(mine: list[bool]) -> int:
        held = await poster(books)
        for back in mine:
            pair = [await entry(books, cash_sale()), await entry(books, cash_sale(7))]
            if back:
                await _back_out(books, held, *pair)
            else:
                await post(books, held, *pair)
        return 2 * mine.count(False)

    posted = sum(await asyncio.gather(*(write(mine) for mine in backs)))
    (found,) = await fetch(books.app, GAPS)
    assert tuple(found) == (posted, posted, posted, 0)


async def test_series_are_locked_in_one_order(books: Books) -> None:
    """Whatever the order in which entries are handed in, two writers never deadlock."""

    async def write(series: list[str]) -> None:
        held = await poster(books)
        for _ in range(ROUNDS):
            made = [await entry(books, cash_sale(), series=each) for each in series]
            await post(books, held, *made)

    names = ["A", "B", "C"]
    orders = (names, names[::-1], ["B", "A"], ["C", "B"])
    met = await asyncio.gather(*map(write, orders), return_exceptions=True)
    assert met == [None] * len(orders)
    last = await fetch(books.app, "SELECT series, last_no FROM books.gl_series ORDER BY 1")
    assert [tuple(row) for row in last] == [("A", 36), ("B", 48), ("C", 36)]


async def test_a_close_waits_for_posters_and_they_never_for_it(books: Books) -> None:
    """Posters of two periods at once, the gates in order: all go in, or meet a closed period."""

    async def write(days: list[date]) -> int:
        held = await poster(books)
        posted = 0
        while True:
            made = [await entry(books, cash_sale(), day=day) for day in days]
            try:
                await post(books, held, *made)
            except DBAPIError as error:
                if sqlstate_of(error) != CLOSED:
                    raise
                return posted
            posted += len(made)

    january, february = date(2026, 1, 7), date(2026, 2, 7)
    writers = [
        asyncio.create_task(write(days), name=f"writer {number}")
        for number, days in enumerate([[january], [february, january], [january, february]] * 2)
    ]

    async def busy() -> bool:
        return int(await scalar(books.app, "SELECT count(*) FROM books.gl_entries")) >= 10

    await eventually(busy)
    assert (await close(books))["outcome"] == "closed"
    posted = sum(await asyncio.gather(*writers))
    (found,) = await fetch(books.app, GAPS)
    assert tuple(found) == (posted, posted, posted, 0)
    assert posted >= 10
