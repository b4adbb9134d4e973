"""The heart beats whatever the handlers do; where it cannot, the worker stops on its own."""

from time import monotonic

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.factories import job_row, make_job
from tests.fleet import Fleet
from tests.journeys.looking import (
    effects,
    exited,
    fenced,
    outcomes,
    reached,
    said,
    stamped,
    working,
)
from tests.scenarios.looking import SAMPLE_SECONDS, watched_leases
from tests.tcp_proxy import Proxy

KILL_GRACE_SECONDS = 1.0  # as tests.fleet sets it
SLACK_SECONDS = 2.0


@pytest.mark.scenario("F05")
async def test_a_handler_that_blocks_its_loop_loses_no_lease(
    probes: AsyncEngine, fleet: Fleet
) -> None:
    """time.sleep for three leases, and pure CPU in a child of another worker: attempt 1 for all."""
    blocking = fleet.worker()
    await working(blocking)
    neighbour = await make_job(probes, chunks=2, seconds=1.0)
    await fenced(probes, neighbour, 1)
    async with watched_leases(probes) as leases:
        job_id = await make_job(
            probes, "probe.misbehave", how="block", seconds=3 * fleet.lease, only_first=True
        )
        await stamped(probes, job_id)
        fleet.worker()  # would take over anything whose lease ran out
        computing = await make_job(
            probes, "probe.misbehave", how="child_cpu", seconds=1.5 * fleet.lease
        )
        for each in (computing, job_id, neighbour):
            await reached(probes, each, "succeeded")
    for each in (computing, job_id, neighbour):
        assert (await job_row(probes, each)).attempt == 1
        # A beat comes every lease / 4; with the next one late by its whole period half is left.
        assert min(leases.left[each]) > fleet.lease / 2, "no renewal was late by more than a period"
    assert len(leases.left[job_id]) > 3 * fleet.lease / SAMPLE_SECONDS / 4, "the lease was watched"
    stacks = [line["frames"] for line in fleet.events(blocking, "loop.blocked")]
    assert any("_harm" in frame for stack in stacks for frame in stack), "it says where it hangs"


@pytest.mark.scenario("F05")
async def test_a_c_call_that_holds_the_gil_fences_itself(probes: AsyncEngine, fleet: Fleet) -> None:
    """Not even the heart's thread runs: the job goes on elsewhere, and its effects are there once."""
    holder = fleet.worker()
    await working(holder)
    job_id = await make_job(
        probes, "probe.misbehave", how="hold_gil", seconds=2 * fleet.lease, only_first=True
    )
    await stamped(probes, job_id)
    fleet.worker()
    await reached(probes, job_id, "succeeded")
    assert await effects(probes, job_id) == [(0, 2)]
    ended = await said(holder, "attempt.ended")
    assert (ended["outcome"], ended["fence"]) == ("lost", 1)
    assert await effects(probes, job_id) == [(0, 2)], "the holder wrote nothing when it woke"
    assert await outcomes(probes, job_id) == ["lost_lease", "succeeded"]
    assert holder.alive


@pytest.mark.long
@pytest.mark.scenario("F05", "F34")
async def test_handlers_that_hold_every_connection_starve_no_renewal(
    probes: AsyncEngine, fleet: Fleet
) -> None:
    """The pool is as small as start-up allows, and every slot holds a transaction for two leases."""
    smallest = {"CHOT_CONCURRENCY": "4", "CHOT_POOL_SIZE": "11"}
    # Idle in transaction on purpose: the bound must be longer than the hold.
    fleet.worker(**smallest, CHOT_IDLE_IN_TRANSACTION_SECONDS="2.9", CHOT_LEASE_SECONDS="3")
    async with watched_leases(probes) as leases:
        ids = [await make_job(probes, chunks=3, hold_seconds=2.4) for _ in range(4)]
        for job_id in ids:
            await reached(probes, job_id, "succeeded")
    for job_id in ids:
        assert (await job_row(probes, job_id)).attempt == 1
        assert [chunk for chunk, _ in await effects(probes, job_id)] == [0, 1, 2]
        assert min(leases.left[job_id]) > fleet.lease / 2


async def test_a_loop_blocked_beyond_the_hard_timeout_ends_its_process(
    probes: AsyncEngine, fleet: Fleet
) -> None:
    """The heart's thread stops renewing, waits its grace, and exits with 70; the job goes on."""
    stuck = fleet.worker()
    await working(stuck)
    job_id = await make_job(probes, "probe.brief", how="block", seconds=120, only_first=True)
    await stamped(probes, job_id)
    fleet.worker()
    assert await exited(stuck) == 70
    assert (await said(stuck, "worker.stuck"))["job_id"] == str(job_id)
    await reached(probes, job_id, "succeeded")
    assert await effects(probes, job_id) == [(0, 2)]


async def test_a_blocked_loop_without_its_database_ends_its_process_and_commits_nothing(
    probes: AsyncEngine, fleet: Fleet, pg_proxy: Proxy
) -> None:
    """No cancel reaches it, no renewal leaves it: taken over, and gone within the grace.

    From the lease's local end on, the process has twice the kill grace, two heartbeats and a margin.
    Its database is back before that: had its loop been freed, the fence alone would have held.
    """
    blocked = fleet.worker(**fleet.proxied)
    await working(blocked)
    job_id = await make_job(probes, "probe.misbehave", how="block", seconds=120, only_first=True)
    await stamped(probes, job_id)
    pg_proxy.block()
    gone = monotonic()
    fleet.worker()
    row = await reached(probes, job_id, "succeeded")
    assert (row.attempt, row.lost_leases) == (2, 1), "taken over when its lease had run out"
    pg_proxy.heal()
    assert await exited(blocked) == 70
    beat = fleet.lease / 4
    grace = 2 * KILL_GRACE_SECONDS + 2 * beat + fleet.lease * 2 / 15
    assert monotonic() - gone < fleet.lease + grace + SLACK_SECONDS
    (stuck,) = fleet.events(blocked, "worker.stuck")
    assert stuck["job_id"] == str(job_id)
    assert await effects(probes, job_id) == [(0, 2)], "the old one committed nothing"
    assert await outcomes(probes, job_id) == ["lost_lease", "succeeded"]


async def test_a_loop_freed_after_its_lease_was_taken_commits_nothing(
    probes: AsyncEngine, fleet: Fleet, pg_proxy: Proxy
) -> None:
    """Blocked beyond its lease without a database, then both are back within the grace."""
    blocked = fleet.worker(**fleet.proxied)
    await working(blocked)
    seconds = fleet.lease + 2.0
    job_id = await make_job(
        probes, "probe.misbehave", how="block", seconds=seconds, only_first=True
    )
    await stamped(probes, job_id)
    pg_proxy.block()
    fleet.worker()
    await reached(probes, job_id, "succeeded")
    pg_proxy.heal()
    ended = await said(blocked, "attempt.ended")
    assert (ended["outcome"], ended["fence"]) == ("lost", 1)
    assert await effects(probes, job_id) == [(0, 2)], "the old one committed nothing"
    assert blocked.alive, "it was back within the grace"
