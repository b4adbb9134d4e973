"""Protocol tests run on a database with the company, the probe kinds and their tables."""

from collections.abc import AsyncIterator

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import open_engine
from tests.factories import prepare_probes
from tests.importing import Importing, open_importing
from tests.migrating import Migrating, open_migrating
from tests.services import Database


@pytest.fixture
async def probes(owner_engine: AsyncEngine, engine: AsyncEngine, company: str) -> AsyncEngine:
    """Role app's engine, on a database that knows company ACME and the probe kinds."""
    assert company == "ACME", "the factories submit for this company"
    await prepare_probes(owner_engine, engine)
    return engine


@pytest.fixture
async def single(probes: AsyncEngine, database: Database) -> AsyncIterator[AsyncEngine]:
    """A pool of one connection: the next job gets what the last one left."""
    assert probes is not None, "it needs their tables"
    opened = open_engine(database.app_url, pool_size=1)
    yield opened
    await opened.dispose()


@pytest.fixture
async def migrating(  # noqa: PLR0917 - what a test asks for
    database: Database,
    engine: AsyncEngine,
    owner_engine: AsyncEngine,
    read_engine: AsyncEngine,
    company: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Migrating:
    """The probe tasks of migrations, on a database with company ACME."""
    assert company == "ACME"
    return await open_migrating(database, (engine, owner_engine, read_engine), monkeypatch)


@pytest.fixture
async def importing(
    migrating: Migrating, sqs_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> Importing:
    """Imports, on a database with company ACME, its items and periods."""
    return await open_importing(migrating, sqs_endpoint, monkeypatch)
