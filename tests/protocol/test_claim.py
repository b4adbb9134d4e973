"""Claim: one winner, whatever the race; what may not be claimed is not."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import open_engine
from shared.jobs.enqueue import Submit, enqueue
from shared.types import JobId
from tests.factories import (
    PROBES,
    autocommit,
    claimant,
    claimed_again,
    claimed_job,
    eventually,
    execute,
    expire_lease,
    fetch,
    job_row,
    make_job,
)
from tests.protocol.sessions import waiting_for_nobody
from tests.services import Database
from worker.claim import CLAIM_ONE, Claimant, claim_jobs, find_claims, read_input
from worker.fence import fenced_transaction
from worker.lease import HeldLease

RESERVED = """
    UPDATE chot.queues
       SET alone_worker = 'c', alone_until = clock_timestamp() + interval '5 s'
     WHERE name = 'default'"""


async def test_eight_claimers_of_one_job_have_one_winner(
    probes: AsyncEngine, database: Database
) -> None:
    """Eight real connections claim the same job at once, forty times over."""
    engines = [open_engine(database.app_url, pool_size=1) for _ in range(8)]
    for round_no in range(40):
        job_id = await make_job(probes)
        claims = await asyncio.gather(
            *(
                claim_jobs(autocommit(each), claimant(f"w{n}"), [job_id], wait=bool(round_no % 2))
                for n, each in enumerate(engines)
            )
        )
        winners = [held for claimed in claims for held in claimed]
        assert len(winners) == 1
        row = await job_row(probes, job_id)
        assert (row.fence, row.attempt, row.state) == (1, 1, "running")
        assert row.lease_token == winners[0].lease.token
    assert len(await fetch(probes, "SELECT 1 FROM chot.attempts")) == 40
    for each in engines:
        await each.dispose()


async def test_an_expired_lease_is_taken_over_once_and_counted(probes: AsyncEngine) -> None:
    """The second arm: fence and lost_leases move, the old attempt's row is closed."""
    first = await claimed_job(probes, worker="a")
    await expire_lease(probes, first.lease.job_id)
    claims = await asyncio.gather(
        *(claim_jobs(autocommit(probes), claimant(f"w{n}"), [first.lease.job_id]) for n in range(6))
    )
    assert sum(len(each) for each in claims) == 1
    row = await job_row(probes, first.lease.job_id)
    assert (row.fence, row.attempt, row.lost_leases) == (2, 2, 1)
    attempts = await fetch(
        probes,
        "SELECT fence, outcome FROM chot.attempts WHERE job_id = :i ORDER BY fence",
        i=row.id,
    )
    assert attempts == [(1, "lost_lease"), (2, None)]


async def test_a_live_lease_is_not_taken(probes: AsyncEngine) -> None:
    """A second delivery of a job that runs is a miss."""
    first = await claimed_job(probes, worker="a")
    assert await claim_jobs(autocommit(probes), claimant("b"), [first.lease.job_id]) == []
    assert (await job_row(probes, first.lease.job_id)).fence == 1


@pytest.mark.scenario("F58")
async def test_the_lease_is_judged_by_the_clock_not_by_the_transactions_start(
    probes: AsyncEngine,
) -> None:
    """A claim inside a transaction that began before the expiry still sees it."""
    held = await claimed_job(probes, worker="a", lease=0.5)
    async with probes.connect() as conn:
        await conn.execute(text("SELECT now()"))  # now() stands still from here on
        await conn.execute(text("SELECT pg_sleep(0.7)"))
        binds = claimant("b").binds() | {"ids": [held.lease.job_id], "tokens": [uuid4()]}
        assert len((await conn.execute(CLAIM_ONE, binds)).all()) == 1
        await conn.rollback()


