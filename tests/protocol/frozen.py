"""Frozen COMMITs: durable, seen by nobody, answered to nobody, until they are thawed.

A synchronous standby that does not exist does it. The whole server freezes, so this works on a
server of the tests' own only.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from tests.services import Database

FREEZE = "ALTER SYSTEM SET synchronous_standby_names = 'nosuch'"
THAW = "ALTER SYSTEM RESET synchronous_standby_names"
# Writes WAL and nothing else, so that its COMMIT shows whether the setting is in force.
PROBE = "SELECT pg_logical_emit_message(true, 'frozen', '')"
STUCK = """
    SELECT count(*) FROM pg_stat_activity
     WHERE wait_event = 'SyncRep' AND application_name = $1"""


class Freezer:
    """Thaws once, and sees who is stuck."""

    def __init__(self, admin: asyncpg.Connection) -> None:
        self._admin = admin

    async def thaw(self) -> None:
        """Let every frozen COMMIT end well."""
        await self._admin.execute(THAW)
        await self._admin.execute("SELECT pg_reload_conf()")

    async def until_stuck(self, application_name: str) -> None:
        """Wait until a COMMIT of that application is frozen."""
        async with asyncio.timeout(30):
            while not await self._admin.fetchval(STUCK, application_name):  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@asynccontextmanager
async def frozen_commits(database: Database) -> AsyncIterator[Freezer]:
    """Freeze every COMMIT from here on; thawed at the end in any case."""
    if os.environ.get("CHOT_TEST_DATABASE_URL"):
        pytest.skip("freezes a whole server: not one that was lent to us")
    admin = await asyncpg.connect(database.superuser_url)
    freezer = Freezer(admin)
    try:
        await admin.execute(FREEZE)
        await admin.execute("SELECT pg_reload_conf()")
        await _until_in_force(admin, database)
        yield freezer
    finally:
        await freezer.thaw()
        await admin.close()


async def _until_in_force(admin: asyncpg.Connection, database: Database) -> None:
    """The reload reaches the server's processes one by one; a frozen probe proves it."""
    settings = {"application_name": "freeze probe"}
    async with asyncio.timeout(30):
        while True:
            probe = await asyncpg.connect(database.superuser_url, server_settings=settings)
            written = asyncio.create_task(probe.execute(PROBE))
            while not written.done():
                if await admin.fetchval(STUCK, "freeze probe"):
                    probe.terminate()
                    await asyncio.gather(written, return_exceptions=True)
                    return
                await asyncio.sleep(0.01)
            await written
            await probe.close()
