"""Goods of posted documents become movements, each line once, worth what the ledger has booked."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.costing_books import Books
from tests.document_books import put
from tests.factories import execute, fetch, scalar
from tests.ledger_books import open_ledger
from tests.posting_books import close, post
from worker.records.document_movements import Moved, move_goods

UNITS = (
    """INSERT INTO books.item_units (company, item, unit, num) VALUES ('ACME', 'A', 'box', 12)"""
)
MOVEMENTS = """
    SELECT m.*, r.doc_id AS ref FROM books.stock_movements m
      LEFT JOIN books.stock_movements r ON r.id = m.ref_movement_id
     ORDER BY m.doc_id, m.doc_line"""

# An opening that a file has brought, on the day of that document.
OPENED = """
    INSERT INTO books.stock_movements (company, brand, store, item, kind, doc_id, doc_line,
                                       posting_date, qty_base, value)
    SELECT d.company, 'RED', 'R1', :item, 'opening', 'SDDK', :line, d.posting_date, :qty, :value
      FROM books.documents d WHERE d.id = :document"""


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """Company ACME with its chart, two open periods, and item A in boxes of twelve."""
    assert company == "ACME"
    opened = await open_ledger(engine, read_engine)
    await execute(engine, UNITS)
    return opened


def doc(kind: str, number: str, *lines: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A document of store R1 and party P1."""
    head = {"type": kind, "doc_no": number, "doc_date": "2026-01-05", "store": "R1", "party": "P1"}
    return head | {"lines": lines} | more


async def posted(books: Books, *documents: dict[str, Any]) -> list[int]:
    """Put and post them all; their ids."""
    answers = await put(books.app, *documents)
    ids = [each.document_id for each in answers if each.document_id is not None]
    assert len(ids) == len(documents), [each.faults for each in answers]
    result = await post(books, documents=ids)
    assert result["outcomes"] == {"POSTED": len(ids)}, result
    return ids


async def move(books: Books, ids: Sequence[int]) -> Moved:
    """Move the goods of these, in a transaction of its own."""
    async with books.app.begin() as conn:
        return await move_goods(conn, "ACME", ids, job_id=uuid4())


async def movements(books: Books) -> list[tuple[Any, ...]]:
    """What there is, by document and line."""
    rows = await fetch(books.app, MOVEMENTS)
    return [
        (
            row.doc_id,
            row.doc_line,
            row.kind,
            row.store,
            row.to_store,
            row.qty_base,
            row.value,
            row.ref,
        )
        for row in rows
    ]


GOODS = {"item": "A", "qty": "2", "uom": "box", "net": "240000"}


async def test_every_kind_of_document_moves_its_goods(books: Books) -> None:
    """Each with what it refers to, whichever of them is written first, and once only."""
    ids = await posted(
        books,
        doc(
            "purchase",
            "P1",
            GOODS,
            {"net": "50", "account": "6422"},
            {"item": "A", "net": "900", "ref_line": 1},
        ),
        doc("purchase", "P2", {"item": "A", "net": "700", "ref_line": 1}, ref_doc_no="P1"),
        doc(
            "purchase_return",
            "PR1",
            GOODS | {"qty": "1", "net": "120000", "ref_line": 1},
            {"item": "A", "net": "300", "ref_line": 1},
            ref_doc_no="P1",
        ),
        doc("purchase_return", "PR2", GOODS | {"qty": "1", "uom": "cái", "net": "10000"}),
        doc("sale", "S1", GOODS | {"qty": "5", "uom": "cái"}, {"item": "A", "net": "1000"}),
        doc("sale_return", "SR1", GOODS | {"uom": "cái", "ref_line": 1}, ref_doc_no="S1"),
        doc("transfer", "T1", {"item": "A", "qty": "3"}, to_store="B1"),
        doc("cash_in", "C1", {"net": "1000"}),
    )
    expected = [
        ("P1", 1, "receipt", "R1", None, 24, 240000, None),
        ("P1", 3, "landed_cost", "R1", None, 0, 900, "P1"),
        ("P2", 1, "landed_cost", "R1", None, 0, 700, "P1"),
        ("PR1", 1, "purchase_return", "R1", None, 12, None, "P1"),
        ("PR1", 2, "landed_cost", "R1", None, 0, -300, "P1"),
        ("PR2", 1, "purchase_return", "R1", None, 1, 10000, None),
        ("S1", 1, "issue", "R1", None, 5, None, None),
        ("SR1", 1, "sales_return", "R1", None, 2, None, "S1"),
        ("T1", 1, "transfer", "R1", "B1", 3, None, None),
    ]
    # The freight alone: what it refers to comes with it.
    first = await move(books, ids[1:2])
    assert (first.written, first.standing, first.unmoved) == (3, 1, [])
    done = await move(books, ids)
    assert (done.written, done.standing, done.unmoved) == (6, 9, [])
    assert await movements(books) == expected
    again = await move(books, ids[::-1])
    assert (again.written, again.standing) == (0, 9)
    assert await movements(books) == expected


