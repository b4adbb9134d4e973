"""An api's stand-in that answers in bytes: what no well-behaved server would send."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

Answer = bytes | None
JOB_ID = "0190a000-0000-7000-8000-000000000001"


def answer(body: bytes | dict[str, Any], status: str = "200 OK", **headers: str) -> bytes:
    """An answer as it goes over the wire."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(content)}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


def job(state: str = "running", **more: Any) -> dict[str, Any]:
    """A job as the api shows it."""
    at = "2026-01-31T00:00:00Z"
    empty = dict.fromkeys(("brand", "progress", "error", "blocked_by", "finished_at"))
    numbers = {"priority": 5, "attempt": 1, "max_attempts": 5, "fence": 1}
    names = {"id": JOB_ID, "kind": "k", "company": "C", "state": state, "principal": "p"}
    times = {"created_at": at, "available_at": at, "started_at": at}
    return names | numbers | empty | times | more


class Stand:
    """Sends `answers` in order, the last one for ever; None: a byte now and then, without end."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.url = ""
        self.over = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(
            (
                int(line[15:])
                for line in head.split("\r\n")
                if line.lower()[:15] == "content-length:"
            ),
            0,
        )
        self.asked.append(head + (await reader.readexactly(length)).decode())
        said = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        writer.write(b"HTTP/1.1 200 OK\r\nX-Drip: " if said is None else said)
        await writer.drain()
        while said is None and not self.over.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self.over.wait(), 0.05)
            writer.write(b"x")
            await writer.drain()


@asynccontextmanager
async def standing(*answers: Answer) -> AsyncIterator[Stand]:
    """A stand-in at an address of its own."""
    stand = Stand(*answers)

    served: set[asyncio.Task[None] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.add(asyncio.current_task())
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await stand.serve(reader, writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    stand.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield stand
    finally:
        stand.over.set()
        server.close()
        await asyncio.gather(*filter(None, served))
