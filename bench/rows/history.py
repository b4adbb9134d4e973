"""Claim, list and submit beside millions of ended jobs, and beside a transaction that stays open.

The limit is the same platform without a history. Then, on the one with it, a transaction that holds
a snapshot stays open while a worker drains and submits go on: what it keeps from being removed is
in the way of the same three.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from time import monotonic, perf_counter
from typing import Any

import asyncpg
from sqlalchemy.ext.asyncio import AsyncEngine

from bench.drains import ENV, drain
from bench.figures import Figure, quantile, ratio
from bench.http import Client, job, written
from bench.kinds import KINDS, NOOP
from bench.place import BRAND, COMPANY, Place, Platform
from bench.row import Measured, Row, Scale, Sizes
from bench.running import BenchFailed
from shared.database import open_engine
from shared.jobs.enqueue import Submit, enqueue_many
from shared.settings import LeaseTiming
from shared.types import JobId, WorkerId
from tests.scenarios.many import load
from worker.claim import Claimant, claim_jobs

STEPS = ("claim", "list", "submit")
MOST, MOST_HELD = 1.2, 2.0
CLAIMED = 10
NUMBERS = count(10_000_000)
CHURN = 1_000  # jobs of one drain while the transaction is open
# Pages as long on either side: what is compared is the search, not the rows that are found.
LISTS = (
    "/v1/jobs",
    f"/v1/jobs?company={COMPANY}&brand={BRAND}",
    "/v1/jobs?state=pending",
    "/v1/jobs?state=running",
    f"/v1/jobs?kind={NOOP}&state=dead",
    f"/v1/jobs?kind={NOOP}&state=succeeded",
)
TIMING = LeaseTiming(
    lease=3600, heartbeat=8, visibility=7200, margin=4, idle_in_transaction=20, lock_timeout=4
)


@dataclass(slots=True)
class Side:
    """A platform with an api, and an engine as a worker's for claims."""

    platform: Platform
    client: Client
    engine: AsyncEngine


@dataclass(slots=True)
class Histories:
    """Without a history, and with one."""

    empty: Side
    full: Side
    sizes: Sizes
    rounds: int = 0
    held: dict[str, float] = field(default_factory=dict)


@asynccontextmanager
async def prepare(place: Place, sizes: Sizes) -> AsyncIterator[Histories]:
    """Load the history by SQL, start an api on each."""
    async with (
        place.platform(**ENV) as empty,
        place.platform(**ENV) as full,
    ):
        await load(full.database, finished=sizes["jobs"], pending=0)
        async with _side(empty) as first, _side(full) as second:
            histories = Histories(first, second, sizes)
            for side in (first, second):
                await _measure(side, sizes["warm"])
            yield histories


@asynccontextmanager
async def _side(platform: Platform) -> AsyncIterator[Side]:
    _, port = platform.api()
    client = Client(port, platform.key)
    engine = open_engine(platform.database.app_url, pool_size=2)
    try:
        yield Side(platform, client, engine)
    finally:
        client.close()
        await engine.dispose()


async def limit(histories: Histories) -> Measured:
    """Without a history."""
    return await _measure(histories.empty, histories.sizes["samples"])


async def ours(histories: Histories) -> Measured:
    """With it; in the last round also while a transaction is held open."""
    samples = histories.sizes["samples"]
    measured = await _measure(histories.full, samples)
    histories.rounds += 1
    if histories.rounds < histories.sizes["rounds"]:
        return measured
    async with _held(histories.full.platform):
        await _churn(histories.full.platform, histories.sizes["held"])
        histories.held = dict(await _measure(histories.full, samples))
    return {**measured, **{f"{step}, held": ms for step, ms in histories.held.items()}}


@asynccontextmanager
async def _held(platform: Platform) -> AsyncIterator[None]:
    """A transaction with a snapshot and an id of its own, from now on."""
    holding = await asyncpg.connect(platform.database.superuser_url)
    try:
        await holding.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await holding.fetchval("SELECT pg_current_xact_id()::text")
        yield
        await holding.execute("ROLLBACK")
    finally:
        await holding.close()


