"""Journeys run real processes against a database with the company and the probe kinds."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.factories import prepare_probes
from tests.fleet import Fleet, open_fleet
from tests.services import Database


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
