"""Posted again after an unposting: a document stands in the books once, on every day of them."""

from datetime import date

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.errors import PermanentError
from tests.costing_books import Books
from tests.factories import execute, fetch
from tests.ledger_books import open_ledger
from tests.posting_books import (
    attempt,
    ledger_of,
    outcomes,
    over,
    post,
    post_one,
    sale,
    submit,
)
from tests.unposting_books import unpost_one

REVERSED = "2026-02-03"


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """Company ACME with its chart, and two open periods."""
    assert company == "ACME"
    return await open_ledger(engine, read_engine)


async def _redated(books: Books, number: str = "S1") -> int:
    """A sale of 5 January that is taken back on 3 February."""
    one = await sale(books, number)
    assert (await post_one(books, one)).outcome == "POSTED"
    assert (await unpost_one(books, one, reversal_date=REVERSED)).outcome == "REVERSED"
    return one


async def _dated(books: Books, document_id: int, day: date) -> None:
    change = "UPDATE books.documents SET posting_date = :day, version = version + 1 WHERE id = :id"
    await execute(books.app, change, id=document_id, day=day)


async def _standing(books: Books, day: date) -> int:
    """Receivables by the ledger at the end of that day."""
    query = """
        SELECT coalesce(sum(debit - credit), 0) AS balance FROM books.gl_lines
         WHERE account = '131' AND posting_date <= :day"""
    (row,) = await fetch(books.app, query, day=day)
    return int(row.balance)


async def test_it_is_not_posted_before_the_day_that_takes_it_back(books: Books) -> None:
    """Its first entry stands until then: January would have the sale twice, and close with it."""
    one = await _redated(books)
    for day in (date(2026, 1, 5), date(2026, 1, 31), date(2026, 2, 2), date(2026, 1, 1)):
        await _dated(books, one, day)
        row = await post_one(books, one)
        assert (row.outcome, row.codes) == ("REVERSED_LATER", ["REVERSED_LATER"])
        assert row.detail == (
            "REVERSED_LATER: its entry 1 of 2026-01-05 stands until entry 2 of 2026-02-03 takes it "
            "back (date it 2026-02-03 or later)"
        )
    assert len(await ledger_of(books, one)) == 6, "the first entry and its reversal"
    await _dated(books, one, date(2026, 2, 3))
    assert (await post_one(books, one)).outcome == "POSTED"
    assert [await _standing(books, date(2026, month, 28)) for month in (1, 2)] == [1100, 1100]


async def test_atomic_refuses_it_as_well(books: Books) -> None:
    one, two = await _redated(books), await sale(books, "S2")
    job_id = await submit(books, documents=[one, two], mode="atomic")
    with pytest.raises(PermanentError, match=r"REVERSED_LATER \(1\)"):
        await attempt(books, job_id)
    assert await outcomes(books, job_id) == {one: "REVERSED_LATER", two: "NOT_POSTED"}
    await over(books, job_id)
    await _dated(books, one, date(2026, 2, 3))
    done = await post(books, documents=[one, two], mode="atomic")
    assert done["outcomes"] == {"POSTED": 2}


async def test_a_reversal_of_the_same_day_is_in_nobodys_way(books: Books) -> None:
    one = await sale(books, "S1")
    for day in (5, 20, 2):
        await _dated(books, one, date(2026, 1, day))
        assert (await post_one(books, one)).outcome == "POSTED"
        assert (await unpost_one(books, one)).outcome == "REVERSED"
    assert await _standing(books, date(2026, 1, 31)) == 0


async def test_every_entry_it_had_counts_not_the_last_one(books: Books) -> None:
    """Taken back in February, posted and taken back there: January still has the first entry."""
    one = await _redated(books)
    await _dated(books, one, date(2026, 2, 3))
    assert (await post_one(books, one)).outcome == "POSTED"
    assert (await unpost_one(books, one)).outcome == "REVERSED"
    await _dated(books, one, date(2026, 1, 5))
    assert (await post_one(books, one)).outcome == "REVERSED_LATER"
