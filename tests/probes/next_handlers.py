"""Handlers of the next version's kinds."""

from tests.probes.handlers import HANDLERS as HANDLERS_BEFORE
from tests.probes.handlers import write
from worker.handlers import Handler

HANDLERS = (*HANDLERS_BEFORE, Handler(kind="probe.fresh", run=write))
