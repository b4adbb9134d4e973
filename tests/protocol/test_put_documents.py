"""Documents put by one call: what they become, and what each broken rule says."""

import asyncio
import json
import re
import unicodedata
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.documents.put import put_documents
from tests.document_books import codes, mark_posted, one, put, sale, stock_books
from tests.factories import eventually, fetch, scalar

DOCS = Path(__file__).parents[2] / "docs"

FAULT_CODE = re.compile(r"""["']([A-Z]{2,}(?:_[A-Z]+)+|MISSING|INVALID|DUPLICATE|OVERFLOW)["']""")


@pytest.fixture
async def books(engine: AsyncEngine, company: str) -> AsyncEngine:
    """ACME with three items."""
    assert company == "ACME"
    await stock_books(engine)
    return engine


async def document(engine: AsyncEngine, document_id: int | None) -> Any:
    """The row of a document."""
    (row,) = await fetch(engine, "SELECT * FROM books.documents WHERE id = :id", id=document_id)
    return row


async def lines(engine: AsyncEngine, document_id: int | None) -> list[Any]:
    """Its lines in their order."""
    return await fetch(
        engine,
        "SELECT * FROM books.document_lines WHERE document_id = :id ORDER BY line_no",
        id=document_id,
    )


async def test_a_new_document_is_a_draft_with_exact_numbers(books: AsyncEngine) -> None:
    """Units become base units, amounts minor units, the brand is that of the store."""
    line = {"item": "SUA", "qty": "2.5", "uom": "thùng", "net": "150000.00", "vat": "15000"}
    made = await one(books, sale("HD-1", lines=[line], total=None, vat_total=None))
    assert (made.outcome, made.version, made.status) == ("created", 1, "draft")
    row = await document(books, made.document_id)
    assert (row.brand, row.total, row.vat_total) == ("RED", 165000, 15000)
    assert str(row.posting_date) == "2026-01-05"
    (kept,) = await lines(books, made.document_id)
    assert (kept.qty_base, kept.uom, kept.net, kept.line_no) == (30000, "thùng", 150000, 1)


async def test_the_same_again_changes_nothing(books: AsyncEngine) -> None:
    """A replay is told so, however the same numbers are written."""
    made = await one(books, sale("HD-1"))
    again = await one(books, sale("HD-1", total="165000.0", posting_date="2026-01-05"))
    assert (again.outcome, again.document_id, again.version) == ("unchanged", made.document_id, 1)
    assert await scalar(books, "SELECT count(*) FROM books.document_lines") == 1


async def test_a_draft_that_says_something_else_becomes_the_next_version(
    books: AsyncEngine,
) -> None:
    """It is replaced as a whole, lines included."""
    made = await one(books, sale("HD-1"))
    line = {"item": "HAT", "qty": "0.250", "net": "90000"}
    again = await one(books, sale("HD-1", lines=[line], total="90000", vat_total="0"))
    assert (again.outcome, again.document_id, again.version) == ("updated", made.document_id, 2)
    kept = await lines(books, made.document_id)
    assert [(each.item, each.qty_base, each.net) for each in kept] == [("HAT", 250, 90000)]


