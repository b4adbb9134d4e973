"""Claim: the one statement that turns a delivery into the right to run a job."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import TextClause, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.database import CONFLICTS, connected, is_unreachable, set_limits, sqlstate_of
from shared.jobs.guards import LOCK_ROOTS, guards_of
from shared.jobs.limits import BELOW_LIMITS, HAS_NO_LIMIT, LOCK_LIMITS
from shared.jobs.locks import (
    LOCK_LOCKED,
    MAKE_ROOTS,
    READ_ROOTS,
    REGISTER,
    UNLOCKED,
    unregistered,
)
from shared.jobs.states import (
    ATTEMPTS_LEFT_AFTER_LOSS,
    CHARGED,
    CLAIMABLE,
    LOST_LEASES,
    RUNS_ALONE_AFTER,
)
from shared.kinds import Kind
from shared.logs import log
from shared.settings import LeaseTiming
from shared.telling import told
from shared.types import ClaimedJob, Fence, JobId, Lease, LeaseToken, WorkerId
from worker.lease import HeldLease, Input

# Both arms: pending and due, or running under a lease that ran out by the database's clock.
MAY_BE_CLAIMED = f"""
       (   (j.state = 'pending' AND {CLAIMABLE})
        OR (j.state = 'running' AND j.lease_expires_at <= clock_timestamp()))
   AND {ATTEMPTS_LEFT_AFTER_LOSS}
   AND (j.kind, j.payload_version) IN (
           SELECT * FROM unnest(CAST(:kinds AS text[]), CAST(:versions AS integer[])))
   AND ({LOST_LEASES} < {RUNS_ALONE_AFTER} OR EXISTS (
           SELECT FROM chot.queues aq WHERE aq.name = j.queue
              AND aq.alone_worker = :worker_id AND aq.alone_until > clock_timestamp()))"""


# Over `j` and `l`: from due to claimed. What was taken over was not due, and a join has waited for
# others.
WAITED = """CASE WHEN NOT l.taken_over AND j.joins IS NULL
                 THEN extract(epoch FROM clock_timestamp() - j.available_at)::double precision
            END"""
HAS_NO_LOCKS = "j.lock_roots IS NULL"


def _claim_statement(lock: str, limit: str, also: str = "") -> TextClause:
    also = also and f"{also},"
    return text(f"""
    WITH wanted AS (
        SELECT * FROM unnest(CAST(:ids AS uuid[]), CAST(:tokens AS uuid[])) AS w (id, token)),
    locked AS MATERIALIZED (
        SELECT j.id, j.state = 'running' AS taken_over FROM chot.jobs j
         WHERE j.id = ANY(CAST(:ids AS uuid[])) AND {MAY_BE_CLAIMED} AND {limit}
         ORDER BY j.id FOR NO KEY UPDATE OF j {lock}),
    claimed AS (
        UPDATE chot.jobs j
           SET state = 'running', fence = j.fence + 1, attempt = j.attempt + 1,
               lost_leases = {LOST_LEASES}, lease_token = w.token, worker_id = :worker_id,
               lease_expires_at = clock_timestamp() + make_interval(secs => :lease),
               blocked_by = NULL, publishes = 0, code_version = :code_version,
               started_at = coalesce(j.started_at, clock_timestamp())
          FROM locked l JOIN wanted w ON w.id = l.id
         WHERE j.id = l.id AND {MAY_BE_CLAIMED}
        RETURNING j.*, {WAITED} AS queue_seconds, l.taken_over),
    {also}
    closed AS (
        UPDATE chot.attempts a SET outcome = 'lost_lease', ended_at = clock_timestamp()
          FROM claimed c
         WHERE a.job_id = c.id AND a.fence = c.fence - 1 AND a.outcome IS NULL),
    opened AS (
        INSERT INTO chot.attempts (job_id, fence, attempt, worker_id, lease_token, code_version,
                                   claimed_checkpoint_no, checkpoint_no, queue_seconds)
        SELECT id, fence, attempt, worker_id, lease_token, :code_version, checkpoint_no,
               checkpoint_no, queue_seconds FROM claimed)
    SELECT j.id, j.kind, j.company, j.brand, j.queue, j.payload_version, j.attempt, j.max_attempts,
           j.principal, j.trace, j.created_at, j.fence, j.lease_token, j.checkpoint_no,
           j.lock_roots, j.group_id, j.joins, {CHARGED} AS charged, j.queue_seconds,
           j.taken_over FROM claimed j""")


# A batch passes over rows that others hold: one frozen row must not keep nine others waiting.
CLAIM_JOBS = _claim_statement(
    "SKIP LOCKED", f"{HAS_NO_LIMIT} AND {HAS_NO_LOCKS} AND j.joins IS NULL"
)
# One job alone waits for whoever holds it, up to the lock timeout, and then judges it anew.
CLAIM_ONE = _claim_statement("", f"{BELOW_LIMITS} AND {HAS_NO_LOCKS}")
# Who holds the lock of a whole limit waits for no job: one frozen row must not hold all others.
CLAIM_LIMITED = _claim_statement("SKIP LOCKED", f"{BELOW_LIMITS} AND {HAS_NO_LOCKS}")
# With business locks, its roots and its own row locked by statements before. A lease that ran out
# is taken over in any case: the job has held its locks all the time.
CLAIM_LOCKED = _claim_statement(
    "SKIP LOCKED",
    f"{BELOW_LIMITS} AND (j.state = 'running' OR {UNLOCKED})",
    unregistered("claimed"),
)

# Whoever gives the group something to do again holds its row: a join that starts has seen the end.
LOCK_JOINED = text("""
    SELECT g.id FROM chot.groups g
     WHERE g.id = (SELECT j.joins FROM chot.jobs j WHERE j.id = ANY(:ids))
     ORDER BY g.id FOR NO KEY UPDATE""")

# A merge may change what a job locks while it is being claimed: then it is looked at anew.
LOOKS = 5
# Who shares a read waits no longer for it: its connection may be half-open.
SHARED_READ_SECONDS = 2.0

FIND_CLAIMS = text(f"""
    SELECT j.id, j.kind, j.company, j.brand, j.queue, j.payload_version, j.attempt, j.max_attempts,
           j.principal, j.trace, j.created_at, j.fence, j.lease_token, j.checkpoint_no,
           j.lock_roots, j.group_id, j.joins, {CHARGED} AS charged,
           NULL::double precision AS queue_seconds, false AS taken_over
      FROM chot.jobs j
     WHERE j.id = ANY(:ids) AND j.lease_token = ANY(:tokens) AND j.state = 'running'""")
LOCK_JOBS = text("""
    SELECT id FROM chot.jobs WHERE id = ANY(:ids) ORDER BY id FOR NO KEY UPDATE""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """Who claims: this worker, and the (kind, payload version) pairs that it knows."""

    worker_id: WorkerId
    code_version: str
    kinds: Mapping[str, Kind]
    timing: LeaseTiming

    def binds(self) -> dict[str, Any]:
        """The parameters of a claim that do not depend on the job."""
        pairs = [(k.name, v) for k in self.kinds.values() for v in range(1, k.version + 1)]
        return {
            "worker_id": self.worker_id,
            "code_version": self.code_version,
            "lease": self.timing.lease,
            "kinds": [kind for kind, _ in pairs],
            "versions": [version for _, version in pairs],
        }


