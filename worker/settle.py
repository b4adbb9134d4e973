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
from shared.jobs.states import (
    CLAIMABLE,
    KNOWN_TO_A_LIVE_WORKER,
    KNOWS_KIND,
    LIVE_WORKERS,
    LOST_LEASES,
    RUNS_ALONE_AFTER,
)
from shared.sqs import Delivery
from shared.types import JobId, WorkerId
from worker.claim import Claimant

MISSES = 3
FIRST_PUT_OFF_SECONDS = 30
UNKNOWN_JOB_SECONDS = 5
UNKNOWN_JOB_RECEIVES = 4
LONGEST_PUT_OFF_SECONDS = 900
# What this worker does not know and another one does, as in a deployment, is handed back for a
# moment: that one polls too. After so many receives it gets a new message, so that SQS's own count
# never nears its dead-letter queue.
HANDED_BACK = 10
LONGEST_HAND_BACK_SECONDS = 4
FULL_SECONDS = 15  # no slot of theirs is free: as long again at each receive

READ_MISSED = text(f"""
    SELECT j.id, j.state, j.queue, j.kind, j.payload_version,
           extract(epoch FROM j.lease_expires_at - clock_timestamp())::double precision
               AS lease_left,
           {CLAIMABLE} AS claimable, NOT {BELOW_LIMITS} AS at_limit,
           {LOST_LEASES} >= {RUNS_ALONE_AFTER} AS alone,
           j.lock_roots IS NOT NULL AS has_locks, {WAITS} AS waits,
           {KNOWN_TO_A_LIVE_WORKER} AS known,
           EXISTS (SELECT FROM {LIVE_WORKERS} AND w.state <> 'draining' AND wq.free_slots > 0
                      AND {KNOWS_KIND}) AS wanted
      FROM chot.jobs j WHERE j.id = ANY(:ids)
    UNION ALL
    SELECT a.id, a.job ->> 'state', a.job ->> 'queue', a.job ->> 'kind',
           (a.job ->> 'payload_version')::integer, NULL, false, false, false,
           false, false, false, false
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
class HandBack:
    """Hide the message for a moment: another worker has a free slot for its job and polls, too.

    It goes on counting in the queue's window, so that no more of the kind are sent meanwhile.
    """

    seconds: int
    why: str
    reason: str = "unknown_kind"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimAgain:
    """The job looked claimable: its row was locked for a moment. Claim it alone, and wait.

    With business locks it is claimed alone in any case; not won, it is settled once more.
    """

    locked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StageAgain:
    """It gets a new message, which waits in the outbox until it is its turn.

    As where one of its limits is reached: then until a job of that has ended.
    """

    reason: str = "limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAlone:
    """The job may only run with no neighbours."""

    queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bury:
    """Keep the message as a dead one."""

    reason: str


Settlement = Delete | PutOff | HandBack | ClaimAgain | StageAgain | RunAlone | Bury


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
        return _for_another(delivery, row)
    return _once_more(row, refused=refused)


def _for_another(delivery: Delivery, row: Any) -> Delete | PutOff | HandBack | StageAgain:
    """Of a job of a newer version, or of another team: how soon somebody else may have it."""
    said, receives = "this worker does not know the kind or version", delivery.receive_count
    if not row.known:
        return _later(delivery, 0, said, "unknown_kind")
    if row.wanted and receives < HANDED_BACK:
        seconds = random.randint(1, min(LONGEST_HAND_BACK_SECONDS, 1 + receives))
        return HandBack(seconds=seconds, why=f"{said}, another does")
    if row.wanted or receives >= MISSES:
        return StageAgain(reason="unknown_kind")
    seconds = round(FULL_SECONDS * receives * random.uniform(1.0, 1.2))
    return PutOff(seconds=seconds, why=f"{said}, who does is full", reason="unknown_kind")


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
        case Delete() | PutOff() | HandBack() | StageAgain():
            return settlement.reason
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