async def test_a_posted_document_is_never_touched(
    books: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """The same content is a replay, another one is refused and leaves everything as it was."""
    made = await one(books, sale("HD-1"))
    await mark_posted(owner_engine, made.document_id)
    before = await document(books, made.document_id)
    other = await one(books, sale("HD-1", memo="other"))
    assert codes(other) == [("doc_no", "ALREADY_POSTED")]
    assert "version 1" in other.faults[0].rule
    same = await one(books, sale("HD-1"))
    assert (same.outcome, same.status) == ("unchanged", "posted")
    assert await document(books, made.document_id) == before


async def test_a_voided_number_is_never_given_again(
    books: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """Not for other content and not for the same; another type has numbers of its own."""
    made = await one(books, sale("HD-1"))
    async with owner_engine.begin() as conn:
        await conn.execute(text("UPDATE books.documents SET status = 'void'"))
    for again in (sale("HD-1"), sale("HD-1", memo="other")):
        assert codes(await one(books, again)) == [("doc_no", "NUMBER_VOIDED")]
    assert (await one(books, sale("HD-1", type="purchase"))).outcome == "created"
    assert (await document(books, made.document_id)).status == "void"


async def test_numbers_are_the_same_composed_and_decomposed(books: AsyncEngine) -> None:
    """HĐ-Ắ typed on a Mac is the one typed on Windows; it is kept composed."""
    composed = unicodedata.normalize("NFC", "HĐ-Ắ-1")
    decomposed = unicodedata.normalize("NFD", composed)
    assert composed != decomposed
    made = await one(books, sale(decomposed, memo=unicodedata.normalize("NFD", "sữa")))
    again = await one(books, sale(composed, memo=unicodedata.normalize("NFC", "sữa")))
    assert (again.outcome, again.document_id) == ("unchanged", made.document_id)
    assert (await document(books, made.document_id)).doc_no == composed
    line = {"item": "SUA", "qty": "1", "uom": unicodedata.normalize("NFD", "thùng"), "net": "1"}
    unit = await one(books, sale("HD-2", lines=[line], total=None, vat_total=None))
    assert [each.uom for each in await lines(books, unit.document_id)] == ["thùng"]


LINE = {"item": "LY", "qty": "1", "net": "1"}
WRONG_HEADS = [
    ({"type": None}, ("type", "MISSING")),
    ({"type": "cost"}, ("type", "TYPE_UNKNOWN")),
    ({"type": 7}, ("type", "WRONG_TYPE")),
    ({"doc_no": None}, ("doc_no", "MISSING")),
    ({"doc_no": ""}, ("doc_no", "INVALID")),
    ({"doc_no": "x" * 61}, ("doc_no", "INVALID")),
    ({"doc_no": "HD-1 "}, ("doc_no", "INVALID")),
    ({"doc_no": "HD\t1"}, ("doc_no", "INVALID")),
    ({"doc_date": "2026-02-29"}, ("doc_date", "DATE_INVALID")),
    ({"doc_date": "05/01/2026"}, ("doc_date", "DATE_INVALID")),
    ({"doc_date": "0000-01-01"}, ("doc_date", "DATE_INVALID")),
    ({"doc_date": None}, ("doc_date", "MISSING")),
    ({"posting_date": "2026-13-01"}, ("posting_date", "DATE_INVALID")),
    ({"store": "X9"}, ("store", "STORE_UNKNOWN")),
    ({"to_store": "R2"}, ("to_store", "NOT_OF_TYPE")),
    ({"brand": "BLUE"}, ("brand", "BRAND_MISMATCH")),
    ({"brand": "GREEN"}, ("brand", "BRAND_UNKNOWN")),
    ({"party": ""}, ("party", "INVALID")),
    ({"account": "11-1"}, ("account", "INVALID")),
    ({"currency": "usd"}, ("currency", "INVALID")),
    ({"fc_rate": "25000"}, ("fc_rate", "NOT_OF_CURRENCY")),
    ({"fc_total": "5"}, ("fc_total", "NOT_OF_CURRENCY")),
    ({"memo": "x" * 501}, ("memo", "INVALID")),
    ({"total": "165000.5"}, ("total", "AMOUNT_NOT_EXACT")),
    ({"total": "1e5"}, ("total", "AMOUNT_INVALID")),
    ({"total": "-1"}, ("total", "AMOUNT_INVALID")),
    ({"total": 165000}, ("total", "WRONG_TYPE")),
    ({"total": "9223372036854775808"}, ("total", "OVERFLOW")),
    ({"vat_total": "NaN"}, ("vat_total", "AMOUNT_INVALID")),
    ({"ref_doc_no": "HD-0"}, ("ref_doc_no", "INVALID")),
    ({"ref_doc_no": "HD-0", "ref_type": "sale"}, ("ref_doc_no", "REF_UNKNOWN")),
    ({"ref_type": "sale"}, ("ref_type", "INVALID")),
    ({"lines": None}, ("lines", "MISSING")),
    ({"lines": {}}, ("lines", "WRONG_TYPE")),
    ({"lines": [{}] * 10_001}, ("lines", "TOO_MANY")),
    ({"vat": "1"}, ("vat", "UNKNOWN_MEMBER")),
]


@pytest.mark.parametrize(("wrong", "fault"), WRONG_HEADS, ids=lambda each: str(each)[:40])
async def test_a_broken_rule_of_the_head_is_told(
    books: AsyncEngine, wrong: dict[str, Any], fault: tuple[str, str]
) -> None:
    """With field, rule and value; a document beside it is made all the same."""
    good, bad = await put(books, sale("HD-9"), sale("HD-1") | wrong)
    assert good.outcome == "created"
    assert (bad.outcome, bad.document_id) == ("error", None)
    assert codes(bad) == [fault]
    value = wrong[fault[0]]
    if isinstance(value, str):
        assert bad.faults[0].value == value[:100]
    assert bad.faults[0].rule
    assert await scalar(books, "SELECT count(*) FROM books.documents") == 1


WRONG_LINES = [
    ({"item": "NO"}, ("item", "ITEM_UNKNOWN")),
    ({"item": None}, ("qty", "INVALID")),
    ({"qty": "0"}, ("qty", "QTY_INVALID")),
    ({"qty": "-1"}, ("qty", "QTY_INVALID")),
    ({"qty": 1}, ("qty", "WRONG_TYPE")),
    ({"qty": "0.5"}, ("qty", "UOM_NOT_EXACT")),
    ({"qty": "9223372036854775808"}, ("qty", "OVERFLOW")),
    ({"uom": "hộp"}, ("uom", "UOM_UNKNOWN")),
    ({"item": "SUA", "uom": "phần ba"}, ("qty", "UOM_NOT_EXACT")),
    ({"qty": None, "uom": "cái"}, ("uom", "INVALID")),
    ({"net": None}, ("net", "MISSING")),
    ({"net": "1.5"}, ("net", "AMOUNT_NOT_EXACT")),
    ({"net": "-9223372036854775808"}, ("net", "OVERFLOW")),
    ({"net": "1,000"}, ("net", "AMOUNT_INVALID")),
    ({"fc_net": "1"}, ("fc_net", "NOT_OF_CURRENCY")),
    ({"vat_rate": "100.1"}, ("vat_rate", "INVALID")),
    ({"side": "debit"}, ("side", "NOT_OF_TYPE")),
    ({"store": "X9"}, ("store", "STORE_UNKNOWN")),
    ({"store": "B1"}, ("store", "BRAND_MISMATCH")),
    ({"line_no": 0}, ("line_no", "WRONG_TYPE")),
    ({"line_no": "1"}, ("line_no", "WRONG_TYPE")),
    ({"ref_line": 1}, ("ref_line", "INVALID")),
    ({"lot_id": " "}, ("lot_id", "INVALID")),
    ({"price": "1"}, ("price", "UNKNOWN_MEMBER")),
]


@pytest.mark.parametrize(("wrong", "fault"), WRONG_LINES, ids=lambda each: str(each)[:40])
async def test_a_broken_rule_of_a_line_is_told(
    books: AsyncEngine, wrong: dict[str, Any], fault: tuple[str, str]
) -> None:
    """By the place of the line in what was sent."""
    bad = await one(books, sale("HD-1", lines=[LINE, LINE | wrong]))
    field, code = fault
    assert codes(bad) == [(f"lines[1].{field}", code)]


async def test_all_faults_of_a_document_are_told_at_once(books: AsyncEngine) -> None:
    """In the order of head and lines, whatever else is wrong."""
    bad = await one(
        books,
        sale("HD-1", doc_date="x", lines=[7, {"item": "NO", "net": "x"}, {"net": "0.5"}]),
    )
    assert codes(bad) == [
        ("doc_date", "DATE_INVALID"),
        ("lines[0]", "NOT_AN_OBJECT"),
        ("lines[1].item", "ITEM_UNKNOWN"),
        ("lines[1].net", "AMOUNT_INVALID"),
        ("lines[2].net", "AMOUNT_NOT_EXACT"),
    ]


async def test_what_is_no_object_costs_the_others_nothing(books: AsyncEngine) -> None:
    """Each gets its own outcome, in the order sent."""
    answers = await put(books, 5, sale("HD-1"), None, [], "x")
    assert [each.outcome for each in answers] == ["error", "created", "error", "error", "error"]
    assert codes(answers[0]) == [("", "NOT_AN_OBJECT")]


async def test_the_largest_number_is_kept_to_the_last_digit(books: AsyncEngine) -> None:
    """One more is refused, alone and as a sum of lines."""
    most = "9223372036854775807"
    line = {"net": most, "vat": "0"}
    made = await one(books, sale("HD-1", lines=[line], total=None, vat_total=None))
    assert (await document(books, made.document_id)).total == int(most)
    lines_of_two = [{"net": most}, {"net": "1"}]
    over = await one(books, sale("HD-2", lines=lines_of_two, total=None, vat_total=None))
    assert codes(over) == [("lines", "OVERFLOW")]
    below = await one(books, sale("HD-3", lines=[{"net": "-1"}], total=None, vat_total=None))
    assert codes(below) == [("lines", "AMOUNT_INVALID")]


async def test_a_manual_document_states_sides_and_accounts(books: AsyncEngine) -> None:
    """Debit or credit, an account, an amount above 0; totals are not its business."""
    debit = {"side": "debit", "account": "1111", "net": "5", "store": "R1"}
    credit = {"side": "credit", "account": "5111", "net": "5", "store": "B1"}
    head = {"type": "manual", "doc_no": "M-1", "doc_date": "2026-01-05"}
    made = await one(books, head | {"lines": [debit, credit]})
    row = await document(books, made.document_id)
    assert (made.outcome, row.brand, row.total) == ("created", None, None)
    bad = await one(
        books, head | {"doc_no": "M-2", "lines": [{"net": "0"}, debit | {"vat": "1"}], "total": "5"}
    )
    assert set(codes(bad)) == {
        ("total", "NOT_OF_TYPE"),
        ("lines[0].side", "INVALID"),
        ("lines[0].account", "MISSING"),
        ("lines[0].net", "AMOUNT_INVALID"),
        ("lines[1].vat", "NOT_OF_TYPE"),
    }


async def test_a_transfer_needs_two_stores_goods_and_no_amounts(books: AsyncEngine) -> None:
    """Its worth is what costing finds."""
    head = {"type": "transfer", "doc_date": "2026-01-05", "store": "R1"}
    good = head | {"doc_no": "DC-1", "to_store": "B1", "lines": [{"item": "LY", "qty": "3"}]}
    made = await one(books, good)
    row = await document(books, made.document_id)
    assert (made.outcome, row.brand, row.total) == ("created", "RED", None)
    bad = await one(books, head | {"doc_no": "DC-2", "lines": [{"net": "3"}]})
    assert codes(bad) == [
        ("to_store", "MISSING"),
        ("lines[0].item", "MISSING"),
        ("lines[0].qty", "MISSING"),
    ]
    same = await one(books, good | {"doc_no": "DC-3", "to_store": "R1"})
    assert codes(same) == [("to_store", "INVALID")]


async def test_a_foreign_document_states_its_own_amounts(books: AsyncEngine) -> None:
    """What it is worth is posting's: the rate may come later."""
    line = {"item": "HAT", "qty": "1.5", "fc_net": "10.50", "fc_vat": "1.05"}
    head = {"type": "purchase", "doc_no": "PN-1", "doc_date": "2026-01-05", "store": "R1"}
    made = await one(books, head | {"currency": "USD", "lines": [line]})
    row = await document(books, made.document_id)
    assert (str(row.fc_total), str(row.fc_vat_total), row.total) == ("11.55", "1.05", None)
    mixed = await one(books, head | {"currency": "USD", "lines": [line | {"net": "5"}]})
    assert codes(mixed) == [("lines[0].net", "NOT_OF_CURRENCY")]
    own = await one(books, head | {"currency": "VND", "doc_no": "PN-2", "lines": [LINE]})
    assert (await document(books, own.document_id)).currency is None


def back(number: str, of: str, **more: Any) -> dict[str, Any]:
    """A return of one LY of the first line of a sale."""
    line = {"item": "LY", "qty": "1", "net": "15000", "ref_line": 1}
    head = sale(number, type="sale_return", ref_doc_no=of, total=None, vat_total=None)
    return head | {"lines": [line]} | more


async def test_a_return_may_come_with_its_sale_in_any_order(books: AsyncEngine) -> None:
    """And later, alone; it names the sale by its number."""
    returned, sold = await put(books, back("TL-1", "HD-1"), sale("HD-1"))
    assert (returned.outcome, sold.outcome) == ("created", "created")
    later = await one(books, back("TL-2", "HD-1"))
    for each in (returned, later):
        row = await document(books, each.document_id)
        assert row.ref_document_id == sold.document_id


async def test_what_refers_to_a_bad_document_is_refused_with_it(books: AsyncEngine) -> None:
    """Through a chain, too: nothing is made that points at nothing."""
    chain = [
        sale("PN-1", type="purchase", store="X9"),
        sale("PN-2", type="purchase", ref_doc_no="PN-1"),
        sale("PN-3", type="purchase", ref_doc_no="PN-2"),
        back("TL-1", "HD-1", lines=[LINE | {"ref_line": 9}]),
        sale("HD-1"),
    ]
    answers = await put(books, *chain)
    assert [codes(each)[:1] for each in answers] == [
        [("store", "STORE_UNKNOWN")],
        [("ref_doc_no", "REF_UNKNOWN")],
        [("ref_doc_no", "REF_UNKNOWN")],
        [("lines[0].ref_line", "REF_UNKNOWN")],
        [],
    ]


async def test_a_number_twice_in_a_call_counts_once(books: AsyncEngine) -> None:
    """The same content is the same document; other content is refused, naming the first."""
    answers = await put(books, sale("HD-1"), sale("HD-1", memo="b"), sale("HD-1", total="165000.0"))
    assert [each.outcome for each in answers] == ["created", "error", "unchanged"]
    assert codes(answers[1]) == [("doc_no", "DUPLICATE")]
    assert answers[2].document_id == answers[0].document_id
    assert await scalar(books, "SELECT count(*) FROM books.documents") == 1


async def test_an_account_of_a_brand_names_that_brand_only(books: AsyncEngine) -> None:
    """Stores of others are like none, and so are their documents; a number of theirs is taken."""
    assert (await one(books, sale("HD-1"), brands=["RED"])).outcome == "created"
    other = await one(books, sale("HD-2", store="B1"), brands=["RED"])
    assert codes(other) == [("store", "STORE_UNKNOWN")]
    nobody = {"type": "manual", "doc_no": "M-1", "doc_date": "2026-01-05", "lines": []}
    assert codes(await one(books, nobody, brands=["RED"])) == [("brand", "MISSING")]
    assert (await one(books, sale("HD-3", store="B1"))).outcome == "created"
    taken = await one(books, sale("HD-3"), brands=["RED"])
    assert codes(taken) == [("doc_no", "NUMBER_TAKEN")]
    refers = await one(books, back("TL-1", "HD-3"), brands=["RED"])
    assert ("ref_doc_no", "REF_UNKNOWN") in codes(refers)
    of_nobody = sale("HD-4", store=None, lines=[{"net": "5"}], total=None, vat_total=None)
    assert (await one(books, of_nobody)).outcome == "created"
    assert codes(await one(books, sale("HD-4"), brands=["RED"])) == [("doc_no", "NUMBER_TAKEN")]


async def test_goods_go_to_a_store_that_the_account_may_name(books: AsyncEngine) -> None:
    """A transfer into another brand is of whoever acts for both."""
    goods = [{"item": "LY", "qty": "1"}]
    across: dict[str, Any] = {"type": "transfer", "doc_no": "DC", "doc_date": "2026-01-05"}
    across |= {"store": "R1", "to_store": "B1", "lines": goods}
    assert codes(await one(books, across, brands=["RED"])) == [("to_store", "STORE_UNKNOWN")]
    assert (await one(books, across, brands=["RED", "BLUE"])).outcome == "created"


async def test_two_calls_in_opposite_order_make_each_document_once(books: AsyncEngine) -> None:
    """They wait for one another, meet no deadlock, and what one made is unchanged for the other."""
    numbers = [f"HD-{n:04}" for n in range(200)]
    half = [sale(number) for number in numbers[::2]]
    await put(books, *half)

    async def send(order: list[str], memo: str | None) -> list[str]:
        answers = await put(books, *(sale(number, memo=memo) for number in order))
        return [each.outcome for each in answers]

    rounds = [("a", "b"), (None, None), ("c", "c"), ("d", "e")]
    for one_memo, other_memo in rounds:
        forth, back_again, across = await asyncio.gather(
            send(numbers, one_memo),
            send(numbers[::-1], other_memo),
            send(numbers[100:] + numbers[:100], one_memo),
        )
        told = {*forth, *back_again, *across}
        assert told <= {"created", "updated", "unchanged"}
    found = await fetch(
        books,
        "SELECT doc_no, count(*) AS n FROM books.documents GROUP BY doc_no HAVING count(*) > 1",
    )
    assert found == []
    assert await scalar(books, "SELECT count(*) FROM books.documents") == 200
    assert await scalar(books, "SELECT count(*) FROM books.document_lines") == 200


WAITING = """
    SELECT count(*) FROM pg_stat_activity
     WHERE wait_event_type = 'Lock' AND datname = current_database()"""


async def test_what_another_call_has_just_made_is_waited_for(books: AsyncEngine) -> None:
    """The one that came second finds it unchanged, or replaces it; none is refused."""
    async with books.connect() as first:
        await put_documents(first, "ACME", json.dumps([sale("HD-1")]), principal="a", source="test")
        waits = asyncio.create_task(put(books, sale("HD-0"), sale("HD-1", memo="second")))
        await eventually(partial(scalar, books, WAITING), every=0.01)
        await first.commit()
    assert [each.outcome for each in await waits] == ["created", "updated"]


async def test_books_are_written_at_read_committed_only(books: AsyncEngine) -> None:
    """Above it, what somebody else has just made could not be told from what is not there."""
    async with books.connect() as conn:
        strict = await conn.execution_options(isolation_level="REPEATABLE READ")
        with pytest.raises(DBAPIError, match="ISOLATION_REFUSED"):
            await put_documents(strict, "ACME", "[]", principal="a", source="test")
    async with books.connect() as conn:
        with pytest.raises(DBAPIError, match="COMPANY_UNKNOWN"):
            await put_documents(conn, "NONE", "[]", principal="a", source="test")


async def test_the_page_puts_what_it_shows(books: AsyncEngine) -> None:
    """docs/documents.md: its file, with a store and an item that ACME has."""
    said = (DOCS / "documents.md").read_text().partition("<<'END'\n")[2].partition("\nEND")[0]
    documents = json.loads(said.replace("LUA-01", "R1").replace("LUA0001", "LY"))
    answers = await put(books, *documents)
    assert [each.outcome for each in answers] == ["created"] * 3, answers


def test_every_fault_is_on_the_page() -> None:
    """With what to do about it."""
    table = (DOCS / "documents.md").read_text().partition("## Faults")[2].partition("## Numbers")[0]
    told = set(re.findall(r"`([A-Z]+(?:_[A-Z]+)*)`", table))
    known = {
        code
        for path in (DOCS.parent / "alembic" / "versions").glob("015[012]_*.py")
        for code in FAULT_CODE.findall(path.read_text())
    }
    assert told == known


async def test_a_thousand_documents_are_one_call(books: AsyncEngine) -> None:
    """All are made, and the same call again is a replay of all."""
    many = [sale(f"HD-{n}") for n in range(1000)]
    for outcome in ("created", "unchanged"):
        assert {each.outcome for each in await put(books, *many)} == {outcome}
    assert await scalar(books, "SELECT count(*) FROM books.document_lines") == 1000


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"qty": "0.5"}, "is no multiple of 1 "),
        ({"item": "SUA", "uom": "phần ba"}, "is no multiple of 0."),
    ],
)
async def test_what_cannot_be_counted_is_told_by_its_smallest_part(
    books: AsyncEngine, line: dict[str, Any], said: str
) -> None:
    """In plain numbers and the base unit; no power of ten."""
    bad = await one(books, sale("HD-1", lines=[LINE | line]))
    (fault,) = [each for each in bad.faults if each.code == "UOM_NOT_EXACT"]
    assert said in fault.rule
    assert fault.rule.endswith("the smallest part that it is counted in")
    assert "10^" not in fault.rule
