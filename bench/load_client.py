"""A client that costs little: requests made beforehand, raw sockets, one process beside the api.

Closed loop: each of the connections sends its next request once it has the last answer. Open loop:
requests are sent at their own times, whatever the answers do, and a request that finds no free
connection waits in line; its time counts from when it was due.
"""

import asyncio
import gc
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import perf_counter

END_OF_HEAD = b"\r\n\r\n"
LENGTH = b"content-length:"


@dataclass(frozen=True, slots=True)
class Load:
    """What a run saw: seconds of each answered request, in the order of answers, and how long."""

    times: list[float]
    seconds: float
    failed: int

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.times) / self.seconds

    def quantile(self, share: float) -> float:
        """Seconds."""
        ordered = sorted(self.times)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class _Line(asyncio.Protocol):
    """One connection: a request out, its answer in."""

    def __init__(self, answered: "Callable[[_Line, int], None]") -> None:
        self._answered = answered
        self._buffer = b""
        self.due = 0.0
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def send(self, request: bytes, due: float) -> None:
        self.due = due
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, body = self._buffer.partition(END_OF_HEAD)
        if not found:
            return
        at = head.lower().find(LENGTH)
        length = int(head[at + len(LENGTH) :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if len(body) < length:
            return
        self._buffer = b""
        self._answered(self, int(head[9:12]))

    def connection_lost(self, _error: Exception | None) -> None:
        self._answered(self, 0)


@dataclass(slots=True)
class _Run:
    requests: Iterator[bytes]
    accepted: frozenset[int]
    until: int
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    times: list[float] = field(default_factory=list)
    failed: int = 0
    free: deque[_Line] = field(default_factory=deque)
    waiting: deque[float] = field(default_factory=deque)
    closed: bool = True
    sent: int = 0

    def answered(self, line: _Line, status: int) -> None:
        now = perf_counter()
        if self.ended.is_set():
            return
        if status in self.accepted:
            self.times.append(now - line.due)
        else:
            self.failed += 1
        if len(self.times) + self.failed >= self.until or status == 0:
            self.ended.set()
        elif self.closed:
            self.send(line, now)
        elif self.waiting:
            self.send(line, self.waiting.popleft())
        else:
            self.free.append(line)

    def send(self, line: _Line, due: float) -> None:
        if self.sent < self.until:
            self.sent += 1
            line.send(next(self.requests), due)


async def closed_loop(
    port: int,
    requests: Iterator[bytes],
    *,
    clients: int,
    count: int,
    accepted: frozenset[int] = frozenset({200, 201, 202}),
) -> Load:
    """`count` requests by as many connections; each sends again as soon as it is answered."""
    run = _Run(requests, accepted, count)
    lines = await _connect(port, run, clients)
    began = perf_counter()
    for line in lines:
        run.send(line, perf_counter())
    await run.ended.wait()
    return _over(run, lines, perf_counter() - began)


async def open_loop(
    port: int,
    requests: Iterator[bytes],
    *,
    per_second: float,
    count: int,
    clients: int = 50,
    accepted: frozenset[int] = frozenset({200, 201, 202}),
) -> Load:
    """`count` requests, evenly spread, that wait for nobody's answer."""
    run = _Run(requests, accepted, count, closed=False)
    lines = await _connect(port, run, clients)
    run.free.extend(lines)
    began = perf_counter()
    for number in range(count):
        due = began + number / per_second
        if (early := due - perf_counter()) > 0:
            await asyncio.sleep(early)
        if run.ended.is_set():
            break
        if run.free:
            run.send(run.free.popleft(), due)
        else:
            run.waiting.append(due)
    await run.ended.wait()
    return _over(run, lines, perf_counter() - began)


async def _connect(port: int, run: _Run, clients: int) -> list[_Line]:
    gc.disable()  # its pauses would be counted as the api's
    loop = asyncio.get_running_loop()
    return [
        (await loop.create_connection(lambda: _Line(run.answered), "127.0.0.1", port))[1]
        for _ in range(clients)
    ]


def _over(run: _Run, lines: list[_Line], seconds: float) -> Load:
    for line in lines:
        line.transport.abort()
    return Load(run.times, seconds, run.failed)
