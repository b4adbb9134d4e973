"""Close and reopen against everybody else at once: writers, cost runs, each other."""

import asyncio
from functools import partial
from time import monotonic
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import sqlstate_of
from shared.errors import PermanentError
from shared.periods import LaterClosed, PeriodKey, reopen
from shared.types import JobId
from tests.costing_books import FEBRUARY, JANUARY, Books, open_books
from tests.factories import autocommit, eventually, execute, fetch, scalar
from tests.period_books import (
    CLOSER,
    after,
    ask,
    attempt,
    claimed,
    close,
    events,
    over,
    status,
    without_locks,
)
from worker.claim import claim_jobs
from worker.handlers import costing, periods
from worker.handlers.costing import run_costing
from worker.handlers.periods import close_period
from worker.records.activation import activate
from worker.records.periods import count_closed

CLOSED, ORDER = "CH101", "CH107"
RECEIPT = text("""
    INSERT INTO books.stock_movements (company, brand, item, store, kind, doc_id, doc_line,
           posting_date, qty_base, value)
    VALUES ('ACME', 'RED', 'A', 'R1', 'receipt', 'T', 1, '2026-01-05', 1, 5)""")
# Every movement of January, and whether the run that speaks for its item has read it.
UNREAD = """
    SELECT count(*) FROM books.stock_movements m
      LEFT JOIN books.active_results a
        ON a.company = m.company AND a.brand = m.brand AND a.item = m.item AND a.period = '2026-01'
      LEFT JOIN books.cost_runs r ON r.id = a.run_id
     WHERE m.posting_date <= '2026-01-31'
       AND pg_visible_in_snapshot(m.xid, r.snapshot) IS NOT TRUE"""
RESULTS = """
    SELECT (SELECT jsonb_agg(a ORDER BY a.brand, a.period, a.item) FROM books.active_results a),
           (SELECT jsonb_agg(c ORDER BY c.run_id, c.movement_id) FROM books.movement_costs c
             WHERE c.run_id IN (SELECT run_id FROM books.active_results)),
           (SELECT jsonb_agg(b ORDER BY b.run_id, b.store) FROM books.store_balances b
             WHERE b.run_id IN (SELECT run_id FROM books.active_results))"""


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, company: str) -> Books:
    """Company ACME with two open periods, and goods of item A in January."""
    assert company == "ACME"
    opened = await open_books(engine, read_engine)
    await opened.move("opening", 10, value=1000)
    return opened


async def _write(books: Books) -> bool:
    """Post a movement of January; False: the period takes none."""
    try:
        await books.move("receipt", 1, value=5)
    except DBAPIError as error:
        if sqlstate_of(error) != CLOSED:
            raise
        return False
    return True


async def _refused(books: Books, job_id: JobId) -> bool:
    """Run the close; whether it was refused for movements that came late."""
    try:
        await attempt(books, job_id)
    except PermanentError as error:
        if error.code != "PERIOD_NOT_READY":
            raise
        await over(books, job_id)
        return True
    return False


