"""The api's tests run it in-process, as role app, on a database of their own."""

from collections.abc import AsyncIterator

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.settings import ApiSettings
from dev.sqs import bucket_name, ensure_bucket
from tests.cost_run_rows import seed_places
from tests.factories import execute
from tests.protocol.api.app import api_settings, serving
from tests.protocol.api.keys import SEED_OTHER
from tests.services import Database


@pytest.fixture
def settings(database: Database, company: str, queue_prefix: str) -> ApiSettings:
    """Settings of an api on this test's database, which knows company ACME."""
    assert company == "ACME", "the tests submit for this company"
    return api_settings(database, queue_prefix)


@pytest.fixture
async def client(settings: ApiSettings) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a running api that takes jobs."""
    async with serving(settings) as ready:
        yield ready


@pytest.fixture
async def guarded(
    settings: ApiSettings, owner_engine: AsyncEngine, sqs_endpoint: str
) -> AsyncIterator[httpx.AsyncClient]:
    """A client without a key, of an api that knows ACME and OTHER and asks everybody for one."""
    await execute(owner_engine, SEED_OTHER)
    await seed_places(owner_engine)
    bucket = bucket_name(settings.queue_prefix)
    ensure_bucket(sqs_endpoint, bucket)
    closed = {"api_open": False, "files_bucket": bucket}
    async with serving(settings.model_copy(update=closed)) as client:
        yield client
