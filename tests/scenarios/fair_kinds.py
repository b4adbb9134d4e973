"""Kinds of different lengths: long, long with a maximum, and short with somebody waiting."""

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
    Kind(
        name="probe.ask",
        payload=Misbehave,
        timeout=timedelta(seconds=60),
        retry=FAST,
        fingerprint_fields=("number",),
        queue="interactive",
    ),
)
HANDLERS = tuple(Handler(kind=kind.name, run=misbehave) for kind in KINDS)
