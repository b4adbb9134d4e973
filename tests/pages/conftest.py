"""Fixtures of the pages: the api in this process, and the live stack in front of a Chromium."""

from collections.abc import AsyncIterator

import httpx
import pytest

from api.settings import ApiSettings
from tests.pages.browsing import guarded
from tests.protocol.api.app import api_settings
from tests.services import Database


@pytest.fixture
def settings(database: Database, company: str, queue_prefix: str) -> ApiSettings:
    """Settings of an api on this test's database, which knows company ACME."""
    assert company == "ACME", "the tests are about this company"
    return api_settings(database, queue_prefix)


@pytest.fixture
async def visitor(settings: ApiSettings) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody with a browser and without a key."""
    async with guarded(settings) as client:
        yield client
