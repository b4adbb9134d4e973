"""Costing from outside: nothing is worth nothing, and what comes late is never half in a result."""

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.jobs.enqueue import Submit, enqueue
from shared.types import JobId
from tests.costing_books import JANUARY, Books, open_books
from tests.factories import eventually, execute, fetch, job_row, scalar
from tests.fleet import Fleet
from tests.journeys.looking import error_of, reached, result_of

COSTING = {"CHOT_QUEUES": "costing"}
MANY = 300

# (company, item, qty_scale, (quantity, minor units; None for an issue) in order of date), quantities
# scaled. VND has no minor digits: 10 @1.46 are 15 đồng and 2 @1.46 are 3. TWO has two. What goes out
# before all of it has come (V1, D3) leaves the stock negative for a day.
Moves = tuple[tuple[int, int | None], ...]
DRAINED: tuple[tuple[str, str, int, Moves], ...] = (
    ("ACME", "V1", 0, ((10, 15), (12, None), (2, 3))),
    ("TWO", "D1", 0, ((2, 200), (1, 101), (3, None))),
    ("TWO", "D2", 1, ((20, 926), (50, 1520), *((1, None),) * 70)),
    ("TWO", "D3", 0, ((10, 1460), (12, None), (2, 292))),
)
COMPANY_TWO = (
    "INSERT INTO books.companies VALUES ('TWO', 'Two digits', 'USD', 2)",
    "INSERT INTO books.brands (company, code, name) VALUES ('TWO', 'RED', 'Red')",
    "INSERT INTO books.stores (company, code, brand, name) VALUES ('TWO', 'R1', 'RED', 'One')",
    """INSERT INTO books.periods (company, period, starts_on, ends_on)
       VALUES ('TWO', '2026-01', '2026-01-01', '2026-01-31')""",
)
ITEM = """
    INSERT INTO books.items (company, code, name, base_uom, qty_scale)
    VALUES (:company, :item, :item, 'cái', :scale)"""
MOVEMENT = """
    INSERT INTO books.stock_movements (company, brand, item, store, to_brand, to_store, kind,
           doc_id, doc_line, posting_date, posting_seq, qty_base, value)
    VALUES (:company, 'RED', :item, 'R1', :to_brand, :to_store, :kind, 'T', 1, :day, :seq, :qty,
           :value)"""
MANY_ITEMS = """
    INSERT INTO books.items (company, code, name, base_uom)
    SELECT 'ACME', 'M' || n, 'M' || n, 'cái' FROM generate_series(1, CAST(:many AS integer)) n"""
MANY_MOVEMENTS = """
    INSERT INTO books.stock_movements (company, brand, item, store, kind, doc_id, doc_line,
           posting_date, posting_seq, qty_base, value)
    SELECT 'ACME', 'RED', 'M' || n, 'R1', k.kind, 'T', 1, '2026-01-15', k.seq, k.qty, k.value
      FROM generate_series(1, CAST(:many AS integer)) n,
           (VALUES ('opening', 1, 10, 1003), ('receipt', 2, 7, 997), ('issue', 3, 5, NULL))
           AS k (kind, seq, qty, value)"""
SEEN = """
    SELECT m.id, m.qty_base, c.value FROM books.stock_movements m
      LEFT JOIN books.active_movement_costs c ON c.movement_id = m.id ORDER BY m.id"""


async def move(app: AsyncEngine, kind: str, qty: int, **more: Any) -> None:
    """Post one movement in a transaction of its own."""
    binds = {"company": "ACME", "seq": 0, "value": None, "day": date(2026, 1, 5)}
    binds |= {"to_brand": None, "to_store": None, "kind": kind, "qty": qty}
    await execute(app, MOVEMENT, **(binds | more))


async def submit(app: AsyncEngine, company: str, **payload: Any) -> JobId:
    """Submit a costing of January for brand RED."""
    job = Submit(
        kind="costing.run", company=company, brand="RED", payload={"period": JANUARY} | payload
    )
    async with app.begin() as conn:
        return (await enqueue(conn, job)).job_id


@pytest.fixture
async def books(probes: AsyncEngine, read_engine: AsyncEngine, owner_engine: AsyncEngine) -> Books:
    """Company ACME in đồng, company TWO in cents, January open in both."""
    async with owner_engine.begin() as conn:
        for statement in COMPANY_TWO:
            await conn.execute(text(statement))
    return await open_books(probes, read_engine)


@pytest.mark.scenario("F51", "F46")
async def test_a_drained_pool_is_worth_exactly_nothing(books: Books, fleet: Fleet) -> None:
    """F51, first two steps; F46, second: zero quantity has a defined value, or a defined error.

    Stock that is negative between two days of the period is warned of, and costs no value.
    """
    for company, item, scale, moves in DRAINED:
        await execute(books.app, ITEM, company=company, item=item, scale=scale)
        for seq, (qty, value) in enumerate(moves):
            kind, day = "issue" if value is None else "receipt", date(2026, 1, 5 + min(seq, 20))
            more = {"company": company, "item": item, "seq": seq, "value": value, "day": day}
            await move(books.app, kind, qty, **more)
    # Freight on goods that never came: no quantity in the whole period to carry its value.
    await execute(books.app, ITEM, company="ACME", item="ZERO", scale=0)
    await move(books.app, "landed_cost", 0, item="ZERO", value=500)
    fleet.worker(**COSTING)
    results = {}
    for company in ("ACME", "TWO"):
        job_id = await submit(books.app, company)
        await reached(books.app, job_id, "succeeded")
        results[company] = await result_of(books.app, job_id)
    for company, item, _, moves in DRAINED:
        await _is_drained(books.app, company, item, moves)
    dipped = {"code": "NEGATIVE_WITHIN_PERIOD", "pools": 1}
    assert all(dipped in result["warnings"] for result in results.values()), "V1, and D3"
    assert [(e["item"], e["code"]) for e in results["ACME"]["errors"]] == [("ZERO", "ORPHAN_VALUE")]
    assert results["ACME"]["outcome"] == "completed_with_errors"
    assert results["TWO"]["outcome"] == "completed"
    assert results["TWO"]["values"]["closing"] == "0.00"
    cents = sum(value or 0 for c, _, _, moves in DRAINED if c == "TWO" for _, value in moves)
    assert Decimal(results["TWO"]["values"]["issue"]) == Decimal(cents) / 100


