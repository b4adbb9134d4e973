"""Which handler runs which kind: ours, those of entry points, those of CHOT_HANDLER_MODULES."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

from shared.errors import ConfigRefused
from shared.kinds import Kind
from shared.kinds.names import exported, import_setting, split_modules
from worker.context import CleanupContext, JobContext

BUILT_IN = (
    "worker.handlers.cost_documents",
    "worker.handlers.costing",
    "worker.handlers.costing_part",
    "worker.handlers.exporting",
    "worker.handlers.ledger_exports",
    "worker.handlers.migrating",
    "worker.handlers.periods",
    "worker.handlers.posting",
    "worker.handlers.unposting",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """The code of one kind.

    `run(context, payload)` returns a JSON-able result, or None. `cleanup(context)` removes, in
    one transaction, what attempts left behind that the job's end (dead, cancelled) has made
    worthless; it must be idempotent.
    """

    kind: str
    run: Callable[[JobContext, Any], Awaitable[Any]]
    cleanup: Callable[[CleanupContext], Awaitable[None]] | None = None


def load_handlers(modules: str, kinds: Mapping[str, Kind]) -> Mapping[str, Handler]:
    """Load every handler by kind; ConfigRefused for one of an unknown kind or there twice."""
    handlers: dict[str, Handler] = {}
    for source, handler in _declared(modules):
        if handler.kind not in kinds:
            raise ConfigRefused(
                f"{source}: handler of kind {handler.kind!r}, which no kind module declares "
                "(CHOT_KIND_MODULES, entry point chot.kinds)"
            )
        if handler.kind in handlers and handlers[handler.kind] is not handler:
            raise ConfigRefused(f"kind {handler.kind!r} has two handlers, the second in {source}")
        handlers[handler.kind] = handler
    return handlers


def _declared(modules: str) -> Iterable[tuple[str, Handler]]:
    for name in (*BUILT_IN, *split_modules(modules)):
        yield from ((name, each) for each in exported(import_setting(name, "HANDLER"), "HANDLERS"))
    for point in entry_points(group="chot.handlers"):
        loaded = point.load()
        found = exported(loaded, "HANDLERS") if isinstance(loaded, ModuleType) else loaded
        yield from ((f"entry point {point.name}", each) for each in found)
