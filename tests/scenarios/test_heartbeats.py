"""Hearts that beat whatever the handlers do, and settings under which they could not (F05, F07)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from uuid import UUID

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.factories import job_row
from tests.fleet import Fleet
from tests.journeys.looking import all_reached, effects, said, stamped, working
from tests.scenarios.looking import Leases, post_job, watched_leases
from worker.liveness import TOUCH_SECONDS, age_of

SLOTS = 50


async def _kept(engine: AsyncEngine, leases: Leases, job_id: UUID, lease: float) -> None:
    """One attempt; the lease never ran out, and no two renewals lay further apart than half."""
    row = await job_row(engine, job_id)
    assert (row.state, row.attempt, row.lost_leases) == ("succeeded", 1, 0)
    assert min(leases.left[job_id]) > 0
    assert leases.longest_gap(job_id) <= lease / 2


@asynccontextmanager
async def _watched_age(alive: Path, every: float = 0.1) -> AsyncIterator[list[float]]:
    """Sample how old the worker's liveness file is: its health check reads nothing else."""
    ages: list[float] = []

    async def sample() -> None:
        while True:
            age = age_of(alive)
            assert age is not None
            ages.append(age)
            await asyncio.sleep(every)

    sampling = asyncio.create_task(sample())
    try:
        yield ages
    finally:
        sampling.cancel()
        await asyncio.wait({sampling})
    assert sampling.cancelled(), "the file was there all the time"


@pytest.mark.alone
@pytest.mark.scenario("F05")
@pytest.mark.parametrize("busy", ["child_cpu", "cpu"])
async def test_four_jobs_of_one_worker_keep_their_leases_beside_cpu_and_a_blocked_loop(
    probes: AsyncEngine, fleet: Fleet, http: httpx.AsyncClient, tmp_path: Path, busy: str
) -> None:
    """Both steps, lease 4 s, 5 s each (60 there): pure Python in a child process or in the very
    loop of the jobs, `time.sleep` in the coroutine, two sleeps; and the worker's liveness.

    The sleeping jobs hold no transaction when the loop is blocked, neither here nor there: one that
    stands idle for longer than CHOT_IDLE_IN_TRANSACTION_SECONDS is ended by the server, and if it
    stood between its fence and its COMMIT, its row could not be renewed (docs/kinds.md).

    A worker has no /health that could answer within 1 s: its health check reads the age of a file,
    which is written every second and never older than two here.
    """
    fleet.lease = 4.0
    alive = tmp_path / "alive"
    worker = fleet.worker(CHOT_LIVENESS_FILE=str(alive), CHOT_CONCURRENCY="4")
    await working(worker)
    async with watched_leases(probes) as leases, _watched_age(alive) as ages:
        ids: list[UUID] = []
        began = monotonic()
        for how in ("sleep", "sleep", busy, "block"):
            if how == busy:
                began = monotonic()
            ids.append(await post_job(http, "probe.misbehave", how=how, seconds=5.0))
            # Out of its own transaction, the only one it has, before the loop is blocked.
            await stamped(probes, ids[-1])
        await all_reached(probes, ids, "succeeded")
        took = monotonic() - began
    for job_id in ids:
        await _kept(probes, leases, job_id, fleet.lease)
    assert took >= (10 if busy == "cpu" else 5), "the loop was blocked for longer than a lease"
    assert min(len(leases.left[job_id]) for job_id in ids) > 20, "the leases were watched"
    assert max(ages) <= TOUCH_SECONDS + 1, "it said that it lives, every second"
    assert await said(worker, "loop.blocked")


@pytest.mark.alone
@pytest.mark.scenario("F07")
async def test_fifty_jobs_at_once_are_all_renewed_in_time(
    probes: AsyncEngine, fleet: Fleet, http: httpx.AsyncClient
) -> None:
    """Step 2: one batch renews them all, and no job's gap is longer than half its lease."""
    fleet.lease = 4.0
    await working(fleet.worker(CHOT_CONCURRENCY=str(SLOTS)))
    async with watched_leases(probes) as leases:
        ids = [await post_job(http, chunks=5, seconds=1.2) for _ in range(SLOTS)]
        await all_reached(probes, ids, "succeeded")
    for job_id in ids:
        await _kept(probes, leases, job_id, fleet.lease)
        assert [chunk for chunk, _ in await effects(probes, job_id)] == list(range(5))
    most = max(len(expiries) for expiries in leases.expiries.values())
    assert most >= 4, "each was renewed several times"
