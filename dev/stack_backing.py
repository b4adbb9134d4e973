"""What api and worker stand on: a migrated PostgreSQL and the queues, started where not given."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

import asyncpg

from dev.postgres import PostgresServer, remove_data, start_postgres
from dev.processes import StartFailed
from dev.sample_company import Progress, load_sample
from dev.sqs import (
    QueueAttributes,
    SqsServer,
    bucket_name,
    ensure_bucket,
    ensure_queues,
    start_sqs,
)
from dev.stack_config import DatabaseUrls, StackConfig, base_environment
from dev.stack_key import make_key

DATABASE = "chot"
DEFAULT_VISIBILITY_SECONDS = 60
TOLD_EVERY = 100_000  # movements, some five seconds
Say = Callable[[str], None]


@dataclass(slots=True)
class Backing:
    """The running servers; None where the caller brought one."""

    urls: DatabaseUrls
    sqs_endpoint: str
    postgres: PostgresServer | None
    sqs: SqsServer | None

    @property
    def loss(self) -> str | None:
        """What has ended that was started here, in words; None while everything runs."""
        servers = {"PostgreSQL": self.postgres, "the SQS emulator": self.sqs}
        for name, server in servers.items():
            if server is not None and not server.child.alive:
                return f"{name} ended with {server.child.exit_code}"
        return None

    def stop(self) -> None:
        """Stop what was started here: first the emulator, then PostgreSQL. Idempotent."""
        if self.sqs is not None:
            self.sqs.stop()
        if self.postgres is not None:
            self.postgres.stop()


async def start_backing(config: StackConfig, say: Say) -> Backing:
    """Start, migrate and fill; everything is stopped again when a step fails."""
    config.logs.mkdir(parents=True, exist_ok=True)
    postgres = None if config.database else _start_postgres(config, say)
    sqs = None
    try:
        if config.sqs_endpoint is None:
            say("starting the SQS emulator")
            sqs = start_sqs(config.logs / "sqs.log")
        endpoint = config.sqs_endpoint or (sqs.endpoint if sqs else "")
        make_queues(config, endpoint)
        urls = config.database or await _make_database(config, postgres, say)
        if config.has_key:
            await make_key(urls.superuser, config.token)
        return Backing(urls=urls, sqs_endpoint=endpoint, postgres=postgres, sqs=sqs)
    except BaseException:
        if sqs is not None:
            sqs.stop()
        if postgres is not None:
            postgres.stop()
        raise


def make_queues(config: StackConfig, endpoint: str) -> None:
    """Create the queues, with the visibility the workers will be started with, and the bucket."""
    visibility = config.setting("CHOT_VISIBILITY_SECONDS") or DEFAULT_VISIBILITY_SECONDS
    attributes = QueueAttributes(visibility=int(float(visibility)))
    ensure_queues(endpoint, config.queue_prefix, attributes=attributes)
    ensure_bucket(endpoint, bucket_name(config.queue_prefix))


def _start_postgres(config: StackConfig, say: Say) -> PostgresServer:
    data = config.home / "postgres"
    if config.fresh:
        remove_data(data)
    say("starting PostgreSQL")
    return start_postgres(data, bin_dir=config.bin_dir, log=config.logs / "postgres.log")


async def _make_database(
    config: StackConfig, postgres: PostgresServer | None, say: Say
) -> DatabaseUrls:
    assert postgres is not None, "no database was given, so a server was started"
    await _create_if_missing(postgres.url())
    urls = DatabaseUrls(
        superuser=postgres.url(DATABASE),
        app=postgres.url(DATABASE, "chot_app"),
        read=postgres.url(DATABASE, "chot_read"),
    )
    say("migrating")
    _run_module(config, urls.superuser, "shared.cli", "migrate")
    if config.movements:
        telling = telling_of(say)
        sample = await load_sample(urls.app, movements=config.movements, progress=telling)
        found = "is there" if sample.existed else f"loaded in {sample.seconds:.1f} s"
        say(f"sample company {sample.company}, {sample.movements:,} movements: {found}")
    return urls


def telling_of(say: Say) -> Progress:
    """What a load says meanwhile: how much there is to do, then how far it is."""

    def tell(done: int, total: int) -> None:
        if not done:
            say(f"loading the sample company, {total:,} movements")
        elif done < total and done % TOLD_EVERY == 0:
            say(f"  {done:,} of {total:,}")

    return tell


async def _create_if_missing(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        found = await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", DATABASE)
        if not found:
            await connection.execute(f"CREATE DATABASE {DATABASE}")
    finally:
        await connection.close()


def _run_module(config: StackConfig, migrate_url: str, module: str, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env={**base_environment(config), "CHOT_MIGRATE_DATABASE_URL": migrate_url},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise StartFailed(f"{module} {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
