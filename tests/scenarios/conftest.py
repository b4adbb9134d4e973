"""Scenarios run like journeys: real processes, a real PostgreSQL, an emulator for SQS."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.faults.schema import AUDIT_SCHEMA
from tests.fleet import Fleet
from tests.journeys.conftest import fleet, pg_proxy, probes, sqs_proxy
from tests.scenarios.books import prepare_data
from tests.scenarios.looking import Audit, Queue, api_of
from tests.services import Database

__all__ = ["fleet", "pg_proxy", "probes", "sqs_proxy"]


@pytest.fixture
async def audit(probes: AsyncEngine, database: Database, owner_engine: AsyncEngine) -> Audit:
    """From here on every change of a job's row is noted in the transaction that makes it."""
    assert probes is not None, "the probes are there before the first job"
    connection = await asyncpg.connect(database.superuser_url)
    try:
        await connection.execute(AUDIT_SCHEMA)
    finally:
        await connection.close()
    return Audit(owner_engine)


@pytest.fixture
def queue(sqs: Any, fleet: Fleet) -> Queue:
    """The test's queue, looked at past any proxy."""
    return Queue(sqs, fleet.prefix)


@pytest.fixture
async def http(fleet: Fleet) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an api process of this test's own."""
    async with api_of(fleet) as client:
        yield client


@pytest.fixture
async def data(probes: AsyncEngine, owner_engine: AsyncEngine) -> AsyncEngine:
    """Role app's engine, on a database that has the tables and kinds of the data probes, too."""
    await prepare_data(owner_engine, probes)
    return probes
