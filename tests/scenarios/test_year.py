"""A year of days: disk stops growing, days do not get longer, what is kept answers (F37).

CHOT_TEST_YEAR_JOBS_A_DAY jobs a day (2,000 unless it is set) for 365 days, and 100,000 a day for
some weeks with short times to keep. What is kept is jobs a day times days, so that the bound is
told in bytes a job, and both must keep to the same. CHOT_TEST_YEAR_AGES sets the year's two ages.
"""

import asyncio
import os
from asyncio import Event
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from time import monotonic
from typing import Any

import asyncpg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.idempotency import delete_expired_keys
from shared.jobs.read import get_job
from tests.factories import autocommit, scalar
from tests.scenarios.year import Size, begin, live_a_day, size_of, vacuum
from tests.services import Database
from worker.retention import BATCH, BATCHES, Retention

pytestmark = [pytest.mark.long, pytest.mark.alone, pytest.mark.scenario("F37")]

MONTH = 31
AT_ONCE = 2  # connections on which the jobs of a day live
# Bytes a job: with payload, output, attempt, indexes and the air that updates leave; in the archive.
WORK_BYTES, ARCHIVE_BYTES, AUDIT_BYTES = 2_500, 2_500, 450
LEAST_BYTES = 1_500  # of a job in the archive
# A dead job stays, and a page of each index that is in the order of time with it
# (test_dead_pages.py).
DEAD_BYTES = 90_000
# What an empty schema has: tables and indexes of some pages, fourteen months of parts.
EMPTY_BYTES = 16 << 20


@dataclass(slots=True, kw_only=True)
class Year:
    """So many days of so many jobs, archived and dropped by these ages; and what was seen."""

    days: int
    jobs: int
    after: int
    keep: int
    sizes: list[Size] = field(default_factory=list)
    took: list[float] = field(default_factory=list)
    samples: list[tuple[Any, Any]] = field(default_factory=list)
    dropped: int = 0

    @property
    def settled(self) -> int:
        """The day from which on months are dropped as they come, and a little more."""
        return self.keep + MONTH + 2

    @property
    def dead(self) -> int:
        """Jobs that died, and wait for somebody."""
        return self.days * self.jobs // 1000


AFTER, KEEP = (int(days) for days in os.environ.get("CHOT_TEST_YEAR_AGES", "30,90").split(","))
THE_YEAR = Year(
    days=365,
    jobs=int(os.environ.get("CHOT_TEST_YEAR_JOBS_A_DAY", "2000")),
    after=AFTER,
    keep=KEEP,
)
# Its first month, or the one after it, is half a month at least, and is dropped.
FULL_RATE = Year(days=46, jobs=100_000, after=3, keep=5)


