"""Limits: of a kind with a maximum never more run at once, and those that wait take no room."""

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.errors import ConfigRefused
from shared.kinds.registry import load_kinds
from shared.sqs import Delivery
from shared.types import JobId, ReceiptHandle, WorkerId
from tests.factories import (
    autocommit,
    claimant,
    execute,
    expire_lease,
    fetch,
    job_row,
    make_job,
    offer_slots,
    scalar,
)
from tests.protocol.test_publishing import backlog, ids, publish
from worker.alone import free_alone, reserve_alone
from worker.claim import claim_jobs
from worker.outcome import complete_job
from worker.settle import RunAlone, StageAgain, read_missed, settle, stage_again

MOST = 3


@pytest.fixture
async def limited(probes: AsyncEngine) -> AsyncEngine:
    """The probes' database, with at most three of `probe.misbehave` running, four slots offered."""
    await execute(
        probes, "UPDATE chot.kinds SET max_running = :m WHERE name = 'probe.misbehave'", m=MOST
    )
    await offer_slots(probes, 4)
    return probes


async def claim_one(engine: AsyncEngine, job_id: UUID, worker: str = "") -> list[Any]:
    """Claim as a worker does that has missed it in its batch."""
    who = claimant(worker or str(uuid4()))
    return await claim_jobs(autocommit(engine), who, [JobId(job_id)], wait=True)


async def running(engine: AsyncEngine) -> int:
    """How many of the limited kind run."""
    return int(
        await scalar(
            engine,
            "SELECT count(*) FROM chot.jobs WHERE state = 'running' AND kind = 'probe.misbehave'",
        )
    )


async def test_the_maximum_is_exact_among_many_claimants(limited: AsyncEngine) -> None:
    """Twelve workers claim twelve jobs at the same moment: three are won, each time anew."""
    for _ in range(4):
        jobs = await backlog(limited, 12, kind="probe.misbehave")
        won = await asyncio.gather(*(claim_one(limited, job_id) for job_id in jobs))
        held = [each for batch in won for each in batch]
        assert len(held) == await running(limited) == MOST
        for each in held:
            async with autocommit(limited).connect() as conn:
                assert await complete_job(conn, each, None)
        assert await running(limited) == 0
        await execute(limited, "DELETE FROM chot.outbox")


async def test_a_batch_leaves_a_limited_kind_alone(limited: AsyncEngine) -> None:
    """In one statement two batches would not see each other's jobs; the rest of it is claimed."""
    slow, quick = await make_job(limited, "probe.misbehave", how="sleep"), await make_job(limited)
    won = await claim_jobs(autocommit(limited), claimant(), [slow, quick])
    assert [each.lease.job_id for each in won] == [quick]
    assert [each.lease.job_id for each in await claim_one(limited, slow)] == [slow]


async def test_a_lapsed_job_is_taken_over_at_the_maximum(limited: AsyncEngine) -> None:
    """It counts already: its own takeover makes it no more."""
    jobs = await backlog(limited, MOST + 1, kind="probe.misbehave")
    for job_id in jobs[:MOST]:
        assert await claim_one(limited, job_id)
    await expire_lease(limited, jobs[0])
    assert await claim_one(limited, jobs[MOST]) == [], "held while it runs, whatever its lease says"
    assert await claim_one(limited, jobs[0])
    assert await running(limited) == MOST


async def test_what_meets_the_maximum_waits_in_the_outbox(limited: AsyncEngine) -> None:
    """Its delivery is deleted, one row is staged, and the relay holds it until one has ended."""
    jobs = await backlog(limited, MOST + 1, kind="probe.misbehave")
    await execute(limited, "DELETE FROM chot.outbox")
    held = [(await claim_one(limited, job_id))[0] for job_id in jobs[:MOST]]
    async with autocommit(limited).connect() as conn:
        rows = await read_missed(conn, [JobId(jobs[MOST])], WorkerId("b"))
        found = settle(delivery(), rows[JobId(jobs[MOST])], claimant())
        assert found == StageAgain()
        for _ in range(2):
            await stage_again(conn, JobId(jobs[MOST]))
        assert await scalar(limited, "SELECT count(*) FROM chot.outbox") == 1
        assert await publish(limited) == []
        assert await complete_job(conn, held[0], None)
    assert ids(await publish(limited)) == [jobs[MOST]]
    assert (await job_row(limited, jobs[MOST])).attempt == 0, "nothing was charged for it"


def delivery() -> Delivery:
    """A message that was received for the first time."""
    return Delivery(
        queue="default",
        message_id="m",
        handle=ReceiptHandle("r"),
        body="{}",
        receive_count=1,
        attributes={},
    )


