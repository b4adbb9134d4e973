"""Server-sent events of one job, as the hub sees it (the event stream of the HTML standard).

The newest state is sent at once, unless the client has it; what comes later is sent as it is
seen, never what has been overtaken. A client that reads slowly holds up itself alone: what waits
for it is one event, and a client that takes nothing for two heartbeats is let go.
"""

import asyncio
import random
from collections.abc import Coroutine
from uuid import UUID

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from api.authentication import Caller
from api.connections import let_go
from api.sightings import Rendering, event_name
from api.watching import Hub, Watcher
from shared.logs import log

MEDIA_TYPE = "text/event-stream"
HEADERS = {
    "content-type": MEDIA_TYPE,
    "cache-control": "no-store",
    "x-accel-buffering": "no",  # else nginx keeps events until it has many
}
# From here to there, so that those who were let go together do not come back together.
RETRY_MS = (1000, 3000)
HEARTBEAT = b": alive\n\n"


def event_bytes(name: str, rendering: Rendering) -> bytes:
    """One event; JSON as we write it has no line breaks, so that `data` is one line."""
    return f"id: {rendering.event_id}\nevent: {name}\ndata: {rendering.data}\n\n".encode()


class EventStream(Response):
    """The answer of /events. Errors until its first byte are problems, as of any route.

    `known` is the Last-Event-ID: compared as it is, so that one of another job, an old one and
    garbage mean the same, that the client does not have the newest.
    """

    def __init__(
        self, hub: Hub, job_id: UUID, caller: Caller, token: str | None, known: str | None
    ) -> None:
        self.hub = hub
        self.job_id = job_id
        self.caller = caller
        self.token = token
        self.known = known
        self.status_code = 200
        self.background = None
        self.init_headers(HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream until the job has ended, the client is gone, or its key or this process ends."""
        settings = self.hub.resources.settings
        patience = settings.api_command_timeout_seconds + settings.api_pool_timeout_seconds
        with self.hub.watch(self.job_id, self.caller, self.token) as watcher:
            now = (await watcher.first(patience)).rendering
            if now.ended and now.event_id == self.known:
                await send({"type": "http.response.start", "status": 204, "headers": []})
                await send({"type": "http.response.body", "body": b""})
                return
            await tell_until_gone(self._tell(watcher, scope, send), receive)

    async def _tell(self, watcher: Watcher, scope: Scope, send: Send) -> None:
        heartbeat = self.hub.resources.settings.live_heartbeat
        try:
            await self._tell_all(watcher, send, heartbeat)
        except TimeoutError:
            # Nothing more can be put into it.
            log.info("events.stalled", job_id=str(self.job_id), seconds=2 * heartbeat)
            let_go(scope)

    async def _tell_all(self, watcher: Watcher, send: Send, heartbeat: float) -> None:
        async def say(content: bytes, *, more: bool = True) -> None:
            async with asyncio.timeout(2 * heartbeat):
                await send({"type": "http.response.body", "body": content, "more_body": more})

        headers = list(self.raw_headers)
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await say(f"retry: {random.randint(*RETRY_MS)}\n\n".encode())
        told: Rendering | None = None
        while watcher.refuse() is None and watcher.sighting is not None:
            now = watcher.sighting.rendering
            if now.event_id != (self.known if told is None else told.event_id):
                await say(event_bytes(event_name(now, told), now))
            told = now
            if now.ended or self.hub.stopping:
                break
            if not await watcher.changed(heartbeat):
                await say(HEARTBEAT)
        await say(b"", more=False)


async def until_gone(receive: Receive) -> None:
    """Return once the client has closed its connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def tell_until_gone(telling: Coroutine[None, None, None], receive: Receive) -> None:
    """Run `telling` until it ends or the client is gone; what it raises is raised here."""
    gone = asyncio.create_task(until_gone(receive), name="client gone")
    task = asyncio.create_task(telling, name="tell a client")
    try:
        await asyncio.wait((gone, task), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in (gone, task):
            each.cancel()
        await asyncio.gather(gone, task, return_exceptions=True)
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error
