"""A month end: four brands want everything at once, and workers die meanwhile.

`python -m tests.scenarios.month_end --jobs 20000` runs one with servers of its own and prints what
it has shown; exit code 1 when a promise was broken.
"""

import argparse
import asyncio
import random
import secrets
import signal
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import asyncpg
import httpx
from sqlalchemy.ext.asyncio import AsyncEngine

from dev.processes import Child
from dev.sqs import QueueAttributes, ensure_queues
from shared.database import open_engine
from shared.groups.fill import append_jobs, open_group, seal_group
from shared.jobs.enqueue import Submit, enqueue_many
from shared.kinds.registry import load_kinds, mirror_kinds
from tests.faults.backing import open_backing
from tests.faults.schema import AUDIT_SCHEMA, EFFECTS_SCHEMA
from tests.fleet import Fleet
from tests.scenarios.month_plan import BRANDS, COMPANY, PLACES, Family, Plan, planned
from tests.scenarios.month_report import Report, lines, read_evidence, violations, waits_of
from tests.scenarios.month_truth import Agreement, compare
from tests.services import seed_company

MODULE = "tests.scenarios.month_kinds"
BATCH = 500
ACTIVE = "SELECT count(*) FROM chot.jobs WHERE state IN ('pending', 'running')"
TIDY_SECONDS = 20.0
TIDY = "VACUUM (ANALYZE) chot.jobs, chot.job_locks, chot.outbox, chot.attempts, chot.groups"
BEGUN = "SELECT EXISTS (SELECT FROM chot.jobs WHERE fence > 0)"
# Any job now and then, and of those that wait or run more often: of them there is more to say.
ANY_JOB = "SELECT id::text FROM chot.jobs WHERE kind LIKE 'month.%' ORDER BY random() LIMIT 1"
ANY_WAITING = """
    SELECT id::text FROM chot.jobs WHERE state = 'pending' AND lock_roots IS NOT NULL
     ORDER BY random() LIMIT 1"""
ANY_ACTIVE = "SELECT id::text FROM chot.jobs WHERE state = 'pending' ORDER BY random() LIMIT 1"
ASKED = (ANY_WAITING, ANY_WAITING, ANY_ACTIVE, ANY_JOB)
# By an operator: one brand leaves slots to the others, and another one's feeds are few.
LIMIT = """
    INSERT INTO chot.running_limits (kind, company, brand, max_running, principal)
    VALUES ($1, 'ACME', $2, $3, 'operator')"""
LIMITS = [("month.feed", "BLUE", 2), *((None, brand, most) for brand, most in PLACES.items())]


