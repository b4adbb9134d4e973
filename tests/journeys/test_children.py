"""A lost lease stops the handler and its child process; a child never outlives its parent."""

import os
import signal
from uuid import UUID

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.factories import eventually, execute, job_row, make_job
from tests.fleet import Fleet
from tests.journeys.looking import (
    checkpointed,
    computing_child,
    effects,
    lives,
    outcomes,
    reached,
    result_of,
    said,
    stamped,
    working,
)

# As an operator, or a database restored from a backup, would: another token, not yet expired.
REVOKE = """
    UPDATE chot.jobs SET fence = fence + 1, lease_token = gen_random_uuid(),
           worker_id = 'someone else', lease_expires_at = clock_timestamp() + interval '1 minute'
     WHERE id = :job_id AND state = 'running'"""
END_IT = """
    UPDATE chot.jobs SET state = 'cancelled', finished_at = clock_timestamp(), lease_token = NULL,
           lease_expires_at = NULL, worker_id = NULL
     WHERE id = :job_id AND state = 'running'"""


@pytest.mark.scenario("F09")
async def test_a_revoked_lease_stops_the_handler_and_kills_its_child(
    probes: AsyncEngine, fleet: Fleet
) -> None:
    """The child is gone within two beats, the only slot is free again."""
    worker = fleet.worker(CHOT_CONCURRENCY="1")
    job_id = await make_job(probes, "probe.misbehave", how="child_cpu", seconds=60)
    await stamped(probes, job_id)
    child = await computing_child(worker)
    await execute(probes, REVOKE, job_id=job_id)

    async def gone() -> bool:
        return not lives(child)

    await eventually(gone, seconds=2 * fleet.lease / 4 + 0.5, every=0.01)
    ended = await said(worker, "attempt.ended")
    assert (ended["outcome"], ended["fence"]) == ("lost", 1)
    await reached(probes, await make_job(probes), "succeeded", seconds=8)
    row = await job_row(probes, job_id)
    assert (row.state, row.fence, row.worker_id) == ("running", 2, "someone else")


@pytest.mark.scenario("F09")
async def test_no_effect_of_the_old_token_commits_after_a_revoke(
    probes: AsyncEngine, fleet: Fleet
) -> None:
    """Chunks every 20 ms: many more would have been written before the next beat tells."""
    worker = fleet.worker()
    for _ in range(3):
        job_id = await make_job(probes, chunks=2000, seconds=0.02)
        await checkpointed(probes, job_id, 5)
        await execute(probes, REVOKE, job_id=job_id)
        row = await job_row(probes, job_id)
        await eventually(lambda ended=job_id: _lost(fleet, worker, ended))  # type: ignore[misc]
        assert len(await effects(probes, job_id)) == row.checkpoint_no
        assert (await job_row(probes, job_id)).checkpoint_no == row.checkpoint_no
        await execute(probes, END_IT, job_id=job_id)


async def _lost(fleet: Fleet, worker: object, job_id: UUID) -> bool:
    return any(
        line["outcome"] == "lost" and line["job_id"] == str(job_id)
        for line in fleet.events(worker, "attempt.ended")  # type: ignore[arg-type]
    )


async def test_a_killed_child_costs_one_attempt(probes: AsyncEngine, fleet: Fleet) -> None:
    """Kill -9 on the child: the job fails, waits its backoff and is run again."""
    worker = fleet.worker()
    await working(worker)
    job_id = await make_job(probes, "probe.misbehave", how="child_cpu", seconds=3.0)
    await stamped(probes, job_id)
    child = await computing_child(worker)
    os.kill(child, signal.SIGKILL)
    row = await reached(probes, job_id, "succeeded")
    assert row.attempt == 2
    assert await outcomes(probes, job_id) == ["failed", "succeeded"]
    assert worker.alive
    # What another child prints does not get between its answers.
    talkative = await make_job(probes, "probe.misbehave", how="child_print")
    await reached(probes, talkative, "succeeded")
    assert await result_of(probes, talkative) == {"said": "the answer"}


async def test_a_child_dies_with_its_killed_worker(probes: AsyncEngine, fleet: Fleet) -> None:
    """Kill -9 of the parent alone leaves no orphan that computes on."""
    worker = fleet.worker()
    job_id = await make_job(probes, "probe.misbehave", how="child_cpu", seconds=60)
    await stamped(probes, job_id)
    child = await computing_child(worker)
    worker.send(signal.SIGKILL)

    async def gone() -> bool:
        return not lives(child)

    await eventually(gone, seconds=2, every=0.01)
