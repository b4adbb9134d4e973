"""What an idle worker and an idle api ask of PostgreSQL and SQS, each counted by itself."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from bench.counting import Counted, Counter, open_counter, sqs_calls
from bench.figures import Figure, count
from bench.place import Place, Platform
from bench.row import Measured, Row, Scale, Sizes, counted_only, each
from dev.processes import free_port

MOST_QUERIES = 60
MOST_REQUESTS = 3
MINUTE = 60.0
QUEUES = "SELECT count(*) FROM chot.worker_queues"


@dataclass(slots=True)
class Side:
    """One process on a platform of its own, its counter, and where its /metrics are."""

    platform: Platform
    counter: Counter
    port: int
    counted: Counted | None = None
    calls: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Idle:
    """Both, with every setting as it is by default."""

    worker: Side
    api: Side
    seconds: int


@asynccontextmanager
async def prepare(place: Place, sizes: Sizes) -> AsyncIterator[Idle]:
    """Started, and left alone until what a start asks for is over."""
    port = free_port()
    async with (
        place.platform(CHOT_WORKER_METRICS_PORT=str(port)) as first,
        place.platform() as second,
        open_counter(first) as of_worker,
        open_counter(second) as of_api,
    ):
        first.worker()
        _, api_port = second.api()
        await asyncio.sleep(sizes["rest"])
        yield Idle(Side(first, of_worker, port), Side(second, of_api, api_port), sizes["seconds"])


async def ours(idle: Idle) -> Measured:
    """So many seconds of nothing to do."""
    both = (idle.worker, idle.api)
    before = [await _calls(side) for side in both]
    for side in both:
        await side.counter.begin()
    await asyncio.sleep(idle.seconds)
    for side, calls in zip(both, before, strict=True):
        side.counted = await side.counter.end(settle=False)
        now = await _calls(side)
        side.calls = {name: made - calls.get(name, 0) for name, made in now.items()}
    queues = await idle.worker.platform.superuser.fetchval(QUEUES)
    return _told(idle, queues)


async def _calls(side: Side) -> Mapping[str, int]:
    return await asyncio.to_thread(sqs_calls, side.port, side.platform.key)


def _told(idle: Idle, queues: int) -> Measured:
    minutes = idle.seconds / MINUTE
    told: dict[str, float] = {"queues": queues}
    for name, side in (("worker", idle.worker), ("api", idle.api)):
        assert side.counted is not None, "both were counted"
        told[f"queries of the {name}"] = side.counted.calls / minutes
        told[f"begins and commits of the {name}"] = side.counted.ends / minutes
        told[f"requests of the {name}"] = sum(side.calls.values()) / minutes
    told["requests a queue"] = told["requests of the worker"] / queues
    return told


def judge(_: Sequence[Measured], ours: Sequence[Measured]) -> list[Figure]:
    """A minute, and a process; for SQS a minute, queue and worker."""
    return [
        count(
            "queries a minute, worker",
            each(ours, "queries of the worker"),
            unit="",
            at_most=MOST_QUERIES,
        ),
        count(
            "queries a minute, api", each(ours, "queries of the api"), unit="", at_most=MOST_QUERIES
        ),
        count(
            "SQS requests a minute, queue and worker",
            each(ours, "requests a queue"),
            unit="",
            at_most=MOST_REQUESTS,
        ),
        count("SQS requests a minute, api", each(ours, "requests of the api"), unit=""),
        count(
            "BEGIN and COMMIT a minute, worker",
            each(ours, "begins and commits of the worker"),
            unit="",
        ),
        count(
            "BEGIN and COMMIT a minute, api", each(ours, "begins and commits of the api"), unit=""
        ),
    ]


def detail(idle: Idle) -> Mapping[str, Any]:
    """Which statements they were, a minute."""
    found = {}
    for name, side in (("worker", idle.worker), ("api", idle.api)):
        if side.counted is not None:
            found[name] = side.counted.profile(1)
    return {"statements": found, "seconds": idle.seconds, "calls": dict(idle.worker.calls)}


ROW = Row(
    name="idle",
    title="idle cost",
    against="counted",
    sizes={
        Scale.TINY: {"rounds": 1, "seconds": 3, "rest": 1},
        Scale.QUICK: {"rounds": 1, "seconds": 20, "rest": 5},
        Scale.USUAL: {"rounds": 1, "seconds": 120, "rest": 15},
        Scale.LONG: {"rounds": 3, "seconds": 300, "rest": 60},
    },
    prepare=prepare,
    limit=counted_only,
    ours=ours,
    judge=judge,
    detail=detail,
)
