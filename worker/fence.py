"""Fenced commit: every transaction that writes a job's effects ends with the fence.

Effects, checkpoint and fence are one commit, and so are effects, result and completion. When the
COMMIT's answer is lost, nothing is repeated or assumed: settle_doubt() asks the database.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from time import monotonic
from typing import Any
from uuid import UUID

from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.database import (
    CONFLICTS,
    connected,
    driver_connection,
    is_unreachable,
    set_limits,
    sqlstate_of,
    transaction,
    undo_session,
)
from shared.errors import Conflict, LeaseLost, PermanentError
from shared.exact_json import dump_exact
from shared.groups.progress import tell_join
from shared.jobs.guards import Guards, lock_guards
from shared.logs import log
from shared.outages import answered_within
from shared.settings import LeaseTiming
from shared.telling import told
from worker.lease import HeldLease, Progress, Session, hold_fence, progress_of, settle_doubt
from worker.outcome import complete_job
from worker.signals import FENCE_REJECTIONS
from worker.spawn import Spawn, carry_out
from worker.waiting import wait_for_group

DOUBT_ROUND_SECONDS = 0.5


@dataclass(slots=True, kw_only=True)
class FencedTransaction:
    """An open transaction of a job. Write effects through `connection`.

    `checkpoint` (a JSON object ≤ 64 KiB) is what the next attempt starts from; `result` (JSON
    ≤ 1 MiB) is for completion() only.
    """

    connection: AsyncConnection
    checkpoint: dict[str, Any] | None = None
    result: Any = None
    _completes: bool = False
    _progress: Progress | None = field(default=None, init=False)
    _of_join: Progress | None = field(default=None, init=False)
    _spawns: list[Spawn] = field(default_factory=list, init=False)

    def progress(
        self, done: int, total: int | None = None, *, unit: str = "", message: str = ""
    ) -> None:
        """Report progress that becomes visible with this commit."""
        self._progress = progress_of(done, total, unit, message)

    def join_progress(
        self, done: int, total: int | None = None, *, unit: str = "", message: str = ""
    ) -> None:
        """Report how far all members are, with the job that waits for the group of this one.

        One report may be passed over for another's: say what is true of all, whoever says it.
        """
        self._of_join = progress_of(done, total, unit, message)

    @property
    def _waits(self) -> UUID | None:
        """The group that the job waits for from this commit on."""
        return next((spawn.group_id for spawn in self._spawns if spawn.waits), None)


@asynccontextmanager
async def fenced_transaction(
    engine: AsyncEngine, held: HeldLease, timing: LeaseTiming, *, completes: bool
) -> AsyncIterator[FencedTransaction]:
    """Commit the body only while the lease is ours; else roll back and raise LeaseLost.

    At READ COMMITTED, whatever the engine would do: at any higher level a renewal since the
    snapshot makes the fence fail for ever, and in autocommit nothing could be rolled back.

    Model: actions commit_chunk, doubt_committed, doubt_rolled_back, finish_commit.
    """
    held.require()
    if held.in_transaction or held.completed:
        raise RuntimeError("one open fenced transaction per lease, and none after completion")
    held.in_transaction = True
    try:
        async with connected(engine, held.drivers, strangers=True) as conn:
            # On the connection: what is set on an engine yields to what that engine was made with.
            await conn.execution_options(isolation_level="READ COMMITTED")
            async with answered_within(timing.statement):
                pid = await set_limits(
                    conn, lock_timeout=timing.lock_timeout, idle_timeout=timing.idle_in_transaction
                )
            driver = await driver_connection(conn)
            held.session = Session(driver=driver, pid=pid, began=monotonic())
            tx = FencedTransaction(connection=conn, _completes=completes)
            yield tx
            held.require()
            held.committing = True
            await _fence(conn, held, timing, tx)
            held.waits = tx._waits is not None  # noqa: SLF001 - its other half
            await _commit(conn, engine, held, timing, completes=completes or held.waits)
            if tx._spawns and held.on_spawned is not None:  # noqa: SLF001
                held.on_spawned()
            if tx._progress is not None:  # noqa: SLF001 - its other half
                held.note_pace(tx._progress.done)  # noqa: SLF001
    except DBAPIError as error:
        if sqlstate_of(error) in CONFLICTS:
            raise Conflict(f"locks could not be had: {error.orig}") from error
        if held.stopped is not None:
            raise LeaseLost(held.lease, held.reason) from error
        raise
    finally:
        held.in_transaction = held.committing = False
        held.session = None


async def _fence(
    conn: AsyncConnection, held: HeldLease, timing: LeaseTiming, tx: FencedTransaction
) -> None:
    """Undo the handler's session, write what the job has spawned, then the fence.

    LeaseLost unless exactly our row was hit.
    """
    await driver_connection(conn)  # asserts that the driver is in a transaction
    await undo_session(
        conn, lock_timeout=timing.lock_timeout, idle_timeout=timing.idle_in_transaction
    )
    completes, waits = tx._completes, tx._waits  # noqa: SLF001 - its other half
    if tx._spawns:  # noqa: SLF001
        guards = held.guards if completes or waits is not None else Guards()
        await carry_out(conn, held.job, tx._spawns, guards)  # noqa: SLF001
    if tx._of_join is not None and held.job.group_id is not None:  # noqa: SLF001
        # Guards come before any job's row.
        await lock_guards(conn, held.guards if completes else Guards())
        await tell_join(conn, held.job.group_id, asdict(tx._of_join))  # noqa: SLF001
    progress = tx._progress or held.progress  # noqa: SLF001
    what, most = ("result", "1 MiB") if completes else ("checkpoint", "64 KiB")
    try:
        if completes:
            won = await complete_job(conn, held, _json(tx.result, what), progress)
        else:
            if not isinstance(tx.checkpoint, dict | None):
                raise _not_storable(what, f"is {tx.checkpoint!r:.80}; it must be a JSON object")
            checkpoint = _json(tx.checkpoint, what)
            if waits is None:
                won = await hold_fence(conn, held, checkpoint, progress)
            else:
                won = await wait_for_group(conn, held, waits, checkpoint, progress)
    except IntegrityError as error:
        if sqlstate_of(error) != "23514":
            raise
        # The one CHECK a handler can reach here is that on size, and it would reach it again.
        raise _not_storable(what, f"is larger than {most}") from error
    if not won:
        FENCE_REJECTIONS.labels("commit").inc()
        raise LeaseLost(held.lease, "the fence found another owner, state or checkpoint")


def _json(value: Any, what: str) -> str | None:
    if value is None:
        return None
    try:
        return dump_exact(value)
    except ValueError as error:
        raise _not_storable(what, str(error)) from error


def _not_storable(what: str, why: str) -> PermanentError:
    return PermanentError(f"{what} {why}", code=f"{what.upper()}_NOT_STORABLE")


async def _commit(
    conn: AsyncConnection,
    engine: AsyncEngine,
    held: HeldLease,
    timing: LeaseTiming,
    *,
    completes: bool,
) -> None:
    """COMMIT; when its answer is lost, find out. Returns only when it is known to be committed."""
    committing = asyncio.ensure_future(AsyncConnection.commit(conn))
    try:
        await asyncio.shield(committing)
    except asyncio.CancelledError:
        # In doubt. The commit may still end well; a stop has cut its connection already.
        if await _ends(committing, timing.margin) or await _was_committed(engine, held, timing):
            _mark(held, completes=completes)
        raise
    except (DBAPIError, OSError) as error:
        if not is_unreachable(error):
            raise
        log.warning("commit.in_doubt", job_id=str(held.lease.job_id), error=told(error))
        if not await _was_committed(engine, held, timing):
            raise
    _mark(held, completes=completes)


def _mark(held: HeldLease, *, completes: bool) -> None:
    held.checkpoint_no += 1
    held.completed = completes


async def _ends(task: "asyncio.Future[None]", seconds: float) -> bool:
    """True when the commit answered well within the time; a later failure of it is not missed."""
    done, _ = await asyncio.wait({task}, timeout=seconds)
    if not done:
        task.add_done_callback(_look_at)
        task.cancel()
        return False
    return task.exception() is None


def _look_at(task: "asyncio.Future[None]") -> None:
    """Nobody waits for it any more; unseen, its error would be shouted into the log."""
    if not task.cancelled():
        task.exception()


async def _was_committed(engine: AsyncEngine, held: HeldLease, timing: LeaseTiming) -> bool:
    """Ask the database until it answers or the lease is surely somebody else's business."""
    until = max(held.deadline, monotonic()) + timing.margin
    while monotonic() < until:
        try:
            async with (
                asyncio.timeout(timing.heartbeat),
                transaction(
                    engine,
                    lock_timeout=timing.lock_timeout,
                    idle_timeout=timing.idle_in_transaction,
                ) as conn,
            ):
                found = await settle_doubt(conn, held.lease)
                # A COMMIT of this one could freeze, too: it has locked a row.
                await conn.rollback()
            return found is not None and (found[0] > held.checkpoint_no)
        except (DBAPIError, OSError) as error:  # TimeoutError is an OSError
            log.warning("commit.still_in_doubt", error=told(error))
            await asyncio.sleep(DOUBT_ROUND_SECONDS)
    raise LeaseLost(held.lease, "a commit is in doubt and the database does not answer")
