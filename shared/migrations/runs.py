"""Migrations as they are shown: where each run stands, its newest batches, its rejects.

A run is there from its job's submit on; once the job is in the archive only the job's result is.
"""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.access import IN_SCOPE, Scope
from shared.kinds.migration import MIGRATION_RUN

# Of a job that nobody has begun yet the payload alone says what it will do.
_RUNS = f"""
    SELECT j.id, j.company, j.brand, j.state, j.paused_at, j.created_at, j.principal,
           j.progress_done, j.progress_total, j.progress_unit, j.progress_message,
           j.progress_rate, j.progress_at, j.progress_fence, j.fence,
           clock_timestamp() AS read_at,
           p.payload ->> 'task' AS task, coalesce(p.payload -> 'params', '{{}}') AS params,
           coalesce(CAST(p.payload ->> 'dry_run' AS boolean), false) AS dry_run,
           m.version, m.phase, m.upper_bound, m.cursor_key, m.rows_total,
           coalesce(m.rows_done, 0) AS rows_done, coalesce(m.rows_failed, 0) AS rows_failed,
           coalesce(m.counts, '{{}}') AS counts, coalesce(m.batches, 0) AS batches,
           coalesce(m.failed_tries, 0) AS failed_tries, m.batch_size, m.last_batch_ms,
           m.efficiency, coalesce(m.throttles, 0) AS throttles, m.throttle_reason,
           m.throttled_at, m.check_before, m.check_after, m.started_at, m.updated_at,
           coalesce(m.finished_at, j.finished_at) AS finished_at,
           CASE WHEN j.state IN ('pending', 'dead') THEN o.error END AS error
      FROM chot.jobs j
      JOIN chot.job_payloads p ON p.job_id = j.id
      LEFT JOIN chot.job_outputs o ON o.job_id = j.id
      LEFT JOIN chot.migration_runs m ON m.job_id = j.id
     WHERE j.kind = '{MIGRATION_RUN.name}' AND {IN_SCOPE}"""
LIST_RUNS = text(f"""{_RUNS}
       AND (CAST(:company AS text) IS NULL OR j.company = CAST(:company AS text))
       AND (CAST(:before AS uuid) IS NULL OR j.id < CAST(:before AS uuid))
     ORDER BY j.id DESC LIMIT :limit""")
READ_RUN = text(f"{_RUNS} AND j.id = :job_id")
LIST_BATCHES = text("""
    SELECT number, size, rows, ms, outcome, key_from, key_to, error, at
      FROM chot.migration_batches WHERE job_id = :job_id ORDER BY number DESC LIMIT :limit""")
LIST_REJECTS = text("""
    SELECT seq, line, key, field, value, code, rule FROM chot.migration_rejects
     WHERE job_id = :job_id AND seq > :after ORDER BY seq LIMIT :limit""")


async def list_runs(
    conn: AsyncConnection,
    *,
    scope: Scope,
    company: str | None,
    limit: int,
    before: UUID | None = None,
) -> Sequence[RowMapping]:
    """Migrations of this scope, newest first; `before` is the id that a page begins after."""
    binds = {"company": company, "before": before, "limit": limit, **scope.binds()}
    return (await conn.execute(LIST_RUNS, binds)).mappings().all()


async def read_run(conn: AsyncConnection, job_id: UUID, *, scope: Scope) -> RowMapping | None:
    """One of them; None when there is none in this scope."""
    binds = {"job_id": job_id, **scope.binds()}
    return (await conn.execute(READ_RUN, binds)).mappings().one_or_none()


async def list_batches(conn: AsyncConnection, job_id: UUID, *, limit: int) -> Sequence[RowMapping]:
    """The run's newest batches, failed tries too."""
    return (await conn.execute(LIST_BATCHES, {"job_id": job_id, "limit": limit})).mappings().all()


async def list_rejects(
    conn: AsyncConnection, job_id: UUID, *, limit: int, after: int = 0
) -> Sequence[RowMapping]:
    """Rows that the run has set aside, in their order, behind the number `after`."""
    binds = {"job_id": job_id, "limit": limit, "after": after}
    return (await conn.execute(LIST_REJECTS, binds)).mappings().all()
