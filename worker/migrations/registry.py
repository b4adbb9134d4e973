"""Which tasks this worker can run: ours, those of entry points, CHOT_MIGRATION_MODULES."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.metadata import entry_points
from types import ModuleType

from shared.errors import ConfigRefused
from shared.kinds.names import exported, import_setting, split_modules
from shared.migrations.registry import known_tasks
from worker.migrations.task import Task
from worker.settings import MigrationSettings

BUILT_IN: tuple[str, ...] = (
    "worker.migrations.accounts",
    "worker.migrations.backfill",
    "worker.migrations.importing",
    "worker.migrations.pools",
)


@lru_cache
def load_migrations(modules: str) -> Mapping[str, Task]:
    """Load every task's code by name; ConfigRefused for one of no known task, or there twice."""
    tasks: dict[str, Task] = {}
    for source, task in _declared(modules):
        name = task.spec.name
        if known_tasks().get(name) is not task.spec:
            raise ConfigRefused(
                f"{source}: code of task {name!r}, which no task module declares so "
                "(CHOT_TASK_MODULES, entry point chot.tasks)"
            )
        if name in tasks and tasks[name] is not task:
            raise ConfigRefused(f"task {name!r} has its code twice, the second in {source}")
        tasks[name] = task
    return tasks


def runnable_tasks() -> Mapping[str, Task]:
    """Every task that this process's environment names the code of."""
    return load_migrations(MigrationSettings().migration_modules)


def _declared(modules: str) -> Iterable[tuple[str, Task]]:
    for name in (*BUILT_IN, *split_modules(modules)):
        found = exported(import_setting(name, "MIGRATION"), "MIGRATIONS")
        yield from ((name, task) for task in found)
    for point in entry_points(group="chot.migrations"):
        loaded = point.load()
        found = exported(loaded, "MIGRATIONS") if isinstance(loaded, ModuleType) else loaded
        yield from ((f"entry point {point.name}", task) for task in found)
