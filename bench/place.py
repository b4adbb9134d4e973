"""Where it is measured: one PostgreSQL with a server's settings, one emulator; platforms on them.

Each platform has a database, queues and processes of its own, and is gone when its block ends.
"""

import os
import secrets
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree

import asyncpg

from dev.postgres import PostgresServer, remove_data, start_postgres
from dev.processes import Child, Command, answers, free_port, start, wait_until
from dev.sqs import SqsServer, aws_environment, bucket_name, ensure_bucket, ensure_queues, start_sqs
from dev.stack_config import ROOT
from dev.stack_key import make_key
from shared.api_keys import new_key
from tests.services import Database, DatabaseServer, seed_company

# As a server of 8 GiB would be set. Whatever makes a commit durable is on, and is said aloud.
SERVER_SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "autovacuum": "on",
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "15min",
    "checkpoint_completion_target": "0.9",
    "random_page_cost": "1.1",
    "effective_cache_size": "4GB",
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.max": "10000",
    "pg_stat_statements.track": "top",
    "track_io_timing": "off",
}
COMPANY = "ACME"
BRAND = "RED"
# A bench is one account that asks as fast as it can.
WITHOUT_RATE = {"CHOT_RATE_PER_SECOND": "100000", "CHOT_RATE_BURST": "1000000"}
OURS = {"CHOT_KIND_MODULES": "bench.kinds", "CHOT_HANDLER_MODULES": "bench.handlers"}
EFFECTS = """
    CREATE SCHEMA bench;
    CREATE TABLE bench.effects (
        job_id uuid NOT NULL, fence bigint NOT NULL,
        at timestamptz NOT NULL DEFAULT clock_timestamp());
    GRANT USAGE ON SCHEMA bench TO chot_app, chot_read;
    GRANT SELECT, INSERT ON bench.effects TO chot_app;
    GRANT SELECT ON bench.effects TO chot_read"""
START_SECONDS = 60.0
STARTED = b"worker.started"


@dataclass(frozen=True, slots=True)
class Place:
    """The servers of a run."""

    home: Path
    postgres: PostgresServer
    databases: DatabaseServer
    sqs: SqsServer

    @asynccontextmanager
    async def platform(self, **env: str) -> AsyncIterator["Platform"]:
        """A platform of its own: database, queues, bucket, company ACME. `env` is for all of it."""
        database = self.databases.create()
        prefix = f"b{secrets.token_hex(4)}"
        urls = ensure_queues(self.sqs.endpoint, prefix)
        ensure_bucket(self.sqs.endpoint, bucket_name(prefix))
        await seed_company(database)
        superuser = await asyncpg.connect(database.superuser_url)
        await superuser.execute(EFFECTS)
        platform = Platform(self, database, prefix, urls, superuser, env)
        await make_key(database.superuser_url, platform.key)
        try:
            yield platform
        finally:
            await superuser.close()
            platform.close()
            self.databases.drop(database)


@dataclass(slots=True)
class Platform:
    """A database and queues; its processes are started with the settings that are the defaults.

    `looks` counts the bench's own transactions in this database.
    """

    place: Place
    database: Database
    prefix: str
    queue_urls: Mapping[str, str]
    superuser: asyncpg.Connection
    env: Mapping[str, str]
    key: str = field(default_factory=new_key)
    children: list[Child] = field(default_factory=list)
    looks: int = 0
    started: int = 0

    def environment(self, **changes: str) -> dict[str, str]:
        """What a process of this platform runs in: nothing of the caller's own settings."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("CHOT_", "AWS_", "PYTHON"))
        }
        ours = {
            "PYTHONPATH": str(ROOT),
            "CHOT_DATABASE_URL": self.database.app_url,
            "CHOT_READ_DATABASE_URL": self.database.read_url,
            "CHOT_QUEUE_PREFIX": self.prefix,
            "CHOT_FILES_BUCKET": bucket_name(self.prefix),
            "CHOT_LOG_FORMAT": "json",
            "CHOT_API_HOST": "127.0.0.1",
        }
        given = {**aws_environment(self.place.sqs.endpoint), **ours, **OURS}
        return {**kept, **given, **self.env, **changes}

    def worker(self, **changes: str) -> Child:
        """Start a worker and return once it has told that it works."""
        child = self.start("worker", "-m", "worker", **changes)
        log = child.command.log
        assert log is not None, "every process of ours has a log"
        wait_until(
            lambda: log.exists() and STARTED in log.read_bytes(),
            child,
            deadline_seconds=START_SECONDS,
            what="started",
        )
        return child

    def api(self, **changes: str) -> tuple[Child, int]:
        """Start an api and return once it is ready, with its port."""
        port = free_port()
        child = self.start(
            "api", "-m", "api", **WITHOUT_RATE | {"CHOT_API_PORT": str(port)} | changes
        )
        wait_until(
            lambda: answers(port, "/readyz"), child, deadline_seconds=START_SECONDS, what="ready"
        )
        return child, port

    def start(self, name: str, *arguments: str, **changes: str) -> Child:
        """Start Python with these arguments in this platform's environment."""
        self.started += 1
        child = start(
            Command(
                name=f"{name} {self.started}",
                argv=[sys.executable, *arguments],
                env=self.environment(**changes),
                log=self.place.home / f"{self.prefix}-{name}-{self.started}.log",
                cwd=self.place.home,
            )
        )
        self.children.append(child)
        return child

    def close(self) -> None:
        """Kill whatever still runs, stopped processes included."""
        for child in self.children:
            if child.alive:
                child.send(signal.SIGCONT)
                child.kill()


@contextmanager
def open_place(where: Path | None = None) -> Iterator[Place]:
    """Start the servers below `where` (None: where temporary files are) and end them afterwards."""
    home = Path(tempfile.mkdtemp(prefix="chot-bench-", dir=where))
    home.chmod(0o755)  # as root, PostgreSQL runs under an account of its own
    postgres = sqs = databases = None
    try:
        postgres = start_postgres(home / "postgres", settings=SERVER_SETTINGS)
        sqs = start_sqs(home / "sqs.log")
        databases = DatabaseServer(postgres.url())
        databases.prepare()
        yield Place(home, postgres, databases, sqs)
    finally:
        if databases is not None:
            databases.close()
        if sqs is not None:
            sqs.stop()
        if postgres is not None:
            postgres.stop()
        remove_data(home / "postgres")
        rmtree(home, ignore_errors=True)