@pytest.mark.parametrize(
    "year", [THE_YEAR, FULL_RATE], ids=lambda each: f"{each.days} days of {each.jobs:,}"
)
async def test_days_of_jobs_are_bounded(
    probes: AsyncEngine, database: Database, record_property: Any, year: Year
) -> None:
    """Each day: jobs come and end while retention goes by that day's clock; then keys and VACUUM.

    Disk without the audit is flat once months are dropped, but for what the dead keep, and within
    the bound of bytes a job. The audit keeps a year at least: it grows, by so many bytes a submit.
    """
    connections = [await asyncpg.connect(database.superuser_url) for _ in range(AT_ONCE)]
    for connection in connections:
        await begin(connection)
    auto = autocommit(probes)
    for day in range(year.days):
        began = monotonic()
        await a_day(connections, auto, year, day)
        year.took.append(monotonic() - began)
        year.sizes.append(await size_of(connections[0]))
        print(day, round(year.took[-1], 1), year.sizes[-1], flush=True)  # noqa: T201 - it is long
    for connection in connections:
        await connection.close()
    for name, value in numbers(year).items():
        record_property(name, value)
        print(name, value)  # noqa: T201 - the run's report
    judge_disk(year)
    part = min(60, year.days // 4)
    early, late = year.took[-2 * part : -part], year.took[-part:]
    assert median(late) <= 2 * median(early), "days get longer"
    await judge_jobs(probes, year)


class Restless(Retention):
    """Retention that makes no pauses."""

    async def rest(self, began: float) -> None:
        """A day is as long as its work."""


async def a_day(
    connections: Sequence[asyncpg.Connection], auto: AsyncEngine, year: Year, day: int
) -> None:
    """One day; retention makes as many steps as move a fifth more than a day's jobs.

    It has 1,440 of them on a real day, and rests as long as it works: not in a day of seconds.
    """
    ago = year.days - day
    await connections[0].execute(
        "SELECT chot.open_months('audit', NULL, clock_timestamp() - $1 * interval '1 day')", ago
    )
    retention = Restless(
        archive_after_days=year.after + ago - 1, archive_keep_days=year.keep + ago - 1
    )

    async def retain() -> None:
        for _ in range(2 + round(1.2 * year.jobs / (BATCH * BATCHES))):
            await retention.step(auto)

    living = [
        live_a_day(
            connection, first=day * year.jobs, jobs=year.jobs, ago=ago, part=part, parts=AT_ONCE
        )
        for part, connection in enumerate(connections)
    ]
    retaining = asyncio.create_task(retain())
    ids, *_ = await asyncio.gather(*living)
    await retaining
    year.samples.append((ids[0], ids[7]))  # one that succeeds, one that dies
    async with auto.connect() as conn:
        await delete_expired_keys(conn, Event())
    await vacuum(connections[0], day)


def numbers(year: Year) -> dict[str, Any]:
    """What is reported with the test."""
    last = year.sizes[-1]
    return {
        "jobs_a_day": year.jobs,
        "work_bytes_a_job": last.work / (year.jobs * year.after),
        "archive_bytes_a_job": last.archive / (year.jobs * (year.keep + MONTH / 2 - year.after)),
        "audit_bytes_a_job": last.audit / (year.jobs * year.days),
        "growth_of_work_a_dead_job": (last.work - year.sizes[year.settled].work)
        / (year.jobs / 1000 * (year.days - year.settled)),
        "megabytes": [
            (n, round(s.work / 2**20), round(s.archive / 2**20), round(s.audit / 2**20))
            for n, s in enumerate(year.sizes)
            if n % (year.days // 18) == 0 or n == year.days - 1
        ],
        "seconds_a_day": [round(median(year.took[n : n + 20]), 2) for n in range(0, year.days, 20)],
    }


def judge_disk(year: Year) -> None:
    """Within what is kept; flat, where there are months to compare; a month gives its disk back."""
    sizes, jobs = year.sizes, year.jobs
    third = (year.days - year.settled) // 3
    if third > 2 * MONTH:
        # Each day a few more are dead.
        kept = [
            each.work + each.archive - DEAD_BYTES * n * jobs / 1000 for n, each in enumerate(sizes)
        ]
        early, late = max(kept[year.settled : -third]), max(kept[-third:])
        assert late <= 1.05 * early, (early, late)
    falls = max(before.archive - after.archive for before, after in pairwise(sizes))
    assert falls >= LEAST_BYTES * jobs * 14, "a month is dropped, and its disk is free at once"
    work, archive, audit = (
        max(getattr(each, name) for each in sizes) for name in ("work", "archive", "audit")
    )
    assert work <= WORK_BYTES * jobs * (year.after + 2) + DEAD_BYTES * year.dead + EMPTY_BYTES
    assert archive <= ARCHIVE_BYTES * jobs * (year.keep + MONTH - year.after + 2) + EMPTY_BYTES
    assert audit <= AUDIT_BYTES * jobs * year.days + EMPTY_BYTES


async def judge_jobs(engine: AsyncEngine, year: Year) -> None:
    """What is kept answers, young and archived; what is beyond does not; the dead stay."""
    async with engine.connect() as conn:
        for ago, (fine, dead) in enumerate(reversed(year.samples)):
            found = await get_job(conn, fine)
            if ago < year.keep:
                assert found is not None, ago
                assert (found["state"], found["result"]["done"]) == ("succeeded", True)
            elif ago > year.keep + MONTH + 1:
                assert found is None, ago
            buried = await get_job(conn, dead)
            assert buried is not None, ago
            assert buried["state"] == "dead"
    gone = [await gone_by_now(engine, fine) for fine, _ in year.samples]
    assert any(gone), "a month was dropped"
    assert gone == sorted(gone, reverse=True), "the oldest first"
    assert await scalar(engine, "SELECT count(*) FROM chot.jobs WHERE state = 'dead'") == year.dead
    hot = await scalar(engine, "SELECT count(*) FROM chot.jobs WHERE state <> 'dead'")
    assert hot <= year.jobs * (year.after + 1)
    for table in ("outbox", "attempt_ends", "endings"):
        assert await scalar(engine, f"SELECT count(*) FROM chot.{table}") <= year.jobs
    keys = await scalar(engine, "SELECT count(*) FROM chot.idempotency_keys")
    assert keys <= year.jobs
    groups = "SELECT count(*) FROM chot.groups"
    # A group stays as long as one of its jobs: each dead one was a member.
    kept = (year.keep + MONTH + 2) * (year.jobs / 500 + 1)
    assert await scalar(engine, groups) <= kept + year.dead


async def gone_by_now(engine: AsyncEngine, job_id: Any) -> bool:
    """Whether neither table nor archive knows it."""
    async with engine.connect() as conn:
        return await get_job(conn, job_id) is None
