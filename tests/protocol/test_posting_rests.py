"""Domain 2.4: stated totals are the facts; what rounding leaves goes where the rule says, told."""

from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.costing_books import Books
from tests.factories import execute, fetch
from tests.ledger_books import open_ledger
from tests.posting_books import draft, ledger_of, post_one


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """Company ACME with its chart, and two open periods."""
    assert company == "ACME"
    return await open_ledger(engine, read_engine)


async def _memos(books: Books, document_id: int) -> list[str | None]:
    query = """
        SELECT l.memo FROM books.gl_entries e JOIN books.gl_lines l ON l.entry_id = e.id
         WHERE e.document_id = :document_id ORDER BY l.line_no"""
    return [row.memo for row in await fetch(books.app, query, document_id=document_id)]


def _lines(*nets: int, vat: int | None = None) -> list[dict[str, Any]]:
    return [{"item": "A", "net": net, "vat": vat} for net in nets]


async def test_vat_of_the_document_is_the_fact_not_that_of_its_lines(books: Books) -> None:
    """Three lines of 33 at 10 % are 3 each, and 10 together: one dong apart."""
    facts = {"party": "C1", "total": 109, "vat_total": 10}
    one = await draft(books, "sale", "S1", *_lines(33, 33, 33, vat=3), **facts)
    assert (await post_one(books, one)).outcome == "POSTED"
    assert await ledger_of(books, one) == [
        ("131", 109),
        ("5111", -33),
        ("5111", -33),
        ("5111", -33),
        ("33311", -10),
    ]
    assert (await _memos(books, one))[-1] == "VAT of the lines: 9"


async def test_a_rest_goes_to_the_largest_line_and_says_so(books: Books) -> None:
    facts = {"party": "C1", "total": 112, "vat_total": 10}
    one = await draft(books, "sale", "S1", *_lines(30, 40, 30), **facts)
    assert (await post_one(books, one)).outcome == "POSTED"
    nets = [debit for account, debit in await ledger_of(books, one) if account == "5111"]
    assert nets == [-30, -42, -30]
    assert await _memos(books, one) == [None, None, "rounding -2 to the stated total", None, None]


@pytest.mark.parametrize(("total", "outcome"), [(111, "POSTED"), (112, "UNBALANCED")])
async def test_at_most_a_unit_a_line_is_rounding(books: Books, total: int, outcome: str) -> None:
    one = await draft(books, "sale", "S1", *_lines(100), party="C1", total=total, vat_total=10)
    row = await post_one(books, one)
    assert row.outcome == outcome
    if outcome == "UNBALANCED":
        assert row.detail == "UNBALANCED: debit 112, credit 110"


async def test_vat_that_is_further_apart_than_rounding_is_not_posted(books: Books) -> None:
    """The entry would balance; but of document and lines one is wrong."""
    facts = {"party": "C1", "total": 110, "vat_total": 10}
    one = await draft(books, "sale", "S1", *_lines(100, vat=8), **facts)
    row = await post_one(books, one)
    assert (row.codes, row.detail) == (
        ["UNBALANCED"],
        "UNBALANCED: VAT of the lines 8, of the document 10",
    )


async def test_a_journal_by_hand_has_no_rest_at_all(books: Books) -> None:
    lines = (
        {"account": "6422", "side": "debit", "net": 101},
        {"account": "1111", "side": "credit", "net": 100},
    )
    one = await draft(books, "manual", "M1", *lines)
    row = await post_one(books, one)
    assert (row.codes, row.detail) == (["UNBALANCED"], "UNBALANCED: debit 101, credit 100")


# 3 lines of 10.1 USD at 25,333.7: 255,870 each, 767,611 together.
USD = {"currency": "USD", "fc_rate": 25_333.7, "party": "S1"}


def _bought(*nets: float) -> list[dict[str, Any]]:
    return [{"item": "A", "fc_net": net} for net in nets]


async def test_each_line_of_another_currency_is_rounded_by_itself(books: Books) -> None:
    one = await draft(books, "purchase", "P1", *_bought(10.1, 10.1, 10.1), **USD, fc_total=30.3)
    assert (await post_one(books, one)).outcome == "POSTED"
    assert await ledger_of(books, one) == [
        ("1561", 255_871),
        ("1561", 255_870),
        ("1561", 255_870),
        ("331", -767_611),
    ]
    rows = await fetch(
        books.app, "SELECT currency, fc_amount, memo FROM books.gl_lines ORDER BY line_no"
    )
    assert [(row.currency, float(row.fc_amount), row.memo) for row in rows] == [
        ("USD", 10.1, "rounding 1 to the stated total"),
        ("USD", 10.1, None),
        ("USD", 10.1, None),
        ("USD", 30.3, None),
    ]


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        ("purchase", [("1561", 255_870)] * 3 + [("331", -767_611), ("635", 1)]),
        ("purchase_return", [("331", 767_611)] + [("1561", -255_870)] * 3 + [("515", -1)]),
    ],
)
async def test_a_rest_of_another_currency_may_have_an_account_of_its_own(
    books: Books, owner_engine: Any, type_: str, expected: list[tuple[str, int]]
) -> None:
    """Loss on 635, gain on 515, if the rule says so."""
    await execute(owner_engine, "UPDATE books.posting_rules SET rest = 'account'")
    one = await draft(books, type_, "P1", *_bought(10.1, 10.1, 10.1), **USD, fc_total=30.3)
    assert (await post_one(books, one)).outcome == "POSTED"
    assert await ledger_of(books, one) == expected
    assert (await _memos(books, one))[-1] == "rounding {} to the stated total".format(
        1 if type_ == "purchase" else -1
    )


