"""The archive and the audit by months: made ahead, dropped as a whole, in nobody's way."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.access import EVERYTHING
from shared.jobs.read import READ_ARCHIVED, get_job
from shared.types import JobId
from tests.factories import autocommit, claimed_job, execute, fetch, make_job, scalar
from tests.protocol import groups
from tests.services import Database
from worker.months import Parent, drop_month, open_months
from worker.retention import Retention

PARTS = """
    SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
     WHERE i.inhparent = CAST(:parent AS regclass) ORDER BY 1"""
# The part that is named by the month that begins so many months from now.
NAME = """
    SELECT CAST(:parent AS text) || to_char(date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC')
           + make_interval(months => CAST(:months AS integer)), '_YYYY_MM')"""
OPEN_AT = """SELECT chot.open_months('archived_jobs', NULL,
                    clock_timestamp() - make_interval(days => CAST(:days AS integer)))"""
# As a job was that was made and ended so many days ago: the pattern's, with an id of that time.
PUT = """
    INSERT INTO chot.archived_jobs (id, finished_at, job, attempts)
    SELECT m.id, clock_timestamp() - make_interval(days => CAST(:ended AS integer)),
           to_jsonb(j) || jsonb_build_object('id', m.id, 'state', 'succeeded'), '[]'
      FROM chot.jobs j, generate_series(1, CAST(:jobs AS integer)) AS n,
           LATERAL (SELECT CAST(overlay(CAST(chot.uuid7() AS text) PLACING left(CAST(chot.id_at(
                      clock_timestamp() - make_interval(days => CAST(:made AS integer), secs => n)) AS text),
                      13) FROM 1 FOR 13) AS uuid) AS id) AS m
     WHERE j.id = :pattern
    RETURNING id"""
GIVES_UP = 0.2


async def put(
    owner: AsyncEngine, pattern: JobId, *, made: int, ended: int, jobs: int = 1
) -> list[UUID]:
    """So many jobs in the archive; the months of that time are made first. Days ago."""
    await execute(owner, OPEN_AT, days=made)
    binds = {"pattern": pattern, "made": made, "ended": ended, "jobs": jobs}
    async with owner.begin() as conn:
        return [row.id for row in await conn.execute(text(PUT), binds)]


async def parts(engine: AsyncEngine, parent: str = "archived_jobs") -> set[str]:
    """The parts that there are."""
    return {row.relname for row in await fetch(engine, PARTS, parent=f"chot.{parent}")}


async def answers(engine: AsyncEngine, job_id: UUID) -> bool:
    """Whether anybody gets that job."""
    async with engine.connect() as conn:
        return await get_job(conn, job_id) is not None


@pytest.mark.parametrize("parent", ["archived_jobs", "audit"])
async def test_months_are_made_ahead_and_only_once(probes: AsyncEngine, parent: Parent) -> None:
    """This one and two more; nobody makes them twice, however many ask at once."""
    ahead = {await scalar(probes, NAME, parent=parent, months=n) for n in range(3)}
    assert await parts(probes, parent) == ahead | {f"{parent}_default"}
    auto = autocommit(probes)
    made = await asyncio.gather(*(open_months(auto, parent, keep_days=0) for _ in range(4)))
    assert made == [0, 0, 0, 0]


async def test_an_id_is_looked_for_in_one_part(
    probes: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """The key is a time: of years of months one is read."""
    pattern = await make_job(probes)
    (old,) = await put(owner_engine, pattern, made=400, ended=400)
    for days in range(40, 400, 40):
        await put(owner_engine, pattern, made=days, ended=days)
    assert len(await parts(probes)) >= 13
    binds = {"job_id": old, **EVERYTHING.binds()}
    async with probes.connect() as conn:
        plan = await conn.scalar(text(f"EXPLAIN (FORMAT JSON) {READ_ARCHIVED.text}"), binds)
    said = plan if isinstance(plan, str) else json.dumps(plan, default=str)
    read = {
        word for word in said.split('"') if word.startswith("archived_jobs_") and "key" not in word
    }
    assert len(read) == 1, read


async def test_a_month_whose_time_is_over_is_dropped_as_a_whole(
    probes: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """Who is within its time answers on, also from a month that goes; who is beyond it does not."""
    pattern = await make_job(probes)
    old = await put(owner_engine, pattern, made=400, ended=399, jobs=3)
    (late,) = await put(owner_engine, pattern, made=400, ended=100)
    (young,) = await put(owner_engine, pattern, made=200, ended=200)
    before = await parts(probes)
    retention = Retention(archive_after_days=300, archive_keep_days=350)
    await retention.step(autocommit(probes))
    gone = before - await parts(probes)
    assert gone, "months were dropped"
    assert not [job for job in old if await answers(probes, job)]
    assert await answers(probes, late)
    assert await answers(probes, young)
    assert await scalar(probes, "SELECT count(*) FROM chot.archived_jobs") == 2
    assert await scalar(owner_engine, "SELECT id FROM chot.archived_jobs_default") == late
    assert not await parts(probes) & gone, "nor are they made again"
    await Retention(archive_after_days=50, archive_keep_days=99).step(autocommit(probes))
    assert not await answers(probes, late), "row by row, when its own time is over"
    assert not await answers(probes, young)


async def test_a_month_of_which_many_ended_late_waits(
    probes: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """A thousand are moved under the lock, not more."""
    pattern = await make_job(probes)
    await put(owner_engine, pattern, made=400, ended=100, jobs=1001)
    assert await drop_all(probes) == 0
    await execute(
        owner_engine,
        """UPDATE chot.archived_jobs SET finished_at = finished_at - interval '1 year'
            WHERE id = (SELECT id FROM chot.archived_jobs LIMIT 1)""",
    )
    assert await drop_all(probes) == 1
    assert await scalar(probes, "SELECT count(*) FROM chot.archived_jobs") == 1000


async def drop_all(engine: AsyncEngine) -> int:
    """Drop what is older than 350 days; how many parts that had rows were dropped."""
    rows = "SELECT count(DISTINCT tableoid) FROM chot.archived_jobs WHERE finished_at < :at"
    until = await scalar(engine, "SELECT clock_timestamp() - interval '350 days'")
    before = await scalar(engine, rows, at=until)
    while await drop_month(autocommit(engine), "archived_jobs", keep_days=350):
        pass
    return int(before - await scalar(engine, rows, at=until))


async def test_a_dropping_behind_a_long_reader_keeps_nobody_waiting(
    probes: AsyncEngine, owner_engine: AsyncEngine, database: Database
) -> None:
    """It gives up; submits, claims and looks at young and at archived jobs go on meanwhile."""
    pattern = await make_job(probes)
    (old,) = await put(owner_engine, pattern, made=400, ended=400)
    (young,) = await put(owner_engine, pattern, made=40, ended=40)
    auto = autocommit(probes)
    longest: dict[str, float] = {}

    async def timed(name: str, step: Callable[[], Awaitable[Any]]) -> None:
        while not done.is_set():
            began = monotonic()
            await step()
            longest[name] = max(longest.get(name, 0), monotonic() - began)

    done = asyncio.Event()
    async with reading(database, "chot.archived_jobs"), asyncio.TaskGroup() as tasks:
        tasks.create_task(timed("submit and claim", lambda: claimed_job(probes)))
        tasks.create_task(timed("young", lambda: answers(probes, pattern)))
        tasks.create_task(timed("archived", lambda: answers(probes, young)))
        for _ in range(10):
            began = monotonic()
            assert await drop_month(auto, "archived_jobs", keep_days=350) is None
            assert monotonic() - began < 10 * GIVES_UP
        done.set()
    assert longest["archived"] < 10 * GIVES_UP, longest
    assert longest["submit and claim"] < 10 * GIVES_UP, longest
    assert longest["young"] < 10 * GIVES_UP, longest
    assert await answers(probes, old)
    assert await drop_month(auto, "archived_jobs", keep_days=350) is not None, "and then it is done"


@asynccontextmanager
async def reading(database: Database, table: str) -> AsyncIterator[None]:
    """Somebody reads that table, and does not end."""
    reader = await asyncpg.connect(database.superuser_url)
    try:
        async with reader.transaction():
            await reader.fetchval(f"SELECT count(*) FROM {table}")
            yield
    finally:
        await reader.close()


async def test_what_lies_in_no_month_moves_into_it_when_it_is_made(
    probes: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """Nobody had made the month: its jobs answer from the default part, and then from their own."""
    pattern = await make_job(probes)
    month = await scalar(probes, NAME, parent="archived_jobs", months=0)
    await execute(owner_engine, f"DROP TABLE chot.{month}")
    binds = {"pattern": pattern, "made": 0, "ended": 0, "jobs": 5}
    async with owner_engine.begin() as conn:
        ids = [row.id for row in await conn.execute(text(PUT), binds)]
    assert await scalar(owner_engine, "SELECT count(*) FROM chot.archived_jobs_default") == 5
    assert await open_months(autocommit(probes), "archived_jobs", keep_days=0) == 1
    assert await scalar(owner_engine, f"SELECT count(*) FROM chot.{month}") == 5
    assert all([await answers(probes, job) for job in ids])


async def test_app_makes_and_drops_by_these_functions_only(probes: AsyncEngine) -> None:
    """No DDL of its own, no other table, no audit of the last year."""
    month = await scalar(probes, NAME, parent="audit", months=0)
    for statement, said in (
        (f"DROP TABLE chot.{month}", "must be owner"),
        (f"DELETE FROM chot.{month}", "permission denied"),
        ("SELECT chot.drop_month('jobs', interval '1 day')", "not kept by the month"),
        ("SELECT chot.open_months('jobs', NULL)", "not kept by the month"),
        ("SELECT chot.drop_month('audit', interval '364 days')", "kept for a year"),
        ("SELECT chot.add_month('audit', 'x', 'at', '{}', false)", "permission denied"),
        ("SELECT chot.guard_audit('jobs')", "permission denied"),
    ):
        with pytest.raises(DBAPIError, match=said):
            await execute(probes, statement)


async def test_the_audit_keeps_its_months_and_drops_them_when_it_is_told_to(
    probes: AsyncEngine, owner_engine: AsyncEngine, database: Database
) -> None:
    """A year at least; and a part refuses a change like the whole, to everybody."""
    await execute(owner_engine, "SELECT chot.open_months('audit', NULL, '2020-05-05')")
    old = "INSERT INTO chot.audit (at, action, principal) VALUES ('2020-05-05', 'key.make', 'me')"
    await execute(owner_engine, old)
    await make_job(probes)
    everything = "SELECT count(*) FROM chot.audit"
    kept = await scalar(probes, everything)
    assert kept >= 2
    superuser = await asyncpg.connect(database.superuser_url)
    for statement in ("DELETE FROM {}", "UPDATE {} SET principal = 'x'", "TRUNCATE {}"):
        for table in ("chot.audit", "chot.audit_2020_05", "chot.audit_default"):
            with pytest.raises(asyncpg.PostgresError, match="append-only"):
                await superuser.execute(statement.format(table))
    await superuser.close()
    auto = autocommit(probes)
    await Retention(archive_after_days=0, archive_keep_days=0).step(auto)
    assert await scalar(probes, everything) == kept, "0 = for ever"
    retention = Retention(archive_after_days=0, archive_keep_days=0, audit_keep_days=365)
    await retention.step(auto)
    assert await scalar(probes, everything) == kept - 1
    assert "audit_2020_05" not in await parts(probes, "audit")
    numbers = await fetch(probes, "SELECT id FROM chot.audit ORDER BY at")
    assert len({row.id for row in numbers}) == len(numbers)


async def test_a_group_goes_when_none_of_its_jobs_is_known(
    probes: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """Not while the archive has a member, nor one that is at work."""
    ended, active = [await groups.opened(probes, join=False) for _ in range(2)]
    (member,) = await groups.members(probes, ended, 1)
    await groups.members(probes, active, 1, number=7)
    await groups.seal(probes, ended)
    await groups.stop(probes, ended)
    await execute(owner_engine, "UPDATE chot.jobs SET cleanup_due = false")
    await execute(owner_engine, "UPDATE chot.groups SET ended_at = ended_at - interval '9 days'")
    auto = autocommit(probes)
    many = "SELECT count(*) FROM chot.groups WHERE id = :id"
    keeping = Retention(archive_after_days=1e-9, archive_keep_days=1)
    await keeping.step(auto)
    assert await scalar(probes, "SELECT id FROM chot.archived_jobs") == member
    await keeping.step(auto)
    assert await scalar(probes, many, id=ended) == 1
    await execute(owner_engine, "DELETE FROM chot.archived_jobs")
    await keeping.step(auto)
    assert await scalar(probes, many, id=ended) == 0
    assert await scalar(probes, many, id=active) == 1
