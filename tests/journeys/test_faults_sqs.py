"""SQS fails: partly, wholly, twice over, or for ever. Only latency may hang on it."""

from collections import Counter
from time import monotonic
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.factories import eventually, fetch, job_row, make_job, scalar
from tests.fleet import Fleet
from tests.journeys.looking import (
    all_reached,
    checkpointed,
    effects,
    fenced,
    message_for,
    queue_is,
    queued,
    reached,
    working,
)
from tests.sqs_proxy import Body, EntryFault, SqsProxy


class TroubledBatches:
    """Scenario F20: entry 3 fails (receiver), entry 7 twice (sender), entry 9 is in no list."""

    def __init__(self) -> None:
        self.sender_faults: Counter[str] = Counter()
        self.omitted: set[str] = set()
        self.third: Counter[str] = Counter()

    def __call__(self, _number: int, entries: list[Body]) -> dict[str, EntryFault]:
        faults: dict[str, EntryFault] = {}
        for place, entry in enumerate(entries, start=1):
            entry_id = entry["Id"]
            if place == 3 and not self.third[entry_id]:
                self.third[entry_id] += 1
                faults[entry_id] = "receiver"
            elif place == 7 and len(self.sender_faults) < 3 and self.sender_faults[entry_id] < 2:
                self.sender_faults[entry_id] += 1
                faults[entry_id] = "sender"
            elif place == 9 and entry_id not in self.omitted and len(self.omitted) < 5:
                self.omitted.add(entry_id)
                faults[entry_id] = "omit"
        return faults


@pytest.mark.scenario("F20")
async def test_failed_entries_of_a_batch_are_sent_again_and_every_job_runs_once(
    probes: AsyncEngine, fleet: Fleet, sqs_proxy: SqsProxy
) -> None:
    """200 jobs; HTTP 200 with failures in it, and every fourth batch fails as a whole."""
    sqs_proxy.send_faults = TroubledBatches()
    sqs_proxy.refuse("SendMessageBatch", status=500, code="InternalError", every=4)
    ids = [await make_job(probes) for _ in range(200)]
    # Without the reconciler, which would find in the end what a relay has wrongly ticked off.
    fleet.worker(CHOT_CONCURRENCY="8", CHOT_RECONCILER_SECONDS="600")
    await all_reached(probes, ids, "succeeded", seconds=60)
    rows = await fetch(
        probes, "SELECT job_id, count(*) AS times FROM probe.effects GROUP BY job_id"
    )
    assert {row.job_id: row.times for row in rows} == dict.fromkeys(ids, 1)
    assert await scalar(probes, "SELECT count(*) FROM chot.jobs WHERE attempt <> 1") == 0

    async def outbox_empty() -> bool:
        return bool(await scalar(probes, "SELECT count(*) FROM chot.outbox") == 0)

    await eventually(outbox_empty, seconds=25)
    assert sqs_proxy.accepted_entries >= 200


@pytest.mark.scenario("F02")
async def test_duplicates_run_nothing_and_leave_no_message_behind(
    probes: AsyncEngine, fleet: Fleet, sqs_proxy: SqsProxy, sqs: Any, queue_urls: dict[str, str]
) -> None:
    """While it runs, to two workers at once, after success; put off, never deleted too early.

    On the way the owner's handle turns stale: its extensions and its delete "succeed" in vain.
    """
    sqs_proxy.longest_visibility = 5  # the minute that a miss is put off by, scaled
    sqs_proxy.stale_handles_succeed = True
    workers = [fleet.worker(CHOT_CONCURRENCY="4") for _ in range(2)]
    await working(*workers)
    job_id = await make_job(probes, chunks=5, seconds=1.0)
    await fenced(probes, job_id, 1)
    url, body = queue_urls["default"], await message_for(probes, job_id)
    (handle,) = sqs_proxy.handles

    async def misses(count: int) -> bool:
        return sum(len(fleet.events(worker, "claim.missed")) for worker in workers) >= count

    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=0)
    await eventually(lambda: misses(1), every=0.02)
    for count in range(2, 6):
        sqs.send_message(QueueUrl=url, MessageBody=body)
        await eventually(lambda least=count: misses(least), every=0.02)  # type: ignore[misc]
    assert sum(queued(sqs, url)) == 5, "a miss of a running job deletes nothing"
    assert sqs_proxy.asked["DeleteMessageBatch"] == 0
    row = await job_row(probes, job_id)
    assert (row.state, row.attempt) == ("running", 1)
    await reached(probes, job_id, "succeeded")
    for _ in range(3):
        sqs.send_message(QueueUrl=url, MessageBody=body)
    await queue_is(sqs, url, (0, 0))
    row = await job_row(probes, job_id)
    assert (row.attempt, row.fence) == (1, 1)
    assert await effects(probes, job_id) == [(chunk, 1) for chunk in range(5)]
    assert all(worker.alive for worker in workers)


