"""What no browser sends, and what many at once ask: refused or shared, never an error of ours."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine
from structlog.testing import capture_logs

from api.resources import Resources
from api.settings import ApiSettings
from api.ui.live import Feeds
from api.ui.paths import HOME
from api.ui.session import COOKIE, Sessions
from shared.access import Role
from shared.api_keys import key_id_of
from shared.restored import mark_restored
from tests.factories import eventually, execute
from tests.pages.browsing import FORM, guarded, log_in, token_in
from tests.pages.test_live import SOON, events_of
from tests.protocol.api.keys import make_key

MANY = 300


def sessions_of(client: httpx.AsyncClient) -> Sessions:
    """Those of the api behind this client."""
    found: Sessions = client._transport.app.state.sessions  # type: ignore[attr-defined]
    return found


async def test_what_no_browser_sends_is_refused(visitor: httpx.AsyncClient) -> None:
    """Whoever has no key could else make errors of ours, and alarms and roll backs of them."""
    good = token_in((await visitor.get("/ui/login")).text)
    for token in ("%C3%A9", "%F0%9F%92%A9" * 16, "0" * 63 + "%C2%B2"):
        sent = f"csrf={token}&key=x"
        answer = await visitor.post("/ui/login", content=sent, headers=FORM)
        assert (answer.status_code, "Nothing was done" in answer.text) == (403, True), token
    for origin in ("http://[", "http://[::1", "http://[x]", "null", ""):
        answer = await visitor.post(
            "/ui/login", data={"csrf": good, "key": "x"}, headers={"Origin": origin}
        )
        assert (answer.status_code, "Nothing was done" in answer.text) == (403, True), origin


async def test_a_method_that_is_none_is_no_text_of_logs_and_spans(
    visitor: httpx.AsyncClient,
) -> None:
    """Whoever has no key could else write 64 KiB a request, and name a span each time."""
    with capture_logs() as lines:
        assert (await visitor.request("X" * 60_000, "/ui/login")).status_code == 405
        assert (await visitor.request("X" * 60_000, "/v1/jobs")).status_code == 401
    told = [line["method"] for line in lines if line["event"] == "http.request"]
    assert told == ["_OTHER", "_OTHER"]


async def test_all_streams_of_an_account_ask_for_its_session_once(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """What is known of a session runs out for all of them at the same moment."""
    await log_in(visitor, await make_key(owner_engine, Role.READ))
    sessions, cookie = sessions_of(visitor), visitor.cookies[COOKIE]
    sessions._known.clear()
    before = sessions.rows.queries
    found = await asyncio.gather(*(sessions.read(cookie) for _ in range(MANY)))
    assert all(each is not None for each in found)
    assert sessions.rows.queries == before + 1


async def test_a_database_that_is_away_keeps_nobody_for_longer_than_the_first(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Secrets that are due to be read again are asked for once, not by one after the other."""
    await log_in(visitor, await make_key(owner_engine, Role.READ))
    sessions, cookie = sessions_of(visitor), visitor.cookies[COOKIE]
    sessions.signer._read_at = float("-inf")
    going, asked = asyncio.Event(), 0

    @asynccontextmanager
    async def hanging(_: Resources) -> AsyncIterator[Any]:
        nonlocal asked
        asked += 1
        await going.wait()
        raise TimeoutError("told to be away")
        yield

    monkeypatch.setattr(Resources, "reading", hanging)
    waiting = [asyncio.create_task(sessions.read(cookie)) for _ in range(40)]
    for _ in range(3):
        await asyncio.sleep(0)
    going.set()
    ends = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 10)
    assert all(isinstance(each, TimeoutError) for each in ends)
    assert asked == 1
    monkeypatch.undo()
    assert await sessions.read(cookie) is not None


async def test_all_is_said_in_so_many_words_or_not_at_all(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """A form that names nothing runs nothing again."""
    await log_in(visitor, await make_key(owner_engine, Role.ADMIN))
    form = {"csrf": token_in((await visitor.get(HOME)).text)}
    for said, status in (("true", 200), ("false", 422), ("maybe", 422), ("", 422)):
        answer = await visitor.post("/ui/dead-letters/redrive", data=form | {"all": said})
        assert answer.status_code == status, said


async def test_another_login_brings_no_more_traces(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One who logs in again and again would keep a core busy, and everybody else waiting."""
    monkeypatch.setattr("api.ui.simulator.NEW_BURST", 2)
    key = await make_key(owner_engine, Role.READ)
    statuses = []
    for seed in range(4):
        visitor.cookies.clear()
        await log_in(visitor, key)
        trace = f"/ui/simulator/trace?jobs=1&workers=1&seed={seed}"
        statuses.append((await visitor.get(trace)).status_code)
    assert statuses == [200, 200, 429, 429]


async def test_a_restored_copy_knows_no_session_of_the_original(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """It is another deployment, whose secrets other people may read."""
    await log_in(visitor, await make_key(owner_engine, Role.READ))
    sessions, cookie = sessions_of(visitor), visitor.cookies[COOKIE]
    assert await sessions.read(cookie) is not None
    async for _ in mark_restored(owner_engine):
        pass
    assert await Sessions(sessions.resources).read(cookie) is None


async def test_a_stream_ends_when_its_account_loses_a_role(
    settings: ApiSettings, owner_engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it shows depends on roles (who did what is for admins), as the page at a reload does."""
    monkeypatch.setattr("api.ui.session.CACHE_SECONDS", 0.0)
    monkeypatch.setattr("api.ui.live.SECONDS", SOON)
    key = await make_key(owner_engine, Role.READ, Role.ADMIN)
    async with guarded(settings) as client:
        await log_in(client, key)
        stream = asyncio.create_task(
            client.get("/ui/events", headers={"Accept": "text/event-stream"})
        )
        feeds: Feeds = client._transport.app.state.feeds  # type: ignore[attr-defined]

        async def looked() -> bool:
            return any(feed.number >= 1 for feed in feeds._feeds.values())

        await eventually(looked)
        await execute(
            owner_engine,
            "UPDATE chot.api_keys SET roles = ARRAY['read'] WHERE key_id = :key",
            key=str(key_id_of(key)),
        )
        answer = await asyncio.wait_for(stream, 20)
        assert events_of(answer.text)[-1] == ("login", {})
        assert (await client.get(HOME)).status_code == 200
