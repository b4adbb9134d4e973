"""What the tests of business locks share: kinds that lock, a worker that lives, claims and ends."""

from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import transaction
from shared.jobs.enqueue import Accepted, Submit, enqueue
from shared.jobs.locks import wake_waiters
from shared.kinds.registry import load_kinds, mirror_kinds
from shared.types import JobId, WorkerId
from tests.factories import (
    NUMBERS,
    TIMING,
    autocommit,
    execute,
    expire_lease,
    fetch,
    timing,
)
from tests.probes import kinds as probe_kinds
from tests.probes import lock_kinds
from tests.protocol.exits import leave, leave_over
from worker.claim import Claimant, claim_jobs
from worker.lease import HeldLease
from worker.reaper import reap_guarded

KINDS = {kind.name: kind for kind in (*lock_kinds.KINDS, *probe_kinds.KINDS)}
# A waiter whose kind no live worker knows does not reserve.
LIVE = """
    WITH me AS (
        INSERT INTO chot.workers (worker_id, host, pid, code_version, kinds, state, live_until)
        SELECT 'lives', 'h', 1, 'test', jsonb_object_agg(name, 1), 'working',
               clock_timestamp() + interval '1 hour' FROM chot.kinds RETURNING worker_id)
    INSERT INTO chot.worker_queues (worker_id, queue, slots, free_slots)
    SELECT worker_id, 'default', 4, 4 FROM me"""


@pytest.fixture
async def locks(probes: AsyncEngine) -> AsyncEngine:
    """The probes' database, which knows the kinds that lock, and a live worker that does."""
    async with probes.begin() as conn:
        kinds = load_kinds("tests.probes.lock_kinds")
        await mirror_kinds(conn, kinds, default_max_attempts=5)
    await execute(probes, LIVE)
    return probes


def claimer(name: str = "a", *, lease: float = 30) -> Claimant:
    """A worker that knows all probes and all kinds that lock."""
    return Claimant(
        worker_id=WorkerId(name),
        code_version="test",
        kinds=KINDS,
        timing=TIMING if lease == 30 else timing(lease),
    )


async def submit(
    engine: AsyncEngine, kind: str = "locked.write", *, priority: int | None = None, **payload: Any
) -> Accepted:
    """Submit a job that locks; with a number of its own unless one is given."""
    job = Submit(
        kind=kind,
        company="ACME",
        brand="RED",
        priority=priority,
        payload={"number": next(NUMBERS), "root": "books"} | payload,
    )
    async with engine.begin() as conn:
        return await enqueue(conn, job)


async def locked_job(
    engine: AsyncEngine, kind: str = "locked.write", *, priority: int | None = None, **payload: Any
) -> JobId:
    """As submit(); answers the job's id."""
    return (await submit(engine, kind, priority=priority, **payload)).job_id


async def try_claim(
    engine: AsyncEngine, job_id: JobId, *, worker: str = "a", lease: float = 30
) -> HeldLease | None:
    """Claim one job as a worker does that has met its message; None when it was not won."""
    auto = autocommit(engine)
    claimed = await claim_jobs(auto, claimer(worker, lease=lease), [job_id], wait=True)
    return claimed[0] if claimed else None


async def claimed(engine: AsyncEngine, job_id: JobId, *, worker: str = "a") -> HeldLease:
    """Claim a job that may be claimed."""
    held = await try_claim(engine, job_id, worker=worker)
    assert held is not None, "the job could not be claimed"
    return held


async def running(engine: AsyncEngine, kind: str = "locked.write", **payload: Any) -> HeldLease:
    """A job that locks and has just been claimed."""
    return await claimed(engine, await locked_job(engine, kind, **payload))


async def waiting(engine: AsyncEngine, kind: str = "locked.write", **payload: Any) -> JobId:
    """A job that has been refused for a lock; its message is gone."""
    job_id = await locked_job(engine, kind, **payload)
    assert await try_claim(engine, job_id) is None, "nobody was in its way"
    await forget_messages(engine)
    assert await is_waiting(engine, job_id)
    return job_id


async def forget_messages(engine: AsyncEngine) -> None:
    """All messages have gone out, been met, and were deleted."""
    await execute(engine, "DELETE FROM chot.outbox")


async def staged(engine: AsyncEngine) -> list[UUID]:
    """The jobs of the messages that wait, in the order in which they were staged."""
    return [row.job_id for row in await fetch(engine, "SELECT job_id FROM chot.outbox ORDER BY id")]


async def is_waiting(engine: AsyncEngine, job_id: UUID) -> bool:
    """True while the job is registered as a waiter by all of its locks."""
    found = await fetch(
        engine,
        "SELECT DISTINCT waiting FROM chot.job_locks WHERE job_id = :job_id",
        job_id=job_id,
    )
    assert len(found) <= 1, "it waits by all of its locks, or by none"
    return bool(found and found[0].waiting)


async def conflicts(engine: AsyncEngine) -> list[Any]:
    """Pairs of running jobs whose locks conflict: there are never any."""
    return await fetch(
        engine,
        """SELECT a.job_id, b.job_id AS other FROM chot.job_locks a JOIN chot.job_locks b
               ON a.job_id < b.job_id AND chot.locks_conflict(a, b)
             JOIN chot.jobs ja ON ja.id = a.job_id AND ja.state = 'running'
             JOIN chot.jobs jb ON jb.id = b.job_id AND jb.state = 'running'""",
    )


LOCK_ROOT = text("SELECT root FROM chot.lock_roots WHERE root = :root FOR UPDATE")


async def leave_locked(engine: AsyncEngine, held: HeldLease, how: str) -> bool:
    """Leave `running` as its worker, the reaper or a user does it: under the roots' rows."""
    if how == "cancel":
        return await leave(engine, held, how)
    if how.startswith("reap"):
        await expire_lease(engine, held.lease.job_id)
        return await reap_guarded(engine, TIMING) > 0
    async with transaction(engine, lock_timeout=TIMING.lock_timeout) as conn:
        return await leave_over(conn, held, how)


async def net(engine: AsyncEngine) -> int:
    """One round of maintenance's net; answers how many it has woken."""
    async with autocommit(engine).connect() as conn:
        return await wake_waiters(conn)


async def rows_of(engine: AsyncEngine, job_id: UUID) -> list[tuple[Any, ...]]:
    """The job's locks as (root, part, mode, period_from, period_to)."""
    found = await fetch(
        engine,
        """SELECT root, part, mode, period_from, period_to FROM chot.job_locks
            WHERE job_id = :job_id ORDER BY n""",
        job_id=job_id,
    )
    return [tuple(row) for row in found]
