"""Reconciler: what SQS lost is published again, and what merely waits is not."""

import asyncio
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.types import JobId
from tests.factories import autocommit, execute, fetch, job_row, make_job, scalar
from tests.protocol.sessions import lock_job
from worker.presence import Presence, QueuePresence, report_presence
from worker.reconciler import restage_lost

T = 60.0


async def reconcile(engine: AsyncEngine) -> int:
    """One step of the reconciler."""
    async with autocommit(engine).connect() as conn:
        return await restage_lost(conn, T)


async def lost_job(engine: AsyncEngine, *, published: float = 90, publishes: int = 1) -> JobId:
    """A job that was published so many seconds ago and of which nothing was heard since."""
    job_id = await make_job(engine)
    await execute(engine, "DELETE FROM chot.outbox WHERE job_id = :i", i=job_id)
    await publish(engine, job_id, published, publishes)
    return job_id


async def publish(engine: AsyncEngine, job_id: JobId, ago: float, publishes: int = 1) -> None:
    """Set back when the job was published, and when it was due."""
    await execute(
        engine,
        """UPDATE chot.jobs SET publishes = :n,
                  published_at = clock_timestamp() - make_interval(secs => :ago),
                  available_at = clock_timestamp() - make_interval(secs => :ago) WHERE id = :i""",
        i=job_id,
        ago=ago,
        n=publishes,
    )


async def worker(
    engine: AsyncEngine,
    *,
    free: int = 2,
    empty_ago: float | None = 5.0,
    free_for: float | None = 5.0,
    live: float = 30,
    kinds: dict[str, int] | None = None,
    queue: str = "default",
) -> None:
    """A worker that has just said so of itself: free slots, and when it last received nothing."""
    presence = Presence(
        worker_id=claim_id("w"),
        host="h",
        pid=1,
        code_version="test",
        kinds={"probe.write": 1} if kinds is None else kinds,
    )
    presence.queues[queue] = QueuePresence(slots=2, free_slots=free)
    async with autocommit(engine).connect() as conn:
        await report_presence(conn, presence, live)
    await execute(
        engine,
        """UPDATE chot.worker_queues
              SET empty_receive_at = clock_timestamp() - make_interval(secs => :empty),
                  free_since = clock_timestamp() - make_interval(secs => :free)""",
        empty=empty_ago,
        free=free_for,
    )


def claim_id(name: str) -> Any:
    """A worker's name as the presence wants it."""
    return name


async def staged(engine: AsyncEngine) -> list[Any]:
    """The jobs that have a message waiting."""
    rows = await fetch(engine, "SELECT job_id FROM chot.outbox ORDER BY id")
    return [row.job_id for row in rows]


async def test_a_lost_message_is_staged_again_once(probes: AsyncEngine) -> None:
    """Free slots and an empty receive since it was published: it is not in the queue."""
    await worker(probes)
    job_id = await lost_job(probes)
    assert await reconcile(probes) == 1
    assert await staged(probes) == [job_id]
    assert await reconcile(probes) == 0, "a message waits: it has not been lost"
    assert (await job_row(probes, job_id)).state == "pending"


NOT_LOST: dict[str, dict[str, Any]] = {
    "all slots are busy": {"free": 0},
    "the last empty receive was before it": {"empty_ago": 100},
    "no receive was ever empty": {"empty_ago": None},
    "the worker is not alive any more": {"live": -1},
    "no live worker knows the kind": {"kinds": {"probe.other": 1}},
    "the live workers know older payloads only": {"kinds": {"probe.write": 0}},
    "the worker serves another queue": {"queue": "other"},
}


