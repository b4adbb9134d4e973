"""The schema is upgraded while the work goes on, by many replicas at once (F38)."""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import asyncpg
import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import open_engine
from tests.architecture.locks import ROOT
from tests.architecture.test_migrations import chot_migrate
from tests.factories import eventually, fetch, make_job, prepare_probes, scalar
from tests.fleet import Fleet, open_fleet
from tests.journeys.looking import all_reached, reached, working
from tests.scenarios.looking import api_of
from tests.scenarios.many import load
from tests.services import Database, seed_company

REPLICAS = 5
SAMPLE_SECONDS = 0.1
LONGEST_LOCK_SECONDS = 1.0
# An older revision of the schema, on which this code still runs.
BEFORE = "0086_enqueue_each"
HELD = """
    SELECT l.pid, l.mode, l.granted, c.relname AS name
      FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
     WHERE c.oid = 'chot.jobs'::regclass
       AND l.mode IN ('AccessExclusiveLock', 'ExclusiveLock', 'ShareRowExclusiveLock', 'ShareLock')"""


@dataclass(slots=True)
class Locks:
    """For how long locks that stop writers were seen on chot.jobs, held or waited for."""

    began: dict[tuple[int, str], float] = field(default_factory=dict)
    longest: dict[str, float] = field(default_factory=dict)
    samples: int = 0

    def note(self, rows: Sequence[asyncpg.Record], now: float) -> None:
        """Take one sample in."""
        self.samples += 1
        seen = {(row["pid"], row["mode"]) for row in rows}
        self.began = {each: self.began.get(each, now) for each in seen}
        for (_, mode), since in self.began.items():
            self.longest[mode] = max(self.longest.get(mode, 0.0), now - since)


@asynccontextmanager
async def watched_locks(database: Database) -> AsyncIterator[Locks]:
    """Sample pg_locks every 100 ms while the block runs."""
    connection = await asyncpg.connect(database.superuser_url)
    locks = Locks()

    async def sample() -> None:
        while True:
            locks.note(await connection.fetch(HELD), monotonic())
            await asyncio.sleep(SAMPLE_SECONDS)

    sampling = asyncio.create_task(sample())
    try:
        yield locks
    finally:
        sampling.cancel()
        await asyncio.wait({sampling})
        await connection.close()
    assert sampling.cancelled(), "the sampling went on until the end"


@dataclass(slots=True)
class Requests:
    """What a client's submits were answered with, while everything else happened."""

    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)


async def submit_steadily(http: httpx.AsyncClient, requests: Requests, a_second: float) -> None:
    """So many submits a second, each on its own; for ever."""
    number = 5_000_000

    async def one(body: dict[str, object]) -> None:
        began = monotonic()
        answer = await http.post("/v1/jobs", json=body)
        requests.statuses[answer.status_code] += 1
        requests.seconds.append(monotonic() - began)

    async with asyncio.TaskGroup() as tasks:
        while True:
            number += 1
            tasks.create_task(
                one({"kind": "probe.write", "company": "ACME", "payload": {"number": number}})
            )
            await asyncio.sleep(1 / a_second)