async def test_of_writers_and_a_close_at_once_one_side_is_refused(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Round by round, four connections write while it closes: a closed period holds no movement
    that its results have not read, and a writer that was let in is never lost.
    """

    async def nothing(*_: Any) -> None:
        """The look before would refuse most closes before they meet anybody."""

    monkeypatch.setattr(periods, "_look", nothing)
    begin, ended = periods._begin, {False: 0, True: 0}
    for turn in range(6):
        begun = asyncio.Event()
        monkeypatch.setattr(periods, "_begin", after(begin, partial(_set, begun)))
        await books.cost(brand=None)
        job_id = await ask(books.app)

        async def write(begun: asyncio.Event, pause: float) -> bool:
            if turn % 2:  # noqa: B023 - the round's own
                await begun.wait()
            await asyncio.sleep(pause)
            return await _write(books)

        writers = [write(begun, turn * n * 0.002) for n in range(4)]
        refused, *let_in = await asyncio.gather(_refused(books, job_id), *writers)
        ended[bool(refused)] += 1
        if refused:
            assert any(let_in)
            assert await status(books) == "open"
            assert await _write(books)
        else:
            assert not any(let_in)
            assert await scalar(books.app, UNREAD) == 0
            assert not await _write(books)
            await _reopen(books)
    assert min(ended.values()) > 0, ended
    written = await scalar(books.app, "SELECT count(*) FROM books.stock_movements")
    await books.cost(brand=None)
    assert await close(books)
    assert len(await books.costs()) == written


async def _set(event: asyncio.Event) -> None:
    event.set()


async def test_a_stream_of_writers_does_not_starve_a_close(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four connections insert without a pause: the gate is had in a moment, not in ten minutes."""

    async def nothing(*_: Any) -> None:
        """Go on to the gate at once."""

    monkeypatch.setattr(periods, "_look", nothing)
    await books.cost(brand=None)
    stopped = asyncio.Event()
    written = [0]

    async def stream() -> None:
        async with books.app.connect() as conn:
            while not stopped.is_set():
                try:
                    await conn.execute(RECEIPT)
                    await conn.commit()
                    written[0] += 1
                except DBAPIError as error:
                    if sqlstate_of(error) != CLOSED:
                        raise
                    await conn.rollback()

    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(stream())
        await eventually(lambda: _more_than(written, 50), every=0.01)
        began = monotonic()
        assert await _refused(books, await ask(books.app))
        took = monotonic() - began
        so_far = written[0]
        await eventually(lambda: _more_than(written, so_far + 50), every=0.01)
        stopped.set()
    assert took < 3
    assert await events(books) == ["close_asked", "closing", "refused"]


async def _more_than(count: list[int], least: int) -> bool:
    return count[0] > least


async def test_the_gate_waits_for_a_writer_that_passed_it_before(books: Books) -> None:
    """Its movement is found, though it commits long after the period began to close."""
    await books.cost(brand=None)
    job_id = await ask(books.app)
    async with books.app.begin() as writer:
        await writer.execute(RECEIPT)
        closing = asyncio.create_task(_refused(books, job_id))
        await eventually(lambda: _waits_at_the_gate(books), every=0.01)
        assert await status(books) == "closing"
    assert await closing
    assert await status(books) == "open"


async def _waits_at_the_gate(books: Books) -> int:
    query = """SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""
    return int(await scalar(books.app, query))


async def test_a_run_that_activates_first_is_what_the_period_is_closed_with(
    books: Books, owner_engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The close comes while the run holds the gate: it waits, and closes with its results."""
    await books.cost(brand=None)
    job_id, run = await ask(books.app), await books.submit(brand=None)
    await without_locks(owner_engine, run)
    closing: list[asyncio.Task[None]] = []

    async def close_meanwhile() -> None:
        closing.append(asyncio.create_task(attempt(books, job_id)))
        blocked = """SELECT count(*) FROM pg_stat_activity
                      WHERE wait_event_type = 'Lock' AND datname = current_database()"""
        await eventually(lambda: scalar(books.app, blocked), every=0.01)

    monkeypatch.setattr(costing, "activate", after(activate, close_meanwhile))
    await books.attempt(run)
    await closing[0]
    assert await status(books) == "closed"
    result = await books.result(job_id)
    assert result["runs"] == [(await books.result(run))["run_id"]]


@pytest.mark.parametrize("moment", ["_begin", "end_closing"])
async def test_a_run_that_computes_while_the_period_closes_activates_nothing(
    books: Books, owner_engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Closed (or closing) between compute and activation: PERIOD_CLOSED, and not a row changed."""
    await books.cost(brand=None)
    before = await fetch(books.app, RESULTS)
    job_id, run = await ask(books.app), await books.submit(brand=None)
    await without_locks(owner_engine, run)
    tried: list[str | None] = []

    async def activate_now() -> None:
        with pytest.raises(PermanentError) as error:
            await books.attempt(run)
        tried.append(error.value.code)

    if moment == "_begin":
        monkeypatch.setattr(periods, "_begin", after(periods._begin, activate_now))
        await attempt(books, job_id)
    else:
        # Computed while the period is open; closed before it asks for the gate.
        async def close_now() -> None:
            await attempt(books, job_id)

        monkeypatch.setattr(costing, "_settle", after(costing._settle, close_now))
        await activate_now()
    assert tried == ["PERIOD_CLOSED"]
    assert await status(books) == "closed"
    assert await fetch(books.app, RESULTS) == before


async def test_a_run_that_is_submitted_while_the_period_closes_changes_nothing(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ERPNext #33002: whether it is closed is asked when the run runs, not when it was ordered."""
    await books.cost(brand=None)
    before = await fetch(books.app, RESULTS)
    runs: list[JobId] = []

    async def submit() -> None:
        runs.append(await books.submit(brand=None))

    monkeypatch.setattr(periods, "count_closed", after(count_closed, submit))
    assert await close(books)
    with pytest.raises(PermanentError) as error:
        await books.attempt(runs[0])
    assert error.value.code == "PERIOD_CLOSED"
    assert await fetch(books.app, RESULTS) == before


async def _reopen(books: Books, period: str = JANUARY) -> Any:
    async with books.app.begin() as conn:
        key = PeriodKey(company="ACME", period=period)
        return await reopen(conn, key, reason="too early", approval=None)


async def test_february_is_not_closed_while_january_is_reopened(books: Books) -> None:
    """Each alone would be right; of the two at once one is refused, round by round."""
    seen = set()
    for _ in range(3):
        if await status(books) == "open":
            await books.cost(brand=None)
            await close(books)
        await books.cost(FEBRUARY, brand=None)
        job_id = await ask(books.app, FEBRUARY)
        outcome = await asyncio.gather(
            attempt(books, job_id), _reopen(books), return_exceptions=True
        )
        stands = (await status(books), await status(books, FEBRUARY))
        assert stands != ("open", "closed"), outcome
        seen.add(stands)
        if stands[1] == "closed":
            await _reopen(books, FEBRUARY)
        else:
            await over(books, job_id)
    assert seen <= {("closed", "closed"), ("open", "open"), ("open", "closing")}


async def test_the_database_itself_knows_the_order(books: Books) -> None:
    """Whoever writes the status, and whoever makes a period behind closed ones."""
    february = "UPDATE books.periods SET status = 'closed' WHERE period = '2026-02'"
    earlier = """INSERT INTO books.periods (company, period, starts_on, ends_on)
                 VALUES ('ACME', '2025-12', '2025-12-01', '2025-12-31')"""
    await _refused_by_order(books, february)
    await execute(books.app, february.replace("02'", "01'"))
    await _refused_by_order(books, earlier)
    await execute(books.app, february)
    await _refused_by_order(
        books, "UPDATE books.periods SET status = 'open' WHERE period = '2026-01'"
    )
    assert await _reopen(books) == LaterClosed(["2026-02"])
    await execute(
        books.app,
        earlier.replace("ends_on)", "ends_on, status)").replace("12-31')", "12-31', 'closed')"),
    )
    async with books.app.connect() as conn:
        await conn.execution_options(isolation_level="REPEATABLE READ")
        with pytest.raises(DBAPIError, match="ISOLATION_REFUSED"):
            await conn.execute(text(february.replace("'closed'", "'open'")))


async def test_two_changes_that_are_right_alone_take_turns(books: Books) -> None:
    """January is being reopened, uncommitted: whoever closes February waits, then sees it open."""
    status_of = "UPDATE books.periods SET status = '{}' WHERE period = '{}'"
    await execute(books.app, status_of.format("closed", JANUARY))
    async with books.app.begin() as first:
        await first.execute(text(status_of.format("open", JANUARY)))
        second = asyncio.create_task(_refused_by_order(books, status_of.format("closed", FEBRUARY)))
        await eventually(lambda: _waits_at_the_gate(books), every=0.01)
    await second


async def _refused_by_order(books: Books, statement: str) -> None:
    with pytest.raises(DBAPIError, match="PERIOD_ORDER") as error:
        await execute(books.app, statement)
    assert sqlstate_of(error.value) == ORDER


async def test_by_its_locks_a_close_waits_for_a_run_and_a_run_for_a_close(books: Books) -> None:
    """Neither holds a slot; a run of February runs meanwhile."""
    await books.cost(brand=None)
    context, payload = await books.claimed(await books.submit(brand="RED"))
    job_id = await ask(books.app)
    assert await claim_jobs(autocommit(books.app), CLOSER, [job_id], wait=True) == []
    await run_costing(context, payload)
    closing, close_payload = await claimed(books, job_id)
    run = await books.submit(brand="RED")
    with pytest.raises(ValueError, match="expected 1, got 0"):
        await books.attempt(run)
    await books.cost(FEBRUARY, brand=None)
    with pytest.raises(PermanentError, match="ACTIVE_JOBS"):
        await close_period(closing, close_payload)