async def claim_jobs(
    engine: AsyncEngine,
    claimant: Claimant,
    ids: Sequence[JobId],
    *,
    wait: bool = False,
    locked: bool = False,
) -> list[HeldLease]:
    """Claim what may be claimed of `ids`; a job that is missing in the answer was not won.

    One row is won by one claimant, whatever the race. `engine` must be in autocommit. With
    `wait` (for a single id) a locked row is waited for; only so is a job claimed of which no more
    than a maximum may run, that joins a group, or that has business locks: not won for these, it
    is registered as a waiter, to be staged by whoever frees them. `locked`: it is known to have
    some. A claim whose answer was lost is found again by the tokens that were made here, and
    adopted.

    Model: action claim.
    """
    assert not wait or len(ids) == 1, "only a single claim may wait for a locked row"
    distinct = sorted(set(ids))
    tokens = [uuid4() for _ in distinct]
    sent_at = monotonic()
    binds = claimant.binds() | {"ids": distinct, "tokens": tokens}
    try:
        way = (_claim_knowing_locks if locked else _claim_one) if wait else _claim_batch
        rows = await way(engine, claimant.timing, binds)
    except DBAPIError as error:
        if not is_unreachable(error):
            raise
        log.warning("claim.in_doubt", error=told(error), jobs=len(distinct))
        rows = await find_claims(engine, distinct, tokens, claimant.timing)
    return [_held(row, sent_at, claimant.timing) for row in rows]


