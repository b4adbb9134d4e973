"""Which later results rest on numbers that have changed: item by item, and no further."""

import asyncio
from datetime import date

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.errors import Yield
from tests.costing_books import FEBRUARY, JANUARY, Books, open_books
from tests.factories import eventually, execute, expire_lease, fetch, scalar
from worker.context import JobContext
from worker.handlers import costing
from worker.handlers.costing import run_costing
from worker.records.activation import activate
from worker.records.cost_runs import CostRun
from worker.records.staleness import Aged

MARCH = "2026-03"
FEBRUARY_DAY = date(2026, 2, 3)
WAITS_FOR_A_GATE = """
    SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """Company ACME with items and three open periods."""
    assert company == "ACME"
    found = await open_books(engine, read_engine)
    await execute(
        found.app,
        "INSERT INTO books.periods (company, period, starts_on, ends_on)"
        " VALUES ('ACME', '2026-03', '2026-03-01', '2026-03-31')",
    )
    return found


async def _costed(books: Books, items: str = "AB") -> None:
    for item in items:
        await books.move("opening", 10, item=item, value=1000, day=date(2026, 1, 1))
    for period in (JANUARY, FEBRUARY, MARCH):
        await books.cost(period)


async def _stale(books: Books) -> list[tuple[str, str]]:
    query = "SELECT period, item FROM books.active_results WHERE stale ORDER BY period, item"
    return [(row.period, row.item) for row in await fetch(books.app, query)]


async def test_only_items_whose_closing_changed_make_later_periods_stale(books: Books) -> None:
    await _costed(books)
    await books.move("receipt", 10, item="A", value=5000)
    await books.cost()
    assert await _stale(books) == [(FEBRUARY, "A"), (MARCH, "A")]


async def test_a_rerun_that_closes_as_before_leaves_later_periods_alone(books: Books) -> None:
    await _costed(books)
    receipt = await books.move("receipt", 5, value=700)
    await books.move("receipt", 5, value=700, reverses=receipt)
    result = await books.cost()
    assert not any(w["code"] == "LATER_PERIODS_STALE" for w in result["warnings"])
    assert await _stale(books) == []


async def test_one_that_comes_back_to_the_old_closing_frees_them_again(books: Books) -> None:
    await _costed(books)
    receipt = await books.move("receipt", 5, value=700)
    await books.cost()
    assert await _stale(books) == [(FEBRUARY, "A"), (MARCH, "A")]
    await books.move("receipt", 5, value=700, reverses=receipt)
    result = await books.cost()
    assert {"code": "LATER_PERIODS_SOUND", "results": 2} in result["warnings"]
    assert await _stale(books) == []


async def test_periods_are_sound_again_in_their_order_and_what_rests_on_stale_is_stale(
    books: Books,
) -> None:
    await _costed(books, "A")
    await books.move("receipt", 5, value=700)
    await books.cost()
    warned = await books.cost(MARCH)
    assert {"code": "PREVIOUS_PERIOD_STALE", "period": FEBRUARY} in warned["warnings"]
    assert await _stale(books) == [(FEBRUARY, "A"), (MARCH, "A")]
    await books.cost(FEBRUARY)
    assert await _stale(books) == [(MARCH, "A")]
    await books.cost(MARCH)
    assert await _stale(books) == []


async def test_a_rerun_of_a_period_that_had_read_the_new_closing_frees_the_next(
    books: Books,
) -> None:
    """March is costed on a February that is stale; February's rerun comes to the same closing."""
    await _costed(books, "A")
    await books.move("receipt", 5, value=700)
    await books.move("receipt", 5, value=700, day=FEBRUARY_DAY)
    await books.cost()
    await books.cost(FEBRUARY)
    await books.cost(MARCH)
    assert await _stale(books) == []