async def test_a_receipt_is_worth_what_the_ledger_has_booked(books: Books) -> None:
    """A rest of rounding is on the largest line there, and so it is here."""
    lines = [GOODS | {"net": "1000", "vat": "80"}, GOODS | {"net": "2000", "vat": "160"}]
    # 10.05 USD are 255,588.585; with its VAT the whole is one dong less than its two parts.
    goods = {"item": "A", "qty": "1", "fc_net": "10.05", "fc_vat": "1"}
    rate = {"currency": "USD", "fc_rate": "25431.7"}
    ids = await posted(
        books,
        doc("purchase", "P1", *lines, total="3242", vat_total="240"),
        doc("purchase", "P2", goods, **rate),
        doc("purchase", "P3", goods | {"fc_vat": None}, **rate),
    )
    assert (await move(books, ids)).unmoved == []
    found = await fetch(books.app, MOVEMENTS)
    assert [(row.doc_id, row.value) for row in found] == [
        ("P1", 1000),
        ("P1", 2002),
        ("P2", 255588),
        ("P3", 255589),
    ]
    assert [row.fc_amount and str(row.fc_amount) for row in found[2:]] == [None, "10.05"]
    booked = await scalar(
        books.app, "SELECT sum(debit - credit) FROM books.gl_lines WHERE account = '1561'"
    )
    assert booked == sum(row.value for row in found)


async def test_lines_on_accounts_that_are_no_stock_move_nothing(books: Books) -> None:
    """Goods in transit (151) lie in no pool yet."""
    ids = await posted(books, doc("purchase", "P1", GOODS | {"account": "151"}, GOODS))
    assert (await move(books, ids)).written == 1
    assert [each[1] for each in await movements(books)] == [2]


async def test_drafts_move_nothing(books: Books) -> None:
    """Only what is in the ledger is in the stock."""
    (draft,) = await put(books.app, doc("purchase", "P1", GOODS))
    assert draft.document_id is not None
    done = await move(books, [draft.document_id])
    assert (done.written, done.standing, done.unmoved) == (0, 0, [])


