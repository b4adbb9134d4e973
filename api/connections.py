"""Connections of clients: one that takes in next to nothing of what is written to it is cut.

A transport that is closed first sends what it still holds. To a client that does not read that is
never: its socket, what was written for it, and its place at a live page would be kept until it
goes. How much a client has taken in, its kernel acknowledges and ours counts (Linux); where it does
not, only streams that stall are cut.
"""

import asyncio
import fcntl
import socket
import sys
import termios
from collections.abc import Callable
from typing import Any

from starlette.types import Scope
from uvicorn.protocols.http.h11_impl import H11Protocol

# From look to look; who takes less than a KiB a second in between is let go.
LOOK_SECONDS = 30.0
LEAST_BYTES = 1024 * LOOK_SECONDS
# Of struct tcp_info: bytes that were acknowledged.
ACKED = slice(120, 128)
LET_GO = "let_go"


class Connection(H11Protocol):
    """uvicorn's, which looks at what its client takes in; the app may end it by let_go()."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to look."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, LET_GO: transport.abort}
        self._unsent = self._acked = 0
        self._looking = self.loop.call_later(LOOK_SECONDS, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is left to look at."""
        self._looking.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        sock = self.transport.get_extra_info("socket")
        acked, before = acked_of(sock), self._unsent
        if acked is None:
            return
        if acked - self._acked < min(before, LEAST_BYTES):
            self.transport.abort()
            return
        self._acked = acked
        self._unsent = unsent_of(sock) + self.transport.get_write_buffer_size()
        self._looking = self.loop.call_later(LOOK_SECONDS, self._look)


def acked_of(sock: Any) -> int | None:
    """How many bytes the other side has taken in; None where the system does not tell."""
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, ACKED.stop)
    except (AttributeError, OSError):
        return None
    return int.from_bytes(info[ACKED], sys.byteorder) if len(info) == ACKED.stop else None


def unsent_of(sock: Any) -> int:
    """Bytes that are with our kernel and not yet taken in."""
    return int.from_bytes(fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4)), sys.byteorder)


def let_go(scope: Scope) -> None:
    """Cut the connection of this request now, with all that is unsent; no error of anybody's."""
    end: Callable[[], Any] | None = scope.get("state", {}).get(LET_GO)
    if end is not None:
        end()
