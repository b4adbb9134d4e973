"""One message many times over, and deletes that fail (F02)."""

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.types import JobId
from tests.factories import eventually, job_row, scalar
from tests.fleet import Fleet
from tests.journeys.looking import all_reached, effects, fenced, message_for, reached, working
from tests.scenarios.looking import Audit, Queue, pids_of, post_job
from tests.sqs_proxy import SqsProxy

FIVE_WORKERS = 5
DELETE = "DeleteMessageBatch"


async def _started(fleet: Fleet, workers: int) -> None:
    """So many workers receive; each must still live when the test ends."""
    await working(*[fleet.worker() for _ in range(workers)])


async def _ran_once(audit: Audit, job_id: JobId, chunks: int) -> None:
    row = await job_row(audit.engine, job_id)
    assert (row.state, row.attempt, row.fence) == ("succeeded", 1, 1)
    claims = [change for change in await audit.states(job_id) if change[1] == "running"]
    assert claims == [("pending", "running")]
    assert await effects(audit.engine, job_id) == [(chunk, 1) for chunk in range(chunks)]
    assert len(await pids_of(audit.engine, job_id)) == 1


@pytest.mark.scenario("F02")
async def test_twenty_copies_at_once_are_one_run(
    fleet: Fleet, audit: Audit, sqs_proxy: SqsProxy, http: httpx.AsyncClient, queue: Queue
) -> None:
    """Step 1: five workers get twenty copies of one message while its job runs."""
    sqs_proxy.longest_visibility = 2  # the minute that a miss is put off by, scaled
    await _started(fleet, FIVE_WORKERS)
    job_id = await post_job(http, chunks=8, seconds=0.25)
    await fenced(audit.engine, job_id, 1)
    queue.send(*[await message_for(audit.engine, job_id)] * 20)
    await reached(audit.engine, job_id, "succeeded")
    await queue.holds(0)
    await _ran_once(audit, job_id, 8)
    assert sqs_proxy.delivered >= 21, "each of them was received"
    assert queue.dead == (0, 0)
    assert all(worker.alive for worker in fleet.workers)


@pytest.mark.scenario("F02")
async def test_a_delete_that_is_refused_runs_nothing_again(
    fleet: Fleet, audit: Audit, sqs_proxy: SqsProxy, http: httpx.AsyncClient, queue: Queue
) -> None:
    """Step 2: ReceiptHandleIsInvalid for a finished job, whose message reappears three times."""
    await _started(fleet, 2)
    sqs_proxy.refuse(DELETE, status=400, code="ReceiptHandleIsInvalid")
    job_id = await post_job(http, chunks=2)
    await reached(audit.engine, job_id, "succeeded")
    for times in range(1, 4):
        await eventually(lambda least=times: _asked(sqs_proxy, least))  # type: ignore[misc]
        queue.sqs.change_message_visibility(
            QueueUrl=queue.url, ReceiptHandle=sqs_proxy.handles[-1], VisibilityTimeout=0
        )
    await eventually(lambda: _asked(sqs_proxy, 4))
    assert sqs_proxy.delivered == 4, "received once, and three times again"
    sqs_proxy.refusals = {}
    queue.sqs.change_message_visibility(
        QueueUrl=queue.url, ReceiptHandle=sqs_proxy.handles[-1], VisibilityTimeout=0
    )
    await queue.holds(0)
    await _ran_once(audit, job_id, 2)
    assert queue.dead == (0, 0)
    await _pumps_on(fleet, audit.engine, http)


async def _asked(proxy: SqsProxy, least: int) -> bool:
    return proxy.asked[DELETE] >= least


@pytest.mark.scenario("F02")
async def test_a_message_of_a_job_that_is_over_is_deleted_without_a_run(
    fleet: Fleet, audit: Audit, http: httpx.AsyncClient, queue: Queue
) -> None:
    """Step 3: one that succeeded, one that was cancelled, one that is dead."""
    await _started(fleet, 2)
    done = await post_job(http)
    dead = await post_job(http, "probe.misbehave", how="raise_permanent")
    cancelled = await post_job(http, chunks=1, seconds=30)
    await fenced(audit.engine, cancelled, 1)
    assert (await http.post(f"/v1/jobs/{cancelled}/cancel")).status_code == 200
    await reached(audit.engine, done, "succeeded")
    await reached(audit.engine, dead, "dead")
    await queue.holds(0)
    before = {each: await audit.rows(each) for each in (done, dead, cancelled)}
    queue.send(*[await message_for(audit.engine, each) for each in before])
    await eventually(lambda: _missed(fleet, len(before)))
    await queue.holds(0)
    assert {each: await audit.rows(each) for each in before} == before, "no row was touched"
    assert await scalar(audit.engine, "SELECT count(*) FROM chot.attempts") == 3
    assert queue.dead == (0, 0)
    assert await scalar(audit.engine, "SELECT count(*) FROM chot.dead_messages") == 0
    await _pumps_on(fleet, audit.engine, http)


async def _missed(fleet: Fleet, count: int) -> bool:
    misses = [len(fleet.events(worker, "claim.missed")) for worker in fleet.workers]
    return sum(misses) >= count


async def _pumps_on(fleet: Fleet, engine: AsyncEngine, http: httpx.AsyncClient) -> None:
    """Every worker still receives: more jobs at once than any one has slots."""
    ids = [await post_job(http, chunks=1, seconds=1.0) for _ in range(8)]
    await all_reached(engine, ids, "succeeded")
    wrote = {pid for job_id in ids for pid in await pids_of(engine, job_id)}
    assert wrote == {worker.pid for worker in fleet.workers}
    assert all(worker.alive for worker in fleet.workers)
