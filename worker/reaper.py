"""Reaper: a job whose lease ran out goes back to pending, or is buried when nothing is left."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import TextClause, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.database import CONFLICTS, is_unreachable, sqlstate_of, transaction
from shared.jobs.exits import exit_statement
from shared.jobs.guards import guards_of, lock_guards
from shared.jobs.states import ATTEMPTS_LEFT_AFTER_LOSS, LOST_LEASES
from shared.logs import alert, log
from shared.settings import LeaseTiming
from shared.telling import told

BATCH = 100
LOST = '\'{"type": "WorkerLost", "code": "WORKER_LOST", "message": "the lease ran out"}\''


# The UPDATE says again what the lock was taken for: state, token and expiry on the newest version
# of the row. Rows that a fence holds at this moment are passed over.
def _reap_statement(which: str, *, wakes: bool = False) -> TextClause:
    return exit_statement(
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
                 WHERE e.state = 'running' AND e.lease_expires_at <= clock_timestamp() AND {which}
                 ORDER BY e.id LIMIT {BATCH} FOR NO KEY UPDATE SKIP LOCKED)
            SELECT id, lease_token FROM found) AS expired
     WHERE j.id = expired.id AND j.state = 'running' AND j.lease_token = expired.lease_token
       AND j.lease_expires_at <= clock_timestamp()""",
        outcome="'lost_lease'",
        error=LOST,
        wakes=wakes,
    )


GUARDED = "(e.lock_roots IS NOT NULL OR e.group_id IS NOT NULL)"
REAP_EXPIRED = _reap_statement(f"NOT {GUARDED}")
REAP_ONE = _reap_statement("e.id = :job_id", wakes=True)
FIND_GUARDED = text(f"""
    SELECT e.id, e.lock_roots, e.group_id FROM chot.jobs e
     WHERE e.state = 'running' AND e.lease_expires_at <= clock_timestamp() AND {GUARDED}
     ORDER BY e.id LIMIT {BATCH}""")


async def reap_expired(conn: AsyncConnection) -> int:
    """Move up to a batch of expired jobs without guards out of running. In autocommit.

    Answers how many.

    Model: actions bury, reap.
    """
    return _told((await conn.execute(REAP_EXPIRED, {"result": None})).all())


async def reap_guarded(engine: AsyncEngine, timing: LeaseTiming) -> int:
    """The same for up to a batch of jobs with guards, each in a transaction that locks them first.

    One whose guards somebody holds for too long, or that cannot be reaped, is left for the next
    round, and keeps no other.
    """
    async with engine.connect() as conn:
        found = (await conn.execute(FIND_GUARDED)).all()
        await conn.rollback()
    reaped = 0
    for row in found:
        try:
            async with transaction(
                engine, lock_timeout=timing.lock_timeout, idle_timeout=timing.idle_in_transaction
            ) as conn:
                await lock_guards(conn, guards_of(row))
                binds = {"job_id": row.id, "result": None}
                rows = (await conn.execute(REAP_ONE, binds)).all()
        except DBAPIError as error:
            if is_unreachable(error):
                raise
            if sqlstate_of(error) in CONFLICTS:
                log.warning("lease.reap_waits", job_id=str(row.id), error=told(error))
            else:
                log.exception("lease.reap_failed", job_id=str(row.id))
        else:
            reaped += _told(rows)
    return reaped


def _told(rows: Sequence[Any]) -> int:
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
