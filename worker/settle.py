"""Settle: what becomes of a delivery whose job could not be claimed. Cheap, and never a loss."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, assert_never

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.jobs.limits import BELOW_LIMITS
from shared.jobs.locks import WAITS
from shared.jobs.staging import NO_MESSAGE_WAITS
from shared.jobs.states import CLAIMABLE, LOST_LEASES, RUNS_ALONE_AFTER
from shared.sqs import Delivery
from shared.types import JobId, WorkerId
from worker.claim import Claimant

MISSES = 3
FIRST_PUT_OFF_SECONDS = 30
UNKNOWN_JOB_SECONDS = 5
UNKNOWN_JOB_RECEIVES = 4
LONGEST_PUT_OFF_SECONDS = 900

READ_MISSED = text(f"""
    SELECT j.id, j.state, j.queue, j.kind, j.payload_version,
           extract(epoch FROM j.lease_expires_at - clock_timestamp())::double precision
               AS lease_left,
           {CLAIMABLE} AS claimable, NOT {BELOW_LIMITS} AS at_limit,
           {LOST_LEASES} >= {RUNS_ALONE_AFTER} AS alone,
           j.lock_roots IS NOT NULL AS has_locks, {WAITS} AS waits
      FROM chot.jobs j WHERE j.id = ANY(:ids)
    UNION ALL
    SELECT a.id, a.job ->> 'state', a.job ->> 'queue', a.job ->> 'kind',
           (a.job ->> 'payload_version')::integer, NULL, false, false, false,
           false, false
      FROM chot.archived_jobs a WHERE a.id = ANY(:ids)""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Nothing depends on this message any more. `reason` is `why` in one of the metric's words."""

    why: str
    reason: str = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class PutOff:
    """Hide the message for so long; it comes back by itself."""

    seconds: int
    why: str
    reason: str = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimAgain:
    """The job looked claimable: its row was locked for a moment. Claim it alone, and wait.

    With business locks it is claimed alone in any case; not won, it is settled once more.
    """

    locked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StageAgain:
    """One of its limits is reached: its message waits in the outbox until a job of it has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAlone:
    """The job may only run with no neighbours."""

    queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bury:
    """Keep the message as a dead one."""

    reason: str


Settlement = Delete | PutOff | ClaimAgain | StageAgain | RunAlone | Bury


async def read_missed(
    conn: AsyncConnection, ids: list[JobId], worker_id: WorkerId
) -> Mapping[JobId, Any]:
    """The missed jobs as they are now, archived ones included: a message may be older.

    What runs is judged for this worker: a place that it has reserved itself is not taken.
    """
    binds = {"ids": ids, "worker_id": worker_id}
    return {row.id: row for row in await conn.execute(READ_MISSED, binds)}


# The relay sends it when its limits have room; one message that waits is enough.
STAGE_AGAIN = text(f"""
    INSERT INTO chot.outbox (job_id, queue, kind, company, brand, trace, priority, next_send_at)
    SELECT j.id, j.queue, j.kind, j.company, j.brand, j.trace, j.priority, j.available_at
      FROM chot.jobs j
     WHERE j.id = :job_id AND j.state = 'pending'
       AND {NO_MESSAGE_WAITS}""")


async def stage_again(conn: AsyncConnection, job_id: JobId) -> None:
    """Stage a message for a job that waits for a limit; its delivery may be deleted then."""
    await conn.execute(STAGE_AGAIN, {"job_id": job_id})


def settle(
    delivery: Delivery, row: Any | None, claimant: Claimant, *, refused: bool = False
) -> Settlement:
    """Decide by the job's state, never by SQS; see design, Outbox and relay: a claim miss.

    `refused`: a claim that looks at locks was not won. Such a job is put off at once where its row
    was merely held, deleted where it waits for a lock.

    Model: actions miss_delete, put_off.
    """
    if row is None:
        if delivery.receive_count < UNKNOWN_JOB_RECEIVES:
            # Its transaction may just not be visible yet, on a replica that became the writer.
            return PutOff(seconds=UNKNOWN_JOB_SECONDS, why="unknown job", reason="unknown_job")
        return Bury(reason="no job has this id")
    if row.state in {"succeeded", "cancelled", "dead"}:
        return Delete(why=f"the job is {row.state}", reason="ended")
    if row.state == "running" and row.lease_left > 0:
        return _later(delivery, row.lease_left, "the job runs under a live lease", "running")
    kind = claimant.kinds.get(row.kind)
    if kind is None or row.payload_version > kind.version:
        said = "this worker does not know the kind or version"
        return _later(delivery, 0, said, "unknown_kind")
    return _once_more(row, refused=refused)


def _once_more(row: Any, *, refused: bool) -> Settlement:
    """Of a job that this worker could run: why it was not claimed, and how it may be after all."""
    if row.state == "pending" and not row.claimable:
        said = "not due or blocked: staged again when that ends"
        return Delete(why=said, reason="blocked")
    if row.at_limit:
        return StageAgain()
    if row.has_locks and not refused:
        return ClaimAgain(locked=True)
    if row.waits:
        return Delete(why="waits for a lock: staged by whoever frees it", reason="lock")
    if row.alone:
        return RunAlone(queue=row.queue)
    return ClaimAgain()


def reason_of(settlement: Settlement) -> str:
    """Why the claim was missed, in one of the words of worker.signals.MISS_REASONS."""
    match settlement:
        case Delete() | PutOff():
            return settlement.reason
        case StageAgain():
            return "limit"
        case RunAlone():
            return "alone"
        case Bury():
            return "unknown_job"
        case ClaimAgain():
            return "busy"
    assert_never(settlement)


def _later(delivery: Delivery, at_least: float, why: str, reason: str) -> Delete | PutOff:
    """Put off for longer each time; at the third miss the reconciler is trusted instead."""
    if delivery.receive_count >= MISSES:
        return Delete(why=why, reason=reason)
    seconds = put_off_seconds(delivery.receive_count, at_least)
    return PutOff(seconds=seconds, why=why, reason=reason)


def put_off_seconds(receives: int, at_least: float = 0.0) -> int:
    """max(what is left, 30 s × 2^receives) with jitter of a tenth, in whole seconds."""
    wait = max(at_least, FIRST_PUT_OFF_SECONDS * 2.0 ** min(receives, 6))
    return round(min(LONGEST_PUT_OFF_SECONDS, wait) * random.uniform(1.0, 1.1))
