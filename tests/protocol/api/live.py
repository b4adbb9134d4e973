"""The api in this process behind real sockets, so that answers stream and its hub can be seen."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI
from sqlalchemy import Engine, event

from api.app import create_app
from api.connections import Connection
from api.settings import ApiSettings
from api.watching import Hub
from shared.jobs.watched import WATCHED_JOBS
from tests.protocol.api.app import until_ready

MARK = "o.job_id = j.id AND j.state IN ('pending', 'dead')"


@dataclass(slots=True)
class Served:
    """A served api: its port, a client of it, and what it has inside."""

    port: int
    client: httpx.AsyncClient
    app: FastAPI

    @property
    def hub(self) -> Hub:
        """The hub of this api."""
        hub: Hub = self.app.state.hub
        return hub


@asynccontextmanager
async def served(settings: ApiSettings) -> AsyncIterator[Served]:
    """Serve on a port of its own until the block ends."""
    app = create_app(settings)
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
        server = uvicorn.Server(
            uvicorn.Config(
                app,
                http=Connection,
                log_config=None,
                access_log=False,
                lifespan="on",
                timeout_keep_alive=60,
                timeout_graceful_shutdown=5,
            )
        )
        serving = asyncio.create_task(server.serve(sockets=[sock]))
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            try:
                while not server.started:  # noqa: ASYNC110 - it has no event to wait for
                    await asyncio.sleep(0.01)
                await until_ready(client)
                yield Served(port, client, app)
            finally:
                if hasattr(app.state, "resources"):
                    app.state.resources.stopping.set()
                server.should_exit = True
                await serving


@contextmanager
def counted_looks() -> Iterator[list[int]]:
    """Of every look of a hub in this process: how many ids it asked for."""
    assert MARK in WATCHED_JOBS.text, "the mark is how a look is known"
    looks: list[int] = []

    def note(_conn: Any, _cursor: Any, statement: str, parameters: Any, *_rest: Any) -> None:
        if MARK in statement and "archived_jobs" not in statement:
            looks.append(len(parameters[0]))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield looks
    finally:
        event.remove(Engine, "before_cursor_execute", note)
