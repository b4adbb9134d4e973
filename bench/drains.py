"""Many jobs, submitted at once, and what a worker takes to end them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from bench.kinds import NOOP
from bench.place import BRAND, COMPANY, Platform
from bench.running import BenchFailed
from shared.jobs.enqueue import Submit, listed_jobs

ENQUEUE = "SELECT count(*) FILTER (WHERE created) FROM chot.enqueue_each(CAST($1 AS jsonb))"
BATCH = 1_000
POLL_SECONDS = 0.25
LONGEST_SECONDS = 900.0
NUMBERS = count(1)
ENV = {"CHOT_CONCURRENCY": "64", "CHOT_QUEUES": "default:64"}

LEFT = "SELECT count(*) FROM chot.jobs WHERE state IN ('pending', 'running')"
ENDED = """
    SELECT count(*) FILTER (WHERE state = 'succeeded') AS succeeded,
           count(*) FILTER (WHERE fence <> 1) AS again,
           extract(epoch FROM max(finished_at) - min(started_at))::float AS seconds
      FROM chot.jobs WHERE created_at >= $1"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """So many jobs ended, in so many seconds from the first claim to the last success.

    By the database's clock. `again` are jobs that were claimed more than once.
    """

    jobs: int
    seconds: float
    again: int

    @property
    def rate(self) -> float:
        """Jobs a second."""
        return self.jobs / self.seconds


async def submit_many(
    platform: Platform,
    jobs: int,
    *,
    kind: str = NOOP,
    written: Callable[[], Awaitable[None]] | None = None,
    **payload: Any,
) -> list[int]:
    """Commit so many new jobs in one transaction; answers their numbers.

    As superuser: what is counted of the platform's roles is the work of its processes alone.
    `written` is called once all rows are written, before they are committed and seen.
    """
    numbers = [next(NUMBERS) for _ in range(jobs)]
    async with platform.superuser.transaction():
        for start in range(0, jobs, BATCH):
            some = numbers[start : start + BATCH]
            listed = listed_jobs([_job(kind, {"number": n, **payload}) for n in some])
            made = await platform.superuser.fetchval(ENQUEUE, listed)
            if made != len(some):
                raise BenchFailed(f"{made} of {len(some)} jobs were made")
        if written is not None:
            await written()
    platform.looks += 1
    return numbers


def _job(kind: str, payload: Mapping[str, Any]) -> Submit:
    return Submit(kind=kind, company=COMPANY, brand=BRAND, payload=dict(payload))


async def drain(
    platform: Platform,
    jobs: int,
    *,
    kind: str = NOOP,
    written: Callable[[], Awaitable[None]] | None = None,
) -> Drained:
    """Submit so many jobs and wait until all have succeeded; BenchFailed if one has not."""
    began = await look(platform, "SELECT clock_timestamp()")
    await submit_many(platform, jobs, kind=kind, written=written)
    await until_drained(platform)
    platform.looks += 1
    row = await platform.superuser.fetchrow(ENDED, began)
    if row["succeeded"] != jobs:
        raise BenchFailed(f"{row['succeeded']} of {jobs} jobs succeeded")
    return Drained(jobs=jobs, seconds=row["seconds"], again=row["again"])


async def until_drained(platform: Platform) -> None:
    """Return once no job waits or runs; BenchFailed where a process has ended meanwhile."""
    async with asyncio.timeout(LONGEST_SECONDS):
        while await look(platform, LEFT):
            for child in platform.children:
                if child.name.startswith("worker") and not child.alive:
                    raise BenchFailed(f"{child.name} ended:\n{child.last_words()}")
            await asyncio.sleep(POLL_SECONDS)


async def look(platform: Platform, query: str) -> Any:
    """The one value of a query of the bench's own, which counts as a commit of the database."""
    platform.looks += 1
    return await platform.superuser.fetchval(query)
