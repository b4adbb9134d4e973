"""A worker's own /metrics and /healthz, and sums over processes of which one has died."""

import asyncio
import socket
from time import monotonic
from typing import Any

import httpx
from sqlalchemy.ext.asyncio import AsyncEngine

from dev.processes import Child, free_port
from tests.factories import eventually, job_row, make_job
from tests.fleet import Fleet
from tests.journeys.looking import exited, fenced, reached, stamped, working
from tests.scenarios.looking import api_of, post_job
from tests.scenarios.metrics import Scraped, scrape
from worker.served import HEAD_SECONDS

EX_CONFIG = 78
RARE = {"CHOT_METRICS_SECONDS": "0.1"}


def watched_worker(fleet: Fleet, **changes: str) -> tuple[Child, str]:
    """A worker that serves its metrics; its address, too."""
    port = free_port()
    child = fleet.worker(CHOT_WORKER_METRICS_PORT=str(port), **changes)
    return child, f"http://127.0.0.1:{port}"


async def scraped_at(url: str) -> Scraped:
    """What a worker says."""
    async with httpx.AsyncClient(base_url=url, timeout=5) as http:
        return await scrape(http)


async def test_a_worker_whose_loop_is_blocked_still_answers(
    probes: AsyncEngine, fleet: Fleet
) -> None:
    """Alive, since a handler may block its loop for its kind's timeout; and it says for how long."""
    worker, url = watched_worker(fleet)
    await working(worker)
    job_id = await make_job(probes, "probe.misbehave", how="block", seconds=2.5, only_first=True)
    await stamped(probes, job_id)

    async def silent() -> Scraped | None:
        found = await scraped_at(url)
        return found if found.value("chot_event_loop_silent_seconds") > 1.5 else None

    found: Scraped = await eventually(silent, seconds=10)
    async with httpx.AsyncClient(base_url=url) as http:
        health = await http.get("/healthz")
        assert (health.status_code, health.json()) == (200, {"alive": True})
        assert (await http.get("/nothing")).status_code == 404
        assert (await http.post("/metrics")).status_code == 405
    assert (await job_row(probes, job_id)).state == "running", "it was blocked all the time"
    assert found.value("chot_heartbeats_total", result="ok") >= 2, "and its heart has beaten"
    await reached(probes, job_id, "succeeded")
    lag = await scraped_at(url)
    assert lag.value("chot_event_loop_lag_seconds_bucket", le="+Inf") > 0
    slow = lag.value("chot_event_loop_lag_seconds_bucket", le="+Inf") - lag.value(
        "chot_event_loop_lag_seconds_bucket", le="1.0"
    )
    assert slow >= 5, "every tick of the blocked time counts as late as it was"


async def test_what_a_worker_counts(probes: AsyncEngine, fleet: Fleet) -> None:
    """Calls to SQS, pools, beats; a child process of a job neither doubles nor loses any of it."""
    worker, url = watched_worker(fleet)
    await working(worker)
    job_id = await make_job(probes, "probe.misbehave", how="child_cpu", seconds=0.2)
    await reached(probes, job_id, "succeeded")

    async def deleted() -> Scraped | None:
        found = await scraped_at(url)
        gone = found.value("chot_sqs_calls_total", operation="delete", result="ok")
        return found if gone >= 1 else None

    found: Scraped = await eventually(deleted)
    assert found.value("chot_sqs_calls_total", operation="receive", result="ok") >= 1
    assert found.value("chot_sqs_calls_total", operation="send", result="ok") >= 1
    assert found.total("chot_sqs_calls_total", result="failed") == 0
    assert found.value("chot_heartbeat_lateness_seconds_count") >= 1
    assert found.value("chot_pool_connections_max", pool="heartbeat") == 1
    for pool in ("protocol", "jobs", "read"):
        used = found.value("chot_pool_connections_used", pool=pool)
        assert 0 <= used <= found.value("chot_pool_connections_max", pool=pool)
    for name in ("chot_self_fences_total", "chot_fence_rejections_total"):
        assert found.total(name) == 0
    labels = {name for _, each in found.samples for name, _ in each}
    assert labels == {"operation", "result", "pool", "le", "cause", "at", "reason"}
    assert not {name for name, _ in found.samples if name.startswith("chot_jobs")}, (
        "what the database knows is told by the apis alone: a sum would count it twice"
    )


