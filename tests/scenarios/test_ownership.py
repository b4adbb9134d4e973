"""Who owns a job: long jobs, paused workers, namesakes (F01, F03, F11)."""

import signal
from itertools import pairwise
from time import monotonic
from typing import Any
from uuid import UUID

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from dev.processes import Child
from tests.factories import eventually, execute, fetch, job_row
from tests.fleet import Fleet
from tests.journeys.looking import (
    all_reached,
    checkpointed,
    effects,
    fenced,
    outcomes,
    reached,
    result_of,
    said,
    working,
)
from tests.scenarios.looking import Audit, Leases, Queue, pids_of, post_job, watched_leases
from tests.sqs_proxy import SqsProxy

ONE_SLOT = {"CHOT_CONCURRENCY": "1"}
DOCUMENTS, CHUNK = 5_000, 100


@pytest.mark.scenario("F01")
async def test_a_job_longer_than_lease_and_visibility_is_given_to_nobody_else(
    fleet: Fleet, audit: Audit, sqs_proxy: SqsProxy, http: httpx.AsyncClient, queue: Queue
) -> None:
    """Step 1, scaled: lease 2.5 s, visibility 5 s, one effect a second for 10 s, three workers."""
    fleet.lease = 2.5
    await working(*[fleet.worker() for _ in range(3)])
    job_id = await post_job(http, chunks=10, seconds=1.0)
    row = await reached(audit.engine, job_id, "succeeded")
    assert (row.attempt, row.fence) == (1, 1)
    assert await effects(audit.engine, job_id) == [(chunk, 1) for chunk in range(10)]
    assert len(await pids_of(audit.engine, job_id)) == 1
    assert await audit.states(job_id) == [
        (None, "pending"),
        ("pending", "running"),
        ("running", "succeeded"),
    ]
    await queue.holds(0)
    assert sqs_proxy.delivered == 1, "its message was received once"


@pytest.mark.scenario("F01")
async def test_nothing_is_received_that_no_slot_is_free_for(
    fleet: Fleet, audit: Audit, sqs_proxy: SqsProxy, http: httpx.AsyncClient, queue: Queue
) -> None:
    """Step 2, scaled: ten jobs of 1.5 s, visibility 5 s, one slot: the tenth would come too late."""
    fleet.lease = 2.5
    ids = [await post_job(http, chunks=1, seconds=1.5) for _ in range(10)]
    await queue.holds(10)
    fleet.worker(**ONE_SLOT)
    await eventually(lambda: _in_flight(queue), every=0.02)
    assert queue.depth == (9, 1), "one slot, one message"
    fleet.worker(**ONE_SLOT)
    await all_reached(audit.engine, ids, "succeeded")
    await queue.holds(0)
    for job_id in ids:
        assert (await job_row(audit.engine, job_id)).attempt == 1
        assert await effects(audit.engine, job_id) == [(0, 1)]
        assert len(await audit.states(job_id)) == 3
    assert sqs_proxy.delivered == 10, "each message was received once"


async def _in_flight(queue: Queue) -> bool:
    return queue.depth[1] > 0


@pytest.mark.scenario("F03")
@pytest.mark.parametrize("wakes", ["while the new owner runs", "after it has finished"])
async def test_a_worker_that_wakes_after_its_lease_posts_nothing_and_steals_nothing(
    probes: AsyncEngine, fleet: Fleet, audit: Audit, http: httpx.AsyncClient, wakes: str
) -> None:
    """Steps 1 to 3, lease 3 s: stopped at document 1,000 of 5,000 until its lease was taken."""
    paused = fleet.worker(**ONE_SLOT)
    await working(paused)
    async with watched_leases(probes, every=0.2) as leases:
        job_id = await post_job(http, "probe.post", documents=DOCUMENTS, chunk=CHUNK, seconds=0.05)
        await checkpointed(probes, job_id, 10)
        paused.send(signal.SIGSTOP)
        fleet.worker(**ONE_SLOT)
        await fenced(probes, job_id, 2)
        if wakes == "after it has finished":
            await reached(probes, job_id, "succeeded")
        paused.send(signal.SIGCONT)
        ended = await said(paused, "attempt.ended")
        await reached(probes, job_id, "succeeded")
    assert (ended["outcome"], ended["fence"], ended["job_id"]) == ("lost", 1, str(job_id))
    _never_backwards(leases, job_id)
    await _stole_nothing(audit, job_id)
    row = await job_row(probes, job_id)
    assert (row.fence, row.attempt, row.lost_leases) == (2, 2, 1)
    assert await result_of(probes, job_id) == {"posted": DOCUMENTS, "by_fence": 2}
    assert await outcomes(probes, job_id) == ["lost_lease", "succeeded"]
    await _posted_once(probes, job_id)
    await _both_serve(probes, http, paused)


def _never_backwards(leases: Leases, job_id: UUID) -> None:
    seen = leases.expiries[job_id]
    assert {fence for fence, _ in seen} == {1, 2}
    assert all(earlier < later for earlier, later in pairwise(seen)), "fence, then expiry"


