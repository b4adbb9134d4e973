"""Outages: what the driver says when the database is away becomes one kind of error, and the
connection that said it is cut at once.

Left alone, errors while connecting come through as bare OSErrors, a statement that was given up
leaves its connection in the pool with a cancel that nobody may ever answer, and a server that has
become read-only (a failover) keeps its connections in the pool for ever.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DisconnectionError, OperationalError
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import DATABASE_ERRORS, sqlstate_of
from shared.session_locks import ANSWERED_AT

# A server that became read-only, and a session whose prepared statements somebody dropped: the
# connection is of no more use.
SPOILT = frozenset({"25006", "26000"})
# What the dialect does with a new connection after `do_connect` has handed it over.
SET_UP = ("setup_asyncpg_json_codec", "setup_asyncpg_jsonb_codec")
FRESH_SECONDS = 0.5
KEEP_ALIVE = (
    (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
    (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 5),
    (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 2),
    (socket.IPPROTO_TCP, "TCP_KEEPCNT", 3),
    (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", 10_000),  # ms for what was sent to be acknowledged
)


def tell_outages(engine: AsyncEngine) -> AsyncEngine:
    """Make `is_unreachable()` true for every way in which the database can be away.

    A statement that ran into its client-side time-out, a read-only server and a failed connect
    raise a DBAPIError with `connection_invalidated`, and the pool drops what it holds. Answers
    the same engine.
    """
    event.listen(engine.sync_engine, "do_connect", _connect)
    dialect: Any = engine.sync_engine.dialect
    for name in SET_UP:
        setattr(dialect, name, _set_up(dialect, getattr(dialect, name)))
    event.listen(engine.sync_engine, "handle_error", _judge, retval=True)
    return engine


def check_before_use(engine: AsyncEngine, *, seconds: float) -> AsyncEngine:
    """Ask a connection that has been idle whether it still answers before it is handed out.

    For pools without a client-side time-out: a half-open connection would swallow the first
    statement for ever. One that does not answer in time is cut, and a new one is opened. Answers
    the same engine.
    """

    def check(adapted: Any, record: Any, _proxy: Any) -> None:
        if monotonic() - record.info.get(ANSWERED_AT, 0.0) < FRESH_SECONDS:
            return
        try:
            adapted.run_async(lambda driver: asyncio.wait_for(driver.execute("SELECT 1"), seconds))
        except DATABASE_ERRORS as error:
            adapted.driver_connection.terminate()
            raise DisconnectionError(f"gone while it was idle: {error}") from error

    def note(_adapted: Any, record: Any) -> None:
        record.info[ANSWERED_AT] = monotonic()

    event.listen(engine.sync_engine, "checkout", check)
    event.listen(engine.sync_engine, "checkin", note)
    return engine


@asynccontextmanager
async def answered_within(seconds: float) -> AsyncIterator[None]:
    """Give up what the body asks after that time, as an outage: OperationalError, connection cut.

    For statements that take no time on a server that is there, on a connection without a time-out
    of its own: one that was used a moment ago is not asked first whether it is half-open.
    """
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise OperationalError(None, None, error, connection_invalidated=True) from error


def _connect(dialect: Any, _record: Any, args: list[Any], options: dict[str, Any]) -> Any:
    try:
        adapted = dialect.connect(*args, **options)
    except DATABASE_ERRORS as error:
        said = str(error) or type(error).__name__
        raise dialect.loaded_dbapi.OperationalError(said) from error
    _keep_alive(adapted.driver_connection)
    return adapted


def _keep_alive(driver: Any) -> None:
    """Have the kernel notice within some ten seconds that the peer's machine is gone.

    Left alone it asks after two hours, and sends what is not acknowledged for a quarter of one.
    """
    found = driver._transport.get_extra_info("socket")  # noqa: SLF001 - the driver has no setting
    for level, name, value in KEEP_ALIVE:
        option = getattr(socket, name, None)  # not every system knows all of them
        if found is not None and option is not None:
            with suppress(OSError):  # a Unix socket has no peer that could vanish
                found.setsockopt(level, option, value)


def _set_up(
    dialect: Any, hook: Callable[[Any], Awaitable[None]]
) -> Callable[[Any], Awaitable[None]]:
    """The hook, failing as a connect fails: left alone, the driver's own error comes through."""

    async def told(connection: Any) -> None:
        try:
            await hook(connection)
        except DATABASE_ERRORS as error:
            said = str(error) or type(error).__name__
            raise dialect.loaded_dbapi.OperationalError(said) from ConnectionError(said)

    return told


def _judge(context: ExceptionContext) -> BaseException | None:
    error = context.original_exception
    if isinstance(error, TimeoutError | asyncio.CancelledError):
        _cut(context)
    if isinstance(error, TimeoutError):
        context.is_disconnect = True
        # Left alone, a time-out is no reason: each connection of the pool would cost one more.
        context.invalidate_pool_on_disconnect = True
        return OperationalError(
            context.statement,
            None,
            error,
            hide_parameters=True,
            connection_invalidated=True,
        )
    if isinstance(error.__cause__, OSError) or sqlstate_of(error) in SPOILT:
        context.is_disconnect = True
    return None


def _cut(context: ExceptionContext) -> None:
    """Close without a farewell: one would wait for the server's answer to a cancel."""
    if context.connection is None or context.connection.invalidated:
        return
    with suppress(*DATABASE_ERRORS):
        driver = context.connection.connection.driver_connection
        if driver is not None:
            driver.terminate()
