"""Probe kinds that make groups: one that spawns, one that gathers what became of the others."""

from datetime import timedelta

from shared.kinds import Kind
from tests.probes.kinds import FAST, Probe


class Fan(Probe):
    """Spawn `children` probe.write jobs (their numbers follow this one's), and a gathering."""

    children: int = 1
    seconds: float = 0.0
    policy: str = "join"


class Split(Probe):
    """Spawn `children` probe.write jobs, wait for them, and gather what they have written."""

    children: int = 1
    seconds: float = 0.0


class Gather(Probe):
    """Count what became of the members, and write one effect."""


KINDS = (
    Kind(
        name="probe.split",
        payload=Split,
        timeout=timedelta(seconds=60),
        retry=FAST,
        fingerprint_fields=("number",),
    ),
    Kind(
        name="probe.fan",
        payload=Fan,
        timeout=timedelta(seconds=60),
        retry=FAST,
        fingerprint_fields=("number",),
    ),
    Kind(
        name="probe.gather",
        payload=Gather,
        timeout=timedelta(seconds=60),
        retry=FAST,
        fingerprint_fields=("number",),
    ),
)
