"""The list of a posting is there as long as its job is, in the archive too, and no longer."""

from uuid import UUID, uuid4

from sqlalchemy.ext.asyncio import AsyncEngine

from tests.factories import autocommit, execute, fetch, make_job
from worker.records.list_retention import remove_list
from worker.retention import BEGINNING, Retention

LIST = """
    INSERT INTO books.posting_items (job_id, document_id, seq)
    SELECT :job_id, n, n FROM generate_series(1, :many) AS n"""


async def _lists(engine: AsyncEngine) -> dict[UUID, int]:
    query = "SELECT job_id, count(*) AS rows FROM books.posting_items GROUP BY job_id"
    return {row.job_id: row.rows for row in await fetch(engine, query)}


async def test_a_list_goes_once_the_archive_has_forgotten_its_job(
    probes: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    active, archived, forgotten = await make_job(probes), await make_job(probes), uuid4()
    for job_id in (active, archived, forgotten):
        await execute(probes, LIST, job_id=job_id, many=5)
    await execute(
        probes,
        """UPDATE chot.jobs SET state = 'cancelled', cleanup_due = false,
                  finished_at = clock_timestamp() WHERE id = :id""",
        id=archived,
    )
    auto = autocommit(probes)
    await Retention(archive_after_days=1e-9, archive_keep_days=0).step(auto)
    assert await fetch(probes, "SELECT id FROM chot.archived_jobs WHERE id = :id", id=archived)
    assert await _lists(probes) == {active: 5, archived: 5}
    await execute(owner_engine, "DELETE FROM chot.archived_jobs")
    await Retention(archive_after_days=0, archive_keep_days=0).step(auto)
    assert await _lists(probes) == {active: 5}


async def test_a_long_list_goes_some_rows_at_a_time(probes: AsyncEngine) -> None:
    forgotten = uuid4()
    await execute(probes, LIST, job_id=forgotten, many=5)
    auto = autocommit(probes)
    gone = [await remove_list(auto, BEGINNING, most=2) for _ in range(4)]
    assert gone == [(forgotten, 2), (forgotten, 2), (forgotten, 1), None]
    assert await remove_list(auto, BEGINNING) is None
