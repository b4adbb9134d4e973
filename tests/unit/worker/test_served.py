"""A worker's own little server: whoever asks is answered, whatever others hold open."""

import asyncio
import socket
from collections.abc import AsyncIterator
from time import monotonic

import pytest

from worker import served
from worker.served import MOST_CONNECTIONS, Served, open_socket

ASKED = b"GET /healthz HTTP/1.1\r\n\r\n"


@pytest.fixture
async def place() -> AsyncIterator[tuple[Served, int]]:
    """A server on a port of its own."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    listening = open_socket("127.0.0.1", port)
    assert listening is not None
    serving = Served(listening, lambda: True)
    await serving.start()
    yield serving, port
    serving.close()


async def ask(port: int) -> bytes:
    """One request, and all that is answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(ASKED)
    answer = await asyncio.wait_for(reader.read(), 5)
    writer.close()
    return answer


async def test_the_silent_make_room(place: tuple[Served, int]) -> None:
    """Two hundred that say nothing hold a bounded number of places, and never the last one."""
    serving, port = place
    idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(200)]
    for _ in range(3):
        assert b'{"alive": true}' in await ask(port)
    assert len(serving._open) <= MOST_CONNECTIONS
    ended = 0
    for reader, _ in idle:
        ended += reader.at_eof()
    assert ended >= 200 - MOST_CONNECTIONS, "whoever came first went first"
    assert not idle[-1][0].at_eof()
    for _, writer in idle:
        writer.close()


async def test_who_has_asked_is_not_sent_away_for_one_who_has_not(
    place: tuple[Served, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that somebody reads slowly goes on while others only connect."""
    monkeypatch.setattr(served, "process_metrics", lambda: b"x" * 30_000_000)
    serving, port = place
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
    writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
    await reader.readexactly(100)
    idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MOST_CONNECTIONS + 5)]
    assert any(serving._open.values())
    read = 100
    while chunk := await reader.read(1_000_000):
        read += len(chunk)
    assert read > 30_000_000
    for _, each in idle:
        each.close()
    writer.close()


async def test_who_reads_nothing_is_let_go(
    place: tuple[Served, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that nobody takes is not kept for ever, and its connection neither."""
    monkeypatch.setattr(served, "ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(served, "process_metrics", lambda: b"x" * 30_000_000)
    serving, port = place
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        began = monotonic()
        while not serving._open:  # noqa: ASYNC110 - the server's state
            await asyncio.sleep(0.01)
        while serving._open:
            assert monotonic() - began < 5
            await asyncio.sleep(0.02)
        read = await asyncio.to_thread(_read_all, client)
        assert read < 30_000_000, "cut off: what was not out by then is not sent later either"


def _read_all(client: socket.socket) -> int:
    client.settimeout(5)
    read = 0
    try:
        while chunk := client.recv(1_000_000):
            read += len(chunk)
    except ConnectionError:
        pass
    return read
