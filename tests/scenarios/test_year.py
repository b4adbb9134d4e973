"""A year of days: disk stops growing, days do not get longer, what is kept answers (F37).

At a smaller scale: CHOT_TEST_YEAR_JOBS_A_DAY jobs a day (2,000 unless it is set), not 100,000. What
is kept is jobs a day times days, so that the bound, too, is told in bytes a job.
"""

import os
from asyncio import Event
from statistics import median
from time import monotonic
from typing import Any

import asyncpg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.idempotency import delete_expired_keys
from shared.jobs.read import get_job
from tests.factories import autocommit, scalar
from tests.scenarios.year import ID_AT, Size, live_a_day, size_of, vacuum
from tests.services import Database
from worker.retention import Retention

pytestmark = [pytest.mark.long, pytest.mark.alone, pytest.mark.scenario("F37")]

DAYS = 365
JOBS_A_DAY = int(os.environ.get("CHOT_TEST_YEAR_JOBS_A_DAY", "2000"))
AFTER, KEEP = 30, 90
MONTH = 31
SETTLED = KEEP + MONTH + 9
# Bytes a job: with payload, output, attempt, indexes and the air that updates leave; in the archive.
WORK_BYTES, ARCHIVE_BYTES, AUDIT_BYTES = 2_500, 2_500, 450
# What an empty schema has: tables and indexes of some pages, fourteen months of parts.
EMPTY_BYTES = 16 << 20


async def test_a_year_at_a_smaller_scale_is_bounded(
    probes: AsyncEngine, database: Database, record_property: Any
) -> None:
    """Each day: jobs come and end, a step of retention by that day's clock, keys, VACUUM.

    Disk without the audit is flat once the first month has been dropped, and within the bound of
    bytes a job. The audit keeps a year at least: it grows, by so many bytes a submit.
    """
    connection = await asyncpg.connect(database.superuser_url)
    await connection.execute(ID_AT)
    auto, sizes, took, samples = autocommit(probes), [], [], []
    for day in range(DAYS):
        ago = DAYS - day
        began = monotonic()
        await connection.execute(
            "SELECT chot.open_months('audit', NULL, clock_timestamp() - $1 * interval '1 day')", ago
        )
        ids = await live_a_day(connection, first=day * JOBS_A_DAY, jobs=JOBS_A_DAY, ago=ago)
        samples.append((ids[0], ids[7]))  # one that succeeds, one that dies
        retention = Retention(archive_after_days=AFTER + ago - 1, archive_keep_days=KEEP + ago - 1)
        await retention.step(auto)
        async with auto.connect() as conn:
            await delete_expired_keys(conn, Event())
        await vacuum(connection)
        took.append(monotonic() - began)
        sizes.append(await size_of(connection))
    await connection.close()
    for name, value in numbers(sizes, took).items():
        record_property(name, value)
        print(name, value)  # noqa: T201 - the run's report
    judge_disk(sizes)
    assert median(took[-60:]) <= 2 * median(took[SETTLED : SETTLED + 60]), "days get longer"
    await judge_jobs(probes, samples)


def numbers(sizes: list[Size], took: list[float]) -> dict[str, Any]:
    """What is reported with the test."""
    last = sizes[-1]
    return {
        "jobs_a_day": JOBS_A_DAY,
        "work_bytes_a_job": last.work / (JOBS_A_DAY * AFTER),
        "archive_bytes_a_job": last.archive / (JOBS_A_DAY * (KEEP + MONTH / 2 - AFTER)),
        "audit_bytes_a_job": last.audit / (JOBS_A_DAY * DAYS),
        "megabytes": [
            (n, round(s.work / 2**20), round(s.archive / 2**20), round(s.audit / 2**20))
            for n, s in enumerate(sizes)
            if n % 20 == 0 or n == DAYS - 1
        ],
        "seconds_a_day": [round(median(took[n : n + 20]), 2) for n in range(0, DAYS, 20)],
    }


def judge_disk(sizes: list[Size]) -> None:
    """Flat after the settling, and within what is kept."""
    kept = [each.work + each.archive for each in sizes]
    early, late = max(kept[SETTLED : SETTLED + 90]), max(kept[-90:])
    assert late <= 1.05 * early, (early, late)
    work, archive, audit = (
        max(getattr(each, name) for each in sizes) for name in ("work", "archive", "audit")
    )
    assert work <= WORK_BYTES * JOBS_A_DAY * (AFTER + 2) + EMPTY_BYTES
    assert archive <= ARCHIVE_BYTES * JOBS_A_DAY * (KEEP + MONTH - AFTER + 2) + EMPTY_BYTES
    assert audit <= AUDIT_BYTES * JOBS_A_DAY * DAYS + EMPTY_BYTES


async def judge_jobs(engine: AsyncEngine, samples: list[tuple[Any, Any]]) -> None:
    """What is kept answers, young and archived; what is beyond does not; the dead stay."""
    async with engine.connect() as conn:
        for ago, (fine, dead) in enumerate(reversed(samples)):
            found = await get_job(conn, fine)
            if ago < KEEP:
                assert found is not None, ago
                assert (found["state"], found["result"]["done"]) == ("succeeded", True)
            elif ago > KEEP + MONTH + 1:
                assert found is None, ago
            buried = await get_job(conn, dead)
            assert buried is not None, ago
            assert buried["state"] == "dead"
    dead_jobs = await scalar(engine, "SELECT count(*) FROM chot.jobs WHERE state = 'dead'")
    assert dead_jobs == DAYS * JOBS_A_DAY // 1000
    hot = await scalar(engine, "SELECT count(*) FROM chot.jobs WHERE state <> 'dead'")
    assert hot <= JOBS_A_DAY * (AFTER + 1)
    for table in ("outbox", "attempt_ends", "endings"):
        assert await scalar(engine, f"SELECT count(*) FROM chot.{table}") <= JOBS_A_DAY
    keys = await scalar(engine, "SELECT count(*) FROM chot.idempotency_keys")
    assert keys <= JOBS_A_DAY
    groups = "SELECT count(*) FROM chot.groups"
    assert await scalar(engine, groups) <= (KEEP + MONTH + 2) * (JOBS_A_DAY / 500 + 1)
