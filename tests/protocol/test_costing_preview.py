"""A preview computes what a run would, shows the differences, and publishes nothing."""

from datetime import date
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.kinds.costing import COSTING_PREVIEW
from tests.costing_books import FEBRUARY, JANUARY, Books, open_books
from tests.factories import execute, fetch, scalar

PREVIEW = COSTING_PREVIEW.name
PUBLISHED = """
    SELECT jsonb_build_object(
        'active', (SELECT jsonb_agg(to_jsonb(a) ORDER BY a.period, a.brand, a.item)
                     FROM books.active_results a),
        'late', (SELECT count(*) FROM books.late_movements),
        'runs', (SELECT jsonb_agg(jsonb_build_array(r.id, r.status) ORDER BY r.id)
                   FROM books.cost_runs r WHERE NOT r.dry_run))"""
# Debits less credits by account, as readers see them.
BOOKED = """
    SELECT x.account, sum(x.amount) AS amount
      FROM books.active_results a
      JOIN books.pool_results p ON p.run_id = a.run_id AND p.brand = a.brand AND p.item = a.item
     CROSS JOIN LATERAL (VALUES
           ('1561', CAST(p.v_closing AS numeric)),
           ('632', CAST(p.v_issue AS numeric) - p.v_sales_return + p.v_variance + p.v_rounding
                   + p.v_true_up),
           ('1381', p.v_usage), ('3381', -p.v_gain), ('331', p.v_purchase_return - p.v_receipt))
           AS x (account, amount)
     WHERE a.period = :period AND a.item = :item AND NOT a.failed
     GROUP BY x.account"""


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """Company ACME with items and two open periods."""
    assert company == "ACME"
    return await open_books(engine, read_engine)


async def _stock(books: Books, items: str = "AB") -> None:
    for item in items:
        await books.move("opening", 10, item=item, value=1000, day=date(2026, 1, 1))
        await books.move("issue", 4, item=item)


async def _booked(books: Books, item: str) -> dict[str, int]:
    rows = await fetch(books.app, BOOKED, period=JANUARY, item=item)
    return {row.account: int(row.amount) for row in rows}


async def _differences(books: Books, run: int) -> dict[tuple[str, str], tuple[int, int]]:
    query = "SELECT item, account, before, after FROM books.cost_differences WHERE run_id = :run"
    rows = await fetch(books.app, query, run=run)
    return {(row.item, row.account): (int(row.before), int(row.after)) for row in rows}


async def test_a_preview_publishes_nothing(books: Books) -> None:
    await _stock(books)
    await books.cost()
    await books.cost(FEBRUARY)
    await books.move("receipt", 10, item="A", value=5000)
    before = await scalar(books.app, PUBLISHED)
    await books.cost(kind=PREVIEW)
    assert await scalar(books.app, PUBLISHED) == before


async def test_its_differences_are_what_a_run_then_changes(books: Books) -> None:
    await _stock(books)
    await books.cost()
    await books.move("receipt", 10, item="A", value=5000)
    await books.move("adjust_out", 2, item="B")
    before = {item: await _booked(books, item) for item in "AB"}
    preview = await books.cost(kind=PREVIEW)
    shown = await _differences(books, preview["run_id"])
    run = await books.cost()
    changed = {}
    for item in "AB":
        after = await _booked(books, item)
        for account in before[item] | after:
            pair = (before[item].get(account, 0), after.get(account, 0))
            if pair[0] != pair[1]:
                changed[item, account] = pair
    assert shown == changed
    assert shown["A", "632"] == (400, 1200)
    assert preview["checksum"] == run["checksum"]
    by_account = {each["account"]: each["difference"] for each in preview["differences"]}
    assert by_account["632"] == str(sum(a - b for (_, n), (b, a) in shown.items() if n == "632"))


async def test_the_accounts_are_the_companys_own(books: Books) -> None:
    await _stock(books, "A")
    await execute(
        books.app, "INSERT INTO books.account_roles VALUES ('ACME', 'cost_of_sales', '6321')"
    )
    preview = await books.cost(kind=PREVIEW)
    assert await _differences(books, preview["run_id"]) == {
        ("A", "1561"): (0, 600),
        ("A", "6321"): (0, 400),
    }


async def test_it_counts_what_cannot_be_costed_by_code(books: Books) -> None:
    await _stock(books)
    await books.cost()
    await books.move("issue", 50, item="B")
    preview = await books.cost(kind=PREVIEW)
    assert preview["outcome"] == "completed_with_errors"
    assert preview["errors_by_code"] == {"NEGATIVE_STOCK": 1}
    assert (await _differences(books, preview["run_id"]))["B", "1561"] == (600, 0)
    assert await books.closing(item="B") == [("R1", 6, 600)]


async def test_of_some_items_it_compares_these_alone(books: Books) -> None:
    await _stock(books)
    await books.cost()
    for item in "AB":
        await books.move("receipt", 10, item=item, value=5000)
    preview = await books.cost(kind=PREVIEW, items=["A"])
    assert {item for item, _ in await _differences(books, preview["run_id"])} == {"A"}


DROPPED = "SELECT to_regclass('books.movement_costs_r' || CAST(:run AS bigint)) IS NULL"


async def test_its_rows_go_when_it_ends_and_its_findings_with_the_next_preview(
    books: Books,
) -> None:
    await _stock(books)
    first = (await books.cost(kind=PREVIEW))["run_id"]
    assert await scalar(books.app, DROPPED, run=first)
    await books.cost()
    assert await _differences(books, first)
    await books.cost(kind=PREVIEW)
    assert not await _differences(books, first)


async def test_rows_that_somebody_reads_are_left_to_the_next_job(books: Books) -> None:
    await _stock(books)
    async with books.engines.read.begin() as reader:
        await reader.execute(text("SELECT count(*) FROM books.movement_costs"))
        preview = await books.cost(kind=PREVIEW)
    assert not await scalar(books.app, DROPPED, run=preview["run_id"])
    await books.cost()
    assert await scalar(books.app, DROPPED, run=preview["run_id"])


async def test_a_closed_period_can_be_looked_at(books: Books) -> None:
    await _stock(books)
    await books.cost()
    await execute(books.app, "UPDATE books.periods SET status = 'closed' WHERE period = '2026-01'")
    preview: dict[str, Any] = await books.cost(kind=PREVIEW)
    assert preview["differences"] == []


async def test_it_does_not_wait_for_a_run_of_the_period(books: Books) -> None:
    await _stock(books)
    await books.claimed(await books.submit())
    assert (await books.cost(kind=PREVIEW))["outcome"] == "completed"