async def _claim_batch(
    engine: AsyncEngine, _: LeaseTiming, binds: Mapping[str, Any]
) -> Sequence[Any]:
    async with engine.connect() as conn:
        return (await conn.execute(CLAIM_JOBS, binds)).all()


async def _claim_one(
    engine: AsyncEngine, timing: LeaseTiming, binds: Mapping[str, Any]
) -> Sequence[Any]:
    async with engine.connect() as conn:
        # On the connection: the engine itself is in autocommit, where no lock would be held.
        await conn.execution_options(isolation_level="READ COMMITTED")
        await set_limits(
            conn, lock_timeout=timing.lock_timeout, idle_timeout=timing.idle_in_transaction
        )
        await conn.execute(LOCK_JOINED, {"ids": binds["ids"]})
        limited = bool(await conn.scalar(LOCK_LIMITS, {"ids": binds["ids"]}))
        rows = (await conn.execute(CLAIM_LIMITED if limited else CLAIM_ONE, binds)).all()
        await conn.commit()
        return rows or await _claim_under_locks(conn, timing, binds)


async def _claim_knowing_locks(
    engine: AsyncEngine, timing: LeaseTiming, binds: Mapping[str, Any]
) -> Sequence[Any]:
    async with engine.connect() as conn:
        await conn.execution_options(isolation_level="READ COMMITTED")
        return await _claim_under_locks(conn, timing, binds)


async def _claim_under_locks(
    conn: AsyncConnection, timing: LeaseTiming, binds: Mapping[str, Any]
) -> Sequence[Any]:
    """Claim the job if it has business locks; one without is passed over."""
    for _ in range(LOOKS):
        roots = (await conn.execute(READ_ROOTS, {"ids": binds["ids"]})).one_or_none()
        if roots is None:
            break
        rows = await _claim_locked(conn, timing, binds, roots)
        if rows is not None:
            return rows
    return []


async def _claim_locked(
    conn: AsyncConnection, timing: LeaseTiming, binds: Mapping[str, Any], roots: Any
) -> Sequence[Any] | None:
    """Claim a job with business locks, or register it as a waiter; None: look at it anew.

    In order: its roots, what it joins, its limits, its row. Only then, in new statements, whether
    anybody's locks are in its way. The limits come late: who waits for a root that an exit holds
    must not hold the lock of a whole company's jobs.

    Model: actions claim_root, claim_check, register.
    """
    if roots.missing:
        await conn.execute(MAKE_ROOTS, {"roots": roots.missing})
        await conn.commit()
    await set_limits(
        conn, lock_timeout=timing.lock_timeout, idle_timeout=timing.idle_in_transaction
    )
    held = (await conn.execute(LOCK_ROOTS, {"roots": roots.roots})).all()
    await conn.execute(LOCK_JOINED, {"ids": binds["ids"]})
    await conn.execute(LOCK_LIMITS, {"ids": binds["ids"]})
    row = await _locked_row(conn, binds["ids"][0])
    if row is None:
        await conn.rollback()
        return []
    if row.roots != roots.roots or len(held) < len(roots.roots):
        await conn.rollback()
        return None
    rows = (await conn.execute(CLAIM_LOCKED, binds)).all()
    if not rows:
        await conn.execute(REGISTER, {"job_id": binds["ids"][0]})
    await conn.commit()
    return rows


async def _locked_row(conn: AsyncConnection, job_id: UUID) -> Any | None:
    """The job's roots, its row locked; None when somebody has the row for more than a moment."""
    try:
        return (await conn.execute(LOCK_LOCKED, {"job_id": job_id})).one_or_none()
    except DBAPIError as error:
        if sqlstate_of(error) not in CONFLICTS:
            raise
        return None


