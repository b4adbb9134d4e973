"""A costing job from its first claim to results that readers see."""

from datetime import date, timedelta

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from dev.cost_report import OPENING_AND_IN, active_run, conservation, coverage, store_rows
from dev.demo_screen import net_totals
from dev.sample_company import load_sample
from shared.errors import LeaseLost, PermanentError, Yield
from tests.costing_books import FEBRUARY, JANUARY, Books, open_books
from tests.factories import execute, expire_lease, fetch, scalar
from worker.context import CleanupContext, JobContext
from worker.handlers import costing
from worker.handlers.costing import clean_up_costing, run_costing
from worker.records.cost_runs import CostRun

FEBRUARY_DAY = date(2026, 2, 3)


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """Company ACME with items and two open periods."""
    assert company == "ACME"
    return await open_books(engine, read_engine)


async def _stock(books: Books, items: str = "ABC") -> None:
    for item in items:
        await books.move("opening", 10, item=item, value=1000, day=date(2026, 1, 1))
        await books.move("receipt", 10, item=item, value=1400)
        await books.move("issue", 5, item=item)


async def test_a_run_costs_its_brand_and_shows_the_result_at_once(books: Books) -> None:
    opening = await books.move("opening", 10, value=1000)
    transfer = await books.move("transfer", 4, to_store="R2")
    sale = await books.move("issue", 3, store="R2")
    back = await books.move("sales_return", 1, store="R2", ref=sale)
    other = await books.move("opening", 1, store="B1", value=7)
    result = await books.cost()
    assert result["outcome"] == "completed"
    assert result["values"]["cogs"] == "200"
    assert await books.costs() == {opening: 1000, transfer: 400, sale: 300, back: 100}
    assert await books.closing() == [("R1", 6, 600), ("R2", 2, 200)]
    await books.cost(brand=None)
    assert (await books.costs())[other] == 7


async def test_an_item_that_fails_names_its_movement_and_stops_no_other(books: Books) -> None:
    await _stock(books)
    bad = await books.move("issue", 50, item="B")
    result = await books.cost()
    assert result["outcome"] == "completed_with_errors"
    assert result["items"] == {"total": 3, "costed": 2, "failed": 1}
    (error,) = result["errors"]
    assert (error["item"], error["code"], error["movement_ids"]) == ("B", "NEGATIVE_STOCK", [bad])
    assert await books.closing(item="B") == []
    assert await books.closing(item="C") == [("R1", 15, 1800)]


async def test_a_transfer_between_brands_is_refused_on_both_sides(books: Books) -> None:
    await _stock(books, "AB")
    crossing = await books.move("transfer", 1, to_store="B1")
    for brand in ("RED", "BLUE"):
        result = await books.cost(brand=brand)
        (error,) = result["errors"]
        assert error["code"] == "OUT_OF_SCOPE"
        assert error["movement_ids"] == [crossing]
    assert await books.closing(item="B") == [("R1", 15, 1800)]


async def test_one_pool_a_store_gives_each_store_its_own_price(books: Books) -> None:
    await books.move("opening", 10, value=1000)
    await books.move("opening", 10, store="R2", value=3000)
    sale = await books.move("issue", 1)
    await books.cost(pool="store")
    assert (await books.costs())[sale] == 100
    await books.cost()
    assert (await books.costs())[sale] == 200


async def test_the_pool_map_in_force_on_the_first_day_decides(books: Books) -> None:
    await books.move("opening", 10, value=1000)
    await books.move("opening", 10, store="R2", value=3000)
    sale = await books.move("issue", 1, store="R2")
    await execute(
        books.app,
        "INSERT INTO books.cost_pool_map VALUES ('ACME', 'R2', '2026-01-01', 'outlet'),"
        " ('ACME', 'R2', '2026-01-02', 'RED')",
    )
    await books.cost()
    assert (await books.costs())[sale] == 300


