"""The platform that is measured: a private PostgreSQL, queues, one worker; and a job run on it."""

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any

import asyncpg
from sqlalchemy.ext.asyncio import AsyncEngine

from bench.memory import MemoryWatch, Peaks, cpu_seconds
from dev.cost_report import conservation, coverage
from dev.postgres import PostgresServer, remove_data
from dev.processes import Command
from dev.stack import Stack
from dev.stack_config import ROOT, StackConfig, child_environment
from dev.stack_members import Member
from dev.stack_ready import wait_for_workers
from shared.database import open_engine, transaction
from shared.jobs.enqueue import Submit, enqueue
from shared.kinds.costing import COSTING_RUN

PERIOD = "2026-01"
LONGEST_SECONDS = 1800.0
POLL_SECONDS = 0.1


class BenchFailed(Exception):
    """A run did not end well, or its numbers do not add up; the text says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A costing job that is over. Seconds are the attempt's, from claim to commit; peaks are MiB.

    `cpu` holds the seconds of CPU of all workers (each with its child) and of the database, which a
    busy machine changes less than it changes the clock's.
    """

    result: dict[str, Any]
    seconds: float
    cpu: dict[str, float]
    phases: dict[str, float]
    peaks: Peaks


@dataclass(frozen=True, slots=True)
class Bench:
    """A running platform."""

    stack: Stack
    workers: list[Member]
    app: AsyncEngine
    read: AsyncEngine
    superuser: asyncpg.Connection
    phases: Path

    @property
    def worker(self) -> Member:
        """The worker that is watched: the first."""
        return self.workers[0]

    @property
    def postmaster(self) -> int:
        """The process that PostgreSQL's backends are children of."""
        return self.server.child.pid

    @property
    def server(self) -> PostgresServer:
        """The private PostgreSQL."""
        server = self.stack.backing.postgres
        if server is None:
            raise BenchFailed("the bench starts its own PostgreSQL")
        return server


@asynccontextmanager
async def open_bench() -> AsyncIterator[Bench]:
    """Everything started, and nothing left of it afterwards."""
    home = _home()
    phases = home / "phases"
    config = StackConfig(home=home, workers=0, apis=0, supervise=False)
    try:
        async with Stack(config) as stack:
            urls = stack.backing.urls
            app = open_engine(urls.app, pool_size=2, application_name="chot bench")
            read = open_engine(urls.read, pool_size=1, application_name="chot bench")
            superuser = await asyncpg.connect(urls.superuser)
            try:
                workers = [await _start_worker(stack, phases, 1)]
                yield Bench(stack, workers, app, read, superuser, phases)
            finally:
                await superuser.close()
                await app.dispose()
                await read.dispose()
    finally:
        remove_data(home / "postgres")
        rmtree(home, ignore_errors=True)


def _home() -> Path:
    home = Path(tempfile.mkdtemp(prefix="chot-bench-"))
    home.chmod(0o755)  # as root, PostgreSQL runs under an account of its own
    return home


async def add_worker(bench: Bench) -> None:
    """One more worker, of whose steps only what it does after the others' parts is told."""
    bench.workers.append(await _start_worker(bench.stack, bench.phases, len(bench.workers) + 1))


async def _start_worker(stack: Stack, phases: Path, number: int) -> Member:
    backing = stack.backing
    environment = child_environment(stack.config, backing.urls, backing.sqs_endpoint)
    worker = Member(
        Command(
            name=f"worker-{number}",
            argv=[sys.executable, "-m", "bench.timed_worker"],
            env={**environment, "BENCH_PHASES": str(phases), "PYTHONPATH": str(ROOT)},
            log=stack.config.logs / f"worker-{number}.log",
        )
    )
    stack.members.append(worker)
    await wait_for_workers(backing.urls.superuser, [worker])
    return worker


async def run_costing(bench: Bench, company: str, **payload: Any) -> Ran:
    """Cost the company, unless the payload has `parts` in as many as the platform takes for itself.

    Raises BenchFailed unless every item is costed and nothing is lost.
    """
    body = {"period": PERIOD, **payload}
    job = Submit(kind=COSTING_RUN.name, company=company, brand=None, payload=body)
    before = _cpu(bench)
    with MemoryWatch(bench.worker.pid) as memory:
        async with transaction(bench.app) as conn:
            job_id = (await enqueue(conn, job)).job_id
        async with asyncio.timeout(LONGEST_SECONDS):
            row = await ended(bench, job_id)
    cpu = {name: round(spent - before[name], 2) for name, spent in _cpu(bench).items()}
    result = json.loads(row["result"])
    if result["items"]["failed"]:
        raise BenchFailed(f"items failed: {json.dumps(result['errors'])[:2000]}")
    await _check(bench, result["run_id"])
    return Ran(
        result=result,
        seconds=round(float(row["seconds"]), 2),
        cpu=cpu,
        phases=json.loads(bench.phases.read_text().splitlines()[-1]),
        peaks=memory.peaks,
    )


def _cpu(bench: Bench) -> Mapping[str, float]:
    return {
        "worker": sum(cpu_seconds(worker.pid) for worker in bench.workers),
        "database": cpu_seconds(bench.postmaster),
    }


ENDED = """
    SELECT j.state, o.result, o.error,
           extract(epoch FROM max(a.ended_at) - min(a.started_at)) AS seconds
      FROM chot.jobs j
      JOIN chot.job_outputs o ON o.job_id = j.id
      JOIN chot.attempts a ON a.job_id = j.id
     WHERE j.id = $1 AND j.state IN ('succeeded', 'dead', 'cancelled')
     GROUP BY j.state, o.result, o.error"""


async def ended(bench: Bench, job_id: object) -> Any:
    """The job's row of ENDED once it has succeeded; raises BenchFailed for any other end."""
    while (row := await bench.superuser.fetchrow(ENDED, job_id)) is None:
        if not bench.worker.alive:
            raise BenchFailed(f"the worker ended:\n{bench.worker.child.last_words()}")
        await asyncio.sleep(POLL_SECONDS)
    if row["state"] != "succeeded":
        raise BenchFailed(f"the job is {row['state']}: {row['error']}")
    return row


async def _check(bench: Bench, run_id: int) -> None:
    """The proof of the demo: each movement has one cost, and no unit of value is lost or made."""
    async with bench.read.connect() as conn:
        counted, kept = await coverage(conn, run_id), await conservation(conn, run_id)
    if not counted.exact or not kept.holds:
        raise BenchFailed(f"run {run_id} does not add up: {counted} {kept}")
