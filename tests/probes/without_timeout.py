"""A kind module that start-up must refuse: its kind has no timeout."""

from shared.kinds import Kind
from tests.probes.kinds import Probe

KINDS = (
    Kind(name="probe.endless", payload=Probe, fingerprint_fields=("number",)),  # type: ignore[call-arg] # on purpose
)
