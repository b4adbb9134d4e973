"""Files expire: removed in batches, some time after the last download may have begun."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.files import GRACE_SECONDS, remove_expired
from tests.cost_run_rows import write_file
from tests.factories import autocommit, fetch, scalar
from worker.retention import Retention

CHUNKS = "SELECT count(*) FROM chot.file_chunks"
HOUR = 3600.0


async def test_an_expired_file_goes_chunk_by_chunk_and_itself_last(
    engine: AsyncEngine, owner_engine: AsyncEngine, company: str
) -> None:
    """So many a transaction; a file that may still be downloaded stays whole."""
    old = await write_file(owner_engine, bytes(7), chunk=1, seconds=-2 * HOUR, company=company)
    just = await write_file(owner_engine, b"abc", chunk=1, seconds=-GRACE_SECONDS / 2)
    fresh = await write_file(owner_engine, b"xyz", chunk=1)
    auto = autocommit(engine)
    gone, left = [], []
    while (removed := await remove_expired(auto, most=3)) is not None:
        gone.append(removed)
        left.append(await scalar(engine, CHUNKS))
    assert gone == [3, 3, 1]
    assert left == [10, 7, 6]
    rows = await fetch(engine, "SELECT id FROM chot.files ORDER BY id")
    assert {row.id for row in rows} == {just, fresh}
    assert old not in {row.id for row in rows}


async def test_two_workers_remove_two_files_and_wait_for_none(
    engine: AsyncEngine, owner_engine: AsyncEngine, company: str
) -> None:
    """What one of them is at, the other passes over."""
    first = await write_file(owner_engine, b"a", seconds=-3 * HOUR, company=company)
    second = await write_file(owner_engine, b"b", seconds=-2 * HOUR)
    async with owner_engine.begin() as conn:
        await conn.execute(
            text("SELECT 1 FROM chot.files WHERE id = :id FOR NO KEY UPDATE"), {"id": first}
        )
        assert await remove_expired(autocommit(engine)) == 1
        assert await remove_expired(autocommit(engine)) is None
    rows = await fetch(engine, "SELECT id FROM chot.files")
    assert [row.id for row in rows] == [first]
    assert second not in {row.id for row in rows}


async def test_the_workers_maintenance_does_it(
    engine: AsyncEngine, owner_engine: AsyncEngine, company: str
) -> None:
    """In the step that archives jobs."""
    await write_file(owner_engine, b"a", seconds=-3 * HOUR, company=company)
    await write_file(owner_engine, b"", seconds=-3 * HOUR)
    await Retention(archive_after_days=0, archive_keep_days=0).step(autocommit(engine))
    assert await scalar(engine, "SELECT count(*) FROM chot.files") == 0
