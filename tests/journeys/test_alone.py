"""A worker of two queues meets a job that must run alone in each of them, at the same moment."""

from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.jobs.enqueue import Submit, enqueue
from shared.types import JobId
from tests.factories import eventually, execute, make_job
from tests.fleet import Fleet
from tests.journeys.looking import reached, said

# Not the queue's row itself: a relay passes a queue over whose row is locked.
SLOW = (
    """CREATE FUNCTION probe.wait_for_turn() RETURNS trigger LANGUAGE plpgsql AS $$
       BEGIN PERFORM pg_advisory_xact_lock_shared(60); RETURN NEW; END $$""",
    """CREATE TRIGGER slow_reservation BEFORE UPDATE OF alone_worker ON chot.queues
       FOR EACH ROW WHEN (NEW.name = 'default') EXECUTE FUNCTION probe.wait_for_turn()""",
)
HOLD = text("SELECT pg_advisory_xact_lock(60)")


async def _lost_twice(engine: AsyncEngine, job_id: JobId) -> None:
    await execute(
        engine,
        "UPDATE chot.jobs SET attempt = 2, fence = 2, lost_leases = 2 WHERE id = :job_id",
        job_id=job_id,
    )


async def test_jobs_alone_in_two_queues_do_not_wait_for_each_other(
    probes: AsyncEngine, owner_engine: AsyncEngine, fleet: Fleet
) -> None:
    """Found by the fault suite: both were reserved, each waited for the other one to end, and the
    heartbeat kept both reservations alive: no such job ran any more, on any worker.
    """
    for statement in SLOW:
        await execute(owner_engine, statement)
    neighbour = await make_job(probes, seconds=10)
    ours = await make_job(probes)
    async with probes.begin() as conn:
        costing = Submit(
            kind="costing.run", company="ACME", brand="RED", payload={"period": "2026-01"}
        )
        other = (await enqueue(conn, costing)).job_id
    for job_id in (ours, other):
        await _lost_twice(probes, job_id)
    async with probes.connect() as conn:
        await conn.execute(HOLD)  # so that the reservation of one queue takes its time
        worker = fleet.worker(CHOT_QUEUES="default:2,costing:1")
        await said(worker, "worker.started")
        await reached(probes, neighbour, "running")  # whom both have to wait for

        async def both_met() -> bool:
            missed = fleet.events(worker, "claim.missed")
            return {ours, other} <= {UUID(line["job_id"]) for line in missed}

        await eventually(both_met)
        await conn.rollback()
    await reached(probes, neighbour, "succeeded", seconds=60)
    await reached(probes, ours, "succeeded", seconds=60)
    await reached(probes, other, "succeeded", "dead", seconds=60)
