"""Requests to SQS per drained job: send, receive, delete, and whatever else is asked."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bench.counting import sqs_calls
from bench.drains import ENV, drain
from bench.figures import Figure, count
from bench.place import Place, Platform
from bench.row import Measured, Row, Scale, Sizes, counted_only, each
from dev.processes import free_port

MOST_REQUESTS = 0.4
# The last deletes leave after the jobs have ended.
DELETES_SECONDS = 1.0


@dataclass(slots=True)
class Asking:
    """A worker whose calls are counted by itself (`chot_sqs_calls`)."""

    platform: Platform
    port: int
    jobs: int


@asynccontextmanager
async def prepare(place: Place, sizes: Sizes) -> AsyncIterator[Asking]:
    """One worker, 32 slots: the fewest that the target speaks of."""
    port = free_port()
    slots = {"CHOT_CONCURRENCY": "32", "CHOT_QUEUES": "default:32"}
    async with place.platform(**ENV | slots, CHOT_WORKER_METRICS_PORT=str(port)) as platform:
        platform.worker()
        await drain(platform, sizes["warm"])
        yield Asking(platform, port, sizes["jobs"])


async def ours(asking: Asking) -> Measured:
    """All calls from the submit to the last delete."""
    before = sqs_calls(asking.port)
    await drain(asking.platform, asking.jobs)
    await asyncio.sleep(DELETES_SECONDS)
    after = sqs_calls(asking.port)
    made = {name: (calls - before.get(name, 0)) / asking.jobs for name, calls in after.items()}
    return made | {"all": sum(made.values())}


def judge(_: Sequence[Measured], ours: Sequence[Measured]) -> list[Figure]:
    """Against 0.4; three batches of ten are 0.3."""
    told = [count(f"{name} a job", each(ours, name), unit="") for name in ours[0] if name != "all"]
    return [count("requests a job", each(ours, "all"), unit="", at_most=MOST_REQUESTS), *told]


ROW = Row(
    name="requests",
    title="SQS requests per drained job, concurrency 32",
    against="counted; three full batches are 0.3",
    sizes={
        Scale.TINY: {"rounds": 1, "jobs": 100, "warm": 20},
        Scale.QUICK: {"rounds": 1, "jobs": 1_000, "warm": 100},
        Scale.USUAL: {"rounds": 1, "jobs": 10_000, "warm": 500},
        Scale.LONG: {"rounds": 3, "jobs": 20_000, "warm": 500},
    },
    prepare=prepare,
    limit=counted_only,
    ours=ours,
    judge=judge,
)
