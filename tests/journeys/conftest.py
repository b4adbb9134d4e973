"""Journeys run real processes against a database with the company and the probe kinds."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.factories import prepare_probes
from tests.fleet import Fleet, open_fleet
from tests.services import Database
from tests.sqs_proxy import SqsProxy, open_sqs_proxy
from tests.tcp_proxy import Proxy, open_proxy


@pytest.fixture
async def probes(owner_engine: AsyncEngine, engine: AsyncEngine, company: str) -> AsyncEngine:
    """Role app's engine, on a database that knows company ACME and the probe kinds."""
    assert company == "ACME", "the factories submit for this company"
    await prepare_probes(owner_engine, engine)
    return engine


@pytest.fixture
def fleet(
    probes: AsyncEngine,
    database: Database,
    queue_prefix: str,
    sqs_endpoint: str,
    tmp_path: Path,
) -> Iterator[Fleet]:
    """Starts workers and apis with a lease of three seconds."""
    assert probes is not None, "the probes' tables are there before any worker starts"
    with open_fleet(database, queue_prefix, sqs_endpoint, tmp_path) as opened:
        yield opened


@pytest.fixture
def sqs_proxy(sqs_endpoint: str, fleet: Fleet) -> Iterator[SqsProxy]:
    """A proxy in front of SQS; every process of the fleet goes through it."""
    with open_sqs_proxy(sqs_endpoint) as (proxy, url):
        fleet.endpoint = url
        yield proxy


@pytest.fixture
async def pg_proxy(database: Database, fleet: Fleet) -> AsyncIterator[Proxy]:
    """A proxy in front of PostgreSQL; processes that get `fleet.proxied` go through it.

    It lives on the test's loop: a test must not block while they work.
    """
    at = urlsplit(database.app_url)
    assert at.hostname is not None, "the server is reached by TCP"
    async with open_proxy(at.hostname, at.port or 5432) as proxy:
        fleet.proxied = {
            name: url.replace(f"{at.hostname}:{at.port or 5432}", f"127.0.0.1:{proxy.port}")
            for name, url in (
                ("CHOT_DATABASE_URL", database.app_url),
                ("CHOT_READ_DATABASE_URL", database.read_url),
            )
        }
        yield proxy
