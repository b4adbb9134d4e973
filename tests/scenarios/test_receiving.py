"""Receiving: lost wake-ups, caps of SQS, and a broker that is silent, failing or unknown."""

import asyncio
import signal
from datetime import datetime
from itertools import pairwise
from time import monotonic
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from dev.processes import Child
from shared.messages import parse_message
from tests.factories import eventually, execute, fetch, job_row, make_job, scalar, submitted
from tests.fleet import PROBE_MODULES, Fleet
from tests.journeys.looking import (
    all_reached,
    checkpointed,
    effects,
    fenced,
    queue_is,
    queued,
    reached,
    working,
)
from tests.journeys.test_recovery import publish
from tests.sqs_proxy import Body, EntryFault, SqsProxy

SLOW_RETRY = "tests.scenarios.slow_retry"
# Only named here: whoever imports it has its own resolver replaced.
NO_NAMES, SWITCH = "tests.scenarios.no_names", "TESTS_NO_NAMES_WHILE"


def beside_the_probes(module: str, *, kinds: bool = False) -> dict[str, str]:
    """A worker's settings with one more module of ours."""
    wanted = ["CHOT_HANDLER_MODULES"] + ["CHOT_KIND_MODULES"] * kinds
    return {name: f"{PROBE_MODULES[name]},{module}" for name in wanted}


@pytest.mark.alone
@pytest.mark.scenario("F22")
async def test_a_purged_queue_is_noticed_within_a_sweep(
    probes: AsyncEngine, fleet: Fleet, sqs_proxy: SqsProxy, sqs: Any, queue_urls: dict[str, str]
) -> None:
    """F22 a: 50 published jobs, no worker, PurgeQueue; then a worker that sweeps every 5 s."""
    ids = [await make_job(probes) for _ in range(50)]
    await publish(probes, fleet.prefix)
    sqs.purge_queue(QueueUrl=queue_urls["default"])
    assert queued(sqs, queue_urls["default"]) == (0, 0)
    worker = fleet.worker(CHOT_CONCURRENCY="8", CHOT_RECONCILER_SECONDS="5")
    await working(worker)
    began = monotonic()
    await all_reached(probes, ids, "succeeded")
    assert monotonic() - began <= 5 + 5
    assert fleet.events(worker, "message.lost")
    assert sqs_proxy.accepted_entries == 50, "each is published again, and once"
    assert await scalar(probes, "SELECT max(attempt) FROM chot.jobs") == 1


@pytest.mark.alone
@pytest.mark.scenario("F22")
async def test_a_long_visibility_does_not_hold_a_dead_workers_job(
    probes: AsyncEngine, fleet: Fleet, sqs_proxy: SqsProxy, sqs: Any, queue_urls: dict[str, str]
) -> None:
    """F22 b: kill -9 just after the visibility was extended; the lease decides, not SQS.

    Lease 3 s (of 6); the visibility is 15 s (of 600), still five leases, so that the test sees an
    extension, which comes when a third of it is used up. The old message comes back at last: a no-op.
    It runs again within lease + reap, as the scenario says, and what design rule L2 grants beside
    that: an idle transaction of the dead worker, two thirds of a lease; and a second for the claim.
    """
    first = fleet.worker(CHOT_VISIBILITY_SECONDS="15")
    await working(first)
    job_id = await make_job(probes, chunks=80, seconds=0.1)
    await fenced(probes, job_id, 1)
    second = fleet.worker(CHOT_VISIBILITY_SECONDS="15")
    (handle,) = sqs_proxy.handles

    async def extended() -> bool:
        return sqs_proxy.asked["ChangeMessageVisibilityBatch"] > 0

    await eventually(extended, every=0.02)
    first.send(signal.SIGKILL)
    killed = monotonic()
    url = queue_urls["default"]
    assert queued(sqs, url) == (0, 1), "hidden for 15 s from now on"
    await fenced(probes, job_id, 2)
    reap = fleet.lease / 3
    assert monotonic() - killed <= fleet.lease + fleet.lease * 2 / 3 + reap + 1
    await reached(probes, job_id, "succeeded")
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=0)
    await queue_is(sqs, url, (0, 0))
    row = await job_row(probes, job_id)
    assert (row.attempt, row.fence, row.lost_leases) == (2, 2, 1)
    assert [chunk for chunk, _ in await effects(probes, job_id)] == list(range(80))
    settled = [line["settled"] for line in fleet.events(second, "claim.missed")]
    assert any("succeeded" in each for each in settled)


