"""A database that came back from a logical copy is refused until it has been put right."""

from datetime import date

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.errors import ConfigRefused
from shared.restored import mark_restored, refuse_restored
from tests.costing_books import open_books
from tests.factories import execute, fetch, scalar


@pytest.fixture
async def restored(
    engine: AsyncEngine, owner_engine: AsyncEngine, read_engine: AsyncEngine, company: str
) -> AsyncEngine:
    """Role owner, on books whose newest movement was written by a server that counted further."""
    assert company == "ACME"
    books = await open_books(engine, read_engine)
    first = await books.move("receipt", 5, value=500)
    for _ in range(2):
        await books.move("receipt", 5, value=500)
    await execute(
        owner_engine,
        "UPDATE books.stock_movements SET xid = '99999999999' WHERE id > :first",
        first=first,
    )
    return owner_engine


async def test_a_database_of_its_own_is_not_refused(probes: AsyncEngine) -> None:
    """Neither empty books nor ordinary ones look restored."""
    async with probes.connect() as conn:
        await refuse_restored(conn)


async def test_movements_from_the_future_are_refused_with_the_remedy(
    restored: AsyncEngine,
) -> None:
    """The message says which command to run."""
    async with restored.connect() as conn:
        with pytest.raises(ConfigRefused, match="chot doctor --restored"):
            await refuse_restored(conn)


async def test_marking_makes_every_movement_visible_and_the_deployment_new(
    restored: AsyncEngine,
) -> None:
    """Afterwards every snapshot sees every movement, and old messages are strangers'."""
    before = await scalar(restored, "SELECT deployment_id FROM chot.deployment")
    steps = [step async for step in mark_restored(restored)]
    assert steps[-1] == (3, 3)
    async with restored.connect() as conn:
        await refuse_restored(conn)
    unseen = await fetch(
        restored,
        """SELECT id FROM books.stock_movements
            WHERE NOT pg_visible_in_snapshot(xid, pg_current_snapshot())""",
    )
    assert unseen == []
    assert await scalar(restored, "SELECT deployment_id FROM chot.deployment") != before
    again = [step async for step in mark_restored(restored)]
    assert again[-1] == (3, 0)


async def test_results_and_late_movements_of_a_copy_are_seen_by_the_next_run(
    engine: AsyncEngine, owner_engine: AsyncEngine, read_engine: AsyncEngine, company: str
) -> None:
    """A return refers to January's costs, which the copy says were activated in the future."""
    assert company == "ACME"
    books = await open_books(engine, read_engine)
    await books.move("receipt", 5, value=500)
    sale = await books.move("issue", 2)
    await books.cost()
    await books.move("sales_return", 1, ref=sale, day=date(2026, 2, 3))
    await books.cost("2026-02")
    await books.move("receipt", 1, value=1)
    for statement in (
        "UPDATE books.active_results SET xid = '99999999999'",
        """INSERT INTO books.late_movements SELECT company, period, brand, item, '99999999999'
             FROM books.late_movements""",
    ):
        await execute(owner_engine, statement)
    assert [step async for step in mark_restored(owner_engine)]
    assert (await books.cost("2026-02"))["recompute_rounds"] == 0
    await books.cost()
    assert await scalar(engine, "SELECT count(*) FROM books.late_movements") == 0