async def test_the_next_period_opens_with_what_this_one_left(books: Books) -> None:
    await _stock(books, "A")
    await books.cost()
    sale = await books.move("issue", 5, day=FEBRUARY_DAY)
    result = await books.cost(FEBRUARY)
    assert result["values"]["opening"] == "1800"
    assert (await books.costs(FEBRUARY))[sale] == 600
    assert await books.closing(FEBRUARY) == [("R1", 10, 1200)]


async def test_an_item_without_movements_is_carried_forward(books: Books) -> None:
    await _stock(books, "A")
    await books.cost()
    await books.cost(FEBRUARY)
    assert await books.closing(FEBRUARY) == [("R1", 15, 1800)]


async def test_a_period_whose_past_nobody_costed_is_refused(books: Books) -> None:
    await _stock(books, "A")
    await books.move("issue", 5, day=FEBRUARY_DAY)
    with pytest.raises(PermanentError) as refused:
        await books.cost(FEBRUARY)
    assert refused.value.code == "PREVIOUS_PERIOD_NOT_COSTED"


async def test_a_failed_item_fails_the_next_period_too_instead_of_opening_at_zero(
    books: Books,
) -> None:
    await _stock(books, "AB")
    await books.move("issue", 50, item="B")
    await books.cost()
    result = await books.cost(FEBRUARY)
    assert [error["code"] for error in result["errors"]] == ["OPENING_NOT_COSTED"]


@pytest.mark.scenario("F51")
async def test_a_rerun_supersedes_and_marks_later_periods_stale(books: Books) -> None:
    await _stock(books, "A")
    first = await books.cost()
    await books.cost(FEBRUARY)
    await books.move("receipt", 10, value=5000)
    second = await books.cost()
    assert {"code": "LATER_PERIODS_STALE", "results": 1} in second["warnings"]
    status = await scalar(
        books.app, "SELECT status FROM books.cost_runs WHERE id = :id", id=first["run_id"]
    )
    assert status == "superseded"
    third = await books.cost(FEBRUARY)
    assert third["values"]["opening"] == second["values"]["closing"]
    assert not any(w["code"] == "PREVIOUS_PERIOD_STALE" for w in third["warnings"])


async def test_rows_of_a_superseded_run_are_dropped_by_partition(books: Books) -> None:
    await _stock(books, "A")
    first = await books.cost()
    await books.cost()
    await books.cost()
    gone = f"to_regclass('books.movement_costs_r{first['run_id']}')"
    assert await scalar(books.app, f"SELECT {gone}") is None
    assert len(await books.costs()) == 3


async def test_a_run_that_speaks_for_items_cannot_be_dropped(books: Books) -> None:
    await _stock(books, "A")
    result = await books.cost()
    with pytest.raises(Exception, match="RUN_IN_USE"):
        await execute(books.app, "SELECT books.drop_run_storage(:run)", run=result["run_id"])


async def test_checksum_does_not_depend_on_chunks_or_on_where_it_was_resumed(books: Books) -> None:
    await _stock(books, "ABCD")
    await books.move("issue", 50, item="D")
    whole = await books.cost()
    small = await books.cost(chunk_movements=1)
    job = await books.submit(chunk_movements=1)
    with pytest.raises(Yield):
        await books.attempt(job, draining=True)
    await expire_lease(books.app, job)
    await books.attempt(job)
    resumed = await books.result(job)
    assert whole["checksum"] == small["checksum"] == resumed["checksum"]
    assert whole["values"] == resumed["values"]


async def test_a_takeover_goes_on_after_the_last_committed_chunk(books: Books) -> None:
    await _stock(books, "ABCD")
    job = await books.submit(chunk_movements=1)
    with pytest.raises(Yield):
        await books.attempt(job, draining=True)
    done = "SELECT item FROM books.cost_run_items WHERE done"
    assert [row.item for row in await fetch(books.app, done)] == ["A"]
    before = await fetch(books.app, "SELECT xmin FROM books.pool_results WHERE item = 'A'")
    await expire_lease(books.app, job)
    await books.attempt(job)
    after = await fetch(books.app, "SELECT xmin FROM books.pool_results WHERE item = 'A'")
    assert before == after
    assert await scalar(books.app, "SELECT count(*) FROM books.cost_runs") == 1


