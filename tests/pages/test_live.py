"""Live pages: one look an interval for all who look, none for nobody, and an end for each."""

import asyncio
import json
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.problems import ProblemRaised
from api.settings import ApiSettings
from api.ui.browser import Browser
from api.ui.live import Feed, Feeds
from api.ui.paths import HOME
from shared.access import Role
from shared.api_keys import key_id_of, revoke_key
from tests.factories import eventually
from tests.pages.browsing import guarded, log_in
from tests.protocol.api.keys import make_key

SOON = 0.02


class Source:
    """Counts how often it is asked; may fail for a while."""

    def __init__(self) -> None:
        self.asked = 0
        self.failing = False

    async def read(self) -> int:
        """The number of the look."""
        self.asked += 1
        if self.failing:
            raise TimeoutError("told to fail")
        return self.asked


class Resources:
    """What feeds need of the api's resources."""

    def __init__(self, most: int = 100) -> None:
        self.settings = ApiSettings.model_construct(live_listeners=most)
        self.stopping = asyncio.Event()


def browser(language: str) -> Browser:
    """A reader of that language."""
    said: Any = language
    return Browser(language=said, theme="auto", chosen=(), path=HOME, query=())


async def follow(feed: Feed, times: int) -> list[int]:
    """The numbers of the values that one listener sees."""
    seen: list[int] = []
    while len(seen) < times:
        assert await feed.after(seen[-1] if seen else 0, 5.0)
        seen.append(feed.number)
    return seen


async def test_all_listeners_share_one_look() -> None:
    """Fifty see the same values, read once each; a feed of another key is read by itself."""
    feeds, source, other = Feeds(Resources()), Source(), Source()  # type: ignore[arg-type]
    with ExitStack() as places:
        feed = [
            places.enter_context(feeds.listening("a", source.read, f"account {n}", SOON))
            for n in range(50)
        ]
        assert len(set(feed)) == 1
        places.enter_context(feeds.listening("b", other.read, "account", 60))
        seen = await asyncio.gather(*(follow(each, 3) for each in feed))
        assert all(each[-1] <= feed[0].number for each in seen)
        assert source.asked <= feed[0].number + 1
        assert other.asked == 1


async def test_nobody_listening_is_nothing_asked() -> None:
    """The loop ends with the last listener; who comes later gets a new one."""
    feeds, source = Feeds(Resources()), Source()  # type: ignore[arg-type]
    with feeds.listening("a", source.read, "me", SOON) as feed:
        await follow(feed, 2)
    task = feed._loop
    assert task is not None
    await asyncio.wait_for(task, 5)
    asked = source.asked
    with feeds.listening("a", source.read, "me", SOON) as again:
        assert again is not feed
        await follow(again, 1)
    assert source.asked > asked


async def test_a_look_that_fails_is_tried_again() -> None:
    """The database goes and comes back: listeners stay, and see what is new then."""
    feeds, source = Feeds(Resources()), Source()  # type: ignore[arg-type]
    with feeds.listening("a", source.read, "me", SOON) as feed:
        await follow(feed, 1)
        source.failing = True
        asked = source.asked

        async def tried() -> bool:
            return source.asked > asked + 1

        await eventually(tried)
        source.failing = False
        assert await feed.after(feed.number, 5.0)


async def test_a_process_that_stops_lets_its_listeners_go() -> None:
    """At once, not after an interval."""
    resources, source = Resources(), Source()
    feeds = Feeds(resources)  # type: ignore[arg-type]
    with feeds.listening("a", source.read, "me", 600) as feed:
        await follow(feed, 1)
        resources.stopping.set()
        assert await feed.after(feed.number, 5.0)
        assert feed.ended


async def test_places_are_bounded_and_an_account_gets_half() -> None:
    """One who opens many pages keeps nobody else out; a place that is left is free again."""
    feeds, source = Feeds(Resources(most=4)), Source()  # type: ignore[arg-type]
    with ExitStack() as places:
        for who in ("a", "a", "b"):
            places.enter_context(feeds.listening(who, source.read, who, 600))
        with pytest.raises(ProblemRaised, match="overloaded"):
            places.enter_context(feeds.listening("x", source.read, "a", 600))
        places.enter_context(feeds.listening("x", source.read, "b", 600))
        with pytest.raises(ProblemRaised, match="overloaded"):
            places.enter_context(feeds.listening("x", source.read, "c", 600))
    with feeds.listening("x", source.read, "c", 600):
        pass


async def test_each_language_is_put_together_once_for_each_look() -> None:
    """However many listen."""
    feed, made = Feed(Source().read), []
    feed.values, feed.number = 1, 1

    def show(reader: Browser, _values: Any) -> dict[str, str]:
        made.append(reader.language)
        return {"a": reader.language}

    for _ in range(5):
        assert feed.fragments(browser("en"), show) == {"a": "en"}
        assert feed.fragments(browser("vi"), show) == {"a": "vi"}
    feed.number = 2
    feed.fragments(browser("vi"), show)
    assert made == ["en", "vi", "vi"]


def events_of(body: str) -> list[tuple[str, dict[str, Any]]]:
    """The events of a stream, by name."""
    found = []
    for block in body.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if "event" in lines:
            found.append((lines["event"], json.loads(lines["data"])))
    return found


async def test_a_stream_tells_what_changed_and_ends_with_its_session(
    settings: ApiSettings, owner_engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First all parts, then what differs; when the key is revoked: `login`, and no more."""
    monkeypatch.setattr("api.ui.session.CACHE_SECONDS", 0.0)
    monkeypatch.setattr("api.ui.live.SECONDS", SOON)
    key = await make_key(owner_engine, Role.READ)
    async with guarded(settings) as client:
        await log_in(client, key)
        stream = asyncio.create_task(
            client.get("/ui/events", headers={"Accept": "text/event-stream"})
        )
        other = asyncio.create_task(
            client.get("/ui/events", headers={"Accept": "text/event-stream"})
        )
        feeds: Feeds = client._transport.app.state.feeds  # type: ignore[attr-defined]

        async def looked() -> bool:
            return any(feed.number >= 2 for feed in feeds._feeds.values())

        await eventually(looked)
        assert len(feeds._feeds) == 1
        async with owner_engine.begin() as conn:
            await revoke_key(conn, str(key_id_of(key)))
        for answer in await asyncio.wait_for(asyncio.gather(stream, other), 20):
            assert answer.headers["content-type"] == "text/event-stream"
            events = events_of(answer.text)
            assert [name for name, _ in events[:1]] == ["parts"]
            assert set(events[0][1]) >= {"verdict", "tiles", "queues", "workers", "charts"}
            assert "queues" not in events[1][1]
            assert events[-1] == ("login", {})
        assert feeds._feeds == {}


async def test_a_stream_is_for_readers_only(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """Without the role it is refused before it begins, and not as a page."""
    await log_in(visitor, await make_key(owner_engine, Role.SUBMIT))
    answer = await visitor.get("/ui/events", headers={"Accept": "text/event-stream"})
    assert answer.status_code == 403
    assert answer.json()["role"] == "read"
