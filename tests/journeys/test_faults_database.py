"""The database goes away, hangs, drops connections, or answers a COMMIT with silence."""

import asyncio
from time import monotonic
from typing import Any

import asyncpg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from dev.processes import Child
from shared.jobs.enqueue import Submit, enqueue
from shared.types import JobId
from tests.factories import NUMBERS, eventually, make_job
from tests.fleet import Fleet
from tests.journeys.looking import (
    alerts,
    all_reached,
    checkpointed,
    effects,
    fenced,
    outcomes,
    queue_is,
    reached,
    said,
    working,
)
from tests.services import Database
from tests.tcp_proxy import Proxy

SLOW_HOUSEKEEPING = {"CHOT_REAPER_SECONDS": "600", "CHOT_RECONCILER_SECONDS": "600"}


@pytest.mark.scenario("F31")
@pytest.mark.parametrize("way", ["black hole", pytest.param("cut", marks=pytest.mark.long)])
async def test_a_database_gone_longer_than_the_lease_stops_the_job_in_time(
    probes: AsyncEngine, fleet: Fleet, pg_proxy: Proxy, way: str
) -> None:
    """Self-fenced before the lease ends, taken over elsewhere; healed, the worker works on."""
    cut_off = fleet.worker(**fleet.proxied)
    await working(cut_off)
    job_id = await make_job(probes, chunks=25, seconds=0.2)
    await checkpointed(probes, job_id, 2)
    if way == "cut":
        pg_proxy.cut()
    else:
        pg_proxy.block()
    gone = monotonic()
    await ended_once(fleet, cut_off)
    assert monotonic() - gone < fleet.lease, "the handler ended before its lease did"
    successor = fleet.worker()
    await reached(probes, job_id, "succeeded")
    pg_proxy.heal()
    written = await effects(probes, job_id)
    assert [chunk for chunk, _ in written] == list(range(25))
    assert {fence for _, fence in written} == {1, 2}
    assert "failed" not in await outcomes(probes, job_id), "an outage is nobody's failure"
    successor.kill()
    row = await reached(probes, await make_job(probes, chunks=2), "succeeded", seconds=15)
    assert row.attempt == 1
    assert cut_off.alive, "no restart was needed"


async def ended_once(fleet: Fleet, worker: Child) -> None:
    """Wait until an attempt has ended on this worker."""
    await said(worker, "attempt.ended", seconds=15)
    assert not fleet.events(worker, "attempt.broken")


@pytest.mark.scenario("F31")
@pytest.mark.long
async def test_half_open_connections_are_dropped_while_new_ones_work(
    probes: AsyncEngine, fleet: Fleet, pg_proxy: Proxy
) -> None:
    """Scenario F31: silence without a reset on what is open. Back within a lease or two."""
    worker = fleet.worker(**fleet.proxied)
    await working(worker)
    running = [await make_job(probes, chunks=20, seconds=0.3) for _ in range(2)]
    for job_id in running:
        await checkpointed(probes, job_id, 2)
    pg_proxy.freeze()
    waiting = [await make_job(probes) for _ in range(3)]
    await all_reached(probes, waiting, "succeeded", seconds=15)
    await all_reached(probes, running, "succeeded", seconds=25)
    for job_id in running:
        assert [chunk for chunk, _ in await effects(probes, job_id)] == list(range(20))
        assert "failed" not in await outcomes(probes, job_id)
    assert worker.alive


@pytest.mark.scenario("F32")
async def test_terminated_connections_cost_no_job_and_no_worker(
    probes: AsyncEngine, fleet: Fleet, database: Database
) -> None:
    """pg_terminate_backend on all of them, three times, under four running jobs."""
    worker = fleet.worker()
    await working(worker)
    ids = [await make_job(probes, chunks=12, seconds=0.25) for _ in range(4)]
    for job_id in ids:
        await checkpointed(probes, job_id, 1)
    admin = await asyncpg.connect(database.superuser_url)
    try:
        for number in (3, 5, 7):
            await checkpointed(probes, ids[0], number)
            await admin.execute(
                """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                    WHERE datname = current_database() AND application_name LIKE 'chot%'"""
            )
    finally:
        await admin.close()
    await all_reached(probes, ids, "succeeded")
    for job_id in ids:
        assert [chunk for chunk, _ in await effects(probes, job_id)] == list(range(12))
        assert "failed" not in await outcomes(probes, job_id), "an outage is nobody's failure"
    assert worker.alive


