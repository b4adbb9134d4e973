"""What is owed beside what is held: one item's sums of different signs end no run."""

from datetime import date
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.costing_books import FEBRUARY, Books, open_books
from worker.costing import chunk
from worker.costing.engine import cost_items
from worker.costing.movements import ItemStock, Method
from worker.handlers import costing_chunks

FEBRUARY_DAY = date(2026, 2, 3)


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """Company ACME; item B is sound and must be costed whatever becomes of A."""
    assert company == "ACME"
    books = await open_books(engine, read_engine)
    await books.move("receipt", 5, value=50, item="B")
    return books


@pytest.mark.parametrize(
    ("held", "bought", "sold"),
    [
        ((1, 100), (1, 90), 2),  # closes as 0 units worth 10
        ((1, 1), (4, 0), 6),  # −1 units worth 1
        ((5, 50), (2, 200), 5),  # 2 units worth −250
    ],
)
async def test_a_pool_may_hold_one_lot_and_owe_another(
    books: Books, held: tuple[int, int], bought: tuple[int, int], sold: int
) -> None:
    await books.costed_by("specific")
    await books.move("receipt", held[0], value=held[1], lot="X")
    await books.move("receipt", bought[0], value=bought[1], lot="Y")
    await books.move("issue", sold, lot="Y", day=date(2026, 1, 20))
    await books.cost(negative="provisional")
    assert await books.closing(item="B") == [("R1", 5, 50)]


@pytest.mark.parametrize("method", ["moving_avg", "fifo", "specific"])
async def test_a_debt_worth_more_than_the_goods_it_is_merged_with_ends_no_run(
    books: Books, method: str
) -> None:
    """−3 worth −300 and 5 worth 50 meet in one pool as 2 worth −250."""
    await books.costed_by(method)
    lot = "L1" if method == "specific" else None
    for store in ("R1", "R2"):
        await books.pooled(store, store)
        await books.pooled(store, "both", since="2026-02-01")
    await books.move("receipt", 2, value=200, lot=lot)
    await books.move("issue", 5, day=date(2026, 1, 20), lot=lot)
    await books.move("receipt", 5, value=50, store="R2", lot=lot)
    await books.cost(negative="provisional")
    await books.cost(FEBRUARY, negative="provisional")
    assert await books.closing(FEBRUARY, item="B") == [("R1", 5, 50)]


async def test_a_debt_of_a_lot_outlives_a_change_to_first_in_first_out(books: Books) -> None:
    await books.costed_by("specific")
    await books.costed_by("fifo", since="2026-02-01")
    await books.move("receipt", 10, value=1000, lot="Y")
    await books.move("receipt", 10, value=900, lot="X")
    await books.move("issue", 12, lot="X", day=date(2026, 1, 20))
    await books.cost(negative="provisional")
    await books.cost(FEBRUARY, negative="provisional")
    assert await books.closing(FEBRUARY, item="B") == [("R1", 5, 50)]


async def test_a_debt_worth_less_than_nothing_on_average_is_costed(books: Books) -> None:
    """Periodic average: −12 worth −120 and 2 worth 4000 meet as −10 worth 3880."""
    for store in ("R1", "R2"):
        await books.pooled(store, store)
        await books.pooled(store, "both", since="2026-02-01")
    await books.move("receipt", 1, value=10)
    await books.move("issue", 13, day=date(2026, 1, 20))
    await books.move("receipt", 2, value=4000, store="R2")
    await books.move("receipt", 7, value=22, day=FEBRUARY_DAY)
    await books.move("issue", 2, day=FEBRUARY_DAY)
    await books.cost(negative="provisional")
    await books.cost(FEBRUARY, negative="provisional")
    assert await books.closing(FEBRUARY, item="B") == [("R1", 5, 50)]


@pytest.mark.parametrize("method", list(Method))
async def test_pools_that_put_nothing_together_keep_no_value(books: Books, method: str) -> None:
    """−3 worth −30 and 3 worth 45 are 0 units: 15 leave beside all movements, in that period."""
    await books.costed_by(method)
    lot = "L1" if method == Method.SPECIFIC else None
    for store in ("R1", "R2"):
        await books.pooled(store, store)
        await books.pooled(store, "both", since="2026-02-01")
    await books.move("receipt", 2, value=20, lot=lot)
    await books.move("issue", 5, day=date(2026, 1, 20), lot=lot)
    await books.move("receipt", 3, value=45, store="R2", lot=lot)
    await books.cost(negative="provisional")
    result = await books.cost(FEBRUARY)
    assert (result["items"]["failed"], result["values"]["rounding"]) == (0, "15")
    assert sum(value for _, _, value in await books.closing(FEBRUARY)) == 0


async def test_a_bug_of_ours_ends_no_run_and_is_told_to_a_human(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    def contradicts(stocks: list[ItemStock], *others: Any) -> Any:
        assert stocks[0].item != "A", "I1: value is conserved"
        return cost_items(stocks, *others)

    told: list[dict[str, Any]] = []
    monkeypatch.setattr(chunk, "cost_items", contradicts)
    monkeypatch.setattr(costing_chunks, "alert", lambda event, **said: told.append({event: said}))
    await books.move("receipt", 1, value=1)
    result = await books.cost()
    assert result["outcome"] == "completed_with_errors"
    assert [error["code"] for error in result["errors"]] == ["ENGINE_FAULT"]
    assert await books.closing(item="B") == [("R1", 5, 50)]
    (said,) = [each["costing.engine_fault"] for each in told]
    assert (said["run_id"], said["items"]) == (result["run_id"], ("A",))
    assert "I1: value is conserved" in said["error"]
