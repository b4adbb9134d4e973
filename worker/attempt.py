"""Attempt: one run of one job. Anything that can happen becomes an Outcome, and is recorded."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, assert_never
from uuid import UUID
from weakref import WeakKeyDictionary

from pydantic import ValidationError
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.database import CONFLICTS, is_unreachable, sqlstate_of, transaction
from shared.errors import Conflict, LeaseLost, PermanentError, Snooze, Yield
from shared.exact_json import dump_exact, load_exact
from shared.kinds import Kind
from shared.logs import alert, log
from shared.settings import LeaseTiming
from shared.telling import told
from worker.claim import read_input
from worker.completions import Completions
from worker.context import Engines, JobContext
from worker.handlers import Handler
from worker.heartbeat import Heart
from worker.lease import HeldLease, cancel_on, settle_doubt
from worker.outcome import (
    Completed,
    Failed,
    Lost,
    Outcome,
    Released,
    Succeeded,
    Waits,
    complete_job,
    fail_job,
    release_job,
)
from worker.retry import is_permanent, retry_delay
from worker.signals import FENCE_REJECTIONS
from worker.telling import Tell, kind_of_end, telling

CONFLICT_DELAY_SECONDS = 1.0
OUTAGE_DELAY_SECONDS = 2.0
RECORD_AGAIN_SECONDS = 0.5
# As chot.attempts names them.
NAMES = {Succeeded: "succeeded", Failed: "failed", Released: "released"}
_RELEASED: "WeakKeyDictionary[asyncio.Event, asyncio.Task[Any]]" = WeakKeyDictionary()


class Stuck(Exception):
    """A handler did not end when it was cancelled: its `outcome` is stored, its slot is gone."""

    def __init__(self, words: str, outcome: Outcome) -> None:
        super().__init__(words)
        self.outcome = outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """Everything an attempt needs of its worker."""

    engines: Engines
    timing: LeaseTiming
    kinds: Mapping[str, Kind]
    handlers: Mapping[str, Handler]
    heart: Heart
    draining: asyncio.Event  # stop receiving; handlers reach a checkpoint
    releasing: asyncio.Event  # the drain's time is over: what still runs is handed back
    kill_grace_seconds: float
    completions: Completions | None = None  # without, each job is completed by itself


async def run_attempt(runner: Runner, held: HeldLease) -> Outcome:
    """Run the claimed job to an outcome that is stored (or known to be lost), and return it.

    The heartbeat keeps lease and visibility alive until the outcome is stored. Raises Stuck when
    the handler ignores its cancellation: the worker must end, the fence keeps it harmless.
    """
    with telling(held) as tell:
        return await _run(runner, held, tell)


async def _run(runner: Runner, held: HeldLease, tell: Tell) -> Outcome:
    began = monotonic()
    kind = runner.kinds[held.job.kind]
    held.hard_deadline = began + kind.timeout.total_seconds() + 2 * runner.kill_grace_seconds
    task = asyncio.create_task(_handle(runner, held), name=f"job {held.lease.job_id}")
    stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    held.on_stop = cancel_on(asyncio.get_running_loop(), held, task, stopped)
    runner.heart.add(held)
    try:
        outcome = await _await_handler(runner, held, task, stopped, kind)
        held.on_stop = None
        outcome = await _record(runner, held, outcome)
    finally:
        runner.heart.remove(held)
        held.kill_children()
    tell(outcome)
    if not task.done():
        words = f"job {held.lease.job_id} ({held.job.kind}) ignores its cancellation"
        raise Stuck(words, outcome)
    return outcome


async def _handle(runner: Runner, held: HeldLease) -> Any:
    """Read the input, then run the handler; whatever it opened is closed again."""
    handler, kind = runner.handlers[held.job.kind], runner.kinds[held.job.kind]
    raw, checkpoint = await read_input(runner.engines.auto, held)
    try:
        payload = kind.payload.model_validate_json(raw)
    except ValidationError as error:
        problems = [
            {"field": ".".join(str(part) for part in item["loc"]), "rule": item["msg"]}
            for item in error.errors(include_url=False, include_input=False)
        ]
        raise PermanentError(
            f"the payload is not one of {kind.name} version {kind.version}",
            code="PAYLOAD_INVALID",
            details={"errors": problems[:20]},
        ) from None
    context = JobContext(
        job=replace(held.job, payload=load_exact(raw)),
        checkpoint=None if checkpoint is None else load_exact(checkpoint),
        _held=held,
        _engines=runner.engines,
        _timing=runner.timing,
        _draining=runner.draining,
    )
    try:
        return await handler.run(context, payload)
    except (SystemExit, KeyboardInterrupt) as error:
        # These would end the whole loop, and the neighbours with it.
        raise RuntimeError(f"the handler asked to end the process: {error!r}") from error
    finally:
        await context.close()


async def _await_handler(
    runner: Runner,
    held: HeldLease,
    task: "asyncio.Task[Any]",
    stopped: "asyncio.Future[None]",
    kind: Kind,
) -> Outcome:
    """Wait for the handler, a stop, the drain's end or the timeout; cancel what goes on."""
    await asyncio.wait(
        {task, stopped, _released(runner.releasing)},
        timeout=kind.timeout.total_seconds(),
        return_when=asyncio.FIRST_COMPLETED,
    )
    timed_out = not (task.done() or stopped.done() or runner.releasing.is_set())
    if not task.done():
        held.kill_children()
        task.cancel()
        await asyncio.wait({task}, timeout=_grace(runner, held))
        released = runner.releasing.is_set() and not stopped.done() and not timed_out
    else:
        released = False
    return _judge(held, task, kind, timed_out=timed_out, released=released)


