"""Reaper: an expired job goes back to pending or is buried, and nothing else is touched."""

import asyncio
import re
from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.types import JobId
from tests.factories import (
    TIMING,
    autocommit,
    claimant,
    claimed_job,
    execute,
    expire_lease,
    fetch,
    job_row,
    make_job,
    scalar,
)
from tests.protocol.exits import outbox_of
from tests.protocol.sessions import lock_job, until_waiting, waiting_for_nobody
from worker import reaper
from worker.claim import claim_jobs
from worker.lease import HeldLease
from worker.reaper import BATCH, reap_expired, reap_guarded

EXPIRE_ALL = """
    UPDATE chot.jobs SET lease_expires_at = clock_timestamp() - interval '1 second'
     WHERE state = 'running'"""


async def reap(engine: AsyncEngine) -> int:
    """One step of the reaper."""
    async with autocommit(engine).connect() as conn:
        return await reap_expired(conn)


async def expired_jobs(engine: AsyncEngine, count: int) -> list[HeldLease]:
    """So many jobs whose lease has run out."""
    ids = [await make_job(engine) for _ in range(count)]
    held = await claim_jobs(autocommit(engine), claimant(), ids)
    await execute(engine, "DELETE FROM chot.outbox")
    await execute(engine, EXPIRE_ALL)
    return held


async def test_an_expired_job_is_pending_again_with_a_message(probes: AsyncEngine) -> None:
    """Its worker vanished: due at once, counted as lost, the attempt closed."""
    (held,) = await expired_jobs(probes, 1)
    assert await reap(probes) == 1
    row = await job_row(probes, held.lease.job_id)
    assert (row.state, row.attempt, row.lost_leases, row.fence) == ("pending", 1, 1, 1)
    assert await outbox_of(probes) == [(row.id, "probe.write", "RED")]
    attempts = await fetch(probes, "SELECT outcome, error ->> 'code' AS code FROM chot.attempts")
    assert attempts == [("lost_lease", "WORKER_LOST")]
    assert len(await claim_jobs(autocommit(probes), claimant("b"), [held.lease.job_id])) == 1


async def test_a_live_lease_is_left_alone(probes: AsyncEngine) -> None:
    """Until the database's own clock says that it has run out."""
    held = await claimed_job(probes)
    assert await reap(probes) == 0
    assert (await job_row(probes, held.lease.job_id)).state == "running"


async def test_a_row_that_is_held_is_passed_over(probes: AsyncEngine) -> None:
    """A fence on its way keeps only its own job; the next round looks again."""
    held = await expired_jobs(probes, 5)
    async with probes.begin() as conn:
        await lock_job(conn, held[2].lease.job_id)
        async with waiting_for_nobody():
            assert await reap(probes) == 4
    assert await reap(probes) == 1


