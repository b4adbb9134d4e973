"""Login: a key becomes a session, and nothing else does."""

import httpx
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.access import Role
from tests.pages.browsing import log_in, text_of
from tests.protocol.api.keys import make_key


async def test_a_key_opens_the_overview(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """The way in, and what it leaves in the browser."""
    away = await visitor.get("/ui/")
    assert (away.status_code, away.headers["location"]) == (303, "/ui/login")
    key = await make_key(owner_engine, Role.READ, principal="night")
    done = await log_in(visitor, key)
    assert (done.status_code, done.headers["location"]) == (303, "/ui/"), text_of(done.text)
    page = await visitor.get("/ui/")
    assert page.status_code == 200, text_of(page.text)
    assert "night" in page.text
    assert key not in page.text + str(dict(visitor.cookies))
