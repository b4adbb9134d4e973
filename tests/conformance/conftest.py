"""One database and three api processes for the whole session; each test brings work of its own."""

import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest

from dev.sqs import SqsServer, ensure_queues
from tests.conformance.seeded import Seeded, seeded_api
from tests.conformance.world import World, client_to
from tests.fleet import open_fleet
from tests.services import Database, DatabaseServer


@pytest.fixture(scope="session")
def world(
    postgres: DatabaseServer,
    sqs_server: SqsServer,
    sqs: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[World]:
    """The processes; they end with the session."""
    database, prefix = postgres.create(), f"t{secrets.token_hex(4)}"
    ensure_queues(sqs_server.endpoint, prefix, client=sqs)
    logs = tmp_path_factory.mktemp("conformance")
    # Long, so that a lock may be held as long as a busy machine takes.
    with open_fleet(database, prefix, sqs_server.endpoint, logs, lease=120) as fleet:
        made = World(database, fleet, sqs_server.endpoint)
        made.start()
        yield made
    postgres.drop(database)


@pytest.fixture(scope="session")
def seeded(
    postgres: DatabaseServer,
    sqs_server: SqsServer,
    sqs: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Seeded]:
    """An api process for whoever looks at its description, on a database of its own."""
    database, prefix = postgres.create(), f"t{secrets.token_hex(4)}"
    ensure_queues(sqs_server.endpoint, prefix, client=sqs)
    logs = tmp_path_factory.mktemp("openapi")
    with (
        open_fleet(database, prefix, sqs_server.endpoint, logs, lease=30) as fleet,
        seeded_api(fleet) as made,
    ):
        yield made
    postgres.drop(database)


@pytest.fixture
def database(world: World) -> Database:
    """The session's, for `engine` and `owner_engine`: a test counts its own work only."""
    return world.database


@pytest.fixture
async def pair(world: World) -> AsyncIterator[list[httpx.AsyncClient]]:
    """A client each of two processes, as the account of CHOT_TOKEN."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(client_to(url)) for url in world.urls]


@pytest.fixture
async def later(world: World) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the process that is a release ahead."""
    async with client_to(world.later_url) as client:
        yield client
