"""A worker's own /metrics and /healthz, on the heartbeat's loop: a blocked jobs' loop is no bar.

The smallest HTTP server that does: GET, one answer a connection, few connections, and short waits.
Where all places are taken the newcomer gets that of whoever has waited longest without having asked
anything: who connects and is silent, or slow, keeps nobody else out.
It asks for no key and tells no company's name: it is for the network inside, as its default address
says.
"""

import asyncio
import json
import socket
from collections.abc import Callable
from contextlib import suppress

from shared.errors import ConfigRefused
from shared.logs import log
from shared.signals import MEDIA_TYPE, process_metrics

MOST_CONNECTIONS = 32
BACKLOG = 128
HEAD_SECONDS = 2.0  # for the whole of it, however it is spread
ANSWER_SECONDS = 5.0
REQUEST_BYTES = 8192
STATUS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed"}
UNWELL = 503
Answer = tuple[int, str, bytes]


def open_socket(host: str, port: int) -> socket.socket | None:
    """Listen before anything else begins; None where the port is 0, ConfigRefused where taken."""
    if port == 0:
        return None
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise ConfigRefused(
            f"CHOT_WORKER_METRICS_HOST={host} and CHOT_WORKER_METRICS_PORT={port}: cannot listen "
            f"there: {error.strerror}. Each worker of a machine needs a port of its own; 0 is none"
        ) from error


class Served:
    """Answers on `listening` until it is closed. `alive` says what /healthz says."""

    def __init__(self, listening: socket.socket, alive: Callable[[], bool]) -> None:
        self._socket = listening
        self._alive = alive
        # In the order of their coming: whether the request's head has been read.
        self._open: dict[asyncio.StreamWriter, bool] = {}
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Serve on the running loop."""
        self._server = await asyncio.start_server(
            self._serve, sock=self._socket, limit=REQUEST_BYTES, backlog=BACKLOG
        )

    def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= MOST_CONNECTIONS:
            self._make_room()
        self._open[writer] = False
        # drain() is to wait until all of it is out, so that the time limit is about all of it.
        writer.transport.set_write_buffer_limits(high=0)
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            self._open[writer] = True
            async with asyncio.timeout(ANSWER_SECONDS):
                writer.write(_written(self._answer(head), head.startswith(b"HEAD ")))
                await writer.drain()
        except (OSError, EOFError, asyncio.LimitOverrunError):  # TimeoutError is an OSError
            writer.transport.abort()  # whoever it was has gone, is slow, or is no Prometheus
        except Exception:  # noqa: BLE001 - the heart goes on, whatever a scrape does
            log.exception("metrics.not_served")
        finally:
            self._open.pop(writer, None)
            with suppress(OSError):
                writer.close()

    def _make_room(self) -> None:
        """End the one that has asked nothing for longest; where all have asked, the oldest."""
        silent = (writer for writer, asked in self._open.items() if not asked)
        ended = next(silent, None) or next(iter(self._open))
        del self._open[ended]
        ended.transport.abort()

    def _answer(self, head: bytes) -> Answer:
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3:
            return 400, "text/plain", b"no request line\n"
        method, target, _ = words
        if method not in {"GET", "HEAD"}:
            return 405, "text/plain", b"GET only\n"
        path = target.partition("?")[0]
        if path == "/metrics":
            return 200, MEDIA_TYPE, process_metrics()
        if path == "/healthz":
            alive = self._alive()
            body = json.dumps({"alive": alive}).encode() + b"\n"
            return 200 if alive else UNWELL, "application/json", body
        return 404, "text/plain", b"/metrics or /healthz\n"


def _written(answer: Answer, head_only: bool) -> bytes:  # noqa: FBT001 - two places, both here
    status, media, body = answer
    head = (
        f"HTTP/1.1 {status} {STATUS.get(status, 'Service Unavailable')}\r\n"
        f"Content-Type: {media}\r\nContent-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (b"" if head_only else body)
