"""Parts: a large run shares its families out to jobs that cost them side by side, and waits.

The parts write into the run under its snapshot, each with its own fence; the run's own job then
settles and activates it. So results depend neither on how many parts there are nor on who ran them.
"""

from typing import Any

from shared.groups.group import Policy
from shared.kinds.costing import CostingRunPayload
from shared.kinds.costing_part import COSTING_PART, MOST_PARTS, CostingPartPayload
from worker.context import JobContext
from worker.handlers import Handler
from worker.handlers.costing_chunks import RunOverError, Share, cost_pending
from worker.records.cost_runs import CostRun, read_run
from worker.records.parts import note_group, read_priority, share_out
from worker.records.work_list import count_done
from worker.settings import CostingSettings
from worker.spawn import SELF, Child

# Of a run that nobody has said how to share: more would outnumber the slots of most deployments.
MOST_UNASKED = 16


async def share_run(context: JobContext, run: CostRun, payload: CostingRunPayload) -> bool:
    """Share a run that is large, or is to be shared, out to parts, and wait for them: once a run.

    True: the job waits from now on, and goes on when the parts have ended. A member of a group
    cannot wait for one of its own, and costs alone.
    """
    checkpoint = context.checkpoint or {}
    if "parts" in checkpoint or context.job.group_id is not None:
        return False
    async with context.read() as conn:
        tally = await count_done(conn, run)
        priority = await read_priority(conn, context.job.id)
    wanted = parts_of(payload.parts, tally.total - tally.done)
    if wanted == 1:
        return False
    async with context.transaction() as tx:
        parts = await share_out(tx.connection, run, wanted)
        children = [
            Child(kind=COSTING_PART.name, payload=_payload(run, part, payload), priority=priority)
            for part in parts
        ]
        group_id = await context.spawn(tx, children, join=SELF, policy=Policy.FAIL_FAST)
        await note_group(tx.connection, run, group_id)
        tx.checkpoint = checkpoint | {"run_id": run.id, "parts": len(parts)}
        tx.progress(tally.done, tally.total, unit="movements", message=f"{len(parts)} parts")
    return True


def parts_of(asked: int | None, movements: int) -> int:
    """How many parts a run of so many movements is costed in."""
    if asked is not None:
        return asked
    size = CostingSettings().costing_part_movements
    return max(1, min(movements // size, MOST_UNASKED, MOST_PARTS)) if size else 1


def _payload(run: CostRun, part: int, payload: CostingRunPayload) -> dict[str, Any]:
    return {"run_id": run.id, "part": part, "chunk_movements": payload.chunk_movements}


async def run_part(context: JobContext, payload: CostingPartPayload) -> dict[str, Any]:
    """Cost what is left of a part. A run that is over has no use for it: a good end all the same.

    Else the part of a run that died could never be run again, nor the run that waits for it.
    """
    assert context.job.group_id is not None, "a part is spawned by its run"
    share = Share(part=payload.part, group_id=context.job.group_id)
    told = {"run_id": payload.run_id, "part": payload.part}
    async with context.read() as conn:
        run = await read_run(conn, payload.run_id)
    if run is None:
        return {"outcome": "run_over", **told}
    try:
        tally = await cost_pending(context, run, payload.chunk_movements, share)
    except RunOverError:
        return {"outcome": "run_over", **told}
    return {"outcome": "completed", **told, "items": tally.items_done, "movements": tally.done}


HANDLERS = (Handler(kind=COSTING_PART.name, run=run_part),)
