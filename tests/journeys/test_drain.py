"""SIGTERM: stop claiming, let jobs end or reach a checkpoint, hand the rest back, exit 0 in time."""

import signal
from time import monotonic
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.factories import eventually, job_row, make_job, scalar
from tests.fleet import Fleet
from tests.journeys.looking import (
    checkpointed,
    effects,
    exited,
    fenced,
    limited_job,
    outcomes,
    queue_is,
    queued,
    reached,
    said,
    working,
)
from tests.journeys.test_recovery import publish
from tests.sqs_proxy import SqsProxy


@pytest.mark.scenario("F08", "F16")
async def test_a_drain_finishes_short_jobs_and_hands_long_ones_on(
    probes: AsyncEngine, fleet: Fleet
) -> None:
    """Short: ends here. Chunked: yields at a checkpoint. Stubborn: released in time. Exit 0."""
    leaving = fleet.worker(CHOT_DRAIN_SECONDS="7")
    await working(leaving)
    # Longer than the lease: only heartbeats that go on until the end keep it.
    short = await make_job(probes, chunks=1, seconds=1.2 * fleet.lease, unyielding=True)
    chunked = await make_job(probes, chunks=20, seconds=0.3)
    stubborn = await make_job(probes, chunks=2, seconds=6.0, unyielding=True)
    for job_id in (short, stubborn):
        await fenced(probes, job_id, 1)
    await checkpointed(probes, chunked, 1)
    leaving.send(signal.SIGTERM)
    told = monotonic()
    await said(leaving, "worker.drains")
    late = await make_job(probes)
    fleet.worker()
    assert await exited(leaving) == 0
    assert monotonic() - told <= 7.5
    row = await reached(probes, short, "succeeded")
    assert (row.attempt, row.interruptions) == (1, 0)
    for job_id, chunks in ((chunked, 20), (stubborn, 2)):
        row = await reached(probes, job_id, "succeeded")
        assert (row.attempt, row.interruptions, row.lost_leases) == (2, 1, 0), "uncharged"
        assert await outcomes(probes, job_id) == ["released", "succeeded"]
        assert [chunk for chunk, _ in await effects(probes, job_id)] == list(range(chunks))
    await reached(probes, late, "succeeded")
    worker_of = "SELECT worker_id FROM chot.attempts WHERE job_id = :id ORDER BY fence LIMIT 1"
    first, other = [await scalar(probes, worker_of, id=each) for each in (short, late)]
    assert first != other, "nothing new is claimed after TERM"
    assert (
        await scalar(probes, "SELECT count(*) FROM chot.workers WHERE worker_id = :id", id=first)
        == 0
    ), "it has signed off"


async def test_what_a_long_poll_still_brings_is_handed_back_at_once(
    probes: AsyncEngine, fleet: Fleet, sqs: Any, queue_urls: dict[str, str], sqs_proxy: SqsProxy
) -> None:
    """The open poll is left to end, not cancelled; its delivery is visible again before the exit."""
    leaving = fleet.worker(CHOT_POLL_SECONDS="5")
    await working(leaving)

    async def polling() -> bool:
        return sqs_proxy.asked["ReceiveMessage"] >= 1

    await eventually(polling)
    leaving.send(signal.SIGTERM)
    await said(leaving, "worker.drains")
    job_id = await make_job(probes)
    await publish(probes, fleet.prefix)
    assert await exited(leaving) == 0
    await queue_is(sqs, queue_urls["default"], (1, 0), seconds=1)
    assert sqs_proxy.delivered == 1, "the worker had received it"
    row = await job_row(probes, job_id)
    assert (row.state, row.attempt) == ("pending", 0)


async def test_a_second_signal_releases_at_once(probes: AsyncEngine, fleet: Fleet) -> None:
    """An impatient operator waits for the kill grace only; nothing is charged."""
    leaving = fleet.worker(CHOT_POLL_SECONDS="20")
    job_id = await make_job(probes, chunks=1, seconds=60, unyielding=True)
    await fenced(probes, job_id, 1)
    leaving.send(signal.SIGTERM)
    await said(leaving, "worker.drains")
    leaving.send(signal.SIGTERM)
    again = monotonic()
    assert await exited(leaving) == 0
    assert monotonic() - again < 4
    row = await job_row(probes, job_id)
    assert (row.state, row.interruptions, row.attempt) == ("pending", 1, 1)


@pytest.mark.parametrize("deploys", [3, pytest.param(6, marks=pytest.mark.long)])
@pytest.mark.scenario("F14")
async def test_deploys_use_up_no_attempt(
    probes: AsyncEngine, fleet: Fleet, sqs: Any, sqs_proxy: SqsProxy, deploys: int
) -> None:
    """More handovers than the job has attempts (two): interruptions are not failures, and each
    release sends a message of its own, so that no message's receives grow. The redrive count
    itself is checked at start-up.
    """
    workers = [fleet.worker() for _ in range(deploys + 1)]
    await working(*workers, seconds=60)
    chunks = 20 * deploys
    job_id = await limited_job(probes, "probe.write", 2, chunks=chunks, seconds=0.2)
    for restart in range(1, deploys + 1):
        row = await fenced(probes, job_id, restart)
        await checkpointed(probes, job_id, row.checkpoint_no + 2)
        holder = next(each for each in workers if f"-{each.pid}-" in row.worker_id)
        holder.send(signal.SIGTERM)
        assert await exited(holder) == 0
    row = await reached(probes, job_id, "succeeded", seconds=60)
    assert (row.interruptions, row.lost_leases) == (deploys, 0)
    assert row.attempt - row.interruptions == 1
    assert [chunk for chunk, _ in await effects(probes, job_id)] == list(range(chunks))
    assert sqs_proxy.accepted_entries == deploys + 1, "sent at first and with each release"
    dead = sqs.get_queue_url(QueueName=f"{fleet.prefix}-default-dead")["QueueUrl"]
    assert queued(sqs, dead) == (0, 0)
