"""One job, from its row to succeeded, through real processes."""

import asyncio
import signal
from uuid import UUID

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.factories import eventually, fetch, job_row, make_job
from tests.fleet import Fleet


async def _state(engine: AsyncEngine, job_id: UUID, state: str, seconds: float = 25) -> None:
    async def reached() -> bool:
        return str((await job_row(engine, job_id)).state) == state

    await eventually(reached, seconds=seconds)


async def test_a_job_enqueued_by_sql_is_delivered_and_succeeds(
    probes: AsyncEngine, fleet: Fleet
) -> None:
    """Commit, relay, SQS, claim, three fenced chunks, completion, message deleted."""
    fleet.worker()
    job_id = await make_job(probes, chunks=3)
    await _state(probes, job_id, "succeeded")
    effects = await fetch(probes, "SELECT chunk, fence FROM probe.effects ORDER BY n")
    assert effects == [(0, 1), (1, 1), (2, 1)]
    row = await job_row(probes, job_id)
    assert (row.attempt, row.fence, row.checkpoint_no, row.progress_done) == (1, 1, 4, 3)


@pytest.mark.scenario("F11")
async def test_a_killed_workers_job_goes_on_from_its_checkpoint(
    probes: AsyncEngine, fleet: Fleet
) -> None:
    """Kill -9, and within lease + reaper + a second another worker has it."""
    first = fleet.worker()
    job_id = await make_job(probes, chunks=40, seconds=0.1)

    async def begun() -> bool:
        return bool((await job_row(probes, job_id)).checkpoint_no >= 3)

    await eventually(begun)
    second = fleet.worker()
    first.send(signal.SIGKILL)
    killed = asyncio.get_running_loop().time()

    async def taken_over() -> bool:
        return bool((await job_row(probes, job_id)).fence >= 2)

    await eventually(taken_over, seconds=15)
    assert asyncio.get_running_loop().time() - killed <= fleet.lease + fleet.lease / 3 + 1.5
    await _state(probes, job_id, "succeeded")
    chunks = await fetch(probes, "SELECT chunk FROM probe.effects ORDER BY chunk")
    assert [row.chunk for row in chunks] == list(range(40))
    row = await job_row(probes, job_id)
    assert (row.attempt, row.lost_leases, row.interruptions) == (2, 1, 0)
    assert second.alive
