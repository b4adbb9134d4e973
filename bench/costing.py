"""One million movements, costed by every method: real PostgreSQL, real worker, end to end.

The same movements serve all methods: lots, transfers between the stores' pools and in circles,
returns, freight, counts. Each run replaces what the one before made active, as a change of method
would. What is told was measured by the database's clock, the kernel and the worker's own watches.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any

import asyncpg
from sqlalchemy.ext.asyncio import AsyncEngine

from bench.memory import MemoryWatch, Peaks
from dev.cost_report import conservation, coverage
from dev.postgres import remove_data
from dev.processes import Command
from dev.sample_company import DEFAULT_PERIOD, SampleSummary, load_sample
from dev.sample_movements import WHOLE
from dev.stack import Stack, say_on_stderr
from dev.stack_backing import telling_of
from dev.stack_config import ROOT, StackConfig, child_environment
from dev.stack_members import Member
from dev.stack_ready import wait_for_workers
from shared.database import open_engine, transaction
from shared.jobs.enqueue import Submit, enqueue
from shared.kinds.costing import COSTING_RUN

METHODS = ("periodic_avg", "moving_avg", "fifo", "specific")
COMPANY = "BENCH"
LONGEST_SECONDS = 1800.0
POLL_SECONDS = 0.1


class BenchFailed(Exception):
    """A run did not end well, or its numbers do not add up; the text says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What to cost."""

    movements: int = 1_000_000
    items: int = 20_000
    seed: int = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One run. `seconds` is the attempt from claim to commit; `peaks` are MiB."""

    method: str
    pool: str
    movements: int
    items: int
    pools: int
    largest_circle: int
    seconds: float
    phases: dict[str, float]
    peaks: Peaks
    result_megabytes: int
    checksum: str

    def as_json(self) -> dict[str, Any]:
        """Everything, for --json and for the table."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Bench:
    """A running platform with the company loaded."""

    stack: Stack
    worker: Member
    app: AsyncEngine
    read: AsyncEngine
    superuser: asyncpg.Connection
    phases: Path
    sample: SampleSummary


@asynccontextmanager
async def open_bench(size: Size) -> AsyncIterator[Bench]:
    """A private PostgreSQL, queues and one worker; nothing is left of them afterwards."""
    home = Path(tempfile.mkdtemp(prefix="chot-bench-"))
    home.chmod(0o755)  # as root, PostgreSQL runs under an account of its own
    phases = home / "phases"
    config = StackConfig(home=home, workers=0, apis=0, supervise=False)
    try:
        async with Stack(config) as stack:
            urls = stack.backing.urls
            app = open_engine(urls.app, pool_size=2, application_name="chot bench")
            read = open_engine(urls.read, pool_size=1, application_name="chot bench")
            superuser = await asyncpg.connect(urls.superuser)
            try:
                sample = await load_sample(
                    app,
                    seed=size.seed,
                    movements=size.movements,
                    items=size.items,
                    company=COMPANY,
                    habits=WHOLE,
                    progress=telling_of(say_on_stderr),
                )
                await superuser.execute("VACUUM (ANALYZE)")  # as autovacuum would soon after
                worker = await _start_worker(stack, phases)
                yield Bench(stack, worker, app, read, superuser, phases, sample)
            finally:
                await superuser.close()
                await app.dispose()
                await read.dispose()
    finally:
        remove_data(home / "postgres")
        rmtree(home, ignore_errors=True)


async def _start_worker(stack: Stack, phases: Path) -> Member:
    backing = stack.backing
    environment = child_environment(stack.config, backing.urls, backing.sqs_endpoint)
    worker = Member(
        Command(
            name="worker-1",
            argv=[sys.executable, "-m", "bench.timed_worker"],
            env={**environment, "BENCH_PHASES": str(phases), "PYTHONPATH": str(ROOT)},
            log=stack.config.logs / "worker-1.log",
        )
    )
    stack.members.append(worker)
    await wait_for_workers(backing.urls.superuser, [worker])
    return worker


async def measure(bench: Bench, method: str, *, pool: str = "store") -> Measured:
    """Cost everything by one method. Raises BenchFailed unless it is all right, to the unit."""
    await bench.superuser.execute("UPDATE books.items SET costing_method = $1", method)
    body = {"period": DEFAULT_PERIOD, "pool": pool, "method": method, "parts": 1}
    job = Submit(kind=COSTING_RUN.name, company=COMPANY, brand=None, payload=body)
    with MemoryWatch(bench.worker.pid) as memory:
        async with transaction(bench.app) as conn:
            job_id = (await enqueue(conn, job)).job_id
        async with asyncio.timeout(LONGEST_SECONDS):
            row = await _ended(bench, job_id)
    result = json.loads(row["result"])
    if result["items"]["failed"]:
        raise BenchFailed(f"{method}: items failed: {json.dumps(result['errors'])[:2000]}")
    await _check(bench, result["run_id"])
    facts = await bench.superuser.fetchrow(FACTS, result["run_id"])
    return Measured(
        method=method,
        pool=pool,
        movements=result["movements"],
        items=result["items"]["total"],
        pools=facts["pools"],
        largest_circle=facts["largest_circle"],
        seconds=round(float(row["seconds"]), 2),
        phases=json.loads(bench.phases.read_text().splitlines()[-1]),
        peaks=memory.peaks,
        result_megabytes=facts["megabytes"],
        checksum=result["checksum"],
    )


ENDED = """
    SELECT j.state, o.result, o.error,
           extract(epoch FROM max(a.ended_at) - min(a.started_at)) AS seconds
      FROM chot.jobs j
      JOIN chot.job_outputs o ON o.job_id = j.id
      JOIN chot.attempts a ON a.job_id = j.id
     WHERE j.id = $1 AND j.state IN ('succeeded', 'dead', 'cancelled')
     GROUP BY j.state, o.result, o.error"""
FACTS = """
    SELECT (SELECT count(*) FROM books.pool_results WHERE run_id = $1) AS pools,
           (SELECT max(scc_size) FROM books.pool_results WHERE run_id = $1) AS largest_circle,
           (SELECT sum(pg_total_relation_size(c.oid)) / 1048576 FROM pg_class c
             WHERE c.relkind = 'r' AND c.relname LIKE '%\\_r' || $1)::int AS megabytes"""


async def _ended(bench: Bench, job_id: object) -> Any:
    while True:
        row = await bench.superuser.fetchrow(ENDED, job_id)
        if row is not None:
            break
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


async def cost_all(size: Size, methods: Sequence[str]) -> list[Measured]:
    """Every method, one after the other, on one load of movements."""
    async with open_bench(size) as bench:
        loaded = bench.sample
        say_on_stderr(f"loaded {loaded.movements:,} movements in {loaded.seconds} s")
        found = []
        for method in methods:
            found.append(await measure(bench, method))
            say_on_stderr(json.dumps(found[-1].as_json()))
        return found
