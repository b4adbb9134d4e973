"""Connections: who does not read is cut, who reads slowly enough to be alive or is idle is not."""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from api.settings import ApiSettings
from tests.protocol.api.live import Served, served

LOOK = 0.5
SMALL, USUAL = 2_048, 65_536
LARGE = "/openapi.json"
BOUND = 20


@pytest.fixture
async def live(settings: ApiSettings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """An api that looks at its connections all the time."""
    monkeypatch.setattr("api.connections.LOOK_SECONDS", LOOK)
    monkeypatch.setattr("api.connections.LEAST_BYTES", 1024 * LOOK)
    async with served(settings) as opened:
        yield opened


async def ask(live: Served, path: str, sock: socket.socket, buffer: int = USUAL) -> None:
    """Send a request from a socket with a buffer of that size; read nothing."""
    loop = asyncio.get_running_loop()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    sock.setblocking(False)
    await loop.sock_connect(sock, ("127.0.0.1", live.port))
    await loop.sock_sendall(sock, f"GET {path} HTTP/1.1\r\nHost: api.test\r\n\r\n".encode())


async def read_on(sock: socket.socket, size: int, *, every: float) -> int:
    """Read so many bytes at a time until there is nothing for a while; how many, -1 when cut."""
    loop, taken = asyncio.get_running_loop(), 0
    try:
        while True:
            async with asyncio.timeout(4 * LOOK):
                got = await loop.sock_recv(sock, size)
            if not got:
                return -1
            taken += len(got)
            await asyncio.sleep(every)
    except TimeoutError:
        return taken
    except ConnectionResetError:
        return -1


async def test_who_reads_nothing_is_cut(live: Served) -> None:
    """What the kernel has taken off us counts as well: the answer is short of its length."""
    whole = len((await live.client.get(LARGE)).content)
    assert whole > 100_000, "more than any small buffer takes"
    with socket.socket() as sock:
        async with asyncio.timeout(BOUND):
            await ask(live, LARGE, sock, SMALL)
            await asyncio.sleep(4 * LOOK)  # so long it does not read: that is what is tried
            assert await read_on(sock, 65_536, every=0) == -1


async def test_who_reads_slowly_gets_it_all_and_who_is_idle_stays(live: Served) -> None:
    """Some KiB a second are enough; and a connection on which nothing waits is left alone."""
    whole = len((await live.client.get(LARGE)).content)
    with socket.socket() as sock, socket.socket() as idle:
        async with asyncio.timeout(BOUND):
            await ask(live, "/healthz", idle)
            await ask(live, LARGE, sock)
            assert await read_on(sock, 16_384, every=0.02) > whole
            assert await read_on(idle, 65_536, every=0) > 0
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(idle, b"GET /healthz HTTP/1.1\r\nHost: api.test\r\n\r\n")
            assert await read_on(idle, 65_536, every=0) > 0, "it has not been cut"
