"""Fairness: no backlog, no long kind and no priority keeps the others waiting without a bound.

Scaled: F60's 2 s are 0.5 s, its 10 minutes are as long as the test, ageing is 0.5 s, not 30.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.jobs.enqueue import Submit, enqueue_many
from shared.publishing import PER_SLOT
from tests.factories import NUMBERS, eventually, fetch, job_row, scalar
from tests.fleet import Fleet
from tests.journeys.looking import all_reached, fenced, working
from tests.scenarios.fair_kinds import MOST

SLOTS = 4
RELAY_POLL = 0.3
# What two busy cores may take for a claim, a send and a receive, all together.
SLACK = 2.0
KINDS = {
    "CHOT_KIND_MODULES": "tests.probes.kinds,tests.scenarios.fair_kinds",
    "CHOT_HANDLER_MODULES": "tests.probes.handlers,tests.scenarios.fair_kinds",
}


def longest_wait(job_seconds: float, *, risen_after: float = 0.0) -> float:
    """docs/fairness.md: the window ahead of it, a job in each slot, and what the relay takes."""
    return risen_after + (PER_SLOT + 1) * job_seconds + 2 * RELAY_POLL + SLACK


def sleeping(
    kind: str, seconds: float, *, brand: str = "RED", priority: int | None = None
) -> Submit:
    """A job that takes so long and does nothing."""
    return Submit(
        kind=kind,
        company="ACME",
        brand=brand,
        priority=priority,
        payload={"number": next(NUMBERS), "how": "sleep", "seconds": seconds},
    )


async def submit(engine: AsyncEngine, *jobs: Submit) -> list[UUID]:
    """Commit all of them at once; their ids in the order given."""
    async with engine.begin() as conn:
        return [each.job_id for each in await enqueue_many(conn, jobs)]


async def waited(engine: AsyncEngine, job_id: UUID) -> float:
    """Seconds from a job's submit to its start, by the database's clock."""
    await fenced(engine, job_id, 1, seconds=60)
    row = await job_row(engine, job_id)
    return float((row.started_at - row.created_at).total_seconds())


async def started(engine: AsyncEngine, count: int) -> None:
    """Wait until so many jobs have been started."""

    async def there() -> bool:
        found = await scalar(engine, "SELECT count(*) FROM chot.jobs WHERE fence > 0")
        return bool(found >= count)

    await eventually(there)


@pytest.mark.alone
@pytest.mark.scenario("F60")
async def test_a_brands_backlog_keeps_another_brand_waiting_for_a_moment_only(
    probes: AsyncEngine, fleet: Fleet, http: httpx.AsyncClient
) -> None:
    """Step 1: brand A has 400 jobs, then brand B one: B starts within the documented bound.

    Behind A's backlog it would wait for 50 s; F60 allows 30 s with jobs four times as long.
    """
    await working(fleet.worker(CHOT_CONCURRENCY=str(SLOTS)))
    await submit(probes, *(sleeping("probe.misbehave", 0.5) for _ in range(400)))
    await started(probes, 10)
    body = {"kind": "probe.write", "company": "ACME", "brand": "BLUE"}
    answer = await http.post("/v1/jobs", json=body | {"payload": {"number": next(NUMBERS)}})
    assert answer.status_code == 202, answer.text
    assert await waited(probes, UUID(answer.json()["id"])) <= longest_wait(0.5) < 30 / 4
    left = await scalar(probes, "SELECT count(*) FROM chot.jobs WHERE fence = 0")
    assert left > 300, "A's backlog is still there"


@pytest.mark.alone
@pytest.mark.scenario("F60")
async def test_a_long_kind_leaves_slots_to_the_others(probes: AsyncEngine, fleet: Fleet) -> None:
    """Step 2: four migrations of ten minutes, four slots; the 1 s job starts within 10 s.

    The kind's limit is three: the fourth waits, uncharged, and starts when one has ended.
    """
    await working(fleet.worker(CHOT_CONCURRENCY=str(SLOTS), **KINDS))
    lengths = [3.0] + [600.0] * (MOST + 1)
    long = await submit(probes, *(sleeping("probe.migrate", each) for each in lengths[:4]))
    await started(probes, MOST)
    (short,) = await submit(probes, sleeping("probe.misbehave", 1.0))
    assert await waited(probes, short) <= 10
    rows = await fetch(
        probes,
        "SELECT id, attempt FROM chot.jobs WHERE kind = 'probe.migrate' AND state = 'pending'",
    )
    assert [row.attempt for row in rows] in ([0], []), "one waits, or the short one has ended"
    await all_reached(probes, [short], "succeeded")
    await fenced(probes, long[3], 1)
    assert await most_at_once(probes) == MOST


async def most_at_once(engine: AsyncEngine) -> int:
    """The most attempts of the limited kind whose times overlap."""
    return int(
        await scalar(
            engine,
            """SELECT max(n) FROM (
                   SELECT (SELECT count(*) FROM chot.attempts b JOIN chot.jobs k ON k.id = b.job_id
                            WHERE k.kind = j.kind AND b.started_at <= a.started_at
                              AND (b.ended_at IS NULL OR b.ended_at > a.started_at)) AS n
                     FROM chot.attempts a JOIN chot.jobs j ON j.id = a.job_id
                    WHERE j.kind = 'probe.migrate') AS o""",
        )
    )


@pytest.mark.alone
@pytest.mark.scenario("F60")
async def test_a_queue_of_its_own_keeps_a_long_kind_apart(
    probes: AsyncEngine, fleet: Fleet
) -> None:
    """Step 2 by queues: each has slots of its own, so the 1 s job starts within 10 s."""
    queues = f"default:{SLOTS},migration:2"
    await working(fleet.worker(CHOT_QUEUES=queues, **KINDS))
    long = await submit(probes, *(sleeping("probe.convert", 600.0) for _ in range(4)))
    await started(probes, 2)
    (short,) = await submit(probes, sleeping("probe.misbehave", 1.0))
    assert await waited(probes, short) <= 10
    running = "SELECT count(*) FROM chot.jobs WHERE id = ANY(:ids) AND state = 'running'"
    assert await scalar(probes, running, ids=long) == 2


@pytest.mark.alone
@pytest.mark.scenario("F60")
async def test_an_interactive_job_starts_at_once_while_all_other_slots_are_busy(
    probes: AsyncEngine, fleet: Fleet
) -> None:
    """Its slots are reserved: no backlog and no long job of another queue is ever in them."""
    worker = fleet.worker(CHOT_QUEUES=f"default:{SLOTS},interactive:1", **KINDS)
    await working(worker)
    long = await submit(probes, *(sleeping("probe.misbehave", 600.0) for _ in range(3 * SLOTS)))
    await started(probes, SLOTS)
    for _ in range(3):
        (asked,) = await submit(probes, sleeping("probe.ask", 0.0))
        assert await waited(probes, asked) <= 2 * RELAY_POLL + SLACK
        await all_reached(probes, [asked], "succeeded")
    running = "SELECT count(*) FROM chot.jobs WHERE id = ANY(:ids) AND state = 'running'"
    assert await scalar(probes, running, ids=long) == SLOTS


@asynccontextmanager
async def a_stream(engine: AsyncEngine, *, seconds: float) -> AsyncIterator[None]:
    """High-priority jobs without end: there are always more of them than all slots can take."""

    async def feed() -> None:
        waiting = "SELECT count(*) FROM chot.jobs WHERE state = 'pending' AND priority = 9"
        while True:
            missing = 40 - await scalar(engine, waiting)
            if missing > 0:
                jobs = (sleeping("probe.misbehave", seconds, priority=9) for _ in range(missing))
                await submit(engine, *jobs)
            await asyncio.sleep(0.1)

    feeding = asyncio.create_task(feed())
    try:
        yield
        assert not feeding.done(), "the stream never ended"
    finally:
        feeding.cancel()
        await asyncio.wait({feeding})


@pytest.mark.alone
@pytest.mark.scenario("F60")
async def test_a_low_priority_starts_within_its_maximum_wait(
    probes: AsyncEngine, fleet: Fleet
) -> None:
    """Step 3: a steady stream of priority 9 and one job of priority 0, the lowest there is."""
    ageing = 0.5
    await working(
        fleet.worker(CHOT_CONCURRENCY=str(SLOTS), CHOT_AGEING_SECONDS=str(ageing)),
    )
    async with a_stream(probes, seconds=0.2):
        await started(probes, 10)
        (low,) = await submit(probes, sleeping("probe.misbehave", 0.0, brand="BLUE", priority=0))
        assert await waited(probes, low) <= longest_wait(0.2, risen_after=9 * ageing)
        row: Any = await job_row(probes, low)
        passed = await scalar(
            probes,
            """SELECT count(*) FROM chot.jobs WHERE priority = 9
                  AND created_at > :created AND started_at < :started""",
            created=row.created_at,
            started=row.started_at,
        )
    assert passed > 0, "the stream was steady: later jobs of a higher priority went first"
