"""Two holders of two roots end at the same time: their one waiter is woken (docs/model.md)."""

from sqlalchemy.ext.asyncio import AsyncEngine

from tests.protocol.locking import (
    claimed,
    forget_messages,
    is_waiting,
    running,
    staged,
    try_claim,
    waiting,
)
from tests.protocol.locking import locks as locks  # noqa: PLC0414 - the fixture
from worker.outcome import complete_job


async def test_two_exits_on_two_roots_wake_the_waiter_of_both(locks: AsyncEngine) -> None:
    """Neither sees that the other ends: each asks for the root that it has locked, and no more."""
    one, other = await running(locks, root="a"), await running(locks, root="b")
    waiter = await waiting(locks, "locked.two", root="a", other="b")
    async with locks.connect() as first, locks.connect() as second:
        assert await complete_job(first, one, None)
        assert await complete_job(second, other, None)
        await first.commit()
        await second.commit()
    assert waiter in await staged(locks)
    assert (await claimed(locks, waiter)).lease.job_id == waiter


async def test_who_is_woken_in_vain_waits_on_and_is_woken_again(locks: AsyncEngine) -> None:
    """One of two roots is free: a claim finds the other locked, and registers again."""
    one, other = await running(locks, root="a"), await running(locks, root="b")
    waiter = await waiting(locks, "locked.two", root="a", other="b")
    async with locks.begin() as conn:
        assert await complete_job(conn, one, None)
    assert await staged(locks) == [waiter]
    await forget_messages(locks)
    assert await try_claim(locks, waiter) is None
    assert await is_waiting(locks, waiter)
    async with locks.begin() as conn:
        assert await complete_job(conn, other, None)
    assert await staged(locks) == [waiter]
    assert (await claimed(locks, waiter)).lease.job_id == waiter