@dataclass(slots=True)
class MonthEnd:
    """One run, on a migrated database that knows company ACME and nothing else of ours."""

    plan: Plan
    engine: AsyncEngine
    superuser_url: str
    fleet: Fleet
    kills: Counter[str] = field(default_factory=Counter)
    agreement: Agreement = field(default_factory=Agreement)
    workers: list[Child] = field(default_factory=list)
    done: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> Report:
        """Submit, work, kill, ask; returns when all jobs have ended, or the deadline is over."""
        await self._prepare()
        _, url = self.fleet.api(CHOT_KIND_MODULES=MODULE, CHOT_HANDLER_MODULES=MODULE)
        self.workers = [self._worker() for _ in range(self.plan.workers)]
        async with (
            asyncio.timeout(self.plan.deadline),
            httpx.AsyncClient(base_url=url, timeout=30) as http,
            asyncio.TaskGroup() as tasks,
        ):
            tasks.create_task(self._submit())
            tasks.create_task(self._kill())
            tasks.create_task(self._ask(http))
            tasks.create_task(self._tidy())
        return await self._report()

    async def _prepare(self) -> None:
        connection = await asyncpg.connect(self.superuser_url)
        try:
            await connection.execute(AUDIT_SCHEMA)
            await connection.execute(EFFECTS_SCHEMA)
            await connection.executemany(
                "INSERT INTO books.brands (company, code, name) VALUES ($1, $2, $2) "
                "ON CONFLICT DO NOTHING",
                [(COMPANY, brand) for brand in BRANDS],
            )
            await connection.executemany(LIMIT, LIMITS)
        finally:
            await connection.close()
        async with self.engine.begin() as conn:
            await mirror_kinds(conn, load_kinds(MODULE), default_max_attempts=5)

    def _worker(self) -> Child:
        slots = f"default:{self.plan.slots}"
        return self.fleet.worker(
            CHOT_KIND_MODULES=MODULE, CHOT_HANDLER_MODULES=MODULE, CHOT_QUEUES=slots
        )

    async def _submit(self) -> None:
        """The big brand first; the closes in the middle of the others; the groups among them."""
        month = planned(self.plan)
        await self._enqueue(month.first)
        half = len(month.then) // 2
        await self._enqueue(month.then[:half])
        await self._enqueue(month.closes)
        for family in month.families:
            await self._group(family)
        await self._enqueue(month.then[half:])
        connection = await asyncpg.connect(self.superuser_url)
        try:
            while await connection.fetchval(ACTIVE):  # noqa: ASYNC110 - the database's state
                await asyncio.sleep(0.3)
        finally:
            await connection.close()
        self.done.set()

    async def _enqueue(self, jobs: Sequence[Submit]) -> None:
        for first in range(0, len(jobs), BATCH):
            async with self.engine.begin() as conn:
                await enqueue_many(conn, jobs[first : first + BATCH])

    async def _group(self, family: Family) -> None:
        async with self.engine.begin() as conn:
            group = await open_group(
                conn,
                company=COMPANY,
                brand=family.brand,
                policy=family.policy,
                principal="month end",
                join=family.join,
            )
        half = len(family.members) // 2
        for members in (family.members[:half], family.members[half:]):
            async with self.engine.begin() as conn:
                await append_jobs(conn, group, members)
        async with self.engine.begin() as conn:
            assert await seal_group(conn, group)

    async def _kill(self) -> None:
        """One worker after the other: killed, or stopped for longer than its lease."""
        dice = random.Random(self.plan.seed)
        await self._until_working()
        while self.kills.total() < self.plan.most_kills:
            await self._sleep(dice.uniform(0.5, 1.5) * self.plan.kill_every)
            if self.done.is_set():
                return
            place = dice.randrange(len(self.workers))
            worker = self.workers[place]
            if dice.random() < 0.3:
                worker.send(signal.SIGSTOP)
                await self._sleep(1.5 * self.plan.lease)
                worker.send(signal.SIGCONT)
                self.kills["SIGSTOP"] += 1
            else:
                worker.kill()
                self.workers[place] = self._worker()
                self.kills["SIGKILL"] += 1

    async def _until_working(self) -> None:
        """A worker that has not begun takes nothing with it."""
        connection = await asyncpg.connect(self.superuser_url)
        try:
            while not await connection.fetchval(BEGUN):  # noqa: ASYNC110 - the database's state
                await asyncio.sleep(0.2)
        finally:
            await connection.close()

    async def _sleep(self, seconds: float) -> None:
        """So long, or until all is done."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.done.wait(), seconds)

    async def _ask(self, http: httpx.AsyncClient) -> None:
        """/why of one job after the other, and what is true of it."""
        dice = random.Random(self.plan.seed + 1)
        connection = await asyncpg.connect(self.superuser_url)
        try:
            while not self.done.is_set():
                job_id = await connection.fetchval(dice.choice(ASKED))
                if job_id is not None:
                    with suppress(httpx.TimeoutException):
                        await compare(connection, http, job_id, self.agreement)
                await self._sleep(self.plan.samples_every)
        finally:
            await connection.close()

    async def _tidy(self) -> None:
        """What autovacuum does; the tests' servers have it turned off."""
        connection = await asyncpg.connect(self.superuser_url)
        try:
            while not self.done.is_set():
                await self._sleep(TIDY_SECONDS)
                await connection.execute(TIDY)
        finally:
            await connection.close()

    async def _report(self) -> Report:
        connection = await asyncpg.connect(self.superuser_url)
        try:
            waits, seconds, states = await waits_of(connection)
            evidence = await read_evidence(connection)
        finally:
            await connection.close()
        return Report(
            plan=self.plan,
            seconds=seconds,
            waits=waits,
            states=states,
            agreement=self.agreement,
            kills=self.kills,
            taken_over=sum(job.lost_leases for job in evidence.jobs),
            violations=await asyncio.to_thread(violations, evidence),
        )


async def run_alone(plan: Plan, bin_dir: Path | None, say: Callable[[str], object]) -> Report:
    """A month end on servers of its own, gone afterwards."""
    async with open_backing(bin_dir) as backing:
        database = await backing.keep(backing.databases.create)
        prefix = f"m{secrets.token_hex(4)}"
        attributes = QueueAttributes(visibility=2 * round(plan.lease))
        await backing.keep(
            lambda: ensure_queues(backing.sqs.endpoint, prefix, ("default",), attributes)
        )
        await seed_company(database)
        engine = open_engine(database.app_url, pool_size=4)
        say(f"PostgreSQL {backing.postgres.major}")
        with TemporaryDirectory(prefix="chot-month-") as logs:
            fleet = Fleet(database, prefix, backing.sqs.endpoint, Path(logs), plan.lease)
            try:
                return await MonthEnd(plan, engine, database.superuser_url, fleet).run()
            finally:
                fleet.close()
                await engine.dispose()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one; 1 when a promise was broken."""
    standard = Plan()
    parser = argparse.ArgumentParser(
        prog="python -m tests.scenarios.month_end", description=__doc__
    )
    parser.add_argument("--jobs", type=int, default=standard.jobs)
    parser.add_argument("--seed", type=int, default=standard.seed)
    parser.add_argument("--kill-every", type=float, default=standard.kill_every, help="seconds")
    parser.add_argument("--postgres-bin", type=Path, default=None, help="default: the wheel's 18")
    asked = parser.parse_args(arguments)
    plan = Plan(jobs=asked.jobs, seed=asked.seed, kill_every=asked.kill_every)
    report = asyncio.run(run_alone(plan, asked.postgres_bin, _say))
    for line in lines(report):
        _say(line)
    return int(bool(report.broken))


def _say(words: str) -> None:
    sys.stdout.write(words + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
