"""Memory, descriptors, tasks and clients stay what they are through jobs and reconnects (F56)."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from dev.processes import Child, answers, free_port, wait_until
from shared.kinds.registry import load_kinds, mirror_kinds
from tests.factories import NUMBERS, eventually, execute, make_job, scalar
from tests.fleet import Fleet
from tests.journeys.looking import reached, result_of, said, working
from tests.sqs_proxy import SqsProxy
from tests.tcp_proxy import Proxy

MODULES = {
    "CHOT_KIND_MODULES": "tests.probes.kinds,tests.probes.memory_kinds",
    "CHOT_HANDLER_MODULES": "tests.probes.handlers,tests.probes.memory_handlers",
}
GROWTH = 1.15
# Connections of a pool come and go with their cuts.
DESCRIPTORS_MORE = 12
TASKS_MORE = 6
CUT_SECONDS = 0.2
SUBMIT_TINY = """
    SELECT count(*) FROM generate_series(CAST(:first AS bigint), :first + :jobs - 1) AS n,
           LATERAL chot.enqueue('probe.tiny', 'ACME', 'RED', jsonb_build_object('number', n))"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What one process takes."""

    rss_kib: int
    descriptors: int

    @classmethod
    def of(cls, child: Child) -> "Size":
        """Read it from /proc."""
        home = Path("/proc") / str(child.pid)
        status = (home / "status").read_text()
        rss = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return cls(rss_kib=int(rss.split()[1]), descriptors=len(list((home / "fd").iterdir())))


@dataclass(slots=True, kw_only=True)
class Trial:
    """A worker and an api behind both proxies, and what befalls them."""

    engine: AsyncEngine
    http: httpx.AsyncClient
    sqs: SqsProxy
    pg: Proxy
    children: Sequence[Child]
    jobs: int

    async def round(self) -> None:
        """So many jobs, one cut of SQS and one of the database; until all of them have ended."""
        first = 10_000_000 + next(NUMBERS) * 100_000
        await execute(self.engine, SUBMIT_TINY, first=first, jobs=self.jobs)
        self.sqs.resetting = True
        await asyncio.sleep(CUT_SECONDS)  # the length of the cut, not a wait for anything
        self.sqs.resetting = False
        self.pg.reset()
        await asyncio.gather(*(self._ask(number) for number in range(5)))
        await eventually(self._done, seconds=120, every=0.1)

    async def _ask(self, number: int) -> None:
        answer = await self.http.get("/v1/jobs", params={"limit": 1 + number})
        assert answer.status_code in {200, 503}, answer.text

    async def _done(self) -> bool:
        active = "SELECT count(*) FROM chot.jobs WHERE state IN ('pending', 'running')"
        return bool(await scalar(self.engine, active) == 0)

    async def sizes(self) -> list[Size]:
        """Of the worker and the api."""
        return [Size.of(child) for child in self.children]

    async def census(self) -> dict[str, Any]:
        """What the worker counts in itself, and the api's tasks."""
        job_id = await make_job(self.engine, "probe.census")
        await reached(self.engine, job_id, "succeeded")
        counted: dict[str, Any] = await result_of(self.engine, job_id)

        async def metrics() -> str | None:
            answer = await self.http.get("/metrics")
            return answer.text if answer.status_code == 200 else None

        text = str(await eventually(metrics))
        line = next(each for each in text.splitlines() if each.startswith("chot_asyncio_tasks"))
        return counted | {"api_tasks": float(line.split()[1])}


@asynccontextmanager
async def counted_api(
    fleet: Fleet, **changes: str
) -> AsyncIterator[tuple[Child, httpx.AsyncClient]]:
    """An api that counts its clients when it is told to; and a client of it."""
    port = free_port()
    argv = [sys.executable, "-m", "tests.scenarios.counted_api"]
    ours = {"CHOT_API_HOST": "127.0.0.1", "CHOT_API_PORT": str(port)}
    child = fleet._start("api", argv, ours | changes)
    ready = partial(answers, port, "/readyz")
    await asyncio.to_thread(wait_until, ready, child, deadline_seconds=30, what="ready")
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
        yield child, client


async def clients_of(api: Child) -> tuple[int, int]:
    """How many SQS clients and sessions the api has now."""
    api.send(signal.SIGUSR2)
    told = await said(api, "clients.counted")
    return told["clients"], told["sessions"]


@pytest.mark.alone
@pytest.mark.scenario("F56")
@pytest.mark.parametrize(
    ("jobs", "warm", "rounds"),
    [(40, 4, 6), pytest.param(250, 20, 200, marks=pytest.mark.long)],
    ids=["short", "whole"],
)
async def test_nothing_grows_with_jobs_or_reconnects(
    probes: AsyncEngine,
    fleet: Fleet,
    sqs_proxy: SqsProxy,
    pg_proxy: Proxy,
    *,
    jobs: int,
    warm: int,
    rounds: int,
) -> None:
    """Every step and line: 50,000 jobs, 200 cuts of SQS and 200 of the database in the long run.

    Minutes stand for the hour: what grows, grows with jobs and cuts. "One client a process" is
    three in a worker (its polls, its sends and its heartbeat must not wait for each other), each
    with a session, for as long as it lives; in an api it is one.
    """
    async with probes.begin() as conn:
        kinds = load_kinds(MODULES["CHOT_KIND_MODULES"])
        await mirror_kinds(conn, kinds, default_max_attempts=5)
    settings = MODULES | fleet.proxied | {"CHOT_MAX_ATTEMPTS": "50"}
    worker = fleet.worker(CHOT_CONCURRENCY="8", **settings)
    await working(worker)
    async with counted_api(fleet, CHOT_METRICS_SECONDS="0.2", **settings) as (api, http):
        trial = Trial(
            engine=probes, http=http, sqs=sqs_proxy, pg=pg_proxy, children=(worker, api), jobs=jobs
        )
        for _ in range(warm):
            await trial.round()
        before, counted = await trial.sizes(), await trial.census()
        for _ in range(rounds):
            await trial.round()
        after, recounted = await trial.sizes(), await trial.census()
        assert await clients_of(api) == (1, 1)
    assert worker.alive
    assert api.alive
    ended = "SELECT count(*) FROM chot.jobs WHERE state = 'succeeded' AND kind = 'probe.tiny'"
    assert await scalar(probes, ended) == jobs * (warm + rounds)
    for was, now in zip(before, after, strict=True):
        assert now.rss_kib <= was.rss_kib * GROWTH, (before, after)
        assert now.descriptors <= was.descriptors + DESCRIPTORS_MORE, (before, after)
    assert (recounted["clients"], recounted["sessions"]) == (3, 3), (counted, recounted)
    assert recounted["threads"] <= counted["threads"], (counted, recounted)
    for name in ("tasks", "api_tasks"):
        assert recounted[name] <= counted[name] + TASKS_MORE, (counted, recounted)