async def test_a_zombie_writes_no_chunk_and_activates_nothing(books: Books) -> None:
    await _stock(books, "AB")
    job = await books.submit(chunk_movements=1)
    zombie, payload = await books.claimed(job)
    await expire_lease(books.app, job)
    owner, _ = await books.claimed(job)
    with pytest.raises(LeaseLost):
        await run_costing(zombie, payload)
    assert await scalar(books.app, "SELECT count(*) FROM books.cost_runs") == 0
    await run_costing(owner, payload)
    assert len(await books.costs()) == 6


async def test_a_period_closed_before_the_claim_changes_nothing(books: Books) -> None:
    await _stock(books, "A")
    job = await books.submit()
    await execute(books.app, "UPDATE books.periods SET status = 'closed' WHERE period = '2026-01'")
    with pytest.raises(PermanentError) as refused:
        await books.attempt(job)
    assert refused.value.code == "PERIOD_CLOSED"
    assert await scalar(books.app, "SELECT count(*) FROM books.cost_runs") == 0


async def test_an_unknown_period_is_refused_for_good(books: Books) -> None:
    with pytest.raises(PermanentError) as refused:
        await books.cost("2031-12")
    assert refused.value.code == "PERIOD_UNKNOWN"


async def test_a_period_closed_while_it_was_costed_is_not_activated(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _stock(books, "A")
    settle = costing._settle

    async def settle_then_close(context: JobContext, run: CostRun) -> object:
        settled = await settle(context, run)
        sql = "UPDATE books.periods SET status = 'closed' WHERE period = '2026-01'"
        await execute(books.app, sql)
        return settled

    monkeypatch.setattr(costing, "_settle", settle_then_close)
    job = await books.submit()
    with pytest.raises(PermanentError) as refused:
        await books.attempt(job)
    assert refused.value.code == "PERIOD_CLOSED"
    assert await books.costs() == {}


@pytest.mark.scenario("F51")
@pytest.mark.parametrize("moment", ["_settle", "_complete"])
async def test_a_movement_that_arrives_during_the_run_is_neither_lost_nor_halved(
    books: Books, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """ERPNext #56950: a voucher submitted while a repost was pending lost its rows."""
    await _stock(books, "AB")
    step = getattr(costing, moment)
    arrived: list[int] = []

    async def arrive_first(*arguments: object) -> object:
        if not arrived:
            arrived.append(await books.move("receipt", 5, item="B", value=1000))
            arrived.append(await books.move("opening", 5, item="D", value=50))
        return await step(*arguments)

    monkeypatch.setattr(costing, moment, arrive_first)
    result = await books.cost()
    assert result["recompute_rounds"] == 1
    assert set(arrived) <= set(await books.costs())
    assert await books.closing(item="B") == [("R1", 20, 2720)]
    monkeypatch.undo()
    assert (await books.cost())["checksum"] == result["checksum"]


async def test_a_smaller_id_that_commits_later_is_found(books: Books) -> None:
    """A watermark of the largest id would lose it; the snapshot does not."""
    await _stock(books, "A")
    insert = text("""
        INSERT INTO books.stock_movements (company, brand, item, store, kind, doc_id, doc_line,
               posting_date, qty_base, value)
        VALUES ('ACME', 'RED', 'A', 'R1', 'receipt', 'T', 1, '2026-01-05', 5, 1000) RETURNING id""")
    job = await books.submit(chunk_movements=1)
    async with books.app.begin() as writer:
        late = (await writer.execute(insert)).scalar_one()
        later = await books.move("issue", 1)
        assert late < later
        with pytest.raises(Yield):
            await books.attempt(job, draining=True)
    await expire_lease(books.app, job)
    await books.attempt(job)
    assert {late, later} <= set(await books.costs())
    assert (await books.result(job))["recompute_rounds"] == 1


async def test_an_opening_that_changed_during_the_run_is_read_again(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _stock(books, "A")
    await books.cost()
    settle = costing._settle
    rerun: list[bool] = []

    async def rerun_january_first(context: JobContext, run: CostRun) -> object:
        if not rerun:
            rerun.append(True)
            monkeypatch.setattr(costing, "_settle", settle)
            await books.move("receipt", 15, value=1800 * 2)
            await books.cost(JANUARY)
        return await settle(context, run)

    monkeypatch.setattr(costing, "_settle", rerun_january_first)
    result = await books.cost(FEBRUARY)
    assert result["recompute_rounds"] == 1
    january = await books.closing(JANUARY)
    assert await books.closing(FEBRUARY) == january


async def test_cleanup_removes_the_half_built_run_and_is_idempotent(books: Books) -> None:
    await _stock(books, "AB")
    job = await books.submit(chunk_movements=1)
    context, payload = await books.claimed(job, draining=True)
    with pytest.raises(Yield):
        await run_costing(context, payload)
    for _ in range(2):
        async with books.app.begin() as conn:
            await clean_up_costing(
                CleanupContext(job=context.job, checkpoint=None, connection=conn)
            )
    assert await scalar(books.app, "SELECT count(*) FROM books.movement_costs") == 0
    assert await scalar(books.app, "SELECT status FROM books.cost_runs") == "failed"


async def test_late_returns_come_back_at_what_their_sale_had_cost(books: Books) -> None:
    await books.move("opening", 10, value=1000)
    sale = await books.move("issue", 3)
    early = await books.move("sales_return", 1, ref=sale)
    await books.cost()
    assert (await books.costs())[early] == 100
    await books.move("receipt", 10, value=9000, day=FEBRUARY_DAY)
    late = await books.move("sales_return", 2, ref=sale, day=FEBRUARY_DAY)
    too_much = await books.move("sales_return", 1, ref=sale, day=FEBRUARY_DAY + timedelta(1))
    result = await books.cost(FEBRUARY)
    (error,) = result["errors"]
    assert (error["code"], error["movement_ids"]) == ("RETURN_EXCEEDS_ISSUE", [too_much])
    await books.move(
        "sales_return", 1, ref=sale, day=FEBRUARY_DAY + timedelta(1), reverses=too_much
    )
    await books.cost(FEBRUARY)
    assert (await books.costs(FEBRUARY))[late] == 200


async def test_the_sample_company_is_costed_whole_and_proves_it(books: Books) -> None:
    summary = await load_sample(books.app, seed=3, movements=6_000)
    assert summary.movements == 6_000
    assert (await load_sample(books.app, seed=3, movements=6_000)).existed
    result = await books.cost(company="SAMPLE", brand=None, chunk_movements=1_500)
    assert result["outcome"] == "completed"
    async with books.engines.read.connect() as conn:
        run_id = await active_run(conn, "SAMPLE", JANUARY)
        assert run_id is not None
        assert run_id == result["run_id"]
        assert (await coverage(conn, run_id)).exact
        proof = await conservation(conn, run_id)
        rows = await store_rows(conn, run_id)
    assert proof.holds
    (shown,) = (each for each in proof.balances if each.what.startswith(OPENING_AND_IN))
    total = net_totals(rows)
    assert total["v_opening"] + total["v_incoming"] == shown.left
    assert sum(row.v_transfer_in for row in rows) > 0
    assert len(rows) == summary.stores
    assert all(
        row.v_opening + row.v_incoming + row.v_averaging == row.v_outgoing + row.v_closing
        for row in rows
    )
