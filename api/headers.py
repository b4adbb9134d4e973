"""What every answer says to browsers and caches, whoever made it.

Around the whole application: an error that no route and no middleware has met is answered by the
framework's outermost layer, and its answer has these headers too.
"""

from collections.abc import Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.gate import FACTS
from api.ui.paths import is_page

# Where the answer says nothing else. Nothing of ours may be framed, run or kept, and a page that
# is left tells nobody where it was.
SAFE: Mapping[bytes, bytes] = {
    b"x-content-type-options": b"nosniff",
    b"cache-control": b"no-store",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"referrer-policy": b"no-referrer",
}
# A page runs our own files and nothing that stands in it, and talks to nobody else.
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
PAGE: Mapping[bytes, bytes] = {
    b"content-security-policy": PAGE_POLICY.encode(),
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    # Not no-referrer: with it a browser sends `Origin: null` with our own forms.
    b"referrer-policy": b"same-origin",
    b"permissions-policy": b"camera=(), geolocation=(), microphone=(), payment=(), usb=()",
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
    wanted = {**SAFE, **(PAGE if is_page(scope["path"]) else {})}
    if FACTS in scope:
        wanted[REQUEST_ID] = scope[FACTS].request_id.encode()
    return [(name, value) for name, value in wanted.items() if name not in there]
