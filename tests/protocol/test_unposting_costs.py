"""Unposting what has been costed: a slip's costs come off with it, those of many are in its way."""

from datetime import date
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.cost_books import (
    accounts,
    attempt_costs,
    bought,
    costs_posted,
    documents,
    stock,
    submit_costs,
    worth,
)
from tests.costing_books import Books
from tests.costing_crew import Crew
from tests.factories import fetch, scalar
from tests.ledger_books import open_ledger
from tests.posting_books import close, draft, items, outcomes, post, sale
from tests.services import Database
from tests.unposting_books import (
    astray,
    attempt,
    balances,
    gapless,
    standing,
    submit,
    unpost,
    unpost_one,
)

DAY = date(2026, 1, 8)
COST_IDS = """
    SELECT d.id, d.doc_no, c.standing FROM books.documents d
      JOIN books.cost_documents c ON c.document_id = d.id
     WHERE d.type = 'cost' AND d.status = :status ORDER BY d.id"""


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """ACME with a chart, and goods that were bought."""
    assert company == "ACME"
    opened = await open_ledger(engine, read_engine)
    await bought(opened, "P1", 10, 10_000)
    return opened


async def _sold(books: Books, number: str, qty: int, **facts: Any) -> int:
    """Goods go out, and their sale is posted."""
    await books.move("issue", qty, day=DAY, doc=number)
    sold = await sale(books, number, day=DAY, **facts)
    assert (await post(books, documents=[sold]))["outcome"] == "succeeded"
    return sold


async def _costs(books: Books, status: str = "posted") -> list[Any]:
    return list(await fetch(books.app, COST_IDS, status=status))


async def test_the_costs_of_a_slip_come_off_with_it_and_are_made_anew(books: Books) -> None:
    """In one transaction; the other slip keeps its own. Nothing of the goods is on 632 meanwhile."""
    one, two = await _sold(books, "S1", 4), await _sold(books, "S2", 1)
    await books.cost(brand=None)
    await costs_posted(books, by="slip")
    before = await accounts(books)
    assert before["632"] == 5_000
    refused = await unpost_one(books, one)
    assert (refused.outcome, refused.codes) == ("HAS_DEPENDANT", ["HAS_DEPENDANT"])
    assert 'dependants "reverse"' in refused.detail
    assert await accounts(books) == before
    row = await unpost_one(books, one, dependants="reverse")
    assert row.outcome == "REVERSED"
    assert (await accounts(books))["632"] == 1_000
    assert await balances(books, one) == {}
    (void,) = await _costs(books, "void")
    assert not void.standing
    assert (await standing(books, one), await standing(books, two)) == (
        ("draft", 2),
        ("posted", 1),
    )
    jobs = "SELECT count(DISTINCT job_id) FROM books.gl_entries WHERE kind = 'reversal'"
    assert await scalar(books.app, jobs) == 1
    assert (await post(books, documents=[one]))["outcome"] == "succeeded"
    result = await costs_posted(books, by="slip")
    assert result["documents"]["posted"] == 1
    assert await accounts(books) == before
    assert await stock(books) == await worth(books)
    assert await astray(books) == []
    assert await gapless(books)


async def test_a_slip_is_of_its_type(books: Books) -> None:
    """A sale and a transfer of one number and day: the sale's costs come off, the transfer's stay."""
    for store in ("R1", "R2"):
        await books.pooled(store, store)
    one = await _sold(books, "X-7", 2)
    await books.move("transfer", 3, to_store="R2", day=DAY, doc="X-7")
    moved = await draft(books, "transfer", "X-7", {"item": "A", "qty": 3}, to_store="R2", day=DAY)
    assert (await post(books, documents=[moved]))["outcome"] == "succeeded"
    await books.cost(brand=None)
    await costs_posted(books, by="slip")
    numbers = {each.doc_no.partition("-S-")[2] for each in await _costs(books)}
    assert numbers == {"08-sale-X-7", "08-transfer-X-7"}
    assert (await unpost_one(books, one, dependants="reverse")).outcome == "REVERSED"
    assert "632" not in await accounts(books)
    assert await stock(books) == {("R1", "A"): 7_000, ("R2", "A"): 3_000}
    assert (await unpost_one(books, moved)).outcome == "HAS_DEPENDANT"
    assert (await unpost_one(books, moved, dependants="reverse")).outcome == "REVERSED"
    assert await stock(books) == {("R1", "A"): 10_000}


