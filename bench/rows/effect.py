"""Database work per drained job that writes one effect row."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from bench.figures import Figure, count
from bench.kinds import EFFECT
from bench.place import Place
from bench.row import Measured, Row, Scale, Sizes, counted_only, each
from bench.rows.counts import Counting, detail, open_counting
from bench.rows.counts import ours as counted
from bench.running import BenchFailed

MOST_STATEMENTS = 5
MOST_COMMITS = 2


@asynccontextmanager
async def prepare(place: Place, sizes: Sizes) -> AsyncIterator[Counting]:
    """Counting jobs with an effect."""
    async with open_counting(place, sizes, EFFECT) as counting:
        yield counting


async def ours(counting: Counting) -> Measured:
    """As of no-op jobs; and each has written its row, once."""
    before = await _effects(counting)
    measured = await counted(counting)
    written = await _effects(counting) - before
    if written != counting.jobs:
        raise BenchFailed(f"{counting.jobs} jobs have written {written} rows")
    return measured


async def _effects(counting: Counting) -> int:
    found = await counting.platform.superuser.fetchval("SELECT count(*) FROM bench.effects")
    return int(found)


def judge(_: Sequence[Measured], ours: Sequence[Measured]) -> list[Figure]:
    """Against the numbers of the issue."""
    return [
        count("statements a job", each(ours, "statements"), unit="", at_most=MOST_STATEMENTS),
        count("commits a job", each(ours, "commits"), unit="", at_most=MOST_COMMITS),
        count("WAL a job", each(ours, "WAL bytes"), unit="bytes"),
        count("BEGIN and COMMIT sent a job", each(ours, "begins and commits sent"), unit=""),
    ]


ROW = Row(
    name="effect",
    title="the same, one effect row per job",
    against="counted",
    sizes={
        Scale.TINY: {"rounds": 1, "jobs": 100, "warm": 20},
        Scale.QUICK: {"rounds": 1, "jobs": 500, "warm": 100},
        Scale.USUAL: {"rounds": 1, "jobs": 5_000, "warm": 500},
        Scale.LONG: {"rounds": 3, "jobs": 20_000, "warm": 500},
    },
    prepare=prepare,
    limit=counted_only,
    ours=ours,
    judge=judge,
    detail=detail,
)
