"""What a handler leaves on its connection is gone before anybody else has it."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import open_engine
from tests.factories import TIMING, claimed_job, fetch
from tests.services import Database
from worker.fence import fenced_transaction

LEAVES = (
    "SET statement_timeout = '77s'",
    "LISTEN strangers",
    "DECLARE held CURSOR WITH HOLD FOR SELECT generate_series(1, 9)",
    "SELECT pg_advisory_lock(4711)",
)
LEFT = """
    SELECT current_setting('statement_timeout') AS setting,
           (SELECT count(*) FROM pg_listening_channels()) AS channels,
           (SELECT count(*) FROM pg_cursors WHERE is_holdable) AS cursors,
           (SELECT count(*) FROM pg_locks
             WHERE pid = pg_backend_pid() AND locktype = 'advisory') AS locks"""


async def test_a_handlers_session_is_undone_after_its_commit(
    probes: AsyncEngine, database: Database
) -> None:
    """Settings, channels, cursors and advisory locks that outlive a transaction do not outlive it."""
    held = await claimed_job(probes)
    engine = open_engine(database.app_url, pool_size=1)
    before = (await fetch(engine, LEFT))[0]
    async with fenced_transaction(engine, held, TIMING, completes=False) as tx:
        for statement in LEAVES:
            await tx.connection.execute(text(statement))
        inside = (await tx.connection.execute(text(LEFT))).one()
    assert (inside.setting, inside.cursors, inside.locks) == ("77s", 1, 1)
    assert (await fetch(engine, LEFT))[0] == before
    assert tuple(before)[1:] == (0, 0, 0)
    await engine.dispose()
