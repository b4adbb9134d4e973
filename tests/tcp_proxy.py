"""A TCP proxy that misbehaves on command: between a client and PostgreSQL, or SQS.

It runs on the test's own loop. A direction that is blocked holds its bytes back, as a network
that drops packets does: after `heal` they arrive, after `cut` or `reset` they are lost for ever.
"""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Literal

Direction = Literal["client_to_server", "server_to_client"]
DIRECTIONS: tuple[Direction, ...] = ("client_to_server", "server_to_client")
CHUNK = 65536


class Proxy:
    """One listening port in front of a server. Connections are cut all at once."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._open = {direction: asyncio.Event() for direction in DIRECTIONS}
        self._held = {direction: asyncio.Event() for direction in DIRECTIONS}
        self._writers: set[asyncio.StreamWriter] = set()
        self._pipes: set[asyncio.Task[None]] = set()
        self._frozen: set[asyncio.Task[None]] = set()
        self._refusing = False
        self._trigger: bytes | None = None
        self._lost: Direction = "server_to_client"
        self.triggered = asyncio.Event()
        self.accepted = 0
        self.port = 0
        for event in self._open.values():
            event.set()

    def cut(self) -> None:
        """Reset every connection and refuse new ones until `heal`."""
        self._refusing = True
        self.reset()

    def reset(self) -> None:
        """Reset every connection; what was held back is lost. New ones are accepted."""
        for writer in tuple(self._writers):
            _reset(writer)

    def block(self, direction: Direction | None = None) -> None:
        """Let no byte through in that direction (both: a black hole), in silence."""
        for each in DIRECTIONS if direction is None else (direction,):
            self._open[each].clear()

    def freeze(self) -> None:
        """Half-open: connections of now are silent for ever, new ones work."""
        self._frozen |= self._pipes

    def lose_answer_to(self, words: bytes) -> None:
        """Block the server's answers from the moment a client sends `words` (which arrive).

        `triggered` is set then; `until_held` tells when the server has answered.
        """
        self._watch_for(words, "server_to_client")

    def lose(self, words: bytes) -> None:
        """Block what clients send from the moment one sends `words` (which do not arrive)."""
        self._watch_for(words, "client_to_server")

    def _watch_for(self, words: bytes, lost: Direction) -> None:
        self._trigger, self._lost = words, lost
        self.triggered.clear()

    def heal(self) -> None:
        """Let everything through again: held bytes first, in order."""
        self._refusing = False
        self._trigger = None
        for direction in DIRECTIONS:
            self._held[direction].clear()
            self._open[direction].set()

    async def until_held(self, direction: Direction = "server_to_client") -> None:
        """Wait until bytes have come that a block holds back."""
        await self._held[direction].wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        if self._refusing:
            _reset(writer)
            return
        try:
            there, back = await asyncio.open_connection(*self._target)
        except OSError:
            _reset(writer)
            return
        self._writers |= {writer, back}
        pipes = {
            asyncio.create_task(self._pipe(reader, back, "client_to_server")),
            asyncio.create_task(self._pipe(there, writer, "server_to_client")),
        }
        self._pipes |= pipes
        # One end that closes orderly ends the other one by its EOF; a reset ends both.
        await asyncio.wait(pipes)
        for each in (writer, back):
            each.transport.abort()
        self._writers -= {writer, back}
        self._pipes -= pipes

    async def _pipe(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: Direction
    ) -> None:
        before = b""
        with suppress(OSError):
            while chunk := await reader.read(CHUNK):
                if direction == "client_to_server":
                    before = self._watch(before, chunk)
                if not self._open[direction].is_set():
                    self._held[direction].set()
                    await self._open[direction].wait()
                if asyncio.current_task() in self._frozen:
                    await asyncio.Event().wait()  # until the proxy is closed
                if writer.transport.is_closing():
                    return
                writer.write(chunk)
                await writer.drain()
        await self._open[direction].wait()
        writer.close()

    def _watch(self, before: bytes, chunk: bytes) -> bytes:
        if self._trigger is None:
            return b""
        seen = before + chunk
        if self._trigger in seen:
            self._trigger = None
            self.block(self._lost)
            self.triggered.set()
            return b""
        return seen[-len(self._trigger) :]

    async def _close(self) -> None:
        self.cut()
        for pipe in tuple(self._pipes):
            pipe.cancel()
        await asyncio.gather(*self._pipes, return_exceptions=True)


def _reset(writer: asyncio.StreamWriter) -> None:
    # Linger of zero: the peer gets an RST, not the FIN of an orderly end.
    linger = struct.pack("ii", 1, 0)
    with suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()


@asynccontextmanager
async def open_proxy(host: str, port: int) -> AsyncIterator[Proxy]:
    """Listen on a port of this machine (`proxy.port`) and pass everything on to `host:port`."""
    proxy = Proxy(host, port)
    server = await asyncio.start_server(proxy._serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy._close()
        await server.wait_closed()
