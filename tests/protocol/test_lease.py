"""Lease: renewed in one statement a beat, for as long as it is ours; nobody waits for another."""

import asyncio
from dataclasses import replace
from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import open_engine
from shared.errors import LeaseLost
from shared.jobs.cancel import cancel_job
from shared.types import LeaseToken
from tests.factories import (
    TIMING,
    autocommit,
    claimant,
    claimed_again,
    claimed_job,
    expire_lease,
    fetch,
    job_row,
    make_job,
    scalar,
)
from tests.protocol.frozen import frozen_commits
from tests.protocol.sessions import effects_of, lock_job, put_effect, waiting_for_nobody
from tests.services import Database
from worker.claim import claim_jobs
from worker.fence import fenced_transaction
from worker.lease import HeldLease, Progress, hold_fence, read_owners, renew_leases
from worker.pace import Pace

LEFT = (
    "SELECT extract(epoch FROM lease_expires_at - clock_timestamp()) FROM chot.jobs WHERE id = :i"
)


async def held_jobs(engine: AsyncEngine, count: int) -> list[HeldLease]:
    """So many jobs under a lease of worker a."""
    ids = [await make_job(engine) for _ in range(count)]
    return await claim_jobs(autocommit(engine), claimant(), ids)


async def renew(engine: AsyncEngine, held: list[HeldLease], seconds: float = 30) -> set[object]:
    """One beat."""
    async with autocommit(engine).connect() as conn:
        return set(await renew_leases(conn, held, seconds))


async def test_one_statement_renews_a_hundred_leases(probes: AsyncEngine) -> None:
    """All of them, by the database's clock."""
    held = await held_jobs(probes, 100)
    assert await renew(probes, held, 77) == {each.lease.job_id for each in held}
    left = await fetch(
        probes,
        """SELECT count(*), min(extract(epoch FROM lease_expires_at - clock_timestamp())),
                  max(extract(epoch FROM lease_expires_at - clock_timestamp()))
             FROM chot.jobs WHERE state = 'running'""",
    )
    count, least, most = left[0]
    assert count == 100
    assert 70 < least <= most <= 77


async def test_a_fence_stuck_in_commit_does_not_hold_ninety_nine_others(
    probes: AsyncEngine, database: Database
) -> None:
    """⚑ Its COMMIT is frozen and its row locked; a beat passes over it and takes the rest."""
    held = await held_jobs(probes, 100)
    stuck, others = held[50], held[:50] + held[51:]
    committer = open_engine(database.app_url, pool_size=1, application_name="stuck")
    async with frozen_commits(database) as freezer:
        committing = asyncio.create_task(_commit(committer, stuck))
        await freezer.until_stuck("stuck")
        async with autocommit(probes).connect() as heart:
            # Only this session's own commits go on: the freeze stands for a slow disk or standby.
            await heart.execute(text("SET synchronous_commit = local"))
            async with asyncio.timeout(3):
                renewed = await renew_leases(heart, held, 30)
            assert renewed == {each.lease.job_id for each in others}
            # And what is missing is not lost by that: a plain read shows it under our token.
            owners = await read_owners(heart, [stuck.lease.job_id])
            assert owners[stuck.lease.job_id].lease_token == stuck.lease.token
        await freezer.thaw()
        await committing
    assert await renew(probes, held) == {each.lease.job_id for each in held}
    await committer.dispose()


async def _commit(engine: AsyncEngine, held: HeldLease) -> None:
    async with fenced_transaction(engine, held, TIMING, completes=False) as tx:
        await put_effect(tx.connection, held)


async def test_an_open_row_lock_costs_only_its_own_renewal(probes: AsyncEngine) -> None:
    """⚑ The same with a cancel, a merge or a fence that has not reached its COMMIT."""
    held = await held_jobs(probes, 10)
    async with probes.begin() as conn:
        await lock_job(conn, held[0].lease.job_id)
        async with waiting_for_nobody():
            assert await renew(probes, held) == {each.lease.job_id for each in held[1:]}
    assert len(await renew(probes, held)) == 10


async def test_an_expired_lease_nobody_took_is_renewed(probes: AsyncEngine) -> None:
    """A late beat is better than a lost job, as long as the row is still under our token."""
    held = await claimed_job(probes)
    await expire_lease(probes, held.lease.job_id)
    assert await renew(probes, [held]) == {held.lease.job_id}
    assert await scalar(probes, LEFT, i=held.lease.job_id) > 25


@pytest.mark.scenario("F03")
async def test_a_lease_that_was_taken_is_never_renewed(probes: AsyncEngine) -> None:
    """The old owner's beat moves neither expiry nor progress of the new one's."""
    old = await claimed_job(probes, worker="a")
    job_id = old.lease.job_id
    await expire_lease(probes, job_id)
    new = await claimed_again(probes, job_id, worker="b", lease=5)
    old.progress = Progress(done=9, total=9, unit="x", message="zombie")
    assert await renew(probes, [old], 300) == set()
    row = await job_row(probes, job_id)
    assert (row.lease_token, row.progress_done) == (new.lease.token, None)
    assert await scalar(probes, LEFT, i=job_id) <= 5
    async with probes.connect() as conn:
        owners = await read_owners(conn, [job_id])
    assert (owners[job_id].state, owners[job_id].fence) == ("running", 2)


