"""Pace in the job's row: carried by beats and commits, and never another attempt's."""

from time import monotonic

import pytest
from sqlalchemy import RowMapping
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.jobs.pace import UNKNOWN, Pace, pace_of
from shared.jobs.read import show_job
from tests.factories import TIMING, autocommit, claimed_again, claimed_job, expire_lease
from worker.fence import fenced_transaction
from worker.lease import HeldLease, Progress, renew_leases
from worker.outcome import Failed, fail_job
from worker.pace import Pace as Paced


async def beat(engine: AsyncEngine, held: HeldLease) -> None:
    """One heartbeat of one lease."""
    async with autocommit(engine).connect() as conn:
        assert await renew_leases(conn, [held], 30) == {held.lease.job_id}


async def commit(engine: AsyncEngine, held: HeldLease, done: int) -> None:
    """One fenced transaction that reports so much."""
    async with fenced_transaction(engine, held, TIMING, completes=False) as tx:
        tx.progress(done, 1000, unit="rows")


async def told(engine: AsyncEngine, held: HeldLease) -> RowMapping:
    """The row as the api reads it."""
    async with engine.connect() as conn:
        row = await show_job(conn, held.lease.job_id)
    assert row is not None
    return row


async def pace(engine: AsyncEngine, held: HeldLease) -> Pace:
    """The pace that the api shows."""
    return pace_of(await told(engine, held))


def reported(held: HeldLease, *reports: tuple[float, int]) -> None:
    """Give the lease a history: each (seconds ago, done)."""
    now = monotonic()
    held.pace = Paced(tuple((now - ago, done) for ago, done in reports))
    held.progress = Progress(done=reports[-1][1], total=1000, unit="rows")


async def test_a_beat_carries_rate_and_when_it_moved(probes: AsyncEngine) -> None:
    """A hundred rows in ten seconds, five seconds ago: the end is 85 seconds off."""
    held = await claimed_job(probes)
    await beat(probes, held)
    assert await pace(probes, held) == UNKNOWN
    reported(held, (15, 50), (5, 150))
    await beat(probes, held)
    row = await told(probes, held)
    found = pace_of(row)
    assert found.rate == 10.0
    assert found.moved_at is not None
    assert 4.9 < (row["read_at"] - found.moved_at).total_seconds() < 6
    assert found.eta is not None
    assert 78 < (found.eta - row["read_at"]).total_seconds() < 82
    await beat(probes, held)
    # It has not moved since: nothing that people see has changed, the ETag included.
    assert await pace(probes, held) == found


async def test_commits_alone_make_a_pace(probes: AsyncEngine) -> None:
    """A handler that reports with its commits only; beats between them carry it on."""
    held = await claimed_job(probes)
    await commit(probes, held, 100)
    first = await pace(probes, held)
    assert (first.rate, first.eta) == (None, None)
    assert first.moved_at is not None
    held.pace = Paced(((monotonic() - 10, 100),))
    await commit(probes, held, 200)
    second = await pace(probes, held)
    assert second.rate == pytest.approx(10, rel=0.1)
    assert second.eta is not None
    await beat(probes, held)
    assert (await pace(probes, held)).moved_at == second.moved_at
    assert held.pace.reached == 200


async def test_a_takeover_has_no_pace_before_it_has_its_own(probes: AsyncEngine) -> None:
    """It resumes at 100 where 150 were reported: what lies between is no progress of its."""
    first = await claimed_job(probes)
    reported(first, (10, 50), (0, 150))
    await beat(probes, first)
    assert (await pace(probes, first)).rate is not None
    await expire_lease(probes, first.lease.job_id)
    second = await claimed_again(probes, first.lease.job_id, worker="b")
    assert await pace(probes, second) == UNKNOWN
    await beat(probes, second)
    assert await pace(probes, second) == UNKNOWN
    reported(second, (10, 100), (0, 140))
    await beat(probes, second)
    assert await pace(probes, second) == UNKNOWN
    assert (await told(probes, second))["progress_done"] == 150
    reported(second, (20, 100), (0, 160))
    await beat(probes, second)
    assert (await pace(probes, second)).rate == pytest.approx(3, rel=0.01)


async def test_a_retry_has_no_pace_before_it_has_its_own(probes: AsyncEngine) -> None:
    """And neither has the job while it waits for it."""
    first = await claimed_job(probes)
    reported(first, (10, 50), (0, 150))
    await beat(probes, first)
    async with probes.begin() as conn:
        failed = Failed(error="broke", code="FAILED", permanent=False)
        assert await fail_job(conn, first, failed) is not None
    assert await pace(probes, first) == UNKNOWN
    second = await claimed_again(probes, first.lease.job_id, worker="b")
    assert await pace(probes, second) == UNKNOWN


async def test_a_beat_that_is_older_than_a_commit_takes_nothing_back(probes: AsyncEngine) -> None:
    """It was made before the commit and arrives after it."""
    held = await claimed_job(probes)
    reported(held, (10, 50), (0, 150))
    before = held.pace
    await commit(probes, held, 400)
    known = await pace(probes, held)
    assert known.rate is not None
    held.pace = before
    await beat(probes, held)
    assert await pace(probes, held) == known
