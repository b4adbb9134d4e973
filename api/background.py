"""The loops beside the requests: preparing the database, relay, old keys, watch, alerts."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import time

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from api.idempotency import delete_expired_keys
from api.resources import SET_STATEMENT_TIMEOUT, STOP_SECONDS, Resources
from api.signals import watch_lag
from shared.alerts.evaluator import open_alerting
from shared.api_keys import find_key
from shared.database import DATABASE_ERRORS, is_unreachable, set_limits, sqlstate_of, transaction
from shared.errors import ConfigRefused
from shared.jobs.minutes import sample_minute
from shared.kinds.registry import mirror_kinds
from shared.logs import log
from shared.restored import refuse_restored
from shared.telling import told
from shared.watch import Watch

LONGEST_BACKOFF_SECONDS = 5.0
UNREADY_SECONDS = 1.0  # until the first minute is counted
NOT_MIGRATED = frozenset({"3F000", "42P01", "42703", "42883", "42501"})
OLDEST_SERVER = 150_000
READ_ONLY = "25006"

Loop = Callable[[asyncio.Event], Awaitable[None]]


@asynccontextmanager
async def background_loops(resources: Resources) -> AsyncIterator[None]:
    """Keep the loops running; at the end each gets a moment to come to its own."""
    loops: dict[str, Loop] = {
        "prepare": lambda stop: prepare_database(resources, stop),
        "relay": resources.relay.run,
        "key reaper": lambda stop: reap_keys(resources, stop),
        "minutes": lambda stop: sample_minutes(resources, stop),
        "watch": lambda stop: watch(resources, stop),
        "loop lag": watch_lag,
        "alerts": lambda stop: tell_alerts(resources, stop),
    }
    stop = asyncio.Event()
    tasks = [
        asyncio.create_task(supervise(name, loop, stop), name=name) for name, loop in loops.items()
    ]
    try:
        yield
    finally:
        resources.stopping.set()
        stop.set()
        _, late = await asyncio.wait(tasks, timeout=STOP_SECONDS)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)


async def supervise(name: str, loop: Loop, stop: asyncio.Event) -> None:
    """Run the loop until it ends by itself or `stop` is set; one that fails starts again."""
    failures = 0
    while not stop.is_set():
        try:
            await loop(stop)
        except Exception as error:  # noqa: BLE001 - a loop that died for good would go unnoticed
            failures += 1
            known = is_unreachable(error)
            exc_info = None if known else error
            log.error("loop.failed", loop=name, error=told(error), exc_info=exc_info)
            await wait_for_stop(stop, backoff(failures))
        else:
            return


def backoff(failures: int) -> float:
    """Seconds before the next try: exponential with full jitter, 5 s at most."""
    return random.uniform(0.05, min(LONGEST_BACKOFF_SECONDS, 0.2 * 2.0 ** min(failures, 10)))


async def wait_for_stop(stop: asyncio.Event, seconds: float) -> None:
    """Return after `seconds`, or at once when `stop` is set."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return


async def prepare_database(resources: Resources, stop: asyncio.Event) -> None:
    """Mirror the kinds once the database is there; until then say why it is not, and retry."""
    failures = 0
    while not stop.is_set():
        try:
            async with resources.transaction() as conn:
                await _read_limits(conn, resources)
                await refuse_restored(conn)
                await find_key(conn, "")  # a schema without keys lets nobody in
                await mirror_kinds(
                    conn,
                    resources.kinds,
                    default_max_attempts=resources.settings.max_attempts,
                )
        except Exception as error:  # noqa: BLE001 - whatever it is, the api stays up to say so
            failures += 1
            resources.unready = _reason(error)
            log.warning("database.not_ready", reason=resources.unready, failures=failures)
            await wait_for_stop(stop, backoff(failures))
        else:
            resources.unready = None
            log.info("api.ready", kinds=sorted(resources.kinds))
            return


READ_LIMITS = text("""
    SELECT current_setting('lock_timeout') AS lock_timeout,
           current_setting('idle_in_transaction_session_timeout') AS idle_in_transaction,
           current_setting('transaction_isolation') AS isolation,
           current_setting('server_version_num')::integer AS server, current_user AS role,
           (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AS superuser""")


