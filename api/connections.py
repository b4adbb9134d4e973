"""Connections of clients: one that takes in nothing of what is written to it is cut.

A transport that is closed first sends what it still holds. To a client that does not read that is
never: its socket, and what was written for it, would be kept until the client goes.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.types import Scope
from uvicorn.protocols.http.h11_impl import H11Protocol

# From look to look; who takes less than a KiB a second in between is let go.
LOOK_SECONDS = 30.0
LEAST_BYTES_A_SECOND = 1024
LET_GO = "let_go"


class Connection(H11Protocol):
    """uvicorn's, which looks at what is unsent; the app may end it at once by let_go()."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to look."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, LET_GO: transport.abort}
        self._unsent, self._drained = 0, False
        self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is left to look at."""
        self._looking.cancel()
        super().connection_lost(exc)

    def resume_writing(self) -> None:
        """The client has taken most of what was unsent."""
        self._drained = True
        super().resume_writing()

    def _look_later(self) -> None:
        self._looking = self.loop.call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        unsent, before = self.transport.get_write_buffer_size(), self._unsent
        taken = before - unsent
        if before and not self._drained and taken < LEAST_BYTES_A_SECOND * LOOK_SECONDS and unsent:
            self.transport.abort()
            return
        self._unsent, self._drained = unsent, False
        self._look_later()


def let_go(scope: Scope) -> None:
    """Cut the connection of this request now, with all that is unsent; no error of anybody's."""
    end: Callable[[], Any] | None = scope.get("state", {}).get(LET_GO)
    if end is not None:
        end()
