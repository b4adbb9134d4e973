"""Locks: who runs, who waits before whom, and who is woken when somebody ends."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import sqlstate_of
from shared.jobs.cancel import cancel_job
from shared.jobs.limiting import Limited, set_limit
from shared.jobs.locks import MAKE_ROOTS
from shared.jobs.pause import pause_queue, resume_queue
from shared.types import JobId
from tests.factories import (
    TIMING,
    autocommit,
    execute,
    expire_lease,
    job_row,
    make_job,
)
from tests.protocol.exits import EXITS, prepare
from tests.protocol.locking import (
    LOCK_ROOT,
    claimed,
    claimer,
    conflicts,
    forget_messages,
    is_waiting,
    leave_locked,
    locked_job,
    locks,
    net,
    running,
    staged,
    try_claim,
    waiting,
)
from tests.protocol.sessions import until_waiting, waiting_for_nobody, waits
from worker.claim import claim_jobs
from worker.lease import HeldLease
from worker.outcome import complete_job
from worker.reaper import reap_expired, reap_guarded
from worker.reconciler import restage_lost

__all__ = ["locks"]


async def ends(engine: AsyncEngine, held: HeldLease) -> None:
    """The job succeeds."""
    assert await leave_locked(engine, held, "complete")


async def test_a_batch_passes_over_a_job_that_locks(locks: AsyncEngine) -> None:
    """In one statement two of them would not see each other; its neighbours are claimed."""
    locking, plain = await locked_job(locks), await make_job(locks)
    batch = await claim_jobs(autocommit(locks), claimer(), [locking, plain])
    assert [held.lease.job_id for held in batch] == [plain]
    await claimed(locks, locking)


@pytest.mark.parametrize("how", list(EXITS))
async def test_every_exit_wakes_who_may_run_now(locks: AsyncEngine, how: str) -> None:
    """By its own statement: one message, for the first of those who wait."""
    holder = await prepare(locks, await running(locks), how, again=claimed)
    first, second = await waiting(locks), await waiting(locks)
    assert await leave_locked(locks, holder, how)
    mine = [job_id for job_id in await staged(locks) if job_id != holder.lease.job_id]
    assert mine == [first]
    assert await is_waiting(locks, first), "it reserves until it is claimed"
    assert await try_claim(locks, second) is None
    held = await claimed(locks, first)
    assert not await is_waiting(locks, first)
    row = await job_row(locks, first)
    assert (row.attempt, row.interruptions, row.blocked_by) == (1, 0, None)
    await forget_messages(locks)
    await ends(locks, held)
    assert await staged(locks) == [second]


async def prepare_reaped(locks: AsyncEngine) -> tuple[HeldLease, JobId]:
    """A holder whose lease has run out, and somebody who waits for it."""
    holder = await running(locks)
    waiter = await waiting(locks)
    await expire_lease(locks, holder.lease.job_id)
    return holder, waiter


async def test_an_expired_holder_holds_until_it_is_moved_out_of_running(
    locks: AsyncEngine,
) -> None:
    """⚑ Its fence is alive until then: it may be about to commit."""
    _, waiter = await prepare_reaped(locks)
    assert await try_claim(locks, waiter) is None
    async with autocommit(locks).connect() as conn:
        assert await reap_expired(conn) == 0, "the batch passes over whoever has guards"
    assert await try_claim(locks, waiter) is None
    assert await reap_guarded(locks, TIMING) == 1
    assert waiter in await staged(locks)
    await claimed(locks, waiter)


async def test_a_takeover_is_blocked_by_nobody(locks: AsyncEngine) -> None:
    """Not by its own locks, and not by a waiter before it: it has held them all the time."""
    early = await locked_job(locks, priority=9)
    holder = await running(locks)
    assert await try_claim(locks, early) is None
    await expire_lease(locks, holder.lease.job_id)
    again = await claimed(locks, holder.lease.job_id, worker="b")
    assert again.lease.fence == 2
    assert await try_claim(locks, early) is None
    assert await conflicts(locks) == []


async def test_a_zombie_that_was_reaped_cannot_commit_beside_the_next(locks: AsyncEngine) -> None:
    """The exit from running is what frees the locks, and what kills the fence."""
    zombie, waiter = await prepare_reaped(locks)
    assert await reap_guarded(locks, TIMING) == 1
    await claimed(locks, waiter)
    async with locks.begin() as conn:
        assert not await complete_job(conn, zombie, None)


async def test_readers_run_together_and_a_writer_waits_for_all(locks: AsyncEngine) -> None:
    """And is woken by the last of them only."""
    one, two = await running(locks, "locked.read"), await running(locks, "locked.read")
    writer = await waiting(locks)
    await ends(locks, one)
    assert await staged(locks) == []
    await ends(locks, two)
    assert await staged(locks) == [writer]


async def test_all_readers_up_to_the_next_writer_are_woken_together(locks: AsyncEngine) -> None:
    """In the order in which they wait; those behind the writer go on waiting."""
    holder = await running(locks)
    before = [await waiting(locks, "locked.read") for _ in range(3)]
    writer = await waiting(locks)
    behind = await waiting(locks, "locked.read")
    await ends(locks, holder)
    assert await staged(locks) == before
    assert await try_claim(locks, writer) is None
    assert await try_claim(locks, behind) is None


async def test_a_stream_of_readers_does_not_starve_a_writer(locks: AsyncEngine) -> None:
    """Whoever comes after a writer that waits is not let in before it."""
    readers = [await running(locks, "locked.read")]
    writer = await waiting(locks)
    for _ in range(5):
        late = await locked_job(locks, "locked.read")
        assert await try_claim(locks, late) is None
    await forget_messages(locks)
    await ends(locks, readers.pop())
    assert await staged(locks) == [writer]
    await claimed(locks, writer)


async def test_a_higher_priority_goes_first_and_reserves(locks: AsyncEngine) -> None:
    """One order for all: priority, then age."""
    holder = await running(locks)
    usual = await waiting(locks)
    urgent = await waiting(locks, priority=8)
    await ends(locks, holder)
    assert await staged(locks) == [urgent]
    assert await try_claim(locks, usual) is None
    await claimed(locks, urgent)


STOPS = {
    "kind paused": "UPDATE chot.kinds SET paused = true WHERE name = 'locked.read'",
    "books frozen": """INSERT INTO chot.freezes (company, brand, principal)
                       SELECT company, brand, 'x' FROM chot.jobs WHERE id = :waiter""",
    "not due": """UPDATE chot.jobs SET available_at = clock_timestamp() + interval '1 h'
                   WHERE id = :waiter""",
    "no worker": """UPDATE chot.workers SET kinds = kinds - 'locked.read'""",
    "no attempts": "UPDATE chot.jobs SET attempt = 5, fence = 5 WHERE id = :waiter",
}


@pytest.mark.parametrize("stop", list(STOPS))
async def test_a_waiter_that_could_not_run_in_any_case_reserves_nothing(
    locks: AsyncEngine, stop: str
) -> None:
    """Else everybody would wait for what is paused; maintenance wakes who is free by that."""
    holder = await running(locks, part="a")
    stopped = await waiting(locks, "locked.read")
    other = await waiting(locks, "locked.write", part="b")
    await execute(locks, "UPDATE chot.jobs SET brand = 'BLUE' WHERE id = :waiter", waiter=stopped)
    assert await net(locks) == 0
    await execute(locks, STOPS[stop], **({"waiter": stopped} if ":waiter" in STOPS[stop] else {}))
    assert await net(locks) == 1
    assert await staged(locks) == [other]
    await claimed(locks, other)
    await forget_messages(locks)
    await ends(locks, holder)
    assert await staged(locks) == []


async def test_a_cancelled_waiter_frees_what_it_reserved(locks: AsyncEngine) -> None:
    """Its cancel is an exit as the others are."""
    holder = await running(locks, "locked.read")
    writer = await waiting(locks)
    reader = await waiting(locks, "locked.read")
    async with locks.begin() as conn:
        assert await cancel_job(conn, writer)
    assert await staged(locks) == [reader]
    assert not await is_waiting(locks, writer)
    await claimed(locks, reader)
    await ends(locks, holder)


async def test_a_paused_waiter_is_not_lost(locks: AsyncEngine) -> None:
    """Woken by nobody while it is paused, by the resume or the next round after it."""
    holder = await running(locks)
    waiter = await waiting(locks)
    async with locks.begin() as conn:
        await pause_queue(conn, "default")
    await ends(locks, holder)
    assert await staged(locks) == []
    async with locks.begin() as conn:
        await resume_queue(conn, "default")
    await net(locks)
    assert await staged(locks) == [waiter]
    await claimed(locks, waiter)


async def test_two_roots_are_locked_in_one_order_and_both_must_be_free(locks: AsyncEngine) -> None:
    """Whichever the job names first."""
    a = await running(locks, root="a")
    b = await running(locks, root="b")
    both = await waiting(locks, "locked.two", root="b", other="a")
    await ends(locks, a)
    assert await try_claim(locks, both) is None
    late = await locked_job(locks, root="a")
    assert await try_claim(locks, late) is None, "the waiter reserves what is free of its two"
    await forget_messages(locks)
    await ends(locks, b)
    assert await staged(locks) == [both]


async def test_who_shares_a_root_is_not_woken_by_those_it_shares_it_with(
    locks: AsyncEngine,
) -> None:
    """It waits at another root: each reader that ends would send it through SQS in vain."""
    writer = await running(locks, root="a")
    reader = await running(locks, "locked.read", root="b")
    both = await waiting(locks, "locked.both", root="a", other="b")
    await ends(locks, reader)
    assert await staged(locks) == []
    await ends(locks, writer)
    assert await staged(locks) == [both]


async def test_opposite_orders_neither_deadlock_nor_wait_in_a_circle(locks: AsyncEngine) -> None:
    """Claims, refusals and exits of both orders at once; everybody runs in the end."""
    left = {await locked_job(locks, "locked.two", root="a", other="b") for _ in range(6)}
    left |= {await locked_job(locks, "locked.two", root="b", other="a") for _ in range(6)}
    async with asyncio.timeout(60):
        while left:
            tries = await asyncio.gather(*(try_claim(locks, job_id) for job_id in left))
            held = [each for each in tries if each is not None]
            assert len(held) == 1, "the first in turn runs, and nobody beside it"
            await ends(locks, held[0])
            left.remove(held[0].lease.job_id)


async def test_a_woken_waiter_whose_message_is_lost_is_found(locks: AsyncEngine) -> None:
    """And one that is still locked out is not published over and over."""
    holder = await running(locks)
    waiter = await waiting(locks)
    unregistered = await locked_job(locks, root="free")
    await forget_messages(locks)
    await execute(
        locks,
        """UPDATE chot.jobs SET publishes = 1,
                  published_at = clock_timestamp() - interval '90 s',
                  available_at = clock_timestamp() - interval '90 s' WHERE state = 'pending'""",
    )
    await execute(
        locks,
        """UPDATE chot.worker_queues SET free_since = clock_timestamp() - interval '80 s',
                  empty_receive_at = clock_timestamp() - interval '5 s'""",
    )
    async with autocommit(locks).connect() as conn:
        assert await restage_lost(conn, 60) == 1
        assert await staged(locks) == [unregistered]
        await ends(locks, holder)
        assert set(await staged(locks)) == {unregistered, waiter}
        await forget_messages(locks)
        assert await net(locks) == 0, "it has been woken"
        assert await restage_lost(conn, 60) == 1
    assert await staged(locks) == [waiter]


async def test_a_refused_woken_waiter_waits_anew(locks: AsyncEngine) -> None:
    """Somebody more urgent came in between; the next exit wakes it again."""
    holder = await running(locks)
    waiter = await waiting(locks)
    await ends(locks, holder)
    urgent = await running(locks, priority=9)
    assert await try_claim(locks, waiter) is None
    await forget_messages(locks)
    await ends(locks, urgent)
    assert await staged(locks) == [waiter]


async def test_a_root_that_is_held_for_long_ends_the_claim_uncharged(locks: AsyncEngine) -> None:
    """By the lock timeout; the job is as it was."""
    job_id = await locked_job(locks)
    held = await running(locks)
    async with locks.begin() as other:
        await other.execute(LOCK_ROOT, {"root": "books"})
        with pytest.raises(DBAPIError) as refused:
            await try_claim(locks, job_id, lease=2)
        assert sqlstate_of(refused.value) == "55P03"
        async with locks.connect() as conn:
            await conn.execute(text("SET LOCAL lock_timeout = '100ms'"))
            with pytest.raises(DBAPIError) as kept:
                await complete_job(conn, held, None)
        assert sqlstate_of(kept.value) == "55P03"
    assert (await job_row(locks, job_id)).attempt == 0
    await ends(locks, held)
    assert (await job_row(locks, held.lease.job_id)).state == "succeeded"


async def test_a_row_that_somebody_has_for_a_moment_is_not_a_refusal(locks: AsyncEngine) -> None:
    """Whoever holds roots waits for no job's row; it is not registered, only tried again."""
    job_id = await locked_job(locks)
    async with locks.begin() as other:
        await other.execute(
            text("SELECT 1 FROM chot.jobs WHERE id = :i FOR NO KEY UPDATE"), {"i": job_id}
        )
        assert await try_claim(locks, job_id) is None
    assert not await is_waiting(locks, job_id)
    await claimed(locks, job_id)


