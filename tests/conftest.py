"""Fixtures every test may ask for: a database of its own, engines per role, queues of its own."""

import os
import secrets
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from sqlalchemy.ext.asyncio import AsyncEngine

from dev.sqs import SqsServer, aws_environment, ensure_queues, sqs_client, start_sqs
from shared.database import open_engine
from tests.costing_oracle.chance import draw_alike
from tests.services import (
    Database,
    DatabaseServer,
    MigrationFailed,
    database_server,
    seed_company,
    servers_place,
)

POOL_SIZE = 16


def pytest_configure(config: pytest.Config) -> None:
    """Forget the developer's own settings: a test sets what it depends on.

    Stories told by chance are the same ones in every run, however slow the machine is and whatever
    else is run: another `--hypothesis-seed` or `--hypothesis-profile` tells others.
    """
    draw_alike()
    for name in list(os.environ):
        if name.startswith("CHOT_") and not name.startswith("CHOT_TEST_"):
            del os.environ[name]
    chosen = config.getoption("--hypothesis-profile", None)
    if chosen is None:
        seeded = config.getoption("--hypothesis-seed", None) is not None
        same = settings.get_profile("ci")
        settings.register_profile("same", same, derandomize=not seeded)
        settings.load_profile("same")


@pytest.fixture(scope="session")
def services_home() -> Iterator[Path]:
    """A directory for the session's servers, open to the account PostgreSQL runs as.

    Not below pytest's own: every session that starts closes that one to all other accounts.
    """
    with tempfile.TemporaryDirectory(
        prefix="chot-tests-", dir=servers_place(), ignore_cleanup_errors=True
    ) as home:
        Path(home).chmod(0o755)
        yield Path(home)


@pytest.fixture(scope="session")
def postgres(services_home: Path) -> Iterator[DatabaseServer]:
    """The session's PostgreSQL with a migrated template."""
    with database_server(services_home) as server:
        try:
            server.prepare()
        except (MigrationFailed, OSError) as failure:
            raise pytest.fail.Exception(str(failure), pytrace=False) from None
        yield server


@pytest.fixture
def database(postgres: DatabaseServer) -> Iterator[Database]:
    """A freshly migrated database of this test's own."""
    mine = postgres.create()
    yield mine
    postgres.drop(mine)


@pytest.fixture
def empty_database(postgres: DatabaseServer) -> Iterator[Database]:
    """A database of this test's own without any migration."""
    mine = postgres.create_empty()
    yield mine
    postgres.drop(mine)


@pytest.fixture
async def engine(database: Database) -> AsyncIterator[AsyncEngine]:
    """An engine as role app: what api and worker may do, the test may do."""
    opened = open_engine(database.app_url, pool_size=POOL_SIZE, application_name="test app")
    yield opened
    await opened.dispose()


@pytest.fixture
async def owner_engine(database: Database) -> AsyncIterator[AsyncEngine]:
    """An engine as role owner, for setting clocks back and for fixtures app may not write."""
    opened = open_engine(database.owner_url, pool_size=POOL_SIZE, application_name="test owner")
    yield opened
    await opened.dispose()


@pytest.fixture
async def read_engine(database: Database) -> AsyncIterator[AsyncEngine]:
    """An engine as role read."""
    opened = open_engine(database.read_url, pool_size=POOL_SIZE, application_name="test read")
    yield opened
    await opened.dispose()


@pytest.fixture
async def company(database: Database) -> str:
    """Company ACME, brands RED (stores R1, R2) and BLUE (store B1); returns its code."""
    await seed_company(database)
    return "ACME"


@pytest.fixture(scope="session")
def sqs_server(services_home: Path) -> Iterator[SqsServer]:
    """The session's SQS emulator; botocore's environment points at it."""
    emulator = os.environ.get("CHOT_TEST_SQS_EMULATOR", "ministack")
    assert emulator in {"ministack", "moto"}, "CHOT_TEST_SQS_EMULATOR is ministack or moto"
    server = start_sqs(
        services_home / "sqs.log", emulator="moto" if emulator == "moto" else "ministack"
    )
    with pytest.MonkeyPatch.context() as patch:
        for name, value in aws_environment(server.endpoint).items():
            patch.setenv(name, value)
        yield server
    server.stop()


@pytest.fixture
def sqs_endpoint(sqs_server: SqsServer) -> str:
    """The emulator's URL."""
    return sqs_server.endpoint


@pytest.fixture(scope="session")
def sqs(sqs_server: SqsServer) -> Iterator[Any]:
    """A boto3 SQS client, for looking at queues from outside."""
    client = sqs_client(sqs_server.endpoint)
    yield client
    client.close()


@pytest.fixture
def queue_urls(queue_prefix: str, sqs_endpoint: str, sqs: Any) -> dict[str, str]:
    """This test's queues by our name for them: {"costing": url, …}."""
    return ensure_queues(sqs_endpoint, queue_prefix, client=sqs)


@pytest.fixture
def queue_prefix(sqs_endpoint: str, sqs: Any) -> str:
    """A prefix of this test's own, with its queues and dead-letter queues made."""
    prefix = f"t{secrets.token_hex(4)}"
    ensure_queues(sqs_endpoint, prefix, client=sqs)
    return prefix