async def must_run_alone(engine: AsyncEngine, job_id: UUID) -> None:
    """The job has lost its worker twice, and worker `a` reserves the queue for it."""
    await execute(
        engine,
        "UPDATE chot.jobs SET lost_leases = 2, attempt = 2, fence = 2 WHERE id = :i",
        i=job_id,
    )
    await execute(engine, "DELETE FROM chot.outbox WHERE job_id = :i", i=job_id)
    async with autocommit(engine).connect() as conn:
        missed = (await read_missed(conn, [JobId(job_id)], WorkerId("a")))[JobId(job_id)]
        assert settle(delivery(), missed, claimant("a")) == RunAlone(queue="default")
        assert await reserve_alone(conn, "default", WorkerId("a"), JobId(job_id), 30)


async def test_a_job_that_must_run_alone_keeps_its_place(limited: AsyncEngine) -> None:
    """While its worker empties its slots, sixty others of the kind wait: it would never run."""
    await execute(limited, "UPDATE chot.kinds SET max_running = 1 WHERE max_running = :m", m=MOST)
    (alone,) = await backlog(limited, 1, kind="probe.misbehave")
    others = await backlog(limited, 60, kind="probe.misbehave")
    await must_run_alone(limited, alone)
    assert await publish(limited) == [], "its place is the only one"
    assert await claim_one(limited, others[0], "b") == []
    async with autocommit(limited).connect() as conn:
        rows = await read_missed(conn, [JobId(others[0])], WorkerId("b"))
        assert settle(delivery(), rows[JobId(others[0])], claimant("b")) == StageAgain()
        (held,) = await claim_one(limited, alone, "a")
        assert await complete_job(conn, held, None)
        await free_alone(conn, "default", WorkerId("a"), JobId(alone))
    assert ids(await publish(limited)) == others[:1]
    assert await claim_one(limited, others[0], "b")


async def test_it_runs_in_the_place_of_a_neighbour_that_has_ended(limited: AsyncEngine) -> None:
    """As many run as may, its worker's own among them: nothing is counted twice, nothing lost."""
    alone, neighbour, *others = await backlog(limited, 2 + MOST, kind="probe.misbehave")
    (ends,) = await claim_one(limited, neighbour, "a")
    await must_run_alone(limited, alone)
    won = [await claim_one(limited, each, "b") for each in others]
    assert [len(each) for each in won] == [1, 1, 0]
    async with autocommit(limited).connect() as conn:
        assert await complete_job(conn, ends, None)
    assert await claim_one(limited, others[-1], "b") == [], "the place is kept"
    assert await claim_one(limited, alone, "a")
    assert await running(limited) == MOST


async def test_a_reservation_that_ran_out_holds_no_place(limited: AsyncEngine) -> None:
    """Its worker died before it ran the job: the kind goes on."""
    await execute(limited, "UPDATE chot.kinds SET max_running = 1 WHERE max_running = :m", m=MOST)
    alone, other = await backlog(limited, 2, kind="probe.misbehave")
    await must_run_alone(limited, alone)
    await execute(
        limited, "UPDATE chot.queues SET alone_until = clock_timestamp() WHERE alone_worker = 'a'"
    )
    assert ids(await publish(limited)) == [other]
    assert await claim_one(limited, other, "b")


async def test_a_kind_at_its_maximum_takes_no_room(limited: AsyncEngine) -> None:
    """A hundred of it wait, before and behind: the other jobs of the same brand pass them."""
    await backlog(limited, 100, kind="probe.misbehave")
    others = await backlog(limited, 20)
    sent = await publish(limited)
    assert [row.kind for row in sent].count("probe.misbehave") == MOST
    assert len(sent) == 12, "the window is full"
    assert set(ids(sent)) - set(others) == {
        row.job_id for row in sent if row.kind == "probe.misbehave"
    }


async def test_what_a_kind_has_left_goes_round_the_brands(limited: AsyncEngine) -> None:
    """RED's hundred came first; BLUE's one is among the next three."""
    await backlog(limited, 100, kind="probe.misbehave")
    (blue,) = await backlog(limited, 1, kind="probe.misbehave", brand="BLUE")
    assert blue in ids(await publish(limited))


async def test_a_maximum_below_one_is_refused() -> None:
    """Such a kind would never run, and nobody would know why."""
    with pytest.raises(ConfigRefused, match="max_running=0"):
        load_kinds("tests.protocol.never_running")


async def test_a_long_interactive_kind_is_refused() -> None:
    """A second more than a minute: the queue's few slots are for those who wait at a screen."""
    with pytest.raises(ConfigRefused, match=r"probe.slow_ask.*61 s.*≤ 60 s"):
        load_kinds("tests.protocol.long_interactive")
    assert "probe.ask" in load_kinds("tests.probes.kinds,tests.scenarios.fair_kinds")


async def test_the_maximum_is_mirrored(probes: AsyncEngine) -> None:
    """None, where the code says none: every worker start brings the database to the code."""
    rows = await fetch(probes, "SELECT DISTINCT max_running FROM chot.kinds")
    assert [row.max_running for row in rows] == [None]
