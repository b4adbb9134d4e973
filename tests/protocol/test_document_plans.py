"""With thousands of documents there, a put and a page of a list read those that they are about."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.access import EVERYTHING
from shared.documents.put import put_documents
from shared.documents.read import list_documents, read_document, read_lines
from tests.document_books import put, sale, stock_books
from tests.factories import execute, scalar

# Rows that this session has read by whole tables and by indexes, and not yet reported.
READ = text("""
    SELECT coalesce(sum(seq_tup_read), 0) AS whole, coalesce(sum(idx_tup_fetch), 0) AS by_index
      FROM pg_stat_xact_user_tables
     WHERE schemaname = 'books' AND relname IN ('documents', 'document_lines')""")
THERE = 3000


@dataclass(slots=True)
class Read:
    """What was read within."""

    whole: int = 0
    by_index: int = 0


@asynccontextmanager
async def reading(engine: AsyncEngine) -> AsyncIterator[tuple[AsyncConnection, Read]]:
    """A transaction, and what it has read when it is over."""
    read = Read()
    async with engine.begin() as conn:
        before = (await conn.execute(READ)).one()
        yield conn, read
        after = (await conn.execute(READ)).one()
        read.whole, read.by_index = after.whole - before.whole, after.by_index - before.by_index


DAY = date(2026, 1, 15)


@pytest.fixture(params=["empty", "full"])
async def books(
    engine: AsyncEngine, owner_engine: AsyncEngine, company: str, request: pytest.FixtureRequest
) -> AsyncEngine:
    """Three thousand sales; what the planner knows is from before them, or of them."""
    assert company == "ACME"
    await stock_books(engine)
    analyze = "ANALYZE books.documents, books.document_lines"
    if request.param == "empty":
        await execute(owner_engine, analyze)
    days = [f"2026-01-{1 + n % 31:02}" for n in range(THERE)]
    many = [sale(f"HD-{n:05}", doc_date=days[n]) for n in range(THERE)]
    for first in range(0, THERE, 1000):
        await put(engine, *many[first : first + 1000])
    if request.param == "full":
        await execute(owner_engine, analyze)
    return engine


async def test_a_put_reads_the_documents_that_it_is_about(books: AsyncEngine) -> None:
    """One reads itself and what it refers to; many a table of this size at most a few times.

    Never once for each of them: that is what a plan of ignorance would do.
    """
    back = {"ref_doc_no": "HD-00007", "lines": [{"item": "LY", "qty": "1", "net": "1"}]}
    one = [sale("TL-1", type="sale_return", total=None, vat_total=None) | back]
    mixed = [
        sale(f"HD-{n:05}", doc_date=f"2026-01-{1 + n % 31:02}", memo="x" if n % 2 else None)
        for n in range(THERE - 250, THERE + 250)
    ]
    for documents in (one, mixed):
        async with reading(books) as (conn, read):
            said = json.dumps(documents)
            puts = await put_documents(conn, "ACME", said, principal="a", source="test")
            assert {each.outcome for each in puts} <= {"created", "updated", "unchanged"}
        assert read.whole <= (0 if len(documents) == 1 else 8 * THERE)
        assert read.by_index < 40 * len(documents) + 100


async def test_a_page_reads_its_documents(books: AsyncEngine) -> None:
    """By date, by number, and one with its lines."""
    found: dict[str, tuple[int, Read]] = {}
    number = await scalar(books, "SELECT id FROM books.documents WHERE doc_no = 'HD-01500'")
    pages: dict[str, dict[str, Any]] = {
        "newest": {},
        "a day": {"since": DAY, "until": DAY},
        "a number": {"doc_no": "HD-01500"},
    }
    for name, filters in pages.items():
        async with reading(books) as (conn, read):
            rows = await list_documents(conn, EVERYTHING, "ACME", filters, limit=50)
        found[name] = (len(rows), read)
    async with reading(books) as (conn, read):
        assert await read_document(conn, number, EVERYTHING) is not None
        assert len(await read_lines(conn, number, limit=10)) == 1
    found["one"] = (1, read)
    assert [rows for rows, _ in found.values()] == [50, 50, 1, 1]
    for name, (_, read) in found.items():
        assert read.whole == 0, name
        # A day's documents are put in order by id: a hundred of each day are there.
        assert read.by_index < 500, name