async def _churn(platform: Platform, seconds: int) -> None:
    """Submits and drains until the time is over: rows that die and cannot be removed."""
    worker = platform.worker()
    until = monotonic() + seconds
    while monotonic() < until:
        await drain(platform, CHURN)
    worker.stop(grace=30.0)
    platform.children.remove(worker)


async def _measure(side: Side, samples: int) -> Measured:
    """The p95 of each step, in ms."""
    claims = [await _claim(side) for _ in range(samples)]
    lists = await asyncio.to_thread(_timed, samples, lambda n: _list(side, n))
    submits = await asyncio.to_thread(_timed, samples, lambda _: _submit(side))
    return {
        name: 1000 * quantile(times, 0.95)
        for name, times in zip(STEPS, (claims, lists, submits), strict=True)
    }


def _timed(samples: int, once: Callable[[int], None]) -> list[float]:
    times = []
    for number in range(samples):
        began = perf_counter()
        once(number)
        times.append(perf_counter() - began)
    return times


async def _claim(side: Side) -> float:
    """Ten jobs by their ids, as a worker claims what a receive has brought."""
    jobs = [
        Submit(kind=NOOP, company=COMPANY, brand=BRAND, payload={"number": next(NUMBERS)})
        for _ in range(CLAIMED)
    ]
    async with side.engine.begin() as conn:
        ids = [JobId(made.job_id) for made in await enqueue_many(conn, jobs)]
    auto = side.engine.execution_options(isolation_level="AUTOCOMMIT")
    claimant = Claimant(
        worker_id=WorkerId("bench"),
        code_version="bench",
        kinds={kind.name: kind for kind in KINDS},
        timing=TIMING,
    )
    began = perf_counter()
    held = await claim_jobs(auto, claimant, ids)
    seconds = perf_counter() - began
    if len(held) != CLAIMED:
        raise BenchFailed(f"{len(held)} of {CLAIMED} jobs were claimed")
    await side.platform.superuser.execute(END, ids)
    return seconds


END = """
    UPDATE chot.jobs
       SET state = 'succeeded', finished_at = clock_timestamp(), lease_token = NULL,
           lease_expires_at = NULL, worker_id = NULL
     WHERE id = ANY($1)"""


def _list(side: Side, number: int) -> None:
    side.client.require(200, "GET", LISTS[number % len(LISTS)])


def _submit(side: Side) -> None:
    number = next(NUMBERS)
    body = written(job(NOOP, number=number))
    side.client.require(202, "POST", "/v1/jobs", body, f"history-{number}")


def judge(limits: Sequence[Measured], ours: Sequence[Measured]) -> list[Figure]:
    """With a history against without; held against the same without it."""
    figures = []
    for step in STEPS:
        mine, bare = [each[step] for each in ours], [each[step] for each in limits]
        figures.append(ratio(f"{step}: p95, history : none", mine, bare, unit="ms", at_most=MOST))
    last = ours[-1]
    for step in STEPS:
        held = [last[f"{step}, held"]]
        name = f"{step}: p95, transaction held : not"
        figures.append(ratio(name, held, [last[step]], unit="ms", at_most=MOST_HELD))
    return figures


def detail(histories: Histories) -> Mapping[str, Any]:
    """How much history, and for how long it was held."""
    return {"ended jobs": histories.sizes["jobs"], "held seconds": histories.sizes["held"]}


ROW = Row(
    name="history",
    title="claim, list, submit with ended jobs, and with a transaction held open",
    against="without; not held",
    sizes={
        Scale.TINY: {"rounds": 1, "jobs": 2_000, "samples": 5, "held": 1, "warm": 6},
        Scale.QUICK: {"rounds": 1, "jobs": 20_000, "samples": 40, "held": 3, "warm": 60},
        Scale.USUAL: {"rounds": 3, "jobs": 200_000, "samples": 100, "held": 20, "warm": 60},
        Scale.LONG: {"rounds": 5, "jobs": 5_000_000, "samples": 400, "held": 600, "warm": 60},
    },
    prepare=prepare,
    limit=limit,
    ours=ours,
    judge=judge,
    detail=detail,
)
