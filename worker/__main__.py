"""`python -m worker`: settings sound, kinds and handlers known, then work."""

import gc

if __name__ == "__main__":
    gc.disable()  # what is imported stays; spare_the_collector() lets it collect again

import asyncio
import sys
from collections.abc import Mapping

from shared.errors import ConfigRefused
from shared.kinds import Kind
from shared.kinds.registry import load_kinds
from shared.library_logs import route_library_logs, tell_uncaught
from shared.logs import add_alert_hook, configure_logs
from shared.pauses import spare_the_collector
from shared.settings import EX_CONFIG, load
from shared.tracing import spans, start_spans
from worker.handlers import Handler, load_handlers
from worker.migrations.registry import load_migrations
from worker.service import Worker
from worker.settings import WorkerSettings


def main() -> int:
    """Run a worker; the exit code is 0 after a drain, 70 for a stuck slot, 78 for the settings."""
    if not __debug__:
        sys.stderr.write("chot worker: refuses to run under -O: its assertions are part of it\n")
        return EX_CONFIG
    try:
        settings = load(WorkerSettings)
        configure_logs(settings.log_format)
        route_library_logs()
        tell_uncaught()
        start_spans("chot-worker")
        if settings.alert_hook:
            add_alert_hook(settings.alert_hook)
        kinds = load_kinds(settings.kind_modules)
        handlers = load_handlers(settings.handler_modules, kinds)
        load_migrations(settings.migration_modules)
        spare_the_collector()
        return asyncio.run(_run(settings, kinds, handlers))
    except ConfigRefused as error:
        sys.stderr.write(f"chot worker: {error}\n")
        return EX_CONFIG
    finally:
        spans().close()


async def _run(
    settings: WorkerSettings, kinds: Mapping[str, Kind], handlers: Mapping[str, Handler]
) -> int:
    return await Worker(settings, kinds, handlers).run()


if __name__ == "__main__":
    sys.exit(main())
