"""A preview's differences are entries: debits less credits add up to what stock opened with."""

from datetime import date

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.costing_books import FEBRUARY, Books, open_books

METHODS = ["periodic_avg", "moving_avg", "fifo"]


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """Company ACME."""
    assert company == "ACME"
    return await open_books(engine, read_engine)


@pytest.mark.parametrize("method", METHODS)
async def test_late_freight_is_owed_whole(books: Books, method: str) -> None:
    """100 for goods of which half is gone: 50 to 1561, 50 to 632, and 100 to the supplier."""
    await books.costed_by(method)
    receipt = await books.move("receipt", 10, value=1000)
    await books.move("issue", 5, day=date(2026, 1, 7))
    await books.cost()
    await books.move("landed_cost", 0, value=100, ref=receipt, day=date(2026, 2, 3))
    result = await books.cost(FEBRUARY, kind="costing.preview")
    after = {each["account"]: int(each["after"]) for each in result["differences"]}
    assert after == {"1561": 550, "331": -100, "632": 50}


@pytest.mark.parametrize("method", ["moving_avg", "fifo"])
async def test_what_cannot_leave_is_a_credit_of_632(books: Books, method: str) -> None:
    """Bought for 100, sold, and given back for 100: nothing is owed, and nothing was lost."""
    await books.costed_by(method)
    first = await books.move("receipt", 1, value=100)
    await books.move("receipt", 9, value=0, day=date(2026, 1, 6))
    await books.move("issue", 9, day=date(2026, 1, 7))
    await books.move("purchase_return", 1, ref=first, day=date(2026, 1, 8))
    result = await books.cost(kind="costing.preview")
    assert sum(int(each["after"]) for each in result["differences"]) == 0
    assert [each for each in result["differences"] if each["account"] == "331"] == []


@pytest.mark.parametrize("method", METHODS)
async def test_an_adjustment_that_is_taken_back_goes_against_its_own_account(
    books: Books, method: str
) -> None:
    """As cost documents book it: what was found was no gain, what was used up was not used."""
    await books.costed_by(method)
    await books.move("receipt", 10, value=1000)
    found = await books.move("adjust_in", 2, value=200, day=date(2026, 1, 6))
    used = await books.move("adjust_out", 1, day=date(2026, 1, 7))
    wrong = await books.move("adjust_in", 1, value=100, day=date(2026, 1, 8))
    await books.move("adjust_in", 1, value=100, reverses=wrong, day=date(2026, 1, 9))
    first = await books.cost(kind="costing.preview")
    said = {each["account"]: int(each["after"]) for each in first["differences"]}
    assert said == {"1561": 1100, "331": -1000, "3381": -200, "1381": 100}
    await books.cost()
    day = date(2026, 2, 3)
    await books.move("adjust_in", 2, value=200, reverses=found, day=day)
    await books.move("adjust_out", 1, reverses=used, day=day)
    result = await books.cost(FEBRUARY, kind="costing.preview")
    after = {each["account"]: int(each["after"]) for each in result["differences"]}
    assert after == {"1561": 1000, "3381": 200, "1381": -100}
