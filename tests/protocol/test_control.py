"""Control: the ledger's value of goods is what costing says, or the documents that differ are named."""

from datetime import date
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.ledger.control import Controlled, compare, list_differing
from tests import period_books
from tests.cost_books import bought, costs_posted
from tests.costing_books import FEBRUARY, Books
from tests.factories import execute
from tests.ledger_books import open_ledger
from tests.posting_books import draft, post

JANUARY = Controlled(
    company="ACME", period="2026-01", starts_on=date(2026, 1, 1), ends_on=date(2026, 1, 31)
)
NEXT = Controlled(
    company="ACME", period=FEBRUARY, starts_on=date(2026, 2, 1), ends_on=date(2026, 2, 28)
)


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """ACME with a chart; ten pieces were bought, and four of them sold."""
    assert company == "ACME"
    opened = await open_ledger(engine, read_engine)
    await bought(opened, "P1", 10, 10_000)
    await opened.move("issue", 4, day=date(2026, 1, 8), doc="S1")
    return opened


async def _differing(
    books: Books, controlled: Controlled = JANUARY
) -> dict[str, tuple[int, dict[str, tuple[int, int]]]]:
    """By item: ledger less value, and what explains it: expected and booked."""
    async with books.engines.read.connect() as conn:
        rows = await list_differing(conn, controlled, 50)
    found: dict[str, tuple[int, dict[str, tuple[int, int]]]] = {}
    for row, reasons in rows:
        told = {r["doc_no"] or r["what"]: (int(r["expected"]), int(r["booked"])) for r in reasons}
        off = int(row["balance"] - row["value"])
        assert off == sum(booked - expected for expected, booked in told.values()), "all of it"
        found[row["item"]] = (off, told)
    return found


async def _totals(books: Books) -> Any:
    async with books.engines.read.connect() as conn:
        return await compare(conn, JANUARY, 5)


async def test_after_costs_are_posted_nothing_differs(books: Books) -> None:
    await books.cost(brand=None)
    await costs_posted(books)
    assert await _differing(books) == {}
    totals = await _totals(books)
    assert (totals.value, totals.balance, totals.pools, totals.differing) == (6_000, 6_000, 1, 0)


async def test_costs_that_are_missing_or_out_of_date_are_named(books: Books) -> None:
    await books.cost(brand=None)
    assert await _differing(books) == {"A": (4_000, {"costs": (-4_000, 0)})}
    await costs_posted(books)
    await books.move("issue", 1, day=date(2026, 1, 9), doc="S2")
    await books.cost(brand=None)
    assert await _differing(books) == {"A": (1_000, {"costs": (-5_000, -4_000)})}


async def test_a_document_that_books_another_amount_than_its_goods_cost(books: Books) -> None:
    """Not posted, posted with another amount, and an entry by hand that no goods stand behind."""
    await books.move("receipt", 1, item="B", value=700, doc="P2")
    await books.move("receipt", 2, item="C", value=900, doc="P3")
    line = {"item": "C", "qty": 2, "net": 950}
    await draft(books, "purchase", "P3", line, total=950, vat_total=0, party="V1")
    stock = {"account": "1561", "side": "debit", "net": 33, "item": "A", "store": "R1"}
    other = {"account": "632", "side": "credit", "net": 33}
    await draft(books, "manual", "M1", stock, other)
    await post(books, types=["purchase", "manual"])
    await books.cost(brand=None)
    await costs_posted(books)
    assert await _differing(books) == {
        "A": (33, {"M1": (0, 33)}),
        "B": (-700, {"P2": (700, 0)}),
        "C": (50, {"P3": (900, 950)}),
    }


async def test_what_an_earlier_period_has_left_is_told_apart(books: Books) -> None:
    """The opening differs because January's costs are missing; February's own are right."""
    await books.cost(brand=None)
    await books.cost(FEBRUARY, brand=None)
    await costs_posted(books, FEBRUARY)
    assert await _differing(books, NEXT) == {"A": (4_000, {"before": (6_000, 10_000)})}


async def test_goods_of_an_item_that_could_not_be_costed(books: Books) -> None:
    """The ledger has them, and there is no value to hold that against."""
    await books.move("issue", 40, day=date(2026, 1, 9), doc="S2")
    await books.cost(brand=None)
    async with books.engines.read.connect() as conn:
        ((row, reasons),) = await list_differing(conn, JANUARY, 50)
    assert (row["item"], row["pool"], row["balance"], row["value"]) == ("A", None, 10_000, 0)
    assert [(r["what"], r["doc_no"]) for r in reasons] == [("document", "P1")]


async def test_a_period_whose_ledger_differs_is_not_closed(books: Books) -> None:
    """Nor one with drafts; the same period closes once both are put right."""
    await books.cost(brand=None)
    await draft(books, "manual", "M1", {"account": "632", "side": "debit", "net": 1})
    findings = await period_books.refused(books)
    assert {code: each["first"] for code, each in findings.items()} == {
        "UNPOSTED_DOCUMENTS": ["manual M1"],
        "LEDGER_DIFFERS": ["RED/RED/A"],
    }
    await costs_posted(books)
    await execute(books.app, "UPDATE books.documents SET status = 'void' WHERE doc_no = 'M1'")
    result = await period_books.close(books)
    assert (result["outcome"], result["ledger"]) == (
        "closed",
        "agrees with the value of the goods",
    )


async def test_a_difference_between_the_stores_of_a_pool_is_one(books: Books) -> None:
    """Its sum is nothing, and each store's goods would go on with it into another pool."""
    await bought(books, "P2", 10, 10_000, store="R2")
    await books.cost(brand=None)
    await costs_posted(books)
    lines = [
        {"account": "1561", "side": side, "net": 5, "item": "A", "store": store}
        for side, store in (("debit", "R1"), ("credit", "R2"))
    ]
    await draft(books, "manual", "M2", *lines)
    await post(books, types=["manual"])
    async with books.engines.read.connect() as conn:
        found = await list_differing(conn, JANUARY, 50)
    assert len(found) == 1
    ((row, _),) = found
    assert (row["balance"] - row["value"], row["stores"]) == (0, ["R1", "R2"])