async def test_a_foreign_key_to_the_job_does_not_blind_the_reaper(
    probes: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """⚑ The KEY SHARE of a zombie's effect is no lock that it would have to pass over."""
    linked = "CREATE TABLE probe.linked (job_id uuid NOT NULL REFERENCES chot.jobs (id))"
    await execute(owner_engine, linked)
    await execute(owner_engine, "GRANT INSERT ON probe.linked TO chot_app")
    (held,) = await expired_jobs(probes, 1)
    async with probes.begin() as zombie:
        await zombie.execute(text("INSERT INTO probe.linked VALUES (:i)"), {"i": held.lease.job_id})
        assert await reap(probes) == 1


async def test_ten_reapers_reap_each_job_once(probes: AsyncEngine) -> None:
    """Every worker runs one; two hundred and fifty jobs, each counted once."""
    for _ in range(5):
        await expired_jobs(probes, 50)
    counts = await asyncio.gather(*(_reap_all(probes) for _ in range(10)))
    assert sum(counts) == 250
    lost = await fetch(probes, "SELECT DISTINCT state, lost_leases FROM chot.jobs")
    assert lost == [("pending", 1)]
    assert len(await outbox_of(probes)) == len(set(await outbox_of(probes))) >= 50


async def _reap_all(engine: AsyncEngine) -> int:
    total = reaped = await reap(engine)
    while reaped == BATCH:
        reaped = await reap(engine)
        total += reaped
    return total


@pytest.mark.scenario("F04")
async def test_a_stale_sight_of_the_rows_changes_none(probes: AsyncEngine) -> None:
    """F04: it sees fifty expired jobs, waits, and finds 25 succeeded and 25 claimed again."""
    held = await expired_jobs(probes, 50)
    ids = [each.lease.job_id for each in held]
    async with probes.connect() as other:
        await _lock(other, ids)
        await _succeed(other, ids[:25])
        await _claim_again(other, ids[25:])
        settled = await _seen_by(other)
        reaping = asyncio.create_task(_reap_without_skipping(probes))
        await until_waiting(probes)
        await other.commit()
        assert await reaping == 0
    states = await fetch(
        probes, "SELECT state, fence, attempt, count(*) FROM chot.jobs GROUP BY 1, 2, 3 ORDER BY 1"
    )
    assert states == [("running", 2, 2, 25), ("succeeded", 1, 1, 25)]
    async with probes.connect() as conn:
        assert await _seen_by(conn) == settled, "tokens and expiries, too"
    assert await outbox_of(probes) == []
    assert await scalar(probes, "SELECT count(*) FROM chot.attempts WHERE outcome IS NULL") == 50


async def _seen_by(conn: AsyncConnection) -> list[Any]:
    return list((await conn.execute(text("SELECT * FROM chot.jobs ORDER BY id"))).all())


@pytest.mark.scenario("F04")
def test_the_update_says_again_what_the_rows_were_locked_for() -> None:
    """State, token and expiry, beside the id: whatever the lock should ever let through."""
    _, found, where = reaper.REAP_EXPIRED.text.partition("WHERE j.id = expired.id")
    assert found
    condition = " ".join(where.partition("RETURNING")[0].split())
    for repeated in (
        "j.state = 'running'",
        "j.lease_token = expired.lease_token",
        "j.lease_expires_at <= clock_timestamp()",
    ):
        assert repeated in condition


async def _reap_without_skipping(engine: AsyncEngine) -> int:
    """The reaper's own statement, made to wait for what others hold instead of passing it over.

    The rows it locks are then those of its snapshot; only its UPDATE's WHERE can still refuse.
    """
    stale, found = re.subn(r"FOR [A-Z ]*UPDATE SKIP LOCKED", "", reaper.REAP_EXPIRED.text)
    assert found == 1
    async with autocommit(engine).connect() as conn:
        return len((await conn.execute(text(stale), {"result": None})).all())


async def _lock(conn: AsyncConnection, ids: Sequence[JobId]) -> None:
    await conn.execute(
        text("SELECT 1 FROM chot.jobs WHERE id = ANY(:ids) ORDER BY id FOR NO KEY UPDATE"),
        {"ids": list(ids)},
    )


async def _succeed(conn: AsyncConnection, ids: Sequence[JobId]) -> None:
    await conn.execute(
        text("""UPDATE chot.jobs SET state = 'succeeded', finished_at = clock_timestamp(),
                       lease_token = NULL, lease_expires_at = NULL, worker_id = NULL
                 WHERE id = ANY(:ids)"""),
        {"ids": list(ids)},
    )


async def _claim_again(conn: AsyncConnection, ids: Sequence[JobId]) -> None:
    await conn.execute(
        text("""UPDATE chot.jobs SET fence = 2, attempt = 2, lease_token = gen_random_uuid(),
                       lease_expires_at = clock_timestamp() + interval '60 seconds'
                 WHERE id = ANY(:ids)"""),
        {"ids": list(ids)},
    )


@pytest.mark.scenario("F13")
async def test_a_job_that_keeps_losing_its_worker_is_buried(
    probes: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After 2 × max_attempts lost leases, and with an alert: it kills whoever runs it."""
    alerts: list[tuple[str, Any]] = []
    monkeypatch.setattr(reaper, "alert", lambda event, **fields: alerts.append((event, fields)))
    job_id = await make_job(probes)
    await execute(probes, "UPDATE chot.jobs SET max_attempts = 3 WHERE id = :i", i=job_id)
    await _reserve_for(probes, "a")
    for lost in range(1, 7):
        assert len(await claim_jobs(autocommit(probes), claimant("a"), [job_id])) == 1, lost
        await expire_lease(probes, job_id)
        assert await reap(probes) == 1
        row = await job_row(probes, job_id)
        assert (row.attempt, row.fence, row.lost_leases) == (lost, lost, lost)
        assert row.state == ("dead" if lost == 6 else "pending")
    row = await job_row(probes, job_id)
    assert (row.cleanup_due, row.interruptions) == (True, 0)
    error = await scalar(
        probes, "SELECT error ->> 'code' FROM chot.job_outputs WHERE job_id = :i", i=job_id
    )
    assert error == "WORKER_LOST"
    assert [(event, fields["job_id"]) for event, fields in alerts] == [("job.dead", str(job_id))]
    assert await claim_jobs(autocommit(probes), claimant("a"), [job_id]) == []


async def _reserve_for(engine: AsyncEngine, worker: str) -> None:
    await execute(
        engine,
        """UPDATE chot.queues SET alone_worker = :w,
                  alone_until = clock_timestamp() + interval '1 hour' WHERE name = 'default'""",
        w=worker,
    )


async def test_takeovers_and_reapings_share_one_budget(probes: AsyncEngine) -> None:
    """Whether a delivery or the reaper found it: each lost lease is counted once."""
    job_id = await make_job(probes)
    await _reserve_for(probes, "a")
    for _ in range(2):
        assert await claim_jobs(autocommit(probes), claimant("a"), [job_id])
        await expire_lease(probes, job_id)
    await reap(probes)
    row = await job_row(probes, job_id)
    assert (row.attempt, row.lost_leases, row.fence) == (2, 2, 2)


async def test_a_job_waiting_to_be_claimed_is_no_business_of_the_reaper(
    probes: AsyncEngine,
) -> None:
    """Pending, cancelled, dead or succeeded: it looks at running rows alone."""
    await make_job(probes)
    await execute(probes, "DELETE FROM chot.outbox")
    assert await reap(probes) == 0
    assert await outbox_of(probes) == []


async def test_one_with_guards_that_cannot_be_reaped_keeps_no_other(
    probes: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """Each is a transaction of its own; the next round tries the odd one again."""
    odd, sound = sorted(await expired_jobs(probes, 2), key=lambda each: each.lease.job_id)
    await execute(probes, "UPDATE chot.jobs SET lock_roots = '{some/root}'")
    async with owner_engine.begin() as conn:
        await conn.execute(
            text(f"""ALTER TABLE chot.jobs ADD CONSTRAINT it_stays
                     CHECK (id <> '{odd.lease.job_id}' OR state = 'running')""")
        )
    assert await reap_guarded(probes, TIMING) == 1
    assert (await job_row(probes, sound.lease.job_id)).state == "pending"
    async with owner_engine.begin() as conn:
        await conn.execute(text("ALTER TABLE chot.jobs DROP CONSTRAINT it_stays"))
    assert await reap_guarded(probes, TIMING) == 1
    assert (await job_row(probes, odd.lease.job_id)).state == "pending"
