"""An answer before the end of its request: the rest of the body is read and dropped.

A connection that is closed while its client still sends is reset by the kernel, and the client
sees the reset instead of the answer.
"""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

DROP_BYTES_MAX = 64 * 1024 * 1024
DROP_SECONDS_MAX = 5.0
CLOSES = (b"connection", b"close")


class Dropping:
    """ASGI middleware: an answer that closes its connection goes out whole, and at once.

    Only then does what still arrives get dropped, so many bytes, for so long, and no more; the
    server closes after that.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body_ended = closes = False

        async def watched() -> Message:
            nonlocal body_ended
            message = await receive()
            body_ended = not message.get("more_body", False)
            return message

        async def answered(message: Message) -> None:
            nonlocal closes
            if message["type"] == "http.response.start":
                closes = CLOSES in message["headers"]
            elif closes and not body_ended and not message.get("more_body", False):
                await send({**message, "more_body": True})
                await _drop_body(receive)
                message = {"type": "http.response.body", "body": b"", "more_body": False}
            await send(message)

        await self._app(scope, watched, answered)


async def _drop_body(receive: Receive) -> None:
    dropped = 0
    try:
        async with asyncio.timeout(DROP_SECONDS_MAX):
            while dropped < DROP_BYTES_MAX:
                message = await receive()
                dropped += len(message.get("body", b""))
                if not message.get("more_body", False):  # its end, or the client's
                    return
    except TimeoutError:
        return  # a client that sends on for ever has had its time to read
