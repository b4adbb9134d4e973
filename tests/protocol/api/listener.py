"""A client of /events over a socket of its own: light enough to have five hundred of them."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event as it came."""

    name: str
    id: str
    job: dict[str, Any]


@dataclass(slots=True)
class Listener:
    """An open answer; `comments` counts heartbeats, `events` is all that has come."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    comments: int = 0
    retry: int | None = None
    events: list[Event] = field(default_factory=list)
    _text: str = ""

    async def begin(self) -> None:
        """Read status and headers."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        self.status = int(head[0].split(" ")[1])
        pairs = (line.split(":", 1) for line in head[1:] if line)
        self.headers = {name.lower(): value.strip() for name, value in pairs}

    async def event(self) -> Event | None:
        """The next event; None when the stream has ended."""
        while True:
            block = await self._block()
            if block is None:
                return None
            told = self._read(block)
            if told is not None:
                self.events.append(told)
                return told

    async def to_the_end(self) -> list[Event]:
        """Everything there is until the stream ends."""
        while await self.event() is not None:
            pass
        return self.events

    async def body(self) -> Any:
        """The whole body of an answer that is no stream."""
        content = await self.reader.readexactly(int(self.headers["content-length"]))
        return json.loads(content)

    def _read(self, block: str) -> Event | None:
        lines = block.split("\n")
        self.comments += sum(line.startswith(":") for line in lines)
        fields = dict(line.split(": ", 1) for line in lines if not line.startswith(":"))
        if "retry" in fields:
            self.retry = int(fields["retry"])
        if "data" not in fields:
            return None
        assert [line.split(":")[0] for line in lines] == ["id", "event", "data"], block
        return Event(name=fields["event"], id=fields["id"], job=json.loads(fields["data"]))

    async def _block(self) -> str | None:
        while "\n\n" not in self._text:
            chunk = await self._chunk()
            if chunk is None:
                assert self._text == "", "a stream ends between two events"
                return None
            self._text += chunk
        block, _, self._text = self._text.partition("\n\n")
        return block

    async def _chunk(self) -> str | None:
        line = await self.reader.readline()
        if not line:
            return None
        size = int(line, 16)
        content = (await self.reader.readexactly(size + 2))[:-2]
        return content.decode() if size else None

    def close(self) -> None:
        """Hang up."""
        self.writer.transport.abort()


async def open_listener(
    port: int, path: str, *, token: str | None = None, last_id: str | None = None
) -> Listener:
    """Connect, ask, and read the head of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = [f"GET {path} HTTP/1.1", "Host: api.test"]
    if token is not None:
        head.append(f"Authorization: Bearer {token}")
    if last_id is not None:
        head.append(f"Last-Event-ID: {last_id}")
    writer.write("\r\n".join([*head, "", ""]).encode())
    listener = Listener(reader, writer)
    await listener.begin()
    return listener


@asynccontextmanager
async def listening(
    port: int, job_id: object, *, token: str | None = None, last_id: str | None = None
) -> AsyncIterator[Listener]:
    """A listener to a job's events; it hangs up when the block ends."""
    path = f"/v1/jobs/{job_id}/events"
    listener = await open_listener(port, path, token=token, last_id=last_id)
    try:
        yield listener
    finally:
        listener.close()
