"""What every answer says to browsers and caches, whoever made it.

Around the whole application: an error that no route and no middleware has met is answered by the
framework's outermost layer, and its answer has these headers too.
"""

from collections.abc import Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.gate import FACTS

# Where the answer says nothing else. Nothing of ours may be framed, run or kept, and a page that
# is left tells nobody where it was.
SAFE: Mapping[bytes, bytes] = {
    b"x-content-type-options": b"nosniff",
    b"cache-control": b"no-store",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"referrer-policy": b"no-referrer",
}
REQUEST_ID = b"x-request-id"


class SafeHeaders:
    """ASGI middleware that adds what an answer lacks of SAFE, and the id of its request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_missing(message, scope)]
            await send(message)

        await self._app(scope, receive, safely)


def _missing(message: Message, scope: Scope) -> list[tuple[bytes, bytes]]:
    there = {name.lower() for name, _ in message.get("headers", ())}
    wanted = dict(SAFE)
    if FACTS in scope:
        wanted[REQUEST_ID] = scope[FACTS].request_id.encode()
    return [(name, value) for name, value in wanted.items() if name not in there]
