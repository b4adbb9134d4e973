"""Business locks with real workers: killed, frozen, and none of them in each other's way."""

import asyncio
import signal
from itertools import pairwise
from statistics import median
from typing import Any
from uuid import UUID

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.kinds.registry import load_kinds, mirror_kinds
from tests.factories import eventually, execute, fetch, job_row
from tests.fleet import Fleet
from tests.journeys.looking import all_reached, checkpointed, fenced, outcomes, reached, said
from tests.protocol.locking import is_waiting, locked_job
from tests.sqs_proxy import SqsProxy

KINDS = {
    "CHOT_KIND_MODULES": "tests.probes.kinds,tests.probes.lock_kinds",
    "CHOT_HANDLER_MODULES": "tests.probes.handlers,tests.probes.lock_handlers",
}
# What two busy cores may take beyond the second that docs/locks.md speaks of.
SLACK = 1.5
OVERLAPS = """
    SELECT a.job_id, b.job_id AS other FROM chot.attempts a JOIN chot.attempts b
        ON a.job_id <> b.job_id AND a.started_at <= b.started_at
       AND (a.ended_at IS NULL OR a.ended_at > b.started_at)
     WHERE a.job_id = ANY(:ids) AND b.job_id = ANY(:ids)"""


@pytest.fixture
async def books(probes: AsyncEngine) -> AsyncEngine:
    """A database that knows the kinds that lock, before any worker has told it."""
    async with probes.begin() as conn:
        kinds = load_kinds("tests.probes.lock_kinds")
        await mirror_kinds(conn, kinds, default_max_attempts=5)
    return probes


async def waits(engine: AsyncEngine, job_id: UUID) -> None:
    """Until the job has been refused for a lock."""

    async def refused() -> bool:
        return await is_waiting(engine, job_id)

    await eventually(refused)


async def test_a_killed_holders_waiter_runs_after_the_reaper(
    books: AsyncEngine, fleet: Fleet
) -> None:
    """Not before: until then the dead holder could have been about to commit."""
    doomed = fleet.worker(**KINDS)
    holder = await locked_job(books, chunks=30, seconds=0.3)
    await checkpointed(books, holder, 2)
    fleet.worker(**KINDS)
    waiter = await locked_job(books, chunks=1)
    await waits(books, waiter)
    doomed.send(signal.SIGKILL)
    await all_reached(books, [holder, waiter], "succeeded", seconds=60)
    assert await fetch(books, OVERLAPS, ids=[holder, waiter]) == []
    assert await outcomes(books, holder) == ["lost_lease", "succeeded"]
    row = await job_row(books, waiter)
    assert (row.attempt, row.interruptions, row.lost_leases) == (1, 0, 0)


async def test_a_buried_holder_frees_its_waiter(books: AsyncEngine, fleet: Fleet) -> None:
    """A job whose last attempt is killed ends dead, and holds nothing."""
    doomed = fleet.worker(**KINDS)
    holder = await locked_job(books, chunks=60, seconds=0.4)
    await execute(books, "UPDATE chot.jobs SET lost_leases = 0, max_attempts = 1")
    await fenced(books, holder, 1)
    waiter = await locked_job(books)
    await waits(books, waiter)
    await execute(
        books,
        """UPDATE chot.jobs SET attempt = 3, fence = 3, lost_leases = 1, interruptions = 1
            WHERE id = :i""",
        i=holder,
    )
    doomed.send(signal.SIGKILL)
    fleet.worker(**KINDS)
    await reached(books, holder, "dead")
    await reached(books, waiter, "succeeded")


async def test_a_frozen_holder_keeps_its_locks_and_wakes_up_to_nothing(
    books: AsyncEngine, fleet: Fleet
) -> None:
    """SIGSTOP past its lease: reaped first, then the waiter runs; SIGCONT: nothing is written."""
    zombie = fleet.worker(**KINDS, CHOT_CONCURRENCY="1")
    holder = await locked_job(books, chunks=40, seconds=0.3)
    await checkpointed(books, holder, 2)
    fleet.worker(**KINDS, CHOT_CONCURRENCY="1")
    waiter = await locked_job(books, chunks=2, seconds=0.2)
    await waits(books, waiter)
    zombie.send(signal.SIGSTOP)
    await reached(books, waiter, "succeeded")
    zombie.send(signal.SIGCONT)
    ended = await said(zombie, "attempt.ended")
    assert (ended["outcome"], ended["fence"]) == ("lost", 1)
    await reached(books, holder, "succeeded", seconds=60)
    assert await fetch(books, OVERLAPS, ids=[holder, waiter]) == []


async def test_waiters_start_within_a_second_and_do_not_spin(
    books: AsyncEngine, fleet: Fleet, sqs_proxy: SqsProxy
) -> None:
    """One after the other, each sent once for its submit and once when it may run."""
    fleet.worker(**KINDS, CHOT_CONCURRENCY="4")
    holder = await locked_job(books, chunks=1, seconds=2.5)
    await fenced(books, holder, 1)
    before = sqs_proxy.accepted_entries
    waiters = [await locked_job(books, chunks=1, seconds=0.1) for _ in range(5)]
    for each in waiters:
        await waits(books, each)
    await all_reached(books, [holder, *waiters], "succeeded")
    rows = await fetch(
        books, "SELECT job_id, started_at, ended_at FROM chot.attempts ORDER BY started_at"
    )
    assert [row.job_id for row in rows] == [holder, *waiters], "in the order in which they waited"
    gaps = [_seconds(one.ended_at, two.started_at) for one, two in pairwise(rows)]
    assert all(0 <= gap < 1 + SLACK for gap in gaps), gaps
    assert median(gaps) < 1, "one of them may meet a machine that is busy"
    assert sqs_proxy.accepted_entries - before <= 2 * len(waiters)
    for each in waiters:
        row = await job_row(books, each)
        assert (row.attempt, row.fence, row.interruptions) == (1, 1, 0)


def _seconds(one: Any, two: Any) -> float:
    return float((two - one).total_seconds())


async def test_a_cancel_over_http_wakes_the_next(books: AsyncEngine, fleet: Fleet) -> None:
    """The api stages the waiter's message in the cancel's own transaction, and sends it at once."""
    fleet.worker(**KINDS)
    _, url = await asyncio.to_thread(fleet.api, **KINDS)
    holder = await locked_job(books, chunks=40, seconds=0.5)
    await fenced(books, holder, 1)
    waiter = await locked_job(books)
    await waits(books, waiter)
    async with httpx.AsyncClient(base_url=url, timeout=10) as client:
        why = (await client.get(f"/v1/jobs/{waiter}/why")).json()
        assert (why["reason"], why["lock"]["job_id"]) == ("lock-held", str(holder))
        assert (await client.get(f"/v1/jobs/{waiter}")).json()["locks"][0]["root"] == "books"
        assert (await client.post(f"/v1/jobs/{holder}/cancel")).status_code == 200
    await reached(books, waiter, "succeeded", seconds=5)
