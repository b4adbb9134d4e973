"""A PostgreSQL of one test's own: with settings of its own, and free to be stopped."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg
from sqlalchemy.ext.asyncio import AsyncEngine

from dev.postgres import TEST_SETTINGS, PostgresServer, start_postgres
from shared.database import open_engine
from tests.factories import prepare_probes
from tests.fleet import Fleet, open_fleet
from tests.services import Database, DatabaseServer, seed_company


@dataclass(slots=True)
class OwnServer:
    """The running server, and one migrated database in it with company ACME."""

    server: PostgresServer
    settings: Mapping[str, str]
    database: Database

    async def restart(self) -> None:
        """As `docker restart -t 0`: an immediate stop, recovery, the same port."""
        await asyncio.to_thread(self.server.crash)
        port, data = self.server.port, self.server.data
        self.server = await asyncio.to_thread(_start, data, self.settings, port)

    async def configure(self, name: str, value: str | None) -> None:
        """ALTER SYSTEM and reload: for the sessions that are open, too (None: the default)."""
        change = f"RESET {name}" if value is None else f"SET {name} = {value}"
        connection = await asyncpg.connect(self.database.superuser_url)
        try:
            await connection.execute(f"ALTER SYSTEM {change}")
            await connection.execute("SELECT pg_reload_conf()")
        finally:
            await connection.close()


def _start(data: Path, settings: Mapping[str, str], port: int | None = None) -> PostgresServer:
    chosen = os.environ.get("CHOT_TEST_POSTGRES_BIN")
    bin_dir = Path(chosen) if chosen else None
    return start_postgres(data, bin_dir=bin_dir, port=port, settings={**TEST_SETTINGS, **settings})


@asynccontextmanager
async def own_server(data: Path, **settings: str) -> AsyncIterator[OwnServer]:
    """Start it, migrate a database; everything is gone again at the end."""
    server = await asyncio.to_thread(_start, data, settings)
    databases = DatabaseServer(server.url())
    own = OwnServer(server, settings, await asyncio.to_thread(_migrated, databases))
    try:
        await seed_company(own.database)
        yield own
    finally:
        await asyncio.to_thread(own.server.stop)


def _migrated(databases: DatabaseServer) -> Database:
    databases.prepare()
    made = databases.create()
    databases.close()
    return made


@asynccontextmanager
async def own_fleet(own: OwnServer, prefix: str, endpoint: str, logs: Path) -> AsyncIterator[Fleet]:
    """Processes on that server, which knows the probes; each URL of theirs goes straight to it."""
    owner = open_engine(own.database.owner_url, pool_size=0, application_name="test owner")
    app = open_engine(own.database.app_url, pool_size=0, application_name="test app")
    await prepare_probes(owner, app)
    with open_fleet(own.database, prefix, endpoint, logs) as fleet:
        yield fleet


@asynccontextmanager
async def onlooker(own: OwnServer) -> AsyncIterator[AsyncEngine]:
    """A superuser's way in, for looking: there is a connection left for it, and it waits for one.

    One connection a use, so that a restart in between costs it nothing.
    """
    engine = open_engine(own.database.superuser_url, pool_size=0, application_name="test onlooker")
    yield engine
    await engine.dispose()
