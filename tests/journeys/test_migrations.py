"""Migrations with real processes: killed, drained, paused and resumed, each row once."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from uuid import UUID

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.client import ChotClient
from shared.client.migrations import Migration
from tests.factories import eventually, execute, job_row
from tests.fleet import Fleet
from tests.migrating import MODULES, Migrating, open_migrating
from tests.services import Database

ROWS = 1500
# Each row takes 2 ms: there is always a batch to be killed in.
SLOW = {"params": {"seconds": 0.002}, "batch_size": 25, "target_ms": 200}


@pytest.fixture
async def migrating(  # noqa: PLR0917 - what a test asks for
    database: Database,
    engine: AsyncEngine,
    owner_engine: AsyncEngine,
    read_engine: AsyncEngine,
    fleet: Fleet,
    monkeypatch: pytest.MonkeyPatch,
) -> Migrating:
    """The probe tasks on a database with company ACME, and rows to raise."""
    assert fleet is not None, "the probes' tables are there first"
    made = await open_migrating(database, (engine, owner_engine, read_engine), monkeypatch)
    await made.rows(ROWS)
    # Real workers reserve the queue themselves.
    free = "UPDATE chot.queues SET alone_worker = NULL, alone_until = NULL"
    await execute(owner_engine, free)
    return made


@pytest.fixture
async def chot(migrating: Migrating, fleet: Fleet) -> AsyncIterator[ChotClient]:
    """A client of a real api that knows the tasks."""
    assert migrating is not None
    _, url = await asyncio.to_thread(partial(fleet.api, **MODULES))
    async with ChotClient(url) as client:
        yield client


async def shown(chot: ChotClient, job_id: UUID, rows: int) -> Migration | None:
    """The run once it has done so many rows."""
    found = await chot.migrations.show(job_id)
    return found if found.rows_done >= rows else None


@pytest.mark.long
async def test_workers_killed_all_the_way_do_each_row_once(
    migrating: Migrating, chot: ChotClient, fleet: Fleet
) -> None:
    """SIGKILL in the middle of batches, twice; the next one goes on behind the last commit."""
    job = await chot.submit(
        "migration.run", company="ACME", payload={"task": "probe.raise", **SLOW}
    )
    done = 0
    for _ in range(2):
        worker = fleet.worker(**MODULES)
        found = await eventually(partial(shown, chot, job.id, done + 200), seconds=60)
        done = found.rows_done
        worker.kill()
    fleet.worker(**MODULES)
    ended = await chot.wait(job.id, timeout=120)
    assert ended.result["rows_done"] == ROWS
    assert await migrating.counts() == {1: ROWS}
    assert (await job_row(migrating.app, job.id)).lost_leases == 2


async def test_a_run_is_paused_while_it_runs_and_resumed(
    migrating: Migrating, chot: ChotClient, fleet: Fleet
) -> None:
    """It stops behind its batch, is pending, and goes on where it was; SIGTERM does no less."""
    worker = fleet.worker(**MODULES)
    job = await chot.submit(
        "migration.run", company="ACME", payload={"task": "probe.raise", **SLOW}
    )
    await eventually(lambda: shown(chot, job.id, 100), seconds=60)
    assert await chot.migrations.pause(job.id)

    async def stands() -> bool:
        state = (await job_row(migrating.app, job.id)).state
        return bool(state == "pending")

    await eventually(stands)
    before = await chot.migrations.show(job.id)
    assert before.paused
    assert not await chot.migrations.resume(job.id)
    await eventually(lambda: shown(chot, job.id, before.rows_done + 100), seconds=60)
    worker.stop()
    fleet.worker(**MODULES)
    assert (await chot.wait(job.id, timeout=120)).result["rows_done"] == ROWS
    assert await migrating.counts() == {1: ROWS}
    row = await job_row(migrating.app, job.id)
    assert (row.lost_leases, row.attempt - row.interruptions) == (0, 1)