async def _is_drained(app: AsyncEngine, company: str, item: str, moves: Moves) -> None:
    named = {"company": company, "item": item}
    closing = await fetch(
        app,
        """SELECT b.q_closing, b.v_closing FROM books.active_results a
             JOIN books.store_balances b
               ON b.run_id = a.run_id AND b.brand = a.brand AND b.item = a.item
            WHERE a.company = :company AND a.item = :item AND NOT a.failed""",
        **named,
    )
    assert closing == [(0, 0)], item
    issued = await fetch(
        app,
        """SELECT c.value FROM books.active_movement_costs c
             JOIN books.stock_movements m ON m.id = c.movement_id
            WHERE m.company = :company AND m.item = :item AND m.kind = 'issue'""",
        **named,
    )
    assert len(issued) == sum(value is None for _, value in moves)
    assert sum(row.value for row in issued) == sum(value or 0 for _, value in moves), item


@pytest.mark.scenario("F51")
async def test_what_arrives_during_a_run_is_in_it_whole(books: Books, fleet: Fleet) -> None:
    """F51, third step: a back-dated receipt and a transfer, while the run is active.

    It goes on under a newer snapshot, which its row names: what a reader gets is of one moment.
    """
    await execute(books.app, MANY_ITEMS, many=MANY)
    await execute(books.app, MANY_MOVEMENTS, many=MANY)
    fleet.worker(**COSTING)
    job_id = await submit(books.app, "ACME", chunk_movements=1)

    async def well_begun() -> bool:
        return ((await job_row(books.app, job_id)).progress_done or 0) > 0

    await eventually(well_begun, every=0.01)
    await move(books.app, "receipt", 9, item="M1", value=5003)
    await move(books.app, "transfer", 2, item=f"M{MANY}", to_brand="RED", to_store="R2")
    row = await job_row(books.app, job_id)
    assert row.state == "running", "they came while it ran"
    await reached(books.app, job_id, "succeeded", seconds=60)
    result = await result_of(books.app, job_id)
    assert result["recompute_rounds"] >= 1
    unseen = await scalar(
        books.app,
        """SELECT count(*) FROM books.stock_movements m, books.cost_runs r
            WHERE r.id = :run AND NOT pg_visible_in_snapshot(m.xid, r.snapshot)""",
        run=result["run_id"],
    )
    assert unseen == 0, "the snapshot that the run names holds both"
    first = await fetch(books.app, SEEN)
    assert all(each.value is not None for each in first), "every movement has its cost"
    again = await submit(books.app, "ACME", chunk_movements=10_000)
    await reached(books.app, again, "succeeded", seconds=60)
    repeated = await result_of(books.app, again)
    assert await fetch(books.app, SEEN) == first, "two runs on the same data give equal rows"
    assert repeated["checksum"] == result["checksum"]
    assert repeated["values"] == result["values"]
    assert repeated["recompute_rounds"] == 0


@pytest.mark.scenario("F51")
async def test_what_arrives_after_a_run_makes_the_later_results_stale(
    books: Books, fleet: Fleet
) -> None:
    """F51: a late receipt in January, once February has been costed on January's closing."""
    await execute(books.app, MANY_ITEMS, many=2)
    await execute(books.app, MANY_MOVEMENTS, many=2)
    fleet.worker(**COSTING)
    for period in (JANUARY, "2026-02"):
        job_id = await submit(books.app, "ACME", period=period)
        await reached(books.app, job_id, "succeeded")
    await move(books.app, "receipt", 3, item="M1", value=4000)
    job_id = await submit(books.app, "ACME")
    await reached(books.app, job_id, "succeeded")
    warnings = (await result_of(books.app, job_id))["warnings"]
    assert {"code": "LATER_PERIODS_STALE", "results": 1} in warnings
    stale = await fetch(
        books.app, "SELECT item FROM books.active_results WHERE period = '2026-02' AND stale"
    )
    assert [row.item for row in stale] == ["M1"], "all whose opening is another one now, no more"


@pytest.mark.scenario("F46")
async def test_a_costing_that_cannot_be_is_one_failure(books: Books, fleet: Fleet) -> None:
    """F46: a clear error in one step, nothing half written, and the worker goes on."""
    worker = fleet.worker(**COSTING)
    job_id = await submit(books.app, "ACME", period="2031-12")
    row = await reached(books.app, job_id, "dead")
    assert (row.attempt, (await error_of(books.app, job_id))["code"]) == (1, "PERIOD_UNKNOWN")
    assert await scalar(books.app, "SELECT count(*) FROM books.cost_runs") == 0
    assert worker.alive