async def test_a_job_that_is_not_due_is_not_claimed(probes: AsyncEngine) -> None:
    """run_at holds whatever the message says."""
    later = datetime.now(UTC) + timedelta(hours=1)
    job = Submit(kind="probe.write", company="ACME", payload={"number": 1}, run_at=later)
    async with probes.begin() as conn:
        job_id = (await enqueue(conn, job)).job_id
    assert await claim_jobs(autocommit(probes), claimant(), [job_id]) == []


async def test_a_paused_queue_is_not_claimed(probes: AsyncEngine) -> None:
    """Claimable is one predicate; the pause is part of it."""
    job_id = await make_job(probes)
    await execute(probes, "UPDATE chot.queues SET paused = true WHERE name = 'default'")
    assert await claim_jobs(autocommit(probes), claimant(), [job_id]) == []
    await execute(probes, "UPDATE chot.queues SET paused = false WHERE name = 'default'")
    assert len(await claim_jobs(autocommit(probes), claimant(), [job_id])) == 1


@pytest.mark.parametrize("known", [("probe.other", 9), ("probe.write", 1)])
async def test_only_known_kinds_and_versions_are_claimed(
    probes: AsyncEngine, known: tuple[str, int]
) -> None:
    """A payload newer than this worker is left for one that knows it, never failed."""
    job_id = await make_job(probes)
    await execute(probes, "UPDATE chot.jobs SET payload_version = 2 WHERE id = :i", i=job_id)
    old = Claimant(
        worker_id=claimant().worker_id,
        code_version="old",
        kinds={"probe.write": PROBES["probe.write"]} if known[0] == "probe.write" else {},
        timing=claimant().timing,
    )
    assert await claim_jobs(autocommit(probes), old, [job_id]) == []
    assert (await job_row(probes, job_id)).state == "pending"


async def test_no_attempts_left_means_no_claim(probes: AsyncEngine) -> None:
    """Charged attempts and lost leases each have a budget."""
    charged, lost = await make_job(probes), await make_job(probes)
    await execute(probes, "UPDATE chot.jobs SET attempt = 5, fence = 5 WHERE id = :i", i=charged)
    await execute(
        probes,
        "UPDATE chot.jobs SET attempt = 10, fence = 10, lost_leases = 10 WHERE id = :i",
        i=lost,
    )
    assert await claim_jobs(autocommit(probes), claimant(), [charged, lost]) == []


@pytest.mark.parametrize(
    "used",
    ["attempt = 6, fence = 6", "attempt = 10, fence = 10, lost_leases = 9"],
)
async def test_no_attempts_left_means_no_takeover(probes: AsyncEngine, used: str) -> None:
    """The second arm has the same budget; the lease that has just run out is counted before."""
    held = await claimed_job(probes)
    await execute(probes, f"UPDATE chot.jobs SET {used} WHERE id = :i", i=held.lease.job_id)
    await execute(probes, RESERVED)
    await expire_lease(probes, held.lease.job_id)
    assert await claim_jobs(autocommit(probes), claimant("c"), [held.lease.job_id]) == []


async def test_one_frozen_row_does_not_hold_nine_others(probes: AsyncEngine) -> None:
    """⚑ A batch passes over a row that another transaction holds."""
    ids = [await make_job(probes) for _ in range(10)]
    async with probes.begin() as other:
        await other.execute(
            text("SELECT 1 FROM chot.jobs WHERE id = :i FOR NO KEY UPDATE"), {"i": ids[4]}
        )
        async with waiting_for_nobody():
            claimed = await claim_jobs(autocommit(probes), claimant(), ids)
    assert {held.lease.job_id for held in claimed} == set(ids) - {ids[4]}


async def test_batches_in_opposite_orders_do_not_deadlock(probes: AsyncEngine) -> None:
    """⚑ Whatever order the messages came in, rows are locked in one order."""
    for _ in range(15):
        ids = [await make_job(probes) for _ in range(10)]
        claims = await asyncio.gather(
            claim_jobs(autocommit(probes), claimant("a"), ids),
            claim_jobs(autocommit(probes), claimant("b"), ids[::-1]),
            claim_jobs(autocommit(probes), claimant("c"), ids[5:] + ids[:5]),
        )
        assert sorted(h.lease.job_id for c in claims for h in c) == sorted(ids)