async def test_a_commit_whose_answer_is_lost_is_asked_about_not_repeated(
    probes: AsyncEngine, fleet: Fleet, pg_proxy: Proxy
) -> None:
    """Both of a chunk and of the completion: one effect each, still attempt 1."""
    worker = fleet.worker(**fleet.proxied, **SLOW_HOUSEKEEPING)
    await working(worker)
    job_id = await make_job(probes, chunks=4, seconds=0.6, complete=True)
    await checkpointed(probes, job_id, 1)
    for done in (2, 4):
        pg_proxy.lose_answer_to(b"COMMIT;")
        await asyncio.wait_for(pg_proxy.until_held(), 10)
        await checkpointed(probes, job_id, done, seconds=2)  # it did commit
        pg_proxy.reset()
        pg_proxy.heal()
        if done == 2:
            await checkpointed(probes, job_id, 3)
    row = await reached(probes, job_id, "succeeded")
    assert await effects(probes, job_id) == [(chunk, 1) for chunk in range(4)]
    assert (row.attempt, row.fence) == (1, 1)
    assert await outcomes(probes, job_id) == ["succeeded"]
    assert fleet.events(worker, "commit.in_doubt")
    ended = await said(worker, "attempt.ended")
    assert ended["outcome"] == "completed"


async def test_a_claim_whose_answer_is_lost_is_adopted(
    probes: AsyncEngine, fleet: Fleet, pg_proxy: Proxy
) -> None:
    """The claim committed, the answer did not come: found again by its token, attempt 1."""
    worker = fleet.worker(**fleet.proxied, **SLOW_HOUSEKEEPING)
    await working(worker)
    await reached(probes, await make_job(probes), "succeeded")  # its statements are prepared now
    async with probes.begin() as conn:
        submit = Submit(
            kind="probe.write", company="ACME", brand="RED", payload={"number": next(NUMBERS)}
        )
        job_id: JobId = (await enqueue(conn, submit)).job_id
        # The first time that the worker itself names the job is its claim.
        pg_proxy.lose_answer_to(job_id.bytes)
    await fenced(probes, job_id, 1)
    await asyncio.wait_for(pg_proxy.until_held(), 10)
    pg_proxy.reset()
    pg_proxy.heal()
    row = await reached(probes, job_id, "succeeded")
    assert (row.attempt, row.fence, row.lost_leases) == (1, 1, 0)
    assert await effects(probes, job_id) == [(0, 1)]
    assert fleet.events(worker, "claim.in_doubt")


async def test_a_burial_whose_answer_is_lost_still_alerts(
    probes: AsyncEngine,
    fleet: Fleet,
    pg_proxy: Proxy,
    sqs: Any,
    queue_urls: dict[str, str],
) -> None:
    """The exit committed, its answer did not come: one attempt, one alert, no message left."""
    worker = fleet.worker(**fleet.proxied, **SLOW_HOUSEKEEPING)
    await working(worker)
    pg_proxy.lose_answer_to(b"told to be wrong")  # first said by the exit itself
    job_id = await make_job(probes, "probe.misbehave", how="raise_permanent")
    await reached(probes, job_id, "dead")
    await asyncio.wait_for(pg_proxy.until_held(), 10)
    pg_proxy.reset()
    pg_proxy.heal()
    ended = await said(worker, "attempt.ended")
    assert ended["outcome"] == "failed"
    assert fleet.events(worker, "outcome.in_doubt")
    assert [line["job_id"] for line in alerts([worker], "job.dead")] == [str(job_id)]
    assert await outcomes(probes, job_id) == ["failed"]
    await queue_is(sqs, queue_urls["default"], (0, 0))


@pytest.mark.scenario("F32")
@pytest.mark.long
async def test_a_read_only_database_is_waited_for(
    probes: AsyncEngine, fleet: Fleet, database: Database
) -> None:
    """A failover to a server that is still read-only: uncharged, and over when it is."""
    worker = fleet.worker()
    await working(worker)
    job_id = await make_job(probes, chunks=20, seconds=0.2)
    await checkpointed(probes, job_id, 2)
    admin = await asyncpg.connect(database.superuser_url)
    name = database.name
    try:
        await admin.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
        await admin.execute(
            """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE datname = current_database() AND application_name LIKE 'chot%'"""
        )
        await said(worker, "heartbeat.missed")

        async def stopped() -> bool:
            return bool(fleet.events(worker, "attempt.ended"))

        await eventually(stopped)
        await admin.execute("SET default_transaction_read_only = off")
        await admin.execute(f'ALTER DATABASE "{name}" RESET default_transaction_read_only')
    finally:
        await admin.close()
    await reached(probes, job_id, "succeeded")
    assert [chunk for chunk, _ in await effects(probes, job_id)] == list(range(20))
    assert "failed" not in await outcomes(probes, job_id)
    assert worker.alive
