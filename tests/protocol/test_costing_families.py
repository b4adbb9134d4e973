"""What is costed together: brands that trade, pools that they share, goods made of others."""

from datetime import date

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.errors import PermanentError
from tests.costing_books import FEBRUARY, JANUARY, Books, open_books
from tests.factories import execute, fetch, scalar

FEBRUARY_DAY = date(2026, 2, 3)


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """Company ACME with items and two open periods."""
    assert company == "ACME"
    return await open_books(engine, read_engine)


async def _stock(books: Books, items: str = "A", *, store: str = "R1") -> None:
    for item in items:
        await books.move("opening", 10, item=item, store=store, value=1000, day=date(2026, 1, 1))


async def _codes(books: Books, result: dict[str, object]) -> dict[str, str]:
    query = "SELECT item, code FROM books.item_errors WHERE run_id = :run ORDER BY item"
    rows = await fetch(books.app, query, run=result["run_id"])
    return {row.item: row.code for row in rows}


async def test_an_item_of_two_brands_that_do_not_trade_fails_in_one_alone(books: Books) -> None:
    await _stock(books)
    await _stock(books, store="B1")
    await books.move("issue", 50, store="B1")
    result = await books.cost(brand=None)
    assert result["items"] == {"total": 2, "costed": 1, "failed": 1}
    assert await books.closing() == [("R1", 10, 1000)]


async def test_one_brand_alone_costs_what_the_whole_company_does(books: Books) -> None:
    """Units that depend on nothing outside them have one digest, whoever costs them."""
    await _stock(books, "AB")
    await _stock(books, "A", store="B1")
    query = "SELECT item, digest FROM books.active_results WHERE brand = 'RED' ORDER BY item"
    await books.cost(brand=None)
    whole = await fetch(books.app, query)
    await books.cost(brand="RED")
    assert await fetch(books.app, query) == whole


async def test_a_company_pool_has_one_price_for_all_brands(books: Books) -> None:
    await _stock(books)
    await books.move("opening", 10, store="B1", value=3000, day=date(2026, 1, 1))
    red, blue = await books.move("issue", 1), await books.move("issue", 1, store="B1")
    crossing = await books.move("transfer", 2, to_store="B1")
    result = await books.cost(brand=None, pool="company")
    assert result["outcome"] == "completed"
    costs = await books.costs()
    assert (costs[red], costs[blue], costs[crossing]) == (200, 200, 400)
    (pool,) = await fetch(books.app, "SELECT brand, pool, q_closing FROM books.pool_results")
    assert tuple(pool) == ("", "/*", 18)
    assert await books.closing() == [("B1", 11, 2200), ("R1", 7, 1400)]


async def test_a_pool_shared_by_name_is_costed_by_the_company_alone(books: Books) -> None:
    await books.pooled("R1", "region", shared=True)
    await books.pooled("B1", "region", shared=True)
    await _stock(books)
    await books.move("opening", 10, store="B1", value=3000, day=date(2026, 1, 1))
    sale = await books.move("issue", 1)
    await books.cost(brand=None)
    assert (await books.costs())[sale] == 200


@pytest.mark.parametrize("shared", [True, False])
async def test_a_run_of_one_brand_leaves_what_it_cannot_cost_as_it_was(
    books: Books, *, shared: bool
) -> None:
    """Whatever ties the brands: a pool that they share, or a movement that crosses."""
    if shared:
        await books.pooled("R1", "region", shared=True)
    await _stock(books)
    await books.move("transfer", 2, to_store="B1", day=date(2026, 1, 9))
    before = await books.cost(brand=None)
    after = await books.cost(brand="RED")
    if before["outcome"] == "completed":
        assert before["run_id"] == await scalar(
            books.app, "SELECT run_id FROM books.active_results WHERE brand = 'RED'"
        )
    assert await _codes(books, after) == {"A": "OUT_OF_SCOPE"}


async def test_goods_that_cross_are_costed_by_the_company(books: Books) -> None:
    await _stock(books)
    crossing = await books.move("transfer", 4, to_store="B1", day=date(2026, 1, 7))
    sale = await books.move("issue", 1, store="B1", day=date(2026, 1, 8))
    back = await books.move("sales_return", 1, ref=sale, day=date(2026, 1, 9))
    result = await books.cost(brand=None)
    assert result["outcome"] == "completed"
    costs = await books.costs()
    assert (costs[crossing], costs[sale], costs[back]) == (400, 100, 100)
    assert await books.closing() == [("B1", 3, 300), ("R1", 7, 700)]
    rows = await fetch(
        books.app, "SELECT brand, movement_id FROM books.movement_costs ORDER BY movement_id"
    )
    assert [row.brand for row in rows] == ["RED", "RED", "BLUE", "RED"]
    assert await scalar(books.app, "SELECT bool_and(tied) FROM books.active_results")


