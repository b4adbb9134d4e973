"""Every way a running job leaves `running`, for the tests that ask the same of all of them."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.jobs.cancel import cancel_job
from tests.factories import autocommit, claimed_again, claimed_job, execute, expire_lease
from worker.lease import HeldLease
from worker.outcome import FREE_RELEASES, Failed, Released, complete_job, fail_job, release_job
from worker.reaper import reap_expired

# name → (state it leads to, what becomes of the attempt)
EXITS = {
    "complete": ("succeeded", "succeeded"),
    "retry": ("pending", "failed"),
    "fail_last": ("dead", "failed"),
    "fail_permanently": ("dead", "failed"),
    "release": ("pending", "released"),
    "release_last": ("dead", "released"),
    "cancel": ("cancelled", "cancelled"),
    "reap": ("pending", "lost_lease"),
    "reap_last": ("dead", "lost_lease"),
}
TERMINAL_EXITS = [name for name, (state, _) in EXITS.items() if state != "pending"]
ACTIVE_EXITS = [name for name, (state, _) in EXITS.items() if state == "pending"]


async def claimed_for(engine: AsyncEngine, how: str, **payload: Any) -> HeldLease:
    """A claimed job whose budget makes `leave(…, how)` end as EXITS says; no message waits."""
    held = await prepare(engine, await claimed_job(engine, **payload), how)
    await execute(engine, "DELETE FROM chot.outbox")
    return held


async def prepare(
    engine: AsyncEngine,
    held: HeldLease,
    how: str,
    *,
    again: Callable[..., Awaitable[HeldLease]] = claimed_again,
) -> HeldLease:
    """Use the job's budget up as far as this exit needs it; the lease it is then held by."""
    job_id = held.lease.job_id
    if how in {"fail_last", "release_last", "reap_last"}:
        await execute(engine, "UPDATE chot.jobs SET max_attempts = 1 WHERE id = :i", i=job_id)
    if how == "release_last":
        await released_before(engine, held, FREE_RELEASES)
    if how == "reap_last":
        await expire_lease(engine, job_id)
        return await again(engine, job_id, worker="b")
    return held


async def released_before(engine: AsyncEngine, held: HeldLease, times: int) -> None:
    """Attempts that were released so often where the job still stands."""
    await execute(
        engine,
        """INSERT INTO chot.attempts (job_id, fence, attempt, worker_id, lease_token, code_version,
                  ended_at, outcome, claimed_checkpoint_no, checkpoint_no)
           SELECT :i, -n, 0, 'w', gen_random_uuid(), 'test', clock_timestamp(), 'released',
                  :at, :at FROM generate_series(1, CAST(:times AS integer)) AS n""",
        i=held.lease.job_id,
        at=held.checkpoint_no,
        times=times,
    )


async def leave(engine: AsyncEngine, held: HeldLease, how: str) -> bool:
    """Leave `running` in this way; False when the job was no longer there to leave."""
    if how == "cancel":
        async with engine.begin() as conn:
            return await cancel_job(conn, held.lease.job_id)
    if how.startswith("reap"):
        await expire_lease(engine, held.lease.job_id)
    async with autocommit(engine).connect() as conn:
        return await leave_over(conn, held, how)


async def leave_over(conn: AsyncConnection, held: HeldLease, how: str) -> bool:
    """The same by a statement of the owner's (or the reaper's) over this connection."""
    match how:
        case "complete":
            return await complete_job(conn, held, '{"ok": true}')
        case "retry" | "fail_last" | "fail_permanently":
            permanent = how == "fail_permanently"
            failed = Failed(error="broke", code="FAILED", permanent=permanent, delay_seconds=60)
            return await fail_job(conn, held, failed) is not None
        case "release" | "release_last":
            return await release_job(conn, held, Released(reason="drain")) is not None
        case _:
            return await reap_expired(conn) > 0


async def outbox_of(engine: AsyncEngine) -> Sequence[Any]:
    """All messages that wait, as (job_id, kind, brand)."""
    async with engine.connect() as conn:
        rows = await conn.exec_driver_sql("SELECT job_id, kind, brand FROM chot.outbox ORDER BY id")
        return rows.all()
