"""Readers of live pages that take a byte a second: they hold up themselves alone, and are let go."""

import asyncio
import secrets
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from statistics import quantiles
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import httpx
import pytest

from api.connections import LOOK_SECONDS
from dev.sqs import SqsServer
from tests.factories import eventually
from tests.pages.stack import Stack, open_stack
from tests.services import DatabaseServer

pytestmark = [pytest.mark.long, pytest.mark.alone]

SLOW = 100
HEARTBEAT = 1.0
LISTENING = "0A"  # as the kernel lists it
# What such a reader's socket takes in before somebody reads it.
SMALL_BUFFER = 2048
# Of each: the page as text and as bytes, and what its socket has not sent.
MOST_BYTES_EACH = 3 << 20
# As many attempts as a page shows, each with as long an error as there may be.
ATTEMPTS = """
    INSERT INTO chot.attempts (job_id, fence, attempt, worker_id, lease_token, code_version,
           started_at, ended_at, outcome, claimed_checkpoint_no, checkpoint_no, error)
    SELECT $1::uuid, n, n, 'w', gen_random_uuid(), 'test', clock_timestamp(), clock_timestamp(),
           'failed', 0, 0, jsonb_build_object('type', 'RetryableError',
                                              'message', repeat('again ', 2500))
      FROM generate_series(100, 400) AS n"""


@pytest.fixture
def stack(
    postgres: DatabaseServer, sqs_server: SqsServer, sqs: Any, tmp_path: Path
) -> Iterator[Stack]:
    """A stack whose streams beat every second, with a job of many attempts: a heavy page."""
    mine = postgres.create()
    settings = {"CHOT_LIVE_HEARTBEAT_SECONDS": f"{HEARTBEAT:g}"}
    prefix = f"t{secrets.token_hex(4)}"
    with open_stack(mine, prefix, sqs_server.endpoint, tmp_path, sqs, **settings) as opened:
        asyncio.run(_fill(opened))
        yield opened
    postgres.drop(mine)


async def _fill(stack: Stack) -> None:
    connection = await asyncpg.connect(stack.database.superuser_url)
    await connection.execute("SET session_replication_role = replica")
    await connection.execute(ATTEMPTS, stack.jobs["dead"])
    await connection.close()


async def ask(stack: Stack, place: str) -> socket.socket:
    """Ask for a page with a small buffer; the socket, once the first byte of it has come."""
    address, loop = urlsplit(stack.url), asyncio.get_running_loop()
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
    sock.setblocking(False)
    await loop.sock_connect(sock, (address.hostname, address.port))
    cookie = f"chot_session={stack.cookie('admin')}"
    said = f"GET {place} HTTP/1.1\r\nHost: {address.netloc}\r\nCookie: {cookie}\r\n\r\n"
    await loop.sock_sendall(sock, said.encode())
    assert await loop.sock_recv(sock, 1) == b"H"
    return sock


async def read_slowly(sock: socket.socket) -> None:
    """A byte a second, until the other side has had enough."""
    loop = asyncio.get_running_loop()
    with sock, suppress(ConnectionResetError):
        while await loop.sock_recv(sock, 1):  # noqa: ASYNC110 - this is what it is slow by
            await asyncio.sleep(1)


def held(stack: Stack) -> int:
    """How many connections of clients the api holds, by what the kernel says."""
    port, found = urlsplit(stack.url).port, 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, _, state, *more = line.split()
        ours = int(local.rpartition(":")[2], 16) == port and state != LISTENING
        found += ours and more[5] != "0"  # the socket: what the process has closed has none
    return found


def memory(stack: Stack) -> int:
    """Bytes of the api that are its own."""
    status = Path(f"/proc/{stack.fleet.children[0].pid}/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


async def looks(stack: Stack, *, seconds: float) -> list[float]:
    """How long others wait for the overview meanwhile, page by page."""
    took, until = [], monotonic() + seconds
    cookies = {"chot_session": stack.cookie("operator")}
    async with httpx.AsyncClient(base_url=stack.url, cookies=cookies) as client:
        while monotonic() < until:
            began = monotonic()
            assert (await client.get("/ui/")).status_code == 200
            took.append(monotonic() - began)
    return took


@pytest.mark.parametrize("live", [True, False], ids=["a stream", "a page"])
async def test_who_reads_a_byte_a_second_is_let_go_and_delays_nobody(
    stack: Stack, record_property: Any, *, live: bool
) -> None:
    """A hundred of them at a page of half a megabyte: memory, others' time, and their end.

    By the kernel's own list of connections, not by what the api believes.
    """
    quiet = quantiles(await looks(stack, seconds=3), n=20)[-1]
    before, place = memory(stack), f"/ui/jobs/{stack.jobs['dead']}{'/live' if live else ''}"
    readers, most, took = list[asyncio.Task[None]](), before, list[float]()
    try:
        for _ in range(SLOW):
            readers.append(asyncio.create_task(read_slowly(await ask(stack, place))))
            most = max(most, memory(stack))
        assert held(stack) > 0
        for _ in range(5):
            took += await looks(stack, seconds=0.5)
            most = max(most, memory(stack))
        delayed = quantiles(took, n=20)[-1]

        async def gone() -> bool:
            return held(stack) == 0

        began = monotonic()
        await eventually(gone, seconds=3 * LOOK_SECONDS)
    finally:
        for each in readers:
            each.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
    record_property("p95", (quiet, delayed))
    record_property("bytes_each", (most - before) / SLOW)
    record_property("gone_after", monotonic() - began)
    print(quiet, delayed, (most - before) / SLOW, monotonic() - began)  # noqa: T201 - its report
    assert most - before <= SLOW * MOST_BYTES_EACH
    assert delayed <= 5 * max(quiet, 0.1)
    lines = stack.fleet.events(stack.fleet.children[0], "uvicorn.error")
    assert lines == [], "a client that is let go is no error of ours"
    assert len(await looks(stack, seconds=1)) > 3
