"""What the protocol tests share: waiting for a lock to be waited for, and countable effects."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.database import sqlstate_of
from tests.factories import fetch
from worker.lease import HeldLease

EFFECT = text("""
    INSERT INTO probe.effects (job_id, number, chunk, fence, attempt, pid)
    VALUES (:job_id, 0, :chunk, :fence, :attempt, 0)""")
LOCK = text("SELECT 1 FROM chot.jobs WHERE id = :job_id FOR NO KEY UPDATE")
WAITING = """
    SELECT 1 FROM pg_stat_activity
     WHERE datname = current_database() AND wait_event_type = 'Lock'"""


async def until_waiting(engine: AsyncEngine, sessions: int = 1) -> None:
    """Return once so many sessions of this database wait for a lock."""
    async with asyncio.timeout(30):
        while len(await fetch(engine, WAITING)) < sessions:  # noqa: ASYNC110 - the server's state
            await asyncio.sleep(0.01)


async def waits(engine: AsyncEngine, task: "asyncio.Task[Any]") -> bool:
    """True once a session of this database waits for a lock, False when the task ends instead."""
    async with asyncio.timeout(30):
        while not task.done():
            if await fetch(engine, WAITING):
                return True
            await asyncio.sleep(0.01)
    return False


@asynccontextmanager
async def waiting_for_nobody(seconds: float = 3) -> AsyncIterator[None]:
    """Fail when the body waits: shorter than the lock timeout, so that the two are told apart."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        pytest.fail("it waited for a lock that somebody else holds")
    except DBAPIError as error:
        if sqlstate_of(error) != "40P01":
            raise
        pytest.fail("it and somebody else waited for each other")


async def put_effect(conn: AsyncConnection, held: HeldLease, chunk: int = 0) -> None:
    """Write one effect of this attempt."""
    binds = {"job_id": held.lease.job_id, "chunk": chunk}
    await conn.execute(EFFECT, binds | {"fence": held.lease.fence, "attempt": held.job.attempt})


async def effects_of(engine: AsyncEngine, job_id: UUID) -> list[tuple[int, int]]:
    """The committed effects of a job as (chunk, fence), in the order they were written."""
    rows = await fetch(
        engine, "SELECT chunk, fence FROM probe.effects WHERE job_id = :i ORDER BY n", i=job_id
    )
    return [(row.chunk, row.fence) for row in rows]


async def lock_job(conn: AsyncConnection, job_id: UUID) -> None:
    """Hold the job's row in the transaction that `conn` is in."""
    await conn.execute(LOCK, {"job_id": job_id})


@asynccontextmanager
async def driver_session(url: str) -> AsyncIterator[asyncpg.Connection]:
    """A bare asyncpg connection: a caller that knows nothing of us but SQL."""
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()
