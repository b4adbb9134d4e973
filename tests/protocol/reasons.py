"""How a job gets to wait for each reason of /why: by the functions that do it in earnest."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from sqlalchemy import RowMapping
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.access import EVERYTHING, Scope
from shared.groups.stop import cancel_group
from shared.jobs.cancel import cancel_job
from shared.jobs.enqueue import Submit, enqueue
from shared.jobs.freeze import Books, freeze_books
from shared.jobs.limiting import Limited, set_limit
from shared.jobs.pause import pause_kind, pause_queue
from shared.jobs.reasons import Reason
from shared.jobs.why import explain_job
from shared.kinds.registry import load_kinds, mirror_kinds
from shared.outbox import DELETE_SENT, NOTE_FAILURE
from shared.publishing import take_due
from shared.types import JobId, WorkerId
from tests.factories import (
    NUMBERS,
    autocommit,
    claimant,
    claimed_again,
    execute,
    expire_lease,
    make_job,
)
from tests.protocol import locking
from tests.protocol.groups import members, opened, show
from worker.alone import reserve_alone
from worker.claim import claim_jobs
from worker.outcome import Failed, Released, complete_job, fail_job, release_job
from worker.presence import Presence, QueuePresence, report_presence
from worker.reaper import reap_expired

Setup = Callable[[AsyncEngine], Awaitable[JobId]]
EVERY_PROBE = {f"probe.{name}": 1 for name in ("write", "misbehave", "post", "merge", "follow")}


async def why(engine: AsyncEngine, job_id: UUID, scope: Scope = EVERYTHING) -> RowMapping:
    """What decides when the job goes on."""
    async with engine.connect() as conn:
        row = await explain_job(conn, job_id, scope)
    assert row is not None
    return row


async def crew(
    engine: AsyncEngine,
    *,
    slots: int = 4,
    free: int = 4,
    state: str = "working",
    kinds: Mapping[str, int] | None = None,
    name: str = "w",
) -> None:
    """A live worker, as its heartbeat reports it."""
    presence = Presence(
        worker_id=WorkerId(name),
        host="h",
        pid=1,
        code_version="test",
        kinds=EVERY_PROBE if kinds is None else kinds,
        queues={"default": QueuePresence(slots, free)},
        state=state,
    )
    async with autocommit(engine).connect() as conn:
        await report_presence(conn, presence, 60)


async def publish_all(engine: AsyncEngine) -> int:
    """One round of a relay whose SQS takes everything; answers how many went out."""
    token = uuid4()
    async with autocommit(engine).connect() as conn:
        rows = await take_due(conn, token)
        await conn.execute(DELETE_SENT, {"ids": [row.id for row in rows], "token": token})
    return len(rows)


async def refuse_all(engine: AsyncEngine, *, invalid: bool) -> None:
    """One round of a relay whose SQS takes nothing."""
    token = uuid4()
    async with autocommit(engine).connect() as conn:
        for row in await take_due(conn, token):
            binds = {"id": row.id, "token": token, "error": "Throttled: slow", "invalid": invalid}
            await conn.execute(NOTE_FAILURE, binds)


async def scheduled(engine: AsyncEngine) -> JobId:
    await crew(engine)
    later = datetime.now(UTC) + timedelta(hours=1)
    job = Submit(
        kind="probe.write",
        company="ACME",
        brand="RED",
        payload={"number": next(NUMBERS)},
        run_at=later,
    )
    async with engine.begin() as conn:
        return (await enqueue(conn, job)).job_id


async def backoff(engine: AsyncEngine) -> JobId:
    await crew(engine)
    held = await claimed_again(engine, await make_job(engine), worker="w")
    failed = Failed(error="period is open", code="OPEN", permanent=False, delay_seconds=90)
    async with engine.begin() as conn:
        await fail_job(conn, held, failed)
    return held.lease.job_id


async def handed_back(engine: AsyncEngine) -> JobId:
    await crew(engine)
    held = await claimed_again(engine, await make_job(engine), worker="w")
    async with engine.begin() as conn:
        await release_job(conn, held, Released(reason="later", delay_seconds=90))
    return held.lease.job_id


async def snoozed(engine: AsyncEngine) -> JobId:
    await crew(engine)
    held = await claimed_again(engine, await make_job(engine), worker="w")
    asked = Released(reason="the bank opens later", delay_seconds=90, type="Snoozed")
    async with engine.begin() as conn:
        await release_job(conn, held, asked)
    return held.lease.job_id


async def group_cancelling(engine: AsyncEngine) -> JobId:
    await crew(engine)
    group_id = await opened(engine, join=False)
    (job_id,) = await members(engine, group_id, 1)
    async with engine.begin() as conn:
        await cancel_group(conn, group_id)
    return job_id


async def group_open(engine: AsyncEngine) -> JobId:
    await crew(engine)
    group_id = await opened(engine)
    one, *_ = await members(engine, group_id, 3)
    held = await claimed_again(engine, one, worker="w")
    async with engine.begin() as conn:
        await complete_job(conn, held, None)
    join = (await show(engine, group_id)).join_job_id
    assert join is not None
    return join


async def paused(engine: AsyncEngine) -> JobId:
    await crew(engine)
    job_id = await make_job(engine)
    async with engine.begin() as conn:
        assert await pause_queue(conn, "default")
    return job_id


async def kind_paused(engine: AsyncEngine) -> JobId:
    await crew(engine)
    job_id = await make_job(engine)
    async with engine.begin() as conn:
        assert await pause_kind(conn, "probe.write")
    return job_id


async def job_paused(engine: AsyncEngine) -> JobId:
    """As shared.migrations.pausing marks a migration."""
    await crew(engine)
    job_id = await make_job(engine)
    paused = "UPDATE chot.jobs SET paused_at = clock_timestamp() WHERE id = :job_id"
    await execute(engine, paused, job_id=job_id)
    return job_id


async def books_frozen(engine: AsyncEngine) -> JobId:
    """Of its brand, and of another, which is no matter of this job."""
    await crew(engine)
    job_id = await make_job(engine)
    async with engine.begin() as conn:
        assert await freeze_books(conn, Books(company="ACME", brand="RED"), reason="an audit.")
        assert await freeze_books(conn, Books(company="ACME", brand="BLUE"))
    return job_id


async def out_of_attempts(engine: AsyncEngine) -> JobId:
    """An operator has lowered the budget below what was used."""
    job_id = await backoff(engine)
    await execute(
        engine,
        """UPDATE chot.jobs SET max_attempts = 1, available_at = clock_timestamp()
            WHERE id = :job_id""",
        job_id=job_id,
    )
    return job_id


async def no_worker(engine: AsyncEngine) -> JobId:
    return await make_job(engine)


async def kind_unknown(engine: AsyncEngine) -> JobId:
    await crew(engine, kinds={"another.kind": 1})
    return await make_job(engine)


async def version_unknown(engine: AsyncEngine) -> JobId:
    """A newer api has taken it."""
    await crew(engine)
    job_id = await make_job(engine)
    await execute(
        engine, "UPDATE chot.jobs SET payload_version = 2 WHERE id = :job_id", job_id=job_id
    )
    return job_id


async def workers_stopping(engine: AsyncEngine) -> JobId:
    await crew(engine, state="draining")
    await crew(engine, name="of another kind", kinds={"another.kind": 1})
    return await make_job(engine)


async def suspected(engine: AsyncEngine) -> JobId:
    """It has lost two workers."""
    job_id = await make_job(engine)
    for name in ("x", "y"):
        await claimed_again(engine, job_id, worker=name)
        await expire_lease(engine, job_id)
        async with autocommit(engine).connect() as conn:
            assert await reap_expired(conn) == 1
    return job_id


async def runs_alone(engine: AsyncEngine) -> JobId:
    await crew(engine)
    return await suspected(engine)


async def workers_alone(engine: AsyncEngine) -> JobId:
    job_id = await make_job(engine)
    other = await suspected(engine)
    async with autocommit(engine).connect() as conn:
        assert await reserve_alone(conn, "default", WorkerId("w"), other, 30)
    await crew(engine, state="alone")
    return job_id


async def lock_held(engine: AsyncEngine) -> JobId:
    """Another job of its kind runs."""
    await know_locks(engine)
    await locking.running(engine, number=1)
    return await locking.locked_job(engine, number=2)


async def lock_reserved(engine: AsyncEngine) -> JobId:
    """A writer waits for the reader that runs, and this reader comes after it."""
    await know_locks(engine)
    await locking.running(engine, "locked.read", number=1)
    await locking.waiting(engine, number=2)
    return await locking.locked_job(engine, "locked.read", number=3)


async def know_locks(engine: AsyncEngine) -> None:
    async with engine.begin() as conn:
        kinds = load_kinds("tests.probes.lock_kinds")
        await mirror_kinds(conn, kinds, default_max_attempts=5)
    await crew(engine, kinds=dict.fromkeys(kinds, 1))


async def kind_maximum(engine: AsyncEngine) -> JobId:
    await crew(engine)
    await execute(engine, "UPDATE chot.kinds SET max_running = 2 WHERE name = 'probe.misbehave'")
    for _ in range(2):
        running = await make_job(engine, kind="probe.misbehave", how="sleep")
        claimed = await claim_jobs(autocommit(engine), claimant("w"), [running], wait=True)
        assert len(claimed) == 1
    return await make_job(engine, kind="probe.misbehave", how="sleep")


async def limit_reached(engine: AsyncEngine) -> JobId:
    """Of its brand: two of any kind; that of the kind alone has room."""
    await crew(engine)
    for kind, more in (("probe.misbehave", {"how": "sleep"}), ("probe.write", {})):
        running = await make_job(engine, kind, **more)
        claimed = await claim_jobs(autocommit(engine), claimant("w"), [running], wait=True)
        assert len(claimed) == 1
    async with engine.begin() as conn:
        await set_limit(conn, Limited(kind="probe.write"), 9)
        await set_limit(conn, Limited(company="ACME", brand="RED"), 2)
    return await make_job(engine)


async def message_refused(engine: AsyncEngine) -> JobId:
    await crew(engine)
    job_id = await make_job(engine)
    await refuse_all(engine, invalid=True)
    return job_id


async def window_full(engine: AsyncEngine) -> JobId:
    """One slot is a window of three messages."""
    await crew(engine, slots=1, free=0)
    jobs = [await make_job(engine) for _ in range(6)]
    assert await publish_all(engine) == 3
    return jobs[-1]


async def publishing_failed(engine: AsyncEngine) -> JobId:
    await crew(engine)
    job_id = await make_job(engine)
    await refuse_all(engine, invalid=False)
    return job_id


async def publishing(engine: AsyncEngine) -> JobId:
    await crew(engine)
    return await make_job(engine)


async def slots_busy(engine: AsyncEngine) -> JobId:
    await crew(engine, free=0)
    job_id = await make_job(engine)
    assert await publish_all(engine) == 1
    return job_id


async def delivery(engine: AsyncEngine) -> JobId:
    await crew(engine, free=3)
    job_id = await make_job(engine)
    assert await publish_all(engine) == 1
    return job_id


async def running(engine: AsyncEngine) -> JobId:
    await crew(engine)
    return (await claimed_again(engine, await make_job(engine), worker="w")).lease.job_id


async def lease_expired(engine: AsyncEngine) -> JobId:
    job_id = await running(engine)
    await expire_lease(engine, job_id)
    return job_id


async def worker_silent(engine: AsyncEngine) -> JobId:
    """Its worker was killed: it has missed two beats, and the lease has not run out."""
    job_id = await running(engine)
    await execute(
        engine,
        """UPDATE chot.workers SET seen_at = seen_at - interval '31 seconds',
                                  live_until = live_until - interval '31 seconds'
            WHERE worker_id = 'w'""",
    )
    return job_id


async def succeeded(engine: AsyncEngine) -> JobId:
    await crew(engine)
    held = await claimed_again(engine, await make_job(engine), worker="w")
    async with engine.begin() as conn:
        assert await complete_job(conn, held, "{}")
    return held.lease.job_id


async def cancelled(engine: AsyncEngine) -> JobId:
    job_id = await running(engine)
    async with engine.begin() as conn:
        assert await cancel_job(conn, job_id)
    return job_id


async def dead(engine: AsyncEngine) -> JobId:
    await crew(engine)
    held = await claimed_again(engine, await make_job(engine), worker="w")
    async with engine.begin() as conn:
        await fail_job(conn, held, Failed(error="never", code="NEVER", permanent=True))
    return held.lease.job_id


SETUPS: Mapping[Reason, Setup] = {
    Reason.SCHEDULED: scheduled,
    Reason.BACKOFF: backoff,
    Reason.SNOOZED: snoozed,
    Reason.HANDED_BACK: handed_back,
    Reason.QUEUE_PAUSED: paused,
    Reason.KIND_PAUSED: kind_paused,
    Reason.BOOKS_FROZEN: books_frozen,
    Reason.JOB_PAUSED: job_paused,
    Reason.GROUP_CANCELLING: group_cancelling,
    Reason.GROUP_OPEN: group_open,
    Reason.OUT_OF_ATTEMPTS: out_of_attempts,
    Reason.NO_WORKER: no_worker,
    Reason.KIND_UNKNOWN: kind_unknown,
    Reason.VERSION_UNKNOWN: version_unknown,
    Reason.WORKERS_STOPPING: workers_stopping,
    Reason.LOCK_HELD: lock_held,
    Reason.LOCK_RESERVED: lock_reserved,
    Reason.RUNS_ALONE: runs_alone,
    Reason.WORKERS_ALONE: workers_alone,
    Reason.KIND_MAXIMUM: kind_maximum,
    Reason.LIMIT_REACHED: limit_reached,
    Reason.MESSAGE_REFUSED: message_refused,
    Reason.WINDOW_FULL: window_full,
    Reason.PUBLISHING_FAILED: publishing_failed,
    Reason.PUBLISHING: publishing,
    Reason.SLOTS_BUSY: slots_busy,
    Reason.DELIVERY: delivery,
    Reason.RUNNING: running,
    Reason.LEASE_EXPIRED: lease_expired,
    Reason.WORKER_SILENT: worker_silent,
    Reason.SUCCEEDED: succeeded,
    Reason.CANCELLED: cancelled,
    Reason.DEAD: dead,
}