async def _stole_nothing(audit: Audit, job_id: UUID) -> None:
    """No renewal of the new token came over a connection that had renewed the old one."""
    rows = await audit.rows(job_id)
    beats = [row for row in rows if row.by_name == "chot heartbeat"]
    old = {row.by_pid for row in beats if row.fence == 1}
    new = {row.by_pid for row in beats if row.fence == 2}
    assert old
    assert not old & new
    assert len({row.token for row in rows if row.fence == 2 and row.token}) == 1
    assert rows[-1].state == "succeeded"
    assert await audit.left_a_terminal_state() == []


async def _posted_once(engine: AsyncEngine, job_id: UUID) -> None:
    (books,) = await fetch(
        engine,
        """SELECT count(*) AS entries, count(DISTINCT document) AS documents,
                  sum(amount) FILTER (WHERE amount > 0) AS debit,
                  -sum(amount) FILTER (WHERE amount < 0) AS credit
             FROM probe.entries WHERE job_id = :id""",
        id=job_id,
    )
    total = sum(100 + document for document in range(1, DOCUMENTS + 1))
    assert books == (2 * DOCUMENTS, DOCUMENTS, total, total), "each once, debit = credit"


async def _both_serve(engine: AsyncEngine, http: httpx.AsyncClient, woken: Child) -> None:
    """Two jobs at once on two workers of one slot: the one that was paused serves again."""
    others = [await post_job(http, chunks=1, seconds=0.7) for _ in range(2)]
    await all_reached(engine, others, "succeeded")
    pids = {pid for other in others for pid in await pids_of(engine, other)}
    assert len(pids) == 2
    assert woken.pid in pids


@pytest.mark.alone
@pytest.mark.scenario("F11")
@pytest.mark.parametrize("how", ["a namesake comes", "its row is pruned"])
async def test_a_killed_workers_job_is_claimed_again_in_time(
    probes: AsyncEngine, fleet: Fleet, audit: Audit, http: httpx.AsyncClient, how: str
) -> None:
    """Runs 1 and 2, lease 4 s, reaper 1.3 s: the next worker has the same host name by nature."""
    fleet.lease = 4.0
    first = fleet.worker()
    job_id = await post_job(http, chunks=60, seconds=1.0)
    before = await checkpointed(probes, job_id, 1)
    if how == "its row is pruned":
        await working(fleet.worker())
    async with watched_leases(probes) as leases:
        first.send(signal.SIGKILL)
        killed = monotonic()
        if how == "its row is pruned":
            await execute(
                probes, "DELETE FROM chot.workers WHERE worker_id = :w", w=before.worker_id
            )
        else:
            fleet.worker()
        after = await fenced(probes, job_id, 2)
        assert monotonic() - killed <= fleet.lease + fleet.lease / 3 + 1
    await _claimed_by_another(probes, before, after)
    assert min(leases.left[job_id]) > -10 * fleet.lease / 6, "10 s at a lease of 6"
    assert await audit.states(job_id) in (
        [*BEGINNING, ("running", "pending"), ("pending", "running")],  # the reaper was first
        BEGINNING,  # the claim itself took it over
    )


BEGINNING = [(None, "pending"), ("pending", "running")]


async def _claimed_by_another(engine: AsyncEngine, before: Any, after: Any) -> None:
    assert (after.attempt, after.fence, after.lost_leases) == (2, 2, 1)
    assert after.lease_token != before.lease_token
    host, pid, nonce = before.worker_id.rsplit("-", 2)
    again_host, *again = after.worker_id.rsplit("-", 2)
    assert again_host == host, "the same name came back"
    assert again != [pid, nonce], "and is nobody that was there before"
    await checkpointed(engine, after.id, after.checkpoint_no + 1)


@pytest.mark.alone
@pytest.mark.scenario("F11")
async def test_a_job_left_running_by_the_last_worker_is_claimed_by_the_next(
    probes: AsyncEngine, fleet: Fleet, http: httpx.AsyncClient
) -> None:
    """Run 3, scaled: nobody for two leases (5 minutes there), not even a row; then one worker."""
    fleet.lease = 2.0
    first = fleet.worker()
    job_id = await post_job(http, chunks=60, seconds=1.0)
    before = await checkpointed(probes, job_id, 1)
    first.send(signal.SIGKILL)
    await execute(probes, "DELETE FROM chot.workers")

    async def long_expired() -> bool:
        return bool(
            await fetch(
                probes,
                """SELECT 1 FROM chot.jobs WHERE id = :id AND state = 'running' AND
                   lease_expires_at < clock_timestamp() - make_interval(secs => :lease)""",
                id=job_id,
                lease=fleet.lease,
            )
        )

    await eventually(long_expired)
    assert (await job_row(probes, job_id)).fence == 1
    await working(fleet.worker())
    started = monotonic()
    after = await fenced(probes, job_id, 2)
    assert monotonic() - started <= fleet.lease / 3 + 1
    await _claimed_by_another(probes, before, after)
