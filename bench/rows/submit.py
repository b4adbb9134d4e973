"""Submits over HTTP with a key, beside a bare FastAPI endpoint that commits the same four rows.

Ten clients that wait for their answers (rate), then 200 a second whatever the answers do (p99); the
same with SQS silent: calls to it are accepted and never answered. Every answer must be a 202, and
as many jobs, payloads and stored answers must be there as were answered.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

from bench.asking import ask_module
from bench.figures import Figure, ratio
from bench.figures import count as counted
from bench.place import START_SECONDS, Place, Platform
from bench.row import Measured, Row, Scale, Sizes, each
from bench.running import BenchFailed
from dev.processes import answers, free_port, wait_until

CLIENTS = 10
POOL_SIZE = 10  # CHOT_API_POOL_SIZE unless it is set
PER_SECOND = 200
OPEN_CLIENTS = 50
LEAST_RATE = 0.7
MOST_P99 = 2.0
FIRSTS = count(1_000_000, 1_000_000)
ROWS = """
    SELECT (SELECT count(*) FROM chot.jobs), (SELECT count(*) FROM chot.job_payloads),
           (SELECT count(*) FROM chot.idempotency_keys)"""


@dataclass(slots=True)
class Served:
    """A server of submits, and how many it has answered."""

    platform: Platform
    port: int
    answered: int = 0


@dataclass(slots=True)
class Submitting:
    """The three: bare, ours, and ours without SQS."""

    bare: Served
    ours: Served
    silent: Served
    sizes: Sizes


@asynccontextmanager
async def prepare(place: Place, sizes: Sizes) -> AsyncIterator[Submitting]:
    """Everything started and warm."""
    async with (
        place.platform() as bare,
        place.platform() as ours,
        _black_hole() as hole,
        place.platform(AWS_ENDPOINT_URL_SQS=f"http://127.0.0.1:{hole}") as silent,
    ):
        submitting = Submitting(
            bare=Served(bare, _start_bare(bare)),
            ours=Served(ours, ours.api()[1]),
            silent=Served(silent, silent.api()[1]),
            sizes=sizes,
        )
        for served in (submitting.bare, submitting.ours, submitting.silent):
            await _load(served, sizes["warm"], CLIENTS)
        yield submitting


def _start_bare(platform: Platform) -> int:
    port = free_port()
    asked = (str(port), platform.database.app_url, str(POOL_SIZE))
    child = platform.start("bare", "-m", "bench.limits.bare_api", *asked)
    wait_until(
        lambda: answers(port, "/readyz"), child, deadline_seconds=START_SECONDS, what="ready"
    )
    return port


@asynccontextmanager
async def _black_hole() -> AsyncIterator[int]:
    """A port that takes every connection and answers nothing."""
    closing = asyncio.Event()

    async def swallow(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await closing.wait()
        writer.close()

    server = await asyncio.start_server(swallow, "127.0.0.1", 0)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        closing.set()
        server.close()


async def limit(submitting: Submitting) -> Measured:
    """The bare endpoint: rate, then p99."""
    return await _measure(submitting.bare, submitting.sizes)


async def ours(submitting: Submitting) -> Measured:
    """Ours with SQS, and without."""
    measured = await _measure(submitting.ours, submitting.sizes)
    silent = await _measure(submitting.silent, submitting.sizes)
    return {**measured, **{f"{name}, SQS silent": value for name, value in silent.items()}}


async def _measure(served: Served, sizes: Sizes) -> Measured:
    closed = await _load(served, sizes["requests"], CLIENTS)
    opened = await _load(served, PER_SECOND * sizes["seconds"], OPEN_CLIENTS, PER_SECOND)
    return {
        "rate": closed["rate"],
        "p99": 1000 * opened["p99"],
        "p50": 1000 * opened["p50"],
        "client busy": closed["busy"],
    }


async def _load(served: Served, requests: int, clients: int, per_second: int = 0) -> Any:
    load = await ask_module(
        served.platform,
        "bench.submits",
        *("--port", str(served.port), "--count", str(requests), "--clients", str(clients)),
        *("--per-second", str(per_second), "--first", str(next(FIRSTS))),
        BENCH_TOKEN=served.platform.key,
    )
    served.answered += requests
    rows = tuple(await served.platform.superuser.fetchrow(ROWS))
    if load["failed"] or rows != (served.answered,) * len(rows):
        raise BenchFailed(
            f"{load['failed']} of {requests} requests failed; after {served.answered} in all "
            f"there are jobs, payloads and stored answers: {rows}"
        )
    return load


def judge(limits: Sequence[Measured], ours: Sequence[Measured]) -> list[Figure]:
    """Rates and p99 against those of the bare endpoint."""
    rate, p99 = each(limits, "rate"), each(limits, "p99")
    figures = []
    for state in ("", ", SQS silent"):
        mine, late = each(ours, f"rate{state}"), each(ours, f"p99{state}")
        figures.append(
            ratio(f"submits a second{state}", mine, rate, unit="/s", at_least=LEAST_RATE)
        )
        figures.append(ratio(f"p99 at 200/s{state}", late, p99, unit="ms", at_most=MOST_P99))
    p50 = ratio("p50 at 200/s", each(ours, "p50"), each(limits, "p50"), unit="ms")
    return [*figures, p50, counted("processor of the client", each(limits, "client busy"), unit="")]


ROW = Row(
    name="submit",
    title="submit with key, 1 api process, 10 clients",
    against="a bare FastAPI endpoint that commits the same 4 rows",
    sizes={
        Scale.TINY: {"rounds": 1, "requests": 50, "seconds": 1, "warm": 20},
        Scale.QUICK: {"rounds": 1, "requests": 1_000, "seconds": 2, "warm": 200},
        Scale.USUAL: {"rounds": 3, "requests": 3_000, "seconds": 10, "warm": 500},
        Scale.LONG: {"rounds": 9, "requests": 5_000, "seconds": 20, "warm": 500},
    },
    prepare=prepare,
    limit=limit,
    ours=ours,
    judge=judge,
)
