"""Live pages: fragments pushed as server-sent events, one look an interval for all who look.

A feed reads its values by one coroutine, however many listeners it has, and only while it has
some. Each listener gets the fragments of its language that have changed. Its session is asked for
at every look: ended, the stream says so and ends.
"""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil
from time import monotonic
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from api.connections import let_go
from api.event_stream import HEADERS, HEARTBEAT, RETRY_MS, tell_until_gone
from api.gate import facts_of
from api.problems import Problem, ProblemRaised
from api.resources import Resources
from api.ui.browser import Browser, browser_of
from api.ui.session import COOKIE, Sessions
from api.watching import SHARE_OF_AN_ACCOUNT
from shared.database import DATABASE_ERRORS
from shared.logs import log

SECONDS = 2.0
FULL = b"event: full\ndata: {}\n\n"
BLIND = b"event: blind\ndata: {}\n\n"
FAILED = (*DATABASE_ERRORS, TimeoutError, ProblemRaised)

Read = Callable[[], Awaitable[Any]]
# What a listener shows of the values: id of an element → its HTML. Cached for each language.
Show = Callable[[Browser, Any], Mapping[str, str]]


@dataclass(slots=True, eq=False)
class Feed:
    """Values that are read again and again while somebody listens.

    `blind` while looks fail: the values are of before.
    """

    read: Read
    interval: float = SECONDS
    values: Any = None
    number: int = 0
    blind: bool = False
    ended: bool = False
    listeners: int = 0
    shown: dict[str, tuple[int, Mapping[str, str]]] = field(default_factory=dict)
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)
    _loop: asyncio.Task[None] | None = None

    def start(self, stopping: asyncio.Event) -> None:
        """Begin to read, unless it does."""
        if self._loop is None or self._loop.done():
            self._loop = asyncio.create_task(self._run(stopping), name="page feed")

    async def _run(self, stopping: asyncio.Event) -> None:
        while self.listeners and not stopping.is_set():
            began, blind = monotonic(), True
            try:
                self.values = await self.read()
            except FAILED as error:
                log.warning("pages.blind", error=str(error) or type(error).__name__)
            except Exception:  # noqa: BLE001 - a loop that died would leave its listeners waiting
                log.exception("pages.feed_failed")
            else:
                blind = False
            await self._tell(blind=blind)
            # What takes long is asked more rarely: never more than half of the time.
            wait = max(self.interval, monotonic() - began)
            try:
                async with asyncio.timeout(wait):
                    await stopping.wait()
            except TimeoutError:
                continue
        self.ended = stopping.is_set()
        async with self._news:
            self._news.notify_all()

    async def _tell(self, *, blind: bool) -> None:
        async with self._news:
            self.blind, self.number = blind, self.number + 1
            self._news.notify_all()

    async def after(self, number: int, seconds: float) -> bool:
        """Wait for a look newer than that; False when none came in so many seconds."""
        try:
            async with asyncio.timeout(seconds), self._news:
                await self._news.wait_for(lambda: self.number > number or self.ended)
        except TimeoutError:
            return False
        return True

    def fragments(self, browser: Browser, show: Show) -> Mapping[str, str]:
        """What these values look like in the reader's language; put together once."""
        known = self.shown.get(browser.language)
        if known is None or known[0] != self.number:
            known = self.shown[browser.language] = (self.number, show(browser, self.values))
        return known[1]


