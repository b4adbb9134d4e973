"""A company whose year begins in April: numbers, chains, reversals and reports over its border."""

from datetime import date

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.access import EVERYTHING
from shared.ledger.entries import read_entry, verify_chain
from shared.ledger.reports import Span, trial_balance
from tests.costing_books import Books
from tests.factories import execute, fetch
from tests.ledger_books import open_ledger
from tests.posting_books import attempt, outcomes, post, sale, submit
from tests.unposting_books import unpost_one

MARCH, APRIL = date(2026, 3, 31), date(2026, 4, 1)


@pytest.fixture
async def books(
    engine: AsyncEngine, read_engine: AsyncEngine, owner_engine: AsyncEngine, company: str
) -> Books:
    """Company ACME, with the months around its year's end."""
    assert company == "ACME"
    opened = await open_ledger(engine, read_engine)
    await execute(
        owner_engine, "UPDATE books.companies SET fiscal_year_start_month = 4 WHERE code = 'ACME'"
    )
    await execute(
        owner_engine,
        """INSERT INTO books.periods (company, period, starts_on, ends_on)
           VALUES ('ACME', '2026-03', '2026-03-01', '2026-03-31'),
                  ('ACME', '2026-04', '2026-04-01', '2026-04-30')""",
    )
    return opened


async def _numbers(books: Books) -> list[tuple[int, int, date, str]]:
    query = """
        SELECT fiscal_year, entry_no, posting_date, kind FROM books.gl_entries
         ORDER BY fiscal_year, entry_no"""
    return [tuple(row) for row in await fetch(books.app, query)]


@pytest.mark.parametrize("mode", ["per_document", "atomic"])
async def test_each_year_counts_and_is_chained_by_itself(books: Books, mode: str) -> None:
    """One job over the border; what is taken back as of April is an entry of the new year."""
    days = (MARCH, APRIL, date(2026, 1, 5), date(2026, 4, 2))
    ids = [await sale(books, f"S{n}", day=day) for n, day in enumerate(days)]
    job_id = await submit(books, documents=ids, mode=mode)
    await attempt(books, job_id)
    assert set((await outcomes(books, job_id)).values()) == {"POSTED"}
    row = await unpost_one(books, ids[0], reversal_date="2026-04-03")
    assert row.outcome == "REVERSED"
    assert await _numbers(books) == [
        (2025, 1, date(2026, 1, 5), "normal"),
        (2025, 2, MARCH, "normal"),
        (2026, 1, APRIL, "normal"),
        (2026, 2, date(2026, 4, 2), "normal"),
        (2026, 3, date(2026, 4, 3), "reversal"),
    ]
    for entry in await fetch(books.app, "SELECT id FROM books.gl_entries ORDER BY id"):
        async with books.engines.read.connect() as conn:
            shown = await read_entry(conn, entry.id, EVERYTHING)
            assert shown is not None
            links, last = await verify_chain(conn, shown, first=1, limit=100)
        assert [link.broken for link in links] == [None] * last


async def test_balances_go_on_over_the_years_end(books: Books) -> None:
    """Nothing is carried over, and nothing is lost: April opens with what March closed with."""
    ids = [await sale(books, f"S{n}", day=day) for n, day in enumerate((MARCH, APRIL))]
    assert (await post(books, documents=ids))["outcomes"] == {"POSTED": 2}
    april = Span(company="ACME", since=APRIL, until=date(2026, 4, 30), brands=None)
    async with books.engines.read.connect() as conn:
        rows = await trial_balance(conn, april)
    found = {row["account"]: dict(row) for row in rows}
    assert set(found) == {"131", "33311", "5111"}
    assert found["131"]["opening_debit"] == found["131"]["debit"] == 1100
    assert found["131"]["closing_debit"] == 2200
    assert found["5111"]["opening_credit"] == 1000
