"""Posting: what becomes of each document, and what the ledger gets of it."""

from datetime import date

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.costing_books import Books
from tests.factories import execute, fetch
from tests.ledger_books import open_ledger
from tests.posting_books import (
    draft,
    ledger_of,
    manual,
    numbers,
    post,
    post_one,
    sale,
    status,
)


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """Company ACME with its chart, and two open periods."""
    assert company == "ACME"
    return await open_ledger(engine, read_engine)


async def test_every_type_of_document_becomes_the_lines_of_its_rule(books: Books) -> None:
    """Domain 2.2: purchase, sale, both returns, transfer, cash in and out, a journal by hand."""
    goods = {"item": "A", "qty": 10, "net": 100_000, "vat": 10_000}
    supplier = {"party": "S1", "total": 110_000, "vat_total": 10_000}
    customer = {"party": "C1", "total": 165_000, "vat_total": 15_000}
    sold = {"item": "A", "qty": 10, "net": 150_000, "vat": 15_000}
    back = {"item": "A", "qty": 2, "net": 30_000}
    paid = {"net": 50_000}
    ids = [
        await draft(books, "purchase", "P1", goods, **supplier),
        await draft(books, "sale", "S1", sold, **customer),
        await draft(books, "sale_return", "SR1", back, party="C1", total=33_000, vat_total=3_000),
        await draft(books, "purchase_return", "PR1", goods, **supplier),
        await draft(books, "transfer", "T1", {"item": "A", "qty": 1, "net": 900}, to_store="R2"),
        await draft(books, "transfer", "T2", {"item": "A", "qty": 1}, to_store="R2"),
        await draft(books, "cash_in", "CI1", paid, party="C1", total=50_000),
        await draft(books, "cash_out", "CO1", paid, party="S1", total=50_000, account="1121"),
        await manual(books, "M1", ("6422", 700), ("1111", -700)),
    ]
    result = await post(books, documents=ids)
    assert result["outcomes"] == {"POSTED": 9}
    assert result["outcome"] == "succeeded"
    assert [await ledger_of(books, each) for each in ids] == [
        [("1561", 100_000), ("1331", 10_000), ("331", -110_000)],
        [("131", 165_000), ("5111", -150_000), ("33311", -15_000)],
        [("5212", 30_000), ("33311", 3_000), ("131", -33_000)],
        [("331", 110_000), ("1561", -100_000), ("1331", -10_000)],
        [("1561", 900), ("1561", -900)],
        [],
        [("1111", 50_000), ("131", -50_000)],
        [("331", 50_000), ("1121", -50_000)],
        [("6422", 700), ("1111", -700)],
    ]
    assert {await status(books, each) for each in ids} == {"posted"}
    assert await numbers(books) == list(range(1, 9)), "a document without amounts has no entry"


async def test_a_line_keeps_its_dimensions_and_its_store_says_its_brand(books: Books) -> None:
    lines = ({"item": "A", "qty": 3, "net": 900, "memo": "third floor"},)
    one = await draft(books, "transfer", "T1", *lines, to_store="B1", memo="moving")
    assert (await post_one(books, one)).outcome == "POSTED"
    rows = await fetch(
        books.app,
        """SELECT l.store, l.brand, l.item, l.qty_base, l.memo, e.memo AS entry, e.rule_version
             FROM books.gl_lines l JOIN books.gl_entries e ON e.id = l.entry_id
            ORDER BY l.line_no""",
    )
    assert [tuple(row) for row in rows] == [
        ("B1", "BLUE", "A", 3, "third floor", "moving", 1),
        ("R1", "RED", "A", 3, "third floor", "moving", 1),
    ]


async def test_filters_select_drafts_of_the_jobs_brand_by_day(books: Books) -> None:
    wanted = [await sale(books, f"S{day}", day=date(2026, 1, day)) for day in (9, 7, 8)]
    others = [
        await sale(books, "S10", day=date(2026, 1, 10)),
        await sale(books, "S7R2", store="R2", day=date(2026, 1, 7)),
        await sale(books, "S7B", store="B1", brand="BLUE", day=date(2026, 1, 7)),
        await draft(books, "cash_in", "C7", {"net": 1}, party="C", day=date(2026, 1, 7)),
    ]
    filters = {"types": ["sale"], "date_from": "2026-01-07", "date_to": "2026-01-09"}
    result = await post(books, brand="RED", stores=["R1"], **filters)
    assert result["outcomes"] == {"POSTED": 3}
    assert {await status(books, each) for each in others} == {"draft"}
    query = "SELECT document_id FROM books.gl_entries ORDER BY entry_no"
    by_day = [wanted[1], wanted[2], wanted[0]]
    assert [row.document_id for row in await fetch(books.app, query)] == by_day
    assert (await post(books, brand="RED", stores=["R1"], **filters))["documents"] == 0


async def test_a_rule_of_the_companys_own_is_taken_from_its_first_day_on(books: Books) -> None:
    await execute(
        books.app,
        """INSERT INTO books.posting_rules (company, doc_type, version, valid_from, series)
           VALUES ('ACME', 'sale', 2, '2026-01-10', 'BH')""",
    )
    await execute(
        books.app,
        """INSERT INTO books.posting_rule_lines
                  (company, doc_type, version, line_no, per, side, role, own_account, amount)
           VALUES ('ACME', 'sale', 2, 1, 'line', 'credit', 'revenue', true, 'net'),
                  ('ACME', 'sale', 2, 2, 'line', 'credit', 'vat_out', false, 'vat'),
                  ('ACME', 'sale', 2, 3, 'document', 'debit', 'receivable', true, 'gross')""",
    )
    line = {"item": "A", "net": 1000, "vat": 100}
    facts = {"party": "C1", "total": 1100, "vat_total": 100}
    old = await draft(books, "sale", "S1", line, day=date(2026, 1, 9), **facts)
    new = await draft(books, "sale", "S2", line, day=date(2026, 1, 10), **facts)
    await post(books, documents=[old, new])
    assert await ledger_of(books, old) == [("131", 1100), ("5111", -1000), ("33311", -100)]
    assert await ledger_of(books, new) == [("5111", -1000), ("33311", -100), ("131", 1100)]
    assert (await numbers(books, "NKC"), await numbers(books, "BH")) == ([1], [1])
