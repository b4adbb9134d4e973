"""Protocol tests run on a database with the company, the probe kinds and their tables."""

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.factories import prepare_probes


@pytest.fixture
async def probes(owner_engine: AsyncEngine, engine: AsyncEngine, company: str) -> AsyncEngine:
    """Role app's engine, on a database that knows company ACME and the probe kinds."""
    assert company == "ACME", "the factories submit for this company"
    await prepare_probes(owner_engine, engine)
    return engine
