"""A wire to PostgreSQL that can be cut, also in the middle of a COMMIT, and a peer that is deaf."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal
from urllib.parse import urlsplit

CHUNK = 65_536
COMMIT = b"COMMIT;"


class Wire:
    """Forwards a local port to the database while it is whole.

    `lose` cuts a connection at its next COMMIT: before the server has heard of it ("request"),
    or after the server has done it ("answer"). `spared` COMMITs still go through before that.
    """

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0
        self.lose: Literal["request", "answer"] | None = None
        self.spared = 0

    @property
    def url(self) -> str:
        """The database's URL through this wire."""
        target = self._target
        user = target.netloc.rpartition("@")[0]
        return f"postgresql://{user}@127.0.0.1:{self.port}{target.path}"

    async def mend(self) -> None:
        """Listen (again), always on the same port."""
        self._server = await asyncio.start_server(self._forward, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """Drop every connection and refuse new ones."""
        assert self._server is not None, "a wire is mended before it is cut"
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await self._server.wait_closed()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = self._target.hostname, self._target.port
        far_reader, far_writer = await asyncio.open_connection(host, port)
        pair = {writer, far_writer}
        self._writers |= pair
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._requests(reader, far_writer, far_reader, writer))
                both.create_task(_pump(far_reader, writer))
        except* (OSError, asyncio.CancelledError):
            pass
        finally:
            self._writers -= pair
            for each in pair:
                each.transport.abort()

    async def _requests(
        self,
        reader: asyncio.StreamReader,
        far: asyncio.StreamWriter,
        answers: asyncio.StreamReader,
        near: asyncio.StreamWriter,
    ) -> None:
        while data := await reader.read(CHUNK):
            lost = self.lose is not None and COMMIT in data
            if lost and self.spared:
                self.spared -= 1
            elif lost:
                how, self.lose = self.lose, None
                near.transport.abort()
                if how == "answer":
                    far.write(data)
                    await far.drain()
                    while await answers.read(CHUNK):  # until the server, too, sees the end
                        far.write_eof()
                raise ConnectionResetError
            far.write(data)
            await far.drain()
        raise ConnectionResetError


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
    raise ConnectionResetError


@asynccontextmanager
async def wire_to(url: str, *, whole: bool = True) -> AsyncIterator[Wire]:
    """A wire to that database; with `whole=False` nobody listens at its port yet."""
    wire = Wire(url)
    await wire.mend()
    if not whole:
        await wire.cut()
    yield wire
    await wire.cut()


@asynccontextmanager
async def black_hole() -> AsyncIterator[str]:
    """An HTTP endpoint that accepts connections and never says a word."""
    held: set[asyncio.StreamWriter] = set()

    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.add(writer)
        while await reader.read(CHUNK):
            pass

    server = await asyncio.start_server(swallow, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()
    for writer in held:
        writer.transport.abort()