async def test_an_account_of_its_own_is_for_other_currencies_only(
    books: Books, owner_engine: Any
) -> None:
    await execute(owner_engine, "UPDATE books.posting_rules SET rest = 'account'")
    one = await draft(books, "sale", "S1", *_lines(100), party="C1", total=111, vat_total=10)
    assert (await post_one(books, one)).outcome == "POSTED"
    assert await ledger_of(books, one) == [("131", 111), ("5111", -101), ("33311", -10)]


async def test_cents_of_a_currency_that_has_some(books: Books, owner_engine: Any) -> None:
    """A rate is between whole units; what it yields is rounded to the minor unit, a half up."""
    await execute(owner_engine, "UPDATE books.companies SET currency = 'EUR', minor_digits = 2")
    facts = {"currency": "USD", "fc_rate": 0.5, "party": "S1"}
    one = await draft(books, "purchase", "P1", *_bought(10.01), **facts, fc_total=10.01)
    assert (await post_one(books, one)).outcome == "POSTED"
    assert await ledger_of(books, one) == [("1561", 501), ("331", -501)]
    off = await draft(books, "purchase", "P2", *_bought(10.01), **facts, fc_total=10.09)
    assert (await post_one(books, off)).detail == "UNBALANCED: debit 5.01, credit 5.05"


async def test_a_half_goes_up_below_zero_as_well(books: Books) -> None:
    """As the value of a movement does: stock and ledger are held to each other."""
    facts = {"currency": "USD", "fc_rate": 0.5, "party": "S1"}
    one = await draft(books, "purchase", "P1", *_bought(100, -7), **facts, fc_total=93)
    assert (await post_one(books, one)).outcome == "POSTED"
    assert await ledger_of(books, one) == [("1561", 50), ("1561", -3), ("331", -47)]


async def test_what_is_taken_off_a_price_is_a_line_below_zero(books: Books) -> None:
    """It stands on the other side: the ledger knows no amounts below zero."""
    facts = {"party": "C1", "total": 99, "vat_total": 9}
    one = await draft(books, "sale", "S1", *_lines(100, -10), **facts)
    assert (await post_one(books, one)).outcome == "POSTED"
    assert await ledger_of(books, one) == [("131", 99), ("5111", -100), ("5111", 10), ("33311", -9)]


async def test_totals_that_are_not_stated_are_those_of_the_lines(books: Books) -> None:
    one = await draft(books, "sale", "S1", *_lines(100, 50, vat=5), party="C1")
    assert (await post_one(books, one)).outcome == "POSTED"
    assert (await ledger_of(books, one))[0] == ("131", 160)


@pytest.mark.parametrize(("nets", "total"), [((1,), 0), ((1, 1, 1), 0)])
async def test_rounding_does_not_eat_a_document(
    books: Books, nets: tuple[int, ...], total: int
) -> None:
    """Lines that state something, and a total of nothing: no entry would say what was sold."""
    one = await draft(books, "sale", "S1", *_lines(*nets), party="C1", total=total, vat_total=0)
    row = await post_one(books, one)
    assert (row.outcome, row.entry_id) == ("UNBALANCED", None)
    assert row.detail.startswith("UNBALANCED: debit ")


@pytest.mark.parametrize("mode", ["per_document", "atomic"])
async def test_a_document_of_nothing_is_posted_without_an_entry_and_says_so(
    books: Books, mode: str
) -> None:
    """A gift has its slip, and nothing to book; a transfer's value comes with its costs."""
    gift = await draft(books, "sale", "S1", *_lines(0), party="C1", total=0, vat_total=0)
    moved = await draft(books, "transfer", "T1", {"item": "A", "qty": 1}, to_store="R2")
    for one, said in ((gift, "its amounts come to 0"), (moved, "it states no amount")):
        row = await post_one(books, one, mode=mode)
        assert (row.outcome, row.codes, row.entry_id) == ("POSTED", [], None)
        assert row.detail == f"without an entry: {said}"
        assert await ledger_of(books, one) == []
