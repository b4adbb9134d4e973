"""The api's tests run it in-process, as role app, on a database of their own."""

from collections.abc import AsyncIterator

import httpx
import pytest

from api.settings import ApiSettings
from tests.protocol.api.app import api_settings, serving
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
