"""Zombies: a worker that was stopped past its lease wakes up and must write nothing."""

import signal
from time import monotonic

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.factories import eventually, job_row, make_job, scalar
from tests.fleet import Fleet
from tests.journeys.looking import (
    checkpointed,
    effects,
    fenced,
    outcomes,
    reached,
    said,
)

ONE_SLOT = {"CHOT_CONCURRENCY": "1"}


@pytest.mark.scenario("F03")
async def test_a_zombie_writes_no_checkpoint_and_serves_on(
    probes: AsyncEngine, fleet: Fleet
) -> None:
    """SIGSTOP between two chunks, takeover, SIGCONT while the new owner runs."""
    zombie = fleet.worker(**ONE_SLOT)
    job_id = await make_job(probes, chunks=25, seconds=0.2)
    await checkpointed(probes, job_id, 3)
    zombie.send(signal.SIGSTOP)
    fleet.worker(**ONE_SLOT)
    taken = await fenced(probes, job_id, 2)
    zombie.send(signal.SIGCONT)
    ended = await said(zombie, "attempt.ended")
    assert (ended["outcome"], ended["fence"]) == ("lost", 1)
    await reached(probes, job_id, "succeeded")
    written = await effects(probes, job_id)
    assert [chunk for chunk, _ in written] == list(range(25)), "each chunk once, in order"
    assert [fence for _, fence in written] == sorted(fence for _, fence in written)
    assert taken.checkpoint_no == sum(fence == 1 for _, fence in written), "the rest is fence 2's"
    assert await outcomes(probes, job_id) == ["lost_lease", "succeeded"]
    others = [await make_job(probes, seconds=0.5) for _ in range(2)]
    for other in others:  # two at once on two workers of one slot: the zombie serves again
        await reached(probes, other, "succeeded")
    pids = await scalar(
        probes,
        "SELECT count(DISTINCT pid) FROM probe.effects WHERE chunk = 0 AND job_id = ANY(:ids)",
        ids=others,
    )
    assert pids == 2
    assert zombie.alive


@pytest.mark.scenario("F03")
async def test_a_zombie_completes_nothing(probes: AsyncEngine, fleet: Fleet) -> None:
    """SIGSTOP just before completion(); the new owner has long completed when it wakes."""
    zombie = fleet.worker()
    job_id = await make_job(probes, chunks=1, seconds=1.5, complete=True)
    await fenced(probes, job_id, 1)
    zombie.send(signal.SIGSTOP)
    fleet.worker()
    done = await reached(probes, job_id, "succeeded")
    zombie.send(signal.SIGCONT)
    ended = await said(zombie, "attempt.ended")
    assert ended["outcome"] == "lost"
    assert await effects(probes, job_id) == [(0, 2)]
    assert await outcomes(probes, job_id) == ["lost_lease", "succeeded"]
    assert await job_row(probes, job_id) == done, "nobody touched the job again"
    other = await make_job(probes)
    await reached(probes, other, "succeeded")


@pytest.mark.scenario("F03")
async def test_a_worker_stopped_inside_its_transaction_frees_its_rows_in_time(
    probes: AsyncEngine, fleet: Fleet
) -> None:
    """The server ends the idle transaction: within L2's bound another owner has its rows."""
    zombie = fleet.worker()
    job_id = await make_job(probes, chunks=3, hold_seconds=1.0, complete=True)
    await checkpointed(probes, job_id, 1)

    async def inside() -> bool:
        return bool(
            await scalar(
                probes,
                """SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                    AND state = 'idle in transaction' AND query LIKE '%pg_advisory_xact_lock%'""",
            )
        )

    await eventually(inside, every=0.01)
    zombie.send(signal.SIGSTOP)
    stopped = monotonic()
    fleet.worker()
    await checkpointed(probes, job_id, 2)
    idle, reaper, chunk, slack = fleet.lease * 2 / 3, fleet.lease / 3, 1.0, 2.5
    assert monotonic() - stopped <= fleet.lease + idle + reaper + chunk + slack
    await reached(probes, job_id, "succeeded")
    zombie.send(signal.SIGCONT)
    ended = await said(zombie, "attempt.ended")
    assert ended["outcome"] == "lost"
    written = await effects(probes, job_id)
    assert [chunk for chunk, _ in written] == [0, 1, 2], "what was open when it stopped is gone"
    assert written[0][1] == 1 < written[1][1]