@pytest.mark.long
@pytest.mark.scenario("F02")
async def test_copies_sent_before_the_first_claim_run_once(
    probes: AsyncEngine, fleet: Fleet, sqs: Any, queue_urls: dict[str, str]
) -> None:
    """Scenario F02: twenty copies for five workers that start at once."""
    job_id = await make_job(probes, chunks=2, seconds=0.2)
    url, body = queue_urls["default"], await message_for(probes, job_id)
    for _ in range(20):
        sqs.send_message(QueueUrl=url, MessageBody=body)
    workers = [fleet.worker() for _ in range(3)]
    await reached(probes, job_id, "succeeded")
    await eventually(lambda: _nothing_visible(sqs, url))
    row = await job_row(probes, job_id)
    assert (row.attempt, row.fence) == (1, 1)
    assert await effects(probes, job_id) == [(0, 1), (1, 1)]
    assert all(worker.alive for worker in workers)


async def _nothing_visible(sqs: Any, url: str) -> bool:
    return queued(sqs, url)[0] == 0


@pytest.mark.scenario("F28")
async def test_workers_outlive_an_sqs_outage_and_are_back_within_ten_seconds(
    probes: AsyncEngine, fleet: Fleet, sqs_proxy: SqsProxy
) -> None:
    """Silence, then errors and resets; a running job keeps its lease, nothing hammers."""
    worker = fleet.worker()
    await working(worker)
    running = await make_job(probes, chunks=10, seconds=0.5)
    await checkpointed(probes, running, 1)
    sqs_proxy.black_hole()
    waiting = [await make_job(probes) for _ in range(5)]
    row = await reached(probes, running, "succeeded")
    assert (row.attempt, row.lost_leases) == (1, 0)
    asked_before = sum(sqs_proxy.asked.values())
    began = monotonic()
    sqs_proxy.heal()
    sqs_proxy.refuse(status=503)

    await eventually(lambda: _passed(began, 2.5), every=0.2)
    sqs_proxy.refuse(status=400, code="RequestThrottled")
    await eventually(lambda: _passed(began, 5.0), every=0.2)
    sqs_proxy.resetting = True
    await eventually(lambda: _passed(began, 7.0), every=0.2)
    asked = sum(sqs_proxy.asked.values()) - asked_before
    assert asked / 7.0 < 30, f"{asked} requests in 7 s of outage"
    sqs_proxy.heal()
    healed = monotonic()
    await all_reached(probes, waiting, "succeeded", seconds=10)
    assert monotonic() - healed <= 10
    assert worker.alive


async def _passed(began: float, seconds: float) -> bool:
    return monotonic() - began > seconds


@pytest.mark.scenario("F27")
@pytest.mark.scenario("F01")
async def test_jobs_outlive_the_visibility_cap_under_their_lease(
    probes: AsyncEngine, fleet: Fleet, sqs_proxy: SqsProxy, sqs: Any, queue_urls: dict[str, str]
) -> None:
    """12 hours, scaled: before our cap the message is deleted; past SQS's own it comes back."""
    url = queue_urls["default"]
    worker = fleet.worker(CHOT_VISIBILITY_CAP_SECONDS="7.5")
    job_id = await make_job(probes, chunks=16, seconds=0.5)
    await fenced(probes, job_id, 1)
    await queue_is(sqs, url, (0, 0))
    assert (await job_row(probes, job_id)).state == "running", "the message went, the job goes on"
    # The second one: SQS refuses every extension, and delivers the message again.
    sqs_proxy.visibility_cap = 0.0
    refused = await make_job(probes, chunks=16, seconds=0.5)
    fleet.worker()
    for each in (job_id, refused):
        row = await reached(probes, each, "succeeded")
        assert (row.attempt, row.fence) == (1, 1)
        assert [chunk for chunk, _ in await effects(probes, each)] == list(range(16))
    assert fleet.events(worker, "visibility.cap_reached")
