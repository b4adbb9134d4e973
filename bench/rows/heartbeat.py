"""The heartbeat of a hundred leases: how many statements a beat, and do they touch an index."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import Any

from bench.counting import STATISTICS_SECONDS, Counter, hot_updates, open_counter
from bench.drains import look, submit_many
from bench.figures import Figure, count, ratio
from bench.kinds import HOLD
from bench.place import Place, Platform
from bench.row import Measured, Row, Scale, Sizes, each
from bench.running import BenchFailed
from dev.processes import free_port

MOST_STATEMENTS = 1.0
LEAST_HOT = 95.0
LONGEST_SECONDS = 120.0
RENEWS = "lease_expires_at = clock_timestamp()"
BEATS = 'chot_heartbeats_total{result="ok"} '
PLAIN = """
    UPDATE bench.held SET lease_expires_at = clock_timestamp() + interval '30 seconds'
     WHERE id = ANY(ARRAY(SELECT id FROM chot.jobs WHERE state = 'running'))"""
PLAIN_MS = """
    SELECT sum(total_exec_time) / sum(calls) FROM pg_stat_statements
     WHERE query LIKE '%UPDATE bench.held SET lease%' AND dbid = (
           SELECT oid FROM pg_database WHERE datname = current_database())"""
RUNNING = "SELECT count(*) FROM chot.jobs WHERE state = 'running'"


@dataclass(slots=True)
class Holding:
    """A worker that holds so many leases and does nothing else."""

    platform: Platform
    counter: Counter
    port: int
    sizes: Sizes
    profile: list[dict[str, Any]] = field(default_factory=list)


@asynccontextmanager
async def prepare(place: Place, sizes: Sizes) -> AsyncIterator[Holding]:
    """All leases taken; the limit updates copies of the rows, with the same indexes."""
    leases, port = sizes["leases"], free_port()
    env = {"CHOT_CONCURRENCY": str(leases), "CHOT_QUEUES": f"default:{leases}"}
    async with (
        place.platform(**env, CHOT_WORKER_METRICS_PORT=str(port)) as platform,
        open_counter(platform) as counter,
    ):
        await platform.superuser.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        platform.worker()
        await submit_many(platform, leases, kind=HOLD, seconds=3600.0)
        async with asyncio.timeout(LONGEST_SECONDS):
            while await look(platform, RUNNING) < leases:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.2)
        await platform.superuser.execute("""
            CREATE TABLE bench.held (LIKE chot.jobs INCLUDING ALL) WITH (fillfactor = 75);
            INSERT INTO bench.held SELECT * FROM chot.jobs""")
        yield Holding(platform, counter, port, sizes)


async def limit(holding: Holding) -> Measured:
    """One UPDATE of all rows by primary key, as often as there are beats."""
    for _ in range(holding.sizes["beats"]):
        await holding.platform.superuser.execute(PLAIN)
    return {"ms": await look(holding.platform, PLAIN_MS)}


async def ours(holding: Holding) -> Measured:
    """So many beats, as they come by themselves."""
    platform = holding.platform
    await asyncio.sleep(STATISTICS_SECONDS)
    updates, hot = await hot_updates(platform, "chot", "jobs")
    first = await asyncio.to_thread(_beats, holding.port)
    await holding.counter.begin()
    async with asyncio.timeout(LONGEST_SECONDS + 30 * holding.sizes["beats"]):
        last = first
        while last < first + holding.sizes["beats"]:
            await asyncio.sleep(0.2)
            last = await asyncio.to_thread(_beats, holding.port)
    counted = await holding.counter.end(settle=False)
    await asyncio.sleep(STATISTICS_SECONDS)
    more, more_hot = await hot_updates(platform, "chot", "jobs")
    if await look(platform, RUNNING) != holding.sizes["leases"] or more == updates:
        raise BenchFailed(f"{more - updates} renewals; a lease was lost, or none was renewed")
    beats = last - first
    holding.profile = counted.profile(beats)
    renewals = [each for each in counted.statements if RENEWS in each.query]
    return {
        "statements": sum(each.calls for each in renewals) / beats,
        "all statements": counted.calls / beats,
        "hot": 100 * (more_hot - hot) / (more - updates),
        "ms": sum(each.ms for each in renewals) / max(1, sum(each.calls for each in renewals)),
    }


def _beats(port: int) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/metrics")
        told = connection.getresponse().read().decode()
    finally:
        connection.close()
    found = [line for line in told.splitlines() if line.startswith(BEATS)]
    if not found:
        raise BenchFailed("/metrics of the worker tells no heartbeats")
    return round(float(found[0].removeprefix(BEATS)))


def judge(limits: Sequence[Measured], ours: Sequence[Measured]) -> list[Figure]:
    """Statements that renew, and the share of updates that touched no index."""
    return [
        count("statements a beat", each(ours, "statements"), unit="", at_most=MOST_STATEMENTS),
        count("HOT updates", each(ours, "hot"), unit="%", at_least=LEAST_HOT),
        ratio("time of a beat's statement", each(ours, "ms"), each(limits, "ms"), unit="ms"),
        count("all the worker's statements a beat", each(ours, "all statements"), unit=""),
    ]


def detail(holding: Holding) -> Mapping[str, Any]:
    """All statements of the worker, a beat."""
    return {"statements": holding.profile}


ROW = Row(
    name="heartbeat",
    title="heartbeat of 100 leases",
    against="one UPDATE by primary key",
    sizes={
        Scale.TINY: {"rounds": 1, "beats": 1, "leases": 10},
        Scale.QUICK: {"rounds": 1, "beats": 2, "leases": 100},
        Scale.USUAL: {"rounds": 1, "beats": 4, "leases": 100},
        Scale.LONG: {"rounds": 3, "beats": 20, "leases": 100},
    },
    prepare=prepare,
    limit=limit,
    ours=ours,
    judge=judge,
    detail=detail,
)
