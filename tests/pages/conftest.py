"""Fixtures of the pages: the api in this process, and the live stack in front of a Chromium."""

import secrets
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.settings import ApiSettings
from dev.sqs import SqsServer
from tests.factories import prepare_probes
from tests.pages.browsing import guarded
from tests.pages.chromium import Window, open_window
from tests.pages.stack import Stack, open_stack
from tests.protocol.api.app import api_settings
from tests.services import Database, DatabaseServer


@pytest.fixture
def settings(database: Database, company: str, queue_prefix: str) -> ApiSettings:
    """Settings of an api on this test's database, which knows company ACME."""
    assert company == "ACME", "the tests are about this company"
    return api_settings(database, queue_prefix)


@pytest.fixture
async def probes(owner_engine: AsyncEngine, engine: AsyncEngine, company: str) -> AsyncEngine:
    """Role app's engine, on a database that knows company ACME and the probe kinds."""
    assert company == "ACME"
    await prepare_probes(owner_engine, engine)
    return engine


@pytest.fixture
async def visitor(settings: ApiSettings) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody with a browser and without a key."""
    async with guarded(settings) as client:
        yield client


@pytest.fixture(scope="module")
def stack(
    postgres: DatabaseServer,
    sqs_server: SqsServer,
    sqs: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stack]:
    """A live stack of this module's own: see tests/pages/stack.py for its jobs and keys."""
    mine = postgres.create()
    prefix, logs = f"t{secrets.token_hex(4)}", tmp_path_factory.mktemp("stack")
    with open_stack(mine, prefix, sqs_server.endpoint, logs, sqs) as opened:
        yield opened
    postgres.drop(mine)


@pytest.fixture
async def window(stack: Stack) -> AsyncIterator[Window]:
    """A Chromium in front of the stack; `await window.open("/ui/")` is a page."""
    async with open_window(stack) as opened:
        yield opened
