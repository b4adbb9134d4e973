"""SIGTERM: hearts stop last, deploys cost nothing, a cancelled handler has not succeeded (F08, F16)."""

import signal
from time import monotonic

import httpx
import pytest

from tests.factories import job_row, scalar
from tests.fleet import Fleet
from tests.journeys.looking import (
    exited,
    fenced,
    outcomes,
    reached,
    said,
    stamped,
    working,
)
from tests.scenarios.looking import Audit, Queue, pids_of, post_job, watched_leases

STUCK = 70


@pytest.mark.scenario("F08", "F16")
async def test_a_draining_worker_renews_until_its_job_ends(
    fleet: Fleet, audit: Audit, http: httpx.AsyncClient
) -> None:
    """F08, scaled: lease 2 s, a job of 7 s, TERM in its first second, an idle neighbour.
    F16: a job that fits into the drain is finished, and the exit is 0.
    """
    fleet.lease = 2.0
    first = fleet.worker(CHOT_DRAIN_SECONDS="12")
    await working(first)
    async with watched_leases(audit.engine) as leases:
        job_id = await post_job(http, chunks=1, seconds=7.0, unyielding=True)
        await fenced(audit.engine, job_id, 1)
        first.send(signal.SIGTERM)
        await said(first, "worker.drains")
        idle = fleet.worker()
        await working(idle)
        late = await post_job(http)
        assert await exited(first) == 0
    row = await job_row(audit.engine, job_id)
    assert (row.state, row.attempt, row.interruptions, row.lost_leases) == ("succeeded", 1, 0, 0)
    assert await audit.states(job_id) == [
        (None, "pending"),
        ("pending", "running"),
        ("running", "succeeded"),
    ]
    assert min(leases.left[job_id]) > 0
    assert leases.longest_gap(job_id) <= fleet.lease / 2
    assert leases.left[job_id][-1] > fleet.lease / 2, "renewed until the very end"
    await reached(audit.engine, late, "succeeded")
    assert await pids_of(audit.engine, late) == {idle.pid}, "nothing new was claimed after TERM"


LONG = ("sleep", "catch_exception", "swallow_and_return")
IGNORING = ("swallow_cancel",)


@pytest.mark.scenario("F16")
@pytest.mark.parametrize("hows", [LONG, IGNORING], ids=["cancelled", "ignoring"])
async def test_a_job_too_long_for_the_drain_is_handed_back_before_the_kill(
    fleet: Fleet,
    audit: Audit,
    http: httpx.AsyncClient,
    queue: Queue,
    hows: tuple[str, ...],
) -> None:
    """Sleeps 300 s; catches Exception; swallows CancelledError and returns a result; swallows it
    and goes on. Stop timeout 8 s for the 30 there: pending, no lease, message visible, in time.
    """
    worker = fleet.worker(CHOT_DRAIN_SECONDS="6", CHOT_STOP_TIMEOUT_SECONDS="8")
    await working(worker)
    ids = [await post_job(http, "probe.misbehave", how=how, seconds=300.0) for how in hows]
    for job_id in ids:
        await stamped(audit.engine, job_id)
    worker.send(signal.SIGTERM)
    told = monotonic()
    assert await exited(worker) == (STUCK if hows == IGNORING else 0)
    assert monotonic() - told < 8, "before SIGKILL would have come"
    assert queue.depth == (len(ids), 0), "published again, visible, nothing in flight"
    for job_id in ids:
        row = await job_row(audit.engine, job_id)
        assert (row.state, row.interruptions, row.lost_leases) == ("pending", 1, 0)
        assert (row.lease_token, row.lease_expires_at, row.worker_id) == (None, None, None)
        assert await outcomes(audit.engine, job_id) == ["released"]
        assert [new for _, new in await audit.states(job_id)] == ["pending", "running", "pending"]
    results = "SELECT count(*) FROM chot.job_outputs WHERE result IS NOT NULL"
    assert await scalar(audit.engine, results) == 0, "no cancelled handler has succeeded"
