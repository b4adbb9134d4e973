"""What one api process holds open: engines, SQS client, relay, and the tasks that keep them."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from api.counting import Counting
from api.off_loop import OffLoop
from api.pending import Lane, PendingLimits, count_pending
from api.problems import Problem, ProblemRaised
from api.settings import BACKGROUND_POOL_SIZE, ApiSettings
from shared.at_once import fetch_at_once
from shared.audit import acting
from shared.database import open_engine, said_limit, transaction
from shared.jobs.counts import read_counts
from shared.kinds import Kind
from shared.outages import tell_outages
from shared.outbox import Relay
from shared.s3 import S3, open_s3
from shared.signals import watch_pool
from shared.sqs import open_sqs

SQS_CONNECTIONS = 4
S3_CONNECTIONS = 32  # files that arrive and files that are read
STOP_SECONDS = 5.0
# Served and waiting; at some milliseconds a request the last one waits for less than a second.
ADMITTED_PER_CONNECTION = 20
T = TypeVar("T")
SET_STATEMENT_TIMEOUT = text("SELECT set_config('statement_timeout', CAST(:most AS text), true)")


@dataclass(slots=True, kw_only=True)
class Resources:
    """Everything a route may use. `engine` serves requests, `background` nothing but loops.

    `limits_said` is how long a request's transaction waits for a lock and idles, as PostgreSQL
    reads it. `unready` says why no job can be taken yet; None means all is well. `writes` are the
    transactions under way that no disconnect may cut short.
    """

    settings: ApiSettings
    kinds: Mapping[str, Kind]
    engine: AsyncEngine
    background: AsyncEngine
    relay: Relay
    counting: Counting
    s3: S3 | None = None
    pending: PendingLimits = field(init=False)
    limits_said: tuple[str, str] = field(init=False)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    unready: str | None = "the database has not been reached yet"
    off_loop: OffLoop = field(default_factory=OffLoop)
    admitted: int = 0
    writes: set[asyncio.Task[Any]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.pending = PendingLimits(self._count_pending, self._pending_limit)
        lock, idle = self.settings.request_lock_timeout, self.settings.timing.idle_in_transaction
        self.limits_said = (said_limit(lock), said_limit(idle))

    async def _count_pending(self, lanes: Mapping[Lane, int]) -> Mapping[Lane, int | None]:
        async with self.transaction() as conn:
            return await count_pending(conn, lanes)

    def _pending_limit(self, kind: str) -> int:
        return self.kinds[kind].max_pending or self.settings.max_pending

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """A request's READ COMMITTED transaction with its limits set; commits at its end.

        What it does is audited as done by whoever the request is of.
        """
        with self._admitted():
            async with transaction(
                self.engine,
                lock_timeout=self.settings.request_lock_timeout,
                idle_timeout=self.settings.timing.idle_in_transaction,
                actor=acting(),
            ) as conn:
                yield conn

    async def at_once(self, statement: str, *values: Any) -> Sequence[Any]:
        """The rows of one statement that is its own transaction, with $1-style parameters.

        It sets `limits_said` and acting() for itself; see shared.at_once.
        """
        with self._admitted():
            return await fetch_at_once(self.engine, statement, *values)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A connection in autocommit, for routes that read by single statements."""
        with self._admitted():
            async with self.engine.connect() as conn:
                yield await conn.execution_options(isolation_level="AUTOCOMMIT")

    @contextmanager
    def _admitted(self) -> Iterator[None]:
        """A place in the pool's queue; ProblemRaised at once where the queue is too long already.

        Whoever came last would wait longest and be served last: better told to come again.
        """
        if self.admitted >= self.settings.api_pool_size * ADMITTED_PER_CONNECTION:
            detail = "too many requests wait for the database; send it again"
            raise ProblemRaised(Problem(slug="overloaded", detail=detail))
        self.admitted += 1
        try:
            yield
        finally:
            self.admitted -= 1

    async def finish(self, write: Coroutine[Any, Any, T], *, name: str) -> T:
        """Run a transaction to its end even if the request that wants it is cancelled."""
        task = asyncio.create_task(write, name=name)
        self.writes.add(task)
        task.add_done_callback(self._written)
        return await asyncio.shield(task)

    def _written(self, task: asyncio.Task[Any]) -> None:
        self.writes.discard(task)
        if not task.cancelled():
            task.exception()  # seen: where nobody waits any more, nobody else would look


@asynccontextmanager
async def open_resources(
    settings: ApiSettings, kinds: Mapping[str, Kind]
) -> AsyncIterator[Resources]:
    """Open everything without touching the network; writes under way end before it closes."""
    url = settings.database_url.get_secret_value()
    options: dict[str, Any] = {
        "application_name": "chot api",
        "command_timeout": settings.api_command_timeout_seconds,
        "pool_timeout": settings.api_pool_timeout_seconds,
    }
    engine = tell_outages(open_engine(url, pool_size=settings.api_pool_size, **options))
    watch_pool("requests", engine)
    loops = tell_outages(open_engine(url, pool_size=BACKGROUND_POOL_SIZE, **options))
    watch_pool("background", loops)
    try:
        async with (
            open_sqs(settings.queue_prefix, pool=SQS_CONNECTIONS) as sqs,
            _open_storage(settings) as s3,
        ):
            background = loops.execution_options(isolation_level="AUTOCOMMIT")
            relay = Relay(
                background,
                sqs,
                poll_seconds=settings.relay_poll_seconds,
                ageing_seconds=settings.ageing_seconds,
            )
            resources = Resources(
                settings=settings,
                kinds=kinds,
                engine=engine,
                background=background,
                relay=relay,
                s3=s3,
                counting=Counting(partial(_count, engine, settings), settings.metrics_seconds),
            )
            yield resources
            resources.off_loop.close()
            if resources.writes:
                await asyncio.wait(resources.writes, timeout=STOP_SECONDS)
    finally:
        await engine.dispose()
        await loops.dispose()


@asynccontextmanager
async def _open_storage(settings: ApiSettings) -> AsyncIterator[S3 | None]:
    if settings.files_bucket is None:
        yield None
        return
    async with open_s3(settings.files_bucket, pool=S3_CONNECTIONS) as s3:
        yield s3


async def _count(engine: AsyncEngine, settings: ApiSettings) -> dict[str, Any]:
    async with transaction(engine) as conn:
        limit = {"most": f"{round(settings.metrics_timeout_seconds * 1000)}ms"}
        await conn.execute(SET_STATEMENT_TIMEOUT, limit)
        return await read_counts(conn)
