"""Heart: it beats over a connection of its own, whatever the jobs do with theirs."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import open_engine
from shared.types import WorkerId
from tests.factories import TIMING, claimed_job, eventually, expire_lease, scalar
from tests.services import Database
from worker.heartbeat import Heart
from worker.presence import Presence

ALIVE = "SELECT lease_expires_at > clock_timestamp() FROM chot.jobs WHERE id = :i"


@pytest.mark.scenario("F05", "F34")
async def test_jobs_that_hold_every_connection_starve_no_renewal(
    probes: AsyncEngine, database: Database
) -> None:
    """The jobs' pool is empty for as long as the test looks; their leases are renewed.

    F34 (a) in one process and with one lease; its times, the long test in tests/journeys shows.
    """
    held = await claimed_job(probes)
    await expire_lease(probes, held.lease.job_id)
    jobs = open_engine(database.app_url, pool_size=2, pool_timeout=30)
    heart = Heart(
        database_url=database.app_url,
        queue_prefix="none",
        timing=replace(TIMING, heartbeat=0.5),
        presence=Presence(worker_id=WorkerId("a"), host="h", pid=1, code_version="t", kinds={}),
        visibility_cap_seconds=60,
        exit_grace_seconds=60,
    )
    async with AsyncExitStack() as busy:
        for _ in range(2):
            conn = await busy.enter_async_context(jobs.connect())
            await conn.execute(text("SELECT 1"))
        heart.add(held)
        heart.start(asyncio.get_running_loop())
        busy.push_async_callback(heart.stop)

        async def renewed() -> bool:
            return bool(await scalar(probes, ALIVE, i=held.lease.job_id))

        await eventually(renewed, seconds=10)
    await jobs.dispose()
