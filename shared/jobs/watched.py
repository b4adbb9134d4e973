"""Watched jobs: those that somebody waits for, in one query whoever and how many they are."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.jobs.read import MOMENT

# What people see of a job, spelled out: a payload kept for a follow-up may be 256 KiB.
COLUMNS = """j.id, j.kind, j.company, j.brand, j.queue, j.state, j.priority, j.attempt,
           j.max_attempts, j.lost_leases, j.interruptions, j.fence, j.available_at, j.blocked_by,
           j.progress_done, j.progress_total, j.progress_unit, j.progress_message,
           j.progress_rate, j.progress_at, j.progress_fence, j.cleanup_due, j.payload_version,
           j.principal, j.created_at, j.started_at, j.finished_at, j.redriven_at, j.redriven_by,
           j.redriven_approver, j.group_id, j.joins, j.approver"""
# The error one by one: joined, a few hundred jobs would have it read the whole table.
WATCHED_JOBS = text(f"""
    SELECT {COLUMNS}, {MOMENT},
           (SELECT o.error FROM chot.job_outputs o
             WHERE o.job_id = j.id AND j.state IN ('pending', 'dead')) AS error
      FROM chot.jobs j
     WHERE j.id = ANY(CAST(:ids AS uuid[]))""")
WATCHED_ARCHIVED = text(f"""
    SELECT {COLUMNS}, a.error, {MOMENT}
      FROM chot.archived_jobs a, jsonb_populate_record(NULL::chot.jobs, a.job) AS j
     WHERE a.id = ANY(CAST(:ids AS uuid[]))""")


async def watched_jobs(conn: AsyncConnection, ids: Sequence[UUID]) -> dict[UUID, RowMapping]:
    """These jobs as a list shows them; an id that is missing is no job's.

    The archive is asked only for what the table no longer has.
    """
    rows = (await conn.execute(WATCHED_JOBS, {"ids": list(ids)})).mappings().all()
    found = {row["id"]: row for row in rows}
    gone = [job_id for job_id in ids if job_id not in found]
    if gone:
        rows = (await conn.execute(WATCHED_ARCHIVED, {"ids": gone})).mappings().all()
        found |= {row["id"]: row for row in rows}
    return found
