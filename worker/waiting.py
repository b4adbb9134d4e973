"""Waiting: a job that has spawned others hands itself back until they have ended.

One commit makes the group and lets the job wait for it, so that there is no moment at which the
group may end under a join that still runs. From then on it is a join like any other.
"""

from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from shared.exact_json import dump_exact
from shared.jobs.exits import exit_statement
from shared.jobs.guards import lock_guards
from worker.lease import SET_PROGRESS, HeldLease, Progress, progress_binds
from worker.outcome import LEAVES, OURS

# Never charged: each wait stands at a checkpoint of its own.
_WAIT = f"""
    UPDATE chot.jobs j
       SET state = 'pending', {LEAVES}, joins = :group_id, interruptions = j.interruptions + 1,
           available_at = clock_timestamp(), checkpoint_no = j.checkpoint_no + 1, {SET_PROGRESS}
     WHERE {OURS} AND j.checkpoint_no = :checkpoint_no"""
_KEPT = """kept AS (
        INSERT INTO chot.job_outputs (job_id, checkpoint)
        SELECT id, CAST(:checkpoint AS jsonb) FROM gone WHERE CAST(:checkpoint AS jsonb) IS NOT NULL
        ON CONFLICT (job_id) DO UPDATE SET checkpoint = excluded.checkpoint)"""
_NO_ERROR = "CAST(NULL AS jsonb)"
WAIT_JOB = exit_statement(_WAIT, outcome="'released'", kept_error=_NO_ERROR, also=_KEPT)
WAIT_LOCKED = exit_statement(
    _WAIT, outcome="'released'", kept_error=_NO_ERROR, also=_KEPT, wakes=True
)


async def wait_for_group(
    conn: AsyncConnection,
    held: HeldLease,
    group_id: UUID,
    checkpoint: str | None,
    progress: Progress | None = None,
) -> bool:
    """Running → pending under our fence, to be claimed again when the group has ended well.

    The group is of the same transaction; one that has ended already starts its join at once.
    False: the job is not ours.
    """
    await lock_guards(conn, held.guards)
    words = f"waits for those that it has spawned: group {group_id}"
    binds = progress_binds(held, progress or held.progress) | {
        "job_id": held.lease.job_id,
        "fence": held.lease.fence,
        "token": held.lease.token,
        "checkpoint_no": held.checkpoint_no,
        "checkpoint": checkpoint,
        "group_id": group_id,
        "result": None,
        "error": dump_exact({"type": "Waiting", "message": words}),
    }
    statement = WAIT_LOCKED if held.guards.roots else WAIT_JOB
    return (await conn.execute(statement, binds)).one_or_none() is not None
