"""Requests that no client library would send, and connections that end when they should not."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from tests.conformance.world import TOKEN


async def post_raw(url: str, body: Mapping[str, Any], *headers: bytes) -> tuple[int, bytes]:
    """POST /v1/jobs with these header lines as they are; answers the status and all there was."""
    reader, writer = await connect(url)
    writer.write(request_bytes(body, *headers))
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    return int(answer.split(b" ", 2)[1]), answer


async def connect(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to that process."""
    at = urlsplit(url)
    return await asyncio.open_connection(at.hostname, at.port)


def request_bytes(body: Mapping[str, Any], *headers: bytes) -> bytes:
    """The whole request; the server closes the connection after its answer."""
    content = json.dumps(body).encode()
    lines = (
        b"POST /v1/jobs HTTP/1.1",
        b"Host: api.test",
        b"Connection: close",
        b"Content-Type: application/json",
        f"Content-Length: {len(content)}".encode(),
        f"Authorization: Bearer {TOKEN}".encode(),
        *headers,
    )
    return b"\r\n".join(lines) + b"\r\n\r\n" + content
