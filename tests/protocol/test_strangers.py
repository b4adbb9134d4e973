"""What a handler leaves on its connection is gone before anybody else has it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from shared import session_locks
from shared.database import driver_connection, open_engine, transaction, undo_session
from shared.errors import LeaseLost
from shared.session_locks import RestingConnections
from tests.factories import TIMING, claimed_again, claimed_job, expire_lease, scalar
from tests.services import Database
from worker.fence import fenced_transaction
from worker.lease import HeldLease

LOCK = "SELECT pg_advisory_lock(4711)"
LEAVES = (
    "SET statement_timeout = '77s'",
    "LISTEN strangers",
    "DECLARE held CURSOR WITH HOLD FOR SELECT generate_series(1, 9)",
    LOCK,
)
LEFT = text("""
    SELECT current_setting('statement_timeout') AS setting,
           (SELECT count(*) FROM pg_listening_channels()) AS channels,
           (SELECT count(*) FROM pg_cursors WHERE is_holdable) AS cursors,
           (SELECT count(*) FROM pg_locks
             WHERE pid = pg_backend_pid() AND locktype = 'advisory') AS locks""")
PID = "SELECT pg_backend_pid()"


@pytest.fixture
async def other(database: Database) -> AsyncIterator[asyncpg.Connection]:
    """A session of somebody else."""
    connection = await asyncpg.connect(database.app_url, server_settings={"lock_timeout": "0"})
    yield connection
    await connection.close()


async def _leave(engine: AsyncEngine, held: HeldLease, *statements: str) -> None:
    async with fenced_transaction(engine, held, TIMING, completes=False) as tx:
        for statement in statements:
            await tx.connection.execute(text(statement))


async def _left(engine: AsyncEngine) -> Any:
    """What the next transaction finds on its connection."""
    async with transaction(engine) as conn:
        return (await conn.execute(LEFT)).one()


async def test_a_handlers_session_is_undone_after_its_commit(
    probes: AsyncEngine, single: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings, channels, cursors and advisory locks that outlive a transaction do not outlive it."""
    held = await claimed_job(probes)
    before = await _left(single)
    monkeypatch.setattr(session_locks, "RESTING_SECONDS", 3600.0)  # the next job comes before
    async with fenced_transaction(single, held, TIMING, completes=False) as tx:
        for statement in LEAVES:
            await tx.connection.execute(text(statement))
        inside = (await tx.connection.execute(LEFT)).one()
    assert (inside.setting, inside.cursors, inside.locks) == ("77s", 1, 1)
    async with single.connect() as conn:  # the rest is gone with the commit itself
        left = (await conn.execute(LEFT)).one()
    assert (left.setting, left.channels, left.cursors) == (before.setting, 0, 0)
    assert await _left(single) == before
    assert tuple(before)[1:] == (0, 0, 0)


async def test_what_a_refused_fence_leaves_is_undone_at_once(
    probes: AsyncEngine, single: AsyncEngine
) -> None:
    """Nothing of it has committed, and its session is as it was before."""
    held = await claimed_job(probes)
    before = await _left(single)
    await expire_lease(probes, held.lease.job_id)
    await claimed_again(probes, held.lease.job_id, worker="b")
    with pytest.raises(LeaseLost):
        await _leave(single, held, *LEAVES)
    async with single.connect() as conn:
        assert (await conn.execute(LEFT)).one() == before


async def test_a_fence_and_its_commit_go_by_no_setting_of_the_handler(engine: AsyncEngine) -> None:
    """Least of all by one that makes a commit less than durable, or waits for ever."""
    async with transaction(engine, lock_timeout=2, idle_timeout=20) as conn:
        for setting in ("synchronous_commit = off", "lock_timeout = 0", "jit = on"):
            await conn.execute(text(f"SET {setting}"))
        await conn.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
        await undo_session(conn, lock_timeout=2, idle_timeout=20)
        found = await conn.execute(
            text("""
                SELECT current_setting('synchronous_commit'), current_setting('lock_timeout'),
                       current_setting('idle_in_transaction_session_timeout'),
                       current_setting('jit')""")
        )
        assert found.one() == ("on", "2s", "20s", "off")


async def test_a_listener_of_a_handler_hears_nothing_of_the_next_job(
    probes: AsyncEngine, single: AsyncEngine
) -> None:
    """What the driver itself keeps for a session is undone with it."""
    heard: list[str] = []
    held = await claimed_job(probes)
    async with fenced_transaction(single, held, TIMING, completes=False) as tx:
        driver = await driver_connection(tx.connection)
        driver.add_log_listener(lambda _, told: heard.append(told.message))
        await tx.connection.execute(text("DO $$ BEGIN RAISE WARNING 'of the first'; END $$"))
    await _leave(
        single, await claimed_job(probes), "DO $$ BEGIN RAISE WARNING 'of the second'; END $$"
    )
    assert heard == ["of the first"]


async def test_a_session_lock_is_let_go_while_no_job_comes(
    probes: AsyncEngine, single: AsyncEngine, other: asyncpg.Connection
) -> None:
    """An idle pool holds up nobody: whoever waits for the lock has it within a moment."""
    await _leave(single, await claimed_job(probes), LOCK)
    await other.execute(LOCK, timeout=30)


async def test_a_connection_that_lets_go_is_used_by_nobody_else(
    probes: AsyncEngine,
    database: Database,
    other: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever is given it waits until it has: two statements at once would break both."""
    began, given = asyncio.Event(), asyncio.Event()
    let_go, given_out = session_locks._let_go, RestingConnections._given_out

    async def noted(driver: Any) -> None:
        began.set()
        await let_go(driver)

    def taken(resting: RestingConnections, *told: Any) -> None:
        if began.is_set():
            given.set()
        given_out(resting, *told)

    monkeypatch.setattr(session_locks, "LET_GO", "SELECT pg_advisory_xact_lock(1)")
    monkeypatch.setattr(session_locks, "_let_go", noted)
    monkeypatch.setattr(RestingConnections, "_given_out", taken)
    engine = open_engine(database.app_url, pool_size=1)
    pid = await scalar(engine, PID)
    await other.execute("SELECT pg_advisory_lock(1)")
    await _leave(engine, await claimed_job(probes))
    await asyncio.wait_for(began.wait(), 30)
    next_one = asyncio.create_task(scalar(engine, PID))
    await asyncio.wait_for(given.wait(), 30)
    await other.execute("SELECT pg_advisory_unlock(1)")
    assert await next_one == pid
    await engine.dispose()


async def test_a_connection_that_does_not_let_go_is_thrown_away(
    probes: AsyncEngine, single: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its locks end with it, and the next job gets another one."""
    ended = asyncio.Event()
    let_go = session_locks._let_go

    async def noted(driver: Any) -> None:
        await let_go(driver)
        ended.set()

    pid = await scalar(single, PID)
    monkeypatch.setattr(session_locks, "LET_GO", "SELECT 1 / 0")
    monkeypatch.setattr(session_locks, "_let_go", noted)
    await _leave(single, await claimed_job(probes), LOCK)
    await asyncio.wait_for(ended.wait(), 30)
    assert await scalar(single, PID) != pid
