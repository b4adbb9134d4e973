"""Costing: one period's movements, each item by its method, in fenced chunks, seen at once.

Begin a run under one snapshot, cost its families chunk by chunk, follow what changed meanwhile, and
activate it behind the period's gate. The work list in the database says what is left, so an
attempt goes on where the last commit of any attempt stopped. A preview is the same up to the gate.
"""

from shared.errors import Conflict
from shared.kinds.costing import COSTING_PREVIEW, COSTING_RUN, CostingRunPayload
from shared.logs import log
from worker.context import CleanupContext, JobContext
from worker.fence import FencedTransaction
from worker.handlers import Handler
from worker.handlers.costing_chunks import cost_pending
from worker.handlers.costing_part import share_run
from worker.handlers.costing_results import nothing_to_cost, preview_result, run_result
from worker.handlers.costing_rounds import catch_up, put_back
from worker.records.activation import activate, close_gate
from worker.records.beginning import NothingToCostError, begin_run
from worker.records.changes import find_changed
from worker.records.cost_results import Sealed, seal_run
from worker.records.cost_runs import CostRun, Rules, read_run
from worker.records.differences import end_preview, errors_by_code
from worker.records.leftovers import (
    drop_storage,
    fail_run,
    find_leftovers,
    try_drop_storage,
)
from worker.records.pool_checks import pool_warnings

# How often an attempt follows movements that keep arriving before it keeps them waiting.
MOST_ROUNDS = 5


class _InputChangedError(Exception):
    """Movements or openings changed between the last look and the gate."""


async def run_costing(context: JobContext, payload: CostingRunPayload) -> None:
    """Cost the period and complete the job with the run's totals; see the module."""
    try:
        run = await _resume(context) or await _begin(context, payload)
    except NothingToCostError:
        async with context.completion() as tx:
            tx.result = nothing_to_cost(payload)
        return
    if await share_run(context, run, payload):
        return
    for _ in range(MOST_ROUNDS):
        await cost_pending(context, run, payload.chunk_movements)
        run, sealed = await _settle(context, run)
        if sealed is None:
            continue
        try:
            await _complete(context, run, sealed)
        except _InputChangedError:
            continue
        return
    await cost_pending(context, run, payload.chunk_movements)
    await _complete_behind_gate(context, run, payload.chunk_movements)


async def _resume(context: JobContext) -> CostRun | None:
    if context.checkpoint is None:
        return None
    async with context.read() as conn:
        return await read_run(conn, context.checkpoint["run_id"])


async def _begin(context: JobContext, payload: CostingRunPayload) -> CostRun:
    await _drop_leftovers(context)
    context.progress(0, unit="movements", message="reading the period")
    async with context.transaction() as tx:
        run = await begin_run(
            tx.connection,
            job_id=context.job.id,
            fence=context.lease.fence,
            company=context.job.company,
            brand=context.job.brand,
            period=payload.period,
            rules=Rules(
                method=payload.method,
                pool_policy=payload.pool or "map",
                residue_policy=payload.residue,
                negative=payload.negative,
                dry_run=context.job.kind == COSTING_PREVIEW.name,
            ),
            items=payload.items,
        )
        tx.checkpoint = {"run_id": run.id}
    return run


async def _drop_leftovers(context: JobContext) -> None:
    """Rows of superseded runs, dropped by partition; what is being read now goes another time."""
    async with context.read() as conn:
        leftovers = await find_leftovers(conn, context.job.company)
    for run_id in leftovers:
        try:
            async with context.transaction() as tx:
                await drop_storage(tx.connection, run_id)
        except Conflict as conflict:
            log.info("costing.leftover_in_use", run_id=run_id, error=str(conflict))
            return


async def _settle(context: JobContext, run: CostRun) -> tuple[CostRun, Sealed | None]:
    """Seal the run if nothing changed since its snapshot; else put the changed items back."""
    async with context.transaction() as tx:
        moved = await put_back(tx.connection, run)
        if moved is None:
            return run, await seal_run(tx.connection, run)
    return moved, None


async def _complete(context: JobContext, run: CostRun, sealed: Sealed) -> None:
    async with context.completion() as tx:
        if run.dry_run:
            await _end_preview(context, tx, run, sealed)
            return
        await close_gate(tx.connection, run)
        if await find_changed(tx.connection, run):
            raise _InputChangedError
        await _activate(context, tx, run, sealed)


async def _activate(
    context: JobContext, tx: FencedTransaction, run: CostRun, sealed: Sealed
) -> None:
    aged = await activate(tx.connection, run, context.lease.fence)
    tx.result = run_result(run, sealed, aged, await pool_warnings(tx.connection, run))


async def _end_preview(
    context: JobContext, tx: FencedTransaction, run: CostRun, sealed: Sealed
) -> None:
    differences = await end_preview(tx.connection, run, context.lease.fence)
    codes = await errors_by_code(tx.connection, run)
    tx.result = preview_result(run, sealed, differences, codes)
    await try_drop_storage(tx.connection, run.id)


async def _complete_behind_gate(context: JobContext, run: CostRun, chunk_movements: int) -> None:
    """Cost the newest changes while nobody writes; a preview, which keeps nobody, is as of now."""
    async with context.completion() as tx:
        if not run.dry_run:
            await close_gate(tx.connection, run)
        run = await catch_up(context, tx.connection, run, chunk_movements)
        sealed = await seal_run(tx.connection, run)
        if run.dry_run:
            await _end_preview(context, tx, run, sealed)
            return
        await _activate(context, tx, run, sealed)


async def clean_up_costing(context: CleanupContext) -> None:
    """Remove the run that the job left half-built; nobody has ever seen it."""
    await fail_run(context.connection, context.job.id)


HANDLERS = (
    Handler(kind=COSTING_RUN.name, run=run_costing, cleanup=clean_up_costing),
    Handler(kind=COSTING_PREVIEW.name, run=run_costing, cleanup=clean_up_costing),
)
