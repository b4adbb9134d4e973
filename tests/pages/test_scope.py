"""Who may see a brand: on every page that shows jobs, nothing of another brand is there."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.settings import ApiSettings
from shared.access import Role
from tests.pages.browsing import guarded, log_in
from tests.protocol.api.app import serving
from tests.protocol.api.keys import RED, make_key
from tests.protocol.api.test_read_and_act import bury

# The page on which a dead job of one's own is seen.
PLACES = {
    "list": "/ui/jobs",
    "filtered": "/ui/jobs?state=dead",
    "dead": "/ui/dead-letters",
    "page": "/ui/jobs/{job}",
}


@pytest.fixture
async def jobs(settings: ApiSettings, engine: AsyncEngine) -> dict[str, str]:
    """A dead job of each brand."""
    async with serving(settings) as client:
        return {brand: await bury(client, engine, brand=brand) for brand in ("RED", "BLUE")}


@pytest.fixture
async def red(settings: ApiSettings, owner_engine: AsyncEngine) -> AsyncIterator[Any]:
    """Somebody of brand RED, logged in."""
    key = await make_key(owner_engine, Role.READ, Role.OPERATE, scope=RED)
    async with guarded(settings) as client:
        await log_in(client, key)
        yield client


@pytest.mark.parametrize("name", PLACES)
async def test_a_brand_sees_nothing_of_another_one(
    red: httpx.AsyncClient, jobs: dict[str, str], name: str
) -> None:
    """Neither its job nor its number, in a list or by its id."""
    place = PLACES[name]
    mine = await red.get(place.format(job=jobs["RED"]))
    assert (mine.status_code, jobs["RED"] in mine.text) == (200, True)
    assert jobs["BLUE"] not in mine.text
    theirs = await red.get(place.format(job=jobs["BLUE"]))
    assert jobs["BLUE"] not in theirs.text or theirs.status_code == 404
    if "{job}" in place:
        assert theirs.status_code == 404
