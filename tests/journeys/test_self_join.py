"""A job that splits itself, with real workers: they die and leave, and it goes on exactly once."""

import asyncio
import signal
from uuid import UUID

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.factories import eventually, fetch, job_row, make_job, scalar
from tests.fleet import Fleet
from tests.journeys.looking import reached
from tests.journeys.test_groups import MODULES, kill_workers, with_group_kinds
from tests.journeys.test_storm import nothing_active
from tests.protocol.groups import show

FIRST = 2_000_000


async def went_on_once(engine: AsyncEngine, job_id: UUID, members: int) -> None:
    """Each of its two effects is there once, the second one after all of its members' ends."""
    row = await job_row(engine, job_id)
    assert row.state == "succeeded"
    group = await show(engine, row.joins)
    assert (group.state, group.total, group.remaining) == ("ended", members, 0)
    assert await scalar(engine, "SELECT count(*) FROM chot.groups") == 1
    wrote = await fetch(
        engine, "SELECT chunk, at FROM probe.effects WHERE job_id = :i ORDER BY n", i=job_id
    )
    assert [each.chunk for each in wrote] == [0, 1]
    last = await scalar(
        engine, "SELECT max(finished_at) FROM chot.jobs WHERE group_id = :g", g=row.joins
    )
    assert last <= wrote[1].at
    result = await scalar(engine, "SELECT result FROM chot.job_outputs WHERE job_id = :i", i=job_id)
    assert result == {"members": members, "active": 0, "effects": 2 * members}


async def split(engine: AsyncEngine, children: int) -> UUID:
    """A job that is to split itself."""
    await with_group_kinds(engine)
    return await make_job(engine, "probe.split", number=FIRST, children=children, seconds=0.05)


async def test_with_one_slot_its_children_run_where_it_waits(
    probes: AsyncEngine, fleet: Fleet
) -> None:
    """It takes no slot: a job that held one would wait for ever."""
    job_id = await split(probes, 3)
    fleet.worker(**MODULES, CHOT_CONCURRENCY="1")
    await reached(probes, job_id, "succeeded", seconds=30)
    await went_on_once(probes, job_id, 3)


async def test_a_drained_worker_leaves_it_to_the_next(probes: AsyncEngine, fleet: Fleet) -> None:
    """While it waits nobody holds it; what runs is handed back, and goes on elsewhere."""
    job_id = await split(probes, 12)
    first = fleet.worker(**MODULES, CHOT_CONCURRENCY="2")

    async def is_waiting() -> bool:
        return (await job_row(probes, job_id)).joins is not None

    await eventually(is_waiting)
    first.send(signal.SIGTERM)
    fleet.worker(**MODULES, CHOT_CONCURRENCY="2")
    await reached(probes, job_id, "succeeded", seconds=40)
    await went_on_once(probes, job_id, 12)


async def run_killed(
    engine: AsyncEngine, fleet: Fleet, *, children: int, kills: int, seed: int
) -> None:
    """Workers die all the while, before the split, in it and after it."""
    job_id = await split(engine, children)
    changes = MODULES | {"CHOT_CONCURRENCY": "8"}
    killing = asyncio.create_task(kill_workers(fleet, changes, kills=kills, seed=seed))
    await eventually(nothing_active(engine), seconds=240, every=0.3)
    await killing
    await went_on_once(engine, job_id, children)


async def test_a_job_that_splits_itself_survives_a_killed_worker(
    probes: AsyncEngine, fleet: Fleet
) -> None:
    await run_killed(probes, fleet, children=24, kills=2, seed=7)


@pytest.mark.long
async def test_a_job_that_splits_itself_survives_a_dozen_kills(
    probes: AsyncEngine, fleet: Fleet
) -> None:
    await run_killed(probes, fleet, children=200, kills=12, seed=20261130)