def _released(releasing: asyncio.Event) -> "asyncio.Task[Any]":
    """What ends with that event: one for all attempts, which are many and mostly short."""
    waiting = _RELEASED.get(releasing)
    if waiting is None:
        waiting = _RELEASED[releasing] = asyncio.create_task(releasing.wait(), name="releasing")
    return waiting


def _grace(runner: Runner, held: HeldLease) -> float:
    """Seconds from a cancel to giving the handler up.

    A commit in doubt is asked after until the lease is over and a margin more: that is no
    handler that hangs.
    """
    if not held.committing:
        return runner.kill_grace_seconds
    timing = runner.timing
    doubt = max(0.0, held.deadline - monotonic()) + timing.margin + timing.heartbeat
    return runner.kill_grace_seconds + doubt


def _judge(
    held: HeldLease, task: "asyncio.Task[Any]", kind: Kind, *, timed_out: bool, released: bool
) -> Outcome:
    """What the ended (or abandoned) task means. A cancelled handler never counts as succeeded."""
    error = task.exception() if task.done() and not task.cancelled() else None
    if held.completed:
        return Waits() if held.waits else Completed()
    if held.stopped == "timeout" or timed_out:
        return _failed(kind, held, f"ran longer than {kind.timeout.total_seconds():g} s", "TIMEOUT")
    if held.stopped is not None:
        return Lost(reason=held.reason)
    if released:
        return Released(reason="the worker drains")
    if not task.done() or task.cancelled():
        return Released(reason="the attempt was cancelled")
    if error is None:
        return Succeeded(result=task.result())
    return _judge_error(held, kind, error)


def _judge_error(held: HeldLease, kind: Kind, error: BaseException) -> Outcome:
    match error:
        case Yield():
            return Released(reason=str(error))
        case Snooze():
            after = 0.0 if error.after is None else error.after.total_seconds()
            words = str(error)
            return Released(reason=words, delay_seconds=after, until=error.until, type="Snoozed")
        case LeaseLost():
            return Lost(reason=error.reason)
        case Conflict():
            return Released(reason=str(error), delay_seconds=CONFLICT_DELAY_SECONDS)
        case DBAPIError() if sqlstate_of(error) in CONFLICTS:
            return Released(reason=str(error.orig), delay_seconds=CONFLICT_DELAY_SECONDS)
        case DBAPIError() if is_unreachable(error):
            return Released(reason=str(error.orig), delay_seconds=OUTAGE_DELAY_SECONDS)
        case _ if is_permanent(kind.retry, error):
            return Failed(error=error, code="PERMANENT", permanent=True)
    return _failed(kind, held, error, "FAILED")


def _failed(kind: Kind, held: HeldLease, error: BaseException | str, code: str) -> Failed:
    cause = error if isinstance(error, BaseException) else TimeoutError(error)
    delay = retry_delay(kind.retry, max(1, held.charged_attempts), cause)
    return Failed(error=error, code=code, permanent=False, delay_seconds=delay)