@dataclass(slots=True, eq=False)
class Feeds:
    """All feeds of this process by what they are of; those without listeners are forgotten."""

    resources: Resources
    _feeds: dict[object, Feed] = field(default_factory=dict)
    _of_account: Counter[str] = field(default_factory=Counter)

    def full(self, account: str) -> bool:
        """Whether this account, or everybody together, has as many live pages as may be."""
        settings = self.resources.settings
        most = settings.live_listeners
        each = min(settings.live_pages, ceil(most * SHARE_OF_AN_ACCOUNT))
        return self._of_account.total() >= most or self._of_account[account] >= each

    async def once(self, key: object, read: Read) -> Any:
        """The values as they are now: those of the feed, if somebody listens to it."""
        feed = self._feeds.get(key)
        seen = feed is not None and feed.values is not None and not feed.blind
        return feed.values if feed is not None and seen else await read()

    @contextmanager
    def listening(
        self, key: object, read: Read, account: str, interval: float = SECONDS
    ) -> Iterator[Feed]:
        """A place at the feed of this key; ProblemRaised (overloaded) where all are taken."""
        if self.full(account):
            detail = "too many pages are followed live here already; reload to see what is new"
            raise ProblemRaised(Problem(slug="overloaded", detail=detail))
        feed = self._feeds.get(key)
        if feed is None:
            feed = self._feeds[key] = Feed(read, interval)
        feed.listeners += 1
        self._of_account[account] += 1
        feed.start(self.resources.stopping)
        try:
            yield feed
        finally:
            feed.listeners -= 1
            self._of_account[account] -= 1
            if not self._of_account[account]:
                del self._of_account[account]
            if not feed.listeners:
                self._feeds.pop(key, None)


class LiveStream(Response):
    """The answer of a page's stream: events `parts` (id → HTML of what changed) and `login`.

    `key` names the feed and must hold the reader's scope: whoever shares it sees the same. Where no
    place is left the stream says `full` and ends; the page then asks for `?once=1` by itself, which
    is all parts as JSON.
    """

    def __init__(
        self, request: Request, key: object, read: Read, show: Show, *, interval: float = SECONDS
    ) -> None:
        caller = facts_of(request).caller
        assert caller is not None, "the gate lets nobody else get to a stream"
        self.feeds: Feeds = request.app.state.feeds
        self.sessions: Sessions = request.app.state.sessions
        self.cookie = request.cookies.get(COOKIE)
        self.caller = caller
        self.browser = browser_of(request)
        self.key, self.read, self.show, self.interval = key, read, show, interval
        self.once = request.query_params.get("once") == "1"
        self.status_code = 200
        self.background = None
        self.init_headers(HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream until the reader is gone, or the session or this process ends."""
        if self.once:
            values = await self.feeds.once(self.key, self.read)
            parts = dict(self.show(self.browser, values))
            told = JSONResponse(parts, headers={"Cache-Control": "no-store"})
            await told(scope, receive, send)
            return
        if self.feeds.full(self.caller.principal):
            await Response(FULL, headers=HEADERS)(scope, receive, send)
            return
        place = self.feeds.listening(self.key, self.read, self.caller.principal, self.interval)
        with place as feed:
            await tell_until_gone(self._tell(feed, scope, send), receive)

    async def _tell(self, feed: Feed, scope: Scope, send: Send) -> None:
        heartbeat = self.feeds.resources.settings.live_heartbeat

        async def say(content: bytes, *, more: bool = True) -> None:
            async with asyncio.timeout(2 * heartbeat):
                await send({"type": "http.response.body", "body": content, "more_body": more})

        headers = list(self.raw_headers)
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        try:
            await say(f"retry: {random.randint(*RETRY_MS)}\n\n".encode())
            await self._follow(feed, say, heartbeat)
            await say(b"", more=False)
        except TimeoutError:
            log.info("pages.stalled", seconds=2 * heartbeat)
            let_go(scope)

    async def _follow(self, feed: Feed, say: Callable[..., Awaitable[None]], beat: float) -> None:
        told: dict[str, str] = {}
        number = 0
        while not feed.ended:
            news = await feed.after(number, beat)
            if not await self._still_may():
                await say(b"event: login\ndata: {}\n\n")
                return
            if not news:
                await say(HEARTBEAT)
                continue
            number = feed.number
            if feed.blind:
                await say(BLIND)
                continue
            parts = feed.fragments(self.browser, self.show) if feed.values is not None else {}
            changed = {name: html for name, html in parts.items() if told.get(name) != html}
            told |= changed
            # Also when nothing changed: the page says how fresh it is.
            await say(
                b"event: parts\ndata: " + json.dumps(changed, ensure_ascii=False).encode() + b"\n\n"
            )

    async def _still_may(self) -> bool:
        """Whether the session still is the one that may see this; a database that is away may.

        With the roles it began with, too: what is shown depends on them, as the audit does.
        """
        try:
            session = await self.sessions.read(self.cookie)
        except FAILED:
            return True
        return session is not None and session.caller == self.caller
