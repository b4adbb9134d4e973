"""Draining no-op jobs, beside the best of 1, 2, 4, 8 concurrent minimal loops; CPU of two workers.

Ours counts from the first claim to the last success by the database's clock, with everything that
it is about: outbox and relay, leases, fence, attempts, heartbeat. The loops' messages lie in SQS
already; theirs is from the first receive to the last delete.
"""

import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from bench.asking import ask_module
from bench.drains import ENV, drain
from bench.figures import Figure, ratio
from bench.memory import cpu_seconds
from bench.place import Place, Platform
from bench.row import Measured, Row, Scale, Sizes, each
from bench.running import BenchFailed
from dev.processes import Child

LOOPS = (1, 2, 4, 8)
LEAST_RATE = 0.6
MOST_CPU = 1.15
LOOP_MODULE = "bench.limits.drain_loop"


@dataclass(slots=True)
class Draining:
    """One worker that waits, the queue of the limit, and which number of loops is the best."""

    platform: Platform
    worker: Child
    beside: Platform
    jobs: int
    tried: dict[int, float] = field(default_factory=dict)

    @property
    def loops(self) -> int:
        """The number of loops that drained most."""
        return max(self.tried, key=lambda loops: self.tried[loops])


@asynccontextmanager
async def prepare(place: Place, sizes: Sizes) -> AsyncIterator[Draining]:
    """A platform for ours, one for the loops; each number of loops is tried once, shorter."""
    async with place.platform(**ENV) as platform, place.platform() as beside:
        worker = platform.worker()
        await drain(platform, sizes["warm"])
        draining = Draining(platform, worker, beside, sizes["jobs"])
        for loops in LOOPS:
            found = await _loop(draining, sizes["tried"], loops)
            draining.tried[loops] = found["jobs"] / found["seconds"]
        yield draining


async def limit(draining: Draining) -> Measured:
    """The best number of loops, on as many jobs."""
    found = await _loop(draining, draining.jobs, draining.loops)
    return {"rate": found["jobs"] / found["seconds"], "cpu": found["cpu"] / found["jobs"]}


async def _loop(draining: Draining, jobs: int, loops: int) -> Mapping[str, float]:
    beside = draining.beside
    queue = beside.queue_urls["default"]
    asked = (beside.database.superuser_url, queue, str(jobs), str(loops))
    found: Mapping[str, float] = await ask_module(beside, LOOP_MODULE, *asked)
    if found["jobs"] != jobs:
        raise BenchFailed(f"the loops have completed {found['jobs']} of {jobs} jobs")
    return found


async def ours(draining: Draining) -> Measured:
    """By one worker; then by two, for their CPU."""
    platform = draining.platform
    alone, cpu_alone = await _drained(draining, [draining.worker])
    second = platform.worker()
    try:
        both, cpu_both = await _drained(draining, [draining.worker, second])
    finally:
        second.stop(signal.SIGTERM, 30.0)
        platform.children.remove(second)
    return {"rate": alone, "cpu": cpu_alone, "rate of two": both, "cpu of two": cpu_both}


async def _drained(draining: Draining, workers: Sequence[Child]) -> tuple[float, float]:
    before = [cpu_seconds(worker.pid) for worker in workers]
    drained = await drain(draining.platform, draining.jobs)
    spent = sum(cpu_seconds(worker.pid) for worker in workers) - sum(before)
    return drained.rate, spent / draining.jobs


def judge(limits: Sequence[Measured], ours: Sequence[Measured]) -> list[Figure]:
    """Rate against the loops, CPU of two workers against that of one."""
    rates, cpu = each(limits, "rate"), each(ours, "cpu")
    milliseconds = [1000 * seconds for seconds in cpu]
    of_two = [1000 * seconds for seconds in each(ours, "cpu of two")]
    of_loops = [1000 * seconds for seconds in each(limits, "cpu")]
    return [
        ratio("jobs a second", each(ours, "rate"), rates, unit="/s", at_least=LEAST_RATE),
        ratio("CPU a job, 2 workers : 1", of_two, milliseconds, unit="ms", at_most=MOST_CPU),
        ratio("CPU a job : loops", milliseconds, of_loops, unit="ms"),
        ratio("jobs a second of 2 workers", each(ours, "rate of two"), rates, unit="/s"),
    ]


def detail(draining: Draining) -> Mapping[str, Any]:
    """What each number of loops drained a second, when they were tried."""
    return {"loops tried": draining.tried, "loops": draining.loops}


ROW = Row(
    name="drain",
    title="drain of no-op jobs, 1 worker, concurrency 64",
    against="the best of 1, 2, 4, 8 minimal loops",
    sizes={
        Scale.TINY: {"rounds": 1, "jobs": 100, "tried": 50, "warm": 20},
        Scale.QUICK: {"rounds": 1, "jobs": 2_000, "tried": 500, "warm": 200},
        Scale.USUAL: {"rounds": 3, "jobs": 20_000, "tried": 4_000, "warm": 500},
        Scale.LONG: {"rounds": 5, "jobs": 20_000, "tried": 4_000, "warm": 500},
    },
    prepare=prepare,
    limit=limit,
    ours=ours,
    judge=judge,
    detail=detail,
)