async def test_a_claim_waits_for_the_relay_that_notes_what_it_has_sent(
    locks: AsyncEngine,
) -> None:
    """The message may be received before that: put off for it, a waiter would start seconds late."""
    job_id = await locked_job(locks)
    async with locks.begin() as other:
        await other.execute(
            text("SELECT 1 FROM chot.jobs WHERE id = :i FOR NO KEY UPDATE"), {"i": job_id}
        )
        trying = asyncio.create_task(try_claim(locks, job_id))
        assert await waits(locks, trying), "it went away at once"
    assert await trying is not None


async def test_a_registration_waits_for_the_holders_exit(locks: AsyncEngine) -> None:
    """⚑ No wake-up is lost: the refusal and the exit are one after the other, by the root's row."""
    holder = await running(locks)
    job_id = await locked_job(locks)
    await forget_messages(locks)
    async with locks.begin() as conn:
        assert await complete_job(conn, holder, None)
        trying = asyncio.create_task(try_claim(locks, job_id))
        assert await waits(locks, trying), "it was refused before the exit had committed"
    assert await trying is not None, "it saw the end of what it had waited for"


async def test_jobs_without_locks_pay_nothing(locks: AsyncEngine) -> None:
    """As many statements a claim and an exit as before, and none that speaks of locks."""
    said: list[str] = []
    job_id = await make_job(locks)

    def note(_c: Any, _cur: Any, statement: str, *_: Any) -> None:
        said.append(statement)

    event.listen(locks.sync_engine, "before_cursor_execute", note)
    (held,) = await claim_jobs(autocommit(locks), claimer(), [job_id])
    claim = list(said)
    async with autocommit(locks).connect() as conn:
        assert await complete_job(conn, held, None)
    event.remove(locks.sync_engine, "before_cursor_execute", note)
    assert len(claim) == 1
    assert len(said) == 2
    assert not any("lock_roots &&" in statement for statement in said)
    assert "woken" not in said[1]


async def test_who_waits_for_a_root_keeps_no_limit_from_others(locks: AsyncEngine) -> None:
    """An exit may hold its root for long (a spawn of thousands, a frozen worker): its limit's other
    jobs, which lock something else, are claimed meanwhile.
    """
    held_up, other = [await locked_job(locks, root=root) for root in ("a", "b")]
    async with locks.begin() as conn:
        await conn.execute(MAKE_ROOTS, {"roots": ["a", "b"]})
        assert await set_limit(conn, Limited(company="ACME"), 5) is None
    async with locks.connect() as ending:
        await ending.execute(LOCK_ROOT, {"root": "a"})
        waiter = asyncio.create_task(try_claim(locks, held_up))
        await until_waiting(locks)
        async with waiting_for_nobody(1):
            assert await try_claim(locks, other) is not None
        await ending.rollback()
    assert await waiter is not None