async def test_what_only_waits_is_not_staged_again(probes: AsyncEngine) -> None:
    """No storm: a message that is still in the queue would only be multiplied."""
    await lost_job(probes)
    for why, said in NOT_LOST.items():
        await execute(probes, "DELETE FROM chot.workers")
        await worker(probes, **said)
        assert await reconcile(probes) == 0, why
    await worker(probes)
    assert await reconcile(probes) == 1, "the job itself was lost all the time"


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE chot.queues SET paused = true",
        "UPDATE chot.jobs SET available_at = clock_timestamp() + interval '1 minute'",
        """UPDATE chot.jobs SET state = 'running', fence = 1, attempt = 1, worker_id = 'x',
           lease_token = gen_random_uuid(), lease_expires_at = clock_timestamp()""",
        "UPDATE chot.jobs SET state = 'cancelled', finished_at = clock_timestamp()",
        "UPDATE chot.jobs SET payload_version = 2",
    ],
)
async def test_a_job_that_is_not_claimable_is_not_lost(probes: AsyncEngine, change: str) -> None:
    """Claimable is one predicate; the reconciler uses it, too."""
    await worker(probes)
    await lost_job(probes)
    await execute(probes, change)
    assert await reconcile(probes) == 0


async def test_a_purged_queue_comes_back_and_busy_slots_keep_quiet(probes: AsyncEngine) -> None:
    """Five hundred jobs whose messages are gone: nothing while all are busy, then each once."""
    for _ in range(500):
        await make_job(probes)
    await execute(probes, "DELETE FROM chot.outbox")
    await execute(
        probes,
        """UPDATE chot.jobs SET publishes = 1,
                  published_at = clock_timestamp() - interval '90 seconds',
                  available_at = clock_timestamp() - interval '90 seconds'""",
    )
    await worker(probes, free=0)
    for _ in range(3):
        assert await reconcile(probes) == 0
    await worker(probes, free=1)
    counts = await asyncio.gather(*(reconcile(probes) for _ in range(4)))
    assert sum(counts) == len(set(await staged(probes))) == len(await staged(probes)) == 500


async def test_the_delay_doubles_up_to_a_quarter_of_an_hour(probes: AsyncEngine) -> None:
    """Counted by what was really published, a job at a time."""
    await worker(probes)
    for publishes, seconds in ((1, 60), (2, 120), (3, 240), (4, 480), (5, 900), (9, 900)):
        job_id = await lost_job(probes, published=seconds - 5, publishes=publishes)
        assert await reconcile(probes) == 0, publishes
        await publish(probes, job_id, seconds + 5, publishes)
        assert await reconcile(probes) == 1, publishes


async def test_a_queue_that_never_runs_empty_gets_a_quarter_of_an_hour(
    probes: AsyncEngine,
) -> None:
    """Free slots all that time, and yet it never came: it is not in the queue either."""
    await worker(probes, empty_ago=None, free_for=950)
    job_id = await lost_job(probes, published=890)
    assert await reconcile(probes) == 0
    await publish(probes, job_id, 910)
    assert await reconcile(probes) == 1


async def test_slots_that_were_busy_meanwhile_prove_nothing(probes: AsyncEngine) -> None:
    """Free for ten minutes only: the message may well stand behind others."""
    await worker(probes, empty_ago=None, free_for=600)
    await lost_job(probes, published=1000)
    assert await reconcile(probes) == 0


async def test_a_job_that_was_never_marked_counts_from_its_due_time(probes: AsyncEngine) -> None:
    """Sent, but the relay died before it could say so."""
    await worker(probes)
    job_id = await lost_job(probes)
    await execute(
        probes, "UPDATE chot.jobs SET published_at = NULL, publishes = 0 WHERE id = :i", i=job_id
    )
    assert await reconcile(probes) == 1


async def test_a_job_being_claimed_at_this_moment_is_passed_over(probes: AsyncEngine) -> None:
    """Its row is held: the claim is the answer."""
    await worker(probes)
    held_row, other = await lost_job(probes), await lost_job(probes)
    async with probes.begin() as conn:
        await lock_job(conn, held_row)
        async with asyncio.timeout(3):
            assert await reconcile(probes) == 1
    assert await staged(probes) == [other]


async def test_a_quarantined_message_is_not_sent_over_and_over(probes: AsyncEngine) -> None:
    """SQS has refused it for good, an alert is out; publishing it again would be refused again."""
    await worker(probes)
    job_id = await make_job(probes)
    await publish(probes, job_id, 90)
    await execute(probes, "UPDATE chot.outbox SET quarantined_at = clock_timestamp()")
    assert await reconcile(probes) == 0
    assert await scalar(probes, "SELECT count(*) FROM chot.outbox") == 1