async def test_a_sum_is_right_after_a_worker_has_died(probes: AsyncEngine, fleet: Fleet) -> None:
    """Kill -9 in the middle: attempts, claims, losses and seconds are all there, on both apis."""
    first, _ = watched_worker(fleet)
    await working(first)
    async with api_of(fleet, **RARE) as one, api_of(fleet, **RARE) as other:
        quick = await post_job(one)
        await reached(probes, quick, "succeeded")
        slow = await post_job(one, chunks=40, seconds=0.1)
        await fenced(probes, slow, 1)
        first.kill()
        second, url = watched_worker(fleet)
        await fenced(probes, slow, 2)
        answer = await one.post(f"/v1/jobs/{slow}/cancel")
        assert answer.status_code == 200

        async def same() -> list[Scraped] | None:
            found = [await scrape(each) for each in (one, other)]
            ended = [each.total("chot_attempts_total", kind="probe.write") for each in found]
            return found if ended == [3, 3] else None

        for found in await eventually(same):
            outcomes = {
                outcome: found.value("chot_attempts_total", kind="probe.write", outcome=outcome)
                for outcome in ("succeeded", "lost_lease", "cancelled", "failed")
            }
            assert outcomes == {"succeeded": 1, "lost_lease": 1, "cancelled": 1, "failed": 0}
            assert found.total("chot_claims_total") == 3
            assert found.total("chot_lease_losses_total") == 1
            assert found.total("chot_run_seconds_count") == 3
            assert found.total("chot_queue_seconds_count") >= 2

        async def stopped() -> Any:
            """By a heartbeat that read of it, or by the fence of its next commit."""
            found = await scraped_at(url)
            by_beat = found.value("chot_self_fences_total", cause="cancelled")
            return by_beat + found.value("chot_fence_rejections_total", at="commit") >= 1

        await eventually(stopped)
        assert second.alive


async def test_a_taken_port_is_refused_at_the_start(fleet: Fleet) -> None:
    """Not a worker that works unseen: exit 78, and the setting's name."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        worker = fleet.worker(CHOT_WORKER_METRICS_PORT=str(port))
        assert await exited(worker) == EX_CONFIG
    assert "CHOT_WORKER_METRICS_PORT" in worker.last_words()


async def test_whoever_is_slow_or_talks_too_much_is_cut_off(fleet: Fleet) -> None:
    """No scrape may hold the heart's loop, and nobody keeps others from theirs."""
    worker, url = watched_worker(fleet)
    await working(worker)
    port = int(url.rpartition(":")[2])
    idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(200)]
    assert (await scraped_at(url)).value("chot_heartbeats_total", result="ok") >= 1
    slow = [asyncio.create_task(a_byte_at_a_time(port)) for _ in range(40)]
    for _ in range(4):
        await scraped_at(url)
    found = await scraped_at(url)
    assert found.value("process_open_fds") < 200, "what is idle is not kept"
    took = await asyncio.wait_for(asyncio.gather(*slow), 45)
    assert max(took) < HEAD_SECONDS + 20, "a byte now and then buys no more time"
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 100_000)
    try:
        await writer.drain()
        assert await asyncio.wait_for(reader.read(), 10) == b"", "cut off without an answer"
    except ConnectionError:
        pass
    for _, each in [*idle, (reader, writer)]:
        each.close()
    await asyncio.gather(*(each.wait_closed() for _, each in idle), return_exceptions=True)


async def a_byte_at_a_time(port: int) -> float:
    """Send a request that never ends, every byte by itself; how long the other side listens."""
    began = monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    gone = asyncio.create_task(reader.read())
    try:
        while not gone.done():
            writer.write(b"G")
            await writer.drain()
            await asyncio.wait([gone], timeout=0.05)
        await gone
    except ConnectionError:
        pass
    writer.close()
    return monotonic() - began
