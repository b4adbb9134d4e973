"""Reaper: a job whose lease ran out goes back to pending, or is buried when nothing is left."""

from sqlalchemy.ext.asyncio import AsyncConnection

from shared.jobs.states import ATTEMPTS_LEFT_AFTER_LOSS, LOST_LEASES, exit_statement
from shared.logs import alert, log

BATCH = 100
LOST = '\'{"type": "WorkerLost", "code": "WORKER_LOST", "message": "the lease ran out"}\''

# The UPDATE says again what the lock was taken for: state, token and expiry on the newest version
# of the row. Rows that a fence holds at this moment are passed over.
REAP_EXPIRED = exit_statement(
    f"""
    UPDATE chot.jobs j
       SET state = CASE WHEN {ATTEMPTS_LEFT_AFTER_LOSS} THEN 'pending' ELSE 'dead' END,
           finished_at = CASE WHEN {ATTEMPTS_LEFT_AFTER_LOSS} THEN NULL
                              ELSE clock_timestamp() END,
           cleanup_due = NOT {ATTEMPTS_LEFT_AFTER_LOSS},
           lost_leases = {LOST_LEASES}, available_at = clock_timestamp(),
           lease_token = NULL, lease_expires_at = NULL, worker_id = NULL
      FROM (WITH found AS MATERIALIZED (
                SELECT e.id, e.lease_token FROM chot.jobs e
                 WHERE e.state = 'running' AND e.lease_expires_at <= clock_timestamp()
                 ORDER BY e.id LIMIT {BATCH} FOR NO KEY UPDATE SKIP LOCKED)
            SELECT id, lease_token FROM found) AS expired
     WHERE j.id = expired.id AND j.state = 'running' AND j.lease_token = expired.lease_token
       AND j.lease_expires_at <= clock_timestamp()""",
    outcome="'lost_lease'",
    error=LOST,
)


async def reap_expired(conn: AsyncConnection) -> int:
    """Move up to a batch of expired jobs out of running; answers how many. In autocommit.

    Model: action reap.
    """
    rows = (await conn.execute(REAP_EXPIRED, {"result": None})).all()
    for row in rows:
        log.warning("lease.reaped", job_id=str(row.id), kind=row.kind, fence=row.fence)
        if row.state == "dead":
            alert(
                "job.dead",
                job_id=str(row.id),
                kind=row.kind,
                attempt=row.attempt,
                error="its workers vanished too often",
            )
    return len(rows)
