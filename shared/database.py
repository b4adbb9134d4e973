"""Engines and transactions: the one door to PostgreSQL."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import Any

import asyncpg
from sqlalchemy import TextClause, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from shared.exact_json import load_exact
from shared.session_locks import MAY_HOLD_LOCKS, RestingConnections

# What asyncpg, SQLAlchemy's pool and the socket raise when the server cannot be had right now.
# 26000: the session's prepared statements are gone, and with them the use of the connection.
UNREACHABLE_SQLSTATES = ("08", "57P", "53", "25006", "26000")
# While connecting the driver's own errors come through unwrapped.
# Deadlock, serialization failure, lock timeout: it lost a fight, and has done nothing wrong.
CONFLICTS = frozenset({"40P01", "40001", "55P03"})
RESTORE_SECONDS = 5.0
DRIVER_ERRORS = (asyncpg.InterfaceError, asyncpg.InternalClientError)  # said of dead connections
DATABASE_ERRORS = (SQLAlchemyError, asyncpg.PostgresError, *DRIVER_ERRORS, OSError)


def driver_url(url: str) -> str:
    """Give a plain `postgresql://` URL the driver this project uses."""
    parsed = make_url(url)
    if parsed.drivername in {"postgres", "postgresql"}:
        parsed = parsed.set(drivername="postgresql+asyncpg")
    return parsed.render_as_string(hide_password=False)


def open_engine(
    url: str,
    *,
    pool_size: int,
    application_name: str = "chot",
    connect_timeout: float = 5.0,
    command_timeout: float | None = None,
    pool_timeout: float = 10.0,
) -> AsyncEngine:
    """Open a pool that works directly and behind PgBouncer in transaction mode.

    READ COMMITTED always. A connection that was closed while it lay in the pool is opened anew; one
    that is dead unnoticed fails its first statement, and the pool drops it together with its
    elders. `pool_size=0` opens one connection per use. All times are seconds; `command_timeout`
    bounds every single statement on the client's side.
    """
    options: dict[str, Any] = {
        "isolation_level": "READ COMMITTED",
        "json_deserializer": load_exact,
        "hide_parameters": True,  # payloads and secrets are no matter for logs
        "connect_args": {
            "timeout": connect_timeout,
            "command_timeout": command_timeout,
            "server_settings": {"application_name": application_name},
        },
    }
    if pool_size == 0:
        options["poolclass"] = NullPool
    else:
        options |= {"pool_size": pool_size, "max_overflow": 0, "pool_timeout": pool_timeout}
        # Who came back last is used next: its statements are prepared, and their plans made.
        options["pool_use_lifo"] = True
    engine = create_async_engine(driver_url(url), **options)
    RestingConnections().watch(engine.sync_engine)
    return engine


@asynccontextmanager
async def transaction(
    engine: AsyncEngine, *, lock_timeout: float = 0, idle_timeout: float = 0, actor: str = ""
) -> AsyncIterator[AsyncConnection]:
    """Open a READ COMMITTED transaction whose first statement sets its own limits (seconds).

    `actor` is on whose behalf it runs (shared.audit.acting()); empty: the login role's own.
    SET LOCAL works behind PgBouncer, and being a statement it makes SQLAlchemy's lazily begun
    driver transaction real before the body can touch the driver's connection itself.
    """
    async with engine.connect() as conn:
        # On the connection: an engine in autocommit would win, and hold no lock.
        await conn.execution_options(isolation_level="READ COMMITTED")
        async with conn.begin():
            await set_limits(
                conn, lock_timeout=lock_timeout, idle_timeout=idle_timeout, actor=actor
            )
            yield conn


FIND_BY_INDEX = text("SET LOCAL enable_seqscan = off")


async def find_by_index(conn: AsyncConnection) -> None:
    """For this transaction: what waits is found by its index, however much of the table it is.

    By its estimates a planner reads a whole table for a tenth of it, with all that is over: a
    backlog of half a million in five would cost each minute's sample 2.6 GB.
    """
    await conn.execute(FIND_BY_INDEX)


class StrangersConnection(AsyncConnection):
    """A connection lent to a handler: its transaction is not the handler's to end.

    What it committed by itself would stand beside the fence, so neither the methods nor the SQL
    words that end a transaction pass. Savepoints do.
    """

    async def commit(self) -> None:
        """Refuse: the context manager commits, together with the fence."""
        raise RuntimeError("the transaction's context commits it, together with the fence")

    async def rollback(self) -> None:
        """Refuse: raise, and the context manager rolls back."""
        raise RuntimeError("raise an error, and the transaction's context rolls it back")

    async def close(self) -> None:
        """Refuse: it is only lent."""
        raise RuntimeError("the transaction's context closes its connection")


ENDING = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/)*"
    r"(commit|end|abort|begin|start\s+transaction|prepare\s+transaction|rollback(?!\s+to))\b",
    re.IGNORECASE | re.DOTALL,
)


def _refuse_ending(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
    if ENDING.match(statement):
        raise RuntimeError(f"{statement[:40]!r}: the transaction's context begins and ends it")


@asynccontextmanager
async def connected(
    engine: AsyncEngine, drivers: set[Any], *, strangers: bool = False
) -> AsyncIterator[AsyncConnection]:
    """A connection that another part may cut: its asyncpg connection stands in `drivers`.

    Rolled back on an error, cut off on a cancel: asyncpg's cancel request runs beside the
    connection, could hit its next statement, and waits for a server that may not answer. After
    `strangers` have had it, their session settings, cursors, channels and advisory locks are
    undone, so that the next job on this connection does not inherit them: at once, or, where the
    rest was undone by what has committed (undo_session()), the locks by whoever comes next or
    within a moment.
    """
    conn = await (StrangersConnection(engine) if strangers else engine.connect())
    if strangers:
        event.listen(conn.sync_connection, "before_cursor_execute", _refuse_ending)
    driver = (await conn.get_raw_connection()).driver_connection
    drivers.add(driver)
    committed = False
    try:
        yield conn
        committed = True
    except Exception:
        with suppress(DBAPIError, OSError):
            await AsyncConnection.rollback(conn)
        raise
    except BaseException:
        if driver is not None:
            driver.terminate()
        with suppress(DBAPIError, OSError):
            await conn.invalidate()
        raise
    finally:
        drivers.discard(driver)
        if strangers and driver is not None and not driver.is_closed():
            await _take_back(conn, driver, committed=committed)
        with suppress(DBAPIError, OSError):
            await AsyncConnection.close(conn)


async def _take_back(conn: AsyncConnection, driver: asyncpg.Connection, *, committed: bool) -> None:
    """Undo the session; a connection that cannot be restored is thrown away."""
    try:
        if committed and MAY_HOLD_LOCKS in (await conn.get_raw_connection()).info:
            driver._listeners.clear()  # noqa: SLF001 - as reset() does it: nobody hears of them
            driver._log_listeners.clear()  # noqa: SLF001
            return
        await AsyncConnection.rollback(conn)
        driver._reset_query = RESTORE  # noqa: SLF001 - its own is four statements
        await driver.reset(timeout=RESTORE_SECONDS)
    except DATABASE_ERRORS:
        driver.terminate()
        with suppress(DBAPIError, OSError):
            await conn.invalidate()


RESTORE = """DO $$ BEGIN
    PERFORM pg_advisory_unlock_all();
    EXECUTE 'CLOSE ALL';
    EXECUTE 'UNLISTEN *';
    EXECUTE 'RESET ALL';
