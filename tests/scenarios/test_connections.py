"""Connections that are half open: whoever waits on one is told, and goes on without a restart."""

import asyncio
from time import monotonic

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.factories import eventually, job_row, make_job, scalar
from tests.fleet import Fleet
from tests.journeys.looking import (
    all_reached,
    checkpointed,
    effects,
    outcomes,
    reached,
    said,
    working,
)
from tests.scenarios.looking import api_of
from tests.scenarios.traffic import Traffic, written_once
from tests.tcp_proxy import Proxy

SLOW_HOUSEKEEPING = {"CHOT_REAPER_SECONDS": "600", "CHOT_RECONCILER_SECONDS": "600"}
LEASE = 6.0
BACK_SECONDS = 15.0
CHUNKS, HOLD_SECONDS = 3, 1.0
INSIDE = """
    SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
       AND state = 'idle in transaction' AND query LIKE '%pg_advisory_xact_lock%'"""


@pytest.mark.scenario("F31")
@pytest.mark.parametrize("where", ["in its body", "at its COMMIT"])
async def test_a_transaction_whose_peer_is_gone_ends_within_its_lease(
    probes: AsyncEngine, fleet: Fleet, pg_proxy: Proxy, where: str
) -> None:
    """F31 "statements fail < LEASE": no time-out of the kind's 120 s is waited for.

    The heartbeat is back on a new connection and renews; only the handler's own one is silent.
    """
    fleet.lease = LEASE
    worker = fleet.worker(
        **fleet.proxied, **SLOW_HOUSEKEEPING, CHOT_IDLE_IN_TRANSACTION_SECONDS="2"
    )
    await working(worker)
    job_id = await make_job(probes, chunks=CHUNKS, hold_seconds=HOLD_SECONDS)
    await checkpointed(probes, job_id, 1)
    if where == "in its body":
        await eventually(lambda: scalar(probes, INSIDE), every=0.02)
        pg_proxy.freeze()
    else:
        pg_proxy.lose_answer_to(b"COMMIT;")
        await asyncio.wait_for(pg_proxy.until_held(), 10)
        pg_proxy.freeze()
        pg_proxy.heal()
    gone = monotonic()
    told = await said(worker, "connection.half_open")
    assert monotonic() - gone < LEASE
    assert told["job_id"] == str(job_id)
    row = await reached(probes, job_id, "succeeded")
    # Back at work within the scenario's 15 s; what is left of the job takes its own time.
    assert monotonic() - gone < BACK_SECONDS + CHUNKS * HOLD_SECONDS
    written = await effects(probes, job_id)
    assert [chunk for chunk, _ in written] == [0, 1, 2]
    if where == "at its COMMIT":  # it was committed, and that was found out
        assert ({fence for _, fence in written}, row.attempt) == ({1}, 1)
    else:
        assert await outcomes(probes, job_id) == ["released", "succeeded"]
    assert worker.alive


@pytest.mark.scenario("F31")
@pytest.mark.long
async def test_half_open_connections_wedge_neither_api_nor_worker(
    probes: AsyncEngine, fleet: Fleet, pg_proxy: Proxy
) -> None:
    """F31: everything that is open freezes, with 2 running jobs and 20 requests a second.

    120 s of silence are as good as any: the frozen connections never come back here.
    """
    fleet.lease = LEASE
    worker = fleet.worker(**fleet.proxied, CHOT_CONCURRENCY="8")
    await working(worker)
    async with api_of(fleet, **fleet.proxied, CHOT_API_COMMAND_TIMEOUT_SECONDS="3") as http:
        traffic = Traffic(http)
        running = [await make_job(probes, chunks=30, seconds=0.3) for _ in range(2)]
        for job_id in running:
            await checkpointed(probes, job_id, 2)
        await asyncio.gather(*(traffic.submit() for _ in range(20)))  # every connection is open
        assert {status for _, _, status, _ in traffic.answers} == {202}
        pg_proxy.freeze()
        frozen = monotonic()
        ready, _ = await asyncio.gather(http.get("/readyz"), traffic.run(rate=20, seconds=12))
        assert (ready.status_code, ready.json()["status"]) == (503, "not ready")
        statuses = {status for _, _, status, _ in traffic.answers}
        assert statuses == {202, 503}
        assert traffic.longest < LEASE, "nobody waits for a retransmit"
        assert traffic.last(503) - frozen < BACK_SECONDS
        assert traffic.last(202) > traffic.last(503), "it came back by itself"
        assert (await http.get("/readyz")).status_code == 200
    await all_reached(probes, [*traffic.accepted, *running], "succeeded", seconds=40)
    await written_once(probes, traffic.accepted, chunks=1)
    await written_once(probes, running, chunks=30)
    for job_id in running:
        assert "failed" not in await outcomes(probes, job_id)
        assert (await job_row(probes, job_id)).lost_leases <= 1
    assert worker.alive
    assert all(child.alive for child in fleet.children)
