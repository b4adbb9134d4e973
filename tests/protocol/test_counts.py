"""Counts: totals that nobody counts are those that counting finds, at any moment."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.jobs.cancel import cancel_job
from shared.jobs.counts import add_up_endings, read_counts
from shared.jobs.redrive import redrive_job
from tests.architecture.locks import ROOT
from tests.factories import (
    autocommit,
    claimed_again,
    execute,
    fetch,
    make_job,
    scalar,
)
from tests.protocol.exits import TERMINAL_EXITS, claimed_for, leave
from tests.scenarios.metrics import FINAL, count_all, states_of
from worker.outcome import Failed, fail_job
from worker.retention import Retention

JOBS = 60
HOUR = 1 / 24
LONG_AGO = """
    UPDATE chot.jobs SET created_at = created_at - interval '2 hours',
           finished_at = finished_at - interval '2 hours'
     WHERE state IN ('succeeded', 'cancelled') AND finished_at > clock_timestamp() - interval '1 hour'"""


async def both(engine: AsyncEngine) -> tuple[dict[str, int], dict[str, int]]:
    """The kept counts and a count of every row, of one and the same snapshot."""
    async with engine.connect() as conn:
        await conn.execution_options(isolation_level="REPEATABLE READ")
        return states_of(await read_counts(conn)), await count_all(conn)


async def one_life(engine: AsyncEngine, number: int) -> None:
    """A job that ends one way or another: completed, cancelled, dead, dead and redriven."""
    job_id = await make_job(engine)
    if number % 4 == 0:
        async with engine.begin() as conn:
            assert await cancel_job(conn, job_id)
        return
    held = await claimed_again(engine, job_id, worker=f"w{number}")
    if number % 4 == 1:
        assert await leave(engine, held, "complete")
        return
    async with engine.begin() as conn:
        failed = Failed(error="told", code="TOLD", permanent=True)
        assert await fail_job(conn, held, failed) is not None
    if number % 4 == 2:
        await execute(engine, "UPDATE chot.jobs SET cleanup_due = false WHERE id = :i", i=job_id)
        async with engine.begin() as conn:
            await redrive_job(conn, job_id)


@pytest.mark.scenario("F54")
async def test_kept_counts_are_true_in_every_snapshot(
    probes: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """While jobs end in every way, are redriven, added up and archived at the same time."""
    retention = Retention(archive_after_days=HOUR, archive_keep_days=0)
    lives = asyncio.gather(*(one_life(probes, number) for number in range(JOBS)))

    async def forever(step: Callable[[], Awaitable[Any]]) -> None:
        while not lives.done():
            await step()

    async def archive() -> None:
        await execute(owner_engine, LONG_AGO)
        await retention.step(autocommit(probes))

    looks = 0

    async def look() -> None:
        nonlocal looks
        kept, counted = await both(owner_engine)
        assert kept == counted
        looks += 1

    await asyncio.gather(lives, forever(look), forever(archive), forever(look))
    await asyncio.gather(archive(), look())  # on a slow machine its first step saw none that ended
    kept, counted = await both(owner_engine)
    assert kept == counted
    assert sum(kept.values()) == JOBS
    assert all(kept[state] for state in FINAL)
    assert looks > 10, "it was looked at while it happened"
    assert await scalar(probes, "SELECT count(*) FROM chot.archived_jobs") > 0


@pytest.mark.parametrize("how", TERMINAL_EXITS)
async def test_every_end_for_good_is_noted_once(probes: AsyncEngine, how: str) -> None:
    """Succeeded and cancelled, in the transaction that moves the job; dead is left again."""
    held = await claimed_for(probes, how)
    await execute(probes, "DELETE FROM chot.endings")
    assert await leave(probes, held, how)
    noted = await fetch(probes, "SELECT kind, state FROM chot.endings")
    state = await scalar(probes, "SELECT state FROM chot.jobs WHERE id = :i", i=held.lease.job_id)
    assert [tuple(row) for row in noted] == ([("probe.write", state)] if state in FINAL else [])


async def test_nobody_waits_for_a_transaction_that_ends_a_job(probes: AsyncEngine) -> None:
    """A cancel whose COMMIT is still to come holds up neither another's nor the adding up."""
    first, second = await make_job(probes), await make_job(probes)
    async with probes.connect() as slow, asyncio.timeout(5), slow.begin():
        assert await cancel_job(slow, first)
        async with probes.begin() as conn:
            assert await cancel_job(conn, second)
        async with autocommit(probes).connect() as conn:
            assert await add_up_endings(conn) == 1
    assert await scalar(probes, "SELECT sum(jobs) FROM chot.ending_totals") == 1
    assert await scalar(probes, "SELECT count(*) FROM chot.endings") == 1


async def test_what_ended_before_it_was_noted_is_counted_once(
    probes: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """The migration's own statement, on jobs of before, of after, and of after but added up."""
    for noted in (False, True, True):
        for _ in range(2):
            held = await claimed_for(probes, "complete")
            assert await leave(probes, held, "complete")
        if not noted:
            await execute(probes, "DELETE FROM chot.endings")
        elif not await scalar(probes, "SELECT count(*) FROM chot.ending_totals"):
            async with autocommit(probes).connect() as conn:
                await add_up_endings(conn)
    kept, counted = await both(owner_engine)
    assert (kept["succeeded"], counted["succeeded"]) == (4, 6)
    for _ in range(2):  # and whoever runs it again counts nothing twice
        await execute(owner_engine, baseline())
        kept, counted = await both(owner_engine)
        assert kept == counted


def baseline() -> str:
    """The statement of migration 0053."""
    source = (ROOT / "alembic" / "versions" / "0053_ending_totals.py").read_text()
    return source.split('op.execute("""')[1].split('""")')[0]
