"""The lane of submits on the wire: odd requests are answered to the byte as by the router."""

import asyncio
import json
import re

import pytest

from api.lane import SubmitLane
from api.settings import ApiSettings
from tests.protocol.api.live import Served, served

BODY = json.dumps(
    {"kind": "api.note", "company": "ACME", "brand": "RED", "payload": {"number": 1}}
).encode()
TYPE = b"Host: a\r\nContent-Type: application/json\r\n"
SIZED = TYPE + b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"%x\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (20, BODY[:20], len(BODY) - 20, BODY[20:])
CLOSE = b"Connection: close\r\n\r\n"
REQUESTS = {
    "plain": b"POST /v1/jobs HTTP/1.1\r\n" + SIZED + CLOSE + BODY,
    "1.0": b"POST /v1/jobs HTTP/1.0\r\n" + SIZED + b"\r\n" + BODY,
    "chunked": b"POST /v1/jobs HTTP/1.1\r\n"
    + TYPE
    + b"Transfer-Encoding: chunked\r\n"
    + CLOSE
    + CHUNKED,
    "expects": b"POST /v1/jobs HTTP/1.1\r\n" + SIZED + b"Expect: 100-continue\r\n" + CLOSE + BODY,
    "no body": b"POST /v1/jobs HTTP/1.1\r\n" + TYPE + CLOSE,
    "escaped": b"POST /v1/%6aobs HTTP/1.1\r\n" + SIZED + CLOSE + BODY,
    "two slashes": b"POST //v1/jobs HTTP/1.1\r\n" + SIZED + CLOSE + BODY,
    "inner slashes": b"POST /v1//jobs HTTP/1.1\r\n" + SIZED + CLOSE + BODY,
    "last slash": b"POST /v1/jobs/ HTTP/1.1\r\n" + SIZED + CLOSE + BODY,
    "absolute": b"POST http://a/v1/jobs HTTP/1.1\r\n" + SIZED + CLOSE + BODY,
    "empty query": b"POST /v1/jobs? HTTP/1.1\r\n" + SIZED + CLOSE + BODY,
    "broken query": b"POST /v1/jobs?a=%zz HTTP/1.1\r\n" + SIZED + CLOSE + BODY,
    "head": b"HEAD /v1/jobs HTTP/1.1\r\n" + TYPE + CLOSE,
    "options": b"OPTIONS /v1/jobs HTTP/1.1\r\n" + TYPE + b"Origin: http://b\r\n" + CLOSE,
    "huge": b"POST /v1/jobs HTTP/1.1\r\n" + TYPE + b"Content-Length: 99999999\r\n" + CLOSE,
    "short body": b"POST /v1/jobs HTTP/1.1\r\n" + SIZED + CLOSE + BODY[:-5],
    "two types": b"POST /v1/jobs HTTP/1.1\r\nContent-Type: text/plain\r\n" + SIZED + CLOSE + BODY,
    "encoded": b"POST /v1/jobs HTTP/1.1\r\n" + SIZED + b"Content-Encoding: gzip\r\n" + CLOSE + BODY,
    "traced": b"POST /v1/jobs HTTP/1.1\r\n"
    + SIZED
    + b"X-Request-Id: mine-1\r\nTraceparent: 00-%b-%b-01\r\n" % (b"a" * 32, b"b" * 16)
    + CLOSE
    + BODY,
}
NEW = re.compile(
    rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\ndate: [^\r]*", re.IGNORECASE
)


async def answered(live: Served, request: bytes) -> bytes:
    """All bytes of the answer, but for ids and the time."""
    reader, writer = await asyncio.open_connection("127.0.0.1", live.port)
    writer.write(request)
    if request == REQUESTS["short body"]:
        writer.write_eof()
    async with asyncio.timeout(20):
        told = await reader.read()
    writer.close()
    return NEW.sub(b"", told)


async def test_odd_requests_are_answered_alike(
    settings: ApiSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Framing, other forms of the address, other methods, bodies that end early."""

    async def past(self: SubmitLane, *given: object) -> None:
        await self._app(*given)  # type: ignore[arg-type]

    async with served(settings) as live:
        await answered(live, REQUESTS["plain"])  # from here on it is a duplicate
        in_lane = {name: await answered(live, request) for name, request in REQUESTS.items()}
        monkeypatch.setattr(SubmitLane, "__call__", past)
        past_it = {name: await answered(live, request) for name, request in REQUESTS.items()}
    assert in_lane == past_it
    taken = [name for name, told in in_lane.items() if b"HTTP/1.1 200 " in told]
    assert {"plain", "1.0", "chunked", "expects", "escaped", "traced"} <= set(taken)
