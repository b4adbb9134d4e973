"""Handlers of the probe kinds with business locks: those of the other probes."""

from tests.probes.handlers import write, write_at_the_end
from worker.handlers import Handler

HANDLERS = (
    *(Handler(kind=f"locked.{name}", run=write) for name in ("write", "read", "both", "two")),
    *(Handler(kind=f"locked.{name}", run=write_at_the_end) for name in ("merge", "follow")),
)
