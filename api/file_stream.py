"""The content of a stored file, chunk by chunk, as fast as its client takes it.

What a download holds is one chunk and what the socket has not sent yet, and no connection to the
database but while a chunk is read. A client that takes nothing for a while is let go; it sees that
the answer is shorter than its Content-Length.
"""

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import quote

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from api.connections import let_go
from api.event_stream import tell_until_gone
from api.problems import ProblemRaised
from api.resources import Resources
from api.uploads import storage_unavailable
from shared.files import StoredFile, read_chunk
from shared.logs import log
from shared.s3 import S3, ObjectGone, StorageUnavailable
from shared.uploads import Upload

STALLED_SECONDS = 60.0


class FileCut(Exception):
    """A chunk is gone in the middle of a download: the file has expired meanwhile."""


def etag_of(file: StoredFile | Upload) -> str:
    """Strong: of the very bytes."""
    return f'"{file.sha256.hex()}"'


def headers_of(file: StoredFile | Upload) -> dict[str, str]:
    """What GET and HEAD say of it."""
    return {
        "content-type": file.media_type
        if file.media_type.isascii()
        else "application/octet-stream",
        "content-length": str(file.size),
        "content-disposition": f"attachment; {_named(file.name)}",
        "etag": etag_of(file),
    }


def _named(name: str) -> str:
    """RFC 6266: a name that is not ASCII is told so that every browser reads it."""
    return f'filename="{name}"' if name.isascii() else f"filename*=UTF-8''{quote(name)}"


class FileStream(Response):
    """The answer of GET /v1/files/{id}. Errors until its first byte are problems, as anywhere.

    `chunks` are the content; a connection to the database is held only while one is read.
    """

    def __init__(self, file: StoredFile | Upload, chunks: AsyncIterator[bytes]) -> None:
        self.file = file
        self.chunks = chunks
        self.status_code = 200
        self.background = None
        self.init_headers(headers_of(file))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream it whole, unless the client goes away."""
        content = await anext(self.chunks, b"")
        await tell_until_gone(self._send(content, scope, send), receive)

    async def _send(self, content: bytes, scope: Scope, send: Send) -> None:
        headers = list(self.raw_headers)
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        try:
            while content:
                async with asyncio.timeout(STALLED_SECONDS):
                    await send({"type": "http.response.body", "body": content, "more_body": True})
                content = await anext(self.chunks, b"")
        except TimeoutError:
            # Not an error of ours; the end that is missing tells the client.
            log.info("file.stalled", file_id=str(self.file.id), seconds=STALLED_SECONDS)
            let_go(scope)
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def written_chunks(resources: Resources, file: StoredFile) -> AsyncIterator[bytes]:
    """The content of a file that a job has written."""
    for number in range(file.chunks):
        async with resources.reading() as conn:
            content = await read_chunk(conn, file.id, number)
        if content is None:
            raise FileCut(f"chunk {number} of file {file.id} is gone")
        yield content


async def sent_chunks(s3: S3, upload: Upload) -> AsyncIterator[bytes]:
    """The content of a file that a client has sent; ProblemRaised while nothing of it is read."""
    read = 0
    try:
        async for chunk in (await s3.connected()).get(upload.object_key):
            read += len(chunk)
            yield chunk
    except (StorageUnavailable, ObjectGone) as error:
        if read:
            raise FileCut(f"file {upload.id} cannot be read on: {error}") from error
        raise ProblemRaised(storage_unavailable(error)) from error
    if read != upload.size:
        raise FileCut(f"file {upload.id} has {read} bytes in its bucket, not {upload.size}")