async def test_what_cannot_move_is_told_and_stops_no_other(books: Books) -> None:
    """A closed period, a movement that says something else, a reference without movement."""
    late = doc("purchase", "P3", GOODS, doc_date="2026-02-05")
    january = await posted(books, doc("purchase", "P1", GOODS), doc("sale", "S1", GOODS))
    february = await posted(books, late)
    back = doc("sale_return", "SR1", GOODS | {"ref_line": 1}, ref_doc_no="S1")
    february += await posted(books, back | {"doc_date": "2026-02-06"})
    await execute(
        books.app,
        """INSERT INTO books.stock_movements (company, brand, store, item, kind, doc_id, doc_line,
                  posting_date, qty_base, value)
           VALUES ('ACME', 'RED', 'R1', 'A', 'receipt', 'P3', 1, '2026-02-05', 23, 240000)""",
    )
    await close(books)
    done = await move(books, january + february)
    assert done.written == 0
    assert [(each.doc_no, each.code) for each in done.unmoved] == [
        ("P1", "PERIOD_CLOSED"),
        ("S1", "PERIOD_CLOSED"),
        ("P3", "MOVEMENT_DIFFERS"),
        ("SR1", "REF_MISSING"),
    ]
    assert done.unmoved[3].rule == "there is no movement of S1, line 1; is that document posted?"


async def test_an_opening_that_came_by_a_file_is_not_opened_twice(
    books: Books, owner_engine: Any
) -> None:
    """A file numbers its lines in its own way: the goods of a place on a day are what is known."""
    opening = {"side": "debit", "account": "1561", "store": "R1"}
    rest = {"side": "credit", "account": "4118"}
    lines = (
        opening | {"item": "A", "qty": "10", "net": "1000"},
        opening | {"item": "B", "qty": "5", "net": "700"},
        rest | {"net": "1700"},
    )
    (one,) = await posted(books, doc("opening", "DK", *lines, store=None))
    for line, item, qty, value in ((2, "A", 10, 1000), (3, "B", 5, 699)):
        await execute(
            owner_engine, OPENED, line=line, item=item, qty=qty, value=value, document=one
        )
    before = await movements(books)
    done = await move(books, [one])
    assert (done.written, done.standing) == (0, 1)
    assert [(each.line_no, each.code) for each in done.unmoved] == [(2, "MOVEMENT_DIFFERS")]
    assert done.unmoved[0].rule.startswith("the movement opening of SDDK, line 3, says"), "which"
    assert await movements(books) == before


async def test_what_lies_at_a_place_is_compared_as_a_whole(books: Books, owner_engine: Any) -> None:
    """Layers of a file are one line of the document, lines of the document one of the file."""
    opening = {"side": "debit", "account": "1561", "store": "R1"}
    lines = (
        opening | {"item": "A", "qty": "10", "net": "1100"},
        opening | {"item": "B", "qty": "5", "net": "500"},
        opening | {"item": "B", "qty": "5", "net": "500"},
        {"side": "credit", "account": "4118", "net": "2100"},
    )
    (one,) = await posted(books, doc("opening", "DK", *lines, store=None))
    brought = [(2, "A", 4, 400), (3, "A", 6, 700), (4, "B", 5, 500)]
    for line, item, qty, value in brought:
        await execute(
            owner_engine, OPENED, line=line, item=item, qty=qty, value=value, document=one
        )
    done = await move(books, [one])
    assert (done.written, done.standing) == (0, 1)
    told = [(each.line_no, each.code) for each in done.unmoved]
    assert told == [(2, "MOVEMENT_DIFFERS"), (3, "MOVEMENT_DIFFERS")], "half of it is missing"
    await execute(owner_engine, OPENED, line=5, item="B", qty=5, value=500, document=one)
    done = await move(books, [one])
    assert (done.written, done.standing, done.unmoved) == (0, 3, [])


async def test_a_movement_that_was_taken_back_is_written_anew(books: Books) -> None:
    """As an ERP corrects one that its document contradicts."""
    ids = await posted(books, doc("purchase", "P1", GOODS))
    await move(books, ids)
    await execute(
        books.app,
        """INSERT INTO books.stock_movements (company, brand, store, item, kind, doc_id, doc_line,
                  posting_date, qty_base, value, reverses_movement_id)
           SELECT company, brand, store, item, kind, doc_id, doc_line, posting_date, qty_base,
                  value, id FROM books.stock_movements""",
    )
    assert (await move(books, ids)).written == 1
    assert (await move(books, ids)).written == 0
