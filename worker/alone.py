"""Alone: a job that has lost its worker twice runs with no neighbours.

The worker that meets it reserves the queue's row (the reservation expires like a lease), stops
claiming, lets its slots end and runs only that job, so that the one that kills its process is
proven, and buried when its budget of lost leases is used up.
"""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.jobs.locks import WAITS
from shared.types import JobId, WorkerId

RESERVE_ALONE = text("""
    UPDATE chot.queues
       SET alone_worker = :worker_id,
           (alone_kind, alone_company, alone_brand) = (
               SELECT j.kind, j.company, j.brand FROM chot.jobs j WHERE j.id = :job_id),
           alone_until = clock_timestamp() + make_interval(secs => :lease)
     WHERE name = :queue
       AND (alone_until IS NULL OR alone_until <= clock_timestamp()
            OR alone_worker = :worker_id)""")
# The reservation stood for the job's message; a job that was not run after all gets another, but
# for one that waits for a lock: whoever frees it stages it.
FREE_ALONE = text(f"""
    WITH freed AS (
        UPDATE chot.queues
           SET alone_worker = NULL, alone_kind = NULL, alone_company = NULL, alone_brand = NULL,
               alone_until = NULL
         WHERE name = :queue AND alone_worker = :worker_id)
    INSERT INTO chot.outbox (job_id, queue, kind, company, brand, trace, priority, next_send_at)
    SELECT j.id, j.queue, j.kind, j.company, j.brand, j.trace, j.priority, j.available_at
      FROM chot.jobs j
     WHERE j.id = :job_id AND j.state = 'pending' AND NOT {WAITS}
       AND NOT EXISTS (SELECT FROM chot.outbox o WHERE o.job_id = j.id)""")


async def reserve_alone(
    conn: AsyncConnection, queue: str, worker_id: WorkerId, job_id: JobId, lease_seconds: float
) -> bool:
    """Reserve the queue's one place for a job that runs alone; False while another holds it.

    With it goes a place in each of the job's limits.
    """
    binds = {"queue": queue, "worker_id": worker_id, "job_id": job_id, "lease": lease_seconds}
    return bool((await conn.execute(RESERVE_ALONE, binds)).rowcount)


async def free_alone(conn: AsyncConnection, queue: str, worker_id: WorkerId, job_id: JobId) -> None:
    """Give the place back (one that was lost by expiry is left alone), and the job its message."""
    await conn.execute(FREE_ALONE, {"queue": queue, "worker_id": worker_id, "job_id": job_id})
