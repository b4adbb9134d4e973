"""One job of the books, run by a worker of the platform; its time by the database's clock."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.memory import MemoryWatch
from bench.place import Platform
from bench.running import BenchFailed
from dev.processes import Child

LONGEST_SECONDS = 4 * 3600.0
POLL_SECONDS = 0.2
ENQUEUE = "SELECT job_id FROM chot.enqueue($1, $2, NULL, CAST($3 AS jsonb))"
ENDED = """
    SELECT j.state, o.result::text AS result, o.error::text AS error,
           extract(epoch FROM j.finished_at - j.started_at)::float AS seconds
      FROM chot.jobs j LEFT JOIN chot.job_outputs o ON o.job_id = j.id
     WHERE j.id = $1 AND j.state IN ('succeeded', 'dead', 'cancelled')"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worked:
    """A job that has succeeded: from its first claim to its success, and the worker's peak."""

    result: Mapping[str, Any]
    seconds: float
    peak_mib: int


async def work(
    platform: Platform, worker: Child, kind: str, company: str, payload: Mapping[str, Any]
) -> Worked:
    """Submit the job and wait for it; BenchFailed for any end but success."""
    with MemoryWatch(worker.pid) as memory:
        said = json.dumps(payload)
        job_id = await platform.superuser.fetchval(ENQUEUE, kind, company, said)
        async with asyncio.timeout(LONGEST_SECONDS):
            row = await _ended(platform, worker, job_id)
    if row["state"] != "succeeded":
        raise BenchFailed(f"{kind} of {company} is {row['state']}: {row['error']}")
    result = json.loads(row["result"] or "{}")
    return Worked(result=result, seconds=row["seconds"], peak_mib=memory.peaks.together)


async def _ended(platform: Platform, worker: Child, job_id: object) -> Any:
    while (row := await platform.superuser.fetchrow(ENDED, job_id)) is None:
        if not worker.alive:
            raise BenchFailed(f"the worker ended:\n{worker.last_words()}")
        await asyncio.sleep(POLL_SECONDS)
    return row


async def vacuum(platform: Platform) -> None:
    """As autovacuum would have, soon after a load."""
    await platform.superuser.execute("VACUUM (ANALYZE)")
