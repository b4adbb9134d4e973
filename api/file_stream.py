"""The content of a stored file, chunk by chunk, as fast as its client takes it.

What a download holds is one chunk and what the socket has not sent yet, and no connection to the
database but while a chunk is read. A client that takes nothing for a while is let go; it sees that
the answer is shorter than its Content-Length.
"""

import asyncio

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from api.event_stream import until_gone
from api.resources import Resources
from shared.files import StoredFile, read_chunk
from shared.logs import log

STALLED_SECONDS = 60.0


class FileCut(Exception):
    """A chunk is gone in the middle of a download: the file has expired meanwhile."""


def etag_of(file: StoredFile) -> str:
    """Strong: of the very bytes."""
    return f'"{file.sha256.hex()}"'


def headers_of(file: StoredFile) -> dict[str, str]:
    """What GET and HEAD say of it."""
    return {
        "content-type": file.media_type,
        "content-length": str(file.size),
        "content-disposition": f'attachment; filename="{file.name}"',
        "etag": etag_of(file),
    }


class FileStream(Response):
    """The answer of GET /v1/files/{id}. Errors until its first byte are problems, as anywhere."""

    def __init__(self, resources: Resources, file: StoredFile) -> None:
        self.resources = resources
        self.file = file
        self.status_code = 200
        self.background = None
        self.init_headers(headers_of(file))

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Stream it whole, unless the client goes away."""
        content = await self._chunk(0)
        gone = asyncio.create_task(until_gone(receive), name="client gone")
        sending = asyncio.create_task(self._send(content, send), name="send a file")
        try:
            await asyncio.wait((gone, sending), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (gone, sending):
                task.cancel()
            await asyncio.gather(gone, sending, return_exceptions=True)
        if not sending.cancelled() and (error := sending.exception()) is not None:
            raise error

    async def _chunk(self, number: int) -> bytes:
        if number >= self.file.chunks:
            return b""
        async with self.resources.reading() as conn:
            content = await read_chunk(conn, self.file.id, number)
        if content is None:
            raise FileCut(f"chunk {number} of file {self.file.id} is gone")
        return content

    async def _send(self, content: bytes, send: Send) -> None:
        headers = list(self.raw_headers)
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        number = 0
        try:
            while content:
                async with asyncio.timeout(STALLED_SECONDS):
                    await send({"type": "http.response.body", "body": content, "more_body": True})
                number += 1
                content = await self._chunk(number)
        except TimeoutError:
            # Not an error of ours; the end that is missing tells the client.
            log.info("file.stalled", file_id=str(self.file.id), seconds=STALLED_SECONDS)
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})
