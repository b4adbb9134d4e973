"""Plain reads of jobs for people and programs; nothing here decides anything.

A job in the archive answers by its id as it did before. Lists: shared/jobs/listing.py.
"""

from uuid import UUID

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.access import EVERYTHING, IN_SCOPE, Scope

# When it was looked at, and how long until it is due, by the database's clock.
MOMENT = """clock_timestamp() AS read_at,
           extract(epoch FROM j.available_at - clock_timestamp())::double precision AS due_in"""

READ_JOB = text(f"""
    SELECT j.*, p.payload, o.result, o.error,
           {MOMENT}
      FROM chot.jobs j
      LEFT JOIN chot.job_payloads p ON p.job_id = j.id
      LEFT JOIN chot.job_outputs o ON o.job_id = j.id
     WHERE j.id = :job_id AND {IN_SCOPE}""")


# A job moves to the archive in one commit, and never back: who did not find it here looks there.
READ_ARCHIVED = text(f"""
    SELECT j.*, a.payload, a.result, a.error, {MOMENT}, a.attempts, a.job -> 'locks' AS locks
      FROM chot.archived_jobs a, jsonb_populate_record(NULL::chot.jobs, a.job) AS j
     WHERE a.id = :job_id AND {IN_SCOPE}""")


async def get_job(
    conn: AsyncConnection, job_id: UUID, *, scope: Scope = EVERYTHING
) -> RowMapping | None:
    """The job with payload, result and error; None when there is no such job in this scope."""
    binds = {"job_id": job_id, **scope.binds()}
    found = (await conn.execute(READ_JOB, binds)).mappings().one_or_none()
    return found or (await conn.execute(READ_ARCHIVED, binds)).mappings().one_or_none()


READ_ATTEMPTS = text("""
    SELECT fence, attempt, worker_id, code_version, started_at, ended_at, outcome, error,
           claimed_checkpoint_no, checkpoint_no
      FROM chot.attempts WHERE job_id = :job_id ORDER BY fence LIMIT :most""")


async def list_attempts(
    conn: AsyncConnection, job_id: UUID, *, most: int = 200
) -> list[RowMapping]:
    """The job's first `most` attempts, oldest first."""
    binds = {"job_id": job_id, "most": most}
    return list((await conn.execute(READ_ATTEMPTS, binds)).mappings().all())


# One statement, so that the state and its attempts are of one moment.
SHOW_JOB = text(f"""
    SELECT j.*, o.result, o.error, {MOMENT},
           coalesce((SELECT json_agg(a ORDER BY a.fence) FROM (
               SELECT fence, attempt, worker_id, code_version, started_at, ended_at, outcome, error
                 FROM chot.attempts WHERE job_id = j.id ORDER BY fence DESC LIMIT :most) AS a
           ), '[]') AS attempts,
           CASE WHEN j.lock_roots IS NOT NULL THEN (
               SELECT json_agg(l ORDER BY l.n) FROM (
                   SELECT n, root, part, mode, period_from, period_to FROM chot.job_locks
                    WHERE job_id = j.id) AS l) END AS locks
      FROM chot.jobs j LEFT JOIN chot.job_outputs o ON o.job_id = j.id
     WHERE j.id = :job_id AND {IN_SCOPE}""")


async def show_job(
    conn: AsyncConnection, job_id: UUID, *, most: int = 200, scope: Scope = EVERYTHING
) -> RowMapping | None:
    """The job as people see it, without its payload; None when there is no such job in this scope.

    `attempts` are the newest `most`, oldest first, their times as ISO text.
    """
    binds = {"job_id": job_id, "most": most, **scope.binds()}
    found = (await conn.execute(SHOW_JOB, binds)).mappings().one_or_none()
    if found is not None:
        return found
    del binds["most"]
    return (await conn.execute(READ_ARCHIVED, binds)).mappings().one_or_none()