async def migrate_replica(database: Database) -> tuple[int, str]:
    """`chot migrate` as a replica runs it at its start; (exit code, what it said)."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "shared.cli",
        "migrate",
        cwd=ROOT,
        env={**os.environ, "CHOT_MIGRATE_DATABASE_URL": database.superuser_url},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    return process.returncode or 0, said.decode()


async def revision_of(database: Database) -> list[str]:
    """The rows of the version table."""
    connection = await asyncpg.connect(database.superuser_url)
    try:
        rows = await connection.fetch("SELECT version_num FROM chot.alembic_version")
    finally:
        await connection.close()
    return [row["version_num"] for row in rows]


@pytest.mark.scenario("F38")
async def test_five_replicas_bring_an_empty_database_up_together(
    empty_database: Database,
) -> None:
    """One upgrades, four wait for their turn and find nothing to do; no deadlock, no violation."""
    ends = await asyncio.gather(*(migrate_replica(empty_database) for _ in range(REPLICAS)))
    assert [code for code, _ in ends] == [0] * REPLICAS, ends
    checked = chot_migrate(empty_database, "--check")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert len(await revision_of(empty_database)) == 1


@pytest.mark.scenario("F38")
async def test_a_migration_that_cannot_lock_lets_the_others_by_and_tries_again(
    empty_database: Database,
) -> None:
    """A reader holds chot.jobs for three seconds: nobody waits for a second behind the migration."""
    assert chot_migrate(empty_database, "--to", "0051_cancelled_index").returncode == 0
    reader = await asyncpg.connect(empty_database.superuser_url)
    holding = reader.transaction()
    await holding.start()
    await reader.execute("LOCK TABLE chot.jobs IN ROW EXCLUSIVE MODE")
    migrating = asyncio.create_task(migrate_replica(empty_database))
    writer = await asyncpg.connect(empty_database.superuser_url)
    slowest, until = 0.0, monotonic() + 3 * LONGEST_LOCK_SECONDS
    async with watched_locks(empty_database) as locks:
        while monotonic() < until or not locks.longest:
            began = monotonic()
            await writer.execute("UPDATE chot.jobs SET trace = NULL WHERE state = 'running'")
            slowest = max(slowest, monotonic() - began)
            assert not migrating.done(), "the lock is still held"
        await holding.rollback()
        code, said = await migrating
    assert code == 0, said
    assert "trying again" in said
    assert 0 < locks.longest["ShareRowExclusiveLock"] <= LONGEST_LOCK_SECONDS + SAMPLE_SECONDS
    assert slowest <= LONGEST_LOCK_SECONDS + SAMPLE_SECONDS
    await asyncio.gather(reader.close(), writer.close())


@pytest.fixture
async def old_database(empty_database: Database) -> Database:
    """A database at the revision before, with the company and the probes."""
    done = await asyncio.to_thread(chot_migrate, empty_database, "--to", BEFORE)
    assert done.returncode == 0, done.stderr
    await seed_company(empty_database)
    engine = open_engine(empty_database.owner_url, pool_size=0)
    await prepare_probes(engine, engine)
    await engine.dispose()
    return empty_database


@pytest.fixture
def old_fleet(
    old_database: Database, sqs_endpoint: str, queue_prefix: str, tmp_path: Path
) -> Iterator[Fleet]:
    """Processes on that database."""
    with open_fleet(old_database, queue_prefix, sqs_endpoint, tmp_path) as opened:
        yield opened


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.scenario("F38")
@pytest.mark.parametrize(
    ("rows", "a_second", "seconds"),
    [(0, 10, 4.0), (1_000_000, 50, 20.0)],
    ids=["empty", "million"],
)
async def test_five_new_apis_upgrade_under_load_and_the_old_ones_go_on(
    old_fleet: Fleet, *, rows: int, a_second: float, seconds: float
) -> None:
    """Every step and line: a million rows and 50 requests a second, and an empty table.

    The api and the workers have started on an older schema, and none of them is restarted. They are
    this version's code; the one before runs in tests/journeys/test_mixed_versions.py.
    Each of the five replicas migrates, then serves, as its container's start does.
    """
    fleet = old_fleet
    if rows:
        await load(fleet.database, finished=rows, pending=0, totals=False)
    engine = open_engine(fleet.database.app_url, pool_size=4)
    workers = [fleet.worker(CHOT_CONCURRENCY="4") for _ in range(2)]
    await working(*workers)
    running = [await make_job(engine, chunks=30, seconds=0.5) for _ in range(2)]
    for each in running:
        await reached(engine, each, "running")
    requests = Requests()
    async with api_of(fleet) as http, watched_locks(fleet.database) as locks:
        load_on = asyncio.create_task(submit_steadily(http, requests, a_second))
        began = monotonic()
        ends = await asyncio.gather(*(migrate_replica(fleet.database) for _ in range(REPLICAS)))
        assert [code for code, _ in ends] == [0] * REPLICAS, ends
        for _ in range(REPLICAS):
            async with api_of(fleet) as fresh:
                assert (await fresh.get("/metrics")).status_code == 200
        await eventually(lambda: _passed(began, seconds), seconds=seconds + 5)
        load_on.cancel()
        await asyncio.wait({load_on})
    await all_reached(engine, running, "succeeded", seconds=60)
    await judge(fleet, engine, locks, requests)
    after = [await make_job(engine) for _ in range(5)]
    await all_reached(engine, after, "succeeded", seconds=30)
    assert all(each.alive for each in workers), "the workers from before went on"
    await engine.dispose()


async def _passed(began: float, seconds: float) -> bool:
    return monotonic() - began > seconds


async def judge(fleet: Fleet, engine: AsyncEngine, locks: Locks, requests: Requests) -> None:
    """No lock that stops writers above a second, no lost lease, no failed request."""
    assert locks.samples > 20, "it was looked at all the time"
    assert max(locks.longest.values(), default=0) <= LONGEST_LOCK_SECONDS + SAMPLE_SECONDS, locks
    assert await scalar(engine, "SELECT coalesce(sum(lost_leases), 0) FROM chot.jobs") == 0
    assert set(requests.statuses) == {202}, requests.statuses
    # The million's own history was made by nobody of these processes ('w').
    ended = """SELECT DISTINCT outcome FROM chot.attempts
                WHERE outcome IS NOT NULL AND worker_id <> 'w'"""
    assert {row.outcome for row in await fetch(engine, ended)} == {"succeeded"}
    assert not [line for each in fleet.workers for line in fleet.events(each, "attempt.broken")]
