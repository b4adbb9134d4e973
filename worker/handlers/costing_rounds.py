"""What changed while a run was costed: put back to work, and at last costed behind the gate.

Where movements keep arriving, as sales of the month that is under way do, no look at what has
changed is the last one. So after some rounds the newest changes are costed while writers wait.
"""

from collections.abc import Mapping

from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import RetryableError
from shared.logs import log
from worker.context import JobContext
from worker.handlers.costing_chunks import cost_held
from worker.records.changes import costed_together, find_changed
from worker.records.cost_results import take_back
from worker.records.cost_runs import CostRun, move_snapshot, read_run, set_scope, take_snapshot
from worker.records.scope import closed_under, read_families
from worker.records.work_list import count_done, list_items

# What writers are kept waiting for: at about a second for so many.
MOST_BEHIND_GATE = 50_000


async def put_back(conn: AsyncConnection, run: CostRun) -> CostRun | None:
    """Put what has changed since the run's snapshot back to work; None: nothing has.

    The snapshot moves in the transaction that takes the old results back, so that at any moment
    the run's rows are those of its snapshot. What is costed together is redone together, also by
    documents that have only come since.
    """
    snapshot = await take_snapshot(conn)
    changed = await find_changed(conn, run)
    if not changed:
        return None
    await move_snapshot(conn, run, snapshot)
    families_of = await read_families(conn, run)
    redo = await _together(conn, run, changed, families_of)
    log.info("costing.input_changed", run_id=run.id, changed=len(changed), items=len(redo))
    await take_back(conn, run, redo)
    if run.items is not None:
        await set_scope(conn, run, run.items | redo)
    await list_items(conn, run, frozenset(redo), families_of)
    moved = await read_run(conn, run.id)
    assert moved is not None, "only this job ends its run"
    return moved


async def _together(
    conn: AsyncConnection, run: CostRun, changed: set[str], families_of: Mapping[str, str]
) -> set[str]:
    """What has changed with all that was or is to be costed together with it."""
    redo: set[str] = set()
    while redo != changed:
        redo = changed
        changed = await costed_together(conn, run, set(closed_under(families_of, redo)))
    return redo


async def catch_up(
    context: JobContext, conn: AsyncConnection, run: CostRun, chunk_movements: int
) -> CostRun:
    """Cost what has changed in the caller's transaction, which then ends the run.

    Under the gate nothing changes after that. Raises RetryableError INPUT_CHANGED where it is too
    much to keep writers waiting for.
    """
    run = await put_back(conn, run) or run
    tally = await count_done(conn, run)
    if tally.total - tally.done > MOST_BEHIND_GATE:
        raise RetryableError(
            f"INPUT_CHANGED: {tally.total - tally.done} movements of items that keep changing are "
            f"left to cost in period {run.period}; what is costed so far is kept"
        )
    await cost_held(context, conn, run, chunk_movements)
    return run
