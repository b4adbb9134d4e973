"""A kind module that start-up must refuse: its kind has no timeout to speak of."""

from datetime import timedelta

from shared.kinds import Kind
from tests.probes.kinds import Probe

KINDS = (
    Kind(
        name="probe.endless",
        payload=Probe,
        timeout=timedelta(0),
        fingerprint_fields=("number",),
    ),
)
