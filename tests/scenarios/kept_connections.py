"""A client as a load balancer would be: requests on connections that are kept and used again."""

import asyncio
import json
import re
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
LENGTH = re.compile(rb"\r\ncontent-length: (\d+)")


@dataclass(slots=True)
class Connections:
    """Bytes and no HTTP library: a thousand requests at once would keep it busier than the api."""

    port: int
    _free: list[Connection] = field(default_factory=list)

    async def ask(self, method: str, path: str, body: Any = None) -> int:
        """One request on a connection that is free; answers its status. A 503 has Retry-After."""
        reader, writer = (
            self._free.pop()
            if self._free
            else await asyncio.open_connection("127.0.0.1", self.port)
        )
        writer.write(_request(method, path, body))
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = LENGTH.search(head)
        await reader.readexactly(int(length[1]) if length else 0)
        if b"\r\nconnection: close" in head:
            writer.close()
        else:
            self._free.append((reader, writer))
        status = int(head[9:12])
        if status == 503:
            assert b"\r\nretry-after: " in head
        return status

    def close(self) -> None:
        """Close what is free."""
        for _, writer in self._free:
            writer.close()


def _request(method: str, path: str, body: Any) -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(content)}\r\n"
    if body is not None:
        head += f"Content-Type: application/json\r\nIdempotency-Key: {uuid4()}\r\n"
    return f"{head}\r\n".encode() + content