@pytest.mark.scenario("F27")
async def test_a_delivery_beyond_the_cap_finds_the_job_running(
    probes: AsyncEngine, fleet: Fleet, sqs_proxy: SqsProxy, sqs: Any, queue_urls: dict[str, str]
) -> None:
    """F27: three extensions work, the next is an InvalidParameterValue, the message comes back.

    Lease 2 s, visibility 3 s; the job goes on for 10 s (of 30). The second delivery sees that it
    runs and is put off.
    """
    fleet.lease = 2.0
    changes = {"CHOT_CONCURRENCY": "2", "CHOT_VISIBILITY_SECONDS": "3"}
    workers = [fleet.worker(**changes) for _ in range(2)]
    await working(*workers)
    job_id = await make_job(probes, chunks=20, seconds=0.5)

    async def extended() -> bool:
        return sqs_proxy.asked["ChangeMessageVisibilityBatch"] >= 3

    await eventually(extended, every=0.02)
    sqs_proxy.visibility_cap = 0.0

    async def refused_once() -> bool:
        return sqs_proxy.refused_handles == 1

    await eventually(refused_once, every=0.02)
    sqs_proxy.visibility_cap, sqs_proxy.longest_visibility = (
        None,
        3,
    )  # put off by less than a minute
    row = await reached(probes, job_id, "succeeded")
    refused = [line for each in workers for line in fleet.events(each, "visibility.refused")]
    assert [line["job_id"] for line in refused] == [str(job_id)]
    settled = [line["settled"] for each in workers for line in fleet.events(each, "claim.missed")]
    assert any("runs under a live lease" in each for each in settled), settled
    assert (row.attempt, row.fence, row.lost_leases) == (1, 1, 0)
    assert await effects(probes, job_id) == [(chunk, 1) for chunk in range(20)]
    await queue_is(sqs, queue_urls["default"], (0, 0))
    assert (await job_row(probes, job_id)).attempt == 1


class Delays:
    """What SQS was asked to delay, and how often each job was sent."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.delayed: list[Body] = []

    def __call__(self, _number: int, entries: list[Body]) -> dict[str, EntryFault]:
        self.sent += [parse_message(each["MessageBody"]).job_id for each in entries]
        self.delayed += [each for each in entries if "DelaySeconds" in each]
        return {}


@pytest.mark.alone
@pytest.mark.scenario("F27")
async def test_a_retry_in_twenty_minutes_waits_in_the_database(
    probes: AsyncEngine, fleet: Fleet, sqs_proxy: SqsProxy
) -> None:
    """F27: a backoff of 1200 s (of 3600), beyond SQS's 900; its time is moved, not waited for."""
    delays = Delays()
    sqs_proxy.send_faults = delays
    worker = fleet.worker(**beside_the_probes(SLOW_RETRY, kinds=True))
    await working(worker)
    job_id = (await submitted(probes, "probe.later")).job_id

    async def failed_once() -> bool:
        row = await job_row(probes, job_id)
        return (row.state, row.attempt) == ("pending", 1)

    await eventually(failed_once)
    due = """SELECT extract(epoch FROM available_at - clock_timestamp())::float8 AS job,
                    extract(epoch FROM next_send_at - clock_timestamp())::float8 AS message
               FROM chot.jobs j JOIN chot.outbox o ON o.job_id = j.id"""
    (waits,) = await fetch(probes, due)
    assert 1100 < waits.job <= 1200
    assert 1100 < waits.message <= 1200
    assert delays.sent == [job_id], "nothing is sent before its time"
    for column, table in (("available_at", "jobs"), ("next_send_at", "outbox")):
        await execute(
            probes,
            f"UPDATE chot.{table} SET {column} = {column} - make_interval(secs => :s)",
            s=waits.job - 2,
        )
    await reached(probes, job_id, "succeeded")
    late = await scalar(
        probes,
        """SELECT extract(epoch FROM a.started_at - j.available_at)::float8
             FROM chot.attempts a JOIN chot.jobs j ON j.id = a.job_id WHERE a.attempt = 2""",
    )
    assert 0 <= late <= 3, "on time: a poll of the relay and a receive later"
    assert (delays.sent, delays.delayed) == ([job_id, job_id], [])


