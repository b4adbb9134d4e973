"""Checks: everything that a worker's start would refuse, without starting it."""

from shared.kinds.registry import load_kinds
from shared.settings import load
from worker.handlers import load_handlers
from worker.migrations.registry import load_migrations
from worker.settings import (
    MAINTENANCE_CONNECTIONS,
    PoolBudget,
    WorkerSettings,
    pool_size_of,
    slots_of,
)

HEARTBEAT_CONNECTIONS = 2


def refuse_config() -> int:
    """Answer the connections that such a worker opens at most; ConfigRefused as its start would."""
    settings = load(WorkerSettings)
    kinds = load_kinds(settings.kind_modules)
    handlers = load_handlers(settings.handler_modules, kinds)
    load_migrations(settings.migration_modules)
    slots = slots_of(settings, {kinds[name].queue for name in handlers})
    budget = PoolBudget(slots=sum(slots.values()), receivers=len(slots))
    size = pool_size_of(settings, budget)
    assert size >= MAINTENANCE_CONNECTIONS, "a pool that serves nothing is refused above"
    return size + budget.slots + HEARTBEAT_CONNECTIONS
