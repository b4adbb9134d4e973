"""Database work per drained no-op job: statements, commits, WAL. Relay included, all counted."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from bench.counting import Counter, open_counter
from bench.drains import ENV, drain
from bench.figures import Figure, count
from bench.kinds import NOOP
from bench.place import Place, Platform
from bench.row import Measured, Row, Scale, Sizes, counted_only, each

MOST_STATEMENTS = 0.6
MOST_COMMITS = 0.4
MOST_BYTES = 2048


@dataclass(slots=True)
class Counting:
    """A worker that waits for jobs, and who counts what it does."""

    platform: Platform
    counter: Counter
    jobs: int
    kind: str
    profile: list[dict[str, Any]] = field(default_factory=list)


@asynccontextmanager
async def open_counting(place: Place, sizes: Sizes, kind: str) -> AsyncIterator[Counting]:
    """Started, warm, and with prepared statements."""
    async with place.platform(**ENV) as platform, open_counter(platform, vacuums=False) as counter:
        platform.worker()
        await drain(platform, sizes["warm"], kind=kind)
        yield Counting(platform, counter, sizes["jobs"], kind)


@asynccontextmanager
async def prepare(place: Place, sizes: Sizes) -> AsyncIterator[Counting]:
    """Counting no-op jobs."""
    async with open_counting(place, sizes, NOOP) as counting:
        yield counting


async def ours(counting: Counting) -> Measured:
    """Drain and count; the bench's own statements are another role's."""
    counter, kind = counting.counter, counting.kind
    await counter.settle()
    # From the submit's own COMMIT on: what its rows cost is not the drain's.
    drained = await drain(counting.platform, counting.jobs, kind=kind, written=counter.begin)
    counted = await counter.end()
    counting.profile = counted.profile(counting.jobs)
    jobs = counting.jobs
    return {
        "statements": counted.calls / jobs,
        "begins and commits sent": counted.ends / jobs,
        "commits": counted.commits / jobs,
        "commits that wrote": counted.wal_commits / jobs,
        "WAL bytes": counted.wal / jobs,
        "claimed again": drained.again,
    }


def judge(_: Sequence[Measured], ours: Sequence[Measured]) -> list[Figure]:
    """Against the numbers of the issue."""
    return [
        count("statements a job", each(ours, "statements"), unit="", at_most=MOST_STATEMENTS),
        count("commits a job", each(ours, "commits"), unit="", at_most=MOST_COMMITS),
        count("WAL a job", each(ours, "WAL bytes"), unit="bytes", at_most=MOST_BYTES),
        count("BEGIN and COMMIT sent a job", each(ours, "begins and commits sent"), unit=""),
        count("commits that wrote, a job", each(ours, "commits that wrote"), unit=""),
    ]


def detail(counting: Counting) -> Mapping[str, Any]:
    """Each statement's calls, WAL and time a job."""
    return {"statements": counting.profile}


SIZES: Mapping[Scale, Sizes] = {
    Scale.TINY: {"rounds": 1, "jobs": 100, "warm": 20},
    Scale.QUICK: {"rounds": 1, "jobs": 2_000, "warm": 200},
    Scale.USUAL: {"rounds": 1, "jobs": 20_000, "warm": 500},
    Scale.LONG: {"rounds": 3, "jobs": 20_000, "warm": 500},
}
ROW = Row(
    name="counts",
    title="database work per drained no-op job, relay included",
    against="counted",
    sizes=SIZES,
    prepare=prepare,
    limit=counted_only,
    ours=ours,
    judge=judge,
    detail=detail,
)
