"""The middle of the demo: kill -9 the worker that owns the job, and watch another one take it."""

import asyncio
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from time import monotonic
from typing import Any
from uuid import UUID

import asyncpg

from dev.stack_members import Member

POLL_SECONDS = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """Who owns the job at one moment, and how far it is; read from the database."""

    state: str
    fence: int
    attempt: int
    worker_id: str | None
    pid: int | None
    done: int
    total: int
    checkpoint_no: int
    lease_left: float | None
    at: datetime

    @property
    def share(self) -> float:
        """The part that is done, 0 to 1."""
        return self.done / self.total if self.total else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """What happened between the kill and the next owner's claim, `seconds` later."""

    killed: Ownership
    killed_name: str
    exit_code: int
    taken: Ownership
    taken_name: str
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Everything, for --json."""
        return asdict(self)


READ_OWNERSHIP = """
    SELECT j.state, j.fence, j.attempt, j.worker_id, w.pid,
           coalesce(j.progress_done, 0) AS done, coalesce(j.progress_total, 0) AS total,
           j.checkpoint_no,
           extract(epoch FROM j.lease_expires_at - clock_timestamp())::float8 AS lease_left,
           clock_timestamp() AS at
      FROM chot.jobs j LEFT JOIN chot.workers w USING (worker_id)
     WHERE j.id = $1"""


async def read_ownership(conn: asyncpg.Connection, job_id: UUID) -> Ownership:
    """Read the job's owner and progress, as the owner committed them."""
    row = await conn.fetchrow(READ_OWNERSHIP, job_id)
    assert row is not None, "a job that was accepted is in the table"
    return Ownership(**row)


async def kill_owner(
    conn: asyncpg.Connection,
    job_id: UUID,
    workers: list[Member],
    *,
    at_share: float,
    say: Callable[[str], None],
) -> Takeover | None:
    """SIGKILL the owner once `at_share` is done; return when somebody else has claimed the job.

    None: the job ended first, or the next owner did not come before it could be seen.
    """
    before = await _until(conn, job_id, lambda now: now.share >= at_share and now.checkpoint_no > 0)
    if before.state != "running" or before.pid is None:
        return None
    victim = next(worker for worker in workers if worker.pid == before.pid)
    began = monotonic()
    code = await victim.kill()
    # What it committed between our look and its death counts as well.
    killed = await read_ownership(conn, job_id)
    if killed.state != "running" or killed.fence != before.fence:
        return None
    say(
        f"kill -9 {before.pid}: {victim.name} owned the job under fence {killed.fence}, "
        f"{killed.done:,} of {killed.total:,} movements committed ({int(100 * killed.share)}%); "
        f"its lease has {max(killed.lease_left or 0.0, 0.0):.1f} s left"
    )
    taken = await _until(
        conn, job_id, lambda now: now.fence > killed.fence and now.state != "pending"
    )
    heir = next((worker for worker in workers if worker.pid == taken.pid), None)
    heir_name = heir.name if heir is not None else str(taken.worker_id)
    waited = monotonic() - began
    say(f"{heir_name} took over under fence {taken.fence}, {waited:.1f} s after the kill")
    return Takeover(
        killed=killed,
        killed_name=victim.name,
        exit_code=code,
        taken=taken,
        taken_name=heir_name,
        seconds=waited,
    )


async def _until(
    conn: asyncpg.Connection, job_id: UUID, reached: Callable[[Ownership], bool]
) -> Ownership:
    """Poll until the condition holds or the job has ended; the caller bounds the whole."""
    while True:
        now = await read_ownership(conn, job_id)
        if reached(now) or now.state in {"succeeded", "dead", "cancelled"}:
            return now
        await asyncio.sleep(POLL_SECONDS)
