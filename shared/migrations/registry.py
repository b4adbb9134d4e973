"""Which tasks this process knows: ours, those of entry points, those of CHOT_TASK_MODULES."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.metadata import entry_points
from types import ModuleType

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from shared.errors import ConfigRefused
from shared.kinds.names import NAME, exported, import_setting, split_modules
from shared.migrations import TaskSpec

BUILT_IN: tuple[str, ...] = ("shared.migrations.books", "shared.migrations.imports")


class TaskSettings(BaseSettings):
    """Where tasks come from, for api and worker alike."""

    model_config = SettingsConfigDict(env_prefix="CHOT_", extra="ignore")

    task_modules: str = Field("", description="modules with TASKS, comma separated")


@lru_cache
def load_tasks(modules: str) -> Mapping[str, TaskSpec]:
    """Load every task by name; ConfigRefused for one that breaks a rule or is there twice."""
    tasks: dict[str, TaskSpec] = {}
    for source, spec in _declared(modules):
        refuse_unsound_task(source, spec)
        if spec.name in tasks and tasks[spec.name] is not spec:
            raise ConfigRefused(f"task {spec.name!r} is declared twice, the second in {source}")
        tasks[spec.name] = spec
    return tasks


def known_tasks() -> Mapping[str, TaskSpec]:
    """Every task that this process's environment names."""
    return load_tasks(TaskSettings().task_modules)


def _declared(modules: str) -> Iterable[tuple[str, TaskSpec]]:
    for name in (*BUILT_IN, *split_modules(modules)):
        yield from ((name, spec) for spec in exported(import_setting(name, "TASK"), "TASKS"))
    for point in entry_points(group="chot.tasks"):
        loaded = point.load()
        specs = exported(loaded, "TASKS") if isinstance(loaded, ModuleType) else loaded
        yield from ((f"entry point {point.name}", spec) for spec in specs)


def refuse_unsound_task(source: str, spec: TaskSpec) -> None:
    """ConfigRefused for a declaration that nobody could ask for."""
    if not NAME.fullmatch(spec.name):
        raise ConfigRefused(f"{source}: task name {spec.name!r} is not dotted lower-case words")
    if spec.version < 1:
        raise ConfigRefused(f"{source}: task {spec.name}: version={spec.version} must be ≥ 1")
    if spec.params.model_config.get("extra") != "forbid":
        raise ConfigRefused(
            f"{source}: task {spec.name}: its params must refuse unknown members "
            "(subclass shared.kinds.Payload)"
        )