async def test_costs_of_many_are_in_the_way_until_they_are_named(books: Books) -> None:
    """A store's day holds both sales: with the cost document named all three come off."""
    one, two = await _sold(books, "S1", 4), await _sold(books, "S2", 1)
    await books.cost(brand=None)
    await costs_posted(books)
    (day,) = [each for each in await _costs(books) if "-D-" in each.doc_no]
    for how in ({}, {"dependants": "reverse"}):
        row = await unpost_one(books, one, **how)
        assert row.outcome == "HAS_DEPENDANT"
        assert f"id {day.id}" in row.detail
    for chunk in (1, 9):
        job_id = await submit(books, documents=[one, two, day.id], chunk_documents=chunk)
        await attempt(books, job_id)
        found = await outcomes(books, job_id)
        assert set(found.values()) <= {"REVERSED", "ALREADY_REVERSED"}
        assert {found[one], found[two]} == {"REVERSED"}
        assert "632" not in await accounts(books)
        assert await standing(books, day.id) == ("void", 2)
        assert (await post(books, documents=[one, two]))["outcome"] == "succeeded"
        await costs_posted(books)
        assert await stock(books) == await worth(books)
        assert await astray(books) == []
        (day,) = [each for each in await _costs(books) if "-D-" in each.doc_no]


async def test_a_filter_selects_no_cost_document(books: Books) -> None:
    await _sold(books, "S1", 4)
    await books.cost(brand=None)
    await costs_posted(books)
    result = await unpost(books, date_from="2026-01-01", dependants="reverse")
    assert result["outcomes"] == {"HAS_DEPENDANT": 1, "REVERSED": 1}, "the purchase is off"
    assert len(await _costs(books)) == len(await documents(books))


async def test_a_cost_document_of_a_closed_period_keeps_its_slip(books: Books) -> None:
    """By a later day both are reversed on that day; costs and slip never part."""
    one = await _sold(books, "S1", 4)
    await books.cost(brand=None)
    await costs_posted(books, by="slip")
    await close(books)
    row = await unpost_one(books, one, dependants="reverse")
    assert row.outcome == "PERIOD_CLOSED"
    assert len(await _costs(books)) == len(await documents(books))
    row = await unpost_one(books, one, dependants="reverse", reversal_date="2026-02-03")
    assert row.outcome == "REVERSED"
    days = await fetch(
        books.app,
        "SELECT DISTINCT posting_date AS day, count(*) FROM books.gl_entries"
        " WHERE kind = 'reversal' GROUP BY 1",
    )
    assert [tuple(each) for each in days] == [(date(2026, 2, 3), 2)]
    assert "632" not in await accounts(books)


async def test_costs_that_somebody_holds_make_their_slip_busy(books: Books) -> None:
    """Nobody is waited for, and a slip never comes off without its costs."""
    one = await _sold(books, "S1", 4)
    await books.cost(brand=None)
    await costs_posted(books, by="slip")
    (slip,) = [each for each in await _costs(books) if "-S-" in each.doc_no]
    job_id = await submit(books, documents=[one], dependants="reverse")
    async with books.app.connect() as conn:
        await conn.exec_driver_sql(
            f"SELECT FROM books.documents WHERE id = {slip.id} FOR NO KEY UPDATE"
        )
        with pytest.raises(Exception, match="held by other transactions"):
            await attempt(books, job_id)
        await conn.rollback()
    (row,) = await items(books, job_id)
    assert (row.done, row.outcome) == (False, None)
    assert await standing(books, one) == ("posted", 1)


async def test_unposting_and_posting_costs_take_turns(books: Books, database: Database) -> None:
    """Both at once by four workers, costs of whichever slips are there: all agree in the end."""
    sold = [await _sold(books, f"S{n}", 1) for n in range(4)]
    await books.cost(brand=None)
    await costs_posted(books, by="slip")
    crew = Crew(books=books, database=database)
    await submit(books, documents=sold[:3], dependants="reverse", chunk_documents=1)
    await submit(books, documents=sold[1:], dependants="reverse", chunk_documents=2)
    await submit_costs(books, by="slip", chunk_lines=1)
    await crew.work(4)
    states = await fetch(books.app, "SELECT DISTINCT state FROM chot.jobs")
    assert [row.state for row in states] == ["succeeded"]
    assert {await standing(books, each) for each in sold} == {("draft", 2)}
    assert await astray(books) == []
    assert await gapless(books)
    await attempt_costs(books, await submit_costs(books, by="slip"))
    assert await stock(books) == await worth(books)
