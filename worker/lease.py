"""Lease: what a claim gave, how it is renewed, and the fence that every commit ends with."""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import LeaseLost
from shared.jobs.guards import Guards
from shared.sqs import Delivery
from shared.types import ClaimedJob, JobId, Lease
from worker.pace import Pace, pace_columns
from worker.signals import SELF_FENCES

StopCause = Literal["expired", "timeout", "taken", "cancelled"]
Input = tuple[str, str | None]  # payload and last committed checkpoint, both as JSON text
# These two mean that the process itself may be stuck; a fence that moved does no harm to it.
CAUSES_TO_EXIT = frozenset({"expired", "timeout"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a job is. `total` may be unknown; done only grows within a fence."""

    done: int
    total: int | None = None
    unit: str = ""
    message: str = ""


LARGEST_COUNT = 2**63 - 1


def progress_of(done: int, total: int | None, unit: str, message: str) -> Progress:
    """Progress cut to what the job's row may hold; TypeError for what is no count or no text.

    One value that the row could not hold would keep every lease of the worker from its renewal.
    """
    return Progress(
        done=_count("done", done),
        total=None if total is None else _count("total", total),
        unit=_cut("unit", unit, 64),
        message=_cut("message", message, 960),
    )


def _count(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"progress: {name} is {value!r:.80}; it must be an integer")
    return min(LARGEST_COUNT, max(0, value))


def _cut(name: str, words: object, most: int) -> str:
    if not isinstance(words, str):
        raise TypeError(f"progress: {name} is {words!r:.80}; it must be text")
    return words.replace("\0", "").encode("utf-8", "replace")[:most].decode("utf-8", "ignore")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Session:
    """An open fenced transaction: our end of it, and the server's process at the other end."""

    driver: Any
    pid: int
    began: float


@dataclass(slots=True, kw_only=True, eq=False)
class HeldLease:
    """A lease this process holds: shared by the job's loop and the heartbeat's thread.

    All times are `monotonic()` seconds. `deadline` is when this worker stops on its own: the
    clock read before the last successful renewal was sent, plus lease, minus margin. Attributes
    are single values, read and written atomically under the GIL.
    """

    lease: Lease
    job: ClaimedJob
    deadline: float
    checkpoint_no: int
    charged_attempts: int
    guards: Guards = field(default_factory=Guards)
    queue_seconds: float | None = None  # from due to claimed
    taken_over: bool = False
    delivery: Delivery | None = None
    inputs: "asyncio.Future[Mapping[JobId, Input]] | None" = None  # read for all of its claim
    received_at: float = 0.0
    visible_set_at: float = 0.0
    hard_deadline: float = float("inf")
    in_transaction: bool = False
    committing: bool = False
    completed: bool = False
    waits: bool = False
    stopped: StopCause | None = None
    stopped_at: float = 0.0
    reason: str = ""
    progress: Progress | None = None
    pace: Pace = field(default_factory=Pace)
    children: set[int] = field(default_factory=set)
    drivers: set[Any] = field(default_factory=set)
    session: Session | None = None
    on_stop: Callable[[], None] | None = None
    on_spawned: Callable[[], None] | None = None

    def stop(self, cause: StopCause, reason: str) -> None:
        """Stop the job, once: kill its children, then cancel its task on its own loop.

        Safe from any thread. What the job has not committed it will not commit.
        """
        if self.stopped is not None:
            return
        self.stopped, self.reason, self.stopped_at = cause, reason, monotonic()
        SELF_FENCES.labels(cause).inc()
        self.kill_children()
        if self.on_stop is not None:
            self.on_stop()

    def note_pace(self, done: int) -> None:
        """Note that the job has reported `done` just now."""
        self.pace = self.pace.noted(done, monotonic())

    def kill_children(self) -> None:
        """SIGKILL the job's child processes, those that still live."""
        for pid in tuple(self.children):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def require(self) -> None:
        """Raise LeaseLost once the lease is lost or its local deadline has passed."""
        if self.stopped is None and monotonic() >= self.deadline:
            # The heartbeat's thread did not get to run: a C call that held the GIL, a SIGSTOP.
            self.stop("expired", "the local deadline passed before it could be renewed")
        if self.stopped is not None:
            raise LeaseLost(self.lease, self.reason)


# Over rows locked in id order, skipping those that a fence or a cancel holds at this moment, so
# that one frozen COMMIT does not keep the other leases from being renewed. Always in autocommit:
# a renewal in an open transaction would make every duplicate submit wait.
RENEW_LEASES = text(f"""
    WITH mine AS (
        SELECT * FROM unnest(CAST(:ids AS uuid[]), CAST(:fences AS bigint[]),
                             CAST(:tokens AS uuid[]), CAST(:done AS bigint[]),
                             CAST(:totals AS bigint[]), CAST(:units AS text[]),
                             CAST(:messages AS text[]), CAST(:reached AS bigint[]),
                             CAST(:rates AS double precision[]),
                             CAST(:ages AS double precision[]))
               AS m (id, fence, token, done, total, unit, message, reached, rate, age)),
    locked AS MATERIALIZED (
        SELECT j.id FROM chot.jobs j JOIN mine m ON m.id = j.id
         WHERE j.fence = m.fence AND j.lease_token = m.token AND j.state = 'running'
         ORDER BY j.id FOR NO KEY UPDATE OF j SKIP LOCKED)
    UPDATE chot.jobs j
       SET lease_expires_at = clock_timestamp() + make_interval(secs => :lease),
           progress_done = CASE WHEN m.done >= coalesce(j.progress_done, 0) THEN m.done
                                ELSE j.progress_done END,
           progress_total = coalesce(m.total, j.progress_total),
           progress_unit = coalesce(m.unit, j.progress_unit),
           progress_message = CASE WHEN m.done >= coalesce(j.progress_done, 0) THEN m.message
                                   ELSE j.progress_message END,
               {pace_columns("m.reached", "m.rate", "m.age")}
      FROM locked l JOIN mine m ON m.id = l.id
     WHERE j.id = l.id AND j.fence = m.fence AND j.lease_token = m.token AND j.state = 'running'
    RETURNING j.id""")


async def renew_leases(
    conn: AsyncConnection, held: Sequence[HeldLease], lease_seconds: float
) -> set[UUID]:
    """Renew all leases in one statement; answers the job ids that were renewed.

    An id that is missing is not lost by that: its row may just be locked (read_owners tells).
    An expired lease that nobody took is renewed, too.

    Model: action renew.
    """
    progress = [each.progress for each in held]
    now = monotonic()
    paces = [each.pace.binds(now) for each in held]
    binds: dict[str, Any] = {
        "ids": [each.lease.job_id for each in held],
        "fences": [each.lease.fence for each in held],
        "tokens": [each.lease.token for each in held],
        "done": [p.done if p else None for p in progress],
        "totals": [p.total if p else None for p in progress],
        "units": [p.unit if p else None for p in progress],
        "messages": [p.message if p else None for p in progress],
        "reached": [pace["reached"] for pace in paces],
        "rates": [pace["rate"] for pace in paces],
        "ages": [pace["age"] for pace in paces],
        "lease": lease_seconds,
    }
    return set((await conn.execute(RENEW_LEASES, binds)).scalars().all())


READ_OWNERS = text("""
    SELECT id, state, fence, lease_token FROM chot.jobs WHERE id = ANY(:ids)""")


async def read_owners(conn: AsyncConnection, ids: Sequence[UUID]) -> dict[UUID, Any]:
    """Who owns these jobs now; a plain read that waits for nobody."""
    return {row.id: row for row in await conn.execute(READ_OWNERS, {"ids": list(ids)})}


def _set_progress(value: Callable[[str, str], str]) -> str:
    """The SET that stores a report; `value` is where a parameter of a type comes from.

    The larger done wins, wherever it came from: a heartbeat may carry an older report.
    """
    done, message = value("done", "bigint"), value("message", "text")
    pace = pace_columns(
        value("reached", "bigint"),
        value("rate", "double precision"),
        value("age", "double precision"),
    )
    return f"""progress_done = greatest(j.progress_done, {done}),
               progress_total = coalesce({value("total", "bigint")}, j.progress_total),
               progress_unit = coalesce({value("unit", "text")}, j.progress_unit),
               progress_message = CASE
                   WHEN {done} >= coalesce(j.progress_done, 0)
                   THEN {message} ELSE j.progress_message END,
               {pace}"""


SET_PROGRESS = _set_progress(lambda name, type_: f"CAST(:{name} AS {type_})")
# The same of many jobs: of their rows `m`.
SET_PROGRESS_OF_MANY = _set_progress(lambda name, _: f"m.{name}")

# The fence: the last statement before COMMIT. It compares no expiry: whoever holds fence and
# token is the owner until someone else has claimed.
HOLD_FENCE = text(f"""
    WITH held AS (
        UPDATE chot.jobs j
           SET checkpoint_no = j.checkpoint_no + 1,
               {SET_PROGRESS}
         WHERE j.id = :job_id AND j.fence = :fence AND j.lease_token = :token
           AND j.state = 'running' AND j.checkpoint_no = :checkpoint_no
        RETURNING j.id, j.fence, j.checkpoint_no),
    noted AS (
        UPDATE chot.attempts a SET checkpoint_no = held.checkpoint_no
          FROM held WHERE a.job_id = held.id AND a.fence = held.fence),
    kept AS (
        INSERT INTO chot.job_outputs (job_id, checkpoint)
        SELECT id, CAST(:checkpoint AS jsonb) FROM held WHERE CAST(:checkpoint AS jsonb) IS NOT NULL
        ON CONFLICT (job_id) DO UPDATE SET checkpoint = excluded.checkpoint)
    SELECT checkpoint_no FROM held""")


def progress_binds(held: HeldLease, progress: Progress | None) -> dict[str, Any]:
    """The parameters of SET_PROGRESS; a commit's own report counts in the pace it stores."""
    now = monotonic()
    pace = held.pace if progress is None else held.pace.noted(progress.done, now)
    return pace.binds(now) | {
        "done": progress.done if progress else None,
        "total": progress.total if progress else None,
        "unit": progress.unit if progress else None,
        "message": progress.message if progress else None,
    }


async def hold_fence(
    conn: AsyncConnection, held: HeldLease, checkpoint: str | None, progress: Progress | None
) -> bool:
    """Lock the job as ours for this commit and count the checkpoint; False means: roll back.

    Model: action lose_lease.
    """
    binds = {
        "job_id": held.lease.job_id,
        "fence": held.lease.fence,
        "token": held.lease.token,
        "checkpoint_no": held.checkpoint_no,
        "checkpoint": checkpoint,
    } | progress_binds(held, progress)
    return (await conn.execute(HOLD_FENCE, binds)).one_or_none() is not None


LOCK_JOB = text("SELECT 1 FROM chot.jobs WHERE id = :job_id FOR NO KEY UPDATE")
READ_ATTEMPT = text("""
    SELECT checkpoint_no, outcome FROM chot.attempts
     WHERE job_id = :job_id AND fence = :fence AND lease_token = :token""")


async def settle_doubt(conn: AsyncConnection, lease: Lease) -> tuple[int, str | None] | None:
    """After a COMMIT whose answer was lost: checkpoint_no and outcome that our attempt reached.

    Locks the job row first, so that a commit still on its way is waited for; what it wrote is
    then seen by a new statement. None when no such attempt exists. Needs an open transaction.

    Model: action settle.
    """
    binds = {"job_id": lease.job_id, "fence": lease.fence, "token": lease.token}
    await conn.execute(LOCK_JOB, {"job_id": lease.job_id})
    row = (await conn.execute(READ_ATTEMPT, binds)).one_or_none()
    return None if row is None else (row.checkpoint_no, row.outcome)


def cancel_on(
    loop: asyncio.AbstractEventLoop,
    held: HeldLease,
    task: "asyncio.Task[Any]",
    stopped: "asyncio.Future[None]",
) -> Callable[[], None]:
    """How another thread cancels a job's task on `loop`, and wakes the one that waits for it.

    Its database connections are cut first: a cancelled statement waits for the server to answer,
    and a server that does not answer is one of the reasons to stop.
    """

    def cancel() -> None:
        for driver in tuple(held.drivers):
            driver.terminate()
        task.cancel()
        if not stopped.done():
            stopped.set_result(None)

    def from_anywhere() -> None:
        with suppress(RuntimeError):  # the loop is closed: nothing is left to cancel
            loop.call_soon_threadsafe(cancel)

    return from_anywhere
