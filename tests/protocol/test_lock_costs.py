"""Locks cost what is held, not what waits: ten thousand waiters on one root."""

from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.jobs.locks import REGISTER
from tests.factories import fetch, scalar
from tests.protocol.locking import claimer, locked_job, locks, running
from worker.claim import CLAIM_LOCKED
from worker.outcome import COMPLETE_LOCKED

__all__ = ["locks"]
WAITERS = 10_000
MANY = """
    WITH made AS (
        INSERT INTO chot.jobs (id, kind, company, brand, queue, priority, max_attempts,
               available_at, fingerprint, on_duplicate, payload_version, principal, deployment_id,
               lock_roots)
        SELECT chot.uuid7(), 'locked.write', 'ACME', 'RED', 'default', 5, 5,
               clock_timestamp() - interval '1 min', sha256(convert_to(CAST(n AS text), 'UTF8')),
               'join', 1, 'test', gen_random_uuid(), ARRAY['books']
          FROM generate_series(1, :waiters) AS n RETURNING id),
    numbered AS (SELECT id, row_number() OVER (ORDER BY id) AS n FROM made)
    INSERT INTO chot.job_locks
    SELECT id, 1, 'books', {part}, '{mode}', '', '~', '{lane}' || {part}, 4, true, NULL
      FROM numbered"""
# What they lock, and how many of them one exit wakes.
SHAPES = {
    "writers of all": ("''", "exclusive", "x", 1),
    "readers of all": ("''", "shared", "s", 500),
    "writers of one part": ("'p'", "exclusive", "x", 1),
    "writers of a part each": ("'p' || n", "exclusive", "x", 500),
}
ROWS_READ = text("""
    SELECT sum(coalesce(t.seq_tup_read, 0) + coalesce(t.idx_tup_fetch, 0))
      FROM pg_stat_xact_user_tables t
     WHERE t.schemaname = 'chot' AND t.relname IN ('job_locks', 'jobs', 'outbox')""")


async def test_no_statement_of_the_platform_is_compiled(
    locks: AsyncEngine, read_engine: AsyncEngine
) -> None:
    """An exit that wakes is planned for far more than it meets, and holds roots meanwhile."""
    for engine in (locks, read_engine):
        assert await scalar(engine, "SHOW jit") == "off"


async def rows_read(conn: AsyncConnection, statement: TextClause, binds: dict[str, Any]) -> int:
    """How many rows of the large tables the statement reads."""
    before = await conn.scalar(ROWS_READ) or 0
    await conn.execute(statement, binds)
    return int((await conn.scalar(ROWS_READ) or 0) - before)


@pytest.mark.parametrize("shape", list(SHAPES))
@pytest.mark.parametrize("analyzed", [True, False])
async def test_a_claim_and_a_wake_read_a_few_rows(
    locks: AsyncEngine, owner_engine: AsyncEngine, shape: str, *, analyzed: bool
) -> None:
    """Of the last in turn, who is refused, and of an exit that frees all of the root."""
    holder = await running(locks)
    part, mode, lane, woken = SHAPES[shape]
    async with owner_engine.begin() as conn:
        many = MANY.format(part=part, mode=mode, lane=lane)
        await conn.execute(text(many), {"waiters": WAITERS})
        if analyzed:
            await conn.execute(text("ANALYZE chot.jobs, chot.job_locks"))
    last = await locked_job(locks, "locked.write", part="p")
    async with owner_engine.begin() as conn:
        await conn.execute(text("DELETE FROM chot.outbox"))
        binds = claimer().binds() | {"ids": [last], "tokens": [uuid4()]}
        assert await rows_read(conn, CLAIM_LOCKED, binds) < 200
        assert await rows_read(conn, REGISTER, {"job_id": last}) < 200
    async with owner_engine.begin() as conn:
        ours = {
            "job_id": holder.lease.job_id,
            "fence": holder.lease.fence,
            "token": holder.lease.token,
        }
        progress = dict.fromkeys(("done", "total", "reached", "rate", "age"), 0)
        binds = ours | progress | {"unit": "", "message": "", "result": None, "error": None}
        read = await rows_read(conn, COMPLETE_LOCKED, binds | {"checkpoint_no": 0})
        assert read < 200 + 40 * woken
    assert len(await fetch(locks, "SELECT 1 FROM chot.outbox")) == woken
    async with owner_engine.begin() as conn:
        # Now who is woken is claimed: nobody runs, but thousands wait before the last of them.
        rows = await fetch(locks, "SELECT job_id FROM chot.outbox ORDER BY id DESC LIMIT 1")
        binds = claimer().binds() | {"ids": [rows[0].job_id], "tokens": [uuid4()]}
        before = await conn.scalar(ROWS_READ) or 0
        assert len((await conn.execute(CLAIM_LOCKED, binds)).all()) == 1
        assert (await conn.scalar(ROWS_READ) or 0) - before < 200