async def test_failures_make_later_periods_stale_until_they_are_mended(books: Books) -> None:
    await _costed(books, "A")
    bad = await books.move("issue", 50)
    await books.cost()
    assert await _stale(books) == [(FEBRUARY, "A"), (MARCH, "A")]
    await books.cost(FEBRUARY)
    await books.cost(MARCH)
    await books.cost(JANUARY)
    assert await _stale(books) == [], "they failed as what they open with has failed"
    await books.move("issue", 50, reverses=bad)
    await books.cost()
    assert await _stale(books) == [(FEBRUARY, "A"), (MARCH, "A")]


async def _returned(books: Books) -> int:
    """A return in February of a sale that costs 101, or by another residue policy 100.

    Whatever the policy, January closes with the same quantity, value and price.
    """
    await books.move("receipt", 10, value=1004)
    sales = [await books.move("issue", 1) for _ in range(3)]
    await books.cost()
    return await books.move("sales_return", 1, ref=sales[1], day=FEBRUARY_DAY)


async def test_a_return_rests_on_the_cost_of_its_sale_even_when_the_closing_is_the_same(
    books: Books,
) -> None:
    back = await _returned(books)
    await books.cost(FEBRUARY)
    await books.cost(MARCH)
    assert (await books.costs(FEBRUARY))[back] == 101
    closing = await books.closing()
    await books.cost(residue="last_issue")
    assert await books.closing() == closing
    assert await _stale(books) == [(FEBRUARY, "A"), (MARCH, "A")]
    await books.cost()
    assert await _stale(books) == [(FEBRUARY, "A"), (MARCH, "A")], "until it is costed again"
    await books.cost(FEBRUARY, residue="last_issue")
    assert (await books.costs(FEBRUARY))[back] == 101
    assert await _stale(books) == []


async def test_a_run_that_keeps_what_it_cannot_cost_makes_nothing_stale(books: Books) -> None:
    """A has crossed to the other brand: a run of one brand leaves its result as it was."""
    await books.move("opening", 10, value=1000, day=date(2026, 1, 1))
    sale = await books.move("issue", 2)
    await books.move("transfer", 4, to_store="B1")
    await books.cost(brand=None)
    await books.move("sales_return", 1, ref=sale, day=FEBRUARY_DAY)
    await books.cost(FEBRUARY, brand=None)
    result = await books.cost(brand="RED")
    assert [each["code"] for each in result["errors"]] == ["OUT_OF_SCOPE"]
    assert await _stale(books) == []


async def test_brands_that_are_costed_together_are_stale_together(books: Books) -> None:
    """From February on they share a pool: RED's price rests on what BLUE opens with."""
    for store in ("R1", "B1"):
        await books.pooled(store, "both", since="2026-02-01", shared=True)
        await books.move("opening", 10, store=store, value=1000, day=date(2026, 1, 1))
    for period in (JANUARY, FEBRUARY, MARCH):
        await books.cost(period, brand=None)
    late = await books.move("receipt", 5, store="B1", value=700)
    await books.cost(brand="BLUE")
    stale = [(FEBRUARY, "A")] * 2 + [(MARCH, "A")] * 2
    assert await _stale(books) == stale
    await books.cost(MARCH, brand=None)
    assert await _stale(books) == stale, "February is no better yet"
    await books.move("receipt", 5, store="B1", value=700, reverses=late)
    await books.cost(brand="BLUE")
    assert await _stale(books) == []


