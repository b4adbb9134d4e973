"""Memory at the start, beside a process that has only imported; and over many jobs.

Resident, of the process alone. The jobs come over HTTP, one by one and by the hundred, and a worker
with 64 slots runs them meanwhile. Flat is: from the tenth part on, whatever the jobs, within 10 %.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from bench.drains import ENV, look, until_drained
from bench.figures import Figure, difference
from bench.figures import count as counted
from bench.http import Client, job, written
from bench.kinds import NOOP
from bench.limits.mandated import OF_API, OF_WORKER, importing
from bench.place import Place, Platform
from bench.row import Measured, Row, Scale, Sizes, each
from bench.running import BenchFailed
from dev.processes import Child, wait_until

MOST_MIB = 60.0
MOST_SHARE = 10.0
STEPS = 10
SINGLE = 10  # of a hundred, so many come one by one
REST_SECONDS = 3.0
NUMBERS = count(1)
SUCCEEDED = "SELECT count(*) FROM chot.jobs WHERE state = 'succeeded'"
SIDES = ("api", "worker")


@dataclass(slots=True)
class Growing:
    """Processes that only import, and ours."""

    platform: Platform
    imported: Mapping[str, Child]
    processes: Mapping[str, Child]
    client: Client
    sizes: Sizes
    course: dict[str, list[float]] = field(default_factory=dict)


@asynccontextmanager
async def prepare(place: Place, sizes: Sizes) -> AsyncIterator[Growing]:
    """All started; ours have served their first request and beaten their first beat."""
    async with place.platform(**ENV) as platform:
        imported = {
            "api": _importing(platform, OF_API),
            "worker": _importing(platform, OF_WORKER),
        }
        worker = platform.worker()
        api, port = platform.api()
        client = Client(port, platform.key)
        try:
            await asyncio.sleep(REST_SECONDS)
            processes = {"api": api, "worker": worker}
            yield Growing(platform, imported, processes, client, sizes)
        finally:
            client.close()


def _importing(platform: Platform, names: tuple[str, ...]) -> Child:
    child = platform.start("imports", "-c", importing(names, "import signal; signal.pause()"))
    wait_until(
        lambda: b"imported" in (child.command.log or Path()).read_bytes(),
        child,
        deadline_seconds=30.0,
        what="imported",
    )
    return child


def resident(pid: int) -> float:
    """MiB that a process has in memory."""
    lines = (Path("/proc") / str(pid) / "status").read_text().splitlines()
    sizes = [line for line in lines if line.startswith("VmRSS")]
    return int(sizes[0].split()[1]) / 1024


async def limit(growing: Growing) -> Measured:
    """What the imports alone take."""
    return {name: resident(growing.imported[name].pid) for name in SIDES}


async def ours(growing: Growing) -> Measured:
    """At the start, then at each tenth of the jobs."""
    start = {name: resident(growing.processes[name].pid) for name in SIDES}
    growing.course = {name: [] for name in SIDES}
    before = await look(growing.platform, SUCCEEDED)
    for _ in range(STEPS):
        await asyncio.to_thread(_submit, growing, growing.sizes["jobs"] // STEPS)
        await until_drained(growing.platform)
        for name in SIDES:
            growing.course[name].append(resident(growing.processes[name].pid))
    done = await look(growing.platform, SUCCEEDED) - before
    if done != growing.sizes["jobs"]:
        raise BenchFailed(f"{done} of {growing.sizes['jobs']} jobs succeeded")
    changes = {f"{name} from a tenth on": change(growing.course[name]) for name in SIDES}
    return {**start, **changes}


def change(course: Sequence[float]) -> float:
    """The largest change from the first value, in per cent of it."""
    return max(abs(100 * (each / course[0] - 1)) for each in course)


def _submit(growing: Growing, jobs: int) -> None:
    left = jobs
    while left:
        single = min(SINGLE, left)
        for _ in range(single):
            number = next(NUMBERS)
            body = written(job(NOOP, number=number))
            growing.client.require(202, "POST", "/v1/jobs", body, f"memory-{number}")
        many = min(100 - SINGLE, left - single)
        if many:
            items = [job(NOOP, number=next(NUMBERS)) for _ in range(many)]
            said = growing.client.require(200, "POST", "/v1/jobs:batch", written({"jobs": items}))
            if json.loads(said)["created"] != many:
                raise BenchFailed(f"{many} jobs were not all made: {said[:300].decode()}")
        left -= single + many


def judge(limits: Sequence[Measured], ours: Sequence[Measured]) -> list[Figure]:
    """Above the imports at the start; how far it moves afterwards."""
    figures = []
    for name in SIDES:
        mine, bare = each(ours, name), each(limits, name)
        at_start = f"{name}: at start above the imports"
        figures.append(difference(at_start, mine, bare, unit="MiB", at_most=MOST_MIB))
        moved = each(ours, f"{name} from a tenth on")
        figures.append(
            counted(f"{name}: change over the jobs", moved, unit="%", at_most=MOST_SHARE)
        )
    return figures


def detail(growing: Growing) -> Mapping[str, Any]:
    """MiB at each tenth."""
    return {name: [round(size, 1) for size in sizes] for name, sizes in growing.course.items()}


ROW = Row(
    name="memory",
    title="memory, and over 50,000 jobs",
    against="imports alone; its own tenth part",
    sizes={
        Scale.TINY: {"rounds": 1, "jobs": 200},
        Scale.QUICK: {"rounds": 1, "jobs": 2_000},
        Scale.USUAL: {"rounds": 1, "jobs": 50_000},
        Scale.LONG: {"rounds": 1, "jobs": 500_000},
    },
    prepare=prepare,
    limit=limit,
    ours=ours,
    judge=judge,
    detail=detail,
)