@pytest.mark.alone
@pytest.mark.scenario("F28")
async def test_a_poll_that_hangs_is_given_up_and_another_connection_serves(
    probes: AsyncEngine, fleet: Fleet, sqs_proxy: SqsProxy
) -> None:
    """F28: the open poll is never answered (of 5 minutes). Given up at wait + 10 s, 11 s here."""
    worker = fleet.worker()
    await working(worker)
    sqs_proxy.black_hole("ReceiveMessage")

    async def swallowed() -> bool:  # beside it there is a look into the dead-letter queue
        return any(body["QueueUrl"].endswith("-default") for _, body in sqs_proxy.held)

    await eventually(swallowed, every=0.02)
    before = sqs_proxy.asked["ReceiveMessage"]
    began = monotonic()
    # Not healed: the one poll stays unanswered, new connections are served.
    sqs_proxy.black_holed = frozenset()
    job_id = await make_job(probes)
    await reached(probes, job_id, "succeeded")
    assert 9 < monotonic() - began <= 1 + 10 + 2
    assert fleet.events(worker, "receive.waits")
    assert sqs_proxy.asked["ReceiveMessage"] > before
    assert worker.alive


async def troubles(proxy: SqsProxy) -> None:
    """Half of all requests fail, in four ways, for two seconds each."""
    for status, code in ((503, "ServiceUnavailable"), (500, "InternalError")):
        proxy.refuse(status=status, code=code, every=2)
        await asyncio.sleep(2)  # the outage's own length
    proxy.refuse(status=400, code="RequestThrottled", every=2)
    await asyncio.sleep(2)
    proxy.heal()
    proxy.resetting = True
    await asyncio.sleep(2)
    proxy.heal()


def waits_of(fleet: Fleet, worker: Child) -> list[dict[str, Any]]:
    """What the receiver has said of each receive that failed."""
    return fleet.events(worker, "receive.waits")


@pytest.mark.alone
@pytest.mark.long
@pytest.mark.scenario("F28")
async def test_jobs_start_within_ten_seconds_of_an_outages_end(
    probes: AsyncEngine, fleet: Fleet, sqs_proxy: SqsProxy, tmp_path: Any
) -> None:
    """F28: half of all requests fail (8 s, of 3 minutes), then the name is unknown (3 s, of 1).

    A long job runs through all of it under its first lease.
    """
    switch = tmp_path / "no names"
    fleet.endpoint = fleet.endpoint.replace("127.0.0.1", "localhost")
    extra = beside_the_probes(NO_NAMES) | {SWITCH: str(switch)}
    worker = fleet.worker(CHOT_RECONCILER_SECONDS="600", **extra)
    await working(worker)
    running = await make_job(probes, chunks=60, seconds=0.5)
    await checkpointed(probes, running, 1)
    asked, began = sum(sqs_proxy.asked.values()), monotonic()
    waiting = [await make_job(probes)]
    await troubles(sqs_proxy)
    per_second = (sum(sqs_proxy.asked.values()) - asked) / (monotonic() - began)
    assert per_second < 30, "nobody hammers"
    await all_reached(probes, waiting, "succeeded", seconds=10)
    switch.touch()
    sqs_proxy.resetting = True  # so that no old connection is of use

    async def nameless() -> bool:
        return "Could not connect" in waits_of(fleet, worker)[-1]["error"]

    await eventually(nameless, seconds=15)  # resolved names are kept for ten seconds
    sqs_proxy.heal()
    polls = sqs_proxy.asked["ReceiveMessage"]
    waiting = [await make_job(probes) for _ in range(3)]
    await asyncio.sleep(3)
    assert sqs_proxy.asked["ReceiveMessage"] == polls, "no poll finds its way without the name"
    assert (await job_row(probes, running)).state == "running"
    switch.unlink()
    await all_reached(probes, waiting, "succeeded", seconds=10)
    row = await reached(probes, running, "succeeded")
    assert (row.attempt, row.fence, row.lost_leases) == (1, 1, 0)
    told = [datetime.fromisoformat(line["timestamp"]) for line in waits_of(fleet, worker)]
    gaps = {round((later - earlier).total_seconds(), 2) for earlier, later in pairwise(told)}
    assert len(gaps) > 3, "with jitter: a fleet does not come back as one"
    assert worker.alive