@pytest.mark.parametrize("wrong", ["token", "fence"])
@pytest.mark.scenario("F03")
async def test_a_renewal_compares_fence_and_token(probes: AsyncEngine, wrong: str) -> None:
    """Either alone could be given twice; both together cannot."""
    held = await claimed_job(probes, lease=5)
    mine = held.lease
    held.lease = (
        replace(mine, token=LeaseToken(uuid4()))
        if wrong == "token"
        else replace(mine, fence=type(mine.fence)(2))
    )
    assert await renew(probes, [held], 300) == set()
    assert await scalar(probes, LEFT, i=mine.job_id) <= 5


async def test_a_job_that_left_running_is_not_renewed(probes: AsyncEngine) -> None:
    """Cancelled or ended: the beat gets no row, and a plain read tells which."""
    held = await claimed_job(probes)
    async with probes.begin() as conn:
        assert await cancel_job(conn, held.lease.job_id)
    assert await renew(probes, [held]) == set()
    async with probes.connect() as conn:
        owners = await read_owners(conn, [held.lease.job_id, uuid4()])
    assert {owner.state for owner in owners.values()} == {"cancelled"}
    assert owners[held.lease.job_id].lease_token is None


async def test_progress_carried_by_beats_never_goes_backwards(probes: AsyncEngine) -> None:
    """A beat that reports less, or nothing, leaves the larger number and its words."""
    held = await claimed_job(probes)
    for done, message in ((3, "three"), (8, "eight"), (5, "five")):
        held.progress = Progress(done=done, total=10, unit="rows", message=message)
        await renew(probes, [held])
    held.progress = None
    await renew(probes, [held])
    row = await job_row(probes, held.lease.job_id)
    assert (row.progress_done, row.progress_total) == (8, 10)
    assert (row.progress_unit, row.progress_message) == ("rows", "eight")


async def test_two_hearts_in_opposite_orders_do_not_deadlock(probes: AsyncEngine) -> None:
    """Rows are locked in one order; each lease is renewed by the one that holds it."""
    held = await held_jobs(probes, 40)
    for _ in range(20):
        ends = await asyncio.gather(
            renew(probes, held), renew(probes, held[::-1]), renew(probes, held[20:] + held[:20])
        )
        assert set().union(*ends) == {each.lease.job_id for each in held}


async def test_renewals_stay_on_their_page(probes: AsyncEngine, database: Database) -> None:
    """HOT: lease and progress stand in no index, so that a beat does not grow the table's."""
    held = await held_jobs(probes, 100)
    heart = open_engine(database.app_url, pool_size=1)
    async with autocommit(heart).connect() as conn:
        await conn.execute(text("SELECT pg_stat_force_next_flush()"))
        before = (await conn.execute(text(UPDATES))).one()
        for beat in range(20):
            for each in held:
                each.progress = Progress(done=beat, total=20, unit="x", message=f"beat {beat}")
                each.pace = Pace(((0.0, 0), (float(beat), beat)))
            assert len(await renew_leases(conn, held, 30)) == 100
        await conn.execute(text("SELECT pg_stat_force_next_flush()"))
        after = (await conn.execute(text(UPDATES))).one()
    await heart.dispose()
    updates, hot = after.n_tup_upd - before.n_tup_upd, after.n_tup_hot_upd - before.n_tup_hot_upd
    assert updates == 2000
    assert hot >= 0.95 * updates, f"{hot} of {updates} were HOT"


UPDATES = """
    SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables
     WHERE schemaname = 'chot' AND relname = 'jobs'"""


async def test_a_beat_in_the_middle_of_a_fence_waits_for_nobody(probes: AsyncEngine) -> None:
    """The fence holds the row; the beat comes back without it, the commit is not disturbed."""
    held = await claimed_job(probes)
    async with probes.connect() as conn:
        await put_effect(conn, held)
        assert await hold_fence(conn, held, None, None)
        async with waiting_for_nobody():
            assert await renew(probes, [held]) == set()
        await conn.commit()
    held.checkpoint_no += 1
    assert await effects_of(probes, held.lease.job_id) == [(0, 1)]
    assert await renew(probes, [held]) == {held.lease.job_id}


async def test_past_the_local_deadline_nothing_new_is_begun(probes: AsyncEngine) -> None:
    """The worker's own monotonic clock, before the database's: it stops by itself."""
    held = await claimed_job(probes)
    held.deadline = 0.0
    with pytest.raises(LeaseLost, match="deadline"):
        async with fenced_transaction(probes, held, TIMING, completes=False):
            pytest.fail("a transaction was opened past the deadline")
    assert held.stopped == "expired"