async def find_claims(
    engine: AsyncEngine, ids: Sequence[UUID], tokens: Sequence[UUID], timing: LeaseTiming
) -> Sequence[Any]:
    """Find claims whose answer was lost; waits for a commit that is still on its way."""
    async with engine.connect() as conn:
        # On the connection: the engine itself is in autocommit, where no lock would be held.
        await conn.execution_options(isolation_level="READ COMMITTED")
        await set_limits(
            conn, lock_timeout=timing.lock_timeout, idle_timeout=timing.idle_in_transaction
        )
        await conn.execute(LOCK_JOBS, {"ids": list(ids)})
        return (await conn.execute(FIND_CLAIMS, {"ids": list(ids), "tokens": list(tokens)})).all()


def _held(row: Any, sent_at: float, timing: LeaseTiming) -> HeldLease:
    assert row.fence >= row.attempt, "the fence moves at least once an attempt"
    job = job_of(row, payload=None)
    lease = Lease(job_id=job.id, fence=Fence(row.fence), token=LeaseToken(row.lease_token))
    return HeldLease(
        lease=lease,
        job=job,
        deadline=sent_at + timing.lease - timing.margin,
        checkpoint_no=row.checkpoint_no,
        charged_attempts=row.charged,
        guards=guards_of(row),
        queue_seconds=row.queue_seconds,
        taken_over=row.taken_over,
    )


def job_of(row: Any, *, payload: Any) -> ClaimedJob:
    """The job as its handler sees it, from a row of chot.jobs and its payload read apart."""
    return ClaimedJob(
        id=JobId(row.id),
        kind=row.kind,
        company=row.company,
        brand=row.brand,
        queue=row.queue,
        payload=payload,
        payload_version=row.payload_version,
        attempt=row.attempt,
        max_attempts=row.max_attempts,
        principal=row.principal,
        trace=row.trace,
        created_at=row.created_at,
        group_id=row.group_id,
        joins=row.joins,
    )


# A new statement after the claim has committed: a claim that waited for a zombie's commit would
# itself still see the side rows as they were before.
_INPUT = """
    SELECT p.job_id, p.payload::text AS payload, o.checkpoint::text AS checkpoint
      FROM chot.job_payloads p LEFT JOIN chot.job_outputs o ON o.job_id = p.job_id"""
READ_INPUT = text(f"{_INPUT} WHERE p.job_id = :job_id")
READ_INPUTS = text(f"{_INPUT} WHERE p.job_id = ANY(CAST(:ids AS uuid[]))")


def share_inputs(engine: AsyncEngine, claimed: Sequence[HeldLease]) -> None:
    """Begin to read what all of them start from in one statement, now that they are claimed."""
    if len(claimed) < 2:
        return
    reading = asyncio.create_task(_read_inputs(engine, [held.lease.job_id for held in claimed]))
    reading.add_done_callback(_look_at)
    for held in claimed:
        held.inputs = reading


async def _read_inputs(engine: AsyncEngine, ids: Sequence[JobId]) -> Mapping[JobId, Input]:
    async with engine.connect() as conn:
        rows = await conn.execute(READ_INPUTS, {"ids": ids})
        return {JobId(row.job_id): (row.payload, row.checkpoint) for row in rows}


def _look_at(reading: "asyncio.Task[Mapping[JobId, Input]]") -> None:
    """Nobody may be left who waits for it; unseen, its error would be shouted into the log."""
    if not reading.cancelled():
        reading.exception()


async def read_input(engine: AsyncEngine, held: HeldLease) -> Input:
    """The claimed job's payload and last committed checkpoint, both as JSON text.

    Model: action read_input.
    """
    reading, held.inputs = held.inputs, None
    if reading is not None:
        with suppress(SQLAlchemyError, OSError):  # then each asks for itself
            async with asyncio.timeout(SHARED_READ_SECONDS):
                inputs = await asyncio.shield(reading)
            if (shared := inputs.get(held.lease.job_id)) is not None:
                return shared
    async with connected(engine, held.drivers) as conn:
        row = (await conn.execute(READ_INPUT, {"job_id": held.lease.job_id})).one()
    return row.payload, row.checkpoint
