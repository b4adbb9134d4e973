"""A load balancer that keeps connections to its server alive, as nginx and AWS's do.

A request that meets a connection its server has closed is not repeated, as no balancer repeats a
POST: the client gets 502 and does not know whether it worked.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic

LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
BAD_GATEWAY = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(slots=True)
class Balancer:
    """Forwards one request a client connection; kept connections are used again for `idle` s.

    `lose_answers` of the next answers never reach their client, whose connection is cut.
    """

    port: int
    idle: float
    lose_answers: int = 0
    reused: int = 0
    lost: int = 0
    url: str = ""
    kept: list[tuple[float, Streams]] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request of a client."""
        try:
            request = await _message(reader)
            answer = await self._forward(request)
            if answer is None:
                writer.write(BAD_GATEWAY)
            elif self.lose_answers:
                self.lose_answers -= 1
                self.lost += 1
                writer.transport.abort()
            else:
                writer.write(answer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client is gone
        finally:
            writer.close()

    async def _forward(self, request: bytes) -> bytes | None:
        reader, writer = await self._connection()
        try:
            writer.write(request)
            await writer.drain()
            answer = await _message(reader)
        except (OSError, asyncio.IncompleteReadError):
            writer.close()
            return None
        self.kept.append((monotonic(), (reader, writer)))
        return answer

    async def _connection(self) -> Streams:
        """A kept connection that is not idle for too long, or a new one."""
        while self.kept:
            since, streams = self.kept.pop()
            if monotonic() - since < self.idle:
                self.reused += 1
                return streams
            streams[1].close()
        return await asyncio.open_connection("127.0.0.1", self.port)


async def _message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = LENGTH.search(head)
    return head + await reader.readexactly(int(length[1]) if length else 0)


@asynccontextmanager
async def open_balancer(port: int, *, idle: float) -> AsyncIterator[Balancer]:
    """A balancer in front of that port of this machine."""
    balancer = Balancer(port=port, idle=idle)
    server = await asyncio.start_server(balancer.serve, "127.0.0.1", 0)
    balancer.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield balancer
    finally:
        server.close()
        for _, (_, writer) in balancer.kept:
            writer.close()
