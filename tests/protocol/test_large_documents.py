"""A document of as many lines as there may be: posted, read and taken back in linear time."""

from datetime import date

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.ledger.reports import After, OfAccount, Span, general_ledger
from tests.costing_books import Books
from tests.factories import fetch
from tests.ledger_books import open_ledger
from tests.posting_books import draft, post
from tests.unposting_books import balances, entries_of, unpost_one

LINES, PAGE = 10_000, 500
READ = text("""
    SELECT coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0) AS read
      FROM pg_stat_xact_user_tables WHERE schemaname = 'books' AND relname = 'gl_lines'""")


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """Company ACME with its chart, and two open periods."""
    assert company == "ACME"
    return await open_ledger(engine, read_engine)


async def test_ten_thousand_lines_are_one_document(books: Books) -> None:
    """VAT of 9 đồng a line, and rounding of as many đồng as there are lines less one."""
    lines = [{"item": "A", "qty": 1, "net": 100 + n % 7, "vat": 9} for n in range(LINES)]
    net = sum(line["net"] for line in lines if isinstance(line["net"], int))
    facts = {"party": "C1", "total": net + 100_000 + LINES - 1, "vat_total": 100_000}
    one = await draft(books, "sale", "S1", *lines, **facts)
    for version, mode in enumerate(("per_document", "atomic"), 1):
        assert (await post(books, documents=[one], mode=mode))["outcomes"] == {"POSTED": 1}
        assert await balances(books, one) == {
            "131": facts["total"],
            "33311": -100_000,
            "5111": -net - LINES + 1,
        }
        assert (await unpost_one(books, one, reason=mode)).outcome == "REVERSED"
        assert await balances(books, one) == {}
        assert len(await entries_of(books, one)) == 2 * version


async def test_a_page_of_the_general_ledger_reads_its_entries_once(books: Books) -> None:
    """Not once for each of their lines: the accounts on the other side are the same for all."""
    lines = [{"item": "A", "qty": 1, "net": 100} for _ in range(2 * PAGE)]
    one = await draft(books, "sale", "S1", *lines, party="C1", total=200 * PAGE, vat_total=0)
    assert (await post(books, documents=[one]))["outcome"] == "succeeded"
    january = Span(company="ACME", since=date(2026, 1, 1), until=date(2026, 1, 31), brands=None)
    asked = OfAccount(span=january, accounts=["5111"])
    async with books.app.connect() as conn:
        rows = await general_ledger(conn, asked, After(), limit=PAGE)
        read = await conn.scalar(READ)
    assert [row["contra"] for row in rows] == [["131"]] * PAGE
    assert [row["line_no"] for row in rows] == sorted(row["line_no"] for row in rows)
    assert read <= 16 * PAGE
    (many,) = await fetch(books.app, "SELECT count(*) AS n FROM books.gl_lines")
    assert many.n == 2 * PAGE + 1
