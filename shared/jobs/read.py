"""Plain reads of jobs for people and programs; nothing here decides anything."""

from typing import Any
from uuid import UUID

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.access import EVERYTHING, IN_SCOPE, Scope

READ_JOB = text(f"""
    SELECT j.*, p.payload, o.result, o.error,
           extract(epoch FROM j.available_at - clock_timestamp())::double precision AS due_in
      FROM chot.jobs j
      LEFT JOIN chot.job_payloads p ON p.job_id = j.id
      LEFT JOIN chot.job_outputs o ON o.job_id = j.id
     WHERE j.id = :job_id AND {IN_SCOPE}""")


async def get_job(
    conn: AsyncConnection, job_id: UUID, *, scope: Scope = EVERYTHING
) -> RowMapping | None:
    """The job with payload, result and error; None when there is no such job in this scope."""
    binds = {"job_id": job_id, **scope.binds()}
    return (await conn.execute(READ_JOB, binds)).mappings().one_or_none()


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
    SELECT j.*, o.result, o.error,
           extract(epoch FROM j.available_at - clock_timestamp())::double precision AS due_in,
           coalesce((SELECT json_agg(a ORDER BY a.fence) FROM (
               SELECT fence, attempt, worker_id, code_version, started_at, ended_at, outcome, error
                 FROM chot.attempts WHERE job_id = j.id ORDER BY fence DESC LIMIT :most) AS a
           ), '[]') AS attempts
      FROM chot.jobs j LEFT JOIN chot.job_outputs o ON o.job_id = j.id
     WHERE j.id = :job_id AND {IN_SCOPE}""")


async def show_job(
    conn: AsyncConnection, job_id: UUID, *, most: int = 200, scope: Scope = EVERYTHING
) -> RowMapping | None:
    """The job as people see it, without its payload; None when there is no such job in this scope.

    `attempts` are the newest `most`, oldest first, their times as ISO text.
    """
    binds = {"job_id": job_id, "most": most, **scope.binds()}
    return (await conn.execute(SHOW_JOB, binds)).mappings().one_or_none()


FILTERS = {
    "state": "j.state = :state",
    "kind": "j.kind = :kind",
    "company": "j.company = :company",
    "brand": "j.brand = :brand",
    "before": "j.id < :before",
    # Spelled out, not IN_SCOPE: each set of filters is a statement with a plan of its own.
    "scope_company": "j.company = :scope_company",
    "scope_brands": "j.brand = ANY(CAST(:scope_brands AS text[]))",
}


async def list_jobs(
    conn: AsyncConnection, filters: dict[str, Any], *, limit: int, scope: Scope = EVERYTHING
) -> list[RowMapping]:
    """Jobs newest first, without payload and result; `before` is the keyset cursor (a job id).

    `filters` may hold state, kind, company, brand and before; they narrow the scope. An id
    never changes its place, so paging neither repeats nor skips a job while rows change.
    """
    scoped = {name: value for name, value in scope.binds().items() if value is not None}
    where = " AND ".join(FILTERS[name] for name in (*filters, *scoped)) or "true"
    statement = text(f"""
        SELECT j.*, NULL AS payload, NULL AS result, o.error,
               extract(epoch FROM j.available_at - clock_timestamp())::double precision AS due_in
          FROM chot.jobs j LEFT JOIN chot.job_outputs o ON o.job_id = j.id
         WHERE {where} ORDER BY j.id DESC LIMIT :limit""")
    binds = filters | scoped | {"limit": limit}
    return list((await conn.execute(statement, binds)).mappings().all())
