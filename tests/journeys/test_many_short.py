"""Many short jobs: they are claimed, read and stored together, and a drain meets them anywhere."""

import signal

from sqlalchemy.ext.asyncio import AsyncEngine

from tests.factories import eventually, fetch, make_job, scalar
from tests.fleet import Fleet
from tests.journeys.looking import all_reached, exited, working

ENDED = "SELECT count(*) FROM chot.attempts WHERE outcome = 'succeeded'"
LEFT_OPEN = """
    SELECT count(*) FROM chot.jobs j
      LEFT JOIN chot.attempts a ON a.job_id = j.id AND a.fence = j.fence
     WHERE j.state = 'running' OR (a.job_id IS NOT NULL AND a.outcome IS NULL)"""
TOLD = """
    SELECT a.outcome, count(*) AS attempts, max(j.lost_leases) AS lost
      FROM chot.attempts a JOIN chot.jobs j ON j.id = a.job_id GROUP BY a.outcome"""


async def test_a_drain_leaves_nothing_half_stored(probes: AsyncEngine, fleet: Fleet) -> None:
    """SIGTERM while batches are on their way: each job has ended once, or waits for another worker."""
    ids = [await make_job(probes, chunks=0) for _ in range(300)]
    leaving = fleet.worker(CHOT_CONCURRENCY="32")
    await working(leaving)

    async def some_have() -> bool:
        return int(await scalar(probes, ENDED)) >= 40

    await eventually(some_have, every=0.01)
    leaving.send(signal.SIGTERM)
    assert await exited(leaving) == 0
    assert await scalar(probes, LEFT_OPEN) == 0
    fleet.worker(CHOT_CONCURRENCY="32")
    await all_reached(probes, ids, "succeeded")
    told = {row.outcome: row for row in await fetch(probes, TOLD)}
    assert set(told) <= {"succeeded", "released"}, "nothing was lost, nothing failed"
    assert (told["succeeded"].attempts, told["succeeded"].lost) == (300, 0)
