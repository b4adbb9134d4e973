"""Probes and alerts: a worker that takes nothing says so, an idle one is well (F52)."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import monotonic

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from dev.processes import Child
from tests.factories import eventually, make_job
from tests.fleet import Fleet
from tests.journeys.looking import alerts, all_reached, exited, said, working
from tests.sqs_proxy import SqsProxy
from tests.tcp_proxy import Proxy

PENDING = 20
POLL_SECONDS = 1.0
LEASE_SECONDS = 3.0
# Three periods, of the poll or of the beat (0.75 s): three seconds are the least that is judged.
# A look starts a process of its own, and the file is stale five seconds after its last touch.
PERIODS_SECONDS = 3.0
STALE_SECONDS = 5.0
ROOM_SECONDS = 4.0
EXIT_STUCK = 70


async def probe(alive: Path, *arguments: str) -> bool:
    """What a health check, or one for readiness, says of that worker."""
    check = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "worker.liveness",
        *arguments,
        env={**os.environ, "CHOT_LIVENESS_FILE": str(alive)},
        stderr=asyncio.subprocess.DEVNULL,
    )
    return await check.wait() == 0


async def ready(alive: Path) -> bool:
    """Whether it could take a job."""
    return await probe(alive, "--ready")


async def unready(alive: Path) -> bool:
    """Whether it says that it could not."""
    return not await ready(alive)


async def within(condition: Callable[[], Awaitable[bool]], seconds: float) -> float:
    """Wait for the condition; how long it took, at most so long."""
    began = monotonic()
    await eventually(condition, seconds=seconds, every=0.2)
    return monotonic() - began


async def started(fleet: Fleet, alive: Path, **changes: str) -> Child:
    """A worker that works and is ready."""
    worker = fleet.worker(CHOT_LIVENESS_FILE=str(alive), **changes)
    await working(worker)
    await eventually(lambda: ready(alive))
    return worker


@pytest.mark.alone
@pytest.mark.scenario("F52")
async def test_a_worker_whose_receives_vanish_is_not_ready(
    probes: AsyncEngine, fleet: Fleet, sqs_proxy: SqsProxy, tmp_path: Path
) -> None:
    """(a): within three periods of the poll; alive all the time, and ready again afterwards.

    Liveness must not say it: a restart heals no SQS and kills what runs.
    """
    alive = tmp_path / "alive"
    worker = await started(fleet, alive)
    sqs_proxy.black_hole("ReceiveMessage")
    ids = [await make_job(probes) for _ in range(PENDING)]
    await within(lambda: unready(alive), PERIODS_SECONDS + STALE_SECONDS + ROOM_SECONDS)
    told = await said(worker, "worker.not_ready")
    assert "SQS does not answer for queue default" in told["why"]
    assert len(alerts([worker], "worker.not_ready")) == 1
    assert await probe(alive)
    sqs_proxy.heal()
    await all_reached(probes, ids, "succeeded", seconds=40)
    await eventually(lambda: ready(alive))
    await said(worker, "worker.ready")


@pytest.mark.alone
@pytest.mark.scenario("F52")
async def test_a_worker_whose_database_is_frozen_is_not_ready(
    probes: AsyncEngine, fleet: Fleet, pg_proxy: Proxy, tmp_path: Path
) -> None:
    """(b): within three heartbeats; alive all the time, and ready again afterwards."""
    alive = tmp_path / "alive"
    worker = await started(fleet, alive, **fleet.proxied)
    pg_proxy.block()
    ids = [await make_job(probes) for _ in range(PENDING)]
    await within(lambda: unready(alive), PERIODS_SECONDS + STALE_SECONDS + ROOM_SECONDS)
    assert "database" in (await said(worker, "worker.not_ready"))["why"]
    assert await probe(alive)
    pg_proxy.heal()
    await all_reached(probes, ids, "succeeded", seconds=40)
    await eventually(lambda: ready(alive))


@pytest.mark.alone
@pytest.mark.scenario("F52")
@pytest.mark.parametrize("how", ["swallow_cancel", "block"])
async def test_a_worker_whose_slots_all_hang_ends(
    probes: AsyncEngine, fleet: Fleet, tmp_path: Path, how: str
) -> None:
    """(c): what holds every slot past its kind's timeout (1 s here) ends the process.

    An orchestrator sees that without any probe; the pending jobs are the next worker's.
    """
    alive = tmp_path / "alive"
    worker = await started(fleet, alive, CHOT_CONCURRENCY="2")
    for _ in range(2):
        await make_job(probes, "probe.brief", how=how, seconds=600, only_first=True)
    ids = [await make_job(probes) for _ in range(PENDING)]
    assert await exited(worker, seconds=25) == EXIT_STUCK
    assert await unready(alive) or await within(lambda: unready(alive), STALE_SECONDS + 2)
    fleet.worker(CHOT_LIVENESS_FILE=str(tmp_path / "next"))
    await all_reached(probes, ids, "succeeded", seconds=40)


@pytest.mark.scenario("F52")
@pytest.mark.parametrize(
    "seconds", [8.0, pytest.param(60.0, marks=pytest.mark.long)], ids=["short", "minute"]
)
async def test_an_idle_worker_is_well(
    probes: AsyncEngine, fleet: Fleet, tmp_path: Path, seconds: float
) -> None:
    """(d): an empty queue; a minute stands for the 30, and is 60 polls and 80 heartbeats."""
    alive = tmp_path / "alive"
    worker = await started(fleet, alive)
    until = monotonic() + seconds
    while monotonic() < until:
        assert await ready(alive)
        assert await probe(alive)
    assert not alerts([worker], "worker.not_ready")
    job_id = await make_job(probes)
    await all_reached(probes, [job_id], "succeeded", seconds=10)


@pytest.mark.scenario("F52")
async def test_a_due_job_that_nobody_takes_is_told_of_once(
    probes: AsyncEngine, fleet: Fleet
) -> None:
    """The alert on the age of the oldest pending job: from an api, where no worker is left to.

    Its metric is chot_queue_oldest_due_seconds (test_metrics.py). One second here, 15 minutes
    unless configured otherwise.
    """
    quick = {"CHOT_WATCH_SECONDS": "0.2", "CHOT_ALERT_DUE_SECONDS": "1"}
    api, _ = await asyncio.to_thread(fleet.api, **quick)
    ids = [await make_job(probes) for _ in range(PENDING)]
    told = await said(api, "queue.starved")
    assert told["alert"]
    assert told["queue"] == "default"
    assert told["oldest_due_seconds"] > 1
    fleet.worker(CHOT_CONCURRENCY="8")
    await all_reached(probes, ids, "succeeded", seconds=40)
    await said(api, "queue.starved.over")
    assert len(alerts([api], "queue.starved")) == 1


@pytest.mark.scenario("F52")
async def test_a_worker_that_receives_nothing_tells_of_the_due_job_itself(
    probes: AsyncEngine, fleet: Fleet, sqs_proxy: SqsProxy
) -> None:
    """Its maintenance looks on, whatever its receivers do."""
    worker = fleet.worker(CHOT_RECONCILER_SECONDS="0.5", CHOT_ALERT_DUE_SECONDS="1")
    await working(worker)
    sqs_proxy.black_hole("ReceiveMessage")
    await make_job(probes)
    assert (await said(worker, "queue.starved"))["queue"] == "default"
