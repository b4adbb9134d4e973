"""The servers the tests run on: one PostgreSQL and one SQS emulator a session, a database a test.

A template database is migrated once; each test gets a clone of it (about 20 ms). Which server:

- nothing set: a private one from the embedded wheel (PostgreSQL 18);
- CHOT_TEST_POSTGRES_BIN: a private one from that directory, e.g. /usr/lib/postgresql/15/bin;
- CHOT_TEST_DATABASE_URL: that server, as its superuser. Roles chot_* are made there by the first
  migration and stay; where the URL has a password, the roles are given the same one.
"""

import asyncio
import os
import secrets
import shutil
import subprocess
import sys
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

import asyncpg

from dev.postgres import TEST_SETTINGS, PostgresServer, start_postgres

ROOT = Path(__file__).parents[1]
ROLES = ("chot_owner", "chot_app", "chot_read", "chot_enqueue")
ADMIN_SECONDS = 60.0
MEMORY = Path("/dev/shm")  # noqa: S108 - the directories in it have names that nobody guesses
MEMORY_BYTES = 12 * 2**30
T = TypeVar("T")


class MigrationFailed(RuntimeError):
    """The template could not be brought to the newest schema; the text is the migration's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """One test's own database; all URLs are plain postgresql://."""

    name: str
    server: SplitResult

    def url_as(self, role: str) -> str:
        """Return the URL for a role, with the server's password where it wants one."""
        password = f":{self.server.password}" if self.server.password else ""
        return f"postgresql://{role}{password}@{_address(self.server)}/{self.name}"

    @property
    def superuser_url(self) -> str:
        """For looking and sabotage only: a superuser ignores every grant."""
        return self.url_as(self.server.username or "postgres")

    @property
    def owner_url(self) -> str:
        """Role chot_owner: owns the schemas, writes what app may not."""
        return self.url_as("chot_owner")

    @property
    def app_url(self) -> str:
        """Role chot_app, as api and worker run."""
        return self.url_as("chot_app")

    @property
    def read_url(self) -> str:
        """Role chot_read: SELECT only."""
        return self.url_as("chot_read")

    @property
    def enqueue_url(self) -> str:
        """Role chot_enqueue: may only call chot.enqueue."""
        return self.url_as("chot_enqueue")


class Administrator:
    """A superuser's connection on a loop and thread of its own, for tests with and without one."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="admin", daemon=True)
        self._thread.start()
        self._connection: asyncpg.Connection | None = None

    def execute(self, *statements: str) -> None:
        """Run the statements one by one, each in its own transaction."""
        self._call(self._execute(statements))

    def close(self) -> None:
        """Disconnect and end the thread."""
        if self._connection is not None:
            self._call(self._connection.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(ADMIN_SECONDS)
        self._loop.close()

    def read(self, query: str) -> list[str]:
        """Return the first column of the query's rows."""
        return self._call(self._read(query))

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return running.result(ADMIN_SECONDS)
        except TimeoutError:
            # A connection in the middle of something would fail every test after this one.
            running.cancel()
            self._connection = None
            raise

    async def _connected(self) -> asyncpg.Connection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await asyncpg.connect(self.url)
        return self._connection

    async def _execute(self, statements: tuple[str, ...]) -> None:
        connection = await self._connected()
        for statement in statements:
            await connection.execute(statement)

    async def _read(self, query: str) -> list[str]:
        return [row[0] for row in await (await self._connected()).fetch(query)]


# What belongs to a database as a whole and is therefore not copied with its template.
GRANTS_ON_DATABASE = """
    SELECT format('GRANT %s ON DATABASE %%1$I TO %I', acl.privilege_type, acl.grantee::regrole)
      FROM pg_database, aclexplode(datacl) AS acl
     WHERE datname = '{name}' AND acl.grantee <> 0
    UNION ALL
    SELECT format('ALTER ROLE %I IN DATABASE %%1$I SET %I = %L', setrole::regrole,
                  split_part(item, '=', 1), substr(item, strpos(item, '=') + 1))
      FROM pg_db_role_setting JOIN pg_database ON pg_database.oid = setdatabase,
           unnest(setconfig) AS item
     WHERE datname = '{name}' AND setrole <> 0
"""


