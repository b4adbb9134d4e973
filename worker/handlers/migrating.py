"""Migrations: a registered task over all of its rows, in fenced batches; see worker.migrations.

Begin (or go on with) the run, let the task prepare, fix the upper bound, go over the batches,
check, complete. Where a run stands is its row's to say, so that every attempt, also one after a
redrive, goes on behind the last row that is done.
"""

from dataclasses import dataclass, replace
from typing import Any

from shared.errors import PermanentError
from shared.kinds.migration import MIGRATION_RUN, MigrationRunPayload, params_of
from worker.context import CleanupContext, JobContext
from worker.handlers import Handler
from worker.migrations.bounds import checked_rows, count_rows, find_upper
from worker.migrations.preparing import Preparing
from worker.migrations.registry import runnable_tasks
from worker.migrations.retrying import retry_rejects
from worker.migrations.running import Batches, refuse_too_many, reject_facts
from worker.migrations.task import Run, Task
from worker.records.migration_runs import (
    Standing,
    begin_again,
    begin_retry,
    begin_run,
    check_of,
    end_phase,
    end_run,
    read_standing,
    set_bounds,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attempt:
    """One attempt at one run."""

    context: JobContext
    payload: MigrationRunPayload
    task: Task
    run: Run


async def run_migration(context: JobContext, payload: MigrationRunPayload) -> None:
    """Run the task over its rows and complete the job with what became of them; see the module."""
    attempt = _attempt(context, payload)
    standing = await _standing(attempt)
    if standing.phase == "preparing":
        attempt, standing = await _prepare(attempt, standing)
    if standing.phase in {"running", "retrying"}:
        standing = await _batches(attempt, standing)
    await _finish(attempt, standing)


def _attempt(context: JobContext, payload: MigrationRunPayload) -> _Attempt:
    task = runnable_tasks().get(payload.task)
    if task is None:
        raise PermanentError(
            f"TASK_UNKNOWN: this worker has no code of task {payload.task!r} "
            "(CHOT_MIGRATION_MODULES, entry point chot.migrations)",
            code="TASK_UNKNOWN",
        )
    if context.job.brand is not None and not task.spec.per_brand:
        raise PermanentError(
            f"BRAND_NOT_TAKEN: task {payload.task} is of a whole company; submit it without brand",
            code="BRAND_NOT_TAKEN",
        )
    return _Attempt(context=context, payload=payload, task=task, run=_run(context, task, payload))


def _run(context: JobContext | CleanupContext, task: Task, payload: MigrationRunPayload) -> Run:
    job = context.job
    fence = context.lease.fence if isinstance(context, JobContext) else 0
    return Run(
        job_id=job.id,
        fence=fence,
        company=job.company,
        brand=job.brand,
        principal=job.principal,
        params=params_of(task.spec, payload.params),
        dry_run=payload.dry_run,
    )


async def _standing(attempt: _Attempt) -> Standing:
    context, spec = attempt.context, attempt.task.spec
    async with context.read() as conn:
        found = await read_standing(conn, context.job.id)
    if found is None:
        return await _begin(attempt)
    if found.version != spec.version:
        raise PermanentError(
            f"TASK_CHANGED: the run was begun by version {found.version} of task {spec.name}, this "
            f"worker has {spec.version}; cancel it and submit it anew",
            code="TASK_CHANGED",
        )
    if found.phase == "over":
        async with context.transaction() as tx:
            await begin_again(tx.connection, context.job.id)
            tx.checkpoint = {"task": spec.name}
        return Standing(
            phase="preparing",
            batch_size=attempt.payload.batch_size,
            version=spec.version,
            check_before=found.check_before,
        )
    if context.checkpoint is None and found.failed and found.phase in {"running", "finishing"}:
        # Only a cleanup forgets the checkpoint: the job was dead, and is redriven.
        async with context.transaction() as tx:
            await begin_retry(tx.connection, context.job.id)
            tx.checkpoint = {"task": spec.name, "phase": "retrying"}
        return replace(found, phase="retrying")
    return found


async def _begin(attempt: _Attempt) -> Standing:
    """Refuse an unsound key before anything is done, look at the data, and write the run's row."""
    context, task, payload = attempt.context, attempt.task, attempt.payload
    async with context.read() as conn:
        await checked_rows(conn, payload.task, task.source(attempt.run))
        before = await task.check(conn, attempt.run)
    async with context.transaction() as tx:
        await begin_run(
            tx.connection,
            job_id=context.job.id,
            company=context.job.company,
            brand=context.job.brand,
            task=payload.task,
            version=task.spec.version,
            dry_run=payload.dry_run,
            fence=context.lease.fence,
            batch_size=payload.batch_size,
            check_before=before,
        )
        tx.checkpoint = {"task": payload.task}
    return Standing(
        phase="preparing",
        batch_size=payload.batch_size,
        version=task.spec.version,
        check_before=check_of(before),
    )


async def _prepare(attempt: _Attempt, standing: Standing) -> tuple[_Attempt, Standing]:
    """Let the task make its rows, then fix the upper bound: what is born later is not the run's."""
    context = attempt.context
    preparing = Preparing(
        context=context,
        payload=attempt.payload,
        run=replace(attempt.run, state=standing.state),
    )
    await attempt.task.prepare(preparing)
    attempt = replace(attempt, run=preparing.run)
    source = attempt.task.source(attempt.run)
    async with context.transaction() as tx:
        conn = tx.connection
        rows = await checked_rows(conn, attempt.payload.task, source)
        upper = await find_upper(conn, rows)
        total = await count_rows(conn, replace(rows, upper=upper))
        await set_bounds(conn, context.job.id, fence=context.lease.fence, upper=upper, total=total)
        found = await read_standing(conn, context.job.id)
        tx.checkpoint = {"task": attempt.payload.task, "phase": "running"}
    assert found is not None, "its row was written when the run began"
    return attempt, found


async def _batches(attempt: _Attempt, standing: Standing) -> Standing:
    run = replace(attempt.run, state=standing.state)
    async with attempt.context.read() as conn:
        rows = await checked_rows(conn, attempt.payload.task, attempt.task.source(run))
    batches = Batches(
        context=attempt.context,
        payload=attempt.payload,
        task=attempt.task,
        run=run,
        rows=replace(rows, upper=standing.upper),
        standing=standing,
    )
    if standing.phase == "retrying":
        await retry_rejects(batches)
    batches.refuse_too_many()
    if standing.upper is not None:
        await batches.work()
    return batches.standing


async def _finish(attempt: _Attempt, standing: Standing) -> None:
    """Check, let the task remove what it has prepared, complete. Each step may be done twice."""
    context, run = attempt.context, replace(attempt.run, state=standing.state)
    if standing.phase != "finishing":
        refuse_too_many(attempt.payload, standing, attempt.run.job_id)
        async with context.read() as conn:
            after = check_of(await attempt.task.check(conn, run))
        async with context.transaction() as tx:
            await end_phase(tx.connection, context.job.id, after)
            tx.checkpoint = {"task": attempt.payload.task, "phase": "finishing"}
        standing = replace(standing, phase="finishing", check_after=after)
    await _clean(attempt, run)
    async with context.completion() as tx:
        await end_run(tx.connection, context.job.id)
        tx.progress(standing.done, standing.done, unit="rows", message="done")
        tx.result = _result(attempt, standing) | {
            "first_rejects": await reject_facts(tx.connection, run)
        }


async def _clean(attempt: _Attempt, run: Run) -> None:
    gone = False
    while not gone:
        attempt.context.yield_if_asked()
        async with attempt.context.transaction() as tx:
            gone = await attempt.task.clean(tx.connection, run)


def _result(attempt: _Attempt, standing: Standing) -> dict[str, Any]:
    problems = (standing.check_after or {}).get("problems", [])
    # A dry run has changed nothing: what the check finds after it is what it found before.
    spoiled = bool(standing.failed or (problems and not attempt.payload.dry_run))
    return {
        "outcome": "completed_with_errors" if spoiled else "succeeded",
        "task": attempt.payload.task,
        "version": standing.version,
        "dry_run": attempt.payload.dry_run,
        "rows_done": standing.done,
        "rows_failed": standing.failed,
        "counts": dict(standing.counts),
        "batches": standing.batches,
        "failed_tries": standing.failed_tries,
        "check_before": standing.check_before,
        "check_after": standing.check_after,
    }


async def clean_up_migration(context: CleanupContext) -> None:
    """Let the task remove what it has prepared; what its batches have done stays done.

    A redriven run of a task that prepares begins anew; any other goes on behind its cursor.
    """
    payload = MigrationRunPayload.model_validate(context.job.payload)
    task = runnable_tasks()[payload.task]
    standing = await read_standing(context.connection, context.job.id)
    if standing is None:
        return
    run = replace(_run(context, task, payload), state=standing.state)
    while not await task.clean(context.connection, run):
        pass
    if type(task).prepare is not Task.prepare:
        await end_phase(context.connection, context.job.id, standing.check_after, phase="over")


HANDLERS = (Handler(kind=MIGRATION_RUN.name, run=run_migration, cleanup=clean_up_migration),)
