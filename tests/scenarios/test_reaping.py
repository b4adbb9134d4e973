"""The reaper beside those it might rob (F04)."""

import asyncio
import random
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from dev.processes import Child
from shared.types import JobId
from tests.factories import (
    autocommit,
    claimant,
    eventually,
    execute,
    expire_lease,
    fetch,
    make_job,
    scalar,
)
from tests.fleet import Fleet
from tests.journeys.looking import reached, working
from tests.journeys.test_storm import hold_attempts, nothing_active
from tests.scenarios.looking import Audit, post_job
from worker.claim import claim_jobs

FIFTY, FIVE_HUNDRED = 50, 500
PULSES = 16
LOCK = text("SELECT 1 FROM chot.jobs WHERE id = ANY(:ids) ORDER BY id FOR UPDATE")
SUCCEED = text("""
    UPDATE chot.jobs SET state = 'succeeded', finished_at = clock_timestamp(), lease_token = NULL,
           lease_expires_at = NULL, worker_id = NULL WHERE id = ANY(:ids)""")
CLAIM_AGAIN = text("""
    UPDATE chot.jobs SET fence = fence + 1, attempt = attempt + 1, worker_id = 'somebody',
           lease_token = gen_random_uuid(),
           lease_expires_at = clock_timestamp() + interval '60 seconds' WHERE id = ANY(:ids)""")


async def _claimed(engine: AsyncEngine, count: int) -> list[JobId]:
    """Running jobs without a message, whose lease ran out a second ago."""
    ids = [await make_job(engine) for _ in range(count)]
    held = await claim_jobs(autocommit(engine), claimant(), ids)
    assert len(held) == count
    await execute(engine, "DELETE FROM chot.outbox WHERE job_id = ANY(:ids)", ids=ids)
    for job_id in ids:
        await expire_lease(engine, job_id)
    return ids


@pytest.mark.scenario("F04")
async def test_two_reapers_pass_over_what_another_session_settles(
    probes: AsyncEngine, owner_engine: AsyncEngine, fleet: Fleet, audit: Audit
) -> None:
    """Steps 1 and 2, reaper 1 s: nothing blocks, and none of the fifty is changed. A job that
    nobody holds is reaped before and after the commit, so reapers did look.
    """
    ids = await _claimed(probes, FIFTY)
    async with owner_engine.connect() as other:
        await other.execute(LOCK, {"ids": ids})
        await working(*[fleet.worker(CHOT_REAPER_SECONDS="1") for _ in range(2)])
        await _reaped_and_run(probes)
        assert await scalar(probes, BLOCKED) == 0
        await _settle(other, ids)
    settled = await _rows(probes, ids)
    await _reaped_and_run(probes)
    assert await _rows(probes, ids) == settled, "attempt, token, state: nothing moved"
    assert [row.state for row in settled].count("succeeded") == FIFTY // 2
    for job_id in ids:
        last = (await audit.rows(job_id))[-1]
        assert last.by_name == "test owner", "the last change was that session's"
    assert await audit.left_a_terminal_state() == []


BLOCKED = """
    SELECT count(*) FROM pg_stat_activity
     WHERE datname = current_database() AND wait_event_type = 'Lock'"""


async def _reaped_and_run(engine: AsyncEngine) -> None:
    """A job of its own expires, and is reaped and run by one of the workers."""
    (job_id,) = await _claimed(engine, 1)
    row = await reached(engine, job_id, "succeeded")
    assert (row.attempt, row.lost_leases) == (2, 1)


async def _settle(other: AsyncConnection, ids: Sequence[JobId]) -> None:
    await other.execute(SUCCEED, {"ids": ids[: FIFTY // 2]})
    await other.execute(CLAIM_AGAIN, {"ids": ids[FIFTY // 2 :]})
    await other.commit()


async def _rows(engine: AsyncEngine, ids: Sequence[JobId]) -> list[Any]:
    return await fetch(engine, "SELECT * FROM chot.jobs WHERE id = ANY(:ids) ORDER BY id", ids=ids)


@pytest.mark.long
@pytest.mark.scenario("F04")
async def test_renewals_that_freeze_at_the_border_rob_nobody(
    probes: AsyncEngine, fleet: Fleet, audit: Audit, http: httpx.AsyncClient
) -> None:
    """Step 3, scaled: 500 jobs as long as the lease (2 s) on two workers that are stopped and
    continued in pulses of about a lease, some too short and some too long.
    """
    fleet.lease = 2.0
    more = {"CHOT_CONCURRENCY": "25", "CHOT_REAPER_SECONDS": "1"}
    workers = [fleet.worker(**more) for _ in range(2)]
    await working(*workers)
    ids = [await post_job(http, chunks=2, seconds=fleet.lease / 2) for _ in range(FIVE_HUNDRED)]
    async with _pulses(workers, fleet.lease):
        await eventually(nothing_active(probes), seconds=300, every=0.5)
    assert await scalar(probes, "SELECT sum(lost_leases) FROM chot.jobs") > 0, "some were too long"
    assert await scalar(probes, "SELECT count(*) FROM chot.jobs WHERE state <> 'succeeded'") == 0
    assert await audit.left_a_terminal_state() == []
    await hold_attempts(probes)
    written = await fetch(
        probes,
        """SELECT job_id, array_agg(chunk ORDER BY n) AS chunks, array_agg(fence ORDER BY n) AS f
             FROM probe.effects GROUP BY job_id""",
    )
    assert {row.job_id for row in written} == set(ids)
    assert all(row.chunks == [0, 1] and row.f == sorted(row.f) for row in written)
    assert all(worker.alive for worker in workers)


@asynccontextmanager
async def _pulses(workers: Sequence[Child], lease: float) -> AsyncIterator[None]:
    """Stop and continue the workers in turn, each time for about as long as a lease lasts.

    Not for ever: a job that has lost two leases runs alone, and then all others wait for it.
    """

    async def pulse() -> None:
        rng = random.Random(4)
        for number in range(PULSES):
            worker = workers[number % len(workers)]
            worker.send(signal.SIGSTOP)
            await asyncio.sleep(rng.uniform(0.6, 1.15) * lease)
            worker.send(signal.SIGCONT)
            await asyncio.sleep(rng.uniform(0.2, 0.6) * lease)

    pulsing = asyncio.create_task(pulse())
    try:
        yield
        await pulsing
    finally:
        pulsing.cancel()
        await asyncio.wait({pulsing})