class DatabaseServer:
    """Clones the migrated template for each test that asks."""

    def __init__(self, url: str) -> None:
        self._address = urlsplit(url)
        self._admin = Administrator(url)
        self._template = Database(name=f"chot_t_{secrets.token_hex(4)}", server=self._address)
        self._made = 0
        self._finish_clone: list[str] = []

    def prepare(self) -> None:
        """Make the template and migrate it, once a session."""
        self._admin.execute(f'CREATE DATABASE "{self._template.name}"')
        migrate(self._template.superuser_url)
        self._finish_clone = self._admin.read(GRANTS_ON_DATABASE.format(name=self._template.name))
        if self._address.password:
            quoted = unquote(self._address.password).replace("'", "''")
            give = [f"ALTER ROLE {role} PASSWORD '{quoted}'" for role in ROLES]
            # Roles belong to the cluster, and other sessions may be at the same point.
            self._admin.execute("; ".join(["SELECT pg_advisory_xact_lock(1)", *give]))

    def create(self) -> Database:
        """Return a fresh migrated database."""
        self._made += 1
        clone = Database(name=f"{self._template.name}_{self._made}", server=self._address)
        finish = (line.replace("%1$I", f'"{clone.name}"') for line in self._finish_clone)
        self._admin.execute(
            f'CREATE DATABASE "{clone.name}" TEMPLATE "{self._template.name}"',
            "; ".join(finish),
        )
        return clone

    def create_empty(self) -> Database:
        """Return a fresh database without any migration."""
        self._made += 1
        empty = Database(name=f"{self._template.name}_{self._made}", server=self._address)
        self._admin.execute(f'CREATE DATABASE "{empty.name}" TEMPLATE template0')
        return empty

    def drop(self, database: Database) -> None:
        """Throw out whoever is still connected, then drop."""
        self._admin.execute(f'DROP DATABASE IF EXISTS "{database.name}" WITH (FORCE)')

    def close(self) -> None:
        """Drop the template and disconnect."""
        self.drop(self._template)
        self._admin.close()


@contextmanager
def database_server(home: Path) -> Iterator[DatabaseServer]:
    """Yield the session's server, not yet prepared; a private one ends with the session."""
    given = os.environ.get("CHOT_TEST_DATABASE_URL")
    private = None if given else start_private_postgres(home / "postgres")
    server = DatabaseServer(given or private.url())  # type: ignore[union-attr] # one of the two
    try:
        yield server
    finally:
        server.close()
        if private is not None:
            private.stop()


def servers_place() -> str | None:
    """Where directories of servers are made; None: where all temporary ones are.

    In memory where there is much more of it than the largest test writes: a database a test is some
    hundred files to make and to remove, ten times as quick there. TMPDIR says otherwise.
    """
    if os.environ.get("TMPDIR") or not os.access(MEMORY, os.W_OK):
        return None
    return str(MEMORY) if shutil.disk_usage(MEMORY).free >= MEMORY_BYTES else None


def start_private_postgres(data: Path) -> PostgresServer:
    """Start a server of the session's version that a test may stop and crash as it likes."""
    chosen = os.environ.get("CHOT_TEST_POSTGRES_BIN")
    bin_dir = Path(chosen) if chosen else None
    return start_postgres(data, bin_dir=bin_dir, settings=TEST_SETTINGS)


def migrate(superuser_url: str) -> None:
    """Bring a database to the newest schema; MigrationFailed carries what went wrong."""
    env = {**os.environ, "CHOT_MIGRATE_DATABASE_URL": superuser_url}
    command = [sys.executable, "-m", "shared.cli", "migrate"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MigrationFailed(f"migration failed:\n{done.stdout}{done.stderr}")


def _address(server: SplitResult) -> str:
    return f"{server.hostname or '127.0.0.1'}:{server.port or 5432}"


SEED_COMPANY = """
    INSERT INTO books.companies (code, name) VALUES ('ACME', 'ACME JSC');
    INSERT INTO books.brands (company, code, name)
    VALUES ('ACME', 'RED', 'Red'), ('ACME', 'BLUE', 'Blue');
    INSERT INTO books.stores (company, code, brand, name)
    VALUES ('ACME', 'R1', 'RED', 'Red one'), ('ACME', 'R2', 'RED', 'Red two'),
           ('ACME', 'B1', 'BLUE', 'Blue one');
"""


async def seed_company(database: Database) -> None:
    """Write company ACME with brands RED (stores R1, R2) and BLUE (store B1)."""
    connection = await asyncpg.connect(database.superuser_url)
    try:
        await connection.execute(SEED_COMPANY)
    finally:
        await connection.close()