async def test_goods_that_only_arrived_are_not_opened_with_nothing(books: Books) -> None:
    """February is costed for another item alone: nobody has told what BLUE has left of B."""
    for store in ("R1", "B1"):
        await books.move("opening", 10, store=store, value=1000, day=date(2026, 1, 1))
    await books.move("opening", 10, item="B", value=1000, day=date(2026, 1, 1))
    await books.move("transfer", 4, item="B", to_store="B1")
    await execute(
        books.app,
        "INSERT INTO books.periods (company, period, starts_on, ends_on)"
        " VALUES ('ACME', '2026-03', '2026-03-01', '2026-03-31')",
    )
    await books.cost(brand=None)
    await books.cost(FEBRUARY, brand=None, items=["A"])
    await books.move("receipt", 4, item="B", store="B1", value=4000, day=date(2026, 3, 2))
    result = await books.cost("2026-03", brand=None)
    assert [(each["brand"], each["code"]) for each in result["errors"]] == [
        ("BLUE", "OPENING_NOT_COSTED")
    ]


async def test_a_brand_that_goods_only_arrived_at_is_costed_in_its_order(books: Books) -> None:
    await books.move("opening", 10, value=1000, day=date(2026, 1, 1))
    await books.move("transfer", 4, to_store="B1")
    await books.cost()
    with pytest.raises(PermanentError) as refused:
        await books.cost(FEBRUARY, brand=None)
    assert refused.value.code == "PREVIOUS_PERIOD_NOT_COSTED"
    assert refused.value.details == {"brands": ["BLUE"], "period": JANUARY}


async def test_brands_that_were_tied_are_not_parted_by_a_run_of_one(books: Books) -> None:
    await _stock(books)
    await books.move("opening", 10, store="B1", value=3000, day=date(2026, 1, 1))
    await books.cost(brand=None, pool="company")
    parted = await books.cost(brand="RED", pool="brand")
    assert await _codes(books, parted) == {"A": "OUT_OF_SCOPE"}
    assert await books.closing() == [("B1", 10, 2000), ("R1", 10, 2000)]


async def test_what_is_made_takes_what_it_is_made_of(books: Books) -> None:
    await _stock(books, "AB")
    for item in "AB":
        await books.move("consume", 4, item=item, doc="P1")
    made = await books.move("produce", 2, item="C", doc="P1")
    sale = await books.move("issue", 1, item="C")
    result = await books.cost(chunk_movements=1)
    assert result["outcome"] == "completed"
    costs = await books.costs()
    assert (costs[made], costs[sale]) == (800, 400)


async def test_what_is_made_of_goods_without_cost_has_none(books: Books) -> None:
    await _stock(books, "A")
    await books.move("consume", 40, item="A", doc="P1")
    await books.move("produce", 2, item="C", doc="P1")
    result = await books.cost()
    assert await _codes(books, result) == {"A": "NEGATIVE_STOCK", "C": "SOURCE_NOT_COSTED"}


async def test_a_document_with_two_products_tells_no_cost(books: Books) -> None:
    await _stock(books, "A")
    await books.move("consume", 4, item="A", doc="P1")
    for item in "BC":
        await books.move("produce", 2, item=item, doc="P1")
    result = await books.cost()
    assert await _codes(books, result) == {"B": "MISSING_COST", "C": "MISSING_COST"}


async def test_choosing_a_product_chooses_what_it_is_made_of(books: Books) -> None:
    await _stock(books, "AD")
    await books.move("consume", 4, item="A", doc="P1")
    await books.move("produce", 2, item="C", doc="P1")
    result = await books.cost(items=["C"])
    query = "SELECT item FROM books.cost_run_items WHERE run_id = :run ORDER BY item"
    rows = await fetch(books.app, query, run=result["run_id"])
    assert [row.item for row in rows] == ["A", "C"]


async def test_layers_are_carried_into_the_next_period(books: Books) -> None:
    await books.costed_by("fifo")
    first = await books.move("receipt", 10, value=1000, day=date(2026, 1, 2))
    second = await books.move("receipt", 10, value=2000, day=date(2026, 1, 3))
    await books.move("issue", 4, day=date(2026, 1, 4))
    await books.cost()
    layers = await fetch(
        books.app,
        """SELECT number, qty, value, origin_movement_id, received_on FROM books.cost_layers
            ORDER BY number""",
    )
    assert [tuple(layer) for layer in layers] == [
        (1, 6, 600, first, date(2026, 1, 2)),
        (2, 10, 2000, second, date(2026, 1, 3)),
    ]
    sale = await books.move("issue", 8, day=FEBRUARY_DAY)
    await books.cost(FEBRUARY)
    assert (await books.costs(FEBRUARY))[sale] == 1000
    assert await books.closing(FEBRUARY) == [("R1", 8, 1600)]


