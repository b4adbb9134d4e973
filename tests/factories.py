"""Makes jobs, claims and a place for effects; sets clocks back instead of sleeping."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.jobs.enqueue import Accepted, Submit, enqueue
from shared.kinds.registry import load_kinds, mirror_kinds
from shared.settings import LeaseTiming
from shared.types import JobId, WorkerId
from tests.probes import kinds as probe_kinds
from worker.claim import Claimant, claim_jobs
from worker.lease import HeldLease

PROBES = {kind.name: kind for kind in probe_kinds.KINDS}
NUMBERS = itertools.count(1)

TIMING = LeaseTiming(
    lease=30, heartbeat=8, visibility=60, margin=4, idle_in_transaction=20, lock_timeout=2
)


def timing(lease: float) -> LeaseTiming:
    """Timing scaled to a short lease, as settings would scale it."""
    return LeaseTiming(
        lease=lease,
        heartbeat=lease / 4,
        visibility=max(2, round(lease) * 2),
        margin=lease * 2 / 15,
        idle_in_transaction=lease * 2 / 3,
        lock_timeout=lease / 8,
    )


def claimant(name: str = "a", *, lease: float = 30) -> Claimant:
    """A worker that knows all probes."""
    return Claimant(
        worker_id=WorkerId(name),
        code_version="test",
        kinds=PROBES,
        timing=TIMING if lease == 30 else timing(lease),
    )


PROBE_SCHEMA = (
    "CREATE SCHEMA probe AUTHORIZATION chot_owner",
    "GRANT USAGE ON SCHEMA probe TO chot_app, chot_read",
    """CREATE TABLE probe.effects (
        n bigint GENERATED ALWAYS AS IDENTITY, job_id uuid NOT NULL, number bigint NOT NULL,
        chunk integer NOT NULL, fence bigint NOT NULL, attempt integer NOT NULL,
        pid integer NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp())""",
    """CREATE TABLE probe.stamps (
        job_id uuid NOT NULL, attempt integer NOT NULL, what text NOT NULL)""",
    """CREATE TABLE probe.entries (
        n bigint GENERATED ALWAYS AS IDENTITY, job_id uuid NOT NULL, fence bigint NOT NULL,
        document integer NOT NULL, account integer NOT NULL, amount bigint NOT NULL)""",
    "GRANT SELECT, INSERT, DELETE ON probe.effects, probe.stamps, probe.entries TO chot_app",
    "GRANT SELECT ON probe.effects, probe.stamps, probe.entries TO chot_read",
)


async def prepare_probes(owner_engine: AsyncEngine, engine: AsyncEngine) -> None:
    """Make the probes' tables and tell the database about their kinds.

    The tables have no unique key on purpose: an effect that is written twice must show.
    """
    async with owner_engine.begin() as conn:
        for statement in PROBE_SCHEMA:
            await conn.execute(text(statement))
    async with engine.begin() as conn:
        kinds = load_kinds("tests.probes.kinds")
        await mirror_kinds(conn, kinds, default_max_attempts=5)


async def submitted(engine: AsyncEngine, kind: str = "probe.write", **payload: Any) -> Accepted:
    """Submit one probe job, with a number of its own unless one is given."""
    job = Submit(
        kind=kind,
        company="ACME",
        brand="RED",
        payload={"number": next(NUMBERS)} | payload,
    )
    async with engine.begin() as conn:
        return await enqueue(conn, job)


async def make_job(engine: AsyncEngine, kind: str = "probe.write", **payload: Any) -> JobId:
    """Submit one probe job; answers its id."""
    return (await submitted(engine, kind, **payload)).job_id


def autocommit(engine: AsyncEngine) -> AsyncEngine:
    """The same pool, each statement its own transaction."""
    return engine.execution_options(isolation_level="AUTOCOMMIT")


async def claimed_job(
    engine: AsyncEngine, *, worker: str = "a", lease: float = 30, **payload: Any
) -> HeldLease:
    """A job that `worker` has just claimed."""
    job_id = await make_job(engine, **payload)
    return await claimed_again(engine, job_id, worker=worker, lease=lease)


async def claimed_again(
    engine: AsyncEngine, job_id: JobId, *, worker: str, lease: float = 30
) -> HeldLease:
    """Claim a job that may be claimed."""
    held = await claim_jobs(autocommit(engine), claimant(worker, lease=lease), [job_id])
    assert len(held) == 1, "the job could not be claimed"
    return held[0]


async def offer_slots(engine: AsyncEngine, slots: int, *, queue: str = "default") -> None:
    """A live worker that offers so many slots, without a process: the window's size hangs on it."""
    await execute(
        engine,
        """WITH me AS (
               INSERT INTO chot.workers (worker_id, host, pid, code_version, kinds, state,
                                         live_until)
               VALUES ('offers ' || :queue, 'h', 1, 'test', '{}', 'working',
                       clock_timestamp() + interval '1 hour')
               ON CONFLICT (worker_id) DO UPDATE SET live_until = excluded.live_until
               RETURNING worker_id)
           INSERT INTO chot.worker_queues (worker_id, queue, slots, free_slots)
           SELECT worker_id, :queue, :slots, 0 FROM me
           ON CONFLICT (worker_id, queue) DO UPDATE SET slots = excluded.slots""",
        queue=queue,
        slots=slots,
    )


async def expire_lease(engine: AsyncEngine, job_id: UUID) -> None:
    """Set the row's clock back, so that the lease has run out."""
    await execute(
        engine,
        """UPDATE chot.jobs SET lease_expires_at = clock_timestamp() - interval '1 second'
            WHERE id = :job_id AND state = 'running'""",
        job_id=job_id,
    )


async def execute(engine: AsyncEngine, statement: str, **binds: Any) -> None:
    """Run one statement and commit."""
    async with engine.begin() as conn:
        await conn.execute(text(statement), binds)


async def fetch(engine: AsyncEngine, statement: str, **binds: Any) -> list[Any]:
    """All rows of a query."""
    async with engine.connect() as conn:
        return list((await conn.execute(text(statement), binds)).all())


async def scalar(engine: AsyncEngine, statement: str, **binds: Any) -> Any:
    """The one value of a query."""
    async with engine.connect() as conn:
        return await conn.scalar(text(statement), binds)


async def job_row(engine: AsyncEngine, job_id: UUID) -> Any:
    """The job as it stands."""
    rows = await fetch(engine, "SELECT * FROM chot.jobs WHERE id = :job_id", job_id=job_id)
    assert len(rows) == 1, "there is exactly one row a job"
    return rows[0]


async def eventually(
    condition: Callable[[], Awaitable[Any]], *, seconds: float = 20, every: float = 0.05
) -> Any:
    """Ask until the condition holds and give back what it said; fail when the time is over."""
    until = monotonic() + seconds
    while True:
        found = await condition()
        if found:
            return found
        if monotonic() > until:
            raise AssertionError(f"{condition} did not hold within {seconds} s")
        await asyncio.sleep(every)
