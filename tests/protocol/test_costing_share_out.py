"""Sharing a run out takes time in the number of its families, not in its square."""

from time import monotonic

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from tests.costing_books import open_books
from worker.records import parts

FAMILIES = 4_000
LIST = text("""
    INSERT INTO books.cost_run_items
           (run_id, brand, item, movements, done, digest, method, family)
    SELECT :run, 'RED', i::text, 1, :done,
           CASE WHEN :done THEN decode(repeat('00', 32), 'hex') END, 'fifo', i::text
      FROM generate_series(1, :families) AS i""")


async def _shared(conn: AsyncConnection, families: int) -> float:
    """Seconds, with statistics of a run before, which are all that there are at that moment."""
    for run, done in ((1, True), (2, False)):
        await conn.execute(LIST, {"run": run, "done": done, "families": families})
        if done:
            await conn.execute(text("ANALYZE books.cost_run_items"))
    began = monotonic()
    await conn.execute(parts.SHARE_OUT, {"run_id": 2, "parts": 2})
    return monotonic() - began


async def test_four_times_the_families_take_four_times_as_long(
    owner_engine: AsyncEngine, engine: AsyncEngine, read_engine: AsyncEngine, company: str
) -> None:
    assert company == "ACME"
    books = await open_books(engine, read_engine)
    await books.move("receipt", 1, value=1)
    assert [(await books.cost())["run_id"] for _ in range(2)] == [1, 2]
    seconds = []
    for families in (FAMILIES // 4, FAMILIES):
        async with owner_engine.connect() as conn:
            seconds.append(await _shared(conn, families))
            await conn.rollback()
    assert seconds[1] < 8 * seconds[0] + 0.1, seconds