async def test_a_sale_that_is_costed_anew_meanwhile_is_read_again(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    back = await _returned(books)
    settle = costing._settle

    async def january_first(context: JobContext, run: CostRun) -> object:
        monkeypatch.setattr(costing, "_settle", settle)
        await books.cost(residue="last_issue")
        return await settle(context, run)

    monkeypatch.setattr(costing, "_settle", january_first)
    result = await books.cost(FEBRUARY)
    assert result["recompute_rounds"] == 1
    assert (await books.costs(FEBRUARY))[back] == 100


async def test_the_last_price_of_an_empty_pool_is_part_of_what_it_leaves(books: Books) -> None:
    await books.move("receipt", 10, value=1000)
    await books.move("issue", 10)
    await books.cost()
    await books.cost(FEBRUARY)
    await books.move("landed_cost", 0, value=100)
    await books.cost()
    assert await books.closing() == [("R1", 0, 0)]
    assert await _stale(books) == [(FEBRUARY, "A")]


async def test_an_opening_whose_rows_are_gone_is_never_taken_for_nothing(books: Books) -> None:
    """January is costed twice more while February waits: the rows it began with are dropped."""
    for item in "AB":
        await books.move("opening", 10, item=item, value=1000, day=date(2026, 1, 1))
        await books.move("issue", 1, item=item, day=FEBRUARY_DAY)
    await books.cost()
    job = await books.submit(FEBRUARY, chunk_movements=1)
    context, payload = await books.claimed(job, draining=True)
    with pytest.raises(Yield):
        await run_costing(context, payload)
    await context.close()
    for _ in range(3):
        await books.cost()
    await expire_lease(books.app, job)
    await books.attempt(job)
    assert await books.closing(FEBRUARY, "B") == [("R1", 9, 900)]
    assert (await books.result(job))["recompute_rounds"] == 1
    redone = "SELECT opening_run_id FROM books.cost_run_items WHERE run_id = :run ORDER BY item"
    run = (await books.result(job))["run_id"]
    first, second = [row.opening_run_id for row in await fetch(books.app, redone, run=run)]
    assert first < second, "what was read before, and closes as before, is not read again"


async def test_late_movements_are_forgotten_by_the_run_that_has_read_them(books: Books) -> None:
    await _costed(books)
    for item in "AB":
        await books.move("receipt", 1, item=item, value=1)
    await books.cost(items=["A"])
    late = await fetch(books.app, "SELECT item FROM books.late_movements")
    assert [row.item for row in late] == ["B"]
    await books.cost(items=["@dirty"])
    assert await scalar(books.app, "SELECT count(*) FROM books.late_movements") == 0


@pytest.mark.parametrize("costed", [(JANUARY, FEBRUARY, MARCH), (JANUARY, FEBRUARY)])
async def test_a_rerun_of_january_sees_a_march_that_is_being_activated(
    books: Books, costed: tuple[str, ...]
) -> None:
    """Between them lies a period; without the later gates March would come out sound.

    Also of a March that nobody has costed before.
    """
    await books.move("opening", 10, value=1000, day=date(2026, 1, 1))
    for period in costed:
        await books.cost(period)
    await books.move("receipt", 5, value=700)
    entered, leave = asyncio.Event(), asyncio.Event()
    march = await books.submit(MARCH)
    context, payload = await books.claimed(march)

    async def slowly(conn: AsyncConnection, run: CostRun, fence: int) -> Aged:
        aged = await activate(conn, run, fence)
        if run.period == MARCH:
            entered.set()
            await leave.wait()
        return aged

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("worker.handlers.costing.activate", slowly)
        last = asyncio.create_task(run_costing(context, payload))
        await entered.wait()
        first = asyncio.create_task(books.cost())
        await eventually(lambda: scalar(books.app, WAITS_FOR_A_GATE))
        leave.set()
        await asyncio.gather(last, first)
    assert await _stale(books) == [(FEBRUARY, "A"), (MARCH, "A")]


async def test_ten_reruns_keep_the_rows_of_two(books: Books) -> None:
    await _costed(books)
    size = """SELECT (SELECT count(*) FROM books.movement_costs)
                   + (SELECT count(*) FROM books.cost_run_items)
                   + (SELECT count(*) FROM books.pool_results)
                   + (SELECT count(*) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhparent
                       WHERE c.relname IN ('movement_costs', 'store_balances', 'cost_layers'))"""
    sizes = []
    for _ in range(10):
        await books.cost()
        sizes.append(await scalar(books.app, size))
    assert sizes[1:] == [sizes[1]] * 9
