"""Kinds for what grows: jobs as small as jobs can be, and one that counts what its process holds."""

from datetime import timedelta

from shared.kinds import Kind
from tests.probes.kinds import FAST, Probe


class Tiny(Probe):
    """Nothing but a number."""


class Census(Probe):
    """Nothing but a number."""


KINDS = tuple(
    Kind(
        name=name,
        payload=payload,
        timeout=timedelta(seconds=60),
        retry=FAST,
        fingerprint_fields=("number",),
    )
    for name, payload in (("probe.tiny", Tiny), ("probe.census", Census))
)
