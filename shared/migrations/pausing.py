"""Pause and resume of one migration: pending it is not claimable, running it ends its attempt.

The mark stands on the job's row, so that a claim and a pause take turns: whoever comes second sees
it. A worker looks for it in each batch's own transaction.
"""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.access import IN_SCOPE, Scope
from shared.audit import Action, noted_job
from shared.jobs.staging import staged_due
from shared.kinds.migration import MIGRATION_RUN
from shared.types import JobState

_MINE = f"j.id = :job_id AND j.kind = '{MIGRATION_RUN.name}' AND {IN_SCOPE}"
# A pause of what is paused is no act, and leaves no row.
PAUSE_RUN = text(f"""
    WITH stopped AS (
        UPDATE chot.jobs j SET paused_at = clock_timestamp()
         WHERE {_MINE} AND j.state IN ('pending', 'running') AND j.paused_at IS NULL
        RETURNING j.*),
    {noted_job(Action.MIGRATION_PAUSE, "stopped")}
    SELECT count(*) FROM stopped""")
RESUME_RUN = text(f"""
    WITH resumed AS (
        UPDATE chot.jobs j SET paused_at = NULL
         WHERE {_MINE} AND j.state IN ('pending', 'running') AND j.paused_at IS NOT NULL
        RETURNING j.*),
    {noted_job(Action.MIGRATION_RESUME, "resumed")},
    {staged_due("resumed j")}
    SELECT count(*) FROM resumed""")
READ_PAUSE = text(f"""
    SELECT j.state, j.paused_at IS NOT NULL AS paused FROM chot.jobs j WHERE {_MINE}""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """How the job stands after the act: whether it is paused, and in which state."""

    state: JobState
    paused: bool

    @property
    def is_over(self) -> bool:
        """The job has ended: there was nothing to pause or to resume."""
        return self.state not in {JobState.PENDING, JobState.RUNNING}


async def pause_run(conn: AsyncConnection, job_id: UUID, scope: Scope) -> Paused | None:
    """Let no worker go on with the run; None: there is no such migration in this scope.

    One that runs ends its attempt after the batch that it is in; nothing of it is lost.
    """
    return await _act(conn, PAUSE_RUN, job_id, scope)


async def resume_run(conn: AsyncConnection, job_id: UUID, scope: Scope) -> Paused | None:
    """Let the run go on from its cursor; None: there is no such migration in this scope."""
    return await _act(conn, RESUME_RUN, job_id, scope)


async def _act(
    conn: AsyncConnection, statement: TextClause, job_id: UUID, scope: Scope
) -> Paused | None:
    binds = {"job_id": job_id, **scope.binds()}
    await conn.execute(statement, binds)
    row = (await conn.execute(READ_PAUSE, binds)).one_or_none()
    return None if row is None else Paused(state=JobState(row.state), paused=row.paused)
