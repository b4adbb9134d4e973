"""The work of a run, chunk by chunk: all of it by the run's job, or a part by one of its own.

While one chunk is written, the next is computed by the child process and the one after it is read:
never more than these three are held, and chunks are committed in their order.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from shared.logs import alert
from worker.context import JobContext
from worker.costing.chunk import ChunkResults, cost_chunk
from worker.costing.problems import NAMED_MOVEMENTS
from worker.costing.results import Negative, Policy, ResiduePolicy
from worker.costing.units import Unit
from worker.fence import FencedTransaction
from worker.records.cost_results import write_results
from worker.records.cost_runs import CostRun
from worker.records.movements import load_units
from worker.records.parts import hold_run
from worker.records.work_list import PendingItem, Tally, count_done, next_items

# Under this many movements a chunk costs less than handing it to another process.
OFFLOAD_FROM = 2_000


class RunOverError(Exception):
    """The run is over, or no longer worked for: nothing of the transaction is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What of a run a job of this group costs."""

    part: int
    group_id: UUID

    async def hold(self, conn: AsyncConnection, run: CostRun) -> None:
        """Keep the run from ending before the transaction does; raises RunOverError."""
        if not await hold_run(conn, run.id, self.group_id):
            raise RunOverError


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Whole families, and everything they are costed from."""

    pending: list[PendingItem]
    units: list[Unit]


async def cost_pending(
    context: JobContext, run: CostRun, chunk_movements: int, share: Share | None = None
) -> Tally:
    """Cost every family of the work list that is not done, one fenced transaction a chunk.

    With a share only those of its part, and RunOverError once the run is over. Answers how much is
    done, of the part or of all.
    """
    part = None if share is None else share.part
    async with context.read() as conn:
        tally = await count_done(conn, run, part)
    async with aclosing(_computed(context, run, chunk_movements, part)) as chunks:
        async for pending, results in chunks:
            await _write(context, run, pending, results, tally, share=share)
            context.yield_if_asked()
    return tally


async def cost_held(
    context: JobContext, conn: AsyncConnection, run: CostRun, chunk_movements: int
) -> None:
    """As cost_pending(), chunk after chunk in the caller's transaction."""
    after = ""
    while pending := await next_items(conn, run, after, chunk_movements):
        chunk = _Chunk(pending, await load_units(conn, run, pending))
        await write_results(conn, run, await _compute(context, chunk, run, _policy(run)))
        after = pending[-1].family


def _policy(run: CostRun) -> Policy:
    return Policy(residue=ResiduePolicy(run.residue_policy), negative=Negative(run.negative))


async def _computed(
    context: JobContext, run: CostRun, chunk_movements: int, part: int | None
) -> AsyncGenerator[tuple[list[PendingItem], ChunkResults], None]:
    """Chunks in their order, each with the next two under way; closing it ends these."""

    async def read(after: str) -> _Chunk | None:
        async with context.read() as conn:
            pending = await next_items(conn, run, after, chunk_movements, part)
            return _Chunk(pending, await load_units(conn, run, pending)) if pending else None

    policy = _policy(run)
    reading = asyncio.create_task(read(""), name="read a chunk")
    computing: asyncio.Task[ChunkResults] | None = None
    before: list[PendingItem] = []
    try:
        while (chunk := await reading) is not None or computing is not None:
            computed, pending = computing, before
            if chunk is None:
                computing = None
            else:
                before = chunk.pending
                reading = asyncio.create_task(read(before[-1].family), name="read a chunk")
                compute = _compute(context, chunk, run, policy)
                computing = asyncio.create_task(compute, name="compute a chunk")
            if computed is not None:
                yield pending, await computed
    finally:
        if computing is not None:
            computing.cancel()
        # A read ends by itself; one that is cancelled while it connects leaves a connection behind.
        under_way = (task for task in (reading, computing) if task is not None)
        await asyncio.gather(*under_way, return_exceptions=True)


async def _compute(
    context: JobContext, chunk: _Chunk, run: CostRun, policy: Policy
) -> ChunkResults:
    if sum(item.movements for item in chunk.pending) >= OFFLOAD_FROM:
        results = await context.offload(cost_chunk, chunk.units, run.layout, policy)
    else:
        results = cost_chunk(chunk.units, run.layout, policy)
    for fault in results.faults:
        alert(
            "costing.engine_fault",
            run_id=run.id,
            items=fault.items[:NAMED_MOVEMENTS],
            error=fault.error,
            trace=fault.trace,
        )
    return results


async def _write(
    context: JobContext,
    run: CostRun,
    pending: list[PendingItem],
    results: ChunkResults,
    tally: Tally,
    *,
    share: Share | None,
) -> None:
    tally.done += sum(item.movements for item in pending)
    tally.items_done += len(pending)
    async with context.transaction() as tx:
        if share is not None:
            await share.hold(tx.connection, run)
        await write_results(tx.connection, run, results)
        tx.checkpoint = (context.checkpoint or {}) | {
            "run_id": run.id,
            "items_done": tally.items_done,
        }
        last = pending[-1].item
        tx.progress(tally.done, tally.total, unit="movements", message=_message(last, tally))
        if share is not None:
            await _tell_all(tx, run, last)


async def _tell_all(tx: FencedTransaction, run: CostRun, last: str) -> None:
    """How far all parts are, for the run's own job, which waits; counted in the work list."""
    whole = await count_done(tx.connection, run)
    tx.join_progress(whole.done, whole.total, unit="movements", message=_message(last, whole))


def _message(last: str, tally: Tally) -> str:
    return f"item {last} ({tally.items_done} of {tally.items})"
