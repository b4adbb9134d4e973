"""What a dead job keeps: a page of each index that is in the order of time, until it is dealt with.

Of a page of an index all entries but its own go into the archive; PostgreSQL takes a page back when
it is empty. So the tables of work grow by so much a dead job, by nothing without one, and not on
once somebody has run the dead again.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.factories import autocommit
from tests.scenarios.year import begin, live_a_day, sizes_of_all, vacuum
from tests.services import Database
from worker.retention import Retention

pytestmark = [pytest.mark.long, pytest.mark.alone, pytest.mark.scenario("F37")]

DAYS, JOBS, AFTER = 90, 1_000, 2
SETTLED, ENDS = 10, 32
ORDERED = {
    *("jobs_pkey", "jobs_brand_idx", "jobs_kind_idx", "jobs_company_idx", "jobs_principal_idx"),
    *("attempts_pkey", "job_payloads_pkey", "job_outputs_pkey"),
}
PAGE = 8192
# Somebody has run them again, and they have ended; as long ago as all others of today.
DEALT_WITH = """
    UPDATE chot.jobs SET state = 'cancelled', finished_at = created_at + interval '1 minute'
     WHERE state = 'dead'"""


@dataclass(slots=True)
class Life:
    """Days of jobs, one after the other, on one database."""

    connection: asyncpg.Connection
    engine: AsyncEngine
    day: int = 0
    sizes: list[Counter[str]] = field(default_factory=list)

    async def go_on(self, days: int, *, dying: bool) -> Counter[str]:
        """Live so many days more; by how much each table and index has grown in them."""
        before = Counter(await sizes_of_all(self.connection))
        for _ in range(days):
            ago = DAYS - self.day
            await live_a_day(
                self.connection, first=self.day * JOBS, jobs=JOBS, ago=ago, dying=dying
            )
            await Retention(archive_after_days=AFTER + ago - 1, archive_keep_days=0).step(
                autocommit(self.engine)
            )
            await vacuum(self.connection, 7)
            self.day += 1
        after = Counter(await sizes_of_all(self.connection))
        after.subtract(before)
        return Counter({name: n for name, n in after.items() if name in ORDERED})


async def test_a_dead_job_keeps_a_page_of_each_index_until_it_is_dealt_with(
    probes: AsyncEngine, database: Database, record_property: Any
) -> None:
    """One of a thousand a day: eight pages each; none without them, and none once they are gone."""
    connection = await asyncpg.connect(database.superuser_url)
    await begin(connection)
    life = Life(connection, probes)
    await life.go_on(SETTLED, dying=False)
    without = await life.go_on(SETTLED, dying=False)
    with_them = await life.go_on(ENDS, dying=True)
    await connection.execute(DEALT_WITH)
    dealt_with = await life.go_on(ENDS - 2, dying=False)
    await connection.close()
    a_dead_job = {name: with_them[name] / ENDS for name in ORDERED}
    for name, value in (
        ("bytes_a_dead_job", a_dead_job),
        ("without", dict(without)),
        ("dealt_with", dict(dealt_with)),
    ):
        record_property(name, value)
        print(name, value)  # noqa: T201 - the run's report
    assert all(0.5 * PAGE <= n <= 1.7 * PAGE for n in a_dead_job.values())
    assert sum(without.values()) <= 8 * PAGE * len(ORDERED)
    assert sum(dealt_with.values()) <= 2 * PAGE * len(ORDERED)
