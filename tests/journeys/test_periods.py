"""Closing with real processes: by the typed client, and with workers that are killed in it."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.client import ChotClient
from shared.client.errors import LaterPeriodClosed, PeriodNotFound, PeriodState
from shared.types import JobState
from tests.costing_books import FEBRUARY, JANUARY, Books, open_books
from tests.factories import eventually, execute
from tests.fleet import Fleet
from tests.period_books import events, status

HOLD = text("SELECT pg_advisory_xact_lock_shared(books.period_gate_key('ACME', '2026-01'))")


@pytest.fixture
async def books(engine: AsyncEngine, read_engine: AsyncEngine, fleet: Fleet) -> Books:
    """Company ACME, two open periods, the first of them costed."""
    assert fleet is not None, "the probes' tables are there first"
    opened = await open_books(engine, read_engine)
    await opened.move("opening", 10, value=1000)
    await opened.cost(brand=None)
    return opened


@pytest.fixture
async def chot(books: Books, fleet: Fleet) -> AsyncIterator[ChotClient]:
    """A client of a real api."""
    assert books.engines is not None
    _, url = await asyncio.to_thread(fleet.api)
    async with ChotClient(url) as client:
        yield client


async def test_periods_by_the_typed_client(books: Books, chot: ChotClient, fleet: Fleet) -> None:
    """Closed, refused, reopened in order; each answer typed."""
    fleet.worker()
    assert [each.period async for each in chot.periods.list("ACME")] == [FEBRUARY, JANUARY]
    done = await chot.wait(await chot.periods.close("ACME", JANUARY), timeout=60)
    assert done.result["outcome"] == "closed"
    with pytest.raises(PeriodState) as again:
        await chot.periods.close("ACME", JANUARY)
    assert again.value.more["job_id"] == str(done.id)
    dead = await chot.wait(await chot.periods.close("ACME", FEBRUARY), timeout=60)
    assert (dead.state, (dead.error or {})["code"]) == (JobState.DEAD, "PERIOD_NOT_READY")
    shown = await chot.periods.show("ACME", FEBRUARY)
    assert [each.event for each in shown.events] == ["refused", "close_asked"]
    assert shown.events[0].facts["findings"][0]["code"] == "NOT_COSTED"
    await execute(books.app, "UPDATE books.periods SET status = 'closed'")
    with pytest.raises(LaterPeriodClosed) as refused:
        await chot.periods.reopen("ACME", JANUARY, reason="a late invoice")
    assert refused.value.more["periods"] == [FEBRUARY]
    assert (await chot.periods.reopen("ACME", FEBRUARY, reason="order")).status == "open"
    reopened = await chot.periods.reopen("ACME", JANUARY, reason="a late invoice")
    assert (reopened.status, reopened.affects) == ("open", ())
    with pytest.raises(PeriodNotFound):
        await chot.periods.show("ACME", "2031-12")


async def test_a_worker_killed_at_the_gate_is_followed_by_one_that_closes(
    books: Books, chot: ChotClient, fleet: Fleet
) -> None:
    """SIGKILL while the period is `closing`: the next worker goes on from there."""
    worker = fleet.worker()
    async with books.app.begin() as writer:
        await writer.execute(HOLD)
        job_id = await chot.periods.close("ACME", JANUARY)
        await eventually(lambda: _is(books, "closing"))
        worker.kill()
        assert await status(books) == "closing"
    fleet.worker()
    assert (await chot.wait(job_id, timeout=60)).result["outcome"] == "closed"
    assert await events(books) == ["close_asked", "closing", "closed"]


async def test_a_close_that_is_cancelled_when_its_worker_is_dead_is_undone_by_another(
    books: Books, chot: ChotClient, fleet: Fleet
) -> None:
    """Nobody is left who would finish it: a worker's maintenance opens the period again."""
    worker = fleet.worker()
    async with books.app.begin() as writer:
        await writer.execute(HOLD)
        job_id = await chot.periods.close("ACME", JANUARY)
        await eventually(lambda: _is(books, "closing"))
        worker.kill()
        await chot.cancel(job_id)
    assert await status(books) == "closing"
    fleet.worker()
    await eventually(lambda: _is(books, "open"))
    assert await events(books) == ["close_asked", "closing", "interrupted"]
    await books.move("receipt", 1, value=5)


async def _is(books: Books, expected: str) -> bool:
    return await status(books) == expected
