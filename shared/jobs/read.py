"""Plain reads of jobs for people and programs; nothing here decides anything."""

from typing import Any
from uuid import UUID

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

READ_JOB = text("""
    SELECT j.*, p.payload, o.result, o.error,
           extract(epoch FROM j.available_at - clock_timestamp())::double precision AS due_in
      FROM chot.jobs j
      LEFT JOIN chot.job_payloads p ON p.job_id = j.id
      LEFT JOIN chot.job_outputs o ON o.job_id = j.id
     WHERE j.id = :job_id""")


async def get_job(conn: AsyncConnection, job_id: UUID) -> RowMapping | None:
    """The job with payload, result and error; None when there is no such job."""
    return (await conn.execute(READ_JOB, {"job_id": job_id})).mappings().one_or_none()


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
SHOW_JOB = text("""
    SELECT j.*, o.result, o.error,
           extract(epoch FROM j.available_at - clock_timestamp())::double precision AS due_in,
           coalesce((SELECT json_agg(a ORDER BY a.fence) FROM (
               SELECT fence, attempt, worker_id, code_version, started_at, ended_at, outcome, error
                 FROM chot.attempts WHERE job_id = j.id ORDER BY fence DESC LIMIT :most) AS a
           ), '[]') AS attempts
      FROM chot.jobs j LEFT JOIN chot.job_outputs o ON o.job_id = j.id
     WHERE j.id = :job_id""")


async def show_job(conn: AsyncConnection, job_id: UUID, *, most: int = 200) -> RowMapping | None:
    """The job as people see it, without its payload; None when there is no such job.

    `attempts` are the newest `most`, oldest first, their times as ISO text.
    """
    binds = {"job_id": job_id, "most": most}
    return (await conn.execute(SHOW_JOB, binds)).mappings().one_or_none()


FILTERS = {
    "state": "j.state = :state",
    "kind": "j.kind = :kind",
    "company": "j.company = :company",
    "brand": "j.brand = :brand",
    "before": "j.id < :before",
}


async def list_jobs(
    conn: AsyncConnection, filters: dict[str, Any], *, limit: int
) -> list[RowMapping]:
    """Jobs newest first, without payload and result; `before` is the keyset cursor (a job id).

    `filters` may hold state, kind, company, brand and before. An id never changes its place, so
    paging neither repeats nor skips a job while rows change.
    """
    where = " AND ".join(FILTERS[name] for name in filters) or "true"
    statement = text(f"""
        SELECT j.*, NULL AS payload, NULL AS result, o.error,
               extract(epoch FROM j.available_at - clock_timestamp())::double precision AS due_in
          FROM chot.jobs j LEFT JOIN chot.job_outputs o ON o.job_id = j.id
         WHERE {where} ORDER BY j.id DESC LIMIT :limit""")
    return list((await conn.execute(statement, filters | {"limit": limit})).mappings().all())
