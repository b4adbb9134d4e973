"""Pulse: one look finds what is due, and a look that fails ends nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import open_engine
from shared.types import JobId
from tests.factories import autocommit, claimed_job, eventually, expire_lease, job_row
from tests.protocol.test_attempt import runner
from tests.services import Database
from worker.maintenance import Maintenance
from worker.pulse import Pulse
from worker.settings import WorkerSettings


@asynccontextmanager
async def maintained(
    engine: AsyncEngine, database: Database, protocol: AsyncEngine
) -> AsyncIterator["asyncio.Task[None]"]:
    """The maintenance of a worker without queues, whose protocol's pool is `protocol`."""
    run = runner(engine, database)
    run = replace(run, engines=replace(run.engines, auto=autocommit(protocol)))
    settings = WorkerSettings(
        database_url=database.app_url,
        queue_prefix="none",
        reaper_seconds=0.1,
        liveness_file="none",
    )
    sqs: Any = None
    upkeep = Maintenance(
        run, sqs, queues=[], settings=settings, wake_relay=lambda: None, pulse=Pulse([])
    )
    stop = asyncio.Event()
    task = asyncio.create_task(upkeep.run(stop))
    try:
        yield task
    finally:
        stop.set()
        await task


async def _is_pending(engine: AsyncEngine, job_id: JobId) -> bool:
    return bool((await job_row(engine, job_id)).state == "pending")


async def test_a_look_that_finds_no_connection_ends_no_worker(
    probes: AsyncEngine, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pool that is used up raises no error of the driver's: the look comes again later."""
    held = await claimed_job(probes)
    await expire_lease(probes, held.lease.job_id)
    protocol = open_engine(database.app_url, pool_size=1, pool_timeout=0.05)
    async with protocol.connect() as taken, maintained(probes, database, protocol) as upkeep:
        await asyncio.wait({upkeep}, timeout=0.5)
        assert not upkeep.done(), "it would take the worker and all of its jobs with it"
        await taken.close()
        await eventually(lambda: _is_pending(probes, held.lease.job_id))
    await protocol.dispose()
    assert "maintenance" in capsys.readouterr().out