class Unfit(RuntimeError):
    """The database answers, but is not one that jobs may be trusted to."""


async def _read_limits(conn: AsyncConnection, resources: Resources) -> None:
    """Read back what is in force in a transaction of ours; Unfit where it is not what we set."""
    lock = resources.settings.request_lock_timeout
    idle = resources.settings.timing.idle_in_transaction
    await set_limits(conn, lock_timeout=lock, idle_timeout=idle)
    row = (await conn.execute(READ_LIMITS)).one()
    if row.server < OLDEST_SERVER:
        raise Unfit(f"PostgreSQL {row.server // 10_000} is too old: 15 or newer is needed")
    if row.isolation != "read committed":
        raise Unfit(f"transactions run at {row.isolation}; only read committed is safe")
    if row.lock_timeout == "0" or row.idle_in_transaction == "0":
        raise Unfit("lock_timeout and idle_in_transaction_session_timeout are not in force")
    log.info(
        "database.limits",
        lock_timeout=row.lock_timeout,
        idle_in_transaction=row.idle_in_transaction,
        role=row.role,
        server=row.server,
    )
    if row.superuser:
        log.warning("database.superuser", role=row.role, meaning="every grant is ignored")


def _reason(error: Exception) -> str:
    if isinstance(error, Unfit | ConfigRefused):
        return str(error)
    if sqlstate_of(error) in NOT_MIGRATED:
        return "the schema is missing or older than this code: run `chot migrate`"
    if sqlstate_of(error) == READ_ONLY:
        return "the database is read-only: a failover, or role read where chot_app is wanted"
    if is_unreachable(error):
        return f"the database cannot be reached: {type(error).__name__}"
    return f"the database refuses: {error}"


async def reap_keys(resources: Resources, stop: asyncio.Event) -> None:
    """Delete expired idempotency keys in batches, for ever."""
    while not stop.is_set():
        await wait_for_stop(stop, resources.settings.key_reaper_seconds)
        if resources.unready is None and not stop.is_set():
            async with resources.background.connect() as conn:
                gone = await delete_expired_keys(conn, stop)
            if gone:
                log.info("idempotency_keys.reaped", keys=gone)


async def sample_minutes(resources: Resources, stop: asyncio.Event) -> None:
    """Count jobs by state once a minute, for ever; one of all api processes does.

    Too many to be counted in time are not counted: the charts have a gap, and nothing waits.
    """
    most = f"{round(resources.settings.metrics_timeout_seconds * 1000)}ms"
    while not stop.is_set():
        if resources.unready is None:
            try:
                async with transaction(resources.background) as conn:
                    await conn.execute(SET_STATEMENT_TIMEOUT, {"most": most})
                    await sample_minute(conn)
            except DATABASE_ERRORS as error:
                log.warning("minutes.not_counted", error=type(error).__name__)
        await wait_for_stop(stop, UNREADY_SECONDS if resources.unready else _to_next_minute())


def _to_next_minute() -> float:
    """Seconds; a bit more, so that the database's clock has come to it, too."""
    return 60.0 - time() % 60.0 + random.uniform(0.5, 2.0)


async def watch(resources: Resources, stop: asyncio.Event) -> None:
    """Tell of what goes wrong in silence, for ever: an api looks when no worker is left to."""
    watched = Watch(resources.settings.limits)
    while not stop.is_set():
        await wait_for_stop(stop, resources.settings.watch_seconds)
        if resources.unready is None and not stop.is_set():
            async with resources.background.connect() as conn:
                await watched.look(conn)


async def tell_alerts(resources: Resources, stop: asyncio.Event) -> None:
    """Look at the alert rules and tell people, for ever: no worker is needed for it."""
    settings, engine = resources.settings, resources.background
    async with open_alerting(engine, settings, deployment=settings.queue_prefix) as alerting:
        while not stop.is_set():
            await wait_for_stop(stop, settings.alert_seconds)
            if resources.unready is None and not stop.is_set():
                await alerting.step()
