"""Costing: one period's movements through the periodic average, in fenced chunks, seen at once.

Begin a run under one snapshot, cost its items chunk by chunk, follow what changed meanwhile, and
activate it behind the period's gate. The work list in the database says what is left, so an
attempt goes on where the last commit of any attempt stopped.
"""

from typing import Any

from shared.errors import Conflict, RetryableError
from shared.kinds.costing import COSTING_RUN, CostingRunPayload
from shared.logs import log
from worker.context import CleanupContext, JobContext
from worker.costing.chunk import ChunkResults, cost_chunk
from worker.costing.results import Policy, ResiduePolicy
from worker.handlers import Handler
from worker.records.activation import (
    activate,
    close_gate,
    drop_storage,
    fail_run,
    find_leftovers,
)
from worker.records.cost_results import Sealed, seal_run, shown, take_back, write_results
from worker.records.cost_runs import (
    CostRun,
    PendingItem,
    Tally,
    begin_run,
    count_done,
    find_changed,
    list_items,
    move_snapshot,
    next_items,
    read_run,
    take_snapshot,
)
from worker.records.movements import load_units

# Under this many movements a chunk costs less than handing it to another process.
OFFLOAD_FROM = 2_000
# How often one attempt follows movements that keep arriving before it leaves it to the next.
MOST_ROUNDS = 5
FIRST = ("", "")


class _InputChangedError(Exception):
    """Movements or openings changed between the last look and the gate."""


async def run_costing(context: JobContext, payload: CostingRunPayload) -> None:
    """Cost the period and complete the job with the run's totals; see the module."""
    run = await _resume(context) or await _begin(context, payload)
    for _ in range(MOST_ROUNDS):
        await _cost_pending(context, run, payload.chunk_movements)
        run, sealed = await _settle(context, run)
        if sealed is None:
            continue
        try:
            await _complete(context, run, sealed)
        except _InputChangedError:
            continue
        return
    raise RetryableError(
        f"INPUT_CHANGED: movements of period {run.period} kept arriving during {MOST_ROUNDS} "
        "rounds; what is costed so far is kept"
    )


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
            pool_policy=payload.pool or "map",
            residue_policy=payload.residue,
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


async def _cost_pending(context: JobContext, run: CostRun, chunk_movements: int) -> None:
    """Cost every item of the work list that is not done, one fenced transaction a chunk."""
    policy = Policy(residue=ResiduePolicy(run.residue_policy))
    after = FIRST
    async with context.read() as conn:
        tally = await count_done(conn, run)
    while True:
        async with context.read() as conn:
            pending = await next_items(conn, run, after, chunk_movements)
            units = await load_units(conn, run, pending) if pending else []
        if not pending:
            return
        movements = sum(item.movements for item in pending)
        if movements >= OFFLOAD_FROM:
            results = await context.offload(cost_chunk, units, run.pool_of, policy)
        else:
            results = cost_chunk(units, run.pool_of, policy)
        await _write(context, run, pending, results, tally)
        after = (pending[-1].brand, pending[-1].item)
        context.yield_if_asked()


async def _write(
    context: JobContext,
    run: CostRun,
    pending: list[PendingItem],
    results: ChunkResults,
    tally: Tally,
) -> None:
    tally.done += sum(item.movements for item in pending)
    tally.items_done += len(pending)
    async with context.transaction() as tx:
        await write_results(tx.connection, run, results)
        tx.checkpoint = {"run_id": run.id, "items_done": tally.items_done}
        tx.progress(
            tally.done,
            tally.total,
            unit="movements",
            message=f"item {pending[-1].item} ({tally.items_done} of {tally.items})",
        )


async def _settle(context: JobContext, run: CostRun) -> tuple[CostRun, Sealed | None]:
    """Seal the run if nothing changed since its snapshot; else put the changed items back to work.

    The snapshot moves in the transaction that takes the old results back, so that at any moment
    the run's rows are those of its snapshot.
    """
    async with context.transaction() as tx:
        snapshot = await take_snapshot(tx.connection)
        changed = await find_changed(tx.connection, run)
        if not changed:
            return run, await seal_run(tx.connection, run)
        log.info("costing.input_changed", run_id=run.id, items=len(changed))
        await take_back(tx.connection, run, changed)
        await move_snapshot(tx.connection, run, snapshot)
        await list_items(tx.connection, run, changed)
        moved = await read_run(tx.connection, run.id)
        assert moved is not None, "only this job ends its run"
    return moved, None


async def _complete(context: JobContext, run: CostRun, sealed: Sealed) -> None:
    async with context.completion() as tx:
        await close_gate(tx.connection, run)
        if await find_changed(tx.connection, run):
            raise _InputChangedError
        aged = await activate(tx.connection, run, context.lease.fence)
        tx.result = _result(run, sealed, aged)


def _result(run: CostRun, sealed: Sealed, aged: int) -> dict[str, Any]:
    totals = sealed.totals
    names = [name for name in totals._fields if name.startswith("v_")]
    values = {n.removeprefix("v_"): shown(getattr(totals, n), totals.minor_digits) for n in names}
    cogs = totals.v_issue - totals.v_sales_return + totals.v_rounding
    warnings: list[dict[str, Any]] = []
    if totals.previous_stale:
        warnings.append({"code": "PREVIOUS_PERIOD_STALE", "period": run.previous_period})
    if totals.dipped:
        warnings.append({"code": "NEGATIVE_WITHIN_PERIOD", "pools": totals.dipped})
    if aged:
        warnings.append({"code": "LATER_PERIODS_STALE", "results": aged})
    return {
        "outcome": "completed_with_errors" if totals.items_failed else "completed",
        "run_id": run.id,
        "period": run.period,
        "items": {
            "total": totals.items_total,
            "costed": totals.items_total - totals.items_failed,
            "failed": totals.items_failed,
        },
        "movements": totals.movements_total,
        "values": {**values, "cogs": shown(cogs, totals.minor_digits)},
        "checksum": totals.checksum.hex(),
        "recompute_rounds": totals.rounds,
        "errors": sealed.errors,
        "warnings": warnings,
    }


async def clean_up_costing(context: CleanupContext) -> None:
    """Remove the run that the job left half-built; nobody has ever seen it."""
    await fail_run(context.connection, context.job.id)


HANDLERS = (Handler(kind=COSTING_RUN.name, run=run_costing, cleanup=clean_up_costing),)