END $$"""
# The same without the locks, and then this transaction's limits again, which are settings, too.
UNDO_SESSION = """DO $$ BEGIN
    SET CONSTRAINTS ALL IMMEDIATE;
    EXECUTE 'CLOSE ALL';
    EXECUTE 'UNLISTEN *';
    EXECUTE 'RESET ALL';
    PERFORM set_config('lock_timeout', '{lock}', true),
            set_config('idle_in_transaction_session_timeout', '{idle}', true),
            set_config('jit', 'off', true);
END $$"""


async def undo_session(conn: AsyncConnection, *, lock_timeout: float, idle_timeout: float) -> None:
    """After a stranger's last word: its deferred constraints run, then its session is undone.

    What is written after it, and the COMMIT, goes by no setting of the stranger's, but by these
    limits (seconds) again. Once it has committed, nothing but advisory locks can be left.
    """
    await conn.execute(_undo_session(said_limit(lock_timeout), said_limit(idle_timeout)))
    (await conn.get_raw_connection()).info[MAY_HOLD_LOCKS] = True


@cache
def _undo_session(lock: str, idle: str) -> TextClause:
    return text(UNDO_SESSION.format(lock=lock, idle=idle))


# Locks: of whoever had the connection before (shared/session_locks.py).
SET_LIMITS = text("""
    SELECT pg_backend_pid(), pg_advisory_unlock_all(),
           set_config('lock_timeout', CAST(:lock AS text), true),
           set_config('idle_in_transaction_session_timeout', CAST(:idle AS text), true),
           set_config('chot.actor', CAST(:actor AS text), true),
           set_config('jit', 'off', true)""")


async def set_limits(
    conn: AsyncConnection, *, lock_timeout: float, idle_timeout: float, actor: str = ""
) -> int:
    """Bound lock waits and idle time of the transaction that `conn` is in (seconds, 0 = none).

    Before that the session holds no advisory lock: one that a stranger left is let go.
    Answers the pid of the server's process that serves this transaction, also behind a pooler.

    Model: action idle_timeout.
    """
    binds = {
        "lock": said_limit(lock_timeout),
        "idle": said_limit(idle_timeout),
        "actor": actor,
    }
    return int((await conn.execute(SET_LIMITS, binds)).scalar_one())


def said_limit(seconds: float) -> str:
    """A time-out as PostgreSQL's settings take it."""
    return f"{round(seconds * 1000)}ms"


def sqlstate_of(error: BaseException) -> str | None:
    """The five-character SQLSTATE of a database error, however deeply it is wrapped."""
    cause: BaseException | None = error.orig if isinstance(error, DBAPIError) else error
    while cause is not None:
        state = getattr(cause, "sqlstate", None)
        if isinstance(state, str):
            return state
        cause = cause.__cause__
    return None


def is_unreachable(error: BaseException) -> bool:
    """True when the database could not be had at all, so that trying again later may help."""
    state = sqlstate_of(error)
    if state is not None:
        return state.startswith(UNREACHABLE_SQLSTATES)
    cause = error.orig if isinstance(error, DBAPIError) else error
    lost = isinstance(error, DBAPIError) and error.connection_invalidated
    return lost or isinstance(cause, (OSError, TimeoutError, *DRIVER_ERRORS))


async def driver_connection(conn: AsyncConnection) -> asyncpg.Connection:
    """The asyncpg connection beneath `conn`, for COPY; only inside an open transaction.

    Raises AssertionError when the driver has not begun: what is written then would commit at
    once, beside the fence.
    """
    raw = await conn.get_raw_connection()
    driver: asyncpg.Connection = raw.driver_connection
    assert driver.is_in_transaction(), "the driver's transaction has not begun"
    return driver