async def test_the_checkpoint_read_after_a_claim_is_the_zombies_last_one(
    probes: AsyncEngine,
) -> None:
    """⚑ A claim that waits for a zombie's commit starts from what that commit wrote."""
    zombie = await claimed_job(probes, worker="a", chunks=3)
    await expire_lease(probes, zombie.lease.job_id)
    reached = asyncio.Event()
    proceed = asyncio.Event()

    async def commit_late() -> None:
        async with fenced_transaction(probes, zombie, claimant().timing, completes=False) as tx:
            tx.checkpoint = {"chunks": 2}
            await tx.connection.execute(
                text("SELECT 1 FROM chot.jobs WHERE id = :i FOR NO KEY UPDATE"),
                {"i": zombie.lease.job_id},
            )
            reached.set()
            await proceed.wait()

    committing = asyncio.create_task(commit_late())
    await reached.wait()
    claiming = asyncio.create_task(
        claim_jobs(autocommit(probes), claimant("b"), [zombie.lease.job_id], wait=True)
    )

    async def blocked() -> bool:
        waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        return bool(await fetch(probes, waiting))

    await eventually(blocked)
    proceed.set()
    await committing
    (second,) = await claiming
    _, checkpoint = await read_input(autocommit(probes), second)
    assert checkpoint == '{"chunks": 2}'
    assert second.checkpoint_no == 1


async def test_a_foreign_key_to_the_job_does_not_blind_claim_or_reaper(
    probes: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """⚑ KEY SHARE of an effect's foreign key and our FOR NO KEY UPDATE do not conflict."""
    await execute(
        owner_engine,
        "CREATE TABLE probe.linked (job_id uuid NOT NULL REFERENCES chot.jobs (id))",
    )
    await execute(owner_engine, "GRANT INSERT ON probe.linked TO chot_app")
    held = await claimed_job(probes, worker="a")
    await expire_lease(probes, held.lease.job_id)
    async with probes.begin() as zombie:
        await zombie.execute(text("INSERT INTO probe.linked VALUES (:i)"), {"i": held.lease.job_id})
        taken = await claim_jobs(autocommit(probes), claimant("b"), [held.lease.job_id])
        assert len(taken) == 1


async def test_a_claim_whose_answer_was_lost_is_found_by_its_token(probes: AsyncEngine) -> None:
    """In doubt, nothing is repeated: the token made here tells whose the claim was."""
    mine = await claimed_job(probes, worker="a")
    found = await find_claims(
        autocommit(probes), [mine.lease.job_id], [mine.lease.token], claimant().timing
    )
    assert [(row.id, row.fence) for row in found] == [(mine.lease.job_id, 1)]
    stranger = await find_claims(
        autocommit(probes), [mine.lease.job_id], [uuid4()], claimant().timing
    )
    assert stranger == []


async def test_after_two_lost_leases_a_job_waits_for_a_reserved_queue(
    probes: AsyncEngine,
) -> None:
    """It runs alone, so that the one that kills its process is proven."""
    job_id = await make_job(probes)
    held: HeldLease | None = None
    for name in ("a", "b"):
        held = await claimed_again(probes, job_id, worker=name)
        await expire_lease(probes, job_id)
    assert await claim_jobs(autocommit(probes), claimant("c"), [job_id]) == []
    await execute(probes, RESERVED)
    assert await claim_jobs(autocommit(probes), claimant("d"), [job_id]) == []
    assert len(await claim_jobs(autocommit(probes), claimant("c"), [JobId(job_id)])) == 1
    assert held is not None
    assert (await job_row(probes, job_id)).lost_leases == 2