@pytest.mark.parametrize("method", ["periodic_avg", "moving_avg", "fifo", "specific"])
async def test_what_is_owed_is_carried_into_the_next_period(books: Books, method: str) -> None:
    """Three left at 100 that nobody had: February's receipt at 150 covers them first."""
    await books.costed_by(method)
    lot = "L1" if method == "specific" else None
    await books.move("receipt", 2, value=200, lot=lot)
    await books.move("issue", 5, day=date(2026, 1, 20), lot=lot)
    await books.cost(negative="provisional")
    assert await books.closing() == [("R1", -3, -300)]
    await books.move("receipt", 10, value=1500, day=FEBRUARY_DAY, lot=lot)
    result = await books.cost(FEBRUARY, negative="provisional")
    assert await books.closing(FEBRUARY) == [("R1", 7, 1050)]
    assert result["values"]["true_up"] == "150"


@pytest.mark.parametrize("method", ["moving_avg", "fifo", "specific"])
async def test_a_pool_that_owes_may_be_merged_with_one_that_has(books: Books, method: str) -> None:
    """Three owed at 100 and five that cost 150: the new pool opens with two, worth 450."""
    await books.costed_by(method)
    lot = "L1" if method == "specific" else None
    for store in ("R1", "R2"):
        await books.pooled(store, store)
        await books.pooled(store, "both", since="2026-02-01")
    await books.move("receipt", 2, value=200, lot=lot)
    await books.move("issue", 5, day=date(2026, 1, 20), lot=lot)
    await books.move("receipt", 5, value=750, store="R2", lot=lot)
    await books.cost(negative="provisional")
    sale = await books.move("issue", 1, store="R2", day=FEBRUARY_DAY, lot=lot)
    await books.cost(FEBRUARY)
    assert (await books.costs(FEBRUARY))[sale] == 225


async def test_pools_that_merge_queue_their_layers_by_day(books: Books) -> None:
    await books.costed_by("fifo")
    for store, day in (("R1", 5), ("R2", 3)):
        await books.pooled(store, store)
        await books.move("receipt", 10, store=store, value=day * 1000, day=date(2026, 1, day))
        await books.pooled(store, "RED", since="2026-02-01")
    await books.cost()
    sale = await books.move("issue", 5, day=FEBRUARY_DAY)
    await books.cost(FEBRUARY)
    assert (await books.costs(FEBRUARY))[sale] == 1500


async def test_a_pool_that_splits_opens_with_a_layer_a_store(books: Books) -> None:
    await books.costed_by("fifo")
    await books.move("receipt", 10, value=1000, day=date(2026, 1, 2))
    await books.move("receipt", 10, store="R2", value=3000, day=date(2026, 1, 3))
    for store in ("R1", "R2"):
        await books.pooled(store, store, since="2026-02-01")
    await books.cost()
    left = {store: value for store, _, value in await books.closing()}
    sale = await books.move("issue", 10, store="R2", day=FEBRUARY_DAY)
    await books.cost(FEBRUARY)
    assert (await books.costs(FEBRUARY))[sale] == left["R2"]
    closing = [("R1", 10, left["R1"]), ("R2", 0, 0)]
    assert await books.closing(FEBRUARY) == closing


async def test_a_new_method_opens_with_one_layer_of_what_was_left(books: Books) -> None:
    await books.move("receipt", 10, value=1000, day=date(2026, 1, 2))
    await books.move("receipt", 10, value=3000, day=date(2026, 1, 3))
    await books.cost()
    await books.costed_by("fifo", since="2026-02-01")
    await books.move("receipt", 10, value=9000, day=date(2026, 2, 2))
    sale = await books.move("issue", 20, day=FEBRUARY_DAY)
    await books.cost(FEBRUARY)
    assert (await books.costs(FEBRUARY))[sale] == 4000


async def test_an_empty_pool_keeps_its_last_price_over_an_idle_period(books: Books) -> None:
    await execute(
        books.app,
        "INSERT INTO books.periods (company, period, starts_on, ends_on)"
        " VALUES ('ACME', '2026-03', '2026-03-01', '2026-03-31')",
    )
    await books.move("receipt", 10, value=1000)
    await books.move("issue", 10)
    await books.cost()
    await books.cost(FEBRUARY)
    sale = await books.move("issue", 2, day=date(2026, 3, 3))
    refused = await books.cost("2026-03")
    assert await _codes(books, refused) == {"A": "NEGATIVE_STOCK"}
    result = await books.cost("2026-03", negative="provisional")
    assert result["outcome"] == "completed"
    assert (await books.costs("2026-03"))[sale] == 200
    assert {"code": "NEGATIVE_AT_PERIOD_END", "pools": 1} in result["warnings"]


async def test_a_method_that_the_policy_does_not_name_is_refused(books: Books) -> None:
    await _stock(books, "AB")
    await books.costed_by("fifo", item="B")
    assert (await books.cost(method="fifo", items=["B"]))["outcome"] == "completed"
    with pytest.raises(PermanentError) as refused:
        await books.cost(method="periodic_avg")
    assert refused.value.code == "METHOD_MISMATCH"
    assert refused.value.details == {"method": "periodic_avg", "items": {"B": "fifo"}}
