"""Groups with real workers that are killed at random: the join runs once, after all of them."""

import asyncio
import random
from typing import Any
from uuid import UUID

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.kinds.registry import load_kinds, mirror_kinds
from tests.factories import eventually, fetch, job_row, scalar
from tests.fleet import Fleet
from tests.journeys.test_storm import nothing_active
from tests.protocol.groups import show

MODULES = {
    "CHOT_KIND_MODULES": "tests.probes.kinds,tests.probes.group_kinds",
    "CHOT_HANDLER_MODULES": "tests.probes.handlers,tests.probes.group_handlers",
}


async def with_group_kinds(engine: AsyncEngine) -> None:
    """The database knows them before anybody submits one."""
    async with engine.begin() as conn:
        kinds = load_kinds(MODULES["CHOT_KIND_MODULES"])
        await mirror_kinds(conn, kinds, default_max_attempts=5)


async def kill_workers(fleet: Fleet, changes: dict[str, str], *, kills: int, seed: int) -> None:
    """Kill one of three every second or so, and start another in its place."""
    rng = random.Random(seed)
    living = [fleet.worker(**changes) for _ in range(3)]
    for _ in range(kills):
        await asyncio.sleep(rng.uniform(0.6, 1.6))
        place = rng.randrange(len(living))
        living[place].kill()
        living[place] = fleet.worker(**changes)


async def joined_once(engine: AsyncEngine, group_id: UUID, members: int) -> Any:
    """The join has succeeded, and wrote its one effect after every member had written its own."""
    group = await show(engine, group_id)
    assert (group.state, group.total, group.remaining) == ("ended", members, 0)
    assert group.join_job_id is not None
    row = await job_row(engine, group.join_job_id)
    assert row.state == "succeeded"
    wrote = await fetch(
        engine, "SELECT chunk FROM probe.effects WHERE job_id = :i", i=group.join_job_id
    )
    assert [each.chunk for each in wrote] == [0]
    runs = await fetch(
        engine,
        """SELECT min(a.started_at) AS began, count(*) FILTER (WHERE a.outcome = 'succeeded') AS won
             FROM chot.attempts a WHERE a.job_id = :i""",
        i=group.join_job_id,
    )
    last = await scalar(
        engine, "SELECT max(finished_at) FROM chot.jobs WHERE group_id = :g", g=group_id
    )
    assert runs[0].won == 1
    assert last <= runs[0].began, "it began after the last of them had ended"
    return await scalar(
        engine, "SELECT result FROM chot.job_outputs WHERE job_id = :i", i=group.join_job_id
    )


async def run_group(
    engine: AsyncEngine, fleet: Fleet, *, children: int, kills: int, seed: int
) -> None:
    """Spawned by a job, joined by a job, workers dying all the while."""
    await with_group_kinds(engine)
    _, url = await asyncio.to_thread(fleet.api, **MODULES)
    payload = {"number": 1_000_000, "children": children, "seconds": 0.05}
    body = {"kind": "probe.fan", "company": "ACME", "brand": "RED", "payload": payload}
    async with httpx.AsyncClient(base_url=url, timeout=30) as client:
        answer = await client.post("/v1/jobs", json=body)
        assert answer.status_code == 202, answer.text
    changes = MODULES | {"CHOT_CONCURRENCY": "8"}
    killing = asyncio.create_task(kill_workers(fleet, changes, kills=kills, seed=seed))
    await eventually(nothing_active(engine), seconds=240, every=0.3)
    await killing
    fan = await fetch(
        engine,
        """SELECT o.result FROM chot.jobs j JOIN chot.job_outputs o ON o.job_id = j.id
            WHERE j.kind = 'probe.fan'""",
    )
    (group_id,) = {UUID(row.result["group"]) for row in fan}
    seen = await joined_once(engine, group_id, children)
    assert seen == {"members": children, "active": 0, "effects": children * 2}
    assert await scalar(engine, "SELECT count(*) FROM chot.groups") == 1


@pytest.mark.long
async def test_a_group_with_workers_killed_at_random_is_joined_once(
    probes: AsyncEngine, fleet: Fleet
) -> None:
    """Two hundred members, a dozen kills: no end is lost, none is counted twice."""
    await run_group(probes, fleet, children=200, kills=12, seed=20261130)


async def test_a_small_group_survives_a_killed_worker(probes: AsyncEngine, fleet: Fleet) -> None:
    """The same in a size for every day."""
    await run_group(probes, fleet, children=24, kills=2, seed=7)
