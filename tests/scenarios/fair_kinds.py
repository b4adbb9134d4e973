"""A long kind of which at most three may run at once, beside the probes in their queue."""

from datetime import timedelta

from shared.kinds import Kind
from tests.probes.handlers import misbehave
from tests.probes.kinds import FAST, Misbehave
from worker.handlers import Handler

MOST = 3

KINDS = (
    Kind(
        name="probe.migrate",
        payload=Misbehave,
        timeout=timedelta(minutes=20),
        retry=FAST,
        fingerprint_fields=("number",),
        max_running=MOST,
    ),
    Kind(
        name="probe.convert",
        payload=Misbehave,
        timeout=timedelta(minutes=20),
        retry=FAST,
        fingerprint_fields=("number",),
        queue="migration",
    ),
)
HANDLERS = tuple(Handler(kind=kind.name, run=misbehave) for kind in KINDS)