async def _record(runner: Runner, held: HeldLease, outcome: Outcome) -> Outcome:
    """Store the outcome; when the answer is lost or a lock not had, ask and repeat, uncharged."""
    match outcome:
        case Completed() | Waits() | Lost():
            return outcome
        case Succeeded():
            try:
                result = None if outcome.result is None else dump_exact(outcome.result)
            except ValueError as error:
                failed = PermanentError(f"result {error}", code="RESULT_NOT_STORABLE")
                outcome = Failed(error=failed, code="PERMANENT", permanent=True)
                return await _record(runner, held, outcome)
            return await _store(runner, held, replace(outcome, result=result))
        case Failed() | Released():
            return await _store(runner, held, outcome)
        case _:
            assert_never(outcome)


async def _store(
    runner: Runner, held: HeldLease, outcome: Succeeded | Failed | Released
) -> Outcome:
    held.committing = True
    doubted = False
    while True:
        try:
            left = await _exit(runner, held, outcome)
        except DBAPIError as error:
            oversize = sqlstate_of(error) == "23514" and isinstance(outcome, Succeeded)
            if oversize:
                failed = PermanentError("result is larger than 1 MiB", code="RESULT_NOT_STORABLE")
                outcome = Failed(error=failed, code="PERMANENT", permanent=True)
                continue
            if not (is_unreachable(error) or sqlstate_of(error) in CONFLICTS):
                raise
            log.warning("outcome.in_doubt", job_id=str(held.lease.job_id), error=told(error))
            doubted = True
        else:
            if left:
                return outcome
            if not doubted:
                FENCE_REJECTIONS.labels("exit").inc()
                return Lost(reason="another owner, state or checkpoint")
        if (ended := await _ended_as(runner, held)) is not None:
            return _settled(held, outcome, *ended)
        if monotonic() >= held.deadline:
            return Lost(reason="the outcome could not be stored before the lease ran out")
        await asyncio.sleep(RECORD_AGAIN_SECONDS)


def _settled(
    held: HeldLease, outcome: Succeeded | Failed | Released, ended: str, state: str | None
) -> Outcome:
    """What a lost answer was: ours, or how somebody else ended the attempt meanwhile."""
    if ended != NAMES[type(outcome)]:
        return Lost(reason=f"the attempt ended as {ended}")
    if state == "dead" and not isinstance(outcome, Succeeded):
        _alert_dead(held.job.id, held.job.kind, held.job.attempt, outcome)
    return outcome


async def _exit(runner: Runner, held: HeldLease, outcome: Succeeded | Failed | Released) -> bool:
    if (
        isinstance(outcome, Succeeded)
        and runner.completions is not None
        and await runner.completions.complete(held, outcome.result)
    ):
        return True
    async with _leaving(runner, held) as conn:
        match outcome:
            case Succeeded():
                return await complete_job(conn, held, outcome.result)
            case Failed():
                row = await fail_job(conn, held, outcome)
            case Released():
                row = await release_job(conn, held, outcome)
            case _:
                assert_never(outcome)
    if row is not None and row.state == "dead":
        _alert_dead(row.id, row.kind, row.attempt, outcome)
    return row is not None


@asynccontextmanager
async def _leaving(runner: Runner, held: HeldLease) -> AsyncIterator[AsyncConnection]:
    """Autocommit for an exit of one statement; a transaction where guards are locked before it."""
    if not held.guards:
        async with runner.engines.auto.connect() as conn:
            yield conn
        return
    timing = runner.timing
    async with transaction(
        runner.engines.app,
        lock_timeout=timing.lock_timeout,
        idle_timeout=timing.idle_in_transaction,
    ) as conn:
        yield conn


def _alert_dead(job_id: UUID, kind: str, attempt: int, outcome: Failed | Released) -> None:
    alert("job.dead", job_id=str(job_id), kind=kind, attempt=attempt, error=kind_of_end(outcome))


READ_STATE = text("SELECT state FROM chot.jobs WHERE id = :job_id AND fence = :fence")


async def _ended_as(runner: Runner, held: HeldLease) -> tuple[str, str | None] | None:
    """After a lost answer: how our attempt ended, and the job's state; None while not known."""
    with suppress(DBAPIError, OSError):
        async with (
            asyncio.timeout(runner.timing.heartbeat),
            transaction(runner.engines.app, lock_timeout=runner.timing.lock_timeout) as conn,
        ):
            found = await settle_doubt(conn, held.lease)
            if found is None or found[1] is None:
                return None
            binds = {"job_id": held.lease.job_id, "fence": held.lease.fence}
            state = await conn.scalar(READ_STATE, binds)
            # A COMMIT of this one could freeze, too: it has locked a row.
            await conn.rollback()
            return found[1], state
    return None
