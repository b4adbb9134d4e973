"""The pools of a worker: one for the protocol's own short statements, one for jobs, one to read."""

from collections.abc import Mapping
from contextlib import AsyncExitStack

from sqlalchemy.exc import ArgumentError, InvalidRequestError
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.database import open_engine
from shared.errors import ConfigRefused
from shared.outages import check_before_use, tell_outages
from shared.signals import watch_pool
from worker.context import Engines
from worker.settings import MAINTENANCE_CONNECTIONS, PoolBudget, WorkerSettings, pool_size_of


def open_engines(
    stack: AsyncExitStack, settings: WorkerSettings, slots: Mapping[str, int]
) -> Engines:
    """Open them with the stack; nothing is asked of the network. ConfigRefused for a broken URL."""
    timing = settings.timing
    budget = PoolBudget(slots=sum(slots.values()), receivers=len(slots))
    size = pool_size_of(settings, budget)
    url = settings.database_url.get_secret_value()
    read_url = settings.read_database_url

    def opened(
        url: str, size: int, pool: str, name: str, command: float | None = None
    ) -> AsyncEngine:
        try:
            engine = open_engine(
                url,
                pool_size=size,
                application_name=name,
                command_timeout=command,
                pool_timeout=2 * timing.lease,
            )
        except (ArgumentError, InvalidRequestError, ImportError):
            # Without the error's own words: they may hold the password.
            said = "is no URL of a PostgreSQL, such as postgresql://chot_app@host:5432/chot"
            raise ConfigRefused(f"CHOT_DATABASE_URL or CHOT_READ_DATABASE_URL {said}") from None
        stack.push_async_callback(engine.dispose)
        return tell_outages(watch_pool(pool, engine))

    # What a handler runs may take as long as its lease is renewed. The protocol's own short
    # statements must not hang on a half-open connection: they are given up within a lease.
    for_jobs = budget.slots + MAINTENANCE_CONNECTIONS
    auto = opened(url, size - for_jobs, "protocol", "chot worker", timing.statement)
    app = opened(url, for_jobs, "jobs", "chot worker job")
    patience = max(1.0, timing.heartbeat)
    reader = url if read_url is None else read_url.get_secret_value()
    read = opened(reader, budget.slots, "read", "chot worker read")
    return Engines(
        app=check_before_use(app, seconds=patience),
        auto=auto.execution_options(isolation_level="AUTOCOMMIT"),
        read=check_before_use(read, seconds=patience),
    )
